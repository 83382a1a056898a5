// Definitions shared by the host and mean_linkage.cu. src/mean_linkage/launch.rs has the same
// definitions, and a test compares them.

#pragma once

#include "base.cuh"

// A block has SIDE * SIDE threads.
#define SIDE 16
#define THREADS (SIDE * SIDE)
// A thread computes the distances of 1 query from 1 reference at a time, or of MOST_EACH queries
// from MOST_EACH references.
#define MOST_EACH 4
// Number of items for each block of a search, if there are enough tiles. With more, blocks end at
// about the same time; with fewer, there is less to combine.
#define ITEMS_PER_BLOCK 4

// Time of a comparison in double precision, divided by that in single precision.
#define OPEN_COST 4

// As enum MeanLinkage of neighbours/cluster_means.rs, in its order.
enum MeanLinkage { WARD, AVERAGE, MCQUITTY };

// Numbers of clusters, written by the kernels.
struct Counts {
  // Remaining clusters after even rounds and after odd rounds.
  uint live[2];
  // Clusters whose nearest cluster is to be searched for; and those among them whose nearest
  // cluster single precision does not tell.
  uint changed, open;
  // Merges so far; and merges after the last even round and after the last odd round.
  uint merges, merges_after[2];
  // 1 if, in a search so far, another cluster was about as near as the nearest.
  uint tied;
  // 1 if a round so far had more searches than searches_per_merge for each of its merges.
  uint crowded;
  // 1 if there were more pairs with open queries than most_open. Nothing is done from then on.
  uint given_up;
  // Pairs of queries and references so far; pairs with open queries count OPEN_COST times.
  ulong compared;
};

// All clusters, in slots. A union takes the lower slot of its parts.
struct Clusters {
  // By slot: the mean, row after row; the number of members, 0 for an empty slot; half of the
  // variance, `half_variances` of struct RemainingClusters, which Ward's linkage does not use.
  double *means, *sizes, *variances;
  // The means times `scale`, a power of 2, in single precision.
  float *single_means;
  // By slot: the distance of the nearest other cluster, and its slot.
  double *distances;
  uint *nearest;
  // By slot: the last round in which its cluster was part of a merge; 0 if there was none.
  uint *merged_in;
  // The slots of the remaining clusters after even rounds and after odd rounds, in any order.
  uint *live_after_even, *live_after_odd;
  // The slots of the clusters that are counted by `changed` and by `open`, in any order.
  uint *changed, *open;
  // By item of a search and by its query: the distances of the nearest and of the second nearest
  // reference, and the slot of the nearest.
  double *least, *second;
  uint *least_slots;
  // The merges, round after round.
  double *heights;
  uint *lower, *higher;
  Counts *counts;
  // Two distances from a cluster are about equal if the greater is at most the lesser times
  // 1 + tie_share, plus tie_margin. For Ward's linkage, the margin grows with the root of the size.
  double tie_share, tie_margin;
  // The same for distances in single precision: a distance is certainly not the nearest if it is
  // above these limits.
  double single_share, single_margin;
  double scale; // 1 unless the linkage is Ward's
  ulong most_open;
  uint columns, linkage, searches_per_merge;
};
