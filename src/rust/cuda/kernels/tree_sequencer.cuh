// What the sequencer, the block that makes the merges, keeps in shared memory.

#pragma once

#include "tree_decide.cuh"

// Of a job: unused; a speculative union without a result, or with one; one that is merged, or that
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
#define MIN_STEP 1e-12

// Entries that may be out of order.
#define MAX_UNSORTED WARP

// Of the hash table of jobs.
#define BUCKETS 256
#define NOWHERE NONE

// An entry, or none, as `at` says.
struct QueueEntry {
  ulong value, tie;
  uint owner, at, kind;
};

struct Sequencer {
  // Jobs: a speculative union's ids, slots and shapes, the nodes to make it from, its pair's
  // distance, the merges done when it was searched for, and how far it is from the queue: 1 for the
  // pair of an entry, 2 for that of its union, ...; 0 where it is not expected soon. A search has
  // one cluster.
  uint states[JOBS], ids[JOBS], lower[JOBS], higher[JOBS], lower_ids[JOBS], higher_ids[JOBS];
  uint lower_nodes[JOBS], higher_nodes[JOBS], lower_shapes[JOBS], higher_shapes[JOBS];
  uint made_at[JOBS], depths[JOBS], is_obsolete[JOBS];
  ulong pair_values[JOBS];
  // Posted jobs that use its node, its own among them, and whose nodes its own uses.
  uint users[JOBS], lower_used[JOBS], higher_used[JOBS];
  // Results.
  uint counts[JOBS], shapes[JOBS], sizes[JOBS], starts[JOBS], newly_full_size[JOBS];
  ulong floor_values[JOBS], floor_ties[JOBS];
  float limits[JOBS]; // the floors in screen units, or more
  // Of a speculative union whose nearest neighbour is merged meanwhile: the slot of that one's
  // union, and its id.
  uint replacements[JOBS], replacement_ids[JOBS];
  // A hash table of their ids: the first of each bucket, and the next ones.
  uint buckets[BUCKETS], next[JOBS];

  // Entries of the queue: heads up to the limit, with the ids of their pairs.
  uint kinds[ENTRIES], owners[ENTRIES], entry_lower_ids[ENTRIES], entry_higher_ids[ENTRIES];
  ulong values[ENTRIES], ties[ENTRIES];
  // Those that are not empty, in order; then those whose heads are newer than that order.
  uint sorted[ENTRIES], sorted_count;
  uint unsorted[MAX_UNSORTED], is_unsorted[ENTRIES], unsorted_count;
  ulong limit_value, limit_tie;
  uint limit_owner;
  uint dirty[MAX_LEAVES / 32]; // leaves whose least head is to be found anew, a bit for each

  // The last merges: slot and id of the union, NONE where that is merged away, its job, and the
  // slot of the other cluster.
  uint recent_slots[RECENT], recent_ids[RECENT], recent_jobs[RECENT], recent_higher[RECENT];
  uint recent_shapes[RECENT], recent_sizes[RECENT], recent_starts[RECENT];

  uint list[THREADS], near_leaves[NEAR_LEAVES];
  uint listed, count, unused_count, few, many, inserted;
  // Of `insert_unsorted`: the entries that keep their place, by warp, and those before each
  // unsorted one.
  uint kept[WARPS], before[MAX_UNSORTED];
  // Near recent clusters that `list` has, of merges with even and odd numbers, and the bits of the
  // least bound on their distances.
  uint near_recent[2], least_bounds[2];
  // The bounds of those; the places of those that are compared, and the bits of the least bound of
  // the others.
  float near_bounds[RECENT];
  uint compared[RECENT], least_left;
  // What the last merge left at the front of the queue: its own entry, and the first of the others,
  // with its job if that is ready.
  QueueEntry made, following;
  uint following_job;
  uint merges, committed, below_threshold, next_id, shapes_used, free_shapes, status;
  uint done; // jobs
  uint first_post, request_count;
  uint is_urgent; // whether the first entry has no job yet
  uint to_post[JOBS], posted;
  // Jobs whose unions' next merges are wished for; whether they may be guessed; and the last guess.
  uint listed_jobs[JOBS], listed_count, guesses[JOBS], follows[JOBS];
  // The plan in which each was listed last; how many plans there were, and the merges done before
  // the last one of all jobs.
  uint listed_in[JOBS], plans, whole_plan_at;
  // Whether what may follow a speculative union has changed since that was listed.
  unsigned char is_changed[JOBS];
  // Whether a plan has looked at it before a union that its own may be joined with had a job.
  unsigned char is_early[JOBS];
  unsigned char listed_depths[JOBS]; // how far those that are listed are from the queue
  // Numbers for new jobs.
  unsigned char unused[JOBS];
  // Of the first entries: a bit for each one before it that has one of its clusters.
  uint conflicts[WARP];
  // What new jobs are for: see MergeRequest.
  uint request_kinds[JOBS], request_subjects[JOBS], request_candidates[JOBS], request_depths[JOBS];
  double step; // of the limit, where the queue is filled
  double radius_factor;
};
static_assert(sizeof(Sequencer) <= SEQUENCER_BYTES, "the host reserves enough");

#ifdef __CUDACC_RTC__
extern __shared__ double memory[];
#endif

// The sequencer's state of this block: the compiler should know that it is in shared memory.
__device__ __forceinline__ Sequencer &sequencer_of_block() { return *(Sequencer *)memory; }

// A candidate of a job: the distance, slot and id of a cluster.
struct Listed {
  ulong value;
  uint slot, id;
};

// The sequencer's lists and rows, behind its state or in the device's memory, as Placement says:
// the candidates of each job, number c of job j at c * JOBS + j; the rows of recent clusters; and
// those of jobs.
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
  return Lists(tree, memory + SEQUENCER_BYTES / sizeof(double));
}

// All that the sequencer's functions work with, beside its state. `search` is for the sums of
// members' distances.
struct Work {
  const Tree &tree;
  const Clusters &clusters;
  Entries &entries;
  Workspace &room;
  SearchState &search;
};
