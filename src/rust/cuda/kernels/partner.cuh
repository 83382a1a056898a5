// The search for a cluster's partner: the nearest of the clusters older than it, of several the one
// that comes first by slots.
//
// The cluster that searches is the owner of the pair. Both directed distances of a pair count:
// `to_owner`, from the other cluster's mean or members, and `from_owner`. The first takes little,
// as the owner's mean and whitening factor are in shared memory; the second only has a lower bound
// at first, and is computed where that competes.

#pragma once

#include "block.cuh"
#include "distance.cuh"
#include "problem.cuh"

// The quanta of a position's cluster, and more than they drop of each term; those of the identity
// where it has no shape.
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

// The mean distance of the owner's members to the cluster at a position, by a warp.
template <int P>
__device__ double warp_mean_distance(const Problem &problem, uint owner, uint position) {
  const Arrays &arrays = problem.arrays;
  uint shape = problem.shape_at(position), size = arrays.sizes[problem.first + owner];
  const uint *members =
      arrays.members + problem.first + arrays.member_starts[problem.first + owner];
  Quanta quanta;
  double rounding;
  quanta_at(problem, position, &quanta, &rounding);
  double high = 0, low = 0;
  for (uint m = threadIdx.x % WARP; m < size; m += WARP) {
    const double *x = problem.observation(members[m]);
    Difference<P> difference(problem.p,
                             [&](uint k) { return x[k] - problem.mean_at(k, position); });
    double distance = shape == NONE ? difference.to_identity(problem.p)
                                    : difference.to_shape(problem.p, problem.shape_factor(shape));
    double2 term = exact_term(distance, quanta);
    high += term.x;
    low += term.y;
  }
  for (int offset = WARP / 2; offset; offset /= 2) {
    high += __shfl_xor_sync(WHOLE_WARP, high, offset);
    low += __shfl_xor_sync(WHOLE_WARP, low, offset);
  }
  return exact_mean(high, low, size);
}

// Sums the distances of the members of the older clusters to the owner, whose mean and, if it is shaped,
// whose factor are in shared memory.
template <int P>
__device__ __noinline__ void sum_members(Problem &problem, uint owner, bool is_shaped) {
  const Arrays &arrays = problem.arrays;
  ulong first = problem.first;
  uint p = problem.p, birth = arrays.births[first + owner];
  Quanta quanta;
  double rounding;
  quanta_at(problem, owner, &quanta, &rounding);
  FOR_EACH(i, 2 * problem.live) arrays.member_sums[2 * first + i] = 0;
  __syncthreads();
  for (uint start = 0; start < problem.n; start += THREADS) {
    uint m = start + threadIdx.x;
    uint place = NONE;
    double2 term = make_double2(0, 0);
    if (m < problem.n) {
      place = arrays.slot_positions[first + arrays.member_slots[first + m]];
      if (arrays.births[first + place] >= birth || arrays.sizes[first + place] == 1) place = NONE;
    }
    if (place != NONE) {
      const double *x = problem.observation(arrays.members[first + m]);
      Difference<P> difference(p, [&](uint k) { return x[k] - problem.mean()[k]; });
      double distance =
          is_shaped ? difference.to_shape(p, problem.factor()) : difference.to_identity(p);
      term = exact_term(distance, quanta);
    }
    // The members of a cluster are neighbours: mostly the warp has one sum.
    uint head = __shfl_sync(WHOLE_WARP, place, 0);
    if (__all_sync(WHOLE_WARP, place == head)) {
      for (int offset = WARP / 2; offset; offset /= 2) {
        term.x += __shfl_xor_sync(WHOLE_WARP, term.x, offset);
        term.y += __shfl_xor_sync(WHOLE_WARP, term.y, offset);
      }
      if (threadIdx.x % WARP != 0) place = NONE;
    }
    if (place != NONE) {
      atomicAdd(arrays.member_sums + 2 * (first + place), term.x);
      atomicAdd(arrays.member_sums + 2 * (first + place) + 1, term.y);
    }
  }
  __syncthreads();
}

// Finds the nearest of the clusters that are older than the one at `owner`: first what takes little
// to know exactly, and lower bounds on the rest; then the rest, as far as the bounds compete.
template <int P, bool MEMBER_DISTANCES>
__device__ __noinline__ void find_partner(Problem &problem, uint owner) {
  const Arrays &arrays = problem.arrays;
  uint p = problem.p, live = problem.live;
  ulong first = problem.first;
  uint shape = problem.shape_at(owner), slot = arrays.slots[first + owner],
       birth = arrays.births[first + owner];
  bool averages_members = MEMBER_DISTANCES && arrays.sizes[first + owner] > 1;
  // The owner's mean and factor go to shared memory.
  FOR_EACH(k, p) problem.mean()[k] = problem.mean_at(k, owner);
  if (shape != NONE) {
    const double *factor = problem.shape_factor(shape);
    FOR_EACH(e, banded_length(p)) problem.factor()[e] = factor[e];
  }
  if (threadIdx.x == 0) problem.shared.candidate_count = 0;
  __syncthreads();
  if (MEMBER_DISTANCES && live < problem.n) sum_members<P>(problem, owner, shape != NONE);

  const double *moments = arrays.moments + (first + owner) * MOMENTS;
  // At most how far the owner's mean, as rounded, is from that of its members: see
  // Clusters::mean_error in clusters/state.rs.
  double mean_error = 0;
  if (averages_members) {
    for (uint k = 0; k < p; k++) mean_error = fma(problem.mean()[k], problem.mean()[k], mean_error);
    mean_error = 4.0 * arrays.sizes[first + owner] * EPSILON * sqrt(mean_error);
  }
  Key best = {INFINITY_BITS, ~0ull};
  uint partner = NONE;
  FOR_EACH(other, live) {
    // All that is needed is asked for before anything is waited for.
    uint other_birth = arrays.births[first + other], other_slot = arrays.slots[first + other];
    uint other_size = arrays.sizes[first + other], other_shape = problem.shape_at(other);
    Difference<P> difference(p,
                             [&](uint k) { return problem.mean_at(k, other) - problem.mean()[k]; });
    if (other_birth >= birth) continue;
    double centroids = difference.to_identity(p);
    double to_owner;
    if (MEMBER_DISTANCES && other_size > 1) {
      const double *sum = arrays.member_sums + 2 * (first + other);
      to_owner = exact_mean(sum[0], sum[1], other_size);
    } else {
      to_owner = shape == NONE ? centroids : difference.to_shape(p, problem.factor());
    }
    if (!averages_members && other_shape == NONE) {
      Key key = pair_key(average(to_owner, centroids), slot, other_slot);
      if (key < best) {
        best = key;
        partner = other;
      }
      continue;
    }
    double smallest =
        other_shape == NONE ? 1 : problem.shape_scalars(other_shape)[SMALLEST_STRETCH];
    double norm =
        averages_members ? fmax(centroids, mean_norm(moments, centroids * centroids)) : centroids;
    double from_owner = smallest * (norm * (1 - SLACK) - mean_error);
    if (averages_members) {
      Quanta quanta;
      double rounding;
      quanta_at(problem, other, &quanta, &rounding);
      from_owner = fmax(from_owner - rounding, 0.0);
    }
    double bound = average(to_owner, from_owner);
    if ((ulong)__double_as_longlong(bound) > best.value) continue;
    uint at = atomicAdd(&problem.shared.candidate_count, 1);
    arrays.candidates[first + at] = other;
    arrays.to_owner[first + at] = to_owner;
    arrays.bounds[first + at] = bound;
  }
  best = block_least(problem.shared, best, &partner);
  uint count = problem.shared.candidate_count;

  if (count > 0) {
    // The one with the least bound, so that there is something to compete with.
    Key least = {INFINITY_BITS, ~0ull};
    uint nearest = 0;
    FOR_EACH(at, count) {
      Key key = {(ulong)__double_as_longlong(arrays.bounds[first + at]), at};
      if (key < least) {
        least = key;
        nearest = at;
      }
    }
    block_least(problem.shared, least, &nearest);
    uint warp = threadIdx.x / WARP;
    double *scratch = problem.scratch() + warp * 2 * p;
    // Warps take one each; all begin with the nearest.
    Key mine = best;
    uint my_partner = partner;
    for (uint turn = 0; turn <= (count + WARPS - 1) / WARPS; turn++) {
      uint at = turn == 0 ? nearest : (turn - 1) * WARPS + warp;
      if (at >= count) break;
      if (turn > 0 && at == nearest) continue;
      if ((ulong)__double_as_longlong(arrays.bounds[first + at]) > mine.value) continue;
      uint other = arrays.candidates[first + at];
      double from_owner =
          averages_members
              ? warp_mean_distance<P>(problem, owner, other)
              : warp_distance(
                    p, [&](uint k) { return problem.mean()[k] - problem.mean_at(k, other); },
                    problem.shape_factor(arrays.shapes[first + other]), scratch);
      Key key = pair_key(average(arrays.to_owner[first + at], from_owner), slot,
                         arrays.slots[first + other]);
      if (key < mine) {
        mine = key;
        my_partner = other;
      }
    }
    best = block_least(problem.shared, mine, &my_partner);
    partner = my_partner;
  }
  if (threadIdx.x == 0) {
    arrays.partner_distances[first + owner] = __longlong_as_double(best.value);
    arrays.partners[first + owner] = partner == NONE ? NONE : arrays.slots[first + partner];
    arrays.partner_births[first + owner] = partner == NONE ? NONE : arrays.births[first + partner];
  }
  __syncthreads();
}

// As `find_partner`, for all of the observations at the start: a thread each.
template <int P> __device__ __noinline__ void find_partners_of_observations(Problem &problem) {
  const Arrays &arrays = problem.arrays;
  FOR_EACH(i, problem.n) {
    const double *mine = problem.observation(i);
    Difference<P> x(problem.p, [&](uint k) { return mine[k]; });
    double least = __longlong_as_double(INFINITY_BITS), least_square = least;
    uint partner = NONE;
    for (uint j = 0; j < i; j++) {
      double square = x.square_to(problem.p, problem.observation(j));
      if (square >= least_square) continue;
      least_square = square;
      double distance = sqrt(square);
      if (distance < least) {
        least = distance;
        partner = j;
      }
    }
    arrays.partner_distances[problem.first + i] = least;
    arrays.partners[problem.first + i] = partner;
    arrays.partner_births[problem.first + i] = partner;
  }
  __syncthreads();
}
