// The chain of merges, which one block serves: the queue of all clusters, the merges whose unions
// are ready, and the choice of the unions and searches to make next.

#pragma once

#include "tree_search.cuh"

enum TentativeState { UNUSED, SEARCHED, READY };

// Of the hash table of tentative unions.
#define BUCKETS 512

// Heads of the queue that are looked at together.
#define SELECTED 128

// What the chain's block keeps in shared memory.
struct Chain {
  // Tentative unions: their pairs, the distances of those, and the merges done when they were
  // searched for.
  uint states[POOL], lower[POOL], higher[POOL], lower_ids[POOL], higher_ids[POOL];
  uint lower_nodes[POOL], higher_nodes[POOL], made_at[POOL];
  ulong pair_values[POOL];
  // How far its pair is from the queue: 1 for the pair of a head, 2 for that of its union, ...; 0
  // where it is not expected soon.
  uint depths[POOL];
  uint unused[POOL];
  // A hash table of their pairs: the first of each bucket, and the next ones.
  uint buckets[BUCKETS], next[POOL];
  // The least of each group of leaves.
  ulong group_values[MOST_GROUPS_OF_LEAVES], group_ties[MOST_GROUPS_OF_LEAVES];
  uint group_owners[MOST_GROUPS_OF_LEAVES];
  // The clusters of the last merges; their rows follow this struct.
  uint recent_slots[RECENT], recent_ids[RECENT];
  // Heads of the queue, in order.
  ulong values[SELECTED], ties[SELECTED];
  uint owners[SELECTED], sorted[SELECTED];
  uint list[SELECTED];
  uint selected, listed, found, unused_count, few, many;
  uint merges, below_threshold, next_id, shapes_used, free_shapes, next_start, searches, status;
  uint has_queue;
  double width, level;
};
static_assert(sizeof(Chain) <= CHAIN_BYTES, "the host reserves enough");

#define NOWHERE NONE

__device__ __forceinline__ uint leaves_of(const Tree &tree) {
  return (tree.clusters + LEAF - 1) / LEAF;
}
__device__ __forceinline__ uint groups_of(const Tree &tree) {
  return (leaves_of(tree) + GROUP_LEAVES - 1) / GROUP_LEAVES;
}

// The least key of a warp's lanes and the owner that came with it, in all lanes.
__device__ __forceinline__ void warp_least(Key &key, uint &owner) {
  for (int offset = WARP / 2; offset; offset /= 2) {
    Key other = {__shfl_xor_sync(WHOLE_WARP, key.value, offset),
                 __shfl_xor_sync(WHOLE_WARP, key.tie, offset)};
    uint other_owner = __shfl_xor_sync(WHOLE_WARP, owner, offset);
    if (other < key) {
      key = other;
      owner = other_owner;
    }
  }
}

// Finds the least head of a leaf anew, by a warp.
__device__ void refresh_leaf(const Tree &tree, uint leaf) {
  Key least = {INFINITY_BITS, ~0ull};
  uint owner = NONE;
  for (uint i = threadIdx.x % WARP; i < LEAF; i += WARP) {
    uint slot = leaf * LEAF + i;
    if (slot >= tree.clusters) break;
    Key head = {tree.head_values[slot], tree.head_ties[slot]};
    if (head < least) {
      least = head;
      owner = slot;
    }
  }
  warp_least(least, owner);
  if (threadIdx.x % WARP > 0) return;
  tree.leaf_values[leaf] = least.value;
  tree.leaf_ties[leaf] = least.tie;
  tree.leaf_owners[leaf] = owner;
}

// The same for a group of leaves.
__device__ void refresh_group(const Tree &tree, Chain &chain, uint group) {
  Key least = {INFINITY_BITS, ~0ull};
  uint owner = NONE;
  for (uint i = threadIdx.x % WARP; i < GROUP_LEAVES; i += WARP) {
    uint leaf = group * GROUP_LEAVES + i;
    if (leaf >= leaves_of(tree)) break;
    Key head = {tree.leaf_values[leaf], tree.leaf_ties[leaf]};
    if (head < least) {
      least = head;
      owner = tree.leaf_owners[leaf];
    }
  }
  warp_least(least, owner);
  if (threadIdx.x % WARP > 0) return;
  chain.group_values[group] = least.value;
  chain.group_ties[group] = least.tie;
  chain.group_owners[group] = owner;
}

// Brings the queue up to date for the heads of `count` slots.
template <class Slot>
__device__ void refresh(const Tree &tree, Chain &chain, uint count, Slot slot) {
  __syncthreads();
  uint warp = threadIdx.x / WARP;
  for (uint i = warp; i < count; i += WARPS) refresh_leaf(tree, slot(i) / LEAF);
  __syncthreads();
  for (uint i = warp; i < count; i += WARPS)
    refresh_group(tree, chain, slot(i) / LEAF / GROUP_LEAVES);
  __syncthreads();
}

// Brings all of the queue up to date.
__device__ void refresh_all(const Tree &tree, Chain &chain) {
  uint warp = threadIdx.x / WARP;
  for (uint leaf = warp; leaf < leaves_of(tree); leaf += WARPS) refresh_leaf(tree, leaf);
  __syncthreads();
  for (uint group = warp; group < groups_of(tree); group += WARPS)
    refresh_group(tree, chain, group);
  __syncthreads();
}

// The first of the queue, and its owner.
__device__ Key first_of_queue(const Tree &tree, Chain &chain, Shared &shared, uint *owner) {
  Key least = {INFINITY_BITS, ~0ull};
  *owner = NONE;
  FOR_EACH(group, groups_of(tree)) {
    Key head = {chain.group_values[group], chain.group_ties[group]};
    if (head < least) {
      least = head;
      *owner = chain.group_owners[group];
    }
  }
  return block_least(shared, least, owner);
}

// Whether a node's first candidate is still active.
__device__ __forceinline__ bool has_first(const Tree &tree, uint slot) {
  size_t at = (size_t)slot * CANDIDATES + tree.firsts[slot];
  return tree.ids[tree.candidate_slots[at]] == tree.candidate_ids[at];
}

// Gives a shape back.
__device__ __forceinline__ void free_shape(const Tree &tree, Chain &chain, uint shape) {
  if (shape != NONE) tree.free_shapes[atomicAdd(&chain.free_shapes, 1)] = shape & ~IDENTITY;
}

// ---- merges ----

__device__ __forceinline__ uint bucket_of(uint lower, uint higher) {
  return (lower * 0x9e3779b1u ^ higher * 0x85ebca77u) >> 23;
}
static_assert(BUCKETS == 1 << (32 - 23), "a bucket for each hash");

__device__ __forceinline__ void put_in_bucket(Chain &chain, uint number) {
  uint bucket = bucket_of(chain.lower[number], chain.higher[number]);
  chain.next[number] = atomicExch(&chain.buckets[bucket], number);
}

// The number of the tentative union of these clusters; NOWHERE if there is none.
__device__ uint find_tentative(const Chain &chain, uint lower, uint lower_id, uint higher,
                               uint higher_id) {
  for (uint e = chain.buckets[bucket_of(lower, higher)]; e != NOWHERE; e = chain.next[e])
    if (chain.states[e] != UNUSED && chain.lower[e] == lower && chain.higher[e] == higher &&
        chain.lower_ids[e] == lower_id && chain.higher_ids[e] == higher_id)
      return e;
  return NOWHERE;
}

// The tentative union of a pair that is ready, in all threads; NOWHERE if there is none.
__device__ uint ready_union(const Tree &tree, Chain &chain, uint lower, uint higher) {
  uint number = find_tentative(chain, lower, tree.ids[lower], higher, tree.ids[higher]);
  bool is_ready = number != NOWHERE && chain.states[number] == READY &&
                  chain.merges - chain.made_at[number] <= RECENT;
  // No thread changes what others still look at.
  __syncthreads();
  return is_ready ? number : NOWHERE;
}

__device__ __forceinline__ float *recent_row(const Tree &tree, float *rows, uint merge) {
  return rows + merge % RECENT * (tree.dimensions + 2);
}

// Adds to the entries the clusters that were made since a tentative union was searched for and may
// be below its floor.
__device__ void add_recent(const Tree &tree, Chain &chain, float *recent_rows, uint number,
                           Entries &entries, Workspace &room) {
  uint p = tree.dimensions, node = tree.clusters + number, slot = chain.lower[number];
  const float *row = tentative_row(tree, node);
  Margins margins(p);
  float floor = __double2float_ru(tree.floor_values[node] / tree.unit * (1 + SLACK));
  if (threadIdx.x == 0) chain.listed = 0;
  __syncthreads();
  uint count = chain.merges - chain.made_at[number];
  FOR_EACH(i, count) {
    uint merge = chain.merges - 1 - i, other = chain.recent_slots[merge % RECENT];
    if (other == slot || other == chain.higher[number]) continue;
    if (tree.ids[other] != chain.recent_ids[merge % RECENT]) continue;
    const float *recent = recent_row(tree, recent_rows, merge);
    float square = 0;
    for (uint k = 0; k < p; k++) {
      float d = row[k] - recent[k];
      square = fmaf(d, d, square);
    }
    float distance = __fsqrt_rn(square) * margins.shrink - (row[p + ERROR] + recent[p]);
    float bound = fmaxf(distance, 0.0f) * (row[p + LOW] + recent[p + 1]) * margins.slack;
    // Also where that is no number.
    if (!(bound >= floor)) chain.list[atomicAdd(&chain.listed, 1)] = other;
  }
  __syncthreads();
  for (uint i = threadIdx.x / WARP; i < chain.listed; i += WARPS) {
    uint other = chain.list[i];
    double distance = node_distance(tree, node, other, room.of_warp());
    if (threadIdx.x % WARP > 0) continue;
    uint at = atomicAdd(&entries.count, 1);
    entries.values[at] = __double_as_longlong(distance);
    entries.ties[at] = pair_tie(slot, other);
    entries.slots[at] = other;
    entries.ids[at] = tree.ids[other];
  }
  if (threadIdx.x == 0) tree.control[COUNT_NEAR_RECENT] += chain.listed;
  __syncthreads();
}

// The candidates of a merged union: those of its search that are active, and recent ones.
__device__ void take_candidates(const Tree &tree, Chain &chain, float *recent_rows, uint number,
                                Entries &entries, Workspace &room) {
  uint node = tree.clusters + number, slot = chain.lower[number];
  if (threadIdx.x == 0) entries.count = 0;
  __syncthreads();
  FOR_EACH(i, tree.counts[node]) {
    size_t from = (size_t)node * CANDIDATES + i;
    uint other = tree.candidate_slots[from], id = tree.candidate_ids[from];
    if (tree.ids[other] != id) continue;
    uint at = atomicAdd(&entries.count, 1);
    entries.values[at] = tree.candidate_values[from];
    entries.ties[at] = pair_tie(slot, other);
    entries.slots[at] = other;
    entries.ids[at] = id;
  }
  add_recent(tree, chain, recent_rows, number, entries, room);
  keep_nearest(tree, slot, entries, floor_of(tree, node), room.shared);
}

// Puts the row of a union in the place of its lower cluster, and enlarges the ball around its tile.
__device__ void place_row(const Tree &tree, const Clusters &clusters, const float *row, uint lower,
                          uint higher, uint order) {
  uint p = tree.dimensions, position = tree.positions[lower], gone = tree.positions[higher];
  FOR_EACH(k, p + SCALARS) clusters.rows[(size_t)k * clusters.capacity + position] = row[k];
  if (threadIdx.x == 0) {
    clusters.rows[(size_t)(p + LOW) * clusters.capacity + gone] = GONE;
    tree.orders_at[position] = order;
  }
  uint tile = position / TILE, tiles = clusters.capacity / TILE, lane = threadIdx.x % WARP;
  if (threadIdx.x / WARP != WARPS - 1) return;
  float square = 0;
  for (uint k = lane; k < p; k += WARP) {
    float d = row[k] - clusters.balls[(size_t)k * tiles + tile];
    square = fmaf(d, d, square);
  }
  for (int step = WARP / 2; step > 0; step /= 2)
    square += __shfl_xor_sync(WHOLE_WARP, square, step);
  if (lane > 0) return;
  float slack = 1.0f + ((float)p + 16.0f) / (1 << 24);
  float radius = (__fsqrt_rn(square) + row[p + ERROR]) * slack;
  float *ball = clusters.balls + (size_t)p * tiles + tile;
  ball[RADIUS * tiles] = fmaxf(ball[RADIUS * tiles], radius);
  ball[BALL_LOW * tiles] = fminf(ball[BALL_LOW * tiles], row[p + LOW]);
}

// Merges the pair of a tentative union that is ready.
__device__ void merge(const Tree &tree, const Clusters &clusters, Chain &chain, float *recent_rows,
                      uint number, double height, Entries &entries, Workspace &room) {
  uint p = tree.dimensions, node = tree.clusters + number;
  uint lower = chain.lower[number], higher = chain.higher[number];
  uint size = tree.sizes[node], order = tree.clusters + chain.merges;
  const float *row = tentative_row(tree, node);
  float *recent = recent_row(tree, recent_rows, chain.merges);
  take_candidates(tree, chain, recent_rows, number, entries, room);
  uint before = !is_full_size(tree.threshold, tree.sizes[lower]) +
                !is_full_size(tree.threshold, tree.sizes[higher]);
  __syncthreads();
  place_row(tree, clusters, row, lower, higher, order);
  FOR_EACH(k, p) mean_of(tree, lower)[k] = mean_of(tree, node)[k];
  FOR_EACH(k, p + 2) recent[k] = k < p ? row[k] : row[p + (k == p ? ERROR : LOW)];
  if (threadIdx.x == 0) {
    tree.heights[chain.merges] = height;
    tree.lower[chain.merges] = lower;
    tree.higher[chain.merges] = higher;
    free_shape(tree, chain, tree.shapes[lower]);
    free_shape(tree, chain, tree.shapes[higher]);
    tree.shapes[lower] = tree.shapes[node];
    tree.sizes[lower] = size;
    tree.ids[lower] = tree.ids[node];
    tree.ids[higher] = NONE;
    tree.ids[node] = NONE;
    tree.sweeps[lower] = 1;
    tree.limits[lower] = single_infinity();
    tree.orders[lower] = order;
    tree.head_values[higher] = INFINITY_BITS;
    tree.head_ties[higher] = ~0ull;
    chain.recent_slots[chain.merges % RECENT] = lower;
    chain.recent_ids[chain.merges % RECENT] = tree.ids[lower];
    chain.states[number] = UNUSED;
    chain.below_threshold -= before - !is_full_size(tree.threshold, size);
    chain.merges += 1;
  }
  __syncthreads();
  if (threadIdx.x < WARP) write_head(tree, lower);
  refresh(tree, chain, 2, [&](uint i) { return i == 0 ? lower : higher; });
}

// Merges as far as the unions are ready. Returns the first of the queue that is not, and its owner;
// or sets the status, where there is none.
__device__ Key merge_all_ready(const Tree &tree, const Clusters &clusters, Chain &chain,
                               float *recent_rows, uint *owner, Entries &entries,
                               Workspace &room) {
  for (;;) {
    Key head = first_of_queue(tree, chain, room.shared, owner);
    bool done = chain.merges + 1 == tree.clusters;
    bool full = chain.below_threshold == 0 && !tree.all_full_size;
    if (done || full || head.value >= INFINITY_BITS) {
      if (threadIdx.x == 0) chain.status = done ? ALL_MERGED : full ? ALL_FULL_SIZE : GAVE_UP;
      __syncthreads();
      return head;
    }
    if (!is_pair(head.tie)) {
      if (threadIdx.x == 0) tree.control[COUNT_FLOOR_STALLS] += 1;
      return head;
    }
    if (!has_first(tree, *owner)) {
      __syncthreads();
      if (threadIdx.x < WARP) write_head(tree, *owner);
      if (threadIdx.x == 0) tree.control[COUNT_STALE] += 1;
      refresh(tree, chain, 1, [&](uint) { return *owner; });
      continue;
    }
    uint number = ready_union(tree, chain, lower_slot(head.tie), higher_slot(head.tie));
    if (number == NOWHERE) {
      if (threadIdx.x == 0) tree.control[COUNT_PAIR_STALLS] += 1;
      return head;
    }
    merge(tree, clusters, chain, recent_rows, number, __longlong_as_double(head.value),
          entries, room);
  }
}
