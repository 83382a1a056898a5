// Definitions shared by the host and tree.cu: the kernels' arguments, their layout, and the sizes
// of arrays and blocks. src/tree/arrays.rs has the same definitions, and a test compares them.

#pragma once

// Whether the tree is wide: it may have more columns than registers have room for, so coordinates
// are kept in memory.
#define IS_WIDE (DIMENSIONS > 64)
#define IN_REGISTERS (IS_WIDE ? 0 : DIMENSIONS)
#if IS_WIDE
#define MOST_DIMENSIONS DIMENSIONS
#endif
#include "cluster/clusters.cuh"
#include "cluster/mahalanobis.cuh"

// Number of threads of a block.
#define THREADS 256

// Maximum number of candidates of a cluster: its nearest older clusters.
#define CANDIDATES 16
#if DIMENSIONS > 16 && !IS_WIDE
// Maximum number of jobs at a time: speculative unions, and searches for active clusters. In few
// columns, twice as many jobs make a tree at most 1% faster (44,000 x 14 and 167,000 x 14 on an
// H200), and do not fit into 64 kB of shared memory.
#define JOBS 256
// Number of last merges that the sequencer remembers. A job's result is too old after more merges.
#ifndef RECENT
#define RECENT 128
#endif
// Bytes of shared memory for struct Sequencer. The lists and rows of struct Lists follow it.
#define SEQUENCER_BYTES 65920
#else
#define JOBS 128
#ifndef RECENT
#define RECENT 64
#endif
#define SEQUENCER_BYTES 37248
#endif
// Maximum number of clusters that a search has room for. If a sweep finds more, its limit is
// lowered.
#define FOUND_ROOM 512
// Maximum number of clusters whose distances are computed together.
#define DECIDED_TOGETHER 16
// Number of distances for which a worker has scratch memory at a time.
#if IS_WIDE
#define BLOCK_TOGETHER 6
#else
#define BLOCK_TOGETHER DECIDED_TOGETHER
#endif
// Number of distances for which the sequencer has scratch memory at a time.
#define SEQUENCER_TOGETHER 8
// Number of places in each ring: that of posts, and that of finished jobs.
#ifndef RING
#define RING 16384
#endif
// Bit of a post that calls for help with shared work. The post also has the work's tag and its
// job's number.
#define HELP (1u << 31)
// Bits of the job's number in a call for help, below the tag.
#define NUMBER_BITS 9
// Bits of a tag. A tag tells the works of one job's number apart, and its last bit is the kind of
// work. It comes again after 2^(TAG_BITS - 1) works: by then, no post with it is left.
#ifndef TAG_BITS
#define TAG_BITS 16
#endif
// Bits of a chunk's number in SharedWork::next, below the tag.
#define CHUNK_BITS 16
// Maximum number of slots that a search leaves out: the clusters that its speculative union is made
// of.
#define SKIPPED 32
// Number of heads in a leaf of the queue.
#define LEAF WARP
// Maximum number of leaves.
#define MAX_LEAVES 32768
// Maximum number of leaves whose heads are read at a time.
#define NEAR_LEAVES 512
// Maximum number of regions, the balls around WARP balls each.
#define MAX_REGIONS 1024
// Bytes of the working memory of a search, struct SearchState.
#if IS_WIDE
#define SEARCH_BYTES 22544
#else
#define SEARCH_BYTES 18432
#endif
// Bytes of struct SearchSums, the part of SearchState that fits in the sequencer's block.
#define SUMS_BYTES 5376
// Number of points that a warp searches for at a time at the start.
#if IS_WIDE
#define POINTS_A_WARP 4
#else
#define POINTS_A_WARP 8
#endif

// Where the sequencer keeps its lists and rows:
//   ALL_IN_SHARED      all of them in shared memory
//   JOB_ROWS_APART     the rows of jobs in device memory
//   LISTS_APART        also the lists of candidates
//   RECENT_ROWS_APART  also the rows of recent clusters
enum Placement { ALL_IN_SHARED, JOB_ROWS_APART, LISTS_APART, RECENT_ROWS_APART };

// Why a launch has ended:
//   TIME_IS_UP     its time is up
//   ALL_MERGED     the tree is complete
//   ALL_FULL_SIZE  all clusters have become full-size
//   STOPPED        the host has asked to stop
//   GAVE_UP        it cannot go on, and the host must merge in another way
//   MANY_GONE      many positions have no cluster
//   NO_ROOM        there is no room for the members of unions
enum Status {
  RUNNING,
  TIME_IS_UP,
  ALL_MERGED,
  ALL_FULL_SIZE,
  STOPPED,
  GAVE_UP,
  MANY_GONE,
  NO_ROOM
};

// Words of the control state, which outlives a launch. Before each launch, the host clears the
// words before STATE_STARTS.
enum Control {
  STATUS,
  POSTED,          // number of posts: jobs and calls for help
  TAKEN,           // number of posts that blocks wait for, work on or have done
  DONE,            // number of jobs done
  COMMITTED,       // number of merges whose unions all blocks can see
  MERGES,          // number of merges done
  BELOW_THRESHOLD, // number of active clusters that are not full-size
  NEXT_ID,         // id of the next cluster or speculative union
  SHAPES_USED,
  FREE_SHAPES,  // number of shapes on the stack of free shapes
  MEMBERS_USED, // used room in the array of members
  CONTROL_WORDS
};
#define STATE_STARTS COMMITTED

// Values of a shape for full distances: first the quanta of sums of distances to it; then the
// moments of its members about the mean, E|r|^4 and the vector E|r|^2 r, from which bounds on
// distances follow.
enum Spread { QUANTUM_OF_HIGH, QUANTUM_OF_LOW, FOURTH_MOMENT, THIRD_MOMENTS };

// A job: a search for the nearest clusters of a node. A speculative union may have to be made
// first.
struct Job {
  uint node, slot;              // whose neighbours are searched for; slot of its pairs
  uint lower_node, higher_node; // the two nodes that a speculative union is made of
  uint is_new;                  // whether the union must still be made
  uint id;                      // of the union
  // The jobs that make these two nodes first, NONE for a node that is there; and the ids of their
  // unions.
  uint waits_for[2], awaited_ids[2];
  uint births_below; // only clusters with lower births count
  uint skipped;
  uint skip[SKIPPED];
  // The result, beside the candidates: the number of merges committed before the search; the number
  // of clusters that its first sweep found, DECIDED_TOGETHER if its limit was not guessed; the
  // number of clusters below the floor; whether the bounds are too loose; and by how much a merge
  // of the union decreases the number of clusters below the threshold.
  uint made_at, found_first, below_floor, bounds_too_loose, newly_full_size;
  uint lacks_room; // no room for the members of the union, which is then not made
  uint made;       // id of the union once it is there or lacks room
};

// Kinds of shared work: work of a job that idle blocks help with.
enum SharedWorkKind { SWEEP, DISTANCES };

// Shared work, which blocks take in chunks.
struct SharedWork {
  uint next;       // next chunk, MAX_CHUNKS or more if none is left; above it, the tag
  uint done;       // number of chunks done
  uint generation; // one more for each work of this job number; with the kind, it makes the tag
  // Of a sweep: the number of clusters found. Clusters count if their bound is at least `from` and
  // below `limit`, and their birth below `births_below`.
  uint found;
  float from, limit;
  uint births_below;
  // Of distances: the node, and the clusters from which its distances are computed. The size is 0
  // where there is no cluster.
  uint node, node_shape, node_size, node_start;
  uint slots[DECIDED_TOGETHER], shapes[DECIDED_TOGETHER];
  uint sizes[DECIDED_TOGETHER], starts[DECIDED_TOGETHER];
};

// Maximum number of chunks of shared work. Work of fewer chunks uses the last numbers.
#define MAX_CHUNKS 80

// Maximum number of jobs at a time with full distances.
#define JOBS_WITH_MEMBERS 128

// Number of the sequencer's own shared work, after the numbers of jobs.
#define OF_SEQUENCER JOBS

// Maximum number of members in a span, whose distances a warp sums together. If it is too large,
// few blocks help with a sum; if too small, helping takes longer than the sum. With full distances,
// 32 in place of 128, with more and smaller chunks, was 1.1 (167,000 x 14), 1.6 (30,000 x 41) and
// 1.5 (30,000 x 64) times as fast (H200).
#ifndef SPAN
#define SPAN WARP
#endif
// Number of sums of a job: the high and the low part for each of both directions of a distance.
#define JOB_SUMS (4 * DECIDED_TOGETHER)

// Options and arrays of a tree. A node is an active cluster, by its slot, or the union or the
// result of a job, by `clusters` plus the job's number.
struct Tree {
  // Minimum number of members of a full-size cluster; and the size of a screen unit in data units.
  // Screen units are used in single precision: the largest coordinate is about 2^20 of them, see
  // screen/frame.rs.
  double threshold, unit;
  // For full distances: the diagonal of the observations' bounding box; and an upper bound on the
  // rounding error of an exact sum, in screen units, relative to the stretch of its target.
  double diagonal, sum_error;
  uint subthreshold, normalize; // see mahalanobis/subthreshold.rs
  uint all_full_size;           // whether all active clusters are full-size
  uint midpoint;                // median linkage: a union's mean is the midpoint of both means
  uint dimensions, clusters;    // p; slots, which is the number of clusters at the start
  uint has_shapes, shape_limit; // whether clusters can have shapes; room for shapes, in shapes
  uint milliseconds; // approximate time of a launch
  uint batch;        // pairs at the front of the queue whose unions are prepared; at most WARP
  uint max_jobs;     // maximum number of jobs at a time, up to JOBS
  uint balls, query_words;
  uint placement;    // of the sequencer's lists and rows
  uint merges_until; // number of merges at which a launch ends with MANY_GONE
  uint log2_terms;   // of exact sums of members' distances
  uint member_room;  // room in the array of members; 0 for centroid distances
  const double *center;
  const double *x; // observations, one after the other, for full distances

  // By node.
  double *means;
  double *floor_values; // every older cluster that is not a candidate has a greater key
  ulong *floor_ties;
  ulong *candidate_values; // CANDIDATES for each, in increasing order of keys
  uint *candidate_slots, *candidate_ids;
  uint *counts; // number of candidates
  uint *sizes, *shapes;
  uint *member_starts;

  // By slot.
  uint *ids;    // id of the slot's cluster; NONE if there is none, or while it changes
  uint *firsts; // index of the first candidate that may still be active
  uint *births; // number of clusters made before: position at the start, `clusters` + merge later
  uint *positions;
  ulong *head_values, *head_ties;

  // By leaf of the queue: its first head.
  ulong *leaf_values, *leaf_ties;
  uint *leaf_owners;

  // By shape.
  double *scatters, *factors;
  double *spreads; // see Spread
  uint *free_shapes;

  // Members of all nodes; and spare room for the members of active clusters, once the array is
  // full.
  uint *members, *spare_members;

  // By position.
  uint *slots_at, *births_at;
  // Copies of these arrays and of the rows, without the positions that have no cluster; and the new
  // position of each cluster.
  uint *spare_slots_at, *spare_births_at, *moves;
  float *spare_rows;

  float *ball_rows;   // ball around WARP positions: value k of ball b at k * balls + b, see Ball
  float *region_rows; // region around WARP balls, in the same layout
  float *rows;        // speculative union of each job: coordinates, then scalars
  // The sequencer's lists and the rows of recent clusters, if shared memory has no room for them:
  // see Lists.
  ulong *list_values;
  uint *list_slots, *list_ids;
  float *recent_rows;
  Job *jobs;
  SharedWork *shared_work; // of jobs and the sequencer
  double *sums;            // JOB_SUMS for each shared work
  double *block_factors;   // factor of each block of a wide tree: see Workspace
  float *queries;          // queries of shared sweeps, with factors: `query_words` for each
  uint *found;             // found by shared sweeps: FOUND_ROOM bounds and positions for each
  // Rings. The lower half of an entry is a post or the number of a finished job; the upper half is
  // one more than the number of earlier entries.
  ulong *posted, *done;

  // By merge.
  double *heights;
  uint *lower, *higher;

  uint *control;
  double *radius_factor; // factor from the guessed to the used radius of a search; it adapts
  volatile uint *progress, *stop; // in the host's memory: merges done; not 0 to request a stop
};
