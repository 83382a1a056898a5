// The whitening factor of a cluster, by a block: Cholesky factor, inverse, scale.
//
// Threads share the elements of a matrix; each element has the order of operations of
// mahalanobis/shape.rs.

#pragma once

#include "block.cuh"
#include "distance.cuh"
#include "shape.cuh"
#include "tiles.cuh"

// `problem` is anything with the number of dimensions p, `shared`, room for a banded triangle,
// `factor()`, and in shared memory for three vectors: `raw()`, `line()` and `next()`. The last may
// be that of the triangle.

#if DIMENSIONS
#define MOST_COLUMNS DIMENSIONS
#else
#define MOST_COLUMNS MOST_DIMENSIONS
#endif
// Columns from which on threads keep tiles of a matrix, not elements that follow each other.
#define MOST_IN_TRIANGLE 64

// The elements of a packed triangle of a matrix that are a thread's: number threadIdx.x of the
// triangle, and every THREADS-th from there.
struct Triangle {
  static constexpr int EACH = (MOST_COLUMNS * (MOST_COLUMNS + 1) / 2 + THREADS - 1) / THREADS;
  // In registers; of more, drivers would compile for seconds.
  static constexpr int UNROLL = EACH <= 8 ? EACH : 1;
  int p, rows[EACH], columns[EACH]; // -1 where there is no element
  double values[EACH];

  __device__ explicit Triangle(uint p) : p(p) {
#pragma unroll UNROLL
    for (int n = 0; n < EACH; n++) {
      uint e = threadIdx.x + n * THREADS, i = (uint)((sqrtf(8.0f * e + 1) - 1) * 0.5f);
      if (packed_length(i) > e) i -= 1;
      if (packed_length(i + 1) <= e) i += 1;
      rows[n] = i < p ? (int)i : -1;
      columns[n] = i < p ? (int)(e - packed_length(i)) : -1;
      values[n] = 0;
    }
  }
  // Calls `f` with the place of each of this thread's elements in the packed triangle, its row, its
  // column and its value.
  template <class F> __device__ __forceinline__ void for_each(F f) {
#pragma unroll UNROLL
    for (int n = 0; n < EACH; n++)
      if (rows[n] >= 0) f(threadIdx.x + n * THREADS, rows[n], columns[n], values[n]);
  }
  // Reads the elements of a packed triangle, divided by a number. All are read before the first is
  // divided, so no read waits for another one.
  __device__ __forceinline__ void read(const double *packed, double divisor) {
#pragma unroll UNROLL
    for (int n = 0; n < EACH; n++) values[n] = rows[n] >= 0 ? packed[threadIdx.x + n * THREADS] : 0;
#pragma unroll UNROLL
    for (int n = 0; n < EACH; n++) values[n] = covariance(values[n], divisor);
  }
  // Step k of an elimination: subtracts multiples of `line` from all rows behind row k. Rows follow
  // each other, so whole warps have none that are left.
  template <int>
  __device__ __forceinline__ void subtract(int k, const double *line, double reciprocal) {
#pragma unroll UNROLL
    for (int n = 0; n < EACH; n++) {
      if (rows[n] <= k) continue;
      double multiple = line[rows[n]] * reciprocal;
      values[n] = fma(-multiple, line[columns[n]], values[n]);
    }
  }
  // Lets step k of an elimination read what it needs: row k of the inverse, with its 1, and behind
  // it column k of the matrix. From here on, the column's elements are sums.
  template <int> __device__ __forceinline__ void publish(int k, double *line, double *pivots) {
#pragma unroll UNROLL
    for (int n = 0; n < EACH; n++) {
      int i = rows[n], j = columns[n];
      if (i < k || (i != k && j != k)) continue;
      if (i == j) pivots[k] = values[n];
      line[i == k ? j : i] = i == j ? 1.0 : values[n];
      if (i > k) values[n] = 0;
    }
  }
  template <int> __device__ __forceinline__ void publish_next(int k, double *line, double *pivots) {
    publish<0>(k, line, pivots);
  }
  // Takes a step for each row, until one returns false, which this returns then.
  template <class Step> __device__ __forceinline__ bool for_each_row(Step &step) {
    for (int k = 0; k < p; k++)
      if (!step.template take<0>(k)) return false;
    return true;
  }
  // What brings the matrix back as it is now.
  struct Kept {
    double values[EACH];
    __device__ explicit Kept(const Triangle &matrix) {
#pragma unroll UNROLL
      for (int n = 0; n < EACH; n++) values[n] = matrix.values[n];
    }
    __device__ __forceinline__ void bring_back(Triangle &matrix, const double *, double) const {
#pragma unroll UNROLL
      for (int n = 0; n < EACH; n++) matrix.values[n] = values[n];
    }
  };
};

#if MOST_COLUMNS > MOST_IN_TRIANGLE
using Matrix = Tiles<MOST_COLUMNS>;
#else
using Matrix = Triangle;
#endif

// A step of an elimination: subtracts multiples of row k, and shows the next one.
struct Step {
  Matrix &matrix;
  double *line, *next, *pivots, singular;
  bool counts;
  GeometricMean product;
  // Row k is in a tile of this number. False where its pivot is too small.
  template <int NTH> __device__ __forceinline__ bool take(int k) {
    double pivot = pivots[k];
    // A pivot that is not a number is refused, too.
    if (!(pivot > singular)) return false;
    double reciprocal = 1.0 / pivot;
    // In all threads, while they would wait for the reciprocal.
    if (counts) product.add(pivot);
    matrix.template subtract<NTH>(k, line, reciprocal);
    if (k + 1 < matrix.p) matrix.template publish_next<NTH>(k + 1, next, pivots);
    double *before = line;
    line = next;
    next = before;
    __syncthreads();
    return true;
  }
};

// Divides a matrix into L·D·L' with 1 on the diagonal of L; with `inverts`, the inverse of
// L·sqrt(D) takes the matrix's place. Tells the geometric mean of the pivots D, unless `mean` is
// null. By all threads; false when the matrix is singular.
//
// Column k of L is complete with step k, and so is row k of L's inverse: below it are sums that
// columns to come add to. So an element of the matrix becomes one of L, and then such a sum; each
// has the order of cholesky.rs. A step reads row and column k, and writes those of the next step:
// to two places in turn, so that threads wait for each other only once.
template <class Problem>
__device__ __forceinline__ bool eliminate(Problem &problem, Matrix &matrix, bool inverts,
                                          double *mean) {
  int p = problem.p;
  double *line = problem.raw(), *pivots = problem.line(), largest = 0;
  matrix.for_each([&](uint, int i, int j, double value) {
    if (i == j) largest = fmax(largest, value);
  });
  matrix.template publish<0>(0, line, pivots);
  double singular = singular_pivot(p, block_max(problem.shared, largest));
  Step step = {matrix, line, problem.next(), pivots, singular, mean != nullptr, {}};
  if (!matrix.for_each_row(step)) {
    __syncthreads();
    return false;
  }
  GeometricMean product = step.product;
  if (mean) *mean = product.of(p);
  if (inverts) {
    FOR_EACH(i, p) pivots[i] = 1.0 / sqrt(pivots[i]);
    __syncthreads();
    matrix.for_each(
        [&](uint, int i, int j, double &value) { value = (i == j ? 1.0 : value) * pivots[i]; });
  }
  __syncthreads();
  return true;
}

// What decides a shape, the cluster aside: see struct ShapeRule in mahalanobis/subthreshold.rs.
struct ShapeRule {
  double threshold;
  uint subthreshold;
  bool normalizing, all_full_size;
};

// The whitening factor is that of the effective covariance, times `scale`.
struct Whitening {
  bool identity;
  double scale;
  double largest_eigenvalue, trace; // of the effective covariance, the first an upper bound
};

// Computes the packed whitening factor of a cluster with this scatter and number of members in
// `problem.factor`, unless it is the identity.
template <class Problem>
__device__ __forceinline__ Whitening whiten(Problem &problem, const ShapeRule &rule,
                                            const double *scatter, uint members) {
  uint p = problem.p;
  double weight = weight_of(rule.threshold, members);
  bool identity = !may_have_shape(rule.threshold, rule.subthreshold, rule.all_full_size, members) ||
                  (weight == 1 && members <= p);
  if (identity) return {true, 1, 0, 0};
  double divisor = (double)members - 1.0;
  Matrix matrix(p);
  matrix.read(scatter, divisor);
  double f = 1, mean = 1;
  double2 norms;
  // Once for the pivots of the covariance, where these count, and once for the factor.
  for (bool is_last = !(weight < 1 && rule.subthreshold == MAHAL && members > p);; is_last = true) {
    typename Matrix::Kept kept(matrix);
    if (is_last) {
      if (weight < 1) {
        double ridge = ridge_of(weight, f);
        matrix.for_each([&](uint, int i, int j, double &value) {
          value = effective(weight, value, i == j ? ridge : 0.0);
        });
      }
      double squares = 0, trace = 0;
      matrix.for_each([&](uint, int i, int j, double value) {
        squares = fma(i == j ? value : 2 * value, value, squares);
        if (i == j) trace += value;
      });
      norms = block_sum(problem.shared, squares, trace);
    }
    bool is_regular =
        eliminate(problem, matrix, is_last, !is_last || rule.normalizing ? &mean : nullptr);
    if (is_last && !is_regular) return {true, 1, 0, 0};
    if (is_last) break;
    if (is_regular) f = mean;
    kept.bring_back(matrix, scatter, divisor);
  }
  double largest_eigenvalue = largest_eigenvalue_bound(norms.y, norms.x, p);
  double scale = rule.normalizing ? sqrt(mean) : 1;
  matrix.for_each([&](uint at, int, int, double value) { problem.factor()[at] = value * scale; });
  __syncthreads();
  return {false, scale, largest_eigenvalue, norms.y};
}

// Stores the packed factor in `problem.factor` in bands.
template <class Problem>
__device__ __forceinline__ void store_in_bands(Problem &problem, double *factor) {
  uint p = problem.p, rows = band_rows(p, 0);
  FOR_EACH(e, rows * rows) {
    uint j = e / rows, i = e % rows, band = j / BAND, first = BAND * band;
    if (i < first) continue;
    factor[band_start(p, band) + j % BAND * band_rows(p, band) + i - first] =
        i < p && j <= i ? problem.factor()[packed_length(i) + j] : 0;
  }
}

// An upper bound on the stretch of a packed factor, as in mahalanobis/distance.rs.
__device__ __forceinline__ double stretch_of(uint p, const double *factor) {
  double square = 0;
#pragma unroll 16
  for (uint e = 0; e < packed_length(p); e++) square = fma(factor[e], factor[e], square);
  return sqrt(square);
}

// Writes the whitening factor and the scalars of a shape, from its scatter and the number of
// members. Returns its number, with IDENTITY added where the shape is the identity.
template <bool MEMBER_DISTANCES, class Problem>
__device__ __forceinline__ uint reshape(Problem &problem, uint shape, uint members) {
  const auto &arrays = problem.arrays;
  double *scalars = problem.shape_scalars(shape);
  ShapeRule rule = {arrays.threshold, arrays.subthreshold,
                    arrays.normalize || !problem.all_full_size, problem.all_full_size};
  Whitening found = whiten(problem, rule, problem.shape_scatter(shape), members);
  if (!found.identity) store_in_bands(problem, problem.shape_factor(shape));
  __syncthreads();
  if (threadIdx.x == 0) {
    if (MEMBER_DISTANCES) {
      Quanta quanta;
      quanta_of(found.identity ? 1 : stretch_of(problem.p, problem.factor()), problem.diagonal,
                problem.log2_terms, &quanta);
      scalars[QUANTUM_HIGH] = quanta.high;
      scalars[QUANTUM_LOW] = quanta.low;
      scalars[ROUNDING] = rounding_of(quanta);
    }
    scalars[SMALLEST_STRETCH] = found.identity ? 1
                                : found.largest_eigenvalue > 0
                                    ? found.scale / sqrt(found.largest_eigenvalue) * (1 - SLACK)
                                    : 0;
  }
  __syncthreads();
  return found.identity ? shape | IDENTITY : shape;
}
