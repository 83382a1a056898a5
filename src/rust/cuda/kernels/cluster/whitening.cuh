// Computes the whitening factor of a cluster, by a block: the Cholesky factor, its inverse, and the
// scale.
//
// Threads share the elements of a matrix. Each element has the order of operations of
// mahalanobis/shape.rs and cholesky.rs.

#pragma once

#include "block.cuh"
#include "cluster/bounds.cuh"
#include "cluster/distance.cuh"
#include "cluster/shape.cuh"
#include "cluster/tiles.cuh"

// A `problem` has: the number of dimensions, `p`; `shared`; room for a factor in bands, `factor()`;
// and, in shared memory, room for three vectors: `raw()`, `line()` and `next()`. The room of
// `next()` may be that of `factor()`.

// Maximum number of columns of a matrix.
#if DIMENSIONS
#define MOST_COLUMNS DIMENSIONS
#else
#define MOST_COLUMNS MOST_DIMENSIONS
#endif
// Largest MOST_COLUMNS for which threads keep a matrix as a Triangle, not as Tiles.
#define MOST_IN_TRIANGLE 64

// A thread's elements of a packed lower triangle: number threadIdx.x, and every THREADS-th element
// after it.
struct Triangle {
  static constexpr int EACH = (MOST_COLUMNS * (MOST_COLUMNS + 1) / 2 + THREADS - 1) / THREADS;
  // Unrolled loops keep the elements in registers. With more than 8 elements, drivers would compile
  // for seconds.
  static constexpr int UNROLL = EACH <= 8 ? EACH : 1;
  int p, rows[EACH], columns[EACH]; // -1 if there is no element
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
  // Calls `f` with the index of each of this thread's elements in the packed triangle, its row, its
  // column and its value.
  template <class F> __device__ __forceinline__ void for_each(F f) {
#pragma unroll UNROLL
    for (int n = 0; n < EACH; n++)
      if (rows[n] >= 0) f(threadIdx.x + n * THREADS, rows[n], columns[n], values[n]);
  }
  // Reads the elements of a packed scatter, and divides them by `divisor`. All elements are read
  // before any is divided, so no read waits for another read.
  __device__ __forceinline__ void read(const double *packed, double divisor) {
#pragma unroll UNROLL
    for (int n = 0; n < EACH; n++) values[n] = rows[n] >= 0 ? packed[threadIdx.x + n * THREADS] : 0;
#pragma unroll UNROLL
    for (int n = 0; n < EACH; n++) values[n] = covariance(values[n], divisor);
  }
  // Step k of an elimination: subtracts multiples of `line` from all rows after row k. Threads of a
  // warp have consecutive elements, so whole warps have no such row and skip the step.
  template <int>
  __device__ __forceinline__ void subtract(int k, const double *line, double reciprocal) {
#pragma unroll UNROLL
    for (int n = 0; n < EACH; n++) {
      if (rows[n] <= k) continue;
      double multiple = line[rows[n]] * reciprocal;
      values[n] = fma(-multiple, line[columns[n]], values[n]);
    }
  }
  // Writes the input of step k of an elimination: to `line`, row k of the inverse up to its 1 on
  // the diagonal, then column k of the matrix below the diagonal; to `pivots`, pivot k. From then
  // on, the elements of column k are sums of the inverse, at first 0.
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
  // As `publish`. In struct Tiles, it differs.
  template <int> __device__ __forceinline__ void publish_next(int k, double *line, double *pivots) {
    publish<0>(k, line, pivots);
  }
  // Takes a step for each row. Stops and returns false once a step returns false.
  template <class Step> __device__ __forceinline__ bool for_each_row(Step &step) {
    for (int k = 0; k < p; k++)
      if (!step.template take<0>(k)) return false;
    return true;
  }
  // A copy of the matrix, to restore it.
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

// A step of an elimination: subtracts multiples of row k, and publishes row k + 1.
struct Step {
  Matrix &matrix;
  double *line, *next, *pivots, singular;
  bool counts; // whether the geometric mean of the pivots is wanted
  GeometricMean product;
  // Row k is in row NTH of tiles. Returns false if its pivot is too small.
  template <int NTH> __device__ __forceinline__ bool take(int k) {
    double pivot = pivots[k];
    // The negation also refuses NaN.
    if (!(pivot > singular)) return false;
    double reciprocal = 1.0 / pivot;
    // All threads compute the product, while they would wait for the reciprocal.
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

// Factorises a matrix as L·D·L', with 1 on the diagonal of L, by all threads of the block. With
// `inverts`, replaces the matrix by the inverse of L·sqrt(D). Writes the geometric mean of the
// pivots D to `mean`, unless `mean` is null. Returns false if the matrix is singular.
//
// Step k completes column k of L and row k of the inverse of L. Below row k, the elements of the
// inverse are sums, to which later steps add. So an element of the matrix becomes an element of L,
// and then a sum of the inverse. Each of them has the order of operations of cholesky.rs. A step
// reads row k and column k, and writes those of the next step to another vector, so threads wait
// for each other only once.
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

// The settings on which the shape of a cluster depends: see struct ShapeRule in
// mahalanobis/subthreshold.rs.
struct ShapeRule {
  double threshold;
  uint subthreshold;
  bool normalizing, all_full_size;
};

// A whitening factor: the identity, or the factor of the effective covariance times `scale`.
struct Whitening {
  bool identity;
  double scale;
  double largest_eigenvalue, trace; // of the effective covariance; the eigenvalue is an upper bound
};

// A lower bound on the stretch ‖Wy‖/‖y‖ of a whitening factor that is not the identity; 0 if there
// is none. `stretch` is an upper bound.
__device__ __forceinline__ double least_stretch(uint p, const Whitening &found, double stretch) {
  double rounding = 8.0 * p * EPSILON * stretch;
  double low = found.scale / sqrt(found.largest_eigenvalue) * (1 - 1e-6) -
               rounding * (1 + stretch * sqrt(found.trace) / found.scale);
  // The negation makes NaN 0, too.
  return !(low > 0) || !is_usable(p, stretch) ? 0 : low;
}

// Computes the packed whitening factor of a cluster with this scatter and number of members, by all
// threads of the block. Writes it to `problem.factor()`, unless it is the identity.
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
  // The first round, if there are two, finds the pivots of the covariance, and the last one the
  // factor of the effective covariance.
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

// Copies the packed factor in `problem.factor()` to `factor`, in bands, by all threads of the
// block.
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

// An upper bound on the stretch ‖Wy‖/‖y‖ of a packed factor W: its Frobenius norm, as in
// mahalanobis/distance.rs.
__device__ __forceinline__ double stretch_of(uint p, const double *factor) {
  double square = 0;
#pragma unroll 16
  for (uint e = 0; e < packed_length(p); e++) square = fma(factor[e], factor[e], square);
  return sqrt(square);
}

// Writes the whitening factor and the scalars of a shape, from its scatter and the number of
// members, by all threads of the block. Returns the shape's number, with IDENTITY added if the
// shape is the identity.
template <bool FULL_DISTANCES, class Problem>
__device__ __forceinline__ uint reshape(Problem &problem, uint shape, uint members) {
  const auto &arrays = problem.arrays;
  double *scalars = problem.shape_scalars(shape);
  ShapeRule rule = {arrays.threshold, arrays.subthreshold,
                    arrays.normalize || !problem.all_full_size, problem.all_full_size};
  Whitening found = whiten(problem, rule, problem.shape_scatter(shape), members);
  if (!found.identity) store_in_bands(problem, problem.shape_factor(shape));
  __syncthreads();
  double stretch = 1;
  if (!found.identity) {
    double square = 0;
    FOR_EACH(e, packed_length(problem.p))
    square = fma(problem.factor()[e], problem.factor()[e], square);
    stretch = sqrt(block_sum(problem.shared, square, 0).x) * (1 + SLACK);
  }
  if (threadIdx.x == 0) {
    if (FULL_DISTANCES) {
      Quanta quanta;
      quanta_of(found.identity ? 1 : stretch_of(problem.p, problem.factor()), problem.diagonal,
                problem.log2_terms, &quanta);
      scalars[QUANTUM_HIGH] = quanta.high;
      scalars[QUANTUM_LOW] = quanta.low;
      scalars[ROUNDING] = rounding_of(quanta);
    }
    scalars[SMALLEST_STRETCH] = found.identity ? 1 : least_stretch(problem.p, found, stretch);
    scalars[STRETCH] = stretch;
  }
  __syncthreads();
  return found.identity ? shape | IDENTITY : shape;
}
