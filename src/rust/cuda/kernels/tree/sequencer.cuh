// The state of the sequencer, the block that makes the merges, in shared memory.

#pragma once

#include "tree/decide.cuh"

// States of a job:
//   UNUSED     its number is free
//   PENDING    a speculative union without a result
//   READY      a speculative union with its result
//   MERGED     its pair has been merged, and posted jobs may still use its node
//   DROPPED    given up: no longer possible, too old, not expected soon, or the launch ends; posted
//              jobs may still use its node
//   SEARCHING  a search for an active cluster
//   NO_JOB     for a thread beyond the number of jobs
enum JobState { UNUSED, PENDING, READY, MERGED, DROPPED, SEARCHING, NO_JOB };

// Kinds of entries of the queue:
//   EMPTY  none
//   PAIR   a pair of active clusters
//   FLOOR  a floor of an active cluster
//   STALE  the owner's head must be computed again
enum EntryKind { EMPTY, PAIR, FLOOR, STALE };

// Number of entries of the queue. The first threads have one entry and one job each.
#define ENTRIES JOBS
static_assert(JOBS <= THREADS, "a thread for each job and entry");
// The first of the last RECENT threads, which look at one recent cluster each.
#define FIRST_OF_RECENT (THREADS - RECENT)

// Number of entries that the queue is filled up to.
#define FILLED (ENTRIES * 3 / 4)
// Number of entries below which the queue is filled again.
#define FEW (ENTRIES / 4)
// Number of entries from which on a filled queue is full enough.
#define ENOUGH_ENTRIES (ENTRIES * 7 / 16)

// Number of loads that a thread issues together where each would wait for the one before otherwise.
#define TOGETHER 4

// Least step of the queue's limit, relative to the limit.
#define MIN_STEP 1e-12

// Maximum number of entries that may be out of order.
#define MAX_UNSORTED WARP

// Number of buckets of the hash table of jobs.
#define BUCKETS 256
// No job: end of a bucket's list.
#define NOWHERE NONE

// An entry of the queue and its index `at`; no entry if its kind is EMPTY.
struct QueueEntry {
  ulong value, tie;
  uint owner, at, kind;
};

struct Sequencer {
  // Jobs. For a speculative union: its state, id, slots, the ids of its clusters, the nodes that it
  // is made of and their shapes; the number of merges done before its search; its depth; whether
  // one of its clusters has been merged elsewhere; and the distance of its pair. The depth counts
  // merges from the queue: 1 for the pair of an entry, 2 for the next merge of its union, and so
  // on; 0 if it is not expected soon. A search has one cluster, the lower one.
  uint states[JOBS], ids[JOBS], lower[JOBS], higher[JOBS], lower_ids[JOBS], higher_ids[JOBS];
  uint lower_nodes[JOBS], higher_nodes[JOBS], lower_shapes[JOBS], higher_shapes[JOBS];
  uint made_at[JOBS], depths[JOBS], is_obsolete[JOBS];
  ulong pair_values[JOBS];
  // The number of posted jobs that use its node, its own job included; and the jobs whose nodes it
  // uses.
  uint users[JOBS], lower_used[JOBS], higher_used[JOBS];
  // Results of jobs.
  uint counts[JOBS], shapes[JOBS], sizes[JOBS], starts[JOBS], newly_full_size[JOBS];
  ulong floor_values[JOBS], floor_ties[JOBS];
  float limits[JOBS]; // the floors in screen units, or more
  // Replacement neighbour of a speculative union whose nearest neighbour has been merged: slot and
  // id of the union with that neighbour.
  uint replacements[JOBS], replacement_ids[JOBS];
  // Hash table of jobs: the first job of each bucket, and the next job of each job.
  uint buckets[BUCKETS], next[JOBS];

  // Entries of the queue: heads up to the limit, with the ids of their pairs.
  uint kinds[ENTRIES], owners[ENTRIES], entry_lower_ids[ENTRIES], entry_higher_ids[ENTRIES];
  ulong values[ENTRIES], ties[ENTRIES];
  // The indices of entries that are not empty, in order; then the unsorted entries, whose heads are
  // newer than this order.
  uint sorted[ENTRIES], sorted_count;
  uint unsorted[MAX_UNSORTED], is_unsorted[ENTRIES], unsorted_count;
  ulong limit_value, limit_tie;
  uint limit_owner;
  uint dirty[MAX_LEAVES / 32]; // a bit for each leaf whose first head must be computed again

  // The last merges: slot and id of the union (NONE if it has been merged), its job, and the slot
  // of the other cluster.
  uint recent_slots[RECENT], recent_ids[RECENT], recent_jobs[RECENT], recent_higher[RECENT];
  uint recent_shapes[RECENT], recent_sizes[RECENT], recent_starts[RECENT];

  // Of one step: entries, jobs or places that threads list, and counts of them.
  uint list[THREADS], listed, count;
  uint near_leaves[NEAR_LEAVES]; // leaves whose heads `refill` reads
  uint unused_count;             // number of unused job numbers
  uint few, many, inserted; // new results with too few and with too many neighbours; all of them
  // For `insert_unsorted`: the number of entries that keep their place, by warp, and the number of
  // entries before each unsorted one.
  uint kept[WARPS], before[MAX_UNSORTED];
  // The number of near recent clusters in `list`, and the bits of the least bound on their
  // distances; each for merges with even and with odd numbers.
  uint near_recent[2], least_bounds[2];
  // The bounds of near recent clusters, as they are listed or, later, compared; the places of those
  // that are compared, and the bits of the least bound of the others.
  float near_bounds[RECENT];
  uint compared[RECENT], least_left;
  // The front of the queue after the last merge: the entry of its union, and the first other entry,
  // with its job if it is ready.
  QueueEntry made, following;
  uint following_job;
  uint merges, committed, below_threshold, next_id, shapes_used, free_shapes, status;
  uint done; // number of jobs whose results are taken
  uint first_post, request_count;
  uint is_urgent;       // whether the first entry has no job yet
  uint pending_members; // of all large unions that are pending
  uint to_post[JOBS], posted;
  // Jobs whose next merges a plan requests, and their number; whether these merges may be
  // speculated on; and the last speculative merge after each job.
  uint listed_jobs[JOBS], listed_count, guesses[JOBS], follows[JOBS];
  // The plan in which each job was listed last; the number of plans; and the number of merges
  // before the last whole plan.
  uint listed_in[JOBS], plans, whole_plan_at;
  // Whether the merges that may follow a speculative union have changed since it was listed.
  unsigned char is_changed[JOBS];
  // Whether a plan has listed the union too early: before another union, with which it may be
  // joined, had a job; or while too many members were pending.
  unsigned char is_early[JOBS];
  unsigned char listed_depths[JOBS]; // depths of the listed jobs
  // Unused numbers, for new jobs.
  unsigned char unused[JOBS];
  // For each of the first entries, a bit for each earlier entry that shares a cluster with it.
  uint conflicts[WARP];
  // Requests of a plan, for new jobs: see RequestKind.
  uint request_kinds[JOBS], request_subjects[JOBS], request_candidates[JOBS], request_depths[JOBS];
  double step; // by which `refill` raises the limit
  double radius_factor;
};
static_assert(sizeof(Sequencer) <= SEQUENCER_BYTES, "the host reserves enough");

#ifdef __CUDACC_RTC__
extern __shared__ double memory[];
#endif

// The sequencer's state. By this cast, the compiler knows that it is in shared memory.
__device__ __forceinline__ Sequencer &sequencer_of_block() { return *(Sequencer *)memory; }

// A candidate of a job: the distance, slot and id of a cluster.
struct Listed {
  ulong value;
  uint slot, id;
};

// The sequencer's lists and rows, behind its state in shared memory or in device memory, as
// Placement says: the candidates of each job, number c of job j at c * JOBS + j; the rows of recent
// clusters; and the rows of jobs.
//
// Each access names one of the two memories, so that the compiler knows which one it is.
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
    // Odd, to avoid bank conflicts in shared memory.
    recent_length = p + 2 + (p + 1) % 2;
    row_length = p + SCALARS;
    job_rows = recent_rows + (has_recent_rows() ? RECENT * recent_length : 0);
  }
  // Whether the lists, and the rows below, are in shared memory.
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
  // The row of a job, in shared or in device memory.
  __device__ __forceinline__ float *shared_row(uint job) const {
    return job_rows + job * row_length;
  }
  __device__ __forceinline__ float *device_row(uint job) const {
    return tree.rows + job * row_length;
  }
  __device__ __forceinline__ float *row(uint job) const {
    return has_job_rows() ? shared_row(job) : device_row(job);
  }
  // The row of the recent cluster of a merge, or at a place of the ring: its coordinates, its ERROR
  // and its LOW.
  __device__ __forceinline__ float *shared_recent(uint merge) const {
    return recent_rows + merge % RECENT * recent_length;
  }
  __device__ __forceinline__ float *device_recent(uint merge) const {
    return tree.recent_rows + merge % RECENT * recent_length;
  }
  __device__ __forceinline__ float *recent(uint merge) const {
    return has_recent_rows() ? shared_recent(merge) : device_recent(merge);
  }
  // Where free shared memory starts, after the lists and rows.
  __device__ double *end() const {
    float *end = job_rows + (has_job_rows() ? JOBS * row_length : 0);
    return (double *)((size_t)(end + 3) / 16 * 16);
  }
};

__device__ __forceinline__ Lists lists_of_block(const Tree &tree) {
  return Lists(tree, memory + SEQUENCER_BYTES / sizeof(double));
}

// The arguments of the sequencer's functions, beside its state. `search` is for the sums of
// members' distances.
struct Work {
  const Tree &tree;
  const Clusters &clusters;
  Entries &entries;
  Workspace &room;
  SearchState &search;
};
