// What the host and tree.cu must agree on: the arguments, how they are laid out, and the sizes of
// arrays and blocks. src/tree/arrays.rs has the same, and a test compares them.

#pragma once

#include "mahalanobis.cuh"
#include "screen_launch.cuh"

// Most dimensions: as many coordinates are kept in registers.
#define DIMENSIONS 16
// Nearest older clusters that are kept of each cluster.
#define CANDIDATES 16
// Jobs at a time: tentative unions, and searches for active clusters.
#define JOBS 256
// Places in the rings of what is posted, and of jobs that are done.
#define RING 4096
// A post beside jobs: a call for help with the sweep of the job whose number is added.
#define HELP (1u << 31)
// Clusters that a search has room for.
#define FOUND_ROOM 512
// Merges after which what a job has found is too old.
#define RECENT 128
// Slots that a search leaves out: the members of a tentative union.
#define SKIPPED 8
// Heads of a leaf of the queue, most leaves, and leaves with heads up to a limit that are looked
// into.
#define LEAF WARP
#define MOST_LEAVES 32768
#define NEAR_LEAVES 512
// Most balls around WARP balls each.
#define MOST_REGIONS 1024
// Bytes of shared memory for the chain's state; lists and rows follow.
#define CHAIN_BYTES 57344
// Bytes of what a search works with.
#define HUNT_BYTES 12288

// Why a launch has ended: its time was up; all is merged; all clusters have become full-size; the
// host said stop; it cannot go on, and the host must do it otherwise; no job was done for long; or
// many positions are without a cluster.
enum Status { RUNNING, TIME_IS_UP, ALL_MERGED, ALL_FULL_SIZE, STOPPED, GAVE_UP, STUCK, MANY_GONE };

// Words of the state that outlives a launch. The host clears those before STATE_STARTS before each.
enum Control {
  STATUS,
  POSTED, // jobs and calls for help
  TAKEN,  // of these, by blocks that wait for them or work on them
  DONE,   // jobs
  COMMITTED, // merges whose unions all blocks can see
  MERGES,    // done
  BELOW_THRESHOLD, // number of active clusters that are not full-size
  NEXT_ID,         // of a cluster or a tentative union
  SHAPES_USED,
  FREE_SHAPES, // how many are on the stack
  CONTROL_WORDS
};
#define STATE_STARTS COMMITTED

// A search for the nearest clusters of a node; before it, that may have to be made.
struct Job {
  uint node, slot;              // whose clusters are searched for, and the slot of its pairs
  uint lower_node, higher_node; // of which a tentative union is made
  uint is_new;                  // whether that must still be done
  uint order;                   // clusters of this order and later ones are not wanted
  uint skipped;
  uint skip[SKIPPED];
  // What it tells beside its candidates: the merges done before it; how many clusters it found, at
  // last and at first; how many of them are below the limit; whether its bounds tell too little; and
  // how many clusters fewer are below the threshold if the union is merged.
  uint made_at, found, found_first, nearest, is_hopeless, fuller;
};

// The sweep of a job, in which blocks that have nothing else to do help: they take chunks of balls.
struct Sweep {
  uint next;       // chunk; beyond the last one if there is nothing to do
  uint done;       // chunks
  uint found;      // clusters
  uint generation; // how many sweeps this job's number had before
  float limit;
  uint order;
};

// Options and arrays. A node is an active cluster, by its slot, or a job, by `clusters` plus its
// number: a tentative union, or the place for what is found about an active cluster.
struct Tree {
  double threshold, unit; // members of a full-size cluster; data units of a screen unit
  uint subthreshold, normalize, all_full_size, midpoint;
  uint dimensions, clusters; // p; slots, which is the number of clusters at the start
  uint has_shapes, shape_limit;
  uint milliseconds; // of a launch, about
  uint batch;        // pairs at the front of the queue whose unions are prepared
  uint balls, query_words;
  uint rows_in_shared; // whether the chain's block has room for the rows of jobs
  uint merges_until;   // a launch ends with MANY_GONE
  const double *center;

  // By node.
  double *means;
  double *floor_values; // every older cluster that is no candidate has a greater key than the floor
  ulong *floor_ties;
  ulong *candidate_values; // CANDIDATES for each, in increasing order of keys
  uint *candidate_slots, *candidate_ids;
  uint *counts; // candidates
  uint *sizes, *shapes;

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
  uint *free_shapes;

  // By position.
  uint *slots_at, *orders_at;
  // The same where those without a cluster are left out, and where each cluster goes then.
  uint *spare_slots_at, *spare_orders_at, *moves;
  float *spare_rows;

  float *ball_rows;   // of the ball around each WARP positions, as in Clusters
  float *region_rows; // of that around each WARP of these
  float *rows;      // of each job's tentative union: coordinates and scalars as in Clusters
  Job *jobs;
  Sweep *sweeps;  // of jobs
  float *queries; // and factors, of sweeps: `query_words` for each
  uint *found;    // FOUND_ROOM bounds and positions for each
  // Rings: above each number stands one more than how many came before.
  ulong *posted, *done;

  // By merge.
  double *heights;
  uint *lower, *higher;

  uint *control;
  double *radius_factor; // of the radius of a search, as a multiple of its guess: it adapts
  volatile uint *progress, *stop; // in the host's memory: merges done; its wish
};
