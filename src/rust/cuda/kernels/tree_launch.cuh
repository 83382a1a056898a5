// What the host and tree.cu must agree on: the arguments, how they are laid out, and the sizes of
// arrays and blocks. src/tree/arrays.rs has the same, and a test compares them.

#pragma once

// Whether there may be more columns than registers have room for: coordinates are in memory then.
// Such trees are called wide.
#define IS_WIDE (DIMENSIONS > 64)
#define IN_REGISTERS (IS_WIDE ? 0 : DIMENSIONS)
#if IS_WIDE
#define MOST_DIMENSIONS DIMENSIONS
#endif
#include "clusters.cuh"
#include "mahalanobis.cuh"

// Threads of a block.
#define THREADS 256

// Nearest older clusters that are kept of each cluster.
#define CANDIDATES 16
// Jobs at a time: speculative unions, and searches for active clusters; merges after which what a
// job has found is too old; and bytes of shared memory for the sequencer's state, which lists and
// rows follow.
//
// In few columns, twice as many jobs make a tree at most 1% faster (44,000 x 14 and 167,000 x 14 on
// an H200), and do not fit into 64 kB of shared memory.
#if DIMENSIONS > 16 && !IS_WIDE
#define JOBS 256
#ifndef RECENT
#define RECENT 128
#endif
#define SEQUENCER_BYTES 65920
#else
#define JOBS 128
#ifndef RECENT
#define RECENT 64
#endif
#define SEQUENCER_BYTES 37248
#endif
// Clusters that a search has room for, and clusters whose distances are computed together.
#define FOUND_ROOM 512
#define DECIDED_TOGETHER 16
// Those of them that a block has room for at a time, and the sequencer's block, which has less.
#if IS_WIDE
#define BLOCK_TOGETHER 6
#else
#define BLOCK_TOGETHER DECIDED_TOGETHER
#endif
#define SEQUENCER_TOGETHER 8
// Places in the rings of what is posted, and of jobs that are done.
#ifndef RING
#define RING 16384
#endif
// A post beside jobs: a call for help, to which the job's number and the tag of the work are added.
#define HELP (1u << 31)
#define NUMBER_BITS 9
// A tag tells one work of a number from those before and after, and its kind by the last bit. It is
// there again after so many that none of the posts with it is left.
#ifndef TAG_BITS
#define TAG_BITS 16
#endif
// Bits of the number of a chunk, below the tag.
#define CHUNK_BITS 16
// Slots that a search leaves out: the members of a speculative union.
#define SKIPPED 32
// Heads of a leaf of the queue, most leaves, and leaves with heads up to a limit that are looked
// into.
#define LEAF WARP
#define MAX_LEAVES 32768
#define NEAR_LEAVES 512
// Most balls around WARP balls each.
#define MAX_REGIONS 1024
// Bytes of what a search works with, and of the part of it that sums of members' distances need.
#if IS_WIDE
#define SEARCH_BYTES 22544
#else
#define SEARCH_BYTES 18432
#endif
#define SUMS_BYTES 6144
// Points that a warp searches for at a time at the start.
#if IS_WIDE
#define POINTS_A_WARP 4
#else
#define POINTS_A_WARP 8
#endif

// Where the sequencer has its lists and rows: all in shared memory; the rows of jobs in the
// device's memory; the lists of candidates, too; the rows of recent clusters, too.
enum Placement { ALL_IN_SHARED, JOB_ROWS_APART, LISTS_APART, RECENT_ROWS_APART };

// Why a launch has ended: its time was up; all is merged; all clusters have become full-size; the
// host said stop; it cannot go on, and the host must do it otherwise; many positions are without a
// cluster; or there is no room for the members of unions.
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

// Words of the state that outlives a launch. The host clears those before STATE_STARTS before each.
enum Control {
  STATUS,
  POSTED,          // jobs and calls for help
  TAKEN,           // of these, by blocks that wait for them or work on them
  DONE,            // jobs
  COMMITTED,       // merges whose unions all blocks can see
  MERGES,          // done
  BELOW_THRESHOLD, // number of active clusters that are not full-size
  NEXT_ID,         // of a cluster or a speculative union
  SHAPES_USED,
  FREE_SHAPES,  // how many are on the stack
  MEMBERS_USED, // of the array
  CONTROL_WORDS
};
#define STATE_STARTS COMMITTED

// Of a shape, where members count: the moments about the mean that bounds on their distances follow
// from, E|r|^4 and the vector E|r|^2 r; and before these the quanta of sums of distances to it.
enum Spread { QUANTUM_OF_HIGH, QUANTUM_OF_LOW, FOURTH_MOMENT, THIRD_MOMENTS };

// A search for the nearest clusters of a node; before it, that may have to be made.
struct Job {
  uint node, slot;              // whose clusters are searched for, and the slot of its pairs
  uint lower_node, higher_node; // of which a speculative union is made
  uint is_new;                  // whether that must still be done
  uint id;                      // of the union
  // The jobs that make these nodes first, NONE where they are there; and the ids of those unions.
  uint waits_for[2], awaited_ids[2];
  uint order; // clusters of this order and later ones are not wanted
  uint skipped;
  uint skip[SKIPPED];
  // What it tells beside its candidates: the merges done before it; how many clusters it found, at
  // last and at first; how many of them are below the limit; whether its bounds tell too little;
  // and how many clusters fewer are below the threshold if the union is merged.
  uint made_at, found, found_first, nearest, is_hopeless, newly_full_size;
  uint lacks_room; // for the members of the union, which is then not made
  uint made;       // id of the union that is there, or that lacks room
};

// What blocks that have nothing else to do help a job with.
enum SharedWorkKind { SWEEP, DISTANCES };

// That work. Blocks take chunks of it.
struct SharedWork {
  uint next;       // chunk, MAX_CHUNKS or more if there is nothing to do; above it, the tag
  uint done;       // chunks
  uint generation; // how much work this job's number had before
  // Of a sweep: clusters that were found; the bounds that count are from `from` on and below
  // `limit`, and so are orders below `order`.
  uint found;
  float from, limit;
  uint order;
  // Of distances: between a node and some clusters; of size 0 where there is none.
  uint node, node_shape, node_size, node_start;
  uint slots[DECIDED_TOGETHER], shapes[DECIDED_TOGETHER];
  uint sizes[DECIDED_TOGETHER], starts[DECIDED_TOGETHER];
};

// Chunks of shared work: the last ones, where it has fewer.
#define MAX_CHUNKS 64

// The number of the sequencer's own shared work, after those of jobs.
#define OF_SEQUENCER JOBS

// Members that are summed over together, at most, and the sums of a job: two for each of both
// directions.
#ifndef SPAN
#define SPAN 128
#endif
#define JOB_SUMS (4 * DECIDED_TOGETHER)

// Options and arrays. A node is an active cluster, by its slot, or a job, by `clusters` plus its
// number: a speculative union, or the place for what is found about an active cluster.
struct Tree {
  // Members of a full-size cluster; and data units of a screen unit. Screen units are those of
  // single precision: 2^20 of them are about the largest coordinate, see screen/frame.rs.
  double threshold, unit;
  // For full distances: the diagonal of the observations' bounding box; and an upper bound on what
  // an exact sum rounds off, in screen units, relative to the stretch of its target.
  double diagonal, sum_error;
  uint subthreshold, normalize, all_full_size, midpoint;
  uint dimensions, clusters; // p; slots, which is the number of clusters at the start
  uint has_shapes, shape_limit;
  uint milliseconds; // of a launch, about
  uint batch;        // pairs at the front of the queue whose unions are prepared
  uint max_jobs;     // at a time, of JOBS
  uint balls, query_words;
  uint placement;    // of the sequencer's lists and rows
  uint merges_until; // a launch ends with MANY_GONE
  uint log2_terms;   // of exact sums of members' distances
  uint member_room;  // in the array of members; 0 where distances are those of means
  const double *center;
  const double *x; // observations, one after the other; where members count

  // By node.
  double *means;
  double *floor_values; // every older cluster that is no candidate has a greater key than the floor
  ulong *floor_ties;
  ulong *candidate_values; // CANDIDATES for each, in increasing order of keys
  uint *candidate_slots, *candidate_ids;
  uint *counts; // candidates
  uint *sizes, *shapes;
  uint *member_starts;

  // By slot.
  uint *ids;    // of the slot's cluster; NONE while there is none, or none that is complete
  uint *firsts; // of the candidates, the first that may still be active
  uint *orders; // clusters by age: their positions at the start, then by merge
  uint *positions;
  ulong *head_values, *head_ties;

  // By leaf of the queue: its first head.
  ulong *leaf_values, *leaf_ties;
  uint *leaf_owners;

  // By shape.
  double *scatters, *factors;
  double *spreads; // see Spread
  uint *free_shapes;

  // The observations of clusters; and those of active ones, for when there is no room.
  uint *members, *spare_members;

  // By position.
  uint *slots_at, *orders_at;
  // The same where those without a cluster are left out, and where each cluster goes then.
  uint *spare_slots_at, *spare_orders_at, *moves;
  float *spare_rows;

  float *ball_rows;   // of the ball around each WARP positions, as in Clusters
  float *region_rows; // of that around each WARP of these
  float *rows;        // of each job's speculative union: coordinates and scalars as in Clusters
  // The sequencer's lists and the rows of recent clusters, where shared memory has no room: see
  // Lists.
  ulong *list_values;
  uint *list_slots, *list_ids;
  float *recent_rows;
  Job *jobs;
  SharedWork *shared_work; // of jobs and the sequencer
  double *sums;            // of these: JOB_SUMS for each
  double *block_factors;   // of wide trees, for each block: see Workspace
  float *queries;          // and factors, of sweeps: `query_words` for each
  uint *found;             // FOUND_ROOM bounds and positions for each
  // Rings: above each number stands one more than how many came before.
  ulong *posted, *done;

  // By merge.
  double *heights;
  uint *lower, *higher;

  uint *control;
  double *radius_factor; // of the radius of a search, as a multiple of its guess: it adapts
  volatile uint *progress, *stop; // in the host's memory: merges done; its wish
};
