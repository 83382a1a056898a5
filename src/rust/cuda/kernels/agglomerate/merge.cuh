// Merges two clusters: their mean, scatter, members, moments and whitening factor.

#pragma once

#include "agglomerate/problem.cuh"
#include "agglomerate/screen.cuh"
#include "block.cuh"
#include "cluster/shape.cuh"
#include "cluster/whitening.cuh"

// Moves the members of the clusters at positions `to` and `from` together, in the order of their
// segments; by all threads of the block.
__device__ __noinline__ void join_members(Problem &problem, uint to, uint from) {
  const Arrays &arrays = problem.arrays;
  ulong first = problem.first;
  uint to_start = arrays.member_starts[first + to], to_size = arrays.sizes[first + to];
  uint from_start = arrays.member_starts[first + from], from_size = arrays.sizes[first + from];
  uint slot = arrays.slots[first + to];
  // The earlier segment stays. The later segment moves to its end, and the members in between move
  // back by its length.
  uint head = min(to_start, from_start), tail = max(to_start, from_start);
  uint head_size = head == to_start ? to_size : from_size;
  uint tail_size = head == to_start ? from_size : to_size;
  uint end = head + head_size;
  for (uint m = end + threadIdx.x; m < tail + tail_size; m += THREADS) {
    uint target = m < tail ? m + tail_size : end + (m - tail);
    arrays.next_members[first + target] = arrays.members[first + m];
    arrays.next_member_slots[first + target] = arrays.member_slots[first + m];
  }
  __syncthreads();
  for (uint m = end + threadIdx.x; m < tail + tail_size; m += THREADS) {
    arrays.members[first + m] = arrays.next_members[first + m];
    arrays.member_slots[first + m] = arrays.next_member_slots[first + m];
  }
  __syncthreads();
  FOR_EACH(m, head_size + tail_size) arrays.member_slots[first + head + m] = slot;
  FOR_EACH(position, problem.live) {
    uint start = arrays.member_starts[first + position];
    if (start >= end && start < tail) arrays.member_starts[first + position] = start + tail_size;
  }
  __syncthreads();
  if (threadIdx.x == 0) arrays.member_starts[first + to] = head;
  __syncthreads();
}

// `block_sum` without inlining, for many calls.
__device__ __noinline__ double2 sum_of_both(Shared &shared, double x, double y) {
  return block_sum(shared, x, y);
}

// Computes the moments of the members of the cluster at a position about its mean, by all threads
// of the block.
template <int P>
__device__ __noinline__ void measure_moments(Problem &problem, uint position,
                                             const double *scatter) {
  const Arrays &arrays = problem.arrays;
  uint p = problem.p, size = arrays.sizes[problem.first + position];
  const uint *members =
      arrays.members + problem.first + arrays.member_starts[problem.first + position];
  read_mean<P>(problem, position);
  __syncthreads();
  double2 moments = make_double2(0, 0);
  constexpr int SIZE = Difference<P>::SIZE, UNROLL = Difference<P>::UNROLL;
  // For each coordinate, the sum of its third moments with all coordinates.
  double sums[SIZE];
#pragma unroll UNROLL
  for (int k = 0; k < SIZE; k++) sums[k] = 0;
  const double *all = problem.observation(0), *mean = problem.mean();
  FOR_EACH(m, size) {
    const double *x = all + (size_t)members[m] * p;
    Difference<P> difference(p, READABLE, [=](uint k) { return x[k] - mean[k]; });
    double square = 0;
#pragma unroll UNROLL
    for (int k = 0; k < SIZE; k++) {
      if (k >= p) break;
      square = fma(difference.d[k], difference.d[k], square);
    }
#pragma unroll UNROLL
    for (int k = 0; k < SIZE; k++) {
      if (k >= p) break;
      sums[k] = fma(square, difference.d[k], sums[k]);
    }
    moments.x += square;
    moments.y = fma(square, square, moments.y);
  }
  moments = block_sum(problem.shared, moments.x, moments.y);
  double third = 0, squares = 0, trace = 0;
#pragma unroll UNROLL
  for (int k = 0; k < SIZE; k += 2) {
    if (k >= p) break;
    double2 both = sum_of_both(problem.shared, sums[k], sums[k + 1]);
    third = fma(both.x, both.x, fma(both.y, both.y, third));
  }
  FOR_EACH(e, p * p) {
    uint i = e / p, j = e % p;
    double value = scatter[packed_at(i, j)];
    squares = fma(value, value, squares);
    if (i == j) trace += value;
  }
  double2 norms = block_sum(problem.shared, squares, trace);
  if (threadIdx.x == 0) {
    double *stored = arrays.moments + (problem.first + position) * MOMENTS;
    stored[MOMENT_VARIANCE] = moments.x / size * (1 - SLACK);
    double fourth = moments.y / size * (1 + SLACK);
    // An infinite fourth moment makes the bound 0.
    stored[MOMENT_FOURTH] = moments.x == 0 || fourth >= LEAST_MOMENT ? fourth : infinity();
    stored[MOMENT_LARGEST] = largest_eigenvalue_bound(norms.y, norms.x, p) / size * (1 + SLACK);
    // The inequality of Cauchy and Schwarz bounds the third moment by the second and the fourth.
    stored[MOMENT_THIRD] =
        (third >= LEAST_MOMENT ? sqrt(third) / size
                               : sqrt(moments.x / size) * sqrt(moments.y / size)) *
        (1 + SLACK);
  }
  __syncthreads();
}

// Moves a cluster from position `last` to position `from`, by all threads of the block.
template <bool FULL_DISTANCES>
__device__ __forceinline__ void move_cluster(Problem &problem, const Arrays &arrays, uint p,
                                             ulong first, uint last, uint from) {
  FOR_EACH(k, p) {
    double *means = problem.means() + (size_t)k * problem.n;
    means[from] = means[last];
  }
  if (threadIdx.x == 0) {
    uint slot = arrays.slots[first + last];
    arrays.slots[first + from] = slot;
    arrays.slot_positions[first + slot] = from;
    arrays.sizes[first + from] = arrays.sizes[first + last];
    arrays.births[first + from] = arrays.births[first + last];
    arrays.shapes[first + from] = arrays.shapes[first + last];
    for (uint rank = 0; rank < 2; rank++)
      arrays.partners[2 * (first + from) + rank] = arrays.partners[2 * (first + last) + rank];
    if (FULL_DISTANCES) {
      arrays.member_starts[first + from] = arrays.member_starts[first + last];
      for (uint k = 0; k < MOMENTS; k++)
        arrays.moments[(first + from) * MOMENTS + k] = arrays.moments[(first + last) * MOMENTS + k];
    }
  }
}

// `reshape` without inlining, for more than one call.
template <bool FULL_DISTANCES>
__device__ __noinline__ uint reshape_cluster(Problem &problem, uint shape, uint members) {
  return reshape<FULL_DISTANCES>(problem, shape, members);
}

// Merges the clusters at positions `to` (which has the lower slot) and `from`, by all threads of
// the block. Returns the position of their union.
template <int P, bool FULL_DISTANCES>
__device__ __noinline__ uint merge(Problem &problem, uint to, uint from, uint birth,
                                   uint *shapes_used, uint *free_shapes) {
  const Arrays &arrays = problem.arrays;
  uint p = problem.p;
  ulong first = problem.first;
  uint size_a = arrays.sizes[first + to], size_b = arrays.sizes[first + from];
  uint shape_a = arrays.shapes[first + to], shape_b = arrays.shapes[first + from];
  double m_a = size_a, m_b = size_b;
  double share = share_of(m_a, m_b);
  double weight = between_weight(m_a, m_b);
  FOR_EACH(k, p) problem.mean()[k] = problem.mean_at(k, from) - problem.mean_at(k, to);
  // The numbers of the shapes, without the mark of the identity.
  if (shape_a != NONE) shape_a &= ~IDENTITY;
  if (shape_b != NONE) shape_b &= ~IDENTITY;
  uint shape = shape_a != NONE ? shape_a : shape_b;
  if (shape == NONE) {
    if (*free_shapes > 0) {
      *free_shapes -= 1;
      shape = arrays.free_shapes[first + *free_shapes];
    } else {
      shape = *shapes_used;
      *shapes_used += 1;
    }
  } else if (shape_a != NONE && shape_b != NONE) {
    if (threadIdx.x == 0) arrays.free_shapes[first + *free_shapes] = shape_b;
    *free_shapes += 1;
  }
  __syncthreads();
  double *scatter = problem.shape_scatter(shape);
  FOR_EACH(e, p * p) {
    uint i = e / p, j = e % p, at = packed_length(i) + j;
    if (j > i) continue;
    double both = shape_a == NONE ? 0.0 : problem.shape_scatter(shape_a)[at];
    if (shape_b != NONE) both = both + problem.shape_scatter(shape_b)[at];
    scatter[at] = merged_scatter(weight * problem.mean()[i], problem.mean()[j], both);
  }
  FOR_EACH(k, p) {
    double *value = problem.means() + (size_t)k * problem.n + to;
    *value = merged_mean(share, problem.mean()[k], *value);
  }
  __syncthreads();
  if (FULL_DISTANCES) join_members(problem, to, from);
  uint size = size_a + size_b, last = problem.live - 1;
  // The union takes the place of the larger cluster, so that it stays among its neighbours.
  uint place = NONE, other_place = NONE;
  if (!FULL_DISTANCES) {
    place = arrays.places[first + arrays.slots[first + (size_a < size_b ? from : to)]];
    other_place = arrays.places[first + arrays.slots[first + (size_a < size_b ? to : from)]];
  }
  if (threadIdx.x == 0) {
    arrays.slot_births[first + arrays.slots[first + to]] = birth;
    arrays.slot_births[first + arrays.slots[first + from]] = NONE;
    arrays.sizes[first + to] = size;
    arrays.births[first + to] = birth;
    problem.change(from);
    problem.change(last);
  }
  __syncthreads();
  // The cluster at the last position fills the gap.
  if (from != last) {
    move_cluster<FULL_DISTANCES>(problem, arrays, p, first, last, from);
  }
  problem.live = last;
  __syncthreads();
  uint position = to == last ? from : to;
  shape = reshape_cluster<FULL_DISTANCES>(problem, shape, size);
  if (threadIdx.x == 0) arrays.shapes[first + position] = shape;
  if (!FULL_DISTANCES && threadIdx.x < WARP)
    place_union(problem, position, place, other_place, birth, shape);
  __syncthreads();
  if (FULL_DISTANCES)
    measure_moments<P>(problem, position, scatter);
  else if (problem.places > FEW_PLACES && problem.places > PLACES_A_CLUSTER * problem.live)
    move_together<P>(problem);
  return position;
}
