// Lower bounds for clusters and balls. In a wide tree, registers have no room for the coordinates,
// so the threads of a warp share a few clusters or balls at a time. In other trees, each thread has
// one cluster or ball.

#pragma once

#include "cluster/bounds.cuh"
#include "cluster/point.cuh"
#include "tree/union.cuh"

#if IS_WIDE
// Number of clusters that a warp compares with a query at a time.
#define AT_ONCE 4
// Number of balls that a warp compares with a query at a time.
#define BALLS_AT_ONCE 4
// Number of threads that share the coordinates of a ball.
#define SHARING (WARP / BALLS_AT_ONCE)

// A warp's memory for the differences between the query and AT_ONCE clusters: a float4 for each
// coordinate, with a component for each cluster. It is part of the scratch memory of distances,
// which are computed later.
__device__ __forceinline__ float4 *differences_of_warp(float *query, uint p) {
  static_assert(AT_ONCE == 4, "a component for each");
  static_assert(WARPS * sizeof(float4) <= BLOCK_TOGETHER * 3 * sizeof(double), "scratch has room");
  double *scratch = (double *)query + query_doubles(p) + 3 * p;
  return (float4 *)(((size_t)scratch + 15) / 16 * 16) + threadIdx.x / WARP * p;
}

// Sums four numbers over a warp. Returns the sum of number lane % AT_ONCE.
__device__ __forceinline__ float sum_of_one(float4 each) {
  uint lane = threadIdx.x % WARP;
  bool is_odd = lane & 1, is_second = lane & 2;
  float first = __shfl_xor_sync(WHOLE_WARP, is_odd ? each.x : each.y, 1),
        second = __shfl_xor_sync(WHOLE_WARP, is_odd ? each.z : each.w, 1);
  first += is_odd ? each.y : each.x;
  second += is_odd ? each.w : each.z;
  float sum = __shfl_xor_sync(WHOLE_WARP, is_second ? first : second, 2);
  sum += is_second ? second : first;
  for (int step = AT_ONCE; step < WARP; step *= 2) sum += __shfl_xor_sync(WHOLE_WARP, sum, step);
  return sum;
}

__device__ __forceinline__ void add_product(float4 &sum, float factor, const float4 &values) {
  sum.x = fmaf(factor, values.x, sum.x);
  sum.y = fmaf(factor, values.y, sum.y);
  sum.z = fmaf(factor, values.z, sum.z);
  sum.w = fmaf(factor, values.w, sum.w);
}

// Computes WARP rows of W d, from row `top` on, for each of a warp's differences d; by the warp,
// one row in each thread. Returns the sum of the squares of these rows for difference lane %
// AT_ONCE. W is packed as the factors of clusters.
__device__ __forceinline__ float square_of_rows(uint p, uint top, const float4 *differences,
                                                const float *factor) {
  uint lane = threadIdx.x % WARP, i = min(top + lane, p - 1), end = min(top + WARP, p);
  const float *element = factor + i;
  float4 row = {};
#pragma unroll 8
  for (uint j = 0; j < top; j++) {
    add_product(row, *element, differences[j]);
    element += p - 1 - j;
  }
#pragma unroll 8
  for (uint j = top; j < end; j++) {
    add_product(row, j <= i ? *element : 0, differences[j]);
    element += p - 1 - j;
  }
  if (top + lane >= p) row = {};
  return sum_of_one({row.x * row.x, row.y * row.y, row.z * row.z, row.w * row.w});
}

// ||W d||² for one of a warp's differences d and a cluster's factor W, by the warp; or a part of
// the sum that already exceeds `enough`. Coordinate k of d is `difference[AT_ONCE * k]`.
__device__ __forceinline__ float square_by(uint p, const float *difference, const float *factor,
                                           float enough) {
  uint lane = threadIdx.x % WARP;
  float sum = 0;
  for (uint top = 0; top < p; top += WARP) {
    uint i = top + lane;
    float row = 0;
    for (uint left = 0; left <= top; left += WARP) {
      // All elements are read before any is used, so no read waits for another read.
      float w[WARP];
#pragma unroll
      for (uint c = 0; c < WARP; c++) {
        uint j = left + c;
        w[c] = j <= i && i < p ? factor[element(p, i, j)] : 0;
      }
#pragma unroll
      for (uint c = 0; c < WARP; c++)
        row = fmaf(w[c], difference[AT_ONCE * min(left + c, p - 1)], row);
    }
    float square = row * row;
    for (int step = WARP / 2; step > 0; step /= 2)
      square += __shfl_xor_sync(WHOLE_WARP, square, step);
    sum += square;
    if (sum > enough) break;
  }
  return sum;
}

// Whether a ball can hold a cluster whose bound is below the limit, by a warp. Threads with the
// same number modulo BALLS_AT_ONCE share a ball, whose values are `stride` apart. A thread has a
// ball if it is `there`.
__device__ __forceinline__ bool shared_ball_can_compete(uint p, const float *ball, size_t stride,
                                                        bool there, const float *query, float limit,
                                                        const Margins &margins) {
  const float *mean = query + COORDINATES;
  float square = 0;
  if (there) {
#pragma unroll 16
    for (uint k = threadIdx.x % WARP / BALLS_AT_ONCE; k < p; k += SHARING) {
      float d = mean[k] - ball[k * stride];
      square = fmaf(d, d, square);
    }
  }
  for (int step = BALLS_AT_ONCE; step < WARP; step *= 2)
    square += __shfl_xor_sync(WHOLE_WARP, square, step);
  if (!there) return false;
  float error = ball[(p + RADIUS) * stride] + query[ERROR];
  return ball_competes(square, error, query[LOW] + ball[(p + BALL_LOW) * stride], limit, margins);
}

// Computes ||W d|| for the difference d between the query and the cluster of a lane, and this
// cluster's factor W; by a warp. Leaves out rows of W once the square exceeds `enough`.
struct Norms {
  uint p;
  const float4 *differences;
  __device__ __forceinline__ float operator()(uint lane, const float *factor, float enough) const {
    return __fsqrt_rn(square_by(p, (const float *)differences + lane, factor, enough));
  }
};
#else
// The coordinates of a cluster or of a ball's centre.
using TreePoint = Point<DIMENSIONS>;

// Writes the bound of the cluster at `position`, whose coordinates are `point`, to `out`; by a
// thread. `factors` has the query's factor. Returns false if the bound cannot be below `limit`, and
// always for a cluster that is gone.
__device__ bool loose_bound(const Clusters &clusters, const TreePoint &point, uint position,
                            const float *query, const float *factors, float limit,
                            const Margins &margins, Bound &out) {
  uint p = clusters.dimensions;
  const float *mean = query + COORDINATES;
  const float *scalars = row_at(clusters, position) + p * ROW_STRIDE;
  float square = point.square(p, mean);
  float low = scalars[LOW * ROW_STRIDE];
  float error = query[ERROR] + scalars[ERROR * ROW_STRIDE];
  if (!may_be_near(square, query[LOW] + low, error, limit, margins)) return false;
  auto whitened = [&](uint factor, float enough) {
    return point.whitened(p, mean, factors + factor, enough);
  };
  return bound_of(clusters.full_distances, scalars, query, square, low, error, limit, margins,
                  whitened, out);
}

// Whether a ball, whose values are `stride` apart, can hold a cluster whose bound is below the
// limit; by a thread.
__device__ __forceinline__ bool ball_can_compete(uint p, const float *ball, size_t stride,
                                                 const float *query, float limit,
                                                 const Margins &margins) {
  float square = TreePoint(p, ball, stride).square(p, query + COORDINATES);
  float error = ball[(p + RADIUS) * stride] + query[ERROR];
  return ball_competes(square, error, query[LOW] + ball[(p + BALL_LOW) * stride], limit, margins);
}

// Number of columns of a factor that are read together.
#define COLUMNS 16

// ||W d|| for the difference d between a query and the cluster at `position`, and a factor W; by a
// warp.
__device__ float whole_warp_norm(const Clusters &clusters, uint position, const float *query,
                                 const float *factor) {
  uint p = clusters.dimensions, lane = threadIdx.x % WARP;
  const float *cluster = row_at(clusters, position);
  float sum = 0;
  for (uint top = 0; top < p; top += WARP) {
    uint i = top + lane;
    float row = 0;
    for (uint left = 0; left <= top; left += WARP) {
      uint k = left + lane;
      float mine = k < p ? query[COORDINATES + k] - cluster[k * ROW_STRIDE] : 0;
      uint columns = min(p - left, (uint)WARP);
      for (uint start = 0; start < columns; start += COLUMNS) {
        float w[COLUMNS];
#pragma unroll
        for (uint c = 0; c < COLUMNS; c++) {
          uint j = left + start + c;
          w[c] = j <= i && i < p ? factor[element(p, i, j)] : 0;
        }
#pragma unroll
        for (uint c = 0; c < COLUMNS; c++)
          row = fmaf(w[c], __shfl_sync(WHOLE_WARP, mine, (start + c) % WARP), row);
      }
    }
    sum = fmaf(row, row, sum);
  }
  for (int step = WARP / 2; step > 0; step /= 2) sum += __shfl_xor_sync(WHOLE_WARP, sum, step);
  return __fsqrt_rn(sum);
}

// As `Norms` of wide trees, for clusters at consecutive positions from `first` on, one for each
// lane. Uses all rows of W.
struct Norms {
  const Clusters &clusters;
  const float *query;
  uint first;
  __device__ __forceinline__ float operator()(uint lane, const float *factor, float) const {
    return whole_warp_norm(clusters, first + lane, query, factor);
  }
};
#endif
