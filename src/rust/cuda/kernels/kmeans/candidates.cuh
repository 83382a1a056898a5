// Finds the centers that may be nearer to an observation than its own center, in half precision,
// with `collect` of products.cu on tensor cores. kmeans/frame.rs derives the thresholds.

#pragma once

#include "base.cuh"
#include "kmeans/draw.cuh"
#include "kmeans/launch.cuh"
#include "sweep.cuh"

// The half nearest to a coordinate times HALF_SCALE, as half_bits of single/half.rs.
__device__ __forceinline__ ushort half_bits(float coordinate) {
  const float least_normal = 1.0f / (1 << 14);
  const uint bias = 127 - 15, more_bits = 23 - 10;
  uint bits = __float_as_uint(coordinate * HALF_SCALE), magnitude = bits & 0x7fffffff;
  float value = __uint_as_float(magnitude);
  uint half = value < least_normal ? __float_as_uint(value + 0.5f) - __float_as_uint(0.5f)
                                   : (magnitude + (1 << (more_bits - 1)) - 1 +
                                      (magnitude >> more_bits & 1) - (bias << 23)) >>
                                         more_bits;
  return half | (bits >> 16 & 0x8000);
}

// The half for coordinate k of a row, 0 beyond the last.
__device__ __forceinline__ ushort half_of(const Lloyd &lloyd, const double *row, uint k) {
  return k < lloyd.columns ? half_bits((float)lloyd.coordinate(row[k], k)) : 0;
}

// Converts the observations to half precision, a thread for each coordinate.
extern "C" __global__ void __launch_bounds__(THREADS)
    convert_observations_to_halves(Lloyd lloyd, Candidates candidates) {
  size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
  size_t row = lloyd.first + at / candidates.width;
  if (row >= lloyd.last) return;
  uint k = at % candidates.width;
  candidates.observations[at] = half_of(lloyd, lloyd.x + row * lloyd.columns, k);
}

// Converts the centers to half precision, a warp for each.
extern "C" __global__ void __launch_bounds__(THREADS)
    convert_centers_to_halves(Lloyd lloyd, Candidates candidates) {
  uint c = (blockIdx.x * THREADS + threadIdx.x) / WARP, lane = threadIdx.x % WARP;
  if (c >= lloyd.clusters) return;
  const double *center = lloyd.centers + (size_t)c * lloyd.columns;
  float *row = candidates.centers + (size_t)c * candidates.step();
  ushort *halves = (ushort *)row;
  double square = 0;
  for (uint k = lane; k < candidates.width; k += WARP) {
    halves[k] = half_of(lloyd, center, k);
    double coordinate = k < lloyd.columns ? lloyd.coordinate(center[k], k) : 0;
    square += coordinate * coordinate;
  }
  square = sum_of_lanes(square);
  float *scalars = row + candidates.width / 2;
  if (lane < SCALARS) scalars[lane] = 0;
  __syncwarp();
  if (lane == 0) {
    double half = square * lloyd.rounding * (1 - candidates.share) / 2;
    scalars[ALLOWANCE] = __double2float_ru(-half);
    candidates.numbers[c] = c;
  }
}

// The nearest of some centers. Among equally near centers, the one with the smallest number.
struct Nearest {
  double square;
  uint center;

  __device__ __forceinline__ void add(const Nearest &other) {
    if (other.square < square || (other.square == square && other.center < center)) *this = other;
  }
};

// The square of an observation's distance to a center.
__device__ __forceinline__ double square_to(const Lloyd &lloyd, size_t number, uint center) {
  return square(lloyd.x + number * lloyd.columns, lloyd.centers + (size_t)center * lloyd.columns,
                lloyd.columns);
}

// Computes the thresholds of a batch of observations: a center with a smaller sum is a candidate.
// By THRESHOLD_LANES threads for each observation. Sets the counts to zero.
extern "C" __global__ void __launch_bounds__(THREADS)
    find_thresholds(Lloyd lloyd, Candidates candidates) {
  uint i = (blockIdx.x * THREADS + threadIdx.x) / THRESHOLD_LANES;
  uint lane = threadIdx.x % THRESHOLD_LANES;
  bool there = i < candidates.rows;
  uint number = lloyd.first + lloyd.offset + (there ? i : 0), center = lloyd.cluster[number];
  const double *row = lloyd.x + (size_t)number * lloyd.columns;
  const double *to = lloyd.centers + (size_t)center * lloyd.columns;
  double square = 0, own = 0;
#pragma unroll 4
  for (uint k = lane; k < lloyd.columns; k += THRESHOLD_LANES) {
    double coordinate = lloyd.coordinate(row[k], k), difference = row[k] - to[k];
    square += coordinate * coordinate;
    own += difference * difference;
  }
#pragma unroll
  for (uint step = THRESHOLD_LANES / 2; step > 0; step /= 2) {
    square += __shfl_xor_sync(WHOLE_WARP, square, step);
    own += __shfl_xor_sync(WHOLE_WARP, own, step);
  }
  if (!there || lane > 0) return;
  // No nearer center is farther away than this, in the frame's units.
  double radius = lloyd.above(lloyd.above(lloyd.above(sqrt(own)))) * lloyd.unit;
  double others = square * lloyd.rounding * (1 - candidates.share);
  double threshold = (radius * radius * (1 + candidates.share) - others) / 2 + candidates.tiny;
  candidates.thresholds[i] = __double2float_ru(threshold);
  candidates.zeros[i] = 0;
  candidates.counts[i] = 0;
}

// Assigns each observation of a batch to the nearest of its own center and its candidates; among
// equally near ones, to the one with the smallest number. Observations with more candidates than
// there is room for become open. A warp has an observation for each lane, but computes a distance
// in each lane, because few observations have candidates, and some have many.
extern "C" __global__ void __launch_bounds__(THREADS)
    decide_candidates(Lloyd lloyd, Candidates candidates) {
  uint i = blockIdx.x * THREADS + threadIdx.x, lane = threadIdx.x % WARP;
  uint number = lloyd.first + lloyd.offset + i, count = 0, own = 0;
  if (i < candidates.rows) count = candidates.counts[i], own = lloyd.cluster[number];
  if (count > candidates.room) {
    lloyd.open[atomicAdd(lloyd.open_count, 1)] = number;
    count = 0;
  }
  // The distances of the warp's observations are consecutive.
  uint distances = count > 0 ? count + 1 : 0, end = distances;
  for (uint step = 1; step < WARP; step *= 2) {
    uint before = __shfl_up_sync(WHOLE_WARP, end, step);
    if (lane >= step) end += before;
  }
  uint start = end - distances, all = __shfl_sync(WHOLE_WARP, end, WARP - 1);
  Nearest nearest = {infinity(), own};
  for (uint first = 0; first < all; first += WARP) {
    uint distance = first + lane, of = 0;
    for (uint step = WARP / 2; step > 0; step /= 2)
      if (__shfl_sync(WHOLE_WARP, end, of + step - 1) <= distance) of += step;
    uint which = distance - __shfl_sync(WHOLE_WARP, start, of);
    uint own_of = __shfl_sync(WHOLE_WARP, own, of);
    Nearest here = {infinity(), NONE};
    if (distance < all) {
      size_t row = i - lane + of;
      here.center = which == 0 ? own_of : (uint)candidates.found[row * candidates.room + which - 1];
      here.square = square_to(lloyd, lloyd.first + lloyd.offset + row, here.center);
    }
    // The first lane with a distance of an observation gets the nearest of the lanes that have one.
    for (uint step = 1; step < WARP; step *= 2) {
      Nearest other = {__shfl_down_sync(WHOLE_WARP, here.square, step),
                       __shfl_down_sync(WHOLE_WARP, here.center, step)};
      uint of_other = __shfl_down_sync(WHOLE_WARP, of, step);
      if (lane + step < WARP && of_other == of) here.add(other);
    }
    uint from = max(start, first) - first;
    Nearest found = {__shfl_sync(WHOLE_WARP, here.square, from % WARP),
                     __shfl_sync(WHOLE_WARP, here.center, from % WARP)};
    if (count > 0 && start < first + WARP && end > first) nearest.add(found);
  }
  if (nearest.center == own) return;
  lloyd.cluster[number] = nearest.center;
  *lloyd.changed = 1;
}

// Assigns open observations, by a block for each.
extern "C" __global__ void __launch_bounds__(THREADS) decide_few(Lloyd lloyd) {
  __shared__ Nearest of_threads[THREADS];
  uint number = lloyd.open[blockIdx.x];
  Nearest nearest = {infinity(), NONE};
  for (uint center = threadIdx.x; center < lloyd.clusters; center += THREADS)
    nearest.add({square_to(lloyd, number, center), center});
  of_threads[threadIdx.x] = nearest;
  for (uint step = THREADS / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) of_threads[threadIdx.x].add(of_threads[threadIdx.x + step]);
  }
  if (threadIdx.x > 0 || lloyd.cluster[number] == of_threads[0].center) return;
  lloyd.cluster[number] = of_threads[0].center;
  *lloyd.changed = 1;
}
