// The distance of two points from their coordinates, in double precision, with the bits of
// metric/form. src/distances/decisions.rs compares each form with the Rust code.

#pragma once

#include "base.cuh"

// How Canberra distances count 0/0: not at all, as 0, or as 1.
enum ZeroOverZero { OMIT, ZERO, ONE };

// R takes denominators of Canberra distances up to the least normal number as zero.
#define LEAST_NORMAL 2.2250738585072014e-308

// Forms of metric/form. `add` adds one coordinate of both points; `finish` returns the distance.
// `parameter` depends on the form: the convention for 0/0 (enum ZeroOverZero), or whether
// magnitudes count. If `zeros_count` is false, coordinates that are 0 in both points change
// nothing.

__device__ __forceinline__ double not_available() { return __longlong_as_double(NA_BITS); }

__device__ __forceinline__ double scaled_up(double sum, int count, uint columns) {
  return count == columns ? sum : sum / ((double)count / (double)columns);
}

struct Square {
  static __device__ __forceinline__ double of(double d) { return d * d; }
  static __device__ __forceinline__ double last(double sum) { return sqrt(sum); }
};

struct Magnitude {
  static __device__ __forceinline__ double of(double d) { return fabs(d); }
  static __device__ __forceinline__ double last(double sum) { return sum; }
};

template <typename Term> struct Sum {
  static const bool zeros_count = false;
  double sum = 0;
  __device__ __forceinline__ void add(double a, double b, uint) { sum += Term::of(a - b); }
  __device__ __forceinline__ double finish(uint, uint) const { return Term::last(sum); }
};

template <typename Term> struct SumWithHoles {
  static const bool zeros_count = true;
  double sum = 0;
  int count = 0;
  __device__ __forceinline__ void add(double a, double b, uint) {
    double difference = a - b;
    if (difference == difference) {
      sum += Term::of(difference);
      count += 1;
    }
  }
  __device__ __forceinline__ double finish(uint columns, uint) const {
    return count == 0 ? not_available() : Term::last(scaled_up(sum, count, columns));
  }
};

struct Maximum {
  static const bool zeros_count = false;
  // With its sign: a comparison takes magnitudes at no cost, a copy does not.
  double greatest = 0;
  __device__ __forceinline__ void add(double a, double b, uint) {
    double difference = a - b;
    if (fabs(difference) > fabs(greatest)) greatest = difference;
  }
  __device__ __forceinline__ double finish(uint, uint) const { return fabs(greatest); }
};

struct MaximumWithHoles {
  static const bool zeros_count = true;
  double greatest = 0;
  int count = 0;
  __device__ __forceinline__ void add(double a, double b, uint) {
    double difference = fabs(a - b);
    if (difference == difference) {
      if (difference > greatest) greatest = difference;
      count += 1;
    }
  }
  __device__ __forceinline__ double finish(uint, uint) const {
    return count == 0 ? not_available() : greatest;
  }
};

struct Canberra {
  static const bool zeros_count = true;
  double sum = 0;
  int count = 0;
  __device__ __forceinline__ void add(double a, double b, uint zero_over_zero) {
    double difference = fabs(a - b), magnitude = fabs(a) + fabs(b);
    double quotient = difference == magnitude ? 1.0 : difference / magnitude;
    if (magnitude > LEAST_NORMAL && quotient == quotient) {
      sum += quotient;
      count += 1;
    } else if (magnitude <= LEAST_NORMAL && zero_over_zero != OMIT) {
      sum += zero_over_zero == ONE ? 1.0 : 0.0;
      count += 1;
    }
  }
  __device__ __forceinline__ double finish(uint columns, uint) const {
    return count == 0 ? not_available() : scaled_up(sum, count, columns);
  }
};

// The Canberra distance if 0/0 does not count as 1, for coordinates that are 0 or have a magnitude
// from 2^-500 to 2^500. Then all quotients except 0/0 are 0 or at least 2^-54, and no intermediate
// value overflows or underflows. So division takes the instructions of the compiler's own division,
// without its tests of the operands.
struct CanberraInRange {
  static const bool zeros_count = true;
  double sum = 0;
  int zeros = 0; // number of coordinates that are 0/0
  __device__ __forceinline__ void add(double a, double b, uint) {
    double magnitude = fabs(a) + fabs(b), quotient = divided(a - b, magnitude);
    if (__double2hiint(magnitude) != 0)
      sum += fabs(quotient);
    else
      zeros += 1;
  }
  __device__ __forceinline__ double finish(uint columns, uint zero_over_zero) const {
    int count = zero_over_zero == OMIT ? columns - zeros : columns;
    return count == 0 ? not_available() : scaled_up(sum, count, columns);
  }
  static __device__ __forceinline__ double divided(double a, double b) {
    double inverse;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(inverse) : "d"(b));
    return refined(a, b, __hiloint2double(__double2hiint(inverse), 1));
  }
  // The quotient from an approximate inverse of b whose lower half is arbitrary.
  static __device__ __forceinline__ double refined(double a, double b, double inverse) {
    double error = fma(-b, inverse, 1.0);
    inverse = fma(inverse, fma(error, error, error), inverse);
    inverse = fma(inverse, fma(-b, inverse, 1.0), inverse);
    double quotient = a * inverse;
    return fma(inverse, fma(-b, quotient, a), quotient);
  }
};

struct Binary {
  static const bool zeros_count = true;
  int differ = 0, some = 0, both = 0;
  __device__ __forceinline__ void add(double a, double b, uint) {
    double difference = fabs(a - b);
    if (difference == difference) {
      differ += difference != 0;
      some += a != 0 || b != 0;
      both += 1;
    }
  }
  __device__ __forceinline__ double finish(uint, uint) const {
    if (both == 0) return not_available();
    return some == 0 ? 0.0 : (double)differ / (double)some;
  }
};

struct Angle {
  static const bool zeros_count = false;
  double dot = 0;
  __device__ __forceinline__ void add(double a, double b, uint) { dot = fma(a, b, dot); }
  __device__ __forceinline__ double finish(uint, uint absolute) const {
    double similarity = absolute ? fabs(dot) : dot;
    if (similarity > 1) similarity = 1;
    if (similarity < -1) similarity = -1;
    return 1.0 - similarity;
  }
};
