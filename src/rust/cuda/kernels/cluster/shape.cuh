// The arithmetic of a cluster's shape: the full-size rule, the weight of the covariance, the
// elements of means, scatters and effective covariances, and the geometric mean of pivots.
//
// Decisions depend on these numbers. Each function has the bits of the Rust code:
// mahalanobis/shape.rs, subthreshold.rs, cholesky.rs and geometric_mean.rs. A test compiles this
// file for the CPU and compares. Only `largest_eigenvalue_bound` differs: no decision depends on
// it.

#pragma once

#include "cluster/mahalanobis.cuh"

// The distance from 1 to the next greater double, 2^-52.
#define EPSILON 2.2204460492503131e-16
// Relative slack of bounds in double precision: more than their relative rounding error.
#define SLACK 1e-9

// ---- layouts ----

// Whitening factors are stored column by column, in bands of BAND columns. All columns of band b
// start at row BAND * b and end with a whole group of BAND rows. Elements above the diagonal and
// rows from p on are 0. So a thread can read BAND rows of a column together, and threads with one
// row each read adjacent elements.
__host__ __device__ __forceinline__ uint bands(uint p) { return (p + BAND - 1) / BAND; }
// Index of the first element of a band.
__host__ __device__ __forceinline__ uint band_start(uint p, uint band) {
  return BAND * BAND * (band * bands(p) - band * (band - 1) / 2);
}
// Number of rows of a band's columns.
__host__ __device__ __forceinline__ uint band_rows(uint p, uint band) {
  return BAND * (bands(p) - band);
}
// Number of elements of a factor in bands.
__host__ __device__ __forceinline__ uint banded_length(uint p) { return band_start(p, bands(p)); }

// ---- bounds ----

// Smallest fourth moment, and smallest square of a third moment, that a bound uses. Smaller moments
// may have lost digits to underflow, and a bound could exceed its distance. For fourth moments,
// this is LEAST_FOURTH in screen/profile.rs.
#define LEAST_MOMENT 1e-290

// An upper bound on the largest eigenvalue of a symmetric p x p matrix with this trace and this sum
// of squares of all elements (Wolkowicz and Styan 1980, "Bounds for eigenvalues using traces").
__host__ __device__ double largest_eigenvalue_bound(double trace, double squares, uint p) {
  double mean = trace / p;
  // The second term covers the rounding error of the difference, whose terms may cancel.
  double rest = fmax(squares - mean * trace, 0.0) + 1e-12 * squares;
  return (mean + sqrt(rest * (p - 1) / p)) * (1 + SLACK);
}

// ---- the rule ----

__host__ __device__ bool is_full_size(const double &threshold, uint members) {
  return (double)members >= threshold;
}

// The weight w of the covariance in the effective covariance.
__host__ __device__ double weight_of(const double &threshold, uint members) {
  if (members <= 2) return 0;
  return is_full_size(threshold, members) ? 1 : (double)members / threshold;
}

// Whether a cluster of `members` can have a shape other than the identity.
__host__ __device__ bool may_have_shape(const double &threshold, const uint &subthreshold,
                                        bool all_full_size, uint members) {
  double weight = weight_of(threshold, members);
  switch (subthreshold) {
  case EUCLID_MAHAL: return weight == 1;
  case EUCLID: return weight == 1 && all_full_size;
  default: return weight > 0;
  }
}

// ---- means and scatters ----

// The share of the second cluster's members in the union of two clusters.
__host__ __device__ __forceinline__ double share_of(double members_a, double members_b) {
  return members_b / (members_a + members_b);
}

// The weight of the outer product of the difference of two clusters' means in the scatter of their
// union.
__host__ __device__ __forceinline__ double between_weight(double members_a, double members_b) {
  return members_a * members_b / (members_a + members_b);
}

// A coordinate of the mean of a union.
__host__ __device__ __forceinline__ double merged_mean(double share, double difference,
                                                       double mean) {
  return fma(share, difference, mean);
}

// Element (i, j) of the scatter of a union. `scaled` is the weight times coordinate i of the
// difference, `difference` is coordinate j, and `both` is the sum of the two clusters' elements.
__host__ __device__ __forceinline__ double merged_scatter(double scaled, const double &difference,
                                                          double both) {
  return fma(scaled, difference, both);
}

// ---- the effective covariance and its Cholesky factor ----

__host__ __device__ __forceinline__ double covariance(double scatter, double divisor) {
  return scatter / divisor;
}

__host__ __device__ __forceinline__ double ridge_of(double weight, double f) {
  return (1.0 - weight) * f;
}

// An element of w·cov + (1 - w)·f·I. `ridge` is (1 - w)·f on the diagonal, and 0 elsewhere.
__host__ __device__ __forceinline__ double effective(double weight, double covariance,
                                                     double ridge) {
  return fma(weight, covariance, ridge);
}

// The largest pivot that makes a p x p matrix singular. `largest` is the largest element of the
// diagonal.
__host__ __device__ __forceinline__ double singular_pivot(uint p, double largest) {
  return EPSILON * (double)p * largest;
}

// ---- the geometric mean ----

#define LEAST_NORMAL 2.2250738585072014e-308
#define TWO_TO_54 18014398509481984.0
#define MANTISSA_BITS ((1ull << 52) - 1)
#define SQRT_2 1.41421356237309504880
#define LOG2_E 1.44269504088896340736
#define LN_2 0.693147180559945309417

// `value` = mantissa · 2^exponent with the mantissa, which is returned, in [1, 2).
__host__ __device__ double split(double value, int *exponent) {
  int shift = 0;
  if (value < LEAST_NORMAL) {
    value = value * TWO_TO_54;
    shift = 54;
  }
  ulong bits = __double_as_longlong(value);
  *exponent = (int)(bits >> 52) - 1023 - shift;
  return __longlong_as_double((bits & MANTISSA_BITS) | (1023ull << 52));
}

// The geometric mean of at most 1,000 positive numbers, by additions, multiplications and divisions
// only: see geometric_mean.rs. The product of more mantissas could overflow.
struct GeometricMean {
  double mantissas = 1; // product of the mantissas of all numbers
  int exponents = 0;    // sum of their exponents
  __host__ __device__ __forceinline__ void add(double value) {
    int exponent;
    // Unlike geometric_mean.rs, this does not scale the product to [1, 2): powers of two do not
    // change its rounding.
    mantissas *= split(value, &exponent);
    exponents += exponent;
  }
  __host__ __device__ double of(uint count) const;
};

__host__ __device__ double GeometricMean::of(uint numbers) const {
  int carry;
  double mantissa = split(mantissas, &carry);
  // The exponent divided by the count, rounded down, so the remainder is not negative.
  int exponent = exponents + carry, count = numbers, whole = exponent / count;
  if (whole * count > exponent) whole -= 1;
  int rest = exponent - whole * count;

  // log2 of the mantissa: 2/ln 2 · artanh((x-1)/(x+1)) by its series.
  double x = mantissa, offset = 0;
  if (x > SQRT_2) {
    x = x * 0.5;
    offset = 1;
  }
  double z = (x - 1) / (x + 1);
  double square = z * z;
  double sum = 1.0 / 23.0;
#pragma unroll
  for (int odd = 21; odd >= 1; odd -= 2) sum = fma(square, sum, 1.0 / odd);
  double logarithm = fma(2.0 * LOG2_E * z, sum, offset);

  double part = ((double)rest + logarithm) / (double)count;
  // 2^part for a part in [0, 1], by the exponential series around the middle.
  double y = (part - 0.5) * LN_2;
  // An array, so that the compiler divides by its elements. By values of a function, the device
  // would divide.
  // clang-format off
  constexpr double FACTORIALS[] = {
      1, 1, 2, 6, 24, 120, 720, 5040, 40320, 362880, 3628800, 39916800, 479001600, 6227020800,
      87178291200, 1307674368000, 20922789888000};
  // clang-format on
  sum = 1.0 / FACTORIALS[16];
#pragma unroll
  for (int k = 15; k >= 0; k--) sum = fma(sum, y, 1.0 / FACTORIALS[k]);
  double value = SQRT_2 * sum;
  // Multiplies by 2^whole in two steps, so that neither factor leaves the range of doubles.
  int half = whole / 2;
  double first = __longlong_as_double((ulong)(half + 1023) << 52);
  double second = __longlong_as_double((ulong)(whole - half + 1023) << 52);
  return value * first * second;
}
