// Sweeps for nearest neighbours by products in half precision on tensor cores. They do the work of
// neighbours.cu in a fraction of the time, with wider margins, for the views that
// RowFrame::in_halves of single/frame.rs makes. Only `collect` is here; the other kernels are those
// of neighbours.cu.
//
// Views are stored row after row. Each 32-bit value has two coordinates in half precision; a row
// has a multiple of 16 coordinates, with zeros beyond the last. Their values are SCALE times those
// of the frame (HALF_SCALE of single/half.rs). A block has a tile of queries and processes some
// tiles of references; the coordinates of both stream through shared memory. Each warp sums the
// products of EACH_DOWN queries by EACH_ACROSS references.

#include "base.cuh"
#include "products/launch.cuh"
#include "sweep.cuh"

// Number of coordinates in one copy.
#define UNIT 8
#define UNITS (DEPTH / UNIT)
// Number of rows that all threads copy together.
#define TOGETHER (THREADS / UNITS)

// Number of sums that a thread looks at together.
#define LOOKED_AT 4

// Number of candidates that a warp hands on together.
#define HANDED (WARP / 2)
// Number of candidates that a warp has room for: up to HANDED - 1 that it still holds, and one of
// each thread.
#define FOUND (HANDED + WARP)

// Number of stages copied ahead of the current one. It is one less than it could be, so that the
// other warps can go on for another stage while one warp looks at candidates.
#define AHEAD (STAGES - 2)

// Number of tiles with allowances in shared memory. The allowances of a tile are overwritten STAGES
// + 1 tiles later, when no warp works on it any more.
#define ALLOWED (STAGES + 1)

// Index of a unit of a row within a stage, such that neither copies nor `load` have bank conflicts:
// the same unit of 8 consecutive rows is in different banks.
__device__ __forceinline__ uint place(uint row, uint unit) {
  return row * DEPTH * 2 + (unit ^ row / TURNS % UNITS) * UNIT * 2;
}

__device__ __forceinline__ void copy(uint to, const ushort *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void copy_one(float *to, const float *from) {
  uint shared = (uint)__cvta_generic_to_shared(to);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(from) : "memory");
}

// Barriers in shared memory, by address. A phase of a barrier ends when `count` threads have
// arrived.
__device__ __forceinline__ void start_barrier(uint barrier, uint count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

__device__ __forceinline__ void arrive(uint barrier) {
  asm volatile("{ .reg .b64 unused; mbarrier.arrive.shared.b64 unused, [%0]; }" ::"r"(barrier)
               : "memory");
}

// Arrives when all previous copies of the thread have completed.
__device__ __forceinline__ void arrive_after_copies(uint barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

// Waits until a phase has ended. Phases with even numbers have parity 0.
__device__ __forceinline__ void wait(uint barrier, uint parity) {
  uint ended;
  do {
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; "
                 "selp.u32 %0, 1, 0, p; }"
                 : "=r"(ended)
                 : "r"(barrier), "r"(parity)
                 : "memory");
  } while (!ended);
}

// Loads four 8 x 8 matrices of halves; each thread gives the address of a row.
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

// As `add_products`, to sums of 0.
__device__ __forceinline__ void start_products(float (&sums)[4], const uint (&a)[4], uint b0,
                                               uint b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
      : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
}

// The bits of the allowance where there is no reference, minus infinity: no sum is then above its
// threshold.
__device__ const uint NO_REFERENCE = 0x80000000u | SINGLE_INFINITY_BITS;

// Minus the frame's sum, times SQUARED_SCALE. A candidate has sum < threshold + allowance, which is
// finish(..) / SQUARED_SCALE + allowance > -threshold here.
__device__ __forceinline__ float finish(float sum) { return ABSOLUTE ? fabsf(sum) : sum; }

// Collects the references below the thresholds, for a tile of queries and some tiles of references.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    collect(const __grid_constant__ Sweep sweep, uint most_tiles) {
  extern __shared__ __align__(128) char stages[];
  __shared__ float thresholds[QUERIES]; // with opposite sign
  __shared__ float allowances[ALLOWED][REFERENCES];
  // The candidates that each warp has found and not yet handed on: sums, queries and references.
  __shared__ ulong all_found[WARPS][FOUND];
  __shared__ float looked_at[LOOKED_AT][THREADS];
  // Barriers of each stage: the copies to it have completed; all warps are done with it.
  __shared__ ulong full[STAGES], empty[STAGES];
  uint lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  uint shared = (uint)__cvta_generic_to_shared(stages);
  uint first_query = blockIdx.x * QUERIES;
  uint first_reference = sweep.first + blockIdx.y * most_tiles * REFERENCES;
  uint tiles = min(most_tiles, (sweep.last - first_reference + REFERENCES - 1) / REFERENCES);
  uint width = 2 * sweep.columns, chunks = (width + DEPTH - 1) / DEPTH;

  for (uint i = threadIdx.x; i < QUERIES; i += THREADS) {
    uint query = first_query + i;
    // All rows have the same factor. If there is no query, no sum exceeds its threshold.
    thresholds[i] = query < sweep.query_count
                        ? -fmaf(sweep.slopes[query], sweep.query(FACTOR, query), sweep.bases[query])
                        : single_infinity();
  }

  uint full_barriers = (uint)__cvta_generic_to_shared(full);
  uint empty_barriers = (uint)__cvta_generic_to_shared(empty);
  if (threadIdx.x < STAGES) {
    start_barrier(full_barriers + threadIdx.x * sizeof(ulong), THREADS);
    start_barrier(empty_barriers + threadIdx.x * sizeof(ulong), WARPS);
  }
  __syncthreads();

  // For each stage, a thread copies a unit of some queries and references. Beyond the last row, it
  // copies the last row instead, and no sum of this row is above its threshold.
  uint unit = threadIdx.x % UNITS, row = threadIdx.x / UNITS;
  constexpr int query_copies = (QUERIES + TOGETHER - 1) / TOGETHER;
  const ushort *queries[query_copies];
#pragma unroll
  for (int i = 0; i < query_copies; i++) {
    uint query = min(first_query + row + i * TOGETHER, sweep.query_count - 1);
    queries[i] = (const ushort *)(sweep.queries + query * sweep.query_step) + unit * UNIT;
  }
  uint to = shared + place(row, unit);
  uint next_tile = 0, next_chunk = 0, next_stage = 0, next_round = 0;
  auto fetch = [&]() {
    if (next_tile == tiles) return;
    uint start = next_chunk * DEPTH;
    if (next_round > 0) wait(empty_barriers + next_stage * sizeof(ulong), (next_round - 1) % 2);
    if (start + unit * UNIT < width) {
      uint stage = to + next_stage * STAGE_BYTES;
      // If a stage holds all coordinates of the queries, they stay there.
      if (chunks > 1 || next_round == 0) {
#pragma unroll
        for (int i = 0; i < query_copies; i++)
          if (row + i * TOGETHER < QUERIES)
            copy(stage + i * TOGETHER * DEPTH * 2, queries[i] + start);
      }
      uint first = first_reference + next_tile * REFERENCES + row;
#pragma unroll
      for (int i = 0; i < REFERENCES / TOGETHER; i++) {
        uint reference = min(first + i * TOGETHER, sweep.last - 1);
        copy(stage + (QUERIES + i * TOGETHER) * DEPTH * 2,
             (const ushort *)(sweep.references + reference * sweep.step) + start + unit * UNIT);
      }
    }
    for (uint i = threadIdx.x; next_chunk == 0 && i < REFERENCES; i += THREADS) {
      uint reference = first_reference + next_tile * REFERENCES + i;
      const float *scalars = sweep.references + (ulong)sweep.columns * sweep.stride;
      copy_one(&allowances[next_tile % ALLOWED][i],
               reference < sweep.last ? scalars + ALLOWANCE * sweep.stride + reference * sweep.step
                                      : (const float *)&NO_REFERENCE);
    }
    arrive_after_copies(full_barriers + next_stage * sizeof(ulong));
    if (++next_chunk == chunks) next_chunk = 0, next_tile++;
    if (++next_stage == STAGES) next_stage = 0, next_round++;
  };

  // The rows that a thread loads for the matrices: of queries, 16 rows of one unit, then of the
  // next; of references, two units of the first eight rows, then of the other eight.
  uint warp_query = warp / ACROSS * EACH_DOWN, warp_reference = warp % ACROSS * EACH_ACROSS;
  uint query_row = warp_query + lane % 16, query_unit = lane / 16;
  uint reference_row = QUERIES + warp_reference + lane % 8 + lane / 16 * 8;
  uint reference_unit = lane / 8 % 2;
  // Two buffers of each: one is loaded while the other is multiplied.
  uint a[2][EACH_DOWN / HIGH][4], b[2][EACH_ACROSS / WIDE / 2][4];
  float sums[EACH_DOWN / HIGH][EACH_ACROSS / WIDE][4];
  uint stage = 0, round = 0;
  auto load_step = [&](int step, uint turn) {
    uint from = shared + stage * STAGE_BYTES;
    uint query = from + place(query_row, query_unit + 2 * step);
    uint reference =
        from + place(reference_row, reference_unit + 2 * step) + turn * ABREAST * DEPTH * 2;
#pragma unroll
    for (int i = 0; i < EACH_DOWN / HIGH; i++) load(a[step % 2][i], query + i * HIGH * DEPTH * 2);
#pragma unroll
    for (int j = 0; j < EACH_ACROSS / WIDE / 2; j++)
      load(b[step % 2][j], reference + j * 2 * WIDE * DEPTH * 2);
  };
  auto multiply_step = [&](int step, bool is_first) {
#pragma unroll
    for (int i = 0; i < EACH_DOWN / HIGH; i++)
#pragma unroll
      for (int j = 0; j < EACH_ACROSS / WIDE; j++)
        if (is_first)
          start_products(sums[i][j], a[step % 2][i], b[step % 2][j / 2][j % 2 * 2],
                         b[step % 2][j / 2][j % 2 * 2 + 1]);
        else
          add_products(sums[i][j], a[step % 2][i], b[step % 2][j / 2][j % 2 * 2],
                       b[step % 2][j / 2][j % 2 * 2 + 1]);
  };
  // Adds what the warp has found to the candidates of the queries, one for each thread.
  ulong *found = all_found[warp];
  uint count = 0;
  auto hand_on = [&](uint at) {
    ulong entry = found[at];
    uint query = first_query + ((uint)entry >> 16),
         reference = first_reference + ((uint)entry & 0xffff);
    if (sweep.groups[reference] == sweep.query_groups[query]) return;
    uint slot = atomicAdd(sweep.counts + query, 1);
    if (slot < sweep.room)
      sweep.candidates[(size_t)query * sweep.room + slot] = entry >> 32 << 32 | reference;
  };

  for (int i = 0; i < AHEAD; i++) fetch();
  // The turns of a tile that have references.
  auto turns_of = [&](uint tile) {
    uint left = sweep.last - (first_reference + tile * REFERENCES);
    return min((uint)TURNS, (left + ABREAST - 1) / ABREAST);
  };
  uint turn = 0, turns = turns_of(0);
  auto end_turn = [&](uint &tile) {
    if (++turn < turns) return;
    turn = 0, tile++;
    turns = turns_of(tile);
  };
  for (uint tile = 0; tile < tiles; end_turn(tile)) {
    for (uint chunk = 0; chunk < chunks; chunk++) {
      if (turn == 0) {
        fetch();
        wait(full_barriers + stage * sizeof(ulong), round % 2);
      }
      load_step(0, turn);
      uint steps = min(DEPTH, width - chunk * DEPTH) / STEP;
#pragma unroll
      for (int step = 0; step < DEPTH / STEP; step++) {
        if (step == steps) break;
        if (step + 1 < steps) load_step(step + 1, turn);
        if (step == 0 && chunk == 0)
          multiply_step(step, true);
        else
          multiply_step(step, false);
      }
      if (turn + 1 < turns) continue;
      __syncwarp();
      if (lane == 0) arrive(empty_barriers + stage * sizeof(ulong));
      if (++stage == STAGES) stage = 0, round++;
    }

    // A thread has two neighbouring sums in each matrix, for `rows` rows 8 apart. Most often none
    // of them is a candidate.
    constexpr int rows = 2 * EACH_DOWN / HIGH, across = 2 * EACH_ACROSS / WIDE,
                  parts = across / LOOKED_AT;
    uint query = warp_query + lane / 4, column = turn * ABREAST + warp_reference + lane % 4 * 2;
    const float *allowed = &allowances[tile % ALLOWED][column];
    auto sum = [&](int i, int j) { return finish(sums[i / 2][j / 2][i % 2 * 2 + j % 2]); };
    float greatest[rows * parts];
#pragma unroll
    for (int j = 0; j < across; j++) {
      float allowance = allowed[j / 2 * WIDE + j % 2];
#pragma unroll
      for (int i = 0; i < rows; i++) {
        float &of_part = greatest[i * parts + j / LOOKED_AT];
        float value = fmaf(sum(i, j), 1 / SQUARED_SCALE, allowance);
        of_part = j % LOOKED_AT == 0 ? value : fmaxf(of_part, value);
      }
    }
    bool is_near = false;
#pragma unroll
    for (int i = 0; i < rows * parts; i++)
      is_near |= greatest[i] > thresholds[query + i / parts * 8];
    if (!__any_sync(WHOLE_WARP, is_near)) continue;
    uint near = 0;
#pragma unroll
    for (int i = 0; i < rows * parts; i++)
      near |= (greatest[i] > thresholds[query + i / parts * 8]) << i;
    // From here on, the code is short rather than fast: code that is not in the instruction cache
    // is slower.
    while (uint lanes = __ballot_sync(WHOLE_WARP, near)) {
      int part = __ffs(__shfl_sync(WHOLE_WARP, near, __ffs(lanes) - 1)) - 1;
      bool has = near >> part & 1;
      near &= ~(1u << part);
      // Registers cannot be indexed, so the loop must be unrolled.
#pragma unroll
      for (int i = 0; i < rows * parts; i++)
        if (i == part) {
#pragma unroll
          for (int j = 0; j < LOOKED_AT; j++)
            looked_at[j][threadIdx.x] = sum(i / parts, i % parts * LOOKED_AT + j);
        }
      uint row = query + part / parts * 8, first = part % parts * (LOOKED_AT / 2) * WIDE;
      float threshold = has ? thresholds[row] : single_infinity();
      uint bits = 0;
#pragma unroll
      for (int j = 0; j < LOOKED_AT; j++) {
        uint place = first + j / 2 * WIDE + j % 2;
        float value = fmaf(looked_at[j][threadIdx.x], 1 / SQUARED_SCALE, allowed[place]);
        bits |= (value > threshold) << j;
      }
      while (uint all = __ballot_sync(WHOLE_WARP, bits)) {
        if (bits) {
          uint j = __ffs(bits) - 1, place = first + j / 2 * WIDE + j % 2;
          found[count + lanes_before(all)] =
              (ulong)__float_as_uint(-looked_at[j][threadIdx.x] / SQUARED_SCALE) << 32 |
              (row << 16 | (tile * REFERENCES + column + place));
          bits &= bits - 1;
        }
        count += __popc(all);
        __syncwarp();
        while (count >= HANDED) {
          count -= HANDED;
          if (lane < HANDED) hand_on(count + lane);
        }
        __syncwarp();
      }
    }
  }
  if (lane < count) hand_on(lane);
}
