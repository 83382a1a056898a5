// Searches for the nearest clusters of some nodes: queries, the sweep over all clusters, and the
// distances that decide.

#pragma once

#include "tree_union.cuh"

// Neighbours that a search should find.
#define WANTED 8

template <int P> __device__ __forceinline__ uint query_stride(uint p) {
  return COORDINATES + (P > 0 ? P : p);
}

// The least `rank`-th of some values, all of the block's threads having one each, in all threads;
// infinity where fewer are below infinity.
__device__ float ranked(float value, uint rank, float *values, float *chosen) {
  __syncthreads();
  values[threadIdx.x] = value;
  if (threadIdx.x == 0) *chosen = single_infinity();
  __syncthreads();
  if (value < single_infinity()) {
    uint mine = 0;
    for (uint j = 0; j < THREADS; j++)
      mine += values[j] < value || (j < threadIdx.x && values[j] == value);
    if (mine == rank) *chosen = value;
  }
  __syncthreads();
  float found = *chosen;
  __syncthreads();
  return found;
}

__device__ __forceinline__ bool is_skipped(const Search &search, uint slot) {
  for (uint i = 0; i < search.skipped; i++)
    if (search.skip[i] == slot) return true;
  return false;
}

// A guess of the distance of the last of the WANTED neighbours, from those of the two clusters of
// which the node is the union. In screen units; infinity where they have none.
__device__ float guess_by_parents(const Tree &tree, const Search &search, float *values,
                                  float *chosen) {
  float value = single_infinity(), floor = single_infinity();
  for (uint side = 0; side < 2; side++) {
    uint parent = side == 0 ? search.lower_node : search.higher_node;
    floor = fminf(floor, (float)(tree.floor_values[parent] / tree.unit));
    uint i = threadIdx.x - side * CANDIDATES;
    if (i >= CANDIDATES || i >= tree.counts[parent]) continue;
    size_t at = (size_t)parent * CANDIDATES + i;
    uint slot = tree.candidate_slots[at];
    if (tree.ids[slot] == tree.candidate_ids[at] && !is_skipped(search, slot))
      value = (float)(__longlong_as_double(tree.candidate_values[at]) / tree.unit);
  }
  float guess = ranked(value, WANTED - 1, values, chosen);
  // There are none but these below the floor.
  if (!(guess < single_infinity())) guess = floor;
  return guess * (float)tree.tuning[RADIUS_FACTOR];
}

// The limit of a search, in screen units; infinity where nothing tells it.
__device__ float limit_of(const Tree &tree, const Search &search, float *values, float *chosen) {
  uint node = search.node;
  float limit = tree.limits[node];
  if (limit < single_infinity()) return limit;
  if (node >= tree.clusters) {
    limit = guess_by_parents(tree, search, values, chosen);
  } else if (tree.sweeps[node] > 0 && tree.sweeps[node] < 4) {
    double floor = tree.floor_values[node];
    if (floor > 0) limit = (float)(2 * floor / tree.unit);
  }
  // The next above, so that what is at the limit counts.
  return limit < single_infinity() ? __uint_as_float(__float_as_uint(limit) + 1) : limit;
}

// The limit of a query as far as its minima tell it: each group has a cluster at or below the
// greatest of them.
__device__ __forceinline__ float lowered(const Tree &tree, uint number, float limit) {
  if (limit < single_infinity()) return limit;
  uint most = 0;
  for (uint g = 0; g < MINIMA; g++) most = max(most, tree.minima[number * MINIMA + g]);
  return most < SINGLE_INFINITY_BITS ? __uint_as_float(most + 1) : limit;
}

// Writes the query of a search, the `number`-th of a round.
template <int P>
__device__ void write_query(const Tree &tree, const Clusters &clusters, const Search &search,
                            uint number, Workspace &room) {
  __shared__ float values[THREADS];
  __shared__ float chosen;
  uint p = room.p, stride = query_stride<P>(p), node = search.node;
  float *query = tree.queries + (size_t)number * stride;
  bool is_union = node >= tree.clusters;
  const float *row = is_union ? tentative_row(tree, node)
                              : clusters.rows + tree.positions[node];
  size_t step = is_union ? 1 : clusters.capacity;
  uint shape = __float_as_uint(row[(p + SHAPE) * step]), padded = padded_row(p);
  FOR_EACH(k, stride - COORDINATES) query[COORDINATES + k] = k < p ? row[k * step] : 0;
  FOR_EACH(s, SCALARS) query[s] = row[(p + s) * step];
  __syncthreads();
  if (shape != NONE) {
    const float *factor = factor_of(clusters, shape);
    float *out = tree.query_factors + (size_t)number * padded;
    FOR_EACH(i, p) {
      for (uint j = 0; j < (i / 4 + 1) * 4; j++)
        out[padded_row(i) + j] = j <= i ? factor[element(p, i, j)] : 0;
    }
    if (threadIdx.x == 0) query[SHAPE] = __uint_as_float(number * padded);
  }
  float limit = limit_of(tree, search, values, &chosen);
  if (threadIdx.x == 0) {
    query[LIMIT] = limit;
    if (!(limit < single_infinity())) tree.control[UNGUESSED] = 1;
    query[END] = __uint_as_float(clusters.tiles * TILE);
    query[GROUPS] = __uint_as_float(search.order);
    query[ROOM] = __uint_as_float(FOUND_ROOM);
    query[OUTPUT] = __uint_as_float(0);
  }
  __syncthreads();
}

// Lists which of `count` queries can have a cluster of a tile below their limit, 32 of them in each
// word.
template <int P>
__device__ void compare_with_ball(const Clusters &clusters, uint tile, const float *queries,
                                  uint count, const Margins &margins, uint *competing) {
  uint stride = query_stride<P>(clusters.dimensions);
  for (uint start = 0; start < count; start += THREADS) {
    uint i = start + threadIdx.x;
    bool near = i < count && can_compete<P>(clusters, tile, queries + i * stride,
                                            queries[i * stride + LIMIT], margins);
    uint mask = __ballot_sync(WHOLE_WARP, near);
    if (threadIdx.x % WARP == 0 && i < SEARCHES) competing[i / WARP] = mask;
  }
  __syncthreads();
}

// Keeps the least bounds of a warp's clusters and a query that has no limit.
__device__ void keep_minimum(const Tree &tree, uint number, uint position, float value) {
  for (int step = WARP / 2; step > 0; step /= 2)
    value = fminf(value, __shfl_xor_sync(WHOLE_WARP, value, step));
  uint group = position / WARP % MINIMA;
  if (position % WARP == 0 && value < single_infinity())
    atomicMin(tree.minima + number * MINIMA + group, __float_as_uint(value));
}

// Adds to what a query has found, for each lane that is `near`. A bound is replaced by the tighter
// one from the cluster's own factor.
__device__ void collect(const Tree &tree, const Clusters &clusters, uint number,
                        const float *query, uint position, bool near, float value,
                        const Bound &bound, const Margins &margins) {
  uint p = tree.dimensions, lane = threadIdx.x % WARP;
  float limit = query[LIMIT];
  size_t shape_at = (size_t)(p + SHAPE) * clusters.capacity + position;
  bool is_shaped = near && __float_as_uint(clusters.rows[shape_at]) != NONE;
  for (uint shaped = __ballot_sync(WHOLE_WARP, is_shaped); shaped != 0; shaped &= shaped - 1) {
    uint source = __ffs(shaped) - 1;
    float distance = __shfl_sync(WHOLE_WARP, bound.distance, source);
    float error = __shfl_sync(WHOLE_WARP, bound.error, source);
    float tighter = bound_to_target(clusters, position - lane + source, query, distance, error);
    if (lane != source) continue;
    value = fmaxf(margins.slack * (bound.to_query + fmaxf(bound.to_target, tighter)), 0.0f);
    near = value < limit || !(limit < single_infinity());
  }
  if (!near) return;
  uint place = atomicAdd(tree.found_counts + number, 1);
  if (place >= FOUND_ROOM) return;
  uint *out = tree.found + 2 * ((size_t)number * FOUND_ROOM + place);
  out[0] = __float_as_uint(value);
  out[1] = position;
}

// Finds, for `count` queries, the clusters of every `workers`-th tile whose bound is below the
// limit; or, for those without a limit, their least bounds if `only_minima`.
template <int P>
__device__ void sweep_tiles(const Tree &tree, const Clusters &clusters, uint count, uint worker,
                            uint workers, bool only_minima, float *queries) {
  __shared__ uint competing[SEARCHES / WARP];
  uint p = tree.dimensions, stride = query_stride<P>(p);
  FOR_EACH(i, count * stride) queries[i] = tree.queries[i];
  __syncthreads();
  if (!only_minima) {
    FOR_EACH(i, count) queries[i * stride + LIMIT] = lowered(tree, i, queries[i * stride + LIMIT]);
    __syncthreads();
  }
  Margins margins(p);
  for (uint tile = worker; tile < clusters.tiles; tile += workers) {
    compare_with_ball<P>(clusters, tile, queries, count, margins, competing);
    uint position = tile * TILE + threadIdx.x, order = tree.orders_at[position];
    Point<P> point(clusters, position);
    for (uint start = 0; start < count; start += WARP) {
      for (uint mask = competing[start / WARP]; mask != 0; mask &= mask - 1) {
        uint i = start + __ffs(mask) - 1;
        const float *query = queries + i * stride;
        float limit = query[LIMIT];
        bool has_limit = limit < single_infinity();
        if (only_minima && has_limit) continue;
        Bound bound;
        bool near = order < __float_as_uint(query[GROUPS]) &&
                    loose_bound<P>(clusters, point, position, query, tree.query_factors, limit,
                                   margins, bound);
        float value = near ? fmaxf(margins.slack * (bound.to_query + bound.to_target), 0.0f)
                           : single_infinity();
        if (only_minima) {
          keep_minimum(tree, i, position, value);
        } else {
          near = near && (value < limit || !has_limit);
          collect(tree, clusters, i, query, position, near, value, bound, margins);
        }
      }
    }
    __syncthreads();
  }
}

// Clusters that a search should find that has found too many.
#define ENOUGH 64

// A limit below which a search that found too many has enough, by a sample of what it found.
__device__ void lower_limit(const Tree &tree, Search &search, uint number, float limit) {
  __shared__ float values[THREADS];
  __shared__ float chosen;
  float mine = __uint_as_float(tree.found[2 * ((size_t)number * FOUND_ROOM + threadIdx.x)]);
  uint rank = max(THREADS * ENOUGH / search.found, WANTED / 2);
  float bound = ranked(mine, rank, values, &chosen);
  if (threadIdx.x == 0) {
    float next = __uint_as_float(__float_as_uint(bound) + 1);
    search.outcome = next < limit ? TOO_MANY : HOPELESS;
    tree.limits[search.node] = next;
  }
}

// Clusters whose distances a search decides: those with the least bounds.
#define MOST_DECIDED 24

// Brings what a search has found with the least bounds to the front of a list of indices; returns
// how many they are, and lowers the limit to the least bound of the others.
__device__ uint choose_least(const uint *found, uint count, uint *chosen, float *limit) {
  __shared__ float bounds[FOUND_ROOM];
  __shared__ uint least_left;
  FOR_EACH(i, count) bounds[i] = __uint_as_float(found[2 * i]);
  if (threadIdx.x == 0) least_left = SINGLE_INFINITY_BITS;
  __syncthreads();
  FOR_EACH(i, count) {
    uint rank = 0;
    for (uint j = 0; j < count; j++)
      rank += bounds[j] < bounds[i] || (bounds[j] == bounds[i] && j < i);
    if (rank < MOST_DECIDED)
      chosen[rank] = i;
    else
      atomicMin(&least_left, __float_as_uint(bounds[i]));
  }
  __syncthreads();
  if (count > MOST_DECIDED) *limit = fminf(*limit, __uint_as_float(least_left));
  return min(count, (uint)MOST_DECIDED);
}

// Makes what a search has found the candidates of its node, by a block.
template <int P>
__device__ void decide(const Tree &tree, Search &search, uint number, Entries &entries,
                       Workspace &room) {
  uint p = room.p, node = search.node, count = tree.found_counts[number];
  float limit = lowered(tree, number, tree.queries[(size_t)number * query_stride<P>(p) + LIMIT]);
  __syncthreads();
  FOR_EACH(g, MINIMA) tree.minima[number * MINIMA + g] = SINGLE_INFINITY_BITS;
  if (threadIdx.x == 0) {
    tree.found_counts[number] = 0;
    search.found = count;
    entries.count = 0;
  }
  __syncthreads();
  if (count > FOUND_ROOM) return lower_limit(tree, search, number, limit);
  __shared__ uint chosen[MOST_DECIDED];
  const uint *found = tree.found + 2 * (size_t)number * FOUND_ROOM;
  count = choose_least(found, count, chosen, &limit);
  uint lane = threadIdx.x % WARP;
  for (uint i = threadIdx.x / WARP; i < count; i += WARPS) {
    uint position = found[2 * chosen[i] + 1];
    uint slot = tree.slots_at[position], id = tree.ids[slot];
    if (id == NONE || is_skipped(search, slot)) continue;
    double distance = node_distance(tree, node, slot, room.of_warp());
    if (lane > 0) continue;
    uint at = atomicAdd(&entries.count, 1);
    entries.values[at] = __double_as_longlong(distance);
    entries.ties[at] = pair_tie(search.slot, slot);
    entries.slots[at] = slot;
    entries.ids[at] = id;
  }
  __syncthreads();
  double floor = limit < single_infinity() ? (double)limit * tree.unit : infinity();
  Key before = floor_of(tree, node);
  bool again = node < tree.clusters && tree.sweeps[node] > 0;
  keep_nearest(tree, node, entries, {(ulong)__double_as_longlong(floor), 0}, room.shared);
  if (threadIdx.x == 0) {
    tree.limits[node] = single_infinity();
    tree.sweeps[node] += 1;
    // Otherwise a search whose bounds tell too little would be made for ever.
    bool is_new = tree.counts[node] > 0 || before < floor_of(tree, node);
    search.outcome = again && !is_new ? HOPELESS : FOUND;
  }
  __syncthreads();
  if (node < tree.clusters && threadIdx.x < WARP) write_head(tree, node);
  __syncthreads();
}
