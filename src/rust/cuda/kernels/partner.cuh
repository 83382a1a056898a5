// Searches for a cluster's partner: the nearest of the older clusters; among equally near ones, the
// one with the first slots. Also searches for the second nearest, which becomes the partner if the
// first is merged away.
//
// The cluster that searches is the owner of the pair. The distance of a pair is the average of two
// directed distances: `to_owner`, from the other cluster's mean or members, and `from_owner`. The
// first is cheap, because the owner's mean and whitening factor are in shared memory. For the
// second, a lower bound comes first; `from_owner` is computed only if the bound competes.

#pragma once

#include "block.cuh"
#include "distance.cuh"
#include "problem.cuh"

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
    uint place = NONE;
    double2 term = make_double2(0, 0);
    if (m < n) {
      place = positions[slots[m]];
      if (births[place] >= birth || sizes[place] == 1) place = NONE;
    }
    if (place != NONE) {
      const double *x = all + (size_t)members[m] * p;
      Difference<P> difference(p, READABLE, [=](uint k) { return x[k] - mean[k]; });
      double distance =
          is_shaped ? difference.to_shape(p, problem.factor()) : difference.to_identity(p);
      term = exact_term(distance, quanta);
    }
    // The members of a cluster are consecutive, so most warps have a single cluster.
    uint head = __shfl_sync(WHOLE_WARP, place, 0);
    if (__all_sync(WHOLE_WARP, place == head)) {
      for (int offset = WARP / 2; offset; offset /= 2) {
        term.x += __shfl_xor_sync(WHOLE_WARP, term.x, offset);
        term.y += __shfl_xor_sync(WHOLE_WARP, term.y, offset);
      }
      if (threadIdx.x % WARP != 0) place = NONE;
    }
    if (place != NONE) {
      atomicAdd(sums + 2 * place, term.x);
      atomicAdd(sums + 2 * place + 1, term.y);
    }
  }
  __syncthreads();
}

// A search for the two nearest of the clusters that are older than the one at position `owner`.
// `first` and `second` are the two least keys so far, of the pairs with the clusters at positions
// `nearest` and `next`.
struct PartnerSearch {
  uint owner, slot, birth, shape;
  bool averages_members; // whether the owner's members count
  Key first, second;
  uint nearest, next;

  __device__ __forceinline__ void consider(const Key &key, uint position) {
    if (!(key < second)) return;
    bool is_first = key < first;
    second = is_first ? first : key;
    next = is_first ? nearest : position;
    if (!is_first) return;
    first = key;
    nearest = position;
  }
  // Combines the searches of all threads: each gets the two least keys of all. More than one thread
  // may have the same key.
  __device__ __forceinline__ void share(Shared &shared) {
    Key own = first;
    uint own_position = nearest;
    first = block_least(shared, first, &nearest);
    // Different pairs have different keys.
    bool is_it = own.value == first.value && own.tie == first.tie;
    next = is_it ? next : own_position;
    second = block_least(shared, is_it ? second : own, &next);
  }
  // Whether a pair with this lower bound may be one of the two nearest.
  __device__ __forceinline__ bool competes(ulong bound) const {
    return bound < INFINITY_BITS && bound <= second.value;
  }
};

// The mean distance of the members of the cluster at a position to the owner, from their sum.
__device__ __forceinline__ double mean_to_owner(const Problem &problem, uint position) {
  const double *sum = problem.arrays.member_sums + 2 * (problem.first + position);
  return exact_mean(sum[0], sum[1], problem.arrays.sizes[problem.first + position]);
}

// Goes over all older clusters, a thread for each. Considers the clusters with a cheap distance,
// and writes a lower bound on the distance of each other cluster to `bounds`, or infinity if
// nothing is left to do. Returns the thread's least bound, with its position as tie.
template <int P, bool MEMBER_DISTANCES>
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
      if (MEMBER_DISTANCES && other_size > 1)
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

// The key of the pair with the cluster at a position, from its directed distance `from_owner`; by a
// warp.
template <bool MEMBER_DISTANCES>
__device__ __noinline__ Key key_of(const Problem &problem, const PartnerSearch &search,
                                   uint position, double from_owner, double *scratch) {
  const Arrays &arrays = problem.arrays;
  double to_owner;
  if (MEMBER_DISTANCES && arrays.sizes[problem.first + position] > 1)
    to_owner = mean_to_owner(problem, position);
  else
    to_owner = warp_distance(
        problem.p, [&](uint k) { return problem.mean_at(k, position) - problem.mean()[k]; },
        search.shape == NONE ? nullptr : problem.factor(), scratch);
  return pair_key(average(to_owner, from_owner), search.slot,
                  arrays.slots[problem.first + position]);
}

// Considers the cluster at a position, by a warp. All lanes have the same `search`.
template <int P, bool MEMBER_DISTANCES>
__device__ __noinline__ void consider_by_warp(const Problem &problem, PartnerSearch &search,
                                              uint position) {
  uint shape = problem.shape_at(position);
  double *scratch = problem.scratch() + threadIdx.x / WARP * 2 * problem.p, from_owner;
  if (MEMBER_DISTANCES && search.averages_members) {
    double2 sum = part_of_sum<P>(problem, search.owner, position, threadIdx.x % WARP, WARP);
    from_owner = exact_mean(warp_sum(sum.x), warp_sum(sum.y),
                            problem.arrays.sizes[problem.first + search.owner]);
  } else {
    from_owner = warp_distance(
        problem.p, [&](uint k) { return problem.mean()[k] - problem.mean_at(k, position); },
        shape == NONE ? nullptr : problem.shape_factor(shape), scratch);
  }
  search.consider(key_of<MEMBER_DISTANCES>(problem, search, position, from_owner, scratch),
                  position);
}

// Considers the cluster at a position, by all threads of the block, for an owner of many members.
template <int P, bool MEMBER_DISTANCES>
__device__ __noinline__ void consider_by_block(Problem &problem, PartnerSearch &search,
                                               uint position) {
  double2 sum = part_of_sum<P>(problem, search.owner, position, threadIdx.x, THREADS);
  sum = block_sum(problem.shared, sum.x, sum.y);
  double from_owner = exact_mean(sum.x, sum.y, problem.arrays.sizes[problem.first + search.owner]);
  double *scratch = problem.scratch() + threadIdx.x / WARP * 2 * problem.p;
  search.consider(key_of<MEMBER_DISTANCES>(problem, search, position, from_owner, scratch),
                  position);
}

// Considers all clusters with bounds that compete. Each warp knows only its own search, so some
// distances are computed in vain.
template <int P, bool MEMBER_DISTANCES>
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
        consider_by_warp<P, MEMBER_DISTANCES>(problem, search, start + n * THREADS + lane);
      }
    }
  }
}

// Considers all clusters with bounds that compete, one after the other, each by all threads of the
// block.
template <int P, bool MEMBER_DISTANCES>
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
      consider_by_block<P, MEMBER_DISTANCES>(problem, search, next.tie);
    }
  }
}

// Number of members from which on a block computes a mean distance together.
#define MANY_MEMBERS THREADS

// Finds the two nearest of the clusters that are older than the one at position `owner`, by all
// threads of the block: first the cheap distances, and lower bounds on the others; then the other
// distances if their bounds compete.
template <int P, bool MEMBER_DISTANCES>
__device__ __noinline__ void find_partner(Problem &problem, uint owner) {
  const Arrays &arrays = problem.arrays;
  uint p = problem.p, size = arrays.sizes[problem.first + owner];
  ulong first = problem.first;
  PartnerSearch search = {owner,
                          arrays.slots[first + owner],
                          arrays.births[first + owner],
                          problem.shape_at(owner),
                          MEMBER_DISTANCES && size > 1,
                          {INFINITY_BITS, ~0ull},
                          {INFINITY_BITS, ~0ull},
                          NONE,
                          NONE};
  // The owner's mean and factor are copied to shared memory.
  read_mean<P>(problem, owner);
  if (search.shape != NONE) {
    const double *factor = problem.shape_factor(search.shape);
    FOR_EACH(e, banded_length(p)) problem.factor()[e] = factor[e];
  }
  __syncthreads();
  if (MEMBER_DISTANCES && problem.live < problem.n)
    sum_members<P>(problem, owner, search.shape != NONE);
  Key least = bound_distances<P, MEMBER_DISTANCES>(problem, search);
  uint position = least.tie;
  if (MEMBER_DISTANCES && size >= MANY_MEMBERS) {
    least = block_least(problem.shared, least, &position);
    search.share(problem.shared);
    if (search.competes(least.value)) {
      // The cluster with the least bound comes first, so that the others have something to compete
      // with.
      consider_by_block<P, MEMBER_DISTANCES>(problem, search, position);
      consider_in_turn<P, MEMBER_DISTANCES>(problem, search, position);
    }
  } else {
    least = warp_least(least, &position);
    search.share(problem.shared);
    bool competes = search.competes(least.value);
    if (__syncthreads_or(competes)) {
      // Each warp begins with its own least bound.
      if (competes) consider_by_warp<P, MEMBER_DISTANCES>(problem, search, position);
      search.share(problem.shared);
      consider_by_warps<P, MEMBER_DISTANCES>(problem, search, position);
      search.share(problem.shared);
    }
  }
  if (threadIdx.x == 0) {
    uint at[] = {search.nearest, search.next};
    ulong values[] = {search.first.value, search.second.value};
#pragma unroll
    for (uint rank = 0; rank < 2; rank++) {
      Partner found = {__longlong_as_double(values[rank]), NONE, NONE};
      if (at[rank] != NONE) {
        found.slot = arrays.slots[first + at[rank]];
        found.birth = arrays.births[first + at[rank]];
      }
      arrays.partners[2 * (first + owner) + rank] = found;
    }
    problem.change(owner);
  }
  __syncthreads();
}

// Finds the two nearest older observations of all observations at the start, by a thread for each.
template <int P> __device__ __noinline__ void find_partners_of_observations(Problem &problem) {
  const Arrays &arrays = problem.arrays;
  uint p = problem.p;
  const double *all = problem.observation(0);
  FOR_EACH(i, problem.n) {
    const double *mine = all + (size_t)i * p;
    Difference<P> x(p, READABLE, [=](uint k) { return mine[k]; });
    // An observation's birth is its slot.
    Partner nearest = {infinity(), NONE, NONE}, next = nearest;
    double nearest_square = infinity(), next_square = nearest_square;
    for (uint j = 0; j < i; j++) {
      double square = x.square_to(p, all + (size_t)j * p);
      if (square >= next_square) continue;
      double distance = sqrt(square);
      if (distance < nearest.distance) {
        next = nearest;
        next_square = nearest_square;
        nearest = {distance, j, j};
        nearest_square = square;
      } else if (distance < next.distance) {
        next = {distance, j, j};
        next_square = square;
      }
    }
    arrays.partners[2 * (problem.first + i)] = nearest;
    arrays.partners[2 * (problem.first + i) + 1] = next;
  }
  __syncthreads();
}
