// Balls around points that are close to each other, in single precision. A search skips a ball that
// is too far away.

#pragma once

#include "block.cuh"
#include "cluster/clusters.cuh"

// The radius, raised by the rounding error of the distance in it.
__device__ __forceinline__ float rounded_radius(uint p, float radius) {
  return radius * (1.0f + ((float)p + 16.0f) / (1 << 24));
}

// Computes the ball around the points of a warp's lanes and writes it to `rows`, as number `at` of
// `count`; by the warp. A lane has a point if it is `there`: `element(k)` is its coordinate k,
// `around` its own radius, and `low` its LOW.
template <class Element>
__device__ void enclose_by_warp(uint p, Element element, bool there, float around, float low,
                                float *rows, size_t count, uint at) {
  uint members = __popc(__ballot_sync(WHOLE_WARP, there));
  float square = 0;
  for (uint k = 0; k < p; k++) {
    float x = there ? element(k) : 0;
    float center = warp_sum(x) / fmaxf((float)members, 1.0f);
    if (threadIdx.x % WARP == 0) rows[k * count + at] = center;
    float d = x - center;
    square = fmaf(d, d, square);
  }
  float radius = there ? rounded_radius(p, __fsqrt_rn(square) + around) : 0;
  low = there ? low : single_infinity();
  for (int step = WARP / 2; step > 0; step /= 2) {
    radius = fmaxf(radius, __shfl_xor_sync(WHOLE_WARP, radius, step));
    low = fminf(low, __shfl_xor_sync(WHOLE_WARP, low, step));
  }
  if (threadIdx.x % WARP > 0) return;
  rows[(p + RADIUS) * count + at] = radius;
  rows[(p + BALL_LOW) * count + at] = low;
}
