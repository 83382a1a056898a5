// The choice of the unions to make and the searches to do in a round.

#pragma once

#include "tree_chain.cuh"

// Unions of unions that are prepared ahead.
#define FOLLOW_UPS 3

// Whether one cluster of a tentative union's pair is still to be expected: active, or a tentative
// union.
__device__ __forceinline__ bool is_expected(const Tree &tree, uint slot, uint id, uint node) {
  return tree.ids[slot] == id || (node >= tree.clusters && tree.ids[node] == id);
}

__device__ __forceinline__ void drop_tentative(const Tree &tree, Chain &chain, uint number) {
  uint node = tree.clusters + number;
  free_shape(tree, chain, tree.shapes[node]);
  tree.ids[node] = NONE;
  chain.states[number] = UNUSED;
}

// Drops tentative unions that cannot come any more, or are too old; all but those that are expected
// soon where there is little room for others. Lists the numbers that can be used.
__device__ void sort_out(const Tree &tree, Chain &chain, bool is_full, bool all) {
  if (threadIdx.x == 0) chain.unused_count = 0;
  FOR_EACH(b, BUCKETS) chain.buckets[b] = NOWHERE;
  __syncthreads();
  FOR_EACH(e, POOL) {
    if (chain.states[e] != UNUSED) {
      bool expected =
          is_expected(tree, chain.lower[e], chain.lower_ids[e], chain.lower_nodes[e]) &&
          is_expected(tree, chain.higher[e], chain.higher_ids[e], chain.higher_nodes[e]);
      bool is_old = chain.merges - chain.made_at[e] > RECENT;
      if (all || !expected || is_old || (is_full && chain.depths[e] == 0))
        drop_tentative(tree, chain, e);
    }
    if (chain.states[e] == UNUSED)
      chain.unused[atomicAdd(&chain.unused_count, 1)] = e;
    else
      put_in_bucket(chain, e);
  }
  __syncthreads();
}

// Takes the outcomes of the last round's searches.
__device__ void take_outcomes(const Tree &tree, Chain &chain) {
  uint count = chain.searches;
  if (threadIdx.x == 0) chain.listed = chain.few = chain.many = 0;
  __syncthreads();
  FOR_EACH(i, count) {
    const Search &search = tree.searches[i];
    if (search.node == NONE) continue;
    if (search.outcome == HOPELESS) chain.status = GAVE_UP;
    if (search.outcome == TOO_MANY) atomicAdd(tree.control + COUNT_OVERFLOWS, 1);
    if (search.node < tree.clusters) {
      chain.list[atomicAdd(&chain.listed, 1)] = search.node;
    } else {
      chain.states[search.node - tree.clusters] = search.outcome == FOUND ? READY : SEARCHED;
      if (search.is_new && search.found < WANTED) atomicAdd(&chain.few, 1);
      if (search.is_new && search.found > 4 * WANTED) atomicAdd(&chain.many, 1);
      atomicAdd(tree.control + COUNT_FOUND, search.found);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    if (count > 0) {
      double change = 1 + 0.05 * ((double)chain.few - (double)chain.many) / count;
      tree.tuning[RADIUS_FACTOR] = fmin(fmax(tree.tuning[RADIUS_FACTOR] * change, 0.1), 10.0);
    }
    chain.searches = 0;
  }
  if (chain.has_queue)
    refresh(tree, chain, chain.listed, [&](uint i) { return chain.list[i]; });
  __syncthreads();
}

// A search to be done in the next round; null where there are enough.
__device__ __forceinline__ Search *new_search(const Tree &tree, Chain &chain) {
  uint at = atomicAdd(&chain.searches, 1);
  return at < SEARCHES ? tree.searches + at : nullptr;
}

// A search for an active cluster whose floor is reached.
__device__ void search_again(const Tree &tree, Chain &chain, uint slot) {
  Search *search = new_search(tree, chain);
  if (!search) return;
  search->node = search->slot = slot;
  search->lower_node = search->higher_node = NONE;
  search->is_new = 0;
  search->order = tree.orders[slot];
  search->skipped = 0;
}

// The slots that a search for a union with this node has to leave out.
__device__ __forceinline__ uint skip_of(const Tree &tree, const Chain &chain, uint node,
                                        uint slot, uint *skip, uint skipped) {
  if (node < tree.clusters) {
    if (skipped < SKIPPED) skip[skipped] = slot;
    return skipped + 1;
  }
  // Those of a tentative union's pair; of the pair of one of these, too.
  for (uint depth = 0; node >= tree.clusters; depth++) {
    uint number = node - tree.clusters;
    for (uint side = 0; side < 2; side++) {
      uint one = side == 0 ? chain.lower[number] : chain.higher[number];
      if (skipped < SKIPPED) skip[skipped] = one;
      skipped += 1;
    }
    uint lower = chain.lower_nodes[number], higher = chain.higher_nodes[number];
    // The number of one that is made by now may be another's.
    bool lower_is_union = lower >= tree.clusters && tree.ids[lower] == chain.lower_ids[number];
    bool higher_is_union = higher >= tree.clusters && tree.ids[higher] == chain.higher_ids[number];
    if (!lower_is_union && !higher_is_union) break;
    node = lower_is_union ? lower : higher;
    if (skipped >= SKIPPED) break;
  }
  return skipped;
}

// Fills in the search for a tentative union.
__device__ void search_union(const Tree &tree, Chain &chain, Search *search, uint number,
                             bool is_new) {
  uint lower = chain.lower[number], higher = chain.higher[number];
  bool has_lower = tree.ids[lower] == chain.lower_ids[number];
  bool has_higher = tree.ids[higher] == chain.higher_ids[number];
  search->node = tree.clusters + number;
  search->slot = lower;
  search->lower_node = has_lower ? lower : chain.lower_nodes[number];
  search->higher_node = has_higher ? higher : chain.higher_nodes[number];
  search->is_new = is_new;
  search->order = NONE;
  uint skipped = skip_of(tree, chain, search->lower_node, lower, search->skip, 0);
  skipped = skip_of(tree, chain, search->higher_node, higher, search->skip, skipped);
  search->skipped = min(skipped, (uint)SKIPPED);
  chain.states[number] = SEARCHED;
  chain.made_at[number] = chain.merges;
}

// The number of a shape that is in no use.
__device__ __forceinline__ uint new_shape(const Tree &tree, Chain &chain) {
  uint stacked = atomicAdd(&chain.free_shapes, ~0u);
  if (stacked > 0 && stacked <= tree.shape_limit) return tree.free_shapes[stacked - 1];
  atomicAdd(&chain.free_shapes, 1);
  return atomicAdd(&chain.shapes_used, 1);
}

// A tentative union of two nodes at this distance, to be made in the next round.
__device__ void prepare(const Tree &tree, Chain &chain, uint lower, uint lower_id, uint lower_node,
                        uint higher, uint higher_id, uint higher_node, ulong value,
                        uint depth) {
  Search *search = new_search(tree, chain);
  if (!search) return;
  uint left = atomicAdd(&chain.unused_count, ~0u);
  if (left == 0 || left > POOL) {
    atomicAdd(&chain.unused_count, 1);
    search->node = NONE;
    return;
  }
  uint number = chain.unused[left - 1], node = tree.clusters + number;
  chain.lower[number] = lower;
  chain.higher[number] = higher;
  chain.lower_ids[number] = lower_id;
  chain.higher_ids[number] = higher_id;
  chain.lower_nodes[number] = lower_node;
  chain.higher_nodes[number] = higher_node;
  chain.pair_values[number] = value;
  chain.depths[number] = depth;
  tree.shapes[node] = tree.has_shapes ? new_shape(tree, chain) : NONE;
  tree.ids[node] = atomicAdd(&chain.next_id, 1);
  tree.counts[node] = 0;
  tree.sweeps[node] = 0;
  tree.limits[node] = single_infinity();
  search_union(tree, chain, search, number, true);
  put_in_bucket(chain, number);
}

// Notes that a tentative union is expected soon, and searches for it again where that is due.
__device__ void expect(const Tree &tree, Chain &chain, uint number, uint depth) {
  chain.depths[number] = depth;
  bool is_due =
      chain.states[number] == SEARCHED || chain.merges - chain.made_at[number] > RECENT / 2;
  Search *search = is_due ? new_search(tree, chain) : nullptr;
  if (search) search_union(tree, chain, search, number, false);
}

// Collects the heads of the queue up to a horizon, at most SELECTED, and sorts them.
__device__ void select_heads(const Tree &tree, Chain &chain, Key head, uint owner, ulong horizon) {
  if (threadIdx.x == 0) {
    chain.listed = 0;
    chain.values[0] = head.value;
    chain.ties[0] = head.tie;
    chain.owners[0] = owner;
    chain.selected = 1;
  }
  __syncthreads();
  FOR_EACH(leaf, leaves_of(tree)) {
    if (tree.leaf_values[leaf] > horizon) continue;
    uint at = atomicAdd(&chain.listed, 1);
    if (at < SELECTED) chain.list[at] = leaf;
  }
  __syncthreads();
  uint leaves = min(chain.listed, (uint)SELECTED);
  for (uint i = threadIdx.x / WARP; i < leaves; i += WARPS) {
    for (uint lane = threadIdx.x % WARP; lane < LEAF; lane += WARP) {
      uint slot = chain.list[i] * LEAF + lane;
      if (slot >= tree.clusters || slot == owner) continue;
      ulong value = tree.head_values[slot];
      if (value > horizon || value >= INFINITY_BITS) continue;
      uint at = atomicAdd(&chain.selected, 1);
      if (at >= SELECTED) continue;
      chain.values[at] = value;
      chain.ties[at] = tree.head_ties[slot];
      chain.owners[at] = slot;
    }
  }
  __syncthreads();
  uint count = min(chain.selected, (uint)SELECTED);
  FOR_EACH(i, count) {
    Key mine = {chain.values[i], chain.ties[i]};
    uint rank = 0;
    for (uint j = 0; j < count; j++) {
      Key other = {chain.values[j], chain.ties[j]};
      rank += other < mine || (j < i && !(mine < other));
    }
    chain.sorted[rank] = i;
  }
  __syncthreads();
}

// Does what one head of the queue needs next.
__device__ void provide(const Tree &tree, Chain &chain, uint rank) {
  uint i = chain.sorted[rank], owner = chain.owners[i];
  ulong tie = chain.ties[i];
  if (!is_pair(tie)) return search_again(tree, chain, owner);
  uint lower = lower_slot(tie), higher = higher_slot(tie);
  if (!has_first(tree, owner)) {
    chain.list[atomicAdd(&chain.listed, 1)] = owner;
    return;
  }
  for (uint before = 0; before < rank; before++) {
    ulong other = chain.ties[chain.sorted[before]];
    if (!is_pair(other)) continue;
    uint a = lower_slot(other), b = higher_slot(other);
    if (a == lower || a == higher || b == lower || b == higher) return;
  }
  uint lower_id = tree.ids[lower], higher_id = tree.ids[higher];
  uint number = find_tentative(chain, lower, lower_id, higher, higher_id);
  if (number == NOWHERE) {
    prepare(tree, chain, lower, lower_id, lower, higher, higher_id, higher, chain.values[i],
            1);
  } else {
    expect(tree, chain, number, 1);
  }
}

// Whether a cluster is probably merged with another one before a tentative union is made.
__device__ bool is_taken(const Tree &tree, const Chain &chain, uint slot, uint number) {
  if (tree.head_values[slot] >= chain.pair_values[number]) return false;
  ulong tie = tree.head_ties[slot];
  if (!is_pair(tie)) return false;
  uint other = lower_slot(tie) == slot ? higher_slot(tie) : lower_slot(tie);
  return other != chain.lower[number] && other != chain.higher[number];
}

// Prepares the union of a tentative union and its nearest neighbour, if that is probable.
__device__ void follow_up(const Tree &tree, Chain &chain, uint number, ulong horizon) {
  uint node = tree.clusters + number, slot = chain.lower[number], mine = tree.ids[node];
  uint depth = chain.depths[number] + 1;
  for (uint i = 0; i < tree.counts[node]; i++) {
    size_t at = (size_t)node * CANDIDATES + i;
    uint other = tree.candidate_slots[at], id = tree.candidate_ids[at];
    ulong value = tree.candidate_values[at];
    if (value > horizon) return;
    if (tree.ids[other] != id || is_taken(tree, chain, other, number)) continue;
    bool comes_first = slot < other;
    uint lower = comes_first ? slot : other, higher = comes_first ? other : slot;
    uint lower_id = comes_first ? mine : id, higher_id = comes_first ? id : mine;
    uint lower_node = comes_first ? node : other, higher_node = comes_first ? other : node;
    uint known = find_tentative(chain, lower, lower_id, higher, higher_id);
    if (known == NOWHERE)
      prepare(tree, chain, lower, lower_id, lower_node, higher, higher_id, higher_node, value,
              depth);
    else
      expect(tree, chain, known, depth);
    return;
  }
}

// Searches for all clusters at the start, some at a time.
__device__ void search_at_start(const Tree &tree, Chain &chain) {
  uint first = chain.next_start;
  FOR_EACH(i, SEARCHES) {
    uint position = first + i;
    if (position >= tree.clusters) continue;
    uint slot = tree.slots_at[position];
    if (tree.ids[slot] != NONE && tree.positions[slot] == position)
      search_again(tree, chain, slot);
  }
  __syncthreads();
  if (threadIdx.x == 0) chain.next_start = first + SEARCHES;
  __syncthreads();
}

// Chooses what the next round does, given the first of the queue and its owner.
__device__ void plan(const Tree &tree, Chain &chain, Key head, uint owner) {
  // Unions may be nearer than what was merged before: the horizon stays where it was.
  double first = fmax(__longlong_as_double(head.value), chain.level);
  ulong horizon = __double_as_longlong(first + chain.width);
  sort_out(tree, chain, false, false);
  if (chain.unused_count < SEARCHES) sort_out(tree, chain, true, false);
  FOR_EACH(e, POOL) chain.depths[e] = 0;
  select_heads(tree, chain, head, owner, horizon);
  uint count = min(chain.selected, (uint)SELECTED);
  if (threadIdx.x == 0) {
    chain.listed = 0;
    provide(tree, chain, 0);
    chain.level = first;
    if (2 * chain.selected < tree.batch)
      chain.width = fmax(chain.width * 1.25, first * 1e-3 + 1e-300);
    if (chain.selected > 2 * tree.batch) chain.width = chain.width * 0.8;
    if (chain.selected > 4 * tree.batch) chain.level = chain.level * 0.99;
  }
  __syncthreads();
  FOR_EACH(rank, count) {
    if (rank > 0) provide(tree, chain, rank);
  }
  __syncthreads();
  for (uint depth = 1; depth <= FOLLOW_UPS; depth++) {
    FOR_EACH(e, POOL) {
      if (chain.states[e] == READY && chain.depths[e] == depth)
        follow_up(tree, chain, e, horizon);
    }
    __syncthreads();
  }
  uint stale = chain.listed;
  for (uint i = threadIdx.x / WARP; i < stale; i += WARPS) write_head(tree, chain.list[i]);
  refresh(tree, chain, stale, [&](uint i) { return chain.list[i]; });
  if (threadIdx.x == 0) chain.searches = min(chain.searches, (uint)SEARCHES);
  __syncthreads();
}
