// The distances on which decisions depend, in double precision. Each has the order of operations,
// and so the bits, of mahalanobis/distance.rs. A test compiles this file for the CPU and compares.

#pragma once

#include "cluster/mahalanobis.cuh"
#include "cluster/shape.cuh"

// Marks a constructor of Difference whose function may be called for coordinates behind the last.
enum Readable { READABLE };

// Number of bands of a whitening factor that a thread multiplies together, if the difference is in
// the thread's own memory. Only the time depends on it.
#define BANDS_TOGETHER 4

// A difference of two points: in registers for up to P dimensions, or in the thread's own memory
// for P = 0.
template <int P> struct Difference {
  static constexpr int SIZE = P ? P : MOST_DIMENSIONS;
  static constexpr int UNROLL = P ? P : 1;
  double d[SIZE];
  template <typename F> __host__ __device__ Difference(uint p, F difference) {
    fill(p, [&](uint k) { return k < p ? difference(k) : 0; });
  }
  // As above, if `difference` may be called for coordinates from p on, which do not count. Then no
  // read waits for a comparison.
  template <typename F>
  __host__ __device__ __forceinline__ Difference(uint p, Readable, F difference) {
    fill(p, [&](uint k) {
      double coordinate = P || k < p ? difference(k) : 0;
      return k < p ? coordinate : 0;
    });
  }
  // The difference of the points x and y, which are rows of matrices with p columns.
  __host__ __device__ __forceinline__ Difference(uint p, const double *x, const double *y) {
    if (P || p % 2) {
      fill(p, [&](uint k) { return k < p ? x[k] - y[k] : 0; });
      return;
    }
    // Reads pairs. Rows of an even length are aligned for them, because arrays are.
    constexpr int PAIRS = BAND;
#pragma unroll 1
    for (uint start = 0; start < p; start += 2 * PAIRS) {
      // All are read before the first is written.
      double2 of_x[PAIRS], of_y[PAIRS];
#pragma unroll
      for (uint n = 0; n < PAIRS; n++) {
        uint k = start + 2 * n;
        of_x[n] = k < p ? *(const double2 *)(x + k) : make_double2(0, 0);
        of_y[n] = k < p ? *(const double2 *)(y + k) : make_double2(0, 0);
      }
#pragma unroll
      for (uint n = 0; n < PAIRS; n++) {
        d[start + 2 * n] = of_x[n].x - of_y[n].x;
        d[start + 2 * n + 1] = of_x[n].y - of_y[n].y;
      }
    }
  }
  // Writes the coordinates, and as padding what `coordinate` returns from p on: zeros.
  template <typename F> __host__ __device__ __forceinline__ void fill(uint p, F coordinate) {
    constexpr int TOGETHER = P ? P : 2 * BAND;
    static_assert(SIZE % TOGETHER == 0, "room for the padding");
#pragma unroll UNROLL
    for (int start = 0; start < SIZE; start += TOGETHER) {
      if (!P && start >= p) break;
      // All coordinates are read before any is written, so no read waits for another read.
      double values[TOGETHER];
#pragma unroll
      for (int k = 0; k < TOGETHER; k++) values[k] = coordinate(start + k);
#pragma unroll
      for (int k = 0; k < TOGETHER; k++) d[start + k] = values[k];
    }
  }
  __host__ __device__ __forceinline__ double to_identity(uint p) const {
    double square = 0;
#pragma unroll UNROLL
    for (int k = 0; k < SIZE; k++) {
      if (!P && k >= p) break;
      square = fma(d[k], d[k], square);
    }
    return sqrt(square);
  }
  // The square of the distance between two points: this object and `other`. P coordinates of
  // `other` may be read.
  __host__ __device__ __forceinline__ double square_to(uint p, const double *other) const {
    double square = 0;
#pragma unroll UNROLL
    for (int k = 0; k < SIZE; k++) {
      if (!P && k >= p) break;
      double difference = d[k] - other[k];
      if (k < p) square = fma(difference, difference, square);
    }
    return square;
  }
  // Adds the squares of the elements of W d, in TOGETHER bands of rows from band `first` on, to
  // `square`. For P = 0, where d is not in registers: each element of d is read once for all rows.
  template <int TOGETHER>
  __host__ __device__ __forceinline__ double add_bands(uint p, const double *factor, int first,
                                                       double square) const {
    double whitened[BAND * TOGETHER] = {};
    // The rows of the bands, column by column.
    const double *column = factor + BAND * first;
    uint length = band_rows(p, 0);
    // Adds BAND columns from `start` on. The first `skipped` bands of rows have no such columns.
    auto add_columns = [&](int start, int skipped) {
#pragma unroll
      for (int k = 0; k < BAND; k++) {
#pragma unroll
        for (int row = 0; row < BAND * TOGETHER; row += 2) {
          if (row < BAND * skipped) continue;
          double2 pair = *(const double2 *)(column + row);
          whitened[row] = fma(pair.x, d[start + k], whitened[row]);
          whitened[row + 1] = fma(pair.y, d[start + k], whitened[row + 1]);
        }
        column += length;
      }
      // The next columns begin BAND rows later.
      column -= BAND;
      length -= BAND;
    };
#pragma unroll 1
    for (int start = 0; start < BAND * first; start += BAND) add_columns(start, 0);
#pragma unroll
    for (int band = 0; band < TOGETHER; band++) add_columns(BAND * (first + band), band);
#pragma unroll
    for (int row = 0; row < BAND * TOGETHER; row++)
      square = fma(whitened[row], whitened[row], square);
    return square;
  }
  // The distance to a cluster with this whitening factor, in bands. The padding of the bands
  // changes nothing.
  __host__ __device__ __forceinline__ double to_shape(uint p, const double *factor) const {
    double square = 0;
    if constexpr (P == 0) {
      int band = 0;
#pragma unroll 1
      for (; band + BANDS_TOGETHER <= bands(p); band += BANDS_TOGETHER)
        square = add_bands<BANDS_TOGETHER>(p, factor, band, square);
#pragma unroll 1
      for (; band < bands(p); band++) square = add_bands<1>(p, factor, band, square);
    } else {
#pragma unroll 1
      for (int band = 0; band < bands(p); band++) {
        double whitened[BAND] = {};
        // The rows of the band, column by column.
        const double *column = factor + BAND * band;
        uint length = band_rows(p, 0);
#pragma unroll UNROLL
        for (int start = 0; start < SIZE; start += BAND) {
          if (start > BAND * band) break;
#pragma unroll
          for (int k = start; k < start + BAND; k++) {
            static_assert(BAND == 4, "two pairs");
            double2 first = ((const double2 *)column)[0], second = ((const double2 *)column)[1];
            whitened[0] = fma(first.x, d[k], whitened[0]);
            whitened[1] = fma(first.y, d[k], whitened[1]);
            whitened[2] = fma(second.x, d[k], whitened[2]);
            whitened[3] = fma(second.y, d[k], whitened[3]);
            column += length;
          }
          // The next columns begin BAND rows later.
          column -= BAND;
          length -= BAND;
        }
#pragma unroll
        for (int row = 0; row < BAND; row++) square = fma(whitened[row], whitened[row], square);
      }
    }
    return sqrt(square);
  }
};

// The quanta of an exact sum: adding and subtracting `high` (`low`) rounds to a multiple of the
// first (second) quantum. See Quanta in distance.rs.
struct Quanta {
  double high, low;
};

// The quanta for distances to a cluster whose factor W has this stretch, an upper bound on
// ‖Wy‖/‖y‖.
__host__ __device__ __forceinline__ void quanta_of(double stretch, const double &diagonal,
                                                   const uint &log2_terms, Quanta *quanta) {
  double largest = 2.0 * stretch * diagonal;
  double terms = (double)(1ull << log2_terms);
  // The power of two above `largest`.
  double bound = __longlong_as_double(((ulong)__double_as_longlong(largest) >> 52) << 52) * 2.0;
  quanta->high = 1.5 * bound * terms;
  quanta->low = quanta->high * terms * (0.5 * EPSILON);
}

// An upper bound on the rounding of each term of an exact sum.
__host__ __device__ __forceinline__ double rounding_of(const Quanta &quanta) {
  return quanta.low * EPSILON;
}

// Splits a term into the parts that are added to the high and to the low part of an exact sum.
__host__ __device__ __forceinline__ double2 exact_term(double term, const Quanta &quanta) {
  double high = (term + quanta.high) - quanta.high;
  double rest = term - high;
  return make_double2(high, (rest + quanta.low) - quanta.low);
}

// The mean of an exact sum's terms.
__host__ __device__ __forceinline__ double exact_mean(double high, double low, uint terms) {
  return (high + low) / (double)terms;
}

// The distance of two clusters from their two directed distances.
__host__ __device__ __forceinline__ double average(double to_owner, double from_owner) {
  return 0.5 * (to_owner + from_owner);
}

// A lower bound on the mean norm E‖r + u‖, see screen/profile.rs; not a distance.
__host__ __device__ double mean_norm(const double *moments, double square) {
  double second = moments[MOMENT_VARIANCE] + square;
  double factor = 4.0 * moments[MOMENT_LARGEST] + 2.0 * moments[MOMENT_VARIANCE] + square;
  double total =
      moments[MOMENT_FOURTH] + factor * square + 4.0 * moments[MOMENT_THIRD] * sqrt(square);
  return total >= LEAST_MOMENT ? sqrt(second) * (second / sqrt(total)) * (1 - 1e-6) : 0;
}

// Iterates over row i of W, in bands.
struct AlongRow {
  const double *element;
  uint length, k;
  __device__ __forceinline__ AlongRow(uint p, uint i, const double *factor)
      : element(factor + i), length(band_rows(p, 0)), k(0) {}
  __device__ __forceinline__ void advance() {
    element += length;
    if (k++ % BAND < BAND - 1) return;
    element -= BAND;
    length -= BAND;
  }
};

// Row i of W, in bands, for i below P. The whole row is read before any of it is used, so that no
// read waits for another read.
template <int P> struct FactorRow {
  double values[P];
  __device__ __forceinline__ FactorRow(uint p, uint i, const double *factor) {
    AlongRow along(p, i, factor);
#pragma unroll
    for (uint k = 0; k < P; k++, along.advance()) values[k] = k <= i ? *along.element : 0;
  }
  // Element i of W d.
  __device__ __forceinline__ double times(uint i, const double *d) const {
    double sum = 0;
#pragma unroll
    for (uint k = 0; k < P; k++)
      if (k <= i) sum = fma(values[k], d[k], sum);
    return sum;
  }
};

// Number of elements of a row that are read together if registers have no room for the whole row.
#define READ_TOGETHER 32

// Element i of W d, for W in bands. With P, a row is read as FactorRow does.
template <int P = 0>
__device__ __forceinline__ double whitened_element(uint p, uint i, const double *d,
                                                   const double *factor) {
  if constexpr (P > 0) {
    return FactorRow<P>(p, i, factor).times(i, d);
  } else {
    // Iterates as AlongRow, a band at a time.
    const double *element = factor + i;
    uint length = band_rows(p, 0);
    double sum = 0;
    static_assert(READ_TOGETHER % BAND == 0, "whole bands");
    for (uint start = 0; start <= i; start += READ_TOGETHER) {
      // All elements are read before any is used, so no read waits for another read.
      double values[READ_TOGETHER];
#pragma unroll
      for (uint first = 0; first < READ_TOGETHER; first += BAND) {
#pragma unroll
        for (uint k = first; k < first + BAND; k++) {
          values[k] = start + k <= i ? *element : 0;
          element += length;
        }
        element -= BAND;
        length -= BAND;
      }
#pragma unroll
      for (uint k = 0; k < READ_TOGETHER; k++)
        if (start + k <= i) sum = fma(values[k], d[start + k], sum);
    }
    return sum;
  }
}

// The length of a vector of p elements. With P, p is at most P, and all elements are read before
// any is used.
template <int P = 0> __device__ __forceinline__ double length_of(uint p, const double *terms) {
  double square = 0;
  if constexpr (P > 0) {
    double each[P];
#pragma unroll
    for (uint i = 0; i < P; i++) each[i] = i < p ? terms[i] : 0;
#pragma unroll
    for (uint i = 0; i < P; i++) square = fma(each[i], each[i], square);
  } else {
#pragma unroll 8
    for (uint i = 0; i < p; i++) square = fma(terms[i], terms[i], square);
  }
  return sqrt(square);
}

// ‖W d‖ for a difference d, by a warp with its own `scratch` of 2p elements; `factor` is W in
// bands, or null for the identity. In the order of operations of `Difference`. With P, the reads of
// the first WARP rows of the factor do not wait for the difference.
template <int P = 0, class F>
__device__ double warp_distance(uint p, F difference, const double *factor, double *scratch) {
  uint lane = threadIdx.x % WARP;
  double *d = scratch, *whitened = scratch + p;
  auto find_difference = [&] {
    for (uint k = lane; k < p; k += WARP) d[k] = difference(k);
    __syncwarp();
  };
  if (!factor) {
    find_difference();
  } else {
    uint i = lane;
    if constexpr (P > 0) {
      FactorRow<P> row(p, min(i, p - 1), factor);
      find_difference();
      if (i < p) whitened[i] = row.times(i, d);
      i += WARP;
    } else {
      find_difference();
    }
    for (; i < p; i += WARP) whitened[i] = whitened_element<P>(p, i, d, factor);
    __syncwarp();
  }
  double length = length_of<P>(p, factor ? whitened : d);
  __syncwarp();
  return length;
}
