// Searches for a partner with full distances. The distance of a pair is the average of two directed
// distances: `to_owner`, from the other cluster's members, and `from_owner`. The first is cheap,
// because the owner's mean and whitening factor are in shared memory. For the second, a lower bound
// comes first; `from_owner` is computed only if the bound competes.

#pragma once

#include "agglomerate/partner_search.cuh"

// The mean distance of the members of the cluster at a position to the owner, from their sum.
__device__ __forceinline__ double mean_to_owner(const Problem &problem, uint position) {
  const double *sum = problem.arrays.member_sums + 2 * (problem.first + position);
  return exact_mean(sum[0], sum[1], problem.arrays.sizes[problem.first + position]);
}

// Goes over all older clusters, a thread for each, for full distances. Considers the clusters with
// a cheap distance, and writes a lower bound on the distance of each other cluster to `bounds`, or
// infinity if nothing is left to do. Returns the thread's least bound, with its position as tie.
template <int P>
__device__ __forceinline__ Key bound_distances(const Problem &problem, PartnerSearch &of_thread) {
  PartnerSearch search = of_thread; // in registers
  const Arrays &arrays = problem.arrays;
  uint p = problem.p;
  ulong first = problem.first;
  const double *moments = arrays.moments + (first + search.owner) * MOMENTS;
  // Upper bound on the distance between the owner's mean, as rounded, and the mean of its members:
  // see Clusters::mean_error in clusters/state.rs.
  double mean_error = 0;
  if (search.averages_members) {
    for (uint k = 0; k < p; k++) mean_error = fma(problem.mean()[k], problem.mean()[k], mean_error);
    mean_error = 4.0 * arrays.sizes[first + search.owner] * EPSILON * sqrt(mean_error);
  }
  uint n = problem.n, live = problem.live;
  const uint *births = arrays.births + first, *slots = arrays.slots + first;
  const uint *sizes = arrays.sizes + first, *shapes = arrays.shapes + first;
  const double *means = problem.means(), *mean = problem.mean(), *factor = problem.factor();
  const double *scalars = problem.shape_scalars(0);
  double *bounds = arrays.bounds + first;
  Key least = {INFINITY_BITS, ~0ull};
  FOR_EACH(other, live) {
    // All values are requested before any is used.
    uint other_birth = births[other], other_slot = slots[other];
    uint other_size = sizes[other], other_shape = shapes[other];
    if (other_shape & IDENTITY) other_shape = NONE;
    const double *coordinate = means + other;
    Difference<P> difference(p, READABLE, [&](uint k) {
      double value = *coordinate - mean[k];
      if (k + 1 < p) coordinate += n;
      return value;
    });
    double bound = infinity();
    if (other_birth < search.birth) {
      double centroids = difference.to_identity(p);
      double to_owner;
      if (other_size > 1)
        to_owner = mean_to_owner(problem, other);
      else
        to_owner = search.shape == NONE ? centroids : difference.to_shape(p, factor);
      if (!search.averages_members && other_shape == NONE) {
        search.consider(pair_key(average(to_owner, centroids), search.slot, other_slot), other);
      } else {
        double smallest =
            other_shape == NONE ? 1 : scalars[other_shape * SHAPE_SCALARS + SMALLEST_STRETCH];
        double norm = search.averages_members
                          ? fmax(centroids, mean_norm(moments, centroids * centroids))
                          : centroids;
        double from_owner = smallest * (norm * (1 - SLACK) - mean_error);
        if (search.averages_members) {
          Quanta quanta;
          double rounding;
          quanta_at(problem, other, &quanta, &rounding);
          from_owner = fmax(from_owner - rounding, 0.0);
        }
        bound = average(to_owner, from_owner);
      }
    }
    bounds[other] = bound;
    Key key = {(ulong)__double_as_longlong(bound), other};
    if (key < least) least = key;
  }
  of_thread = search;
  return least;
}

// The key of the pair with the cluster at a position, from its directed distance `from_owner`, for
// full distances; by a warp.
__device__ __noinline__ Key key_of(const Problem &problem, const PartnerSearch &search,
                                   uint position, double from_owner, double *scratch) {
  const Arrays &arrays = problem.arrays;
  double to_owner;
  if (arrays.sizes[problem.first + position] > 1)
    to_owner = mean_to_owner(problem, position);
  else
    to_owner = warp_distance(
        problem.p, [&](uint k) { return problem.mean_at(k, position) - problem.mean()[k]; },
        search.shape == NONE ? nullptr : problem.factor(), scratch);
  return pair_key(average(to_owner, from_owner), search.slot,
                  arrays.slots[problem.first + position]);
}

// Considers the cluster at a position, for full distances, by a warp. All lanes have the same
// `search`.
template <int P>
__device__ __noinline__ void consider_by_warp(const Problem &problem, PartnerSearch &search,
                                              uint position) {
  uint shape = problem.shape_at(position);
  double *scratch = problem.scratch() + threadIdx.x / WARP * 2 * problem.p, from_owner;
  if (search.averages_members) {
    double2 sum = part_of_sum<P>(problem, search.owner, position, threadIdx.x % WARP, WARP);
    from_owner = exact_mean(warp_sum(sum.x), warp_sum(sum.y),
                            problem.arrays.sizes[problem.first + search.owner]);
  } else {
    from_owner = warp_distance(
        problem.p, [&](uint k) { return problem.mean()[k] - problem.mean_at(k, position); },
        shape == NONE ? nullptr : problem.shape_factor(shape), scratch);
  }
  search.consider(key_of(problem, search, position, from_owner, scratch), position);
}

// As `consider_by_warp`, by all threads of the block, for an owner of many members.
template <int P>
__device__ __noinline__ void consider_by_block(Problem &problem, PartnerSearch &search,
                                               uint position) {
  double2 sum = part_of_sum<P>(problem, search.owner, position, threadIdx.x, THREADS);
  sum = block_sum(problem.shared, sum.x, sum.y);
  double from_owner = exact_mean(sum.x, sum.y, problem.arrays.sizes[problem.first + search.owner]);
  double *scratch = problem.scratch() + threadIdx.x / WARP * 2 * problem.p;
  search.consider(key_of(problem, search, position, from_owner, scratch), position);
}

// Considers all clusters with bounds that compete. Each warp knows only its own search, so some
// distances are computed in vain.
template <int P>
__device__ __forceinline__ void consider_by_warps(const Problem &problem, PartnerSearch &search,
                                                  uint done) {
  constexpr uint TOGETHER = 4; // number of bounds that a thread reads at a time
  const double *bounds = problem.arrays.bounds + problem.first;
  for (uint start = threadIdx.x / WARP * WARP; start < problem.live; start += TOGETHER * THREADS) {
    double read[TOGETHER];
#pragma unroll
    for (uint n = 0; n < TOGETHER; n++) {
      uint position = start + n * THREADS + threadIdx.x % WARP;
      bool counts = position < problem.live && position != done;
      read[n] = counts ? bounds[position] : infinity();
    }
#pragma unroll
    for (uint n = 0; n < TOGETHER; n++) {
      for (uint left = WHOLE_WARP;;) {
        ulong bits = __double_as_longlong(read[n]);
        left &= __ballot_sync(WHOLE_WARP, search.competes(bits));
        if (left == 0) break;
        uint lane = __ffs(left) - 1;
        left &= left - 1;
        consider_by_warp<P>(problem, search, start + n * THREADS + lane);
      }
    }
  }
}

// Considers all clusters with bounds that compete, one after the other, each by all threads of the
// block.
template <int P>
__device__ __forceinline__ void consider_in_turn(Problem &problem, PartnerSearch &search,
                                                 uint done) {
  const double *bounds = problem.arrays.bounds + problem.first;
  for (uint start = 0; start < problem.live; start += THREADS) {
    uint position = start + threadIdx.x;
    bool counts = position < problem.live && position != done;
    ulong bits = counts ? __double_as_longlong(bounds[position]) : INFINITY_BITS;
    for (;;) {
      bool competes = search.competes(bits);
      Key next = {competes ? bits : INFINITY_BITS, competes ? position : ~0ull};
      uint unused = 0;
      next = block_least(problem.shared, next, &unused);
      if (next.value == INFINITY_BITS) break;
      if (next.tie == position) bits = INFINITY_BITS;
      consider_by_block<P>(problem, search, next.tie);
    }
  }
}

// Number of members from which on a block computes a mean distance together.
#define MANY_MEMBERS THREADS

// Considers all older clusters, by all threads of the block, for full distances: first the cheap
// distances, and lower bounds on the others; then the other distances if their bounds compete.
template <int P>
__device__ __forceinline__ void consider_all(Problem &problem, PartnerSearch &search, uint size) {
  if (problem.live < problem.n) sum_members<P>(problem, search.owner, search.shape != NONE);
  Key least = bound_distances<P>(problem, search);
  uint position = least.tie;
  if (size >= MANY_MEMBERS) {
    least = block_least(problem.shared, least, &position);
    search.share(problem.shared);
    if (search.competes(least.value)) {
      // The cluster with the least bound comes first, so that the others have something to compete
      // with.
      consider_by_block<P>(problem, search, position);
      consider_in_turn<P>(problem, search, position);
    }
    return;
  }
  least = warp_least(least, &position);
  search.share(problem.shared);
  bool competes = search.competes(least.value);
  if (!__syncthreads_or(competes)) return;
  // Each warp begins with its own least bound.
  if (competes) consider_by_warp<P>(problem, search, position);
  search.share(problem.shared);
  consider_by_warps<P>(problem, search, position);
  search.share(problem.shared);
}
