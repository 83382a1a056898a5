// Lower bounds on the distances between queries and clusters, and between queries and balls, in
// single precision.
//
// mahalanobis/screen derives the bounds; this file follows screen/cpu/lower_bounds.rs term by term.

#pragma once

#include "cluster/clusters.cuh"
#include "cluster/mahalanobis.cuh"
#include "cluster/shape.cuh"

// Largest norm of a whitened difference, in screen units, that bounds use: a sum of two such
// squares does not overflow. As in mahalanobis/screen/frame.rs.
#define LARGEST_WHITENED 1e18
// Log2 of the largest coordinate, in screen units. As in mahalanobis/screen/frame.rs.
#define LOG2_LARGEST_COORDINATE 20

// Exceeds what underflow can add to a bound: the least number that is not subnormal.
#define UNDERFLOW 1.17549435e-38f
// An upper bound on the error in the norm of a vector whose squares underflow. As in
// single_precision.rs.
#define LOST_IN_NORM (1.0f / (1 << 30) / (1 << 30) / (1 << 8))

// A coordinate in screen units, rounded to single precision. Adds the square of an upper bound on
// its rounding error to `lost`.
__device__ __forceinline__ float to_single(double exact, double &lost) {
  float single = (float)exact;
  // `exact` itself is rounded twice.
  double rounding = fabs(exact) * 2 * EPSILON + fabs(exact - (double)single);
  lost = fma(rounding, rounding, lost);
  return single;
}
// ERROR of a cluster whose coordinates' rounding errors have this sum of squares.
__device__ __forceinline__ float error_of(double lost) {
  return __double2float_ru(sqrt(lost) * 1.000001 + 1.0 / (1ull << 60));
}

// Whether a whitening factor with this stretch can be used in single precision.
__device__ __forceinline__ bool is_usable(uint p, double stretch) {
  return stretch * (1 << LOG2_LARGEST_COORDINATE) * sqrt((double)p) < LARGEST_WHITENED;
}
// Writes the scalars that depend on the whitening factor of a cluster: `stretch` is an upper bound
// on its stretch, and `low` a lower bound.
__device__ __forceinline__ void write_stretches(uint p, float *scalars, double stretch,
                                                double low) {
  double unit = 1.0 / (1 << 24);
  scalars[LOW] = __double2float_rd(low);
  scalars[RELATIVE] = __double2float_ru((2 * p + 12) * unit * stretch);
  scalars[ABSOLUTE] = __double2float_ru(1.000001 * stretch);
}

// Index of row i of a query's factor, with rows padded to whole groups of 4. In wide trees, a
// query's factor is packed column by column instead, as the factors of clusters are: this layout
// needs no more room than padded rows.
__host__ __device__ __forceinline__ constexpr uint padded_row(uint i) {
  uint group = i / 4;
  return 4 * (2 * group * (group + 1) + i % 4 * (group + 1));
}

// Index of element (i, j), j <= i, of a packed factor.
__device__ __forceinline__ uint element(uint p, uint i, uint j) {
  return j * p - j * (j + 1) / 2 + i;
}

// The whitening factor with this number.
__device__ __forceinline__ const float *factor_of(const Clusters &clusters, uint number) {
  return clusters.factors + (size_t)number * packed_length(clusters.dimensions);
}

// The next greater number in single precision, for a number that is not negative.
__device__ __forceinline__ float next_above(float value) {
  return value < single_infinity() ? __uint_as_float(__float_as_uint(value) + 1) : value;
}

// Margins of the bounds for rounding errors. `unit` is half the distance from 1 to the next greater
// number. `shrink` makes a rounded distance between means a lower bound, and `moment` a rounded
// bound on a mean norm. `cautious` is slightly less, for `may_be_near`. `slack` makes a rounded sum
// of two bounds a lower bound on their average.
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
  float total = fmaf(4.0f * third, distance, fmaf(factor, square, fourth)) + UNDERFLOW;
  return __fsqrt_rn(second) * __fdiv_rn(second, __fsqrt_rn(total));
}

// A lower bound on the distance between a query and a thread's cluster, the target. `to_query` and
// `to_target` are lower bounds on the two directed distances. `to_target` does not include the
// bound by the target's own factor yet. `distance` is the distance between the means, and `error`
// the sum of their errors.
struct Bound {
  float to_query, to_target, distance, error;
};

// Whether the bound of a cluster may be below `limit`, given the square of the distance between the
// means or a part of this square. False if LOW is NaN: in a tree, LOW of a merged cluster is GONE.
// `low` is the sum of LOW of the query and the cluster, and `error` the sum of ERROR.
__device__ __forceinline__ bool may_be_near(float square, float low, float error, float limit,
                                            const Margins &margins) {
  float left = low * margins.cautious;
  float right = fmaf(low, error, 2.0f * limit);
  // If both sides underflow, the comparison rules nothing out. Underflow of `left * square` can
  // matter only if `low` is great, and then `low * error` is greater.
  return left * (left * square) <= fmaf(right, right, UNDERFLOW);
}

// An upper bound on the loss of ||W d|| to rounding, for a whitening factor W with these values of
// RELATIVE and ABSOLUTE. `distance` is ||d||, and `error` its error.
__device__ __forceinline__ float lost_of(float relative, float absolute, float distance,
                                         float error) {
  return fmaf(relative, distance, fmaf(absolute, error, LOST_IN_NORM));
}

// The value of ||W d||² above which the bound cannot be below `limit`, raised a little for its
// rounding. `lost` is the loss of ||W d|| to rounding.
__device__ __forceinline__ float enough_for(float limit, float to_target, float lost) {
  float least = fmaxf(limit * 2.00001f - to_target + lost, 0.0f) * 1.00001f;
  return least * least;
}

// Computes the bound for a cluster. `square`, `error` and `limit` are as in `may_be_near`;
// `target_low` is LOW of the cluster alone. `scalars` are the cluster's, which are read only if
// there are `full_distances`.
// `whitened(factor, enough)` returns ||W d||², or a part of the sum that already exceeds `enough`.
// Returns false if the bound cannot be below `limit`.
template <class Whitened>
__device__ __forceinline__ bool bound_of(bool full_distances, const float *scalars,
                                         const float *query, float square, float target_low,
                                         float error, float limit, const Margins &margins,
                                         Whitened whitened, Bound &out) {
  auto scalar = [&](uint which) { return scalars[which * ROW_STRIDE]; };
  float distance = __fsqrt_rn(square);
  float near = fmaxf(distance * margins.shrink - error, 0.0f), far = near;
  if (full_distances) {
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
    float lost = lost_of(query[RELATIVE], query[ABSOLUTE], distance, error);
    float enough = enough_for(limit, out.to_target, lost);
    float sum = whitened(factor, enough);
    if (sum > enough) return false;
    out.to_query = fmaxf(out.to_query, __fsqrt_rn(sum) - lost);
  }
  out.distance = distance;
  out.error = error;
  return true;
}

// A lower bound on a distance, given the sum of lower bounds on the two directed distances; 0 if
// the sum is NaN, and never -0.
__device__ __forceinline__ float half_of(float sum, const Margins &margins) {
  float half = fmaf(margins.slack, sum, -UNDERFLOW);
  return half > 0 ? half : 0;
}

// Writes `half_of(sum)` to `value`. Returns whether it is below `limit`, or `limit` is infinite.
__device__ __forceinline__ bool is_below(float sum, float limit, const Margins &margins,
                                         float &value) {
  value = half_of(sum, margins);
  return value < limit || !(limit < single_infinity());
}

// Prefetches the factor with this number, by a warp.
__device__ __forceinline__ void prefetch_factor(const Clusters &clusters, uint number) {
  const char *factor = (const char *)factor_of(clusters, number);
  uint bytes = sizeof(float) * packed_length(clusters.dimensions);
  for (uint at = threadIdx.x % WARP * LINE_BYTES; at < bytes; at += WARP * LINE_BYTES)
    prefetch(factor + at);
}

// Whether a ball can hold a cluster whose bound is below the limit. `square` is the square of the
// distance between the query and the ball's centre, `error` the sum of the ball's radius and the
// query's error, and `low` the sum of both LOWs.
__device__ __forceinline__ bool ball_competes(float square, float error, float low, float limit,
                                              const Margins &margins) {
  float distance = __fsqrt_rn(square) * margins.shrink - error;
  float bound;
  return is_below(fmaxf(distance, 0.0f) * low * 0.999999f, limit, margins, bound);
}
