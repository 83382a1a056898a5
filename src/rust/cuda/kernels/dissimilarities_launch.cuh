// What the host and dissimilarities.cu must agree on. src/dissimilarities/launch.rs and
// src/chain.rs have the same, and a test compares them.
//
// The dissimilarities are STORED as double or as float.

#pragma once

#include "base.cuh"

typedef STORED stored;

// Threads of a block that makes a chain.
#define CHAIN_THREADS 512

// The `each` nearest clusters of each wanted one.
struct Search {
  const stored *values;
  const uint *wanted;
  // `each` of every wanted cluster, the nearest first.
  double *dissimilarities;
  uint *slots;
  // The first position of a value, in a row of a wanted cluster, that is refused.
  ulong *unusable;
  uint clusters, count, each, squared;
};

// Two clusters becoming one in the lower slot.
struct Step {
  double height;
  double sizes[2];
  uint lower, higher;
  // Whether these have become of several by a step of an earlier batch.
  uint merged[2];
  __host__ __device__ __forceinline__ double size() const { return sizes[0] + sizes[1]; }
};

// As enum Linkage of linkage/lance_williams.rs, in its order.
enum Linkage { WARD_D, SINGLE, COMPLETE, AVERAGE, MCQUITTY, MEDIAN, CENTROID, WARD_D2 };

// Steps in order, in batches: those of a batch have no slot in common.
struct Merging {
  stored *values;
  const Step *steps;
  // By slot: its size before all steps.
  const double *sizes;
  // By slot: the number of the last step that it is the lower one of, counted from 1; 0 where there
  // is none yet, and NONE where the cluster is gone.
  uint *step_of;
  uint clusters, linkage, squared;
  // The batch.
  uint first, last;
};

// Some of the rows that are left when all steps are done.
struct Rest {
  const stored *values;
  // By new slot, the old one; by old slot, as in struct Merging.
  const uint *live, *step_of;
  stored *out;
  uint before, clusters, squared;
  // The first row, by new slot; a block for each.
  uint first;
};

// The nearest-neighbour chain of linkage/chain.rs, some steps of it.
struct Chaining {
  stored *values;
  // By slot.
  double *sizes;
  // By slot: whether its cluster is part of another one.
  uint *gone;
  // The chain, from where it began.
  uint *stack;
  // Two for each block: the nearest cluster that it found.
  double *nearest;
  uint *nearest_slots;
  // Merges, in order: two slots, and the height.
  uint *merged;
  double *heights;
  // How often blocks have come to a barrier; 0 at the start.
  uint *arrived;
  // What the next launch goes on with: how long the chain is, and how many merges are done.
  uint *length, *done;
  uint clusters, linkage;
  // Steps at most.
  uint steps;
};
