// The balls around tiles of clusters.

#pragma once

#include "screen_bounds.cuh"
#include "screen_launch.cuh"

// The sum, or what `join` makes, of the values of all threads of a block of THREADS.
template <class Join> __device__ float over_block(float value, Join join) {
  __shared__ float shared[THREADS / WARP];
  for (int step = WARP / 2; step > 0; step /= 2)
    value = join(value, __shfl_xor_sync(WHOLE_WARP, value, step));
  __syncthreads();
  if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = value;
  __syncthreads();
  value = shared[0];
  for (uint i = 1; i < THREADS / WARP; i++) value = join(value, shared[i]);
  return value;
}

// Draws the balls around the tiles from `first` on, a block each.
extern "C" __global__ void __launch_bounds__(THREADS) enclose(Clusters clusters, uint first) {
  uint p = clusters.dimensions, tile = first + blockIdx.x, tiles = clusters.capacity / TILE;
  const float *mine = clusters.rows + (size_t)tile * TILE + threadIdx.x;
  float square = 0;
  for (uint k = 0; k < p; k++) {
    float x = mine[(size_t)k * clusters.capacity];
    float center = over_block(x, [](float a, float b) { return a + b; }) / TILE;
    if (threadIdx.x == 0) clusters.balls[(size_t)k * tiles + tile] = center;
    float d = x - center;
    square = fmaf(d, d, square);
  }
  float low = mine[(size_t)(p + LOW) * clusters.capacity];
  float error = mine[(size_t)(p + ERROR) * clusters.capacity];
  bool there = low >= 0;
  float slack = 1.0f + ((float)p + 16.0f) / (1 << 24);
  float radius = there ? (__fsqrt_rn(square) + error) * slack : 0;
  radius = over_block(radius, [](float a, float b) { return fmaxf(a, b); });
  low = there ? low : single_infinity();
  low = over_block(low, [](float a, float b) { return fminf(a, b); });
  if (threadIdx.x > 0) return;
  clusters.balls[(size_t)(p + RADIUS) * tiles + tile] = radius;
  clusters.balls[(size_t)(p + BALL_LOW) * tiles + tile] = low;
}
