// Lower bounds on the distances between queries and clusters, and between queries and tiles, in
// single precision throughout.
//
// mahalanobis/screen says what the bounds are and why they hold; this file follows
// screen/cpu/lower_bounds.rs term by term.

#pragma once

#include "mahalanobis.cuh"
#include "screen_launch.cuh"

// Where element (i, j), j <= i, of a packed factor is.
__device__ __forceinline__ uint element(uint p, uint i, uint j) {
  return j * p - j * (j + 1) / 2 + i;
}

// The whitening factor of this number.
__device__ __forceinline__ const float *factor_of(const Clusters &clusters, uint number) {
  return clusters.slabs[number / clusters.slab_shapes] +
         (size_t)(number % clusters.slab_shapes) * packed_length(clusters.dimensions);
}

// The margins of the bounds.
struct Margins {
  float unit, shrink, cautious, moment, slack;
  __device__ explicit Margins(uint p) {
    unit = 1.0f / (1 << 24);
    shrink = 1.0f - ((float)p + 8.0f) * unit;
    cautious = shrink * 0.999999f;
    moment = 1.0f - (4.0f * (float)p + 96.0f) * unit;
    slack = 0.5f * (1.0f - 4.0f * unit);
  }
};

// Hölder's bound on the mean norm, see screen/profile.rs.
__device__ __forceinline__ float mean_norm(float square, float distance, float variance,
                                           float fourth, float largest, float third) {
  float second = variance + square;
  float factor = fmaf(4.0f, largest, fmaf(2.00001f, variance, square));
  float total = fmaf(4.0f * third, distance, fmaf(factor, square, fourth)) + 1.17549435e-38f;
  return __fsqrt_rn(second) * __fdiv_rn(second, __fsqrt_rn(total));
}

// The coordinates of a cluster or of a ball's centre, which lie `stride` apart: in registers for up to P
// dimensions, in memory for P = 0. The means they are compared with are padded with zeros to P.
template <int P> struct Point {
  float x[P];
  // All are read together: none waits for another one.
  __device__ Point(uint p, const float *first, size_t stride) {
#pragma unroll
    for (int k = 0; k < P; k++) x[k] = k < p ? first[k * stride] : 0;
  }
  __device__ Point(const Clusters &clusters, uint position)
      : Point(clusters.dimensions, row_at(clusters, position), row_step(clusters)) {}
  __device__ __forceinline__ float square(uint, const float *mean) const {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < P; k++) {
      float d = mean[k] - x[k];
      sum = fmaf(d, d, sum);
    }
    return sum;
  }
  // ||W d||², or less where that is enough already.
  __device__ __forceinline__ float whitened(uint p, const float *mean, const float *factor,
                                            float enough) const {
    float d[P], sum = 0;
#pragma unroll
    for (int k = 0; k < P; k++) d[k] = mean[k] - x[k];
    const float4 *rows = (const float4 *)factor;
    // 4 rows of the same length at a time, so that their sums do not wait for each other.
    for (uint i = 0; i < p; i += 4) {
      uint length = i / 4 + 1;
      float values[4] = {};
#pragma unroll
      for (int group = 0; group < P / 4; group++) {
        if (group >= length) break;
#pragma unroll
        for (int r = 0; r < 4; r++) {
          // The last ones there are, where there are fewer: these do not count.
          float4 w = rows[min((uint)r, p - 1 - i) * length + group];
          values[r] = fmaf(w.x, d[4 * group], values[r]);
          values[r] = fmaf(w.y, d[4 * group + 1], values[r]);
          values[r] = fmaf(w.z, d[4 * group + 2], values[r]);
          values[r] = fmaf(w.w, d[4 * group + 3], values[r]);
        }
      }
#pragma unroll
      for (int r = 0; r < 4; r++)
        if (i + r < p) sum = fmaf(values[r], values[r], sum);
      rows += 4 * length;
      if (sum > enough) break;
    }
    return sum;
  }
};

template <> struct Point<0> {
  const float *x;
  size_t stride;
  __device__ Point(uint, const float *first, size_t stride) : x(first), stride(stride) {}
  __device__ Point(const Clusters &clusters, uint position)
      : Point(0, row_at(clusters, position), row_step(clusters)) {}
  __device__ __forceinline__ float square(uint p, const float *mean) const {
    float sum = 0;
#pragma unroll 8
    for (uint k = 0; k < p; k++) {
      float d = mean[k] - x[k * stride];
      sum = fmaf(d, d, sum);
    }
    return sum;
  }
  __device__ float whitened(uint p, const float *mean, const float *factor, float enough) const {
    float sum = 0;
    for (uint i = 0; i < p; i++) {
      float value = 0;
      for (uint j = 0; j <= i; j++) value = fmaf(factor[j], mean[j] - x[j * stride], value);
      factor += (i / 4 + 1) * 4;
      sum = fmaf(value, value, sum);
      if (sum > enough) break;
    }
    return sum;
  }
};

// A lower bound between a query and a thread's cluster; `to_target` still lacks the bound from the
// target's own factor.
struct Bound {
  float to_query, to_target, distance, error;
};

// Whether the bound may be below `limit` by the square of the distance, or by a part of it; for a
// cluster that is gone, it may not. `low` and `error` are the sums of the query's and the cluster's.
__device__ __forceinline__ bool may_be_near(float square, float low, float error, float limit,
                                            const Margins &margins) {
  float left = low * margins.cautious;
  float right = fmaf(low, error, 2.0f * limit);
  // Where both sides underflow, that tells nothing.
  return left * left * square <= right * right;
}

// The bound for the cluster at `position`, as `may_be_near` has it; `whitened(factor, enough)` is
// Point::whitened. False where it cannot be below `limit`.
template <class Whitened>
__device__ __forceinline__ bool bound_of(const Clusters &clusters, uint position,
                                         const float *query, float square, float target_low,
                                         float error, float limit, const Margins &margins,
                                         Whitened whitened, Bound &out) {
  uint p = clusters.dimensions;
  const float *scalars = row_at(clusters, position) + p * row_step(clusters);
  auto scalar = [&](uint which) { return scalars[which * row_step(clusters)]; };
  float distance = __fsqrt_rn(square);
  float near = fmaxf(distance * margins.shrink - error, 0.0f), far = near;
  if (clusters.member_distances) {
    float from_query =
        mean_norm(square, distance, query[VARIANCE], query[FOURTH], query[LARGEST], query[THIRD]);
    float from_target = mean_norm(square, distance, scalar(VARIANCE), scalar(FOURTH),
                                  scalar(LARGEST), scalar(THIRD));
    near = fmaxf(near, from_target * margins.moment - error);
    far = fmaxf(far, from_query * margins.moment - error);
  }
  out.to_query = query[LOW] * near;
  out.to_target = target_low * far;
  uint factor = __float_as_uint(query[SHAPE]);
  if (factor != NONE) {
    float lost = fmaf(query[RELATIVE], distance, query[ABSOLUTE] * error);
    // From here on the bound cannot be below the limit; a little more, for its rounding.
    float least = fmaxf(limit * 2.00001f - out.to_target + lost, 0.0f) * 1.00001f;
    float enough = least * least;
    float sum = whitened(factor, enough);
    if (sum > enough) return false;
    out.to_query = fmaxf(out.to_query, __fsqrt_rn(sum) - lost);
  }
  out.distance = distance;
  out.error = error;
  return true;
}

// False where the bound cannot be below `limit`, always so for a cluster that is gone.
template <int P>
__device__ bool loose_bound(const Clusters &clusters, const Point<P> &point, uint position,
                            const float *query, const float *factors, float limit,
                            const Margins &margins, Bound &out) {
  uint p = clusters.dimensions;
  const float *mean = query + COORDINATES;
  const float *scalars = row_at(clusters, position) + p * row_step(clusters);
  float square = point.square(p, mean);
  float low = scalars[LOW * row_step(clusters)];
  float error = query[ERROR] + scalars[ERROR * row_step(clusters)];
  if (!may_be_near(square, query[LOW] + low, error, limit, margins)) return false;
  auto whitened = [&](uint factor, float enough) {
    return point.whitened(p, mean, factors + factor, enough);
  };
  return bound_of(clusters, position, query, square, low, error, limit, margins, whitened, out);
}

// Columns of a factor that are read together.
#define COLUMNS 16

// ||W d|| for the difference d between a query and the cluster at `position`, by a whole warp.
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
      float mine = k < p ? query[COORDINATES + k] - cluster[k * row_step(clusters)] : 0;
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

// The bound from the target's own factor, by a whole warp; all lanes get it.
__device__ float bound_to_target(const Clusters &clusters, uint position, const float *query,
                                 float distance, float error) {
  uint p = clusters.dimensions;
  const float *scalars = row_at(clusters, position) + p * row_step(clusters);
  auto scalar = [&](uint which) { return scalars[which * row_step(clusters)]; };
  // Where the cluster changes meanwhile, lanes may see different ones.
  uint number = __shfl_sync(WHOLE_WARP, __float_as_uint(scalar(SHAPE)), 0);
  if (number == NONE) return 0;
  float norm = whole_warp_norm(clusters, position, query, factor_of(clusters, number));
  return norm - scalar(RELATIVE) * distance - scalar(ABSOLUTE) * error;
}

// Has the factor of this number loaded, by a warp.
__device__ __forceinline__ void touch_factor(const Clusters &clusters, uint number) {
  const char *factor = (const char *)factor_of(clusters, number);
  uint bytes = sizeof(float) * packed_length(clusters.dimensions);
  for (uint at = threadIdx.x % WARP * LINE_BYTES; at < bytes; at += WARP * LINE_BYTES)
    touch(factor + at);
}

// Whether a ball can hold a cluster whose bound is below the limit, by the square of the distance of
// its centre. `error` is its radius and the query's error, `low` the sum of both LOWs.
__device__ __forceinline__ bool ball_competes(float square, float error, float low, float limit,
                                              const Margins &margins) {
  float distance = __fsqrt_rn(square) * margins.shrink - error;
  // Also where that is no number.
  return !(fmaxf(distance, 0.0f) * low * (margins.slack * 0.999999f) >= limit);
}

// The same for a ball whose numbers are `stride` apart.
template <int P>
__device__ __forceinline__ bool ball_can_compete(uint p, const float *ball, size_t stride,
                                                 const float *query, float limit,
                                                 const Margins &margins) {
  float square = Point<P>(p, ball, stride).square(p, query + COORDINATES);
  float error = ball[(p + RADIUS) * stride] + query[ERROR];
  return ball_competes(square, error, query[LOW] + ball[(p + BALL_LOW) * stride], limit, margins);
}

// Whether a tile can hold a cluster whose bound is below the limit.
template <int P>
__device__ bool can_compete(const Clusters &clusters, uint tile, const float *query, float limit,
                            const Margins &margins) {
  if (tile * TILE >= __float_as_uint(query[END])) return false;
  if (tile >= clusters.tiles) return true;
  return ball_can_compete<P>(clusters.dimensions, clusters.balls + tile, clusters.capacity / TILE,
                             query, limit, margins);
}
