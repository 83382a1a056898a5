// The sweep: collects, for each query, the clusters whose bound is below its limit, and writes the
// answer to the host's memory.

#pragma once

#include "screen_bounds.cuh"
#include "screen_launch.cuh"

// Where a query is in shared memory.
template <int P> __device__ __forceinline__ uint padded_query(uint p) {
  return COORDINATES + (P > 0 ? P : p);
}

// Copies the block's share of the queries to shared memory; returns how many they are.
template <int P>
__device__ uint load_queries(const float *queries, uint count, uint p, float *shared) {
  uint first = blockIdx.y * QUERIES_PER_BLOCK;
  uint mine = min(count - first, (uint)QUERIES_PER_BLOCK);
  uint padded = padded_query<P>(p), length = COORDINATES + p;
  for (uint i = threadIdx.x; i < mine * padded; i += blockDim.x) {
    uint query = i / padded, k = i % padded;
    shared[i] = k < length ? queries[(size_t)(first + query) * length + k] : 0.0f;
  }
  __syncthreads();
  return mine;
}

// The limit of a query as far as it has come down: among the clusters at or below the maximum of
// its minima there is at least one of each group. Each lane looks at its share of the groups.
__device__ float lowered(float limit, const volatile uint *minima, uint groups, uint lane) {
  uint most = 0;
  for (uint g = lane; g < groups; g += WARP) most = max(most, minima[g]);
  for (int step = WARP / 2; step > 0; step /= 2)
    most = max(most, __shfl_xor_sync(WHOLE_WARP, most, step));
  // The next above, so that what attains it counts.
  return groups > 0 && most < SINGLE_INFINITY_BITS ? fminf(limit, __uint_as_float(most + 1))
                                                   : limit;
}

// The block that comes last completes the answer, and clears what the next sweep starts with;
// `wrote` says whether this thread has written to the answer. The queries are `stride` apart.
__device__ void finish(const float *queries, uint stride, uint count, uint *minima, uint *counts,
                       volatile uint *answer, uint ticket, bool wrote) {
  __shared__ bool last;
  // What was written is on the host before the block counts as done.
  if (wrote) __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(counts + count, 1) == gridDim.x * gridDim.y - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  uint lane = threadIdx.x % WARP;
  for (uint i = threadIdx.x / WARP; i < count; i += blockDim.x / WARP) {
    const float *query = queries + (size_t)i * stride;
    float limit = lowered(query[LIMIT], minima + (size_t)i * MOST_GROUPS,
                          __float_as_uint(query[GROUPS]), lane);
    if (lane == 0) {
      answer[1 + i] = *(volatile uint *)(counts + i);
      answer[1 + count + i] = __float_as_uint(limit);
    }
  }
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) answer[0] = ticket;
  for (uint i = threadIdx.x; i < count + 1; i += blockDim.x) counts[i] = 0;
  for (uint i = threadIdx.x; i < count * MOST_GROUPS; i += blockDim.x)
    minima[i] = SINGLE_INFINITY_BITS;
}

// Writes to the answer what was found, if there is room.
__device__ __forceinline__ bool put(volatile uint *answer, uint count, const float *query,
                                    uint place, float bound, uint position) {
  if (place >= __float_as_uint(query[ROOM])) return false;
  size_t entry = 1 + 2 * (size_t)(count + __float_as_uint(query[OUTPUT]) + place);
  answer[entry] = __float_as_uint(bound);
  answer[entry + 1] = position;
  return true;
}

// What a thread does with its cluster of a tile, for each query that it can compete for. Returns
// whether it wrote to the answer.
template <int P>
__device__ bool collect_from_tile(const Clusters &clusters, uint tile, uint which,
                                  const float *queries, uint mine, const uint *competing,
                                  const float *limits, const float *factors, uint first, uint count,
                                  uint *minima, uint *counts, volatile uint *answer,
                                  const Margins &margins) {
  uint p = clusters.dimensions, lane = threadIdx.x % WARP;
  uint position = tile * TILE + threadIdx.x;
  uint warp = position / WARP;
  uint readable = min(position, clusters.capacity - 1);
  Point<P> point(clusters, readable);
  const float infinity = single_infinity();
  bool wrote = false;
  for (uint i = 0; i < mine; i++) {
    if (!(competing[i] >> which & 1)) continue;
    const float *query = queries + i * padded_query<P>(p);
    uint end = __float_as_uint(query[END]), groups = __float_as_uint(query[GROUPS]);
    if (position - lane >= end) continue;
    uint *group_minima = minima + (size_t)(first + i) * MOST_GROUPS;
    float limit = limits[i];
    Bound bound;
    float loose = infinity;
    if (position < end &&
        loose_bound<P>(clusters, point, readable, query, factors, limit, margins, bound))
      loose = fmaxf(margins.slack * (bound.to_query + bound.to_target), 0.0f);
    // Where the limit stays as it is, those without a shape need not wait for each other.
    if (groups == 0) {
      const float *shapes = clusters.rows + (size_t)(p + SHAPE) * clusters.capacity;
      bool found = loose < limit && __float_as_uint(shapes[readable]) == NONE;
      uint all = __ballot_sync(WHOLE_WARP, found), place = 0;
      if (lane == 0 && all != 0) place = atomicAdd(counts + first + i, __popc(all));
      place = __shfl_sync(WHOLE_WARP, place, 0) + __popc(all & ((1u << lane) - 1));
      if (found) {
        wrote |= put(answer, count, query, place, loose, position);
        loose = infinity;
      }
    }
    // The nearest first: it may bring the limit down below the others.
    for (;;) {
      float least = loose;
      for (int step = WARP / 2; step > 0; step /= 2)
        least = fminf(least, __shfl_xor_sync(WHOLE_WARP, least, step));
      if (!(least < limit)) break;
      uint source = __ffs(__ballot_sync(WHOLE_WARP, loose == least)) - 1;
      float distance = __shfl_sync(WHOLE_WARP, bound.distance, source);
      float error = __shfl_sync(WHOLE_WARP, bound.error, source);
      float tighter = bound_to_target(clusters, position - lane + source, query, distance, error);
      float tight = fmaxf(margins.slack * (bound.to_query + fmaxf(bound.to_target, tighter)), 0.0f);
      tight = __shfl_sync(WHOLE_WARP, tight, source);
      if (lane == source) loose = infinity;
      if (!(tight < limit)) continue;
      if (lane == source) {
        uint place = atomicAdd(counts + first + i, 1);
        wrote |= put(answer, count, query, place, tight, position);
        if (groups > 0) atomicMin(group_minima + warp % groups, __float_as_uint(tight));
      }
      limit = lowered(limit, group_minima, groups, lane);
    }
  }
  return wrote;
}

// For each query, collects the clusters whose bound is below its limit. The limit comes down as
// near clusters are found, so that about as many are collected as the query has groups: every warp
// keeps the least bound that it finds in `minima`, in the group that is its turn. The answer goes
// to the host's memory: first `ticket`, written last, by which the host knows that it is complete;
// then how many there are for each query; the limits; and bound and position of as many as there is
// room for. `counts` has room for one more than the queries: how many blocks are done. It starts
// with zeros, and `minima` at infinity.
//
// `shared` has the block's share of the queries, and `queries` all of them, `stride` apart.
template <int P>
__device__ void sweep(const Clusters &clusters, const float *shared, uint mine,
                      const float *queries, uint stride, uint count, const float *factors,
                      uint *minima, uint *counts, volatile uint *answer, uint ticket) {
  __shared__ float limits[QUERIES_PER_BLOCK];
  __shared__ uint competing[QUERIES_PER_BLOCK];
  uint p = clusters.dimensions;
  uint first = blockIdx.y * QUERIES_PER_BLOCK;
  uint lane = threadIdx.x % WARP;
  for (uint i = threadIdx.x / WARP; i < mine; i += blockDim.x / WARP) {
    const float *query = shared + i * padded_query<P>(p);
    float limit = lowered(query[LIMIT], minima + (size_t)(first + i) * MOST_GROUPS,
                          __float_as_uint(query[GROUPS]), lane);
    if (lane == 0) limits[i] = limit;
  }
  __syncthreads();
  Margins margins(p);
  uint end = 0;
  for (uint i = 0; i < mine; i++)
    end = max(end, __float_as_uint(shared[i * padded_query<P>(p) + END]));
  uint tiles = (end + TILE - 1) / TILE;
  // With one tile for each block and few queries, looking at the balls first would only take time.
  bool wrote = false, in_one_go = gridDim.y == 1 && tiles <= gridDim.x;
  // A block takes every gridDim.x-th tile. Which of them can compete for which queries is looked up
  // for as many tiles at a time as a warp has lanes, a query for each warp.
  for (uint start = blockIdx.x; start < tiles; start += WARP * gridDim.x) {
    for (uint i = threadIdx.x / WARP; i < mine; i += blockDim.x / WARP) {
      uint tile = start + lane * gridDim.x;
      const float *query = shared + i * padded_query<P>(p);
      bool near =
          tile < tiles && (in_one_go || can_compete<P>(clusters, tile, query, limits[i], margins));
      uint mask = __ballot_sync(WHOLE_WARP, near);
      if (lane == 0) competing[i] = mask;
    }
    __syncthreads();
    uint any = 0;
    for (uint i = 0; i < mine; i++) any |= competing[i];
    for (; any != 0; any &= any - 1) {
      uint which = __ffs(any) - 1;
      wrote |=
          collect_from_tile<P>(clusters, start + which * gridDim.x, which, shared, mine, competing,
                               limits, factors, first, count, minima, counts, answer, margins);
    }
    __syncthreads();
  }
  finish(queries, stride, count, minima, counts, answer, ticket, wrote);
}
