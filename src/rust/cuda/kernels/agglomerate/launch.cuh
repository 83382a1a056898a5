// Definitions shared by the host and agglomerate.cu: arguments, their layout, and the sizes of
// arrays and blocks. src/blocks/arrays.rs has the same definitions, and a test compares them.

#pragma once

#include "base.cuh"
#include "cluster/mahalanobis.cuh"

// Number of threads of a block.
#ifndef THREADS
#define THREADS 256
#endif
// A task: one problem, merged by a block.
struct Task {
  double diagonal; // of the bounding box of all observations
  ulong first;     // start of the problem's observations
  uint observations;
  uint log2_terms; // at most 2^log2_terms distances are summed
};

// An older cluster and the distance to it, when it was found; infinity and NONE if there is none.
struct Partner {
  double distance;
  uint slot, birth;
};

// Options and arrays of all problems. An array with an element for each cluster or observation
// starts at the problem's first observation. Active clusters are at positions 0, 1, ... of a
// problem's arrays; slots are the numbers by which merges name clusters.
struct Arrays {
  double threshold; // number of members of a full-size cluster
  uint subthreshold, normalize, dimensions, tasks;
  const Task *task;
  const double *x;   // observation after observation
  Partner *partners; // by cluster: the two nearest older clusters

  double *means;         // in each problem: dimension after dimension
  double *scatters;      // by shape: packed lower triangle
  double *factors;       // by shape: whitening factor in bands
  double *bounds;        // of the current search: lower bounds, by position
  double *member_sums;   // of the current search: two for each cluster
  double *moments;       // MOMENTS for each cluster
  double *shape_scalars; // SHAPE_SCALARS by shape

  // The screen, see agglomerate/screen.cuh: only for centroid distances. By place; `singles` has
  // dimension after dimension in each problem.
  float *singles; // coordinates
  float *lows, *errors;
  float *balls; // around WARP places each

  uint *slots, *sizes, *births, *shapes;
  uint *member_starts;                    // start of the cluster's members
  uint *free_shapes;                      // stack of free shapes
  uint *slot_births;                      // by slot: birth of its cluster, NONE if merged away
  uint *slot_positions;                   // by slot: position of its cluster
  uint *members, *next_members;           // observations: the members of a cluster are consecutive
  uint *member_slots, *next_member_slots; // slots of the clusters that the members are in
  uint *births_at; // by place of the screen: birth of the cluster, NONE if there is none
  uint *slots_at;  // by place: slot of the cluster; at the start, as the host has sorted the slots
  uint *shapes_at; // by place: as `shapes`
  uint *places;    // by slot: place of its cluster

  // By merge.
  double *heights;
  uint *lower, *higher;

  uint *next_task;         // next task to do
  uint *failed_tasks;      // number of tasks that could not be done
  uint *merged;            // number of merges begun, in steps of MERGES_BETWEEN_CHECKS
  volatile uint *progress; // in the host's memory: a recent value of `merged`
  volatile uint *stop;     // in the host's memory: not 0 once the host requests a stop
};
