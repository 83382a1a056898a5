// The whitening factor of a cluster, by a block: Cholesky factor, inverse, scale.
//
// Threads share the elements of a matrix; each element has the order of operations of
// mahalanobis/shape.rs.

#pragma once

#include "block.cuh"
#include "distance.cuh"
#include "shape.cuh"

// `problem` is anything with the number of dimensions p, `shared`, and in shared memory two
// triangles to work in, `work` and `factor` (which has room for bands), and a vector `pivots`.

// The Cholesky factor of the packed matrix in `work`, in place, its squared pivots in `pivots`;
// false when it is singular. Column after column, which for each element is the order of
// shape.rs.
template <class Problem> __device__ __noinline__ bool cholesky(Problem &problem) {
  uint p = problem.p;
  double *matrix = problem.work;
  double largest = 0;
  FOR_EACH(i, p) largest = fmax(largest, matrix[packed_length(i) + i]);
  largest = block_max(problem.shared, largest);
  double singular = singular_pivot(p, largest);
  for (uint k = 0; k < p; k++) {
    double pivot = matrix[packed_length(k) + k];
    // A pivot that is not a number is refused, too.
    if (!(pivot > singular)) {
      __syncthreads();
      return false;
    }
    double root = sqrt(pivot);
    __syncthreads();
    FOR_EACH(i, p) {
      if (i == k) {
        problem.pivots[k] = pivot;
        matrix[packed_length(k) + k] = root;
      } else if (i > k) {
        matrix[packed_length(i) + k] = matrix[packed_length(i) + k] / root;
      }
    }
    __syncthreads();
    uint rest = p - k - 1;
    FOR_EACH(e, rest * rest) {
      uint i = k + 1 + e / rest, j = k + 1 + e % rest;
      if (j > i) continue;
      double *element = matrix + packed_length(i) + j;
      *element = fma(-matrix[packed_length(i) + k], matrix[packed_length(j) + k], *element);
    }
    __syncthreads();
  }
  return true;
}

// `geometric_mean` of the pivots, in all threads.
template <class Problem> __device__ __noinline__ double mean_pivot(Problem &problem) {
  if (threadIdx.x == 0) problem.shared.scalar = geometric_mean(problem.pivots, problem.p);
  __syncthreads();
  double mean = problem.shared.scalar;
  __syncthreads();
  return mean;
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
  uint p = problem.p, length = packed_length(p);
  double weight = weight_of(rule.threshold, members);
  bool identity =
      !may_have_shape(rule.threshold, rule.subthreshold, rule.all_full_size, members) ||
      (weight == 1 && members <= p);
  if (identity) return {true, 1, 0, 0};
  double divisor = (double)members - 1.0;
  if (weight < 1) {
    double f = 1;
    if (rule.subthreshold == MAHAL && members > p) {
      FOR_EACH(e, length) problem.work[e] = covariance(scatter[e], divisor);
      __syncthreads();
      if (cholesky(problem)) f = mean_pivot(problem);
    }
    double ridge = ridge_of(weight, f);
    FOR_EACH(e, p * p) {
      uint i = e / p, j = e % p, at = packed_length(i) + j;
      if (j > i) continue;
      problem.work[at] = effective(weight, covariance(scatter[at], divisor), i == j ? ridge : 0.0);
    }
  } else {
    FOR_EACH(e, length) problem.work[e] = covariance(scatter[e], divisor);
  }
  __syncthreads();
  double squares = 0, trace = 0;
  FOR_EACH(e, p * p) {
    uint i = e / p, j = e % p;
    double value = problem.work[packed_at(i, j)];
    squares = fma(value, value, squares);
    if (i == j) trace += value;
  }
  double2 norms = block_sum(problem.shared, squares, trace);
  double largest_eigenvalue = largest_eigenvalue_bound(norms.y, norms.x, p);
  if (!cholesky(problem)) return {true, 1, 0, 0};
  double scale = rule.normalizing ? sqrt(mean_pivot(problem)) : 1;
  // Columns of the inverse depend on nothing but the factor.
  FOR_EACH(j, p) {
    for (uint i = j; i < p; i++) {
      const double *row = problem.work + packed_length(i);
      double value;
      if (i == j) {
        value = 1.0 / row[i];
      } else {
        double sum = 0;
        for (uint k = j; k < i; k++) sum = fma(row[k], problem.factor[packed_length(k) + j], sum);
        value = -sum / row[i];
      }
      problem.factor[packed_length(i) + j] = value;
    }
  }
  __syncthreads();
  FOR_EACH(e, length) problem.factor[e] = problem.factor[e] * scale;
  __syncthreads();
  return {false, scale, largest_eigenvalue, norms.y};
}

// Stores the packed factor in `problem.factor` in bands.
template <class Problem>
__device__ __forceinline__ void store_in_bands(Problem &problem, double *factor) {
  uint p = problem.p;
  FOR_EACH(i, bands(p) * BAND) {
    double *band = factor + band_start(i / BAND) + i % BAND;
    for (uint j = 0; j < (i / BAND + 1) * BAND; j++)
      band[BAND * j] = i < p && j <= i ? problem.factor[packed_length(i) + j] : 0;
  }
}

// An upper bound on the stretch of a packed factor, as in mahalanobis/distance.rs.
__device__ __noinline__ double stretch_of(uint p, const double *factor) {
  double square = 0;
#pragma unroll 16
  for (uint e = 0; e < packed_length(p); e++) square = fma(factor[e], factor[e], square);
  return sqrt(square);
}

// Writes the whitening factor and the scalars of a shape, from its scatter and the number of
// members. Returns its number, with IDENTITY added where the shape is the identity.
template <bool MEMBER_DISTANCES, class Problem>
__device__ __noinline__ uint reshape(Problem &problem, uint shape, uint members) {
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
      quanta_of(found.identity ? 1 : stretch_of(problem.p, problem.factor), problem.diagonal,
                problem.log2_terms, &quanta);
      scalars[QUANTUM_HIGH] = quanta.high;
      scalars[QUANTUM_LOW] = quanta.low;
      scalars[ROUNDING] = rounding_of(quanta);
    }
    scalars[SMALLEST_STRETCH] =
        found.identity ? 1
        : found.largest_eigenvalue > 0
            ? found.scale / sqrt(found.largest_eigenvalue) * (1 - SLACK)
            : 0;
  }
  __syncthreads();
  return found.identity ? shape | IDENTITY : shape;
}
