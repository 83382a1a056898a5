// What the block that serves the chain of merges keeps in shared memory, and the queue of all
// clusters.
//
// Of the queue, the heads up to a limit are in shared memory, as entries; all are in the device's.

#pragma once

#include "tree_search.cuh"

// Of a job: unused; a tentative union without a result, or with one; one that is merged, or that
// cannot be merged any more, until no job needs it; a search for an active cluster.
enum JobState { UNUSED, PENDING, READY, MERGED, DROPPED, SEARCHING };

// Of an entry of the queue: none; a pair of active clusters; a floor; a pair of which one cluster
// is merged away.
enum EntryKind { EMPTY, PAIR, FLOOR, STALE };

// Entries of the queue. Each thread has one, and one job.
#define ENTRIES THREADS
static_assert(JOBS == THREADS, "a thread for each job");
static_assert(RECENT + RECENT == THREADS, "half of the threads look at recent clusters");

// Entries that the queue is filled up to, and those at which it is filled again.
#define FILLED 192
#define FEW 64

// Entries that may be out of order.
#define MOST_FRESH WARP

// Of the hash table of jobs.
#define BUCKETS 256
#define NOWHERE NONE

struct Chain {
  // Jobs: a tentative union's ids, slots and shapes, the nodes to make it from, its pair's
  // distance, the merges done when it was searched for, and how far it is from the queue: 1 for the
  // pair of an entry, 2 for that of its union, ...; 0 where it is not expected soon. A search has
  // one cluster.
  uint states[JOBS], ids[JOBS], lower[JOBS], higher[JOBS], lower_ids[JOBS], higher_ids[JOBS];
  uint lower_nodes[JOBS], higher_nodes[JOBS], lower_shapes[JOBS], higher_shapes[JOBS];
  uint made_at[JOBS], depths[JOBS], is_dead[JOBS];
  ulong pair_values[JOBS];
  // Posted jobs that use its node, its own among them, and whose nodes its own uses.
  uint users[JOBS], lower_used[JOBS], higher_used[JOBS];
  // Results.
  uint counts[JOBS], shapes[JOBS], sizes[JOBS], fuller[JOBS];
  ulong floor_values[JOBS], floor_ties[JOBS];
  float limits[JOBS]; // the floors in screen units, or more
  // A hash table of their ids: the first of each bucket, and the next ones.
  uint buckets[BUCKETS], next[JOBS];

  // Entries of the queue: heads up to the limit, with the ids of their pairs.
  uint kinds[ENTRIES], owners[ENTRIES], entry_lower_ids[ENTRIES], entry_higher_ids[ENTRIES];
  ulong values[ENTRIES], ties[ENTRIES];
  // Those that are not empty, in order; then those whose heads are newer than that order.
  uint sorted[ENTRIES], sorted_count;
  uint fresh[MOST_FRESH], is_fresh[ENTRIES], fresh_count;
  ulong limit_value, limit_tie;
  uint limit_owner;
  uint dirty[MOST_LEAVES / 32]; // leaves whose least head is to be found anew, a bit for each

  // The last merges: slot and id of the union, NONE where that is merged away, and its job.
  uint recent_slots[RECENT], recent_ids[RECENT], recent_jobs[RECENT];

  uint list[THREADS], near_leaves[NEAR_LEAVES];
  uint listed, count, unused_count, few, many, inserted;
  uint merges, committed, below_threshold, next_id, shapes_used, free_shapes, status;
  uint done; // jobs
  uint first_post, wish_count, ready_count;
  uint to_post[JOBS], ready[JOBS];
  // What new jobs are for: see Wish.
  uint wish_kinds[JOBS], wish_subjects[JOBS], wish_candidates[JOBS];
  double span; // of the keys of the entries that filled the queue
};
static_assert(sizeof(Chain) <= CHAIN_BYTES, "the host reserves enough");

#ifdef __CUDACC_RTC__
extern __shared__ double memory[];
#endif

// The chain's state of this block: the compiler should know that it is in shared memory.
__device__ __forceinline__ Chain &chain_of_block() { return *(Chain *)memory; }

// The chain's lists and rows, behind its state: the slots, ids and distances of the candidates of
// each job, number c of job j at c * JOBS + j; the rows of recent clusters; and those of jobs, if
// there is room.
struct Lists {
  ulong *values;
  uint *slots, *ids;
  float *rows, *recent_rows;
  uint row_length, recent_length;

  __device__ Lists(const Tree &tree, double *memory) {
    uint p = tree.dimensions;
    values = (ulong *)memory;
    slots = (uint *)(values + JOBS * CANDIDATES);
    ids = slots + JOBS * CANDIDATES;
    recent_rows = (float *)(ids + JOBS * CANDIDATES);
    // Odd, for the banks of shared memory.
    recent_length = p + 2 + (p + 1) % 2;
    row_length = p + SCALARS;
    rows = tree.rows_in_shared ? recent_rows + RECENT * recent_length : tree.rows;
  }
  __device__ __forceinline__ float *row(uint job) const { return rows + job * row_length; }
  __device__ __forceinline__ float *recent(uint merge) const {
    return recent_rows + merge % RECENT * recent_length;
  }
  // Where what follows starts.
  __device__ double *end(const Tree &tree) const {
    float *end = recent_rows + RECENT * recent_length;
    if (tree.rows_in_shared) end += JOBS * row_length;
    return (double *)((size_t)(end + 3) / 16 * 16);
  }
};

__device__ __forceinline__ Lists lists_of_block(const Tree &tree) {
  return Lists(tree, memory + CHAIN_BYTES / sizeof(double));
}

// All that the chain's functions work with, beside its state.
struct Work {
  const Tree &tree;
  const Clusters &clusters;
  Entries &entries;
  Workspace &room;
};

__device__ __forceinline__ uint leaves_of(const Tree &tree) {
  return (tree.clusters + LEAF - 1) / LEAF;
}

__device__ __forceinline__ void mark_leaf(Chain &chain, uint slot) {
  uint leaf = slot / LEAF;
  atomicOr(&chain.dirty[leaf / 32], 1u << leaf % 32);
}

// Whether a key and its owner come before another one. Floors of the same value have the same key.
__device__ __forceinline__ bool comes_before(ulong value, ulong tie, uint owner, ulong other_value,
                                             ulong other_tie, uint other_owner) {
  if (value != other_value) return value < other_value;
  return tie < other_tie || (tie == other_tie && owner < other_owner);
}

__device__ __forceinline__ bool is_beyond(const Chain &chain, ulong value, ulong tie, uint owner) {
  return comes_before(chain.limit_value, chain.limit_tie, chain.limit_owner, value, tie, owner);
}

// Makes a head an entry, by one thread; `lower_id` and `higher_id` are those of its pair, or the
// owner's and NONE.
__device__ __forceinline__ void put_entry(Chain &chain, uint at, Key head, uint owner,
                                          uint lower_id, uint higher_id) {
  bool is_far = head.value >= INFINITY_BITS || is_beyond(chain, head.value, head.tie, owner);
  chain.kinds[at] = is_far ? EMPTY : is_pair(head.tie) ? PAIR : FLOOR;
  chain.values[at] = head.value;
  chain.ties[at] = head.tie;
  chain.owners[at] = owner;
  chain.entry_lower_ids[at] = lower_id;
  chain.entry_higher_ids[at] = higher_id;
}

// Finds the head of an entry's owner anew, by a warp.
__device__ void renew_entry(const Tree &tree, Chain &chain, uint at) {
  uint owner = chain.owners[at];
  Key head = write_head(tree, owner);
  __syncwarp();
  if (threadIdx.x % WARP > 0) return;
  mark_leaf(chain, owner);
  bool pair = is_pair(head.tie);
  put_entry(chain, at, head, owner, pair ? tree.ids[lower_slot(head.tie)] : tree.ids[owner],
            pair ? tree.ids[higher_slot(head.tie)] : NONE);
}

__device__ uint sort_entries();

// Finds the heads of all stale entries anew, and puts the entries in order.
__device__ __noinline__ void renew_stale(const Tree &tree) {
  Chain &chain = chain_of_block();
  __syncthreads();
  if (threadIdx.x == 0) chain.listed = 0;
  __syncthreads();
  if (chain.kinds[threadIdx.x] == STALE) chain.list[atomicAdd(&chain.listed, 1)] = threadIdx.x;
  __syncthreads();
  for (uint i = threadIdx.x / WARP; i < chain.listed; i += WARPS)
    renew_entry(tree, chain, chain.list[i]);
  sort_entries();
}

// ---- filling the queue ----

// Finds the least distance of a leaf's heads anew, by a warp.
__device__ void renew_leaf(const Tree &tree, uint leaf) {
  uint slot = leaf * LEAF + threadIdx.x % WARP;
  ulong least = slot < tree.clusters ? tree.head_values[slot] : INFINITY_BITS;
  for (int offset = WARP / 2; offset; offset /= 2)
    least = min(least, __shfl_xor_sync(WHOLE_WARP, least, offset));
  if (threadIdx.x % WARP == 0) tree.leaf_values[leaf] = least;
}

// The same for all that need it.
__device__ void renew_leaves(const Tree &tree, Chain &chain) {
  __syncthreads();
  uint words = (leaves_of(tree) + 31) / 32;
  uint count;
  do {
    if (threadIdx.x == 0) chain.listed = 0;
    __syncthreads();
    FOR_EACH(word, words) {
      for (uint bits = chain.dirty[word]; bits != 0; bits &= bits - 1) {
        uint at = atomicAdd(&chain.listed, 1);
        if (at >= NEAR_LEAVES) break;
        chain.near_leaves[at] = word * 32 + __ffs(bits) - 1;
        chain.dirty[word] &= ~(bits & -bits);
      }
    }
    __syncthreads();
    count = chain.listed;
    uint listed = min(count, (uint)NEAR_LEAVES);
#pragma unroll 4
    for (uint i = threadIdx.x / WARP; i < listed; i += WARPS)
      renew_leaf(tree, chain.near_leaves[i]);
    __syncthreads();
  } while (count > NEAR_LEAVES);
}

// Collects the heads up to the limit, as far as there is room; returns how many they are, or about
// where that is more.
__device__ uint collect_heads(const Tree &tree, Chain &chain) {
  uint lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, leaves = leaves_of(tree);
  __syncthreads();
  if (threadIdx.x == 0) chain.count = chain.listed = 0;
  __syncthreads();
  ulong limit = chain.limit_value;
#pragma unroll 4
  for (uint leaf = threadIdx.x; leaf < leaves; leaf += THREADS) {
    ulong value = tree.leaf_values[leaf];
    if (value >= INFINITY_BITS || value > limit) continue;
    uint at = atomicAdd(&chain.listed, 1);
    if (at < NEAR_LEAVES) chain.near_leaves[at] = leaf;
  }
  __syncthreads();
  uint listed = min(chain.listed, (uint)NEAR_LEAVES);
#pragma unroll 4
  for (uint i = warp; i < listed; i += WARPS) {
    uint slot = chain.near_leaves[i] * LEAF + lane;
    if (slot >= tree.clusters) continue;
    ulong head = tree.head_values[slot], tie = tree.head_ties[slot];
    if (head >= INFINITY_BITS || is_beyond(chain, head, tie, slot)) continue;
    uint at = atomicAdd(&chain.count, 1);
    if (at >= ENTRIES) continue;
    chain.values[at] = head;
    chain.ties[at] = tie;
    chain.owners[at] = slot;
  }
  __syncthreads();
  uint count = chain.count;
  return listed < chain.listed ? max((uint)((ulong)count * chain.listed / listed), 2 * ENTRIES)
                               : count;
}

// Puts the entries that are not empty in order. Returns how many they are.
__device__ __noinline__ uint sort_entries() {
  Chain &chain = chain_of_block();
  uint i = threadIdx.x, rank = 0;
  __syncthreads();
  bool there = chain.kinds[i] != EMPTY;
  if (!there) chain.values[i] = INFINITY_BITS;
  chain.is_fresh[i] = 0;
  if (i == 0) chain.sorted_count = chain.fresh_count = 0;
  __syncthreads();
  if (there) {
    ulong value = chain.values[i];
    // Most differ in the upper half already.
    const uint *halves = (const uint *)chain.values + 1;
    uint half = value >> 32, equal = 0;
#pragma unroll 16
    for (uint j = 0; j < ENTRIES; j++) {
      rank += halves[2 * j] < half;
      equal += halves[2 * j] == half;
    }
    if (equal > 1) {
      ulong tie = chain.ties[i];
      uint owner = chain.owners[i];
      for (uint j = 0; j < ENTRIES; j++)
        rank += halves[2 * j] == half &&
                comes_before(chain.values[j], chain.ties[j], chain.owners[j], value, tie, owner);
    }
    chain.sorted[rank] = i;
    atomicAdd(&chain.sorted_count, 1);
  }
  __syncthreads();
  return chain.sorted_count;
}

// The first entry of the queue, in all threads; NONE if there is none. Those of the order before
// `front`, which goes on, are empty or fresh.
__device__ __forceinline__ uint first_entry(const Chain &chain, uint &front) {
  uint lane = threadIdx.x % WARP, first = NONE;
  for (; front < chain.sorted_count; front += WARP) {
    uint at = front + lane < chain.sorted_count ? chain.sorted[front + lane] : NONE;
    bool there = at != NONE && chain.kinds[at] != EMPTY && !chain.is_fresh[at];
    uint mask = __ballot_sync(WHOLE_WARP, there);
    if (mask == 0) continue;
    front += __ffs(mask) - 1;
    first = chain.sorted[front];
    break;
  }
  uint count = chain.fresh_count;
  if (count == 0) return first;
  uint mine = lane < count ? chain.fresh[lane] : NONE;
  if (mine != NONE && chain.kinds[mine] == EMPTY) mine = NONE;
  ulong value = mine != NONE ? chain.values[mine] : INFINITY_BITS, least = value;
  for (int step = WARP / 2; step > 0; step /= 2)
    least = min(least, __shfl_xor_sync(WHOLE_WARP, least, step));
  if (first != NONE && chain.values[first] < least) return first;
  // Those with the least value are compared one after the other.
  uint mask = __ballot_sync(WHOLE_WARP, mine != NONE && value == least);
  for (; mask != 0; mask &= mask - 1) {
    uint other = chain.fresh[__ffs(mask) - 1];
    if (first == NONE ||
        comes_before(least, chain.ties[other], chain.owners[other], chain.values[first],
                     chain.ties[first], chain.owners[first]))
      first = other;
  }
  return first;
}

// Fills the queue's entries anew: with about FILLED heads, or all.
__device__ __noinline__ void refill(const Tree &tree) {
  Chain &chain = chain_of_block();
  uint i = threadIdx.x;
  renew_leaves(tree, chain);
  // The last span tells where the limit should be.
  ulong least = INFINITY_BITS;
  FOR_EACH(leaf, leaves_of(tree)) least = min(least, tree.leaf_values[leaf]);
  for (int offset = WARP / 2; offset; offset /= 2)
    least = min(least, __shfl_xor_sync(WHOLE_WARP, least, offset));
  __syncthreads();
  if (i == 0) chain.limit_value = INFINITY_BITS;
  __syncthreads();
  if (i % WARP == 0) atomicMin(&chain.limit_value, least);
  __syncthreads();
  double first = __longlong_as_double(chain.limit_value), span = chain.span;
  __syncthreads();
  bool is_cut = false;
  for (;;) {
    __syncthreads();
    if (i == 0) {
      chain.limit_value = __double_as_longlong(first + span);
      chain.limit_tie = ~0ull;
      chain.limit_owner = NONE;
    }
    uint count = collect_heads(tree, chain);
    for (; count > ENTRIES; count = collect_heads(tree, chain)) {
      // The limit comes down to where, by those that found room, FILLED are below it.
      is_cut = true;
      chain.kinds[i] = PAIR;
      sort_entries();
      if (i == 0) {
        uint last = chain.sorted[max(ENTRIES * FILLED / count, 2u) - 1];
        chain.limit_value = chain.values[last];
        chain.limit_tie = chain.ties[last];
        chain.limit_owner = chain.owners[last];
      }
    }
    if (is_cut || count >= 2 * FEW || !(span < infinity())) {
      double limit = __longlong_as_double(chain.limit_value);
      if (i == 0) {
        double wanted = fmin(fmax((double)FILLED / count, 0.5), 2.0);
        chain.span = (limit - first) * wanted;
      }
      break;
    }
    span = span > 0 ? 4 * span : infinity();
  }
  __syncthreads();
  uint count = chain.count;
  chain.kinds[i] = EMPTY;
  if (i < count) {
    ulong tie = chain.ties[i];
    uint owner = chain.owners[i];
    chain.kinds[i] = FLOOR;
    chain.entry_lower_ids[i] = tree.ids[owner];
    chain.entry_higher_ids[i] = NONE;
    if (is_pair(tie)) {
      uint lower = lower_slot(tie), higher = higher_slot(tie), other = owner ^ lower ^ higher;
      size_t at = (size_t)owner * CANDIDATES + tree.firsts[owner];
      chain.kinds[i] = tree.ids[other] == tree.candidate_ids[at] ? PAIR : STALE;
      chain.entry_lower_ids[i] = tree.ids[lower];
      chain.entry_higher_ids[i] = tree.ids[higher];
    }
  }
  sort_entries();
}

// ---- jobs ----

__device__ __forceinline__ uint bucket_of(uint lower_id, uint higher_id) {
  return (lower_id * 0x9e3779b1u ^ higher_id * 0x85ebca77u) >> 24;
}
static_assert(BUCKETS == 1 << (32 - 24), "a bucket for each hash");

__device__ __forceinline__ void put_in_bucket(Chain &chain, uint job) {
  uint bucket = bucket_of(chain.lower_ids[job], chain.higher_ids[job]);
  chain.next[job] = atomicExch(&chain.buckets[bucket], job);
}

// The job for clusters with these ids; NOWHERE if there is none. The second id is NONE for a search.
__device__ __forceinline__ uint find_job(const Chain &chain, uint lower_id, uint higher_id) {
  for (uint job = chain.buckets[bucket_of(lower_id, higher_id)]; job != NOWHERE;
       job = chain.next[job]) {
    uint state = chain.states[job];
    if ((state == PENDING || state == READY || state == SEARCHING) &&
        chain.lower_ids[job] == lower_id && chain.higher_ids[job] == higher_id)
      return job;
  }
  return NOWHERE;
}

// Gives a shape back.
__device__ __forceinline__ void free_shape(const Tree &tree, Chain &chain, uint shape) {
  if (shape != NONE) tree.free_shapes[atomicAdd(&chain.free_shapes, 1)] = shape & ~IDENTITY;
}
