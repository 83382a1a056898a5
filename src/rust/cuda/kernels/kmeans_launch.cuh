// What the host and kmeans.cu must agree on. src/kmeans.rs has the same, and a test
// compares them.

#pragma once

#include "base.cuh"

// Values that are summed up together while drawing.
#define CHUNK 256
// Threads of a block of `draw`, and warps of one of `weigh`.
#define DRAW_THREADS 1024
#define WEIGH_WARPS 4
#define WEIGH_THREADS (WEIGH_WARPS * WARP)

// A tile of `assign` is CENTERS by ROWS observations: ACROSS by DOWN threads, each with
// CENTERS_EACH by ROWS_EACH.
#define ACROSS 16
#define DOWN 16
#define THREADS (ACROSS * DOWN)
#define CENTERS_EACH 4
#define ROWS_EACH 8
#define CENTERS (ACROSS * CENTERS_EACH)
#define ROWS (DOWN * ROWS_EACH)
// Observations that a thread, and a block, of `update` look at at a time.
#define LOOKED_AT 8
#define SPAN (THREADS * LOOKED_AT)

// Where to start: the arrays of `draw` and `weigh`.
struct Seeding {
  const double *x;
  const double *uniforms;
  double *squares; // from the nearest centers
  uint *nearest;   // the numbers of these centers
  double *sums;    // of chunks of the squares
  double *parts;   // sums of chunks of these sums
  double *totals;  // of the parts, up to each
  double *centers;
  double *pruned_below; // of the centers: observations whose square is below keep their center
  uint *drawn;          // the centers' observations; NONE where all weights are zero
  double pruned_share;  // of the square of two centers' distance, for `pruned_below`
  uint rows, columns;
  uint first; // the first center's observation
};

// Lloyd's iterations: the arrays of `assign` and `update`.
struct Lloyd {
  const double *x;
  double *centers;
  double *sums;  // of the clusters' members
  uint *cluster; // of the observations, NONE beyond the last
  uint *changed; // not 0 where an observation has another cluster than before
  uint rows, columns, clusters;
  uint first, last; // observations to assign
};
