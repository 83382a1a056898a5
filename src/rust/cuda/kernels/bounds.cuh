// Lower bounds on the distances between queries and clusters, and between queries and balls, in
// single precision throughout.
//
// mahalanobis/screen says what the bounds are and why they hold; this file follows
// screen/cpu/lower_bounds.rs term by term.

#pragma once

#include "clusters.cuh"
#include "mahalanobis.cuh"

// Where element (i, j), j <= i, of a packed factor is.
__device__ __forceinline__ uint element(uint p, uint i, uint j) {
  return j * p - j * (j + 1) / 2 + i;
}

// The whitening factor of this number.
__device__ __forceinline__ const float *factor_of(const Clusters &clusters, uint number) {
  return clusters.factors + (size_t)number * packed_length(clusters.dimensions);
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

// A lower bound between a query and a thread's cluster; `to_target` still lacks the bound from the
// target's own factor.
struct Bound {
  float to_query, to_target, distance, error;
};

// Whether the bound may be below `limit` by the square of the distance, or by a part of it; for a
// cluster that is gone, it may not. `low` and `error` are the sums of the query's and the
// cluster's.
__device__ __forceinline__ bool may_be_near(float square, float low, float error, float limit,
                                            const Margins &margins) {
  float left = low * margins.cautious;
  float right = fmaf(low, error, 2.0f * limit);
  // Where both sides underflow, that tells nothing.
  return left * left * square <= right * right;
}

// The square ||W d||² from which on the bound cannot be below `limit`; a little more, for its
// rounding. `lost` is what rounding takes from ||W d||.
__device__ __forceinline__ float enough_for(float limit, float to_target, float lost) {
  float least = fmaxf(limit * 2.00001f - to_target + lost, 0.0f) * 1.00001f;
  return least * least;
}

// The bound for the cluster at `position`, as `may_be_near` has it. `whitened(factor, enough)` is
// ||W d||², or less where that is `enough` already. False where the bound cannot be below `limit`.
template <class Whitened>
__device__ __forceinline__ bool bound_of(const Clusters &clusters, uint position,
                                         const float *query, float square, float target_low,
                                         float error, float limit, const Margins &margins,
                                         Whitened whitened, Bound &out) {
  uint p = clusters.dimensions;
  const float *scalars = row_at(clusters, position) + p * ROW_STRIDE;
  auto scalar = [&](uint which) { return scalars[which * ROW_STRIDE]; };
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
    float enough = enough_for(limit, out.to_target, lost);
    float sum = whitened(factor, enough);
    if (sum > enough) return false;
    out.to_query = fmaxf(out.to_query, __fsqrt_rn(sum) - lost);
  }
  out.distance = distance;
  out.error = error;
  return true;
}

// Has the factor of this number loaded, by a warp.
__device__ __forceinline__ void touch_factor(const Clusters &clusters, uint number) {
  const char *factor = (const char *)factor_of(clusters, number);
  uint bytes = sizeof(float) * packed_length(clusters.dimensions);
  for (uint at = threadIdx.x % WARP * LINE_BYTES; at < bytes; at += WARP * LINE_BYTES)
    touch(factor + at);
}

// Whether a ball can hold a cluster whose bound is below the limit, by the square of the distance
// of its centre. `error` is its radius and the query's error, `low` the sum of both LOWs.
__device__ __forceinline__ bool ball_competes(float square, float error, float low, float limit,
                                              const Margins &margins) {
  float distance = __fsqrt_rn(square) * margins.shrink - error;
  // Also where that is no number.
  return !(fmaxf(distance, 0.0f) * low * (margins.slack * 0.999999f) >= limit);
}
