// Sums of distances between the members of clusters and other clusters, for full distances.

#pragma once

#include "agglomerate/problem.cuh"
#include "block.cuh"
#include "cluster/distance.cuh"

// The quanta of the cluster at a position, and an upper bound on the rounding of each term; those
// of the identity if it has no shape.
__device__ void quanta_at(const Problem &problem, uint position, Quanta *quanta, double *rounding) {
  uint shape = problem.arrays.shapes[problem.first + position];
  if (shape != NONE) {
    const double *scalars = problem.shape_scalars(shape & ~IDENTITY);
    quanta->high = scalars[QUANTUM_HIGH];
    quanta->low = scalars[QUANTUM_LOW];
    *rounding = scalars[ROUNDING];
    return;
  }
  quanta_of(1, problem.diagonal, problem.log2_terms, quanta);
  *rounding = rounding_of(*quanta);
}

// The part of the sum of distances of the owner's members to the cluster at a position, over every
// `step`-th member from member `from` on; for one thread.
template <int P>
__device__ __noinline__ double2 part_of_sum(const Problem &problem, uint owner, uint position,
                                            uint from, uint step) {
  const Arrays &arrays = problem.arrays;
  uint shape = problem.shape_at(position), size = arrays.sizes[problem.first + owner];
  const uint *members =
      arrays.members + problem.first + arrays.member_starts[problem.first + owner];
  Quanta quanta;
  double rounding;
  quanta_at(problem, position, &quanta, &rounding);
  uint p = problem.p, n = problem.n;
  const double *all = problem.observation(0), *mean = problem.means() + position;
  const double *factor = shape == NONE ? nullptr : problem.shape_factor(shape);
  double2 sum = make_double2(0, 0);
  for (uint m = from; m < size; m += step) {
    const double *x = all + (size_t)members[m] * p;
    const double *coordinate = mean;
    Difference<P> difference(p, READABLE, [&](uint k) {
      double value = x[k] - *coordinate;
      if (k + 1 < p) coordinate += n;
      return value;
    });
    double distance = factor ? difference.to_shape(p, factor) : difference.to_identity(p);
    double2 term = exact_term(distance, quanta);
    sum.x += term.x;
    sum.y += term.y;
  }
  return sum;
}

// Sums the distances of the members of each older cluster to the owner, by all threads of the
// block. The owner's mean and, if it has a shape, its factor are in shared memory.
template <int P>
__device__ __noinline__ void sum_members(Problem &problem, uint owner, bool is_shaped) {
  const Arrays &arrays = problem.arrays;
  ulong first = problem.first;
  uint p = problem.p, birth = arrays.births[first + owner];
  Quanta quanta;
  double rounding;
  quanta_at(problem, owner, &quanta, &rounding);
  uint n = problem.n;
  const uint *slots = arrays.member_slots + first, *positions = arrays.slot_positions + first;
  const uint *births = arrays.births + first, *sizes = arrays.sizes + first;
  const uint *members = arrays.members + first;
  const double *all = problem.observation(0), *mean = problem.mean();
  double *sums = arrays.member_sums + 2 * first;
  FOR_EACH(i, 2 * problem.live) sums[i] = 0;
  __syncthreads();
  for (uint start = 0; start < n; start += THREADS) {
    uint m = start + threadIdx.x;
    uint position = NONE;
    double2 term = make_double2(0, 0);
    if (m < n) {
      position = positions[slots[m]];
      if (births[position] >= birth || sizes[position] == 1) position = NONE;
    }
    if (position != NONE) {
      const double *x = all + (size_t)members[m] * p;
      Difference<P> difference(p, READABLE, [=](uint k) { return x[k] - mean[k]; });
      double distance =
          is_shaped ? difference.to_shape(p, problem.factor()) : difference.to_identity(p);
      term = exact_term(distance, quanta);
    }
    // The members of a cluster are consecutive, so most warps have a single cluster.
    uint head = __shfl_sync(WHOLE_WARP, position, 0);
    if (__all_sync(WHOLE_WARP, position == head)) {
      for (int offset = WARP / 2; offset; offset /= 2) {
        term.x += __shfl_xor_sync(WHOLE_WARP, term.x, offset);
        term.y += __shfl_xor_sync(WHOLE_WARP, term.y, offset);
      }
      if (threadIdx.x % WARP != 0) position = NONE;
    }
    if (position != NONE) {
      atomicAdd(sums + 2 * position, term.x);
      atomicAdd(sums + 2 * position + 1, term.y);
    }
  }
  __syncthreads();
}
