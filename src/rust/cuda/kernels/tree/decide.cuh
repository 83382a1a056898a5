// Computes the distances, in double precision, of the clusters that a search has found, and decides
// which are the nearest.
//
// Meanwhile, the sequencer goes on merging. The values that are read from a slot may then belong to
// two clusters, an old and a new one. This does no harm: the old cluster no longer counts, and the
// sequencer itself compares the new one.

#pragma once

#include "tree/help.cuh"

// Number of clusters nearer than the next bound after which no more distances are computed.
// Distances are computed in order of the bounds.
#define ENOUGH_NEAR 4
// Number of clusters whose distances are computed at a time, with centroid distances. The first
// DECIDED_AT_A_TIME clusters are mostly enough.
#define DECIDED_AT_A_TIME 12
static_assert(DECIDED_AT_A_TIME <= DECIDED_TOGETHER, "room for them");
// Maximum limit of the next sweep, as a multiple of the least known distance. A sweep up to a bit
// more than this distance certainly finds the nearest cluster.
#define ABOVE_LEAST 1.05f

// Maximum number of clusters with the same bound for which all distances are computed, part by
// part, although there are more than FOUND_ROOM. If too high, a search takes longer than the rest
// of the tree. If too low, the CPU makes trees of tight groups far apart.
#define MAX_CROWDED 4096
// Limit of the next try if even more clusters have the same bound, as a multiple of this bound. If
// too low, the search is repeated once all nearer clusters are merged. If too high, rounding hides
// that no cluster is below.
#define BELOW_CROWD 0.999f

// Sorts the indices of the found clusters by their bounds.
__device__ __forceinline__ void order_by_bounds(SearchState &search) {
  uint count = search.found;
  FOR_EACH(i, count) {
    float mine = search.bounds[i];
    uint rank = 0;
#pragma unroll 8
    for (uint j = 0; j < count; j++)
      rank += search.bounds[j] < mine || (search.bounds[j] == mine && j < i);
    search.by_bound[rank] = i;
  }
  __syncthreads();
}

// The arguments of the functions that decide. `number` is that of the search's job, or NONE.
struct Deciding {
  const Tree &tree;
  const Clusters &clusters;
  uint number;
  SearchState &search;
  float *query;
  Entries &entries;
  Workspace &room;
};

// Computes the distances of the found clusters number `first` to `end` - 1, in order of their
// bounds, and adds them to the entries. A cluster counts if its id is the same before and after its
// values are read.
__device__ void add_distances(const Deciding &on, uint first, uint end) {
  const Tree &tree = on.tree;
  SearchState &search = on.search;
  uint i = threadIdx.x;
  bool there = first + i < end, sums = has_full_distances(tree);
  if (i < DECIDED_TOGETHER) {
    search.sizes[i] = 0;
    search.ids[i] = NONE;
  }
  if (there) {
    uint slot = tree.slots_at[search.positions[search.by_bound[first + i]]];
    uint id = load_acquire(tree.ids + slot);
    if (tree.births[slot] < search.births_below && !is_skipped(search.job, slot) && id != NONE) {
      search.ids[i] = id;
      put_cluster(search, i, operand_of(tree, slot));
    }
  }
  __syncthreads();
  constexpr uint EACH = 10;
  uint n = i / EACH;
  if (n < DECIDED_TOGETHER && search.ids[n] != NONE)
    prefetch_node(tree, search.slots[n], search.shapes[n], i % EACH, EACH);
  else if (n >= DECIDED_TOGETHER)
    prefetch_node(tree, search.node.node, search.node.shape, i % EACH, EACH);
  static_assert((DECIDED_TOGETHER + 1) * EACH <= THREADS, "threads for each");
  if (sums) {
    sum_distances(tree, on.clusters, on.number, search, on.query, on.room);
    if (there && search.ids[i] != NONE) search.distances[i] = summed_distance(search, i);
  } else {
    auto other = [&](uint n) {
      return search.ids[n] == NONE ? Operand{NONE, NONE, 0, 0} : cluster_of(search, n);
    };
    node_distances(tree, search.node, end - first, on.room.scratch, on.room.together, other,
                   [&](uint n, double distance) { search.distances[n] = distance; });
  }
  __threadfence();
  __syncthreads();
  if (there && search.ids[i] != NONE && id_at(tree, search.slots[i]) == search.ids[i])
    add_entry(on.entries, search.distances[i], search.job.slot, search.slots[i], search.ids[i]);
  __syncthreads();
}

// Keeps the CANDIDATES least entries. Lowers the floor to the least of the others.
__device__ __forceinline__ void trim(Entries &entries) {
  constexpr uint MOST = (FOUND_ROOM + CANDIDATES + THREADS - 1) / THREADS;
  uint count = entries.count, ranks[MOST], slots[MOST], ids[MOST];
  Key keys[MOST] = {};
#pragma unroll
  for (uint k = 0; k < MOST; k++) {
    uint i = threadIdx.x + k * THREADS;
    ranks[k] = NONE;
    if (i >= count) continue;
    keys[k] = {entries.values[i], entries.ties[i]};
    slots[k] = entries.slots[i];
    ids[k] = entries.ids[i];
    ranks[k] = 0;
    for (uint j = 0; j < count; j++) ranks[k] += Key{entries.values[j], entries.ties[j]} < keys[k];
  }
  __syncthreads();
#pragma unroll
  for (uint k = 0; k < MOST; k++) {
    uint rank = ranks[k];
    if (rank < CANDIDATES) {
      entries.values[rank] = keys[k].value;
      entries.ties[rank] = keys[k].tie;
      entries.slots[rank] = slots[k];
      entries.ids[rank] = ids[k];
    }
    // A floor comes before the pair with the same slots.
    Key floor = {keys[k].value, keys[k].tie & ~1ull};
    if (rank == CANDIDATES && floor < entries.floor) entries.floor = floor;
  }
  if (threadIdx.x == 0) entries.count = min(count, (uint)CANDIDATES);
  __syncthreads();
}

// Adds the clusters found for `search.node` to the entries, in order of their bounds, until
// ENOUGH_NEAR clusters are near. Adds all of them in a sweep of several parts; and also with `all`,
// unless distances are means over several members of the node. Returns a lower bound on the
// distances of found clusters that are not added, and of clusters with bounds of at least
// `search.limit`.
__device__ __forceinline__ double add_nearest(const Deciding &on, bool all) {
  SearchState &search = on.search;
  Entries &entries = on.entries;
  uint found = search.found;
  __syncthreads();
  all = all && search.node.size == 1;
  uint some = has_full_distances(on.tree) ? DECIDED_TOGETHER : DECIDED_AT_A_TIME;
  order_by_bounds(search);
  for (uint first = 0, end = 0;; first = end) {
    end = min(found, first + some);
    if (threadIdx.x == 0) search.near = 0;
    add_distances(on, first, end);
    float limit = end < found ? search.bounds[search.by_bound[end]] : search.limit;
    double floor = limit < single_infinity() ? (double)limit * on.tree.unit : infinity();
    FOR_EACH(i, entries.count) {
      if (__longlong_as_double(entries.values[i]) < floor) atomicAdd(&search.near, 1);
    }
    __syncthreads();
    uint near = search.near;
    __syncthreads();
    if (end == found || (near >= ENOUGH_NEAR && !all && search.parts == 1)) return floor;
  }
}

// Searches for the nearest clusters of `node`, by all threads of the block, and makes them the
// candidates of `result`. The first sweep has this limit. `all` is an argument of `add_nearest`.
// `sweep` collects the clusters with bounds below `search.limit`, in part `search.part` of
// `search.parts`. Returns false if bounds are too loose.
template <class Sweep>
__device__ __forceinline__ bool find_nearest(const Deciding &on, uint node, uint result,
                                             float limit, bool all, Sweep sweep) {
  const Tree &tree = on.tree;
  SearchState &search = on.search;
  Entries &entries = on.entries;
  if (threadIdx.x == 0) {
    entries.count = 0;
    entries.floor = {INFINITY_BITS, ~0ull};
    search.node = operand_of(tree, node);
    search.part = 0;
    search.parts = 1;
    search.is_last = false;
  }
  uint enough = has_full_distances(tree) ? ENOUGH_WITH_MEMBERS : ENOUGH;
  // In many dimensions, a slightly larger radius finds far more clusters.
  float from = 0, growth = 1.0f + 8.0f / (float)tree.dimensions, factor = growth;
  double floor;
  for (;;) {
    if (!find(search, from, limit, growth, enough, sweep)) {
      // More clusters are near than there is room for, and many have the same bound, just below
      // this limit.
      limit = search.limit;
      bool are_few = search.found <= MAX_CROWDED;
      float below = BELOW_CROWD * limit;
      bool bounds_too_loose = !are_few && (search.is_last || !(below > from));
      __syncthreads();
      if (bounds_too_loose) return false;
      // If they are few enough, all their distances are computed, part by part. If they are too
      // many, the limit is lowered once more. If no cluster is below it, the lowered limit becomes
      // the floor, without candidates.
      if (threadIdx.x == 0) {
        if (are_few)
          search.parts = (tree.balls + GROUP - 1) / GROUP;
        else
          search.is_last = true;
      }
      if (!are_few) limit = below;
      __syncthreads();
      continue;
    }
    floor = add_nearest(on, all);
    if (search.parts > 1) {
      trim(entries);
      if (threadIdx.x == 0) {
        search.part += 1;
        if (search.part == search.parts) {
          search.part = 0;
          search.parts = 1;
        }
      }
      __syncthreads();
      if (search.part > 0) continue;
    }
    // If bounds are loose, all found clusters may be farther away than the limit. Then the next
    // sweep finds clusters with greater bounds.
    if (search.near > 0 || search.is_last || !(search.limit < single_infinity())) break;
    from = search.limit;
    trim(entries);
    // After a sweep up to a bit more than the least distance, the nearest cluster is known.
    limit = factor * from;
    if (entries.count > 0) {
      float least = (float)(__longlong_as_double(entries.values[0]) / tree.unit);
      limit = fminf(limit, fmaxf(ABOVE_LEAST * least, next_above(from)));
    }
    factor = factor * factor;
  }
  Key least = {(ulong)__double_as_longlong(floor), 0}, trimmed = entries.floor;
  __syncthreads();
  keep_nearest(tree, result, entries, trimmed < least ? trimmed : least);
  __syncthreads();
  return true;
}
