// Sweeps for nearest neighbours by products of halves on tensor cores: what neighbours.cu does, in a
// fraction of the time and with wider margins, for views that Frame::in_halves of
// backend/single.rs makes. Only `collect` is here; the other kernels are those of neighbours.cu.
//
// Views lie row after row, two halves for a number, a multiple of 16 halves, with zeros beyond the
// last. They are SCALE times what the frame says. A block has a tile of queries, and goes through
// some tiles of references; the coordinates of both stream through shared memory. Each warp adds up
// a square of EACH queries by EACH references.

#include "sweep.cuh"

typedef unsigned short ushort;

// Warps along the queries and the references of a tile, and what each does.
#define DOWN 2
#ifndef ACROSS
#define ACROSS 4
#endif
#define EACH 64
#define QUERIES (DOWN * EACH)
#define REFERENCES (ACROSS * EACH)
#define WARP 32
#define THREADS (DOWN * ACROSS * WARP)

// Coordinates in shared memory at a time, and how many such stages there are.
#define DEPTH 32
#define STAGES 4
// What one multiplication of matrices takes, by coordinates, queries and references.
#define STEP 16
#define HIGH 16
#define WIDE 8
// Copies are of so many coordinates.
#define UNIT 8
#define UNITS (DEPTH / UNIT)
// Rows that all threads copy together.
#define TOGETHER (THREADS / UNITS)

// As HALF_SCALE in backend/single.rs, squared.
#define SQUARED_SCALE ((float)(1 << 28))

// Where a unit of a row is within a stage: such that neither copies nor `load` meet in a bank.
__device__ __forceinline__ uint place(uint row, uint unit) {
  return row * DEPTH * 2 + (unit ^ row / 2 % UNITS) * UNIT * 2;
}

__device__ __forceinline__ void copy(uint to, const ushort *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// Four 8 x 8 matrices of halves, their rows being where the threads say.
__device__ __forceinline__ void load(uint (&matrices)[4], uint from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(from)
               : "memory");
}

__device__ __forceinline__ void add_products(float (&sums)[4], const uint (&a)[4], uint b0,
                                             uint b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// What the frame's sum is, but for SQUARED_SCALE.
__device__ __forceinline__ float finish(float sum) { return ABSOLUTE ? -fabsf(sum) : -sum; }

// Collects what is below the thresholds.
extern "C" __global__ void __launch_bounds__(THREADS, 8 / (DOWN * ACROSS))
    collect(const __grid_constant__ Sweep sweep, uint most_tiles) {
  extern __shared__ __align__(128) char stages[];
  __shared__ float thresholds[QUERIES];
  const uint stage_bytes = (QUERIES + REFERENCES) * DEPTH * 2;
  uint shared = (uint)__cvta_generic_to_shared(stages);
  uint first_query = blockIdx.x * QUERIES;
  uint first_reference = sweep.first + blockIdx.y * most_tiles * REFERENCES;
  uint tiles = min(most_tiles, (sweep.last - first_reference + REFERENCES - 1) / REFERENCES);
  uint width = 2 * sweep.columns, chunks = (width + DEPTH - 1) / DEPTH;

  for (uint i = threadIdx.x; i < QUERIES; i += THREADS) {
    uint query = first_query + i;
    // All rows have the same factor. Scaling by a power of two loses nothing. Nothing is below the
    // threshold of no query.
    thresholds[i] = query < sweep.query_count
                        ? fmaf(sweep.slopes[query], sweep.query(FACTOR, query), sweep.bases[query]) *
                              SQUARED_SCALE
                        : -__int_as_float(0x7f800000);
  }

  // What a thread copies: a unit of some queries and references of each stage. Beyond the last of
  // them it copies that one, whose sums come to nothing.
  uint unit = threadIdx.x % UNITS, row = threadIdx.x / UNITS;
  const ushort *queries[QUERIES / TOGETHER];
#pragma unroll
  for (int i = 0; i < QUERIES / TOGETHER; i++) {
    uint query = min(first_query + row + i * TOGETHER, sweep.query_count - 1);
    queries[i] = (const ushort *)(sweep.queries + query * sweep.query_step) + unit * UNIT;
  }
  uint to = shared + place(row, unit);
  uint next_tile = 0, next_chunk = 0, next_stage = 0;
  auto fetch = [&]() {
    uint start = next_chunk * DEPTH;
    if (next_tile < tiles && start + unit * UNIT < width) {
      uint stage = to + next_stage * stage_bytes;
#pragma unroll
      for (int i = 0; i < QUERIES / TOGETHER; i++)
        copy(stage + i * TOGETHER * DEPTH * 2, queries[i] + start);
      uint first = first_reference + next_tile * REFERENCES + row;
#pragma unroll
      for (int i = 0; i < REFERENCES / TOGETHER; i++) {
        uint reference = min(first + i * TOGETHER, sweep.last - 1);
        copy(stage + (QUERIES + i * TOGETHER) * DEPTH * 2,
             (const ushort *)(sweep.references + reference * sweep.step) + start + unit * UNIT);
      }
    }
    // Empty ones are counted, too.
    asm volatile("cp.async.commit_group;" ::: "memory");
    if (++next_chunk == chunks) next_chunk = 0, next_tile++;
    next_stage = (next_stage + 1) % STAGES;
  };
  for (int i = 0; i < STAGES - 1; i++) fetch();

  // Where a thread has its rows of the matrices: of queries two by two, of references the
  // coordinates of the first eight, then those of the others.
  uint lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  uint warp_query = warp / ACROSS * EACH, warp_reference = warp % ACROSS * EACH;
  uint query_row = warp_query + lane % 16, query_unit = lane / 16;
  uint reference_row = QUERIES + warp_reference + lane % 8 + lane / 16 * 8;
  uint reference_unit = lane / 8 % 2;
  float sums[EACH / HIGH][EACH / WIDE][4];

  uint stage = 0;
  for (uint tile = 0; tile < tiles; tile++) {
#pragma unroll
    for (int i = 0; i < EACH / HIGH; i++)
#pragma unroll
      for (int j = 0; j < EACH / WIDE; j++)
#pragma unroll
        for (int k = 0; k < 4; k++) sums[i][j][k] = 0;

    for (uint chunk = 0; chunk < chunks; chunk++) {
      asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
      // The stage is there, and all are done with that before, which is filled anew.
      __syncthreads();
      fetch();
      uint from = shared + stage * stage_bytes;
      stage = (stage + 1) % STAGES;
#pragma unroll
      for (int step = 0; step < DEPTH / STEP; step++) {
        if (chunk * DEPTH + step * STEP >= width) break;
        uint b[EACH / WIDE / 2][4];
#pragma unroll
        for (int j = 0; j < EACH / WIDE / 2; j++)
          load(b[j], from + place(reference_row, reference_unit + 2 * step) + j * 16 * DEPTH * 2);
#pragma unroll
        for (int i = 0; i < EACH / HIGH; i++) {
          uint a[4];
          load(a, from + place(query_row, query_unit + 2 * step) + i * HIGH * DEPTH * 2);
#pragma unroll
          for (int j = 0; j < EACH / WIDE; j++)
            add_products(sums[i][j], a, b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
      }
    }

    // A thread has, of rows 8 apart, two neighbours in each of the matrices.
    uint start = first_reference + tile * REFERENCES + warp_reference + lane % 4 * 2;
    float allowances[EACH / WIDE][2];
#pragma unroll
    for (int j = 0; j < EACH / WIDE; j++)
#pragma unroll
      for (int k = 0; k < 2; k++) {
        uint reference = start + j * WIDE + k;
        // No sum is below what is not a number.
        allowances[j][k] = reference < sweep.last
                               ? sweep.reference(ALLOWANCE, reference) * SQUARED_SCALE
                               : __int_as_float(0x7fc00000);
      }
#pragma unroll
    for (int i = 0; i < 2 * EACH / HIGH; i++) {
      uint at = warp_query + i * 8 + lane / 4;
      float threshold = thresholds[at];
      auto sum = [&](int j) { return finish(sums[i / 2][j / 2][i % 2 * 2 + j % 2]); };
      auto is_near = [&](int j) { return sum(j) < threshold + allowances[j / 2][j % 2]; };
      bool any = false;
#pragma unroll
      for (int j = 0; j < EACH / WIDE * 2; j++) any |= is_near(j);
      if (!any) continue;
      uint query = first_query + at, group = sweep.query_groups[query];
      uint near = 0;
#pragma unroll
      for (int j = 0; j < EACH / WIDE * 2; j++)
        if (is_near(j) && sweep.groups[start + j / 2 * WIDE + j % 2] != group) near |= 1 << j;
      if (near == 0) continue;
      uint next = atomicAdd(sweep.counts + query, __popc(near));
#pragma unroll
      for (int j = 0; j < EACH / WIDE * 2; j++) {
        if (!(near >> j & 1)) continue;
        if (next < sweep.room)
          sweep.candidates[(size_t)query * sweep.room + next] =
              (ulong)__float_as_uint(sum(j) / SQUARED_SCALE) << 32 | (start + j / 2 * WIDE + j % 2);
        next++;
      }
    }
  }
}
