// What the host and agglomerate.cu must agree on: the arguments, how they are laid out, and the
// sizes of arrays and blocks. src/blocks/arrays.rs has the same, and a test compares them.

#pragma once

#include "base.cuh"
#include "mahalanobis.cuh"

// Threads of a block.
#define THREADS 128
// One problem: a block's work.
struct Task {
  double diagonal; // of the bounding box of all observations
  ulong first;     // where the problem's observations start
  uint observations;
  uint log2_terms; // at most 2^log2_terms distances are summed
};

// An older cluster and the distance to it, as they were found; an infinite distance and NONE if
// there is none.
struct Partner {
  double distance;
  uint slot, birth;
};

// Options and arrays of all problems. What has an entry for each cluster or observation starts, in
// each problem, at its first observation. Clusters are at positions 0, 1, ... of a problem's arrays
// as long as they live; slots are the numbers by which merges name them.
struct Arrays {
  double threshold; // members of a full-size cluster
  uint subthreshold, normalize, dimensions, tasks;
  const Task *task;
  const double *x;   // observation after observation
  Partner *partners; // by cluster: the nearest two of the older clusters

  double *means;         // in each problem dimension after dimension
  double *scatters;      // by shape: packed lower triangle
  double *factors;       // by shape: whitening factor in bands
  double *bounds;        // of the present search: lower bounds, by position
  double *member_sums;   // of the present search: two for each cluster
  double *moments;       // MOMENTS for each cluster
  double *shape_scalars; // SHAPE_SCALARS by shape

  uint *slots, *sizes, *births, *shapes;
  uint *member_starts;                    // where the cluster's members start
  uint *free_shapes;                      // a stack of shapes that can be used again
  uint *slot_births;                      // by slot: its cluster's birth, NONE when merged away
  uint *slot_positions;                   // by slot: its cluster's position
  uint *members, *next_members;           // the observations, those of a cluster in one piece
  uint *member_slots, *next_member_slots; // the slots of their clusters

  // By merge.
  double *heights;
  uint *lower, *higher;

  uint *next_task;         // the next task to do
  uint *failed_tasks;      // number of tasks that could not be done
  uint *merged;            // number of merges done
  volatile uint *progress; // in the host's memory: as `merged`, now and then
  volatile uint *stop;     // in the host's memory: its wish
};
