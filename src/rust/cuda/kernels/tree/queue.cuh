// The sequencer's priority queue of all clusters.
//
// Each active cluster has a head: its first active candidate, or its floor. All heads are in device
// memory, and so is the first head of each leaf of LEAF slots. Heads up to a limit are in shared
// memory, too, as entries.

#pragma once

#include "tree/sequencer.cuh"

// The constants of `lower_limit` and `refill`. Only the time depends on them.
//
// Lowest rank in a sample of entries that becomes the limit. A lower rank would tell too little.
#define LEAST_RANK 8u
// Number of heads that a raised limit is meant to reach, divided by FILLED. If it is too low, the
// limit is raised once more; if it is too high, it is lowered again.
#define AIM 1.25
// The least and the largest factor of the step by which the limit is raised, within one refill.
#define LEAST_GROWTH 1.5
#define MOST_GROWTH 4.0
// Largest factor by which the step changes from one refill to the next.
#define MOST_CHANGE 2.0

__device__ __forceinline__ uint leaves_of(const Tree &tree) {
  return (tree.clusters + LEAF - 1) / LEAF;
}

__device__ __forceinline__ void mark_leaf(Sequencer &sequencer, uint slot) {
  uint leaf = slot / LEAF;
  atomicOr(&sequencer.dirty[leaf / 32], 1u << leaf % 32);
}

// Whether a key and its owner come before another key and its owner. Floors of the same value have
// the same key.
__device__ __forceinline__ bool comes_before(ulong value, ulong tie, uint owner, ulong other_value,
                                             ulong other_tie, uint other_owner) {
  if (value != other_value) return value < other_value;
  return tie < other_tie || (tie == other_tie && owner < other_owner);
}

__device__ __forceinline__ bool is_before(const QueueEntry &one, const QueueEntry &other) {
  return comes_before(one.value, one.tie, one.owner, other.value, other.tie, other.owner);
}

// The entry at index `at`; an empty one if `at` is NONE.
__device__ __forceinline__ QueueEntry entry_at(const Sequencer &sequencer, uint at) {
  if (at == NONE) return {INFINITY_BITS, ~0ull, NONE, NONE, EMPTY};
  return {sequencer.values[at], sequencer.ties[at], sequencer.owners[at], at, sequencer.kinds[at]};
}

__device__ __forceinline__ bool is_beyond(const Sequencer &sequencer, ulong value, ulong tie,
                                          uint owner) {
  return comes_before(sequencer.limit_value, sequencer.limit_tie, sequencer.limit_owner, value, tie,
                      owner);
}

// Writes a cluster's head to the entry at index `at`, by one thread. A head beyond the limit leaves
// the entry empty.
__device__ __forceinline__ void put_entry(Sequencer &sequencer, uint at, const Head &head,
                                          uint owner) {
  Key key = head.key;
  bool is_far = key.value >= INFINITY_BITS || is_beyond(sequencer, key.value, key.tie, owner);
  bool comes_first = !is_pair(key.tie) || lower_slot(key.tie) == owner;
  sequencer.kinds[at] = is_far ? EMPTY : is_pair(key.tie) ? PAIR : FLOOR;
  sequencer.values[at] = key.value;
  sequencer.ties[at] = key.tie;
  sequencer.owners[at] = owner;
  sequencer.entry_lower_ids[at] = comes_first ? head.id : head.other_id;
  sequencer.entry_higher_ids[at] = comes_first ? head.other_id : head.id;
}

// Notes that an entry may be out of order, by one thread for each entry.
__device__ __forceinline__ void add_unsorted(Sequencer &sequencer, uint at) {
  if (sequencer.kinds[at] == EMPTY || sequencer.is_unsorted[at]) return;
  sequencer.is_unsorted[at] = 1;
  uint nth = atomicAdd(&sequencer.unsorted_count, 1);
  if (nth < MAX_UNSORTED) sequencer.unsorted[nth] = at;
}

// Computes the head of an entry's owner again, by a warp.
__device__ void renew_entry(const Tree &tree, Sequencer &sequencer, uint at) {
  uint owner = sequencer.owners[at];
  Head head = write_head(tree, owner);
  __syncwarp();
  if (threadIdx.x % WARP > 0) return;
  mark_leaf(sequencer, owner);
  put_entry(sequencer, at, head, owner);
  add_unsorted(sequencer, at);
}

__device__ void insert_unsorted();

// Computes the heads of all stale entries again, and sorts the entries.
__device__ __forceinline__ void renew_stale(const Tree &tree) {
  Sequencer &sequencer = sequencer_of_block();
  __syncthreads();
  if (threadIdx.x == 0) sequencer.listed = 0;
  __syncthreads();
  if (threadIdx.x < ENTRIES && sequencer.kinds[threadIdx.x] == STALE)
    sequencer.list[atomicAdd(&sequencer.listed, 1)] = threadIdx.x;
  __syncthreads();
  for (uint i = threadIdx.x / WARP; i < sequencer.listed; i += WARPS)
    renew_entry(tree, sequencer, sequencer.list[i]);
  insert_unsorted();
}

// ---- filling the queue ----

// The least value of a warp's threads, in all of them.
__device__ __forceinline__ ulong least_of_warp(ulong value) {
  for (int offset = WARP / 2; offset; offset /= 2)
    value = min(value, __shfl_xor_sync(WHOLE_WARP, value, offset));
  return value;
}

// Computes the first head of each dirty leaf again, by a warp for each leaf.
__device__ __forceinline__ void renew_leaves(const Tree &tree, Sequencer &sequencer) {
  __syncthreads();
  uint words = (leaves_of(tree) + 31) / 32, lane = threadIdx.x % WARP;
  uint count;
  do {
    if (threadIdx.x == 0) sequencer.listed = 0;
    __syncthreads();
    FOR_EACH(word, words) {
      for (uint bits = sequencer.dirty[word]; bits != 0; bits &= bits - 1) {
        uint at = atomicAdd(&sequencer.listed, 1);
        if (at >= NEAR_LEAVES) break;
        sequencer.near_leaves[at] = word * 32 + __ffs(bits) - 1;
        sequencer.dirty[word] &= ~(bits & -bits);
      }
    }
    __syncthreads();
    count = sequencer.listed;
    uint listed = min(count, (uint)NEAR_LEAVES);
    for (uint some = threadIdx.x / WARP; some < listed; some += TOGETHER * WARPS) {
      ulong values[TOGETHER], ties[TOGETHER];
#pragma unroll
      for (uint k = 0; k < TOGETHER; k++) {
        uint i = some + k * WARPS;
        uint slot = i < listed ? sequencer.near_leaves[i] * LEAF + lane : NONE;
        values[k] = slot < tree.clusters ? tree.head_values[slot] : INFINITY_BITS;
        ties[k] = slot < tree.clusters ? tree.head_ties[slot] : ~0ull;
      }
#pragma unroll
      for (uint k = 0; k < TOGETHER; k++) {
        uint i = some + k * WARPS;
        if (i >= listed) break;
        // The least value, then the least tie among its heads, then the first of their slots.
        ulong value = least_of_warp(values[k]);
        ulong tie = least_of_warp(values[k] == value ? ties[k] : ~0ull);
        uint first = __ffs(__ballot_sync(WHOLE_WARP, values[k] == value && ties[k] == tie)) - 1;
        uint leaf = sequencer.near_leaves[i];
        if (lane != first) continue;
        tree.leaf_values[leaf] = value;
        tree.leaf_ties[leaf] = tie;
        tree.leaf_owners[leaf] = leaf * LEAF + lane;
      }
    }
    __syncthreads();
  } while (count > NEAR_LEAVES);
}

// Collects heads up to the limit as entries, until there is no more room: the heads of all leaves,
// or of a sample, the leaves with a hash up to `share`. Returns the number of heads, or an estimate
// of it if they are more than there is room for.
__device__ __forceinline__ uint collect_heads(const Tree &tree, Sequencer &sequencer, uint share) {
  uint lane = threadIdx.x % WARP, leaves = leaves_of(tree);
  __syncthreads();
  if (threadIdx.x == 0) sequencer.count = sequencer.listed = 0;
  __syncthreads();
  ulong limit = sequencer.limit_value;
  for (uint some = threadIdx.x; some < leaves; some += TOGETHER * THREADS) {
    ulong values[TOGETHER];
#pragma unroll
    for (uint k = 0; k < TOGETHER; k++)
      values[k] =
          some + k * THREADS < leaves ? tree.leaf_values[some + k * THREADS] : INFINITY_BITS;
#pragma unroll
    for (uint k = 0; k < TOGETHER; k++) {
      uint leaf = some + k * THREADS;
      if (values[k] >= INFINITY_BITS || values[k] > limit || leaf * 0x9e3779b1u > share) continue;
      if (values[k] == limit &&
          is_beyond(sequencer, limit, tree.leaf_ties[leaf], tree.leaf_owners[leaf]))
        continue;
      // Each of these leaves has at least one head up to the limit.
      uint at = atomicAdd(&sequencer.listed, 1);
      if (at < NEAR_LEAVES) sequencer.near_leaves[at] = leaf;
    }
  }
  __syncthreads();
  uint listed = min(sequencer.listed, (uint)NEAR_LEAVES);
  for (uint some = threadIdx.x / WARP; some < listed; some += TOGETHER * WARPS) {
    ulong heads[TOGETHER], ties[TOGETHER];
    uint slots[TOGETHER];
#pragma unroll
    for (uint k = 0; k < TOGETHER; k++) {
      uint i = some + k * WARPS;
      slots[k] = i < listed ? sequencer.near_leaves[i] * LEAF + lane : NONE;
      bool there = slots[k] < tree.clusters;
      heads[k] = there ? tree.head_values[slots[k]] : INFINITY_BITS;
      ties[k] = there ? tree.head_ties[slots[k]] : 0;
    }
#pragma unroll
    for (uint k = 0; k < TOGETHER; k++) {
      if (heads[k] >= INFINITY_BITS || is_beyond(sequencer, heads[k], ties[k], slots[k])) continue;
      uint at = atomicAdd(&sequencer.count, 1);
      if (at >= ENTRIES) continue;
      sequencer.values[at] = heads[k];
      sequencer.ties[at] = ties[k];
      sequencer.owners[at] = slots[k];
    }
  }
  __syncthreads();
  uint count = sequencer.count;
  return listed < sequencer.listed ? (uint)((ulong)count * sequencer.listed / listed) : count;
}

// Sorts the entries that are not empty, each by a thread that counts the entries before its own.
__device__ __forceinline__ void sort_entries() {
  Sequencer &sequencer = sequencer_of_block();
  uint i = threadIdx.x, rank = 0;
  __syncthreads();
  bool there = i < ENTRIES && sequencer.kinds[i] != EMPTY;
  if (i < ENTRIES) {
    if (!there) sequencer.values[i] = INFINITY_BITS;
    sequencer.is_unsorted[i] = 0;
  }
  if (i == 0) sequencer.sorted_count = sequencer.unsorted_count = 0;
  __syncthreads();
  if (there) {
    ulong value = sequencer.values[i];
    // Most values already differ in the upper half.
    const uint *halves = (const uint *)sequencer.values + 1;
    uint half = value >> 32, equal = 0;
#pragma unroll 16
    for (uint j = 0; j < ENTRIES; j++) {
      rank += halves[2 * j] < half;
      equal += halves[2 * j] == half;
    }
    if (equal > 1) {
      ulong tie = sequencer.ties[i];
      uint owner = sequencer.owners[i];
      for (uint j = 0; j < ENTRIES; j++)
        rank += halves[2 * j] == half && comes_before(sequencer.values[j], sequencer.ties[j],
                                                      sequencer.owners[j], value, tie, owner);
    }
    sequencer.sorted[rank] = i;
    atomicAdd(&sequencer.sorted_count, 1);
  }
  __syncthreads();
}

// Sorts the entries if only the unsorted ones may be out of order: inserts these into the order of
// the others.
__device__ __forceinline__ void insert_unsorted() {
  Sequencer &sequencer = sequencer_of_block();
  uint i = threadIdx.x, lane = i % WARP, warp = i / WARP;
  __syncthreads();
  uint unsorted_count = sequencer.unsorted_count;
  if (unsorted_count > MAX_UNSORTED) return sort_entries();
  uint mine = i < sequencer.sorted_count ? sequencer.sorted[i] : NONE;
  bool stays = mine != NONE && sequencer.kinds[mine] != EMPTY && !sequencer.is_unsorted[mine];
  uint staying = __ballot_sync(WHOLE_WARP, stays), rank = lanes_before(staying);
  QueueEntry entry = entry_at(sequencer, stays ? mine : NONE);
  if (i < MAX_UNSORTED) sequencer.before[i] = 0;
  if (lane == 0) sequencer.kept[warp] = __popc(staying);
  __syncthreads();
  // Lane f counts the sorted entries that come before unsorted entry number f.
  uint before = 0, inserted = 0;
  for (uint f = 0; f < unsorted_count; f++) {
    QueueEntry other = entry_at(sequencer, sequencer.unsorted[f]);
    if (other.kind == EMPTY) continue;
    inserted += 1;
    bool comes_first = stays && is_before(entry, other);
    uint first = __popc(__ballot_sync(WHOLE_WARP, comes_first));
    if (lane == f) before = first;
    rank += stays && !comes_first;
  }
  if (lane < unsorted_count && before > 0) atomicAdd(&sequencer.before[lane], before);
  uint all = 0;
  for (uint w = 0; w < WARPS; w++) {
    if (w < warp) rank += sequencer.kept[w];
    all += sequencer.kept[w];
  }
  __syncthreads();
  if (stays) sequencer.sorted[rank] = mine;
  if (i < unsorted_count) {
    QueueEntry entry = entry_at(sequencer, sequencer.unsorted[i]);
    uint rank = sequencer.before[i];
    for (uint f = 0; f < unsorted_count; f++) {
      QueueEntry other = entry_at(sequencer, sequencer.unsorted[f]);
      rank += other.kind != EMPTY && is_before(other, entry);
    }
    if (entry.kind != EMPTY) sequencer.sorted[rank] = entry.at;
    sequencer.is_unsorted[entry.at] = 0;
  }
  __syncthreads();
  if (i == 0) {
    sequencer.sorted_count = all + inserted;
    sequencer.unsorted_count = 0;
  }
  __syncthreads();
}

// The first entry of the queue without `but`, by a warp, in all its lanes. `front` is an index in
// the sorted order: all sorted entries before it are empty or unsorted. It moves on to the first
// entry that is neither. There are `unsorted_count` unsorted entries.
__device__ __forceinline__ QueueEntry first_entry(const Sequencer &sequencer, uint &front,
                                                  uint unsorted_count, uint but) {
  uint lane = threadIdx.x % WARP, first = NONE;
  for (; front < sequencer.sorted_count; front += WARP) {
    uint at = front + lane < sequencer.sorted_count ? sequencer.sorted[front + lane] : NONE;
    bool there =
        at != NONE && at != but && sequencer.kinds[at] != EMPTY && !sequencer.is_unsorted[at];
    uint mask = __ballot_sync(WHOLE_WARP, there);
    if (mask == 0) continue;
    uint source = __ffs(mask) - 1;
    front += source;
    first = __shfl_sync(WHOLE_WARP, at, source);
    break;
  }
  QueueEntry least = entry_at(sequencer, first);
  uint mine = lane < unsorted_count ? sequencer.unsorted[lane] : NONE;
  if (mine == but) mine = NONE;
  QueueEntry unsorted = entry_at(sequencer, mine);
  bool comes_first = unsorted.kind != EMPTY && is_before(unsorted, least);
  // Few unsorted entries come before the others.
  for (uint mask = __ballot_sync(WHOLE_WARP, comes_first); mask != 0;) {
    uint source = __ffs(mask) - 1;
    least = entry_at(sequencer, __shfl_sync(WHOLE_WARP, mine, source));
    comes_first = comes_first && is_before(unsorted, least);
    mask = __ballot_sync(WHOLE_WARP, comes_first);
  }
  return least;
}

// Lowers the limit so that about FILLED of `count` heads are up to it: to one of the collected
// heads, or to one of a sample, but never to the last.
__device__ void lower_limit(const Tree &tree, Sequencer &sequencer, uint count) {
  // Of many more heads than there is room for, the collected ones are no fair sample.
  if (count > 2 * ENTRIES) {
    uint share = ~0u / count * (ENTRIES / 2);
    while (collect_heads(tree, sequencer, share) < 2) share = share > ~0u / 2 ? ~0u : 2 * share;
  }
  uint i = threadIdx.x, sampled = min(sequencer.count, (uint)ENTRIES);
  if (i < ENTRIES) sequencer.kinds[i] = i < sampled ? PAIR : EMPTY;
  sort_entries();
  if (i == 0) {
    uint wanted = max((uint)((ulong)sampled * FILLED / count), min(LEAST_RANK, sampled / 2));
    uint last = sequencer.sorted[wanted - 1];
    sequencer.limit_value = sequencer.values[last];
    sequencer.limit_tie = sequencer.ties[last];
    sequencer.limit_owner = sequencer.owners[last];
  }
  __syncthreads();
}

// Fills the queue again, with about FILLED heads, or with all.
__device__ __forceinline__ void refill(const Tree &tree) {
  Sequencer &sequencer = sequencer_of_block();
  uint i = threadIdx.x;
  renew_leaves(tree, sequencer);
  ulong least = INFINITY_BITS;
#pragma unroll 8
  FOR_EACH(leaf, leaves_of(tree)) least = min(least, tree.leaf_values[leaf]);
  least = least_of_warp(least);
  __syncthreads();
  ulong limit_before = sequencer.limit_value;
  __syncthreads();
  if (i == 0) sequencer.limit_value = INFINITY_BITS;
  __syncthreads();
  if (i % WARP == 0) atomicMin(&sequencer.limit_value, least);
  __syncthreads();
  // The limit is raised from its last value, below which few heads are left, by the step that the
  // last call has chosen.
  double first = __longlong_as_double(max(sequencer.limit_value, limit_before)),
         step = sequencer.step;
  __syncthreads();
  bool is_cut = false;
  uint count;
  for (;;) {
    __syncthreads();
    if (i == 0) {
      sequencer.limit_value = __double_as_longlong(first + step);
      sequencer.limit_tie = ~0ull;
      sequencer.limit_owner = NONE;
    }
    __syncthreads();
    for (count = collect_heads(tree, sequencer, ~0u); count > ENTRIES;
         count = collect_heads(tree, sequencer, ~0u)) {
      is_cut = true;
      lower_limit(tree, sequencer, count);
    }
    if (is_cut || count >= ENOUGH_ENTRIES || !(step < infinity())) break;
    double wanted = fmin(fmax(AIM * FILLED / fmax((double)count, 1.0), LEAST_GROWTH), MOST_GROWTH);
    step = step > 0 ? wanted * step : infinity();
  }
  __syncthreads();
  if (i == 0) {
    double passed = __longlong_as_double(sequencer.limit_value) - first;
    double wanted = fmin(fmax((double)FILLED / count, 1 / MOST_CHANGE), MOST_CHANGE);
    // The limit may have been lowered below its last value. The step must be large enough to change
    // the limit.
    sequencer.step = fmax(passed > 0 ? passed * wanted : 0.5 * step, first * MIN_STEP);
  }
  if (i < ENTRIES) sequencer.kinds[i] = EMPTY;
  if (i < count) {
    ulong tie = sequencer.ties[i];
    uint owner = sequencer.owners[i];
    sequencer.kinds[i] = FLOOR;
    sequencer.entry_lower_ids[i] = tree.ids[owner];
    sequencer.entry_higher_ids[i] = NONE;
    if (is_pair(tie)) {
      uint lower = lower_slot(tie), higher = higher_slot(tie), other = owner ^ lower ^ higher;
      size_t at = (size_t)owner * CANDIDATES + tree.firsts[owner];
      sequencer.kinds[i] = tree.ids[other] == tree.candidate_ids[at] ? PAIR : STALE;
      sequencer.entry_lower_ids[i] = tree.ids[lower];
      sequencer.entry_higher_ids[i] = tree.ids[higher];
    }
  }
  sort_entries();
}
