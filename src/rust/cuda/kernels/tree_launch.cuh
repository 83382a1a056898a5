// What the host and tree.cu must agree on: the arguments, how they are laid out, and the sizes of
// arrays and blocks. src/tree/arrays.rs has the same, and a test compares them.

#pragma once

#include "mahalanobis.cuh"
#include "screen_launch.cuh"

// Nearest older clusters that are kept of each cluster.
#define CANDIDATES 16
// Tentative unions at a time.
#define POOL 512
// Searches of a round.
#define SEARCHES 128
// Clusters that a search has room for.
#define FOUND_ROOM 512
// Groups of warps whose least bounds are kept for a search that has no guess of its limit.
#define MINIMA 8
// Merges after which the candidates of a tentative union are too old.
#define RECENT 128
// Slots that a search leaves out: the members of a tentative union.
#define SKIPPED 8
// Heads of a leaf of the queue, and leaves of a group.
#define LEAF 128
#define GROUP_LEAVES 128
#define MOST_GROUPS_OF_LEAVES 256
// Bytes of shared memory for the chain's state, the rows of recent clusters aside.
#define CHAIN_BYTES 45056

// Why a launch has ended: it made as many rounds as it should; all is merged; all clusters have
// become full-size; the host said stop; or it cannot go on, and the host must do it otherwise.
enum Status { RUNNING, ROUNDS_DONE, ALL_MERGED, ALL_FULL_SIZE, STOPPED, GAVE_UP };

// Words of the state that outlives a launch. The first one counts blocks at a barrier.
enum Control {
  ARRIVED,
  STATUS,
  MERGES,          // done
  BELOW_THRESHOLD, // number of active clusters that are not full-size
  NEXT_ID,         // of a cluster or a tentative union
  NEXT_START,      // the first position that was not searched for at the start
  SHAPES_USED,
  FREE_SHAPES, // how many are on the stack
  SEARCH_COUNT,
  UNGUESSED, // whether a search of the round has no guess of its limit
  // How often it happened.
  COUNT_ROUNDS,
  COUNT_FLOOR_STALLS,
  COUNT_PAIR_STALLS,
  COUNT_UNIONS,
  COUNT_SEARCHES,
  COUNT_OVERFLOWS,
  COUNT_STALE,
  COUNT_NEAR_RECENT,
  COUNT_FOUND,
  CONTROL_WORDS
};

// Numbers that adapt: the width of the part of the queue that is prepared, and the ratio of the
// radius of a search and its guess.
enum Tuning {
  WIDTH,
  RADIUS_FACTOR,
  // Cycles of the chain's block: merging, planning, and waiting for unions, sweeps and decisions.
  CYCLES_OUTCOMES,
  CYCLES_MERGING,
  CYCLES_PLANNING,
  CYCLES_UNIONS,
  CYCLES_SWEEPS,
  CYCLES_DECISIONS,
  TUNINGS
};

// How a search has ended: with candidates, with more than it has room for, which a lower limit will
// help, or with that many at one distance.
enum Outcome { FOUND, TOO_MANY, HOPELESS };

// A search for the nearest clusters of a node.
struct Search {
  uint node, slot;
  uint lower_node, higher_node; // of which a tentative union is made
  uint is_new;                  // whether that must still be done
  uint order;                   // clusters of this order and later ones are not wanted
  uint outcome, found;
  uint skipped;
  uint skip[SKIPPED];
};

// Options and arrays. A node is an active cluster, by its slot, or a tentative union, by `clusters`
// plus its number.
struct Tree {
  double threshold, unit; // members of a full-size cluster; data units of a screen unit
  uint subthreshold, normalize, all_full_size, midpoint;
  uint dimensions, clusters; // p; slots, which is the number of clusters at the start
  uint has_shapes, shape_limit;
  uint rounds, batch; // most rounds of a launch; unions to prepare ahead, about
  const double *center;

  // By node.
  double *means;
  double *floor_values; // every older cluster that is no candidate has a greater key than the floor
  ulong *floor_ties;
  ulong *candidate_values; // CANDIDATES for each, in increasing order of keys
  uint *candidate_slots, *candidate_ids;
  uint *counts, *firsts; // candidates, and the first that may still be active
  uint *sizes, *shapes;
  uint *ids; // of the node's cluster; NONE when it was merged away
  uint *sweeps;
  float *limits; // of the next search, where the last one found too many

  // By slot.
  uint *orders; // clusters by age: their positions at the start, then by merge
  uint *positions;
  ulong *head_values, *head_ties;

  // By leaf of the queue.
  ulong *leaf_values, *leaf_ties;
  uint *leaf_owners;

  // By shape.
  double *scatters, *factors;
  uint *free_shapes;

  // By position.
  uint *slots_at, *orders_at;

  float *tentative_rows; // of each tentative union: coordinates and scalars as in Clusters
  Search *searches;
  float *queries, *query_factors;
  uint *found; // bounds and positions
  uint *found_counts;
  uint *minima; // MINIMA for each search

  // By merge.
  double *heights;
  uint *lower, *higher;

  uint *control;
  double *tuning;
  volatile uint *progress, *stop; // in the host's memory: merges done; its wish
};
