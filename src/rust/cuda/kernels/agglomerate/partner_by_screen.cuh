// Searches for a partner with centroid distances: by lower bounds from the screen, in single
// precision. The distances of the few clusters with bounds that compete are computed in double
// precision.

#pragma once

#include "agglomerate/partner_search.cuh"
#include "agglomerate/screen.cuh"

// Maximum number of clusters that a search lists before it computes their distances. A warp lists
// up to WARP more clusters only after it has seen room for THREADS, which is WARP for each warp. If
// smaller than 2 * THREADS, the first balls may fill THREADS places already, and no warp goes on.
#define FOUND_ROOM (2 * THREADS)
// Maximum number of near balls that a search lists at a time.
#define NEAR_ROOM 512
// Number of clusters with the least bounds in each warp's first ball whose distances are computed
// first, for a limit; more if bounds are equal. Only the time depends on it.
#define FIRST_CONSIDERED 4

// The clusters that a search has found in the screen, and the near balls; in shared memory.
struct Found {
  uint slots[FOUND_ROOM], shapes[FOUND_ROOM];
  ushort balls[NEAR_ROOM];
  uint count, near_balls;
};

// The limit of a search, in screen units: a cluster competes if its bound is below.
__device__ __forceinline__ float limit_of(const Problem &problem, const PartnerSearch &search) {
  return next_above(__double2float_ru(__longlong_as_double(search.second.value) / problem.unit));
}

// Considers a cluster with a shape of this number, for centroid distances, by a pair of threads:
// the first computes the distance to the owner, the second the distance from the owner. All lanes
// of a warp call this function; only the pairs that are `there` have a cluster.
template <int P>
__device__ __noinline__ void consider_by_pair(const Problem &problem, PartnerSearch &search,
                                              bool there, uint slot, uint shape) {
  uint p = problem.p, n = problem.n, position = 0;
  bool is_first = threadIdx.x % 2 == 0;
  double distance = 0;
  if (there) {
    position = problem.arrays.slot_positions[problem.first + slot];
    bool is_identity = is_first ? search.shape == NONE : shape == NONE || shape & IDENTITY;
    const double *factor = is_first ? problem.factor() : problem.shape_factor(shape);
    const double *coordinate = problem.means() + position, *mean = problem.mean();
    // The distances do not depend on the sign of the difference.
    Difference<P> difference(p, READABLE, [&](uint k) {
      double value = *coordinate - mean[k];
      if (k + 1 < p) coordinate += n;
      return value;
    });
    distance = is_identity ? difference.to_identity(p) : difference.to_shape(p, factor);
  }
  double other = __shfl_xor_sync(WHOLE_WARP, distance, 1);
  if (!there || !is_first) return;
  search.consider(pair_key(average(distance, other), search.slot, slot), position);
}

// Considers the clusters found, and empties the list, by all threads of the block. All threads get
// the same search.
template <int P>
__device__ __forceinline__ void consider_found(const Problem &problem, PartnerSearch &search,
                                               Found &found) {
  __syncthreads();
  uint threads = 2 * found.count;
  for (uint start = threadIdx.x / WARP * WARP; start < threads; start += THREADS) {
    uint thread = start + threadIdx.x % WARP, i = min(thread, threads - 1) / 2;
    consider_by_pair<P>(problem, search, thread < threads, found.slots[i], found.shapes[i]);
  }
  search.share(problem.shared);
  if (threadIdx.x == 0) found.count = 0;
  __syncthreads();
}

// Adds the clusters of the lanes that are `near` to those found, by a warp.
__device__ __forceinline__ void add_found(Found &found, bool near, const Placed &mine) {
  uint ballot = __ballot_sync(WHOLE_WARP, near), start = 0;
  if (ballot == 0) return;
  if (threadIdx.x % WARP == 0) start = atomicAdd(&found.count, __popc(ballot));
  uint at = __shfl_sync(WHOLE_WARP, start, 0) + lanes_before(ballot);
  if (!near) return;
  found.slots[at] = mine.slot;
  found.shapes[at] = mine.shape;
}

// The least value of a warp, in all lanes.
__device__ __forceinline__ float warp_least(float value) {
  for (int offset = WARP / 2; offset; offset /= 2)
    value = fminf(value, __shfl_xor_sync(WHOLE_WARP, value, offset));
  return value;
}

// Considers all older clusters whose bounds compete, by all threads of the block, for centroid
// distances. The owner's mean and factor are in shared memory.
template <int P>
__device__ __forceinline__ void consider_by_screen(const Problem &problem, PartnerSearch &search) {
  __shared__ Found found;
  const Arrays &arrays = problem.arrays;
  uint own = arrays.places[problem.first + search.slot], balls = balls_of(problem);
  uint lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  if (threadIdx.x == 0) found.count = 0;
  write_query<P>(problem, own, search.shape);
  // First the balls around the owner's place, one for each warp. The nearest clusters there tell
  // which others compete.
  uint first = min(max(own / WARP, 1u) - 1, max(balls, (uint)WARPS) - WARPS);
  float limit = single_infinity(), last = 0;
  Placed mine = {limit, NONE, NONE};
  if (first + warp < balls)
    mine = bound_at<P>(problem, search.birth, (first + warp) * WARP + lane, limit);
  float rest = mine.bound;
  for (uint n = 0; n < FIRST_CONSIDERED; n++) {
    last = warp_least(rest);
    if (rest == last) rest = single_infinity();
  }
  bool is_first = mine.bound <= last && mine.bound < single_infinity();
  add_found(found, is_first, mine);
  consider_found<P>(problem, search, found);
  limit = limit_of(problem, search);
  add_found(found, !is_first && mine.bound < limit, mine);
  // Then all other balls.
  for (uint start = 0; start < balls; start += NEAR_ROOM) {
    if (threadIdx.x == 0) found.near_balls = 0;
    __syncthreads();
    for (uint ball = start + threadIdx.x; ball < min(balls, start + NEAR_ROOM); ball += THREADS) {
      if (ball >= first && ball < first + WARPS) continue;
      if (ball_may_be_near<P>(problem, ball, limit))
        found.balls[atomicAdd(&found.near_balls, 1)] = ball;
    }
    __syncthreads();
    uint near_balls = found.near_balls, next = warp;
    for (bool is_left = true; is_left;) {
      limit = limit_of(problem, search);
      for (; next < near_balls; next += WARPS) {
        // All lanes get the same count, though other warps add to it.
        uint count = __shfl_sync(WHOLE_WARP, load_while_added(&found.count), 0);
        if (count + THREADS > FOUND_ROOM) break;
        mine = bound_at<P>(problem, search.birth, found.balls[next] * WARP + lane, limit);
        add_found(found, mine.bound < single_infinity(), mine);
      }
      is_left = __syncthreads_or(next < near_balls);
      consider_found<P>(problem, search, found);
    }
  }
}
