// k-means, in double precision, with the bits of kmeans/mod.rs and kmeans/seed.rs: every sum has
// one order, whoever computes it.
//
// Observations and centers lie row after row.

#include "base.cuh"
#include "kmeans_launch.cuh"

// ---- where to start: kmeans/seed.rs ----

__device__ __forceinline__ double square(const double *a, const double *b, uint columns) {
  double sum = 0;
#pragma unroll 8
  for (uint k = 0; k < columns; k++) {
    double difference = a[k] - b[k];
    sum += difference * difference;
  }
  return sum;
}

// A chunk's sum, given every WARP-th value's sum: sum_in_lanes.
__device__ __forceinline__ double sum_of_lanes(double lane) {
  for (int width = WARP / 2; width > 0; width /= 2)
    lane += __shfl_down_sync(WHOLE_WARP, lane, width);
  return lane;
}

// Sums of the weights up to each, one after the other; one thread's.
__device__ void add_up(const double *__restrict__ weights, double *__restrict__ totals,
                       uint count) {
  // Values that are on their way from memory together.
  const uint ahead = 16;
  double sum = 0, next[ahead];
  uint i = 0;
  for (; i + ahead <= count; i += ahead) {
#pragma unroll
    for (uint j = 0; j < ahead; j++) next[j] = weights[i + j];
#pragma unroll
    for (uint j = 0; j < ahead; j++) totals[i + j] = sum += next[j];
  }
  for (; i < count; i++) totals[i] = sum += weights[i];
}

// Which weight a target falls on, a block's work, given the sums up to each; what is left of the
// target for it. NONE where all weights are zero.
__device__ uint find(const double *weights, const double *totals, uint count, double &target) {
  __shared__ uint last, found;
  if (threadIdx.x == 0) last = count - 1, found = 0;
  __syncthreads();
  for (uint i = threadIdx.x; i < count; i += DRAW_THREADS)
    if (totals[i] > target && (i == 0 || !(totals[i - 1] > target))) last = i;
  __syncthreads();
  for (uint i = threadIdx.x; i <= last; i += DRAW_THREADS)
    if (weights[i] > 0) atomicMax(&found, i + 1);
  __syncthreads();
  uint result = found;
  __syncthreads();
  if (result == 0) return NONE;
  result -= 1;
  if (result > 0) target -= totals[result - 1];
  return result;
}

// Draws the center with this number; a block.
extern "C" __global__ void __launch_bounds__(DRAW_THREADS) draw(Seeding seeding, uint number) {
  __shared__ double weights[CHUNK], totals[CHUNK];
  const Seeding &s = seeding;
  uint row = s.first;
  if (number > 0) {
    uint chunks = (s.rows + CHUNK - 1) / CHUNK, parts = (chunks + CHUNK - 1) / CHUNK;
    uint lane = threadIdx.x % WARP;
    for (uint part = threadIdx.x / WARP; part < parts; part += DRAW_THREADS / WARP) {
      double sum = 0;
#pragma unroll
      for (uint i = lane; i < CHUNK; i += WARP)
        if (part * CHUNK + i < chunks) sum += s.sums[part * CHUNK + i];
      sum = sum_of_lanes(sum);
      if (lane == 0) s.parts[part] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) add_up(s.parts, s.totals, parts);
    __syncthreads();
    double target = s.uniforms[number] * s.totals[parts - 1];
    row = find(s.parts, s.totals, parts, target);
    const double *values = s.sums;
    uint all = chunks;
    for (int level = 0; level < 2 && row != NONE; level++) {
      uint start = row * CHUNK, count = min(CHUNK, all - start);
      if (threadIdx.x < count) weights[threadIdx.x] = values[start + threadIdx.x];
      __syncthreads();
      if (threadIdx.x == 0) add_up(weights, totals, count);
      __syncthreads();
      row = find(weights, totals, count, target);
      if (row != NONE) row += start;
      values = s.squares;
      all = s.rows;
    }
  }
  if (threadIdx.x == 0) s.drawn[number] = row;
  if (row == NONE) return;
  const double *center = s.x + (size_t)row * s.columns;
  for (uint k = threadIdx.x; k < s.columns; k += DRAW_THREADS)
    s.centers[(size_t)number * s.columns + k] = center[k];
  for (uint other = threadIdx.x; other < number; other += DRAW_THREADS)
    s.pruned_below[other] =
        s.pruned_share * square(center, s.centers + (size_t)other * s.columns, s.columns);
}

// Weighs the observations with the center of this number beside those before; a warp for each
// chunk.
extern "C" __global__ void __launch_bounds__(WEIGH_THREADS) weigh(Seeding seeding, uint number) {
  // Of the warps' chunks: the weights, and which observations may be nearest to the new center.
  __shared__ double weights[WEIGH_WARPS][CHUNK];
  __shared__ uint open[WEIGH_WARPS][CHUNK];
  const Seeding &s = seeding;
  uint warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  uint chunk = blockIdx.x * WEIGH_WARPS + warp;
  if ((ulong)chunk * CHUNK >= s.rows || s.drawn[number] == NONE) return;
  const int each = CHUNK / WARP;
  uint start = chunk * CHUNK, count = 0;
  double weight[each];
  bool is_open[each];
#pragma unroll
  for (int j = 0; j < each; j++) {
    uint i = start + j * WARP + lane;
    bool there = i < s.rows;
    weight[j] = !there ? 0 : number == 0 ? infinity() : s.squares[i];
    is_open[j] = there && (number == 0 || !(weight[j] < s.pruned_below[s.nearest[i]]));
  }
#pragma unroll
  for (int j = 0; j < each; j++) {
    uint at = j * WARP + lane, all = __ballot_sync(WHOLE_WARP, is_open[j]);
    if (is_open[j]) open[warp][count + __popc(all & ((1u << lane) - 1))] = at;
    count += __popc(all);
    weights[warp][at] = weight[j];
  }
  __syncwarp();
  const double *center = s.centers + (size_t)number * s.columns;
  bool changed = false;
  for (uint j = lane; j < count; j += WARP) {
    uint at = open[warp][j], i = start + at;
    double now = square(s.x + (size_t)i * s.columns, center, s.columns);
    if (now < weights[warp][at]) {
      weights[warp][at] = s.squares[i] = now;
      s.nearest[i] = number;
      changed = true;
    }
  }
  if (!__any_sync(WHOLE_WARP, changed)) return;
  __syncwarp();
  double sum = 0;
#pragma unroll
  for (uint at = lane; at < CHUNK; at += WARP) sum += weights[warp][at];
  sum = sum_of_lanes(sum);
  if (lane == 0) s.sums[chunk] = sum;
}

// ---- Lloyd's iterations: kmeans/mod.rs ----

// Coordinates in shared memory at a time.
#define DEPTH 4
// Between the coordinates, so that neighbouring threads write to different banks.
#define GAP 8
#define FETCHED (ROWS * DEPTH / THREADS)

// Assigns observations to their nearest centers, of several to the one with the smallest number.
extern "C" __global__ void __launch_bounds__(THREADS, 2) assign(Lloyd lloyd) {
  // Two of each: one is filled while the other is worked on.
  __shared__ double rows[2][DEPTH][ROWS + GAP];
  __shared__ double centers[2][DEPTH][CENTERS + GAP];
  uint across = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS;
  uint first_row = lloyd.first + blockIdx.x * ROWS;
  double sums[ROWS_EACH][CENTERS_EACH] = {};
  double least[ROWS_EACH];
  uint nearest[ROWS_EACH];
#pragma unroll
  for (int i = 0; i < ROWS_EACH; i++) {
    least[i] = infinity();
    nearest[i] = 0;
  }

  // What a thread brings to shared memory: of one of the coordinates that of some observations and
  // of a center. It is asked for while the coordinates before are worked on.
  uint depth = threadIdx.x % DEPTH, at = threadIdx.x / DEPTH;
  double next_row[FETCHED], next_center;
  uint next_tile = 0, next_start = 0;
  auto fetch = [&]() {
    uint k = next_start + depth;
#pragma unroll
    for (int i = 0; i < FETCHED; i++) {
      uint row = first_row + at + i * (ROWS / FETCHED);
      bool there = k < lloyd.columns && row < lloyd.last;
      next_row[i] = there ? lloyd.x[(size_t)row * lloyd.columns + k] : 0;
    }
    uint center = next_tile + at;
    bool there = k < lloyd.columns && center < lloyd.clusters;
    next_center = there ? lloyd.centers[(size_t)center * lloyd.columns + k] : 0;
    next_start += DEPTH;
    if (next_start >= lloyd.columns) next_tile += CENTERS, next_start = 0;
  };
  fetch();
  for (uint tile = 0, start = 0, half = 0; tile < lloyd.clusters; half ^= 1) {
#pragma unroll
    for (int i = 0; i < FETCHED; i++) rows[half][depth][at + i * (ROWS / FETCHED)] = next_row[i];
    centers[half][depth][at] = next_center;
    __syncthreads();
    if (next_tile < lloyd.clusters) fetch();
#pragma unroll
    for (uint k = 0; k < DEPTH; k++) {
      // Zeros beyond the last coordinate add nothing.
      double row[ROWS_EACH], center[CENTERS_EACH];
#pragma unroll
      for (int i = 0; i < ROWS_EACH; i++) row[i] = rows[half][k][i * DOWN + down];
#pragma unroll
      for (int j = 0; j < CENTERS_EACH; j++) center[j] = centers[half][k][j * ACROSS + across];
#pragma unroll
      for (int i = 0; i < ROWS_EACH; i++)
#pragma unroll
        for (int j = 0; j < CENTERS_EACH; j++) {
          double difference = row[i] - center[j];
          sums[i][j] += difference * difference;
        }
    }
    start += DEPTH;
    if (start < lloyd.columns) continue;
#pragma unroll
    for (int j = 0; j < CENTERS_EACH; j++) {
      uint center = tile + j * ACROSS + across;
#pragma unroll
      for (int i = 0; i < ROWS_EACH; i++) {
        if (center < lloyd.clusters && sums[i][j] < least[i]) {
          least[i] = sums[i][j];
          nearest[i] = center;
        }
        sums[i][j] = 0;
      }
    }
    tile += CENTERS;
    start = 0;
  }

  bool changed = false;
#pragma unroll
  for (int i = 0; i < ROWS_EACH; i++) {
#pragma unroll
    for (int step = ACROSS / 2; step > 0; step /= 2) {
      double square = __shfl_xor_sync(WHOLE_WARP, least[i], step);
      uint center = __shfl_xor_sync(WHOLE_WARP, nearest[i], step);
      if (square < least[i] || (square == least[i] && center < nearest[i])) {
        least[i] = square;
        nearest[i] = center;
      }
    }
    uint row = first_row + i * DOWN + down;
    if (across > 0 || row >= lloyd.last || lloyd.cluster[row] == nearest[i]) continue;
    lloyd.cluster[row] = nearest[i];
    changed = true;
  }
  if (changed) *lloyd.changed = 1;
}

#define WARPS (THREADS / WARP)
// Members that are added up together, at least.
#define MEMBERS_TOGETHER 1024

// Moves each center to the mean of its members, if it has any: sums in the order of their numbers.
// A block for each, which looks for the members among all observations.
extern "C" __global__ void __launch_bounds__(THREADS) update(Lloyd lloyd) {
  __shared__ uint found[WARPS][WARP * LOOKED_AT], counts[2][WARPS];
  __shared__ uint members[MEMBERS_TOGETHER + SPAN];
  uint me = blockIdx.x, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  double *sums = lloyd.sums + (size_t)me * lloyd.columns;
  for (uint k = threadIdx.x; k < lloyd.columns; k += THREADS) sums[k] = 0;

  uint waiting = 0, size = 0;
  auto add_up = [&]() {
    // Values that are on their way from memory together.
    const uint ahead = 16;
    __syncthreads();
    for (uint k = threadIdx.x; k < lloyd.columns; k += THREADS) {
      double sum = sums[k], next[ahead];
      const double *x = lloyd.x + k;
      uint i = 0;
      for (; i + ahead <= waiting; i += ahead) {
#pragma unroll
        for (uint j = 0; j < ahead; j++) next[j] = x[(size_t)members[i + j] * lloyd.columns];
#pragma unroll
        for (uint j = 0; j < ahead; j++) sum += next[j];
      }
      for (; i < waiting; i++) sum += x[(size_t)members[i] * lloyd.columns];
      sums[k] = sum;
    }
    size += waiting;
    waiting = 0;
    __syncthreads();
  };

  const uint4 *cluster = (const uint4 *)lloyd.cluster + threadIdx.x * (LOOKED_AT / 4);
  uint4 next[LOOKED_AT / 4];
  next[0] = cluster[0];
  next[1] = cluster[1];
  for (uint start = 0, half = 0; start < lloyd.rows; half ^= 1) {
    uint of[LOOKED_AT] = {next[0].x, next[0].y, next[0].z, next[0].w,
                          next[1].x, next[1].y, next[1].z, next[1].w};
    uint first = start + threadIdx.x * LOOKED_AT;
    start += SPAN;
    if (start < lloyd.rows) {
      next[0] = cluster[start / 4];
      next[1] = cluster[start / 4 + 1];
    }
    uint mine = 0;
#pragma unroll
    for (int i = 0; i < LOOKED_AT; i++) mine += of[i] == me;
    uint until = mine;
    if (__any_sync(WHOLE_WARP, mine > 0)) {
      for (int step = 1; step < WARP; step *= 2) {
        uint before = __shfl_up_sync(WHOLE_WARP, until, step);
        if (lane >= step) until += before;
      }
      uint to = until - mine;
#pragma unroll
      for (int i = 0; i < LOOKED_AT; i++)
        if (of[i] == me) found[warp][to++] = first + i;
    }
    if (lane == WARP - 1) counts[half][warp] = until;
    __syncthreads();
    uint before = waiting;
#pragma unroll
    for (int other = 0; other < WARPS; other++) {
      waiting += counts[half][other];
      if (other < warp) before += counts[half][other];
    }
    for (uint i = lane; i < counts[half][warp]; i += WARP) members[before + i] = found[warp][i];
    __syncwarp();
    if (waiting >= MEMBERS_TOGETHER) add_up();
  }
  add_up();
  for (uint k = threadIdx.x; size > 0 && k < lloyd.columns; k += THREADS)
    lloyd.centers[(size_t)me * lloyd.columns + k] = sums[k] / (double)size;
}
