// Sweeps for nearest neighbours by products of halves on tensor cores: what neighbours.cu does, in
// a fraction of the time and with wider margins, for views that RowFrame::in_halves
// of single/frame.rs makes. Only `collect` is here; the other kernels are those of neighbours.cu.
//
// Views lie row after row, two halves for a number, a multiple of 16 halves, with zeros beyond the
// last. They are SCALE times what the frame says. A block has a tile of queries, and goes through
// some tiles of references; the coordinates of both stream through shared memory. Each warp adds up
// a square of EACH queries by EACH references.

#include "base.cuh"
#include "products_launch.cuh"
#include "sweep.cuh"

// Coordinates of one copy.
#define UNIT 8
#define UNITS (DEPTH / UNIT)
// Rows that all threads copy together.
#define TOGETHER (THREADS / UNITS)

// Candidates that a warp has room for: fewer than it hands on at a time, and all that it may find
// before it looks how many they are.
#define FOUND (WARP + WARP * EACH / WIDE)

// Where a unit of a row is within a stage: such that neither copies nor `load` meet in a bank.
__device__ __forceinline__ uint place(uint row, uint unit) {
  return row * DEPTH * 2 + (unit ^ row % UNITS) * UNIT * 2;
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
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// What the frame's sum is, but for SQUARED_SCALE.
__device__ __forceinline__ float finish(float sum) { return ABSOLUTE ? -fabsf(sum) : -sum; }

// Collects what is below the thresholds.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    collect(const __grid_constant__ Sweep sweep, uint most_tiles) {
  extern __shared__ __align__(128) char stages[];
  __shared__ float thresholds[QUERIES];
  // Sums, queries and references that each warp has found but not handed on yet.
  __shared__ ulong all_found[WARPS][FOUND];
  __shared__ uint all_counts[WARPS];
  uint lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  uint shared = (uint)__cvta_generic_to_shared(stages);
  uint first_query = blockIdx.x * QUERIES;
  uint first_reference = sweep.first + blockIdx.y * most_tiles * REFERENCES;
  uint tiles = min(most_tiles, (sweep.last - first_reference + REFERENCES - 1) / REFERENCES);
  uint width = 2 * sweep.columns, chunks = (width + DEPTH - 1) / DEPTH;

  for (uint i = threadIdx.x; i < QUERIES; i += THREADS) {
    uint query = first_query + i;
    // All rows have the same factor. Scaling by a power of two loses nothing. Nothing is below the
    // threshold of no query.
    thresholds[i] =
        query < sweep.query_count
            ? fmaf(sweep.slopes[query], sweep.query(FACTOR, query), sweep.bases[query]) *
                  SQUARED_SCALE
            : -single_infinity();
  }
  if (threadIdx.x < WARPS) all_counts[threadIdx.x] = 0;

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
      uint stage = to + next_stage * STAGE_BYTES;
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
    next_stage = next_stage == STAGES - 1 ? 0 : next_stage + 1;
  };

  // Where a thread has its rows of the matrices: of queries two by two, of references the
  // coordinates of the first eight, then those of the others.
  uint warp_query = warp / ACROSS * EACH, warp_reference = warp % ACROSS * EACH;
  uint query_row = warp_query + lane % 16, query_unit = lane / 16;
  uint reference_row = QUERIES + warp_reference + lane % 8 + lane / 16 * 8;
  uint reference_unit = lane / 8 % 2;
  // Two of each: one is loaded while the other is multiplied.
  uint a[2][EACH / HIGH][4], b[2][EACH / WIDE / 2][4];
  float sums[EACH / HIGH][EACH / WIDE][4];
  uint stage = 0;
  auto load_step = [&](int step) {
    uint from = shared + stage * STAGE_BYTES;
    uint query = from + place(query_row, query_unit + 2 * step);
    uint reference = from + place(reference_row, reference_unit + 2 * step);
#pragma unroll
    for (int i = 0; i < EACH / HIGH; i++) load(a[step % 2][i], query + i * HIGH * DEPTH * 2);
#pragma unroll
    for (int j = 0; j < EACH / WIDE / 2; j++)
      load(b[step % 2][j], reference + j * 2 * WIDE * DEPTH * 2);
  };
  auto multiply_step = [&](int step) {
#pragma unroll
    for (int i = 0; i < EACH / HIGH; i++)
#pragma unroll
      for (int j = 0; j < EACH / WIDE; j++)
        add_products(sums[i][j], a[step % 2][i], b[step % 2][j / 2][j % 2 * 2],
                     b[step % 2][j / 2][j % 2 * 2 + 1]);
  };
  // The next stage is there, and all have loaded that before, which is filled anew.
  auto next = [&]() {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
    fetch();
    stage = stage == STAGES - 1 ? 0 : stage + 1;
  };
  // Hands on what the warp has found in one place for each thread.
  ulong *found = all_found[warp];
  auto hand_on = [&](uint at) {
    ulong entry = found[at];
    uint query = first_query + ((uint)entry >> 16),
         reference = first_reference + ((uint)entry & 0xffff);
    if (sweep.groups[reference] == sweep.query_groups[query]) return;
    uint slot = atomicAdd(sweep.counts + query, 1);
    if (slot < sweep.room)
      sweep.candidates[(size_t)query * sweep.room + slot] = entry >> 32 << 32 | reference;
  };

  for (int i = 0; i < STAGES; i++) fetch();
  asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
  __syncthreads();
  for (uint tile = 0; tile < tiles; tile++) {
#pragma unroll
    for (int i = 0; i < EACH / HIGH; i++)
#pragma unroll
      for (int j = 0; j < EACH / WIDE; j++)
#pragma unroll
        for (int k = 0; k < 4; k++) sums[i][j][k] = 0;
    load_step(0);
    for (uint chunk = 0; chunk < chunks; chunk++) {
      uint steps = min(DEPTH, width - chunk * DEPTH) / STEP;
#pragma unroll
      for (int step = 0; step < DEPTH / STEP; step++) {
        if (step == steps) break;
        if (step + 1 < steps) {
          load_step(step + 1);
        } else {
          next();
          if (chunk + 1 < chunks) load_step(0);
        }
        multiply_step(step);
      }
    }

    // A thread has, of rows 8 apart, two neighbours in each of the matrices.
    uint start = tile * REFERENCES + warp_reference + lane % 4 * 2;
    float allowances[EACH / WIDE][2];
#pragma unroll
    for (int j = 0; j < EACH / WIDE; j++)
#pragma unroll
      for (int k = 0; k < 2; k++) {
        uint reference = first_reference + start + j * WIDE + k;
        // No sum is below what is not a number.
        allowances[j][k] = reference < sweep.last
                               ? sweep.reference(ALLOWANCE, reference) * SQUARED_SCALE
                               : __uint_as_float(SINGLE_QUIET_NAN_BITS);
      }
#pragma unroll
    for (int i = 0; i < 4 * EACH / HIGH; i++) {
      uint query = warp_query + i / 2 * 8 + lane / 4;
      float threshold = thresholds[query];
      auto place = [&](int j) { return i % 2 * EACH / WIDE + j; };
      auto sum = [&](int j) {
        return finish(sums[i / 4][place(j) / 2][i / 2 % 2 * 2 + place(j) % 2]);
      };
      auto is_near = [&](int j) {
        return sum(j) < threshold + allowances[place(j) / 2][place(j) % 2];
      };
      bool any = false;
#pragma unroll
      for (int j = 0; j < EACH / WIDE; j++) any |= is_near(j);
      if (!__any_sync(WHOLE_WARP, any)) continue;
      if (any) {
#pragma unroll
        for (int j = 0; j < EACH / WIDE; j++)
          if (is_near(j))
            found[atomicAdd(&all_counts[warp], 1)] =
                (ulong)__float_as_uint(sum(j) / SQUARED_SCALE) << 32 |
                (query << 16 | (start + place(j) / 2 * WIDE + place(j) % 2));
      }
      __syncwarp();
      uint count = all_counts[warp];
      __syncwarp();
      if (count < WARP) continue;
      for (; count >= WARP; count -= WARP) hand_on(count - WARP + lane);
      __syncwarp();
      if (lane == 0) all_counts[warp] = count;
      __syncwarp();
    }
  }
  if (lane < all_counts[warp]) hand_on(lane);
}
