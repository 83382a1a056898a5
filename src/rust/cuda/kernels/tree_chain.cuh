// What the block that serves the chain of merges keeps in shared memory, and the queue of all
// clusters.
//
// Of the queue, the heads up to a limit are in shared memory, as entries; all are in the device's.

#pragma once

#include "tree_decide.cuh"

// Of a job: unused; a tentative union without a result, or with one; one that is merged, or that
// cannot be merged any more, until no job needs it; a search for an active cluster. NO_JOB is that
// of a thread beyond the number of jobs.
enum JobState { UNUSED, PENDING, READY, MERGED, DROPPED, SEARCHING, NO_JOB };

// Of an entry of the queue: none; a pair of active clusters; a floor; a pair of which one cluster
// is merged away.
enum EntryKind { EMPTY, PAIR, FLOOR, STALE };

// Entries of the queue. A thread has one and one job, or none. The last threads look at recent
// clusters, one each.
#define ENTRIES JOBS
static_assert(JOBS <= THREADS, "a thread for each job and entry");
#define FIRST_OF_RECENT (THREADS - RECENT)

// Entries that the queue is filled up to; those at which it is filled again; and those that are
// enough then.
#define FILLED (ENTRIES * 3 / 4)
#define FEW (ENTRIES / 4)
#define ENOUGH_ENTRIES (ENTRIES * 7 / 16)

// Loads of a thread at a time, where they would wait for each other otherwise.
#define TOGETHER 4

// Of the limit that the queue is filled up to, the least share by which it is raised.
#define LEAST_STEP 1e-12

// Entries that may be out of order.
#define MOST_FRESH WARP

// Of the hash table of jobs.
#define BUCKETS 256
#define NOWHERE NONE

// An entry, or none, as `at` says.
struct Front {
  ulong value, tie;
  uint owner, at, kind;
};

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
  uint counts[JOBS], shapes[JOBS], sizes[JOBS], starts[JOBS], fuller[JOBS];
  ulong floor_values[JOBS], floor_ties[JOBS];
  float limits[JOBS]; // the floors in screen units, or more
  // Of a tentative union whose nearest neighbour is merged meanwhile: the slot of that one's union, and its
  // id.
  uint heirs[JOBS], heir_ids[JOBS];
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

  // The last merges: slot and id of the union, NONE where that is merged away, its job, and the slot
  // of the other cluster.
  uint recent_slots[RECENT], recent_ids[RECENT], recent_jobs[RECENT], recent_higher[RECENT];
  uint recent_shapes[RECENT], recent_sizes[RECENT], recent_starts[RECENT];

  uint list[THREADS], near_leaves[NEAR_LEAVES];
  uint listed, count, unused_count, few, many, inserted;
  // Of `insert_fresh`: the entries that keep their place, by warp, and those before each fresh one.
  uint kept[WARPS], before[MOST_FRESH];
  // Near recent clusters that `list` has, of merges with even and odd numbers, and the bits of the
  // least bound on their distances.
  uint near_recent[2], least_bounds[2];
  // The bounds of those; the places of those that are compared, and the bits of the least bound of
  // the others.
  float near_bounds[RECENT];
  uint compared[RECENT], least_left;
  // What the last merge left at the front of the queue: its own entry, and the first of the others,
  // with its job if that is ready.
  Front made, following;
  uint following_job;
  uint merges, committed, below_threshold, next_id, shapes_used, free_shapes, status;
  uint done; // jobs
  uint first_post, wish_count;
  uint is_urgent; // whether the first entry has no job yet
  uint to_post[JOBS], posted;
  // Jobs whose unions' next merges are wished for; whether they may be guessed; and the last guess.
  uint listed_jobs[JOBS], listed_count, guesses[JOBS], follows[JOBS];
  // The plan in which each was listed last; how many plans there were, and the merges done before the
  // last one of all jobs.
  uint listed_in[JOBS], plans, whole_plan_at;
  // Whether what may follow a tentative union has changed since that was listed.
  unsigned char is_changed[JOBS];
  // Whether a plan has looked at it before a union that its own may be joined with had a job.
  unsigned char is_early[JOBS];
  unsigned char listed_depths[JOBS]; // how far those that are listed are from the queue
  // Numbers for new jobs.
  unsigned char unused[JOBS];
  // Of the first entries: a bit for each one before it that has one of its clusters.
  uint contests[WARP];
  // What new jobs are for: see Wish.
  uint wish_kinds[JOBS], wish_subjects[JOBS], wish_candidates[JOBS], wish_depths[JOBS];
  double step; // of the limit, where the queue is filled
  double radius_factor;
};
static_assert(sizeof(Chain) <= CHAIN_BYTES, "the host reserves enough");

#ifdef __CUDACC_RTC__
extern __shared__ double memory[];
#endif

// The chain's state of this block: the compiler should know that it is in shared memory.
__device__ __forceinline__ Chain &chain_of_block() { return *(Chain *)memory; }

// A candidate of a job: the distance, slot and id of a cluster.
struct Listed {
  ulong value;
  uint slot, id;
};

// The chain's lists and rows, behind its state or in the device's memory, as Placement says: the
// candidates of each job, number c of job j at c * JOBS + j; the rows of recent clusters; and those
// of jobs.
//
// Each access is to one of the two memories by name, so that the compiler knows which one it is.
struct Lists {
  const Tree &tree;
  ulong *values;
  uint *slots, *ids;
  float *recent_rows, *job_rows;
  uint row_length, recent_length;

  __device__ __forceinline__ Lists(const Tree &tree, double *memory) : tree(tree) {
    uint p = tree.dimensions, places = has_lists() ? JOBS * CANDIDATES : 0;
    values = (ulong *)memory;
    slots = (uint *)(values + places);
    ids = slots + places;
    recent_rows = (float *)(ids + places);
    // Odd, for the banks of shared memory.
    recent_length = p + 2 + (p + 1) % 2;
    row_length = p + SCALARS;
    job_rows = recent_rows + (has_recent_rows() ? RECENT * recent_length : 0);
  }
  // Whether these are in shared memory.
  __device__ __forceinline__ bool has_lists() const { return tree.placement < LISTS_APART; }
  __device__ __forceinline__ bool has_recent_rows() const {
    return tree.placement < RECENT_ROWS_APART;
  }
  __device__ __forceinline__ bool has_job_rows() const { return tree.placement < JOB_ROWS_APART; }

  __device__ __forceinline__ Listed at(uint at) const {
    if (has_lists()) return {values[at], slots[at], ids[at]};
    return {tree.list_values[at], tree.list_slots[at], tree.list_ids[at]};
  }
  __device__ __forceinline__ void set(uint at, const Listed &to) const {
    if (has_lists()) {
      values[at] = to.value;
      slots[at] = to.slot;
      ids[at] = to.id;
    } else {
      tree.list_values[at] = to.value;
      tree.list_slots[at] = to.slot;
      tree.list_ids[at] = to.id;
    }
  }
  // The row of a job, in shared memory or in the device's.
  __device__ __forceinline__ float *shared_row(uint job) const {
    return job_rows + job * row_length;
  }
  __device__ __forceinline__ float *device_row(uint job) const {
    return tree.rows + job * row_length;
  }
  __device__ __forceinline__ float *row(uint job) const {
    return has_job_rows() ? shared_row(job) : device_row(job);
  }
  // The row of a recent cluster: its coordinates, its error and its LOW.
  __device__ __forceinline__ float *shared_recent(uint merge) const {
    return recent_rows + merge % RECENT * recent_length;
  }
  __device__ __forceinline__ float *device_recent(uint merge) const {
    return tree.recent_rows + merge % RECENT * recent_length;
  }
  __device__ __forceinline__ float *recent(uint merge) const {
    return has_recent_rows() ? shared_recent(merge) : device_recent(merge);
  }
  // Where what follows starts.
  __device__ double *end() const {
    float *end = job_rows + (has_job_rows() ? JOBS * row_length : 0);
    return (double *)((size_t)(end + 3) / 16 * 16);
  }
};

__device__ __forceinline__ Lists lists_of_block(const Tree &tree) {
  return Lists(tree, memory + CHAIN_BYTES / sizeof(double));
}

// All that the chain's functions work with, beside its state. `hunt` is for the sums of members'
// distances.
struct Work {
  const Tree &tree;
  const Clusters &clusters;
  Entries &entries;
  Workspace &room;
  Hunt &hunt;
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

__device__ __forceinline__ bool is_before(const Front &one, const Front &other) {
  return comes_before(one.value, one.tie, one.owner, other.value, other.tie, other.owner);
}

// The entry at `at`, which may be NONE.
__device__ __forceinline__ Front front_at(const Chain &chain, uint at) {
  if (at == NONE) return {INFINITY_BITS, ~0ull, NONE, NONE, EMPTY};
  return {chain.values[at], chain.ties[at], chain.owners[at], at, chain.kinds[at]};
}

__device__ __forceinline__ bool is_beyond(const Chain &chain, ulong value, ulong tie, uint owner) {
  return comes_before(chain.limit_value, chain.limit_tie, chain.limit_owner, value, tie, owner);
}

// Makes a head an entry, by one thread.
__device__ __forceinline__ void put_entry(Chain &chain, uint at, const Head &head, uint owner) {
  Key key = head.key;
  bool is_far = key.value >= INFINITY_BITS || is_beyond(chain, key.value, key.tie, owner);
  bool comes_first = !is_pair(key.tie) || lower_slot(key.tie) == owner;
  chain.kinds[at] = is_far ? EMPTY : is_pair(key.tie) ? PAIR : FLOOR;
  chain.values[at] = key.value;
  chain.ties[at] = key.tie;
  chain.owners[at] = owner;
  chain.entry_lower_ids[at] = comes_first ? head.id : head.other_id;
  chain.entry_higher_ids[at] = comes_first ? head.other_id : head.id;
}

// Notes that an entry may be out of order, by one thread of those that work on entries.
__device__ __forceinline__ void add_fresh(Chain &chain, uint at) {
  if (chain.kinds[at] == EMPTY || chain.is_fresh[at]) return;
  chain.is_fresh[at] = 1;
  uint nth = atomicAdd(&chain.fresh_count, 1);
  if (nth < MOST_FRESH) chain.fresh[nth] = at;
}

// Finds the head of an entry's owner anew, by a warp.
__device__ void renew_entry(const Tree &tree, Chain &chain, uint at) {
  uint owner = chain.owners[at];
  Head head = write_head(tree, owner);
  __syncwarp();
  if (threadIdx.x % WARP > 0) return;
  mark_leaf(chain, owner);
  put_entry(chain, at, head, owner);
  add_fresh(chain, at);
}

__device__ void insert_fresh();

// Finds the heads of all stale entries anew, and puts the entries in order.
__device__ __forceinline__ void renew_stale(const Tree &tree) {
  Chain &chain = chain_of_block();
  __syncthreads();
  if (threadIdx.x == 0) chain.listed = 0;
  __syncthreads();
  if (threadIdx.x < ENTRIES && chain.kinds[threadIdx.x] == STALE)
    chain.list[atomicAdd(&chain.listed, 1)] = threadIdx.x;
  __syncthreads();
  for (uint i = threadIdx.x / WARP; i < chain.listed; i += WARPS)
    renew_entry(tree, chain, chain.list[i]);
  insert_fresh();
}

// ---- filling the queue ----

// The least of the values of a warp's threads, in all of them.
__device__ __forceinline__ ulong least_of_warp(ulong value) {
  for (int offset = WARP / 2; offset; offset /= 2)
    value = min(value, __shfl_xor_sync(WHOLE_WARP, value, offset));
  return value;
}

// Finds the first heads of all leaves anew that need it.
__device__ __forceinline__ void renew_leaves(const Tree &tree, Chain &chain) {
  __syncthreads();
  uint words = (leaves_of(tree) + 31) / 32, lane = threadIdx.x % WARP;
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
    for (uint some = threadIdx.x / WARP; some < listed; some += TOGETHER * WARPS) {
      ulong values[TOGETHER], ties[TOGETHER];
#pragma unroll
      for (uint k = 0; k < TOGETHER; k++) {
        uint i = some + k * WARPS;
        uint slot = i < listed ? chain.near_leaves[i] * LEAF + lane : NONE;
        values[k] = slot < tree.clusters ? tree.head_values[slot] : INFINITY_BITS;
        ties[k] = slot < tree.clusters ? tree.head_ties[slot] : ~0ull;
      }
#pragma unroll
      for (uint k = 0; k < TOGETHER; k++) {
        uint i = some + k * WARPS;
        if (i >= listed) break;
        // Those with the least value, then of these with the least tie; the first slot of them.
        ulong value = least_of_warp(values[k]);
        ulong tie = least_of_warp(values[k] == value ? ties[k] : ~0ull);
        uint first = __ffs(__ballot_sync(WHOLE_WARP, values[k] == value && ties[k] == tie)) - 1;
        uint leaf = chain.near_leaves[i];
        if (lane != first) continue;
        tree.leaf_values[leaf] = value;
        tree.leaf_ties[leaf] = tie;
        tree.leaf_owners[leaf] = leaf * LEAF + lane;
      }
    }
    __syncthreads();
  } while (count > NEAR_LEAVES);
}

// Collects heads up to the limit as entries, as many as there is room for: of all, or of a sample,
// those in leaves whose hash is not above `share`. Returns how many there are, or about where they
// are more than there is room for.
__device__ __forceinline__ uint collect_heads(const Tree &tree, Chain &chain, uint share) {
  uint lane = threadIdx.x % WARP, leaves = leaves_of(tree);
  __syncthreads();
  if (threadIdx.x == 0) chain.count = chain.listed = 0;
  __syncthreads();
  ulong limit = chain.limit_value;
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
          is_beyond(chain, limit, tree.leaf_ties[leaf], tree.leaf_owners[leaf]))
        continue;
      // Each has one head up to the limit, or more.
      uint at = atomicAdd(&chain.listed, 1);
      if (at < NEAR_LEAVES) chain.near_leaves[at] = leaf;
    }
  }
  __syncthreads();
  uint listed = min(chain.listed, (uint)NEAR_LEAVES);
  for (uint some = threadIdx.x / WARP; some < listed; some += TOGETHER * WARPS) {
    ulong heads[TOGETHER], ties[TOGETHER];
    uint slots[TOGETHER];
#pragma unroll
    for (uint k = 0; k < TOGETHER; k++) {
      uint i = some + k * WARPS;
      slots[k] = i < listed ? chain.near_leaves[i] * LEAF + lane : NONE;
      bool there = slots[k] < tree.clusters;
      heads[k] = there ? tree.head_values[slots[k]] : INFINITY_BITS;
      ties[k] = there ? tree.head_ties[slots[k]] : 0;
    }
#pragma unroll
    for (uint k = 0; k < TOGETHER; k++) {
      if (heads[k] >= INFINITY_BITS || is_beyond(chain, heads[k], ties[k], slots[k])) continue;
      uint at = atomicAdd(&chain.count, 1);
      if (at >= ENTRIES) continue;
      chain.values[at] = heads[k];
      chain.ties[at] = ties[k];
      chain.owners[at] = slots[k];
    }
  }
  __syncthreads();
  uint count = chain.count;
  return listed < chain.listed ? (uint)((ulong)count * chain.listed / listed) : count;
}

// Puts the entries that are not empty in order.
__device__ __forceinline__ void sort_entries() {
  Chain &chain = chain_of_block();
  uint i = threadIdx.x, rank = 0;
  __syncthreads();
  bool there = i < ENTRIES && chain.kinds[i] != EMPTY;
  if (i < ENTRIES) {
    if (!there) chain.values[i] = INFINITY_BITS;
    chain.is_fresh[i] = 0;
  }
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
}

// The same, where all but the fresh ones are in order.
__device__ __forceinline__ void insert_fresh() {
  Chain &chain = chain_of_block();
  uint i = threadIdx.x, lane = i % WARP, warp = i / WARP;
  __syncthreads();
  uint fresh_count = chain.fresh_count;
  if (fresh_count > MOST_FRESH) return sort_entries();
  uint mine = i < chain.sorted_count ? chain.sorted[i] : NONE;
  bool stays = mine != NONE && chain.kinds[mine] != EMPTY && !chain.is_fresh[mine];
  uint staying = __ballot_sync(WHOLE_WARP, stays), rank = __popc(staying & ((1u << lane) - 1));
  Front entry = front_at(chain, stays ? mine : NONE);
  if (i < MOST_FRESH) chain.before[i] = 0;
  if (lane == 0) chain.kept[warp] = __popc(staying);
  __syncthreads();
  // Lane f counts what comes before number f of the fresh ones.
  uint before = 0, inserted = 0;
  for (uint f = 0; f < fresh_count; f++) {
    Front other = front_at(chain, chain.fresh[f]);
    if (other.kind == EMPTY) continue;
    inserted += 1;
    bool comes_first = stays && is_before(entry, other);
    uint first = __popc(__ballot_sync(WHOLE_WARP, comes_first));
    if (lane == f) before = first;
    rank += stays && !comes_first;
  }
  if (lane < fresh_count && before > 0) atomicAdd(&chain.before[lane], before);
  uint all = 0;
  for (uint w = 0; w < WARPS; w++) {
    if (w < warp) rank += chain.kept[w];
    all += chain.kept[w];
  }
  __syncthreads();
  if (stays) chain.sorted[rank] = mine;
  if (i < fresh_count) {
    Front entry = front_at(chain, chain.fresh[i]);
    uint rank = chain.before[i];
    for (uint f = 0; f < fresh_count; f++) {
      Front other = front_at(chain, chain.fresh[f]);
      rank += other.kind != EMPTY && is_before(other, entry);
    }
    if (entry.kind != EMPTY) chain.sorted[rank] = entry.at;
    chain.is_fresh[entry.at] = 0;
  }
  __syncthreads();
  if (i == 0) {
    chain.sorted_count = all + inserted;
    chain.fresh_count = 0;
  }
  __syncthreads();
}

// The first entry of the queue, by a warp, in all its lanes; `but` does not count. Entries of the
// order before `front`, which goes on, are empty or fresh; of the fresh ones there are so many.
__device__ __forceinline__ Front first_entry(const Chain &chain, uint &front, uint fresh_count,
                                             uint but) {
  uint lane = threadIdx.x % WARP, first = NONE;
  for (; front < chain.sorted_count; front += WARP) {
    uint at = front + lane < chain.sorted_count ? chain.sorted[front + lane] : NONE;
    bool there = at != NONE && at != but && chain.kinds[at] != EMPTY && !chain.is_fresh[at];
    uint mask = __ballot_sync(WHOLE_WARP, there);
    if (mask == 0) continue;
    uint source = __ffs(mask) - 1;
    front += source;
    first = __shfl_sync(WHOLE_WARP, at, source);
    break;
  }
  Front least = front_at(chain, first);
  uint mine = lane < fresh_count ? chain.fresh[lane] : NONE;
  if (mine == but) mine = NONE;
  Front fresh = front_at(chain, mine);
  bool comes_first = fresh.kind != EMPTY && is_before(fresh, least);
  // Few of them come before the others.
  for (uint mask = __ballot_sync(WHOLE_WARP, comes_first); mask != 0;) {
    uint source = __ffs(mask) - 1;
    least = front_at(chain, __shfl_sync(WHOLE_WARP, mine, source));
    comes_first = comes_first && is_before(fresh, least);
    mask = __ballot_sync(WHOLE_WARP, comes_first);
  }
  return least;
}

// Lowers the limit to where about FILLED of `count` heads are below it: to one of those that were
// collected, or of a sample, but not the last one.
__device__ void lower_limit(const Tree &tree, Chain &chain, uint count) {
  // Of many more than there is room for, those that found room are no fair sample.
  if (count > 2 * ENTRIES) {
    uint share = ~0u / count * (ENTRIES / 2);
    while (collect_heads(tree, chain, share) < 2) share = share > ~0u / 2 ? ~0u : 2 * share;
  }
  uint i = threadIdx.x, sampled = min(chain.count, (uint)ENTRIES);
  if (i < ENTRIES) chain.kinds[i] = i < sampled ? PAIR : EMPTY;
  sort_entries();
  if (i == 0) {
    // At least so many as tell enough.
    uint wanted = max((uint)((ulong)sampled * FILLED / count), min(8u, sampled / 2));
    uint last = chain.sorted[wanted - 1];
    chain.limit_value = chain.values[last];
    chain.limit_tie = chain.ties[last];
    chain.limit_owner = chain.owners[last];
  }
  __syncthreads();
}

// Fills the queue's entries anew: with about FILLED heads, or all.
__device__ __forceinline__ void refill(const Tree &tree) {
  Chain &chain = chain_of_block();
  uint i = threadIdx.x;
  renew_leaves(tree, chain);
  ulong least = INFINITY_BITS;
#pragma unroll 8
  FOR_EACH(leaf, leaves_of(tree)) least = min(least, tree.leaf_values[leaf]);
  least = least_of_warp(least);
  __syncthreads();
  ulong limit_before = chain.limit_value;
  __syncthreads();
  if (i == 0) chain.limit_value = INFINITY_BITS;
  __syncthreads();
  if (i % WARP == 0) atomicMin(&chain.limit_value, least);
  __syncthreads();
  // The limit goes on from where it was: up to there, few are left. How far, the last time tells.
  double first = __longlong_as_double(max(chain.limit_value, limit_before)), step = chain.step;
  __syncthreads();
  bool is_cut = false;
  uint count;
  for (;;) {
    __syncthreads();
    if (i == 0) {
      chain.limit_value = __double_as_longlong(first + step);
      chain.limit_tie = ~0ull;
      chain.limit_owner = NONE;
    }
    __syncthreads();
    for (count = collect_heads(tree, chain, ~0u); count > ENTRIES;
         count = collect_heads(tree, chain, ~0u)) {
      is_cut = true;
      lower_limit(tree, chain, count);
    }
    if (is_cut || count >= ENOUGH_ENTRIES || !(step < infinity())) break;
    double wanted = fmin(fmax(1.25 * FILLED / fmax((double)count, 1.0), 1.5), 4.0);
    step = step > 0 ? wanted * step : infinity();
  }
  __syncthreads();
  if (i == 0) {
    double passed = __longlong_as_double(chain.limit_value) - first;
    double wanted = fmin(fmax((double)FILLED / count, 0.5), 2.0);
    // It may be cut to before where it was; and is never so small that it changes nothing.
    chain.step = fmax(passed > 0 ? passed * wanted : 0.5 * step, first * LEAST_STEP);
  }
  if (i < ENTRIES) chain.kinds[i] = EMPTY;
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

// The state of a thread's job.
__device__ __forceinline__ uint state_of(const Chain &chain, uint thread) {
  return thread < JOBS ? chain.states[thread] : NO_JOB;
}

__device__ __forceinline__ uint bucket_of(uint lower_id, uint higher_id) {
  return (lower_id * 0x9e3779b1u ^ higher_id * 0x85ebca77u) >> 24;
}
static_assert(BUCKETS == 1 << (32 - 24), "a bucket for each hash");

__device__ __forceinline__ void put_in_bucket(Chain &chain, uint job) {
  uint bucket = bucket_of(chain.lower_ids[job], chain.higher_ids[job]);
  chain.next[job] = atomicExch(&chain.buckets[bucket], job);
}

// Whether, after so many merges, some recent cluster that a union was not compared with may be none of
// the last any more.
__device__ __forceinline__ bool is_too_old(const Chain &chain, uint job, uint merges) {
  return merges - chain.made_at[job] > RECENT;
}

// The job for clusters with these ids; NOWHERE if there is none, or it is too old after so many merges.
// The second id is NONE for a search.
__device__ __forceinline__ uint find_job(const Chain &chain, uint lower_id, uint higher_id,
                                         uint merges) {
  for (uint job = chain.buckets[bucket_of(lower_id, higher_id)]; job != NOWHERE;
       job = chain.next[job]) {
    if (chain.lower_ids[job] != lower_id || chain.higher_ids[job] != higher_id) continue;
    uint state = chain.states[job];
    if (state == READY && is_too_old(chain, job, merges)) continue;
    if (state == PENDING || state == READY || state == SEARCHING) return job;
  }
  return NOWHERE;
}

// Gives a shape back.
__device__ __forceinline__ void free_shape(const Tree &tree, Chain &chain, uint shape) {
  if (shape != NONE) tree.free_shapes[atomicAdd(&chain.free_shapes, 1)] = shape & ~IDENTITY;
}
