// The initial centers of k-means, with the bits of kmeans/seed.rs: every sum has one order, whoever
// computes it.

#pragma once

#include "base.cuh"
#include "kmeans_launch.cuh"

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
