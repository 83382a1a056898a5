// Definitions shared by the host and dissimilarities.cu. src/dissimilarities/launch.rs and
// src/chain.rs have the same definitions, and a test compares them.
//
// Dissimilarities are STORED as double or as float.

#pragma once

#include "base.cuh"

typedef STORED stored;

// Number of threads of a block of `chain`.
#define CHAIN_THREADS 512

// A search for the `each` nearest clusters of each wanted cluster.
struct Search {
  const stored *values;
  const uint *wanted;
  // `each` values for every wanted cluster, the nearest first.
  double *dissimilarities;
  uint *slots;
  // The first position, in a row of a wanted cluster, of a value that is refused.
  ulong *unusable;
  uint clusters, count, each, squared;
};

// A step: two clusters are merged into one, in the lower slot.
struct Step {
  double height;
  double sizes[2];
  uint lower, higher;
  // Whether each of the two clusters is the union of several by a step of an earlier batch.
  uint merged[2];
  __host__ __device__ __forceinline__ double size() const { return sizes[0] + sizes[1]; }
};

// As enum Linkage of linkage/lance_williams.rs, in its order.
enum Linkage { WARD_D, SINGLE, COMPLETE, AVERAGE, MCQUITTY, MEDIAN, CENTROID, WARD_D2 };

// Steps in order, in batches: the steps of a batch have no slot in common.
struct Merging {
  stored *values;
  const Step *steps;
  // By slot: its size before all steps.
  const double *sizes;
  // By slot: the number, counted from 1, of the last step with this slot as the lower one; 0 if
  // there is none yet, NONE if the cluster is gone.
  uint *step_of;
  uint clusters, linkage, squared;
  // The batch.
  uint first, last;
};

// Copies of the dissimilarities that are left after all steps: some of the rows.
struct Rest {
  const stored *values;
  // By new slot: the old slot. By old slot: as in struct Merging.
  const uint *live, *step_of;
  stored *out;
  uint before, clusters, squared;
  // The first row, by new slot. There is a block for each row.
  uint first;
};

// Some steps of the nearest-neighbour chain of linkage/chain.rs.
struct Chaining {
  stored *values;
  // By slot.
  double *sizes;
  // By slot: whether its cluster is part of another one.
  uint *gone;
  // The chain, from its beginning.
  uint *stack;
  // Two places for each block: the nearest cluster that the block found.
  double *nearest;
  uint *nearest_slots;
  // Merges in order: two slots, and the height.
  uint *merged;
  double *heights;
  // Number of times that blocks have come to a barrier; 0 at the start.
  uint *arrived;
  // The state for the next launch: the length of the chain, and the number of merges done.
  uint *length, *done;
  uint clusters, linkage;
  // Maximum number of steps of the launch.
  uint steps;
};
