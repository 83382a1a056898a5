// Draws the initial centers of k-means, with the bits of kmeans/seed.rs: every sum has one order,
// independent of the threads that compute it.
//
// A draw is `draw`, then `weigh`, which looks at all observations. Once there are many centers,
// observations are sorted into groups (`find_greatest`, `count_bins`, `fill_bins`). A draw then is
// `draw`, `open_groups`, `weigh_pieces` or `weigh_codes`, `sum_changed`, `sum_parts`: they look at
// observations that the triangle inequality does not exclude with their group or bin.

#pragma once

#include "base.cuh"
#include "kmeans/codes.cuh"
#include "kmeans/launch.cuh"

__device__ __forceinline__ double square(const double *a, const double *b, uint columns) {
  double sum = 0;
#pragma unroll 8
  for (uint k = 0; k < columns; k++) {
    double difference = a[k] - b[k];
    sum += difference * difference;
  }
  return sum;
}

// The sum of a chunk, in lane 0 only: other lanes get other values. `lane` is the sum of every
// WARP-th value, from this lane's first on. As sum_in_lanes of kmeans/seed.rs.
__device__ __forceinline__ double sum_of_lanes(double lane) {
  for (int width = WARP / 2; width > 0; width /= 2)
    lane += __shfl_down_sync(WHOLE_WARP, lane, width);
  return lane;
}

__device__ __forceinline__ uint chunks_of(uint count) { return (count + CHUNK - 1) / CHUNK; }

// Sums a chunk of the chunks' sums, by a warp.
__device__ void sum_part(const Seeding &s, uint part) {
  uint chunks = chunks_of(s.rows), lane = threadIdx.x % WARP;
  double sum = 0;
#pragma unroll
  for (uint i = lane; i < CHUNK; i += WARP)
    if (part * CHUNK + i < chunks) sum += s.sums[part * CHUNK + i];
  sum = sum_of_lanes(sum);
  if (lane == 0) s.parts[part] = sum;
}

// Computes the sums of the weights up to each, one after the other, starting from `sum`; by one
// thread. Returns the last sum.
__device__ double add_up(const double *__restrict__ weights, double *__restrict__ totals,
                         uint count, double sum) {
  // Number of values read together.
  const uint ahead = 16;
  double next[ahead];
  uint i = 0;
  for (; i + ahead <= count; i += ahead) {
#pragma unroll
    for (uint j = 0; j < ahead; j++) next[j] = weights[i + j];
#pragma unroll
    for (uint j = 0; j < ahead; j++) totals[i + j] = sum += next[j];
  }
  for (; i < count; i++) totals[i] = sum += weights[i];
  return sum;
}

// `add_up` by all threads of the block, a chunk at a time in shared memory: `some` and `of_some`
// have room for the weights and totals of a chunk.
__device__ void add_up_all(const double *weights, double *totals, uint count, double *some,
                           double *of_some) {
  double sum = 0;
  for (uint start = 0; start < count; start += CHUNK) {
    uint here = min(CHUNK, count - start);
    if (threadIdx.x < here) some[threadIdx.x] = weights[start + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) sum = add_up(some, of_some, here, sum);
    __syncthreads();
    if (threadIdx.x < here) totals[start + threadIdx.x] = of_some[threadIdx.x];
  }
  __syncthreads();
}

// The index of the weight on which a target falls, by all threads of the block, from the sums up to
// each weight. `target` becomes the rest of the target within this weight. NONE if all weights are
// zero.
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

// Draws center number `number`, by one block.
extern "C" __global__ void __launch_bounds__(DRAW_THREADS) draw(Seeding seeding, uint number) {
  __shared__ double weights[CHUNK], totals[CHUNK];
  const Seeding &s = seeding;
  uint row = s.first;
  if (number > 0) {
    uint chunks = chunks_of(s.rows), parts = chunks_of(chunks);
    if (!s.is_grouped)
      for (uint part = threadIdx.x / WARP; part < parts; part += DRAW_THREADS / WARP)
        sum_part(s, part);
    __syncthreads();
    add_up_all(s.parts, s.totals, parts, weights, totals);
    double target = s.uniforms[number] * s.totals[parts - 1];
    row = find(s.parts, s.totals, parts, target);
    const double *values = s.sums;
    uint all = chunks;
    for (int level = 0; level < 2 && row != NONE; level++) {
      uint start = row * CHUNK, count = min(CHUNK, all - start);
      if (threadIdx.x < count) weights[threadIdx.x] = values[start + threadIdx.x];
      __syncthreads();
      if (threadIdx.x == 0) add_up(weights, totals, count, 0);
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
  if (s.is_grouped) return;
  for (uint other = threadIdx.x; other < number; other += DRAW_THREADS)
    s.pruned_below[other] =
        s.pruned_share * square(center, s.centers + (size_t)other * s.columns, s.columns);
}

// Weighs the observations with center number `number`, beside the centers before; by a warp for
// each chunk.
extern "C" __global__ void __launch_bounds__(WEIGH_THREADS) weigh(Seeding seeding, uint number) {
  // By warp: the weights of its chunk, and the observations that may be nearest to the new center.
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
    if (is_open[j]) open[warp][count + lanes_before(all)] = at;
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

// The bin of a square in its group. A greater square is never in a later bin.
__device__ __forceinline__ uint bin_of(double square, double greatest) {
  if (!(greatest > 0)) return 0;
  return BINS - 1 - min(BINS - 1, (uint)(BINS * (square / greatest)));
}

// Computes the greatest square of each group, by a thread for each observation. `greatest` must be
// 0 before.
extern "C" __global__ void find_greatest(Seeding seeding, Groups groups) {
  uint i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= seeding.rows) return;
  // Numbers that are not negative are ordered as their bits.
  ulong bits = (ulong)__double_as_longlong(seeding.squares[i]);
  ulong *greatest = (ulong *)&groups.greatest[seeding.nearest[i]];
  if (*(volatile ulong *)greatest < bits) atomicMax(greatest, bits);
}

// Computes the sizes of the bins, by a thread for each observation. `ends` must be 0 before.
extern "C" __global__ void count_bins(Seeding seeding, Groups groups) {
  uint i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= seeding.rows) return;
  uint group = seeding.nearest[i];
  uint bin = bin_of(seeding.squares[i], groups.greatest[group]);
  atomicAdd(&groups.ends[(size_t)group * BINS + bin], 1);
}

// Sorts the observations into bins, in any order within a bin, and writes their codes; by a thread
// for each. `ends` must have the starts of the bins before.
extern "C" __global__ void fill_bins(Seeding seeding, Groups groups) {
  uint i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= seeding.rows) return;
  uint group = seeding.nearest[i];
  double square = seeding.squares[i];
  uint bin = bin_of(square, groups.greatest[group]);
  uint at = atomicAdd(&groups.ends[(size_t)group * BINS + bin], 1);
  groups.sorted[at] = i;
  groups.squares[at] = square;
  if (groups.quads > 0) encode(seeding, groups, group, at, i, square);
}

// Lists the observations that may be nearer to center number `number`, by a thread for each group.
// As for `pruned_below`, an observation with a square below the limit when it was sorted is not
// nearer.
extern "C" __global__ void open_groups(Seeding seeding, Groups groups, uint number) {
  const Seeding &s = seeding;
  uint group = blockIdx.x * blockDim.x + threadIdx.x;
  if (group >= groups.groups || s.drawn[number] == NONE) return;
  double limit = s.pruned_share * square(s.centers + (size_t)number * s.columns,
                                         s.centers + (size_t)group * s.columns, s.columns);
  double greatest = groups.greatest[group];
  if (greatest < limit) return;
  size_t first = (size_t)group * BINS;
  uint start = first == 0 ? 0 : groups.ends[first - 1];
  uint end = groups.ends[first + bin_of(limit, greatest)];
  if (start == end) return;
  if (groups.quads > 0) encode_center(s, groups, group, number);
  uint at = atomicAdd(&groups.counts[0], (end - start + PIECE - 1) / PIECE);
  for (; start < end; start += min(PIECE, end - start), at++) {
    groups.pieces[at] = (ulong)min(start + PIECE, end) << 32 | start;
    groups.of_pieces[at] = group;
  }
}

// Weighs a sorted observation with center number `number`. Returns its square if it is nearer to
// this center, a negative number otherwise.
__device__ __forceinline__ double weigh_sorted(const Seeding &s, const Groups &groups, uint place,
                                               uint number) {
  uint i = groups.sorted[place];
  const double *center = s.centers + (size_t)number * s.columns;
  double now = square(s.x + (size_t)i * s.columns, center, s.columns);
  if (!(now < groups.squares[place])) return -1;
  groups.squares[place] = s.squares[i] = now;
  s.nearest[i] = number;
  uint chunk = i / CHUNK;
  if (atomicExch(&groups.is_changed[chunk], 1) == 0)
    groups.changed[atomicAdd(&groups.counts[1], 1)] = chunk;
  return now;
}

// Weighs the listed observations with center number `number`, by a warp for each piece.
extern "C" __global__ void __launch_bounds__(WEIGH_THREADS)
    weigh_pieces(Seeding seeding, Groups groups, uint number) {
  uint warps = gridDim.x * WEIGH_WARPS, count = groups.counts[0];
  for (uint at = blockIdx.x * WEIGH_WARPS + threadIdx.x / WARP; at < count; at += warps) {
    ulong piece = groups.pieces[at];
    for (uint place = (uint)piece + threadIdx.x % WARP; place < (uint)(piece >> 32); place += WARP)
      weigh_sorted(seeding, groups, place, number);
  }
}

// Weighs the listed observations that are open by their codes, by a warp for each piece.
extern "C" __global__ void __launch_bounds__(WEIGH_THREADS)
    weigh_codes(Seeding seeding, Groups groups, uint number) {
  __shared__ uint places[WEIGH_WARPS][PIECE];
  uint *open = places[threadIdx.x / WARP], lane = threadIdx.x % WARP;
  uint warps = gridDim.x * WEIGH_WARPS, count = groups.counts[0];
  for (uint at = blockIdx.x * WEIGH_WARPS + threadIdx.x / WARP; at < count; at += warps) {
    ulong piece = groups.pieces[at];
    uint start = (uint)piece, group = groups.of_pieces[at], found = 0;
    uint mine = find_open(seeding, groups, group, start, (uint)(piece >> 32));
    if (!__any_sync(WHOLE_WARP, mine != 0)) continue;
#pragma unroll
    for (int j = 0; j < PIECE_EACH; j++) {
      bool is_open = mine >> j & 1;
      uint all = __ballot_sync(WHOLE_WARP, is_open);
      if (is_open) open[found + lanes_before(all)] = start + j * WARP + lane;
      found += __popc(all);
    }
    __syncwarp();
    for (uint j = lane; j < found; j += WARP) {
      uint place = open[j];
      double now = weigh_sorted(seeding, groups, place, number);
      if (now >= 0) encode(seeding, groups, group, place, groups.sorted[place], now);
    }
    __syncwarp();
  }
}

// Sums the changed chunks, by a warp for each.
extern "C" __global__ void __launch_bounds__(WEIGH_THREADS)
    sum_changed(Seeding seeding, Groups groups) {
  const Seeding &s = seeding;
  uint lane = threadIdx.x % WARP;
  uint warps = gridDim.x * WEIGH_WARPS, count = groups.counts[1];
  for (uint at = blockIdx.x * WEIGH_WARPS + threadIdx.x / WARP; at < count; at += warps) {
    uint chunk = groups.changed[at];
    double sum = 0;
#pragma unroll
    for (uint i = lane; i < CHUNK; i += WARP)
      if (chunk * CHUNK + i < s.rows) sum += s.squares[chunk * CHUNK + i];
    sum = sum_of_lanes(sum);
    if (lane == 0) s.sums[chunk] = sum, groups.is_changed[chunk] = 0;
  }
}

// Sums all parts, by a warp for each, and empties the lists.
extern "C" __global__ void __launch_bounds__(WEIGH_THREADS)
    sum_parts(Seeding seeding, Groups groups) {
  uint part = blockIdx.x * WEIGH_WARPS + threadIdx.x / WARP;
  if (part < chunks_of(chunks_of(seeding.rows))) sum_part(seeding, part);
  if (blockIdx.x == 0 && threadIdx.x < 2) groups.counts[threadIdx.x] = 0;
}
