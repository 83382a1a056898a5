// Compares observations with all centers in single precision, by lower bounds, which
// kmeans/screen.rs derives.

#pragma once

#include "base.cuh"
#include "kmeans/launch.cuh"

// Writes a row's coordinates in single precision to a tile. Returns the sum of their squares.
__device__ double write_coordinates(const Lloyd &lloyd, const double *row, double sign, float *to) {
  double square = 0;
#pragma unroll 4
  for (uint k = 0; k < lloyd.columns; k++) {
    double coordinate = lloyd.coordinate(row[k], k);
    square += coordinate * coordinate;
    to[(size_t)k * TILE] = (float)(sign * coordinate);
  }
  return square;
}

// Converts the observations to single precision, with the sign reversed, so that products are
// subtracted; by a block for each tile.
extern "C" __global__ void __launch_bounds__(TILE) convert_observations(Lloyd lloyd) {
  uint i = blockIdx.x * TILE + threadIdx.x, row = lloyd.first + i;
  if (row >= lloyd.last) return;
  float *to = lloyd.single_observations + (size_t)blockIdx.x * TILE * lloyd.columns + threadIdx.x;
  double square = write_coordinates(lloyd, lloyd.x + (size_t)row * lloyd.columns, -1, to);
  lloyd.errors[i] = -__double2float_ru(lloyd.share * sqrt(square));
}

// Converts the centers to single precision, by a block for each tile. Beyond the last center,
// halves are infinite, so bounds there are infinite, too, and never the least.
extern "C" __global__ void __launch_bounds__(TILE) convert_centers(Lloyd lloyd) {
  uint c = blockIdx.x * TILE + threadIdx.x;
  float *to = lloyd.single_centers + (size_t)blockIdx.x * TILE * lloyd.columns + threadIdx.x;
  float half = single_infinity(), norm = 0;
  if (c < lloyd.clusters) {
    const double *center = lloyd.centers + (size_t)c * lloyd.columns;
    double square = write_coordinates(lloyd, center, 1, to);
    half = __double2float_rd(square / 2 * (1 - lloyd.share) - lloyd.tiny);
    norm = __double2float_ru(sqrt(square));
  } else {
    for (uint k = 0; k < lloyd.columns; k++) to[(size_t)k * TILE] = 0;
  }
  lloyd.halves[c] = half;
  lloyd.norms[c] = norm;
}

// The least two bounds of an observation, and the center of the least one.
struct Least {
  float least, next;
  uint center;

  __device__ __forceinline__ void add(float bound, uint of) {
    next = fminf(next, fmaxf(bound, least));
    center = bound < least ? of : center;
    least = fminf(bound, least);
  }

  // Adds the bounds of other centers.
  __device__ __forceinline__ void add(const Least &other) {
    next = fminf(fminf(next, other.next), fmaxf(least, other.least));
    center = other.least < least ? other.center : center;
    least = fminf(least, other.least);
  }
};

// Whether an observation is certainly nearer to a center than to all others, by the next bound; by
// two threads, with `part` 0 and 1.
__device__ bool proves(const Lloyd &lloyd, const double *row, uint center, float next, uint part) {
  const double *to = lloyd.centers + (size_t)center * lloyd.columns;
  double square = 0, own = 0;
#pragma unroll 4
  for (uint k = part; k < lloyd.columns; k += 2) {
    double coordinate = lloyd.coordinate(row[k], k), difference = row[k] - to[k];
    square += coordinate * coordinate;
    own += difference * difference;
  }
  square += __shfl_xor_sync(WHOLE_WARP, square, 1);
  own += __shfl_xor_sync(WHOLE_WARP, own, 1);
  double others = square * lloyd.rounding + 2 * (double)next;
  others = sqrt(others > 0 ? others : 0) / lloyd.unit;
  return lloyd.above(lloyd.above(sqrt(own))) < lloyd.below(lloyd.below(others));
}

// Assigns observations to the centers that are certainly nearest; the others become open. By a
// block for each tile of observations.
extern "C" __global__ void __launch_bounds__(THREADS, 2) screen(Lloyd lloyd) {
  // Two buffers of each: one is filled while the other is read.
  __shared__ float4 observations[2][DEPTH][TILE / 4], centers[2][DEPTH][TILE / 4];
  __shared__ float errors[TILE], nexts[TILE];
  __shared__ uint nearest[TILE];
  uint across = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS;
  uint first = lloyd.offset + blockIdx.x * TILE;
  if (threadIdx.x < TILE) {
    bool there = lloyd.first + first + threadIdx.x < lloyd.last;
    errors[threadIdx.x] = there ? lloyd.errors[first + threadIdx.x] : 0;
  }
  Least least[EACH];
#pragma unroll
  for (int i = 0; i < EACH; i++) least[i] = {single_infinity(), single_infinity(), 0};

  // The values that a thread loads into shared memory: four values of one coordinate, of
  // observations and of centers. They are requested while the previous coordinates are processed.
  uint depth = threadIdx.x / (TILE / 4), at = threadIdx.x % (TILE / 4);
  const float4 *next_of_observations = (const float4 *)lloyd.single_observations +
                                       (size_t)(first / TILE) * lloyd.columns * (TILE / 4);
  const float4 *next_of_centers = (const float4 *)lloyd.single_centers;
  float4 next_observations, next_centers;
  uint next_tile = 0, next_start = 0;
  auto fetch = [&]() {
    uint k = next_start + depth;
    float4 zeros = {0, 0, 0, 0};
    bool there = k < lloyd.columns;
    size_t from = (size_t)k * (TILE / 4) + at;
    next_observations = there ? next_of_observations[from] : zeros;
    next_centers = there ? next_of_centers[from] : zeros;
    next_start += DEPTH;
    if (next_start < lloyd.columns) return;
    next_tile += TILE;
    next_start = 0;
    next_of_centers += (size_t)lloyd.columns * (TILE / 4);
  };
  fetch();
  __syncthreads();
  for (uint tile = 0, half = 0; tile < lloyd.clusters; tile += TILE) {
    float bounds[EACH][EACH];
    {
      const float4 *halves = (const float4 *)(lloyd.halves + tile);
      const float4 *norms = (const float4 *)(lloyd.norms + tile);
#pragma unroll
      for (int j = 0; j < EACH; j += 4) {
        float4 start = halves[j / 4 * ACROSS + across], norm = norms[j / 4 * ACROSS + across];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
          float error = errors[i / 4 * DOWN * 4 + down * 4 + i % 4];
          bounds[i][j] = fmaf(error, norm.x, start.x);
          bounds[i][j + 1] = fmaf(error, norm.y, start.y);
          bounds[i][j + 2] = fmaf(error, norm.z, start.z);
          bounds[i][j + 3] = fmaf(error, norm.w, start.w);
        }
      }
    }
    for (uint start = 0; start < lloyd.columns; start += DEPTH, half ^= 1) {
      observations[half][depth][at] = next_observations;
      centers[half][depth][at] = next_centers;
      __syncthreads();
      if (next_tile < lloyd.clusters) fetch();
      // Zeros beyond the last coordinate add nothing.
#pragma unroll
      for (uint k = 0; k < DEPTH; k++) {
        float observation[EACH], center[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i += 4) {
          float4 o = observations[half][k][i / 4 * DOWN + down];
          float4 c = centers[half][k][i / 4 * ACROSS + across];
          observation[i] = o.x, observation[i + 1] = o.y;
          observation[i + 2] = o.z, observation[i + 3] = o.w;
          center[i] = c.x, center[i + 1] = c.y, center[i + 2] = c.z, center[i + 3] = c.w;
        }
#pragma unroll
        for (int i = 0; i < EACH; i++)
#pragma unroll
          for (int j = 0; j < EACH; j++)
            bounds[i][j] = fmaf(observation[i], center[j], bounds[i][j]);
      }
    }
#pragma unroll
    for (int j = 0; j < EACH; j++)
#pragma unroll
      for (int i = 0; i < EACH; i++)
        least[i].add(bounds[i][j], tile + j / 4 * ACROSS * 4 + across * 4 + j % 4);
  }

#pragma unroll
  for (int i = 0; i < EACH; i++) {
    Least of_row = least[i];
#pragma unroll
    for (int step = ACROSS / 2; step > 0; step /= 2) {
      float other_least = __shfl_xor_sync(WHOLE_WARP, of_row.least, step);
      float other_next = __shfl_xor_sync(WHOLE_WARP, of_row.next, step);
      uint other = __shfl_xor_sync(WHOLE_WARP, of_row.center, step);
      of_row.add({other_least, other_next, other});
    }
    uint row = i / 4 * DOWN * 4 + down * 4 + i % 4;
    if (across == 0) nearest[row] = of_row.center, nexts[row] = of_row.next;
  }
  __syncthreads();

  uint mine = threadIdx.x / 2, row = lloyd.first + first + mine, center = nearest[mine];
  bool there = row < lloyd.last;
  const double *values = lloyd.x + (size_t)(there ? row : lloyd.first) * lloyd.columns;
  bool proven = proves(lloyd, values, center, nexts[mine], threadIdx.x % 2);
  bool leads = there && threadIdx.x % 2 == 0, changed = false;
  if (leads && proven && lloyd.cluster[row] != center) {
    lloyd.cluster[row] = center;
    changed = true;
  }
  if (changed) *lloyd.changed = 1;
  uint open = __ballot_sync(WHOLE_WARP, leads && !proven), lane = threadIdx.x % WARP;
  uint to = 0;
  if (lane == 0 && open) to = atomicAdd(lloyd.open_count, __popc(open));
  to = __shfl_sync(WHOLE_WARP, to, 0);
  if (leads && !proven) lloyd.open[to + lanes_before(open)] = row;
}
