// Definitions shared by the host and kmeans.cu. src/kmeans.rs has the same definitions, and a test
// compares them.

#pragma once

#include "base.cuh"
#include "sweep.cuh"

// Number of values in a chunk: they are summed together while drawing.
#define CHUNK 256
// Number of threads of a block of `draw`.
#define DRAW_THREADS 1024
// Number of warps of a block of `weigh`.
#define WEIGH_WARPS 4
#define WEIGH_THREADS (WEIGH_WARPS * WARP)
// Number of bins of a group of observations.
#define BINS 32
// Number of observations that a warp compares at a time.
#define PIECE 128
// Number of bytes of a code that are read at a time (kmeans/codes.cuh).
#define QUAD 16
// Maximum number of columns of codes: with more, a square in kmeans/codes.cuh could overflow.
#define CODED_COLUMNS 65535

// A tile of `screen` has TILE observations by TILE centers. A block has ACROSS by DOWN threads,
// each with EACH by EACH of them. DEPTH coordinates are in shared memory at a time.
#define ACROSS 16
#define DOWN 16
#define THREADS (ACROSS * DOWN)
#define EACH 8
#define TILE 128
#define DEPTH 8

// Number of threads of `find_thresholds` for an observation.
#define THRESHOLD_LANES 8

// As in single/half.rs.
#define HALF_SCALE ((float)(1 << 14))

// A tile of `decide` has ROWS observations by CENTERS centers; a thread has ROWS_EACH by
// CENTERS_EACH of them.
#define CENTERS_EACH 4
#define ROWS_EACH 8
#define CENTERS (ACROSS * CENTERS_EACH)
#define ROWS (DOWN * ROWS_EACH)

// Number of threads of a block of kmeans/near.cuh's kernels.
#define NEAR_THREADS 128
// Number of bins of the centers near a cluster.
#define NEAR_BINS 256
// Maximum number of columns for which kmeans/near.cuh is used.
#define NEAR_COLUMNS 32
// Number of centers in shared memory at a time.
#define NEAR_TOGETHER 32

// Number of bits of a digit of cluster numbers.
#define DIGIT_BITS 8
// Number of values of a digit.
#define DIGITS (1 << DIGIT_BITS)
// Number of warps of a block that sorts.
#define WARPS (THREADS / WARP)
// Number of observations that a warp sorts.
#define SORTED_EACH 512
// Number of observations that a block sorts.
#define SORTED (WARPS * SORTED_EACH)
// Number of threads of the block of `scan_counts`.
#define SCAN_THREADS 1024
// Number of counts that a thread adds up at a time.
#define SCANNED 32

// The draws of initial centers: the arrays of kmeans/draw.cuh.
struct Seeding {
  const double *x;
  const double *uniforms;
  double *squares; // squares of the distances to the nearest centers
  uint *nearest;   // numbers of these centers
  double *sums;    // sums of chunks of the squares
  double *parts;   // sums of chunks of these sums
  double *totals;  // sums of the parts up to each
  double *centers;
  double *pruned_below; // by center: observations with a smaller square keep it
  uint *drawn;          // observations of the centers; NONE if all weights are zero
  double pruned_share;  // factor from the square of two centers' distance to `pruned_below`
  uint rows, columns;
  uint first;      // observation of the first center
  uint is_grouped; // whether Groups are used
};

// Groups of observations: all observations of a group had the same nearest center when they were
// sorted. A group has bins, and the farthest observations are in the first bin.
struct Groups {
  uint *sorted;     // the observations, group after group, bin after bin
  double *squares;  // of the sorted observations, as Seeding's
  double *greatest; // by group: greatest square when they were sorted
  uint *ends;       // ends of the bins, in `sorted`
  ulong *pieces;    // parts of `sorted` to compare with a center: start, and above it the end
  uint *of_pieces;  // by piece: its group
  uint *changed;    // chunks with sums that must be computed again
  uint *is_changed; // by chunk
  uint *counts;     // number of pieces, number of chunks
  // As in kmeans/codes.cuh.
  uint4 *codes;        // of the sorted observations, `quads` each
  uint4 *center_codes; // of the new center, relative to each group
  uint groups;
  uint quads; // 0 without codes
};

// Lloyd's iterations. The device assigns the observations from `first` to `last`, and moves
// `clusters` centers, or some of them.
struct Lloyd {
  const double *x;
  double *centers;
  uint *cluster;    // cluster of each observation
  uint *changed;    // not 0 if an observation has changed its cluster
  uint *open;       // observations that are not decided yet
  uint *open_count; // number of open observations
  // In single precision: coordinates in tiles, column after column.
  float *single_observations; // with opposite sign
  float *errors; // minus the errors of the observations' bounds, per unit of a center's norm
  float *single_centers;
  float *halves; // halves of the squares of the centers' norms, less their error
  float *norms;  // of the centers
  // As in kmeans/frame.rs and kmeans/margin.rs.
  const double *origin;
  double unit;
  double smallest; // least coordinate: smaller ones become zero
  double share;
  double tiny;
  double rounding;
  double margin;
  double underflow;
  uint rows, columns, clusters;
  uint first, last;
  uint offset; // first observation of a launch, counted from `first`

  // As Frame::coordinate.
  __device__ double coordinate(double value, uint k) const {
    double coordinate = (value - origin[k]) * unit;
    return fabs(coordinate) < smallest ? 0 : coordinate;
  }
  // As in Margin.
  __device__ double above(double distance) const { return distance * (1 + margin) + underflow; }
  __device__ double below(double distance) const { return distance * (1 - margin) - underflow; }
};

// The comparison in half precision. `collect` of products.cu reads and writes these arrays for the
// observations of a batch, which begins at `offset` of a Lloyd.
struct Candidates {
  ushort *observations; // all observations of the device: halves, row after row
  float *centers;       // by center: coordinates in halves, then the scalars of sweep.cuh
  uint *numbers;        // of the centers
  float *thresholds;    // of the batch's observations
  float *zeros;         // zeros, one for each observation of the batch
  uint *counts;         // number of candidates, including those that found no room
  const ulong *found;   // `room` candidates for each observation: the center in the lower half
  double share;         // as Frame::share_of_halves
  double tiny;          // as Frame::tiny_of_halves
  uint width;           // number of halves of a row, a multiple of 16
  uint room, rows;

  // Stride between the centers' rows.
  __device__ uint step() const { return width / 2 + SCALARS; }
};

// Comparison of the members of clusters with the centers near their own.
struct Near {
  const uint *numbers; // the observations, sorted by cluster
  const uint *starts;  // start of each cluster's members, and the end
  uint *centers;       // `room` for each cluster: centers near its own, bin after bin
  uint *ends;          // ends of the bins of each cluster; NONE for bins without room
  double *scales;      // by cluster: number of bins per unit of distance
  ulong *counts; // number of comparisons of all members, and of members beyond the listed bins
  uint room;
};

// A stable sort of observations by cluster, one digit of the cluster's number at a time.
struct Sort {
  const uint *clusters; // numbers to sort by
  const uint *numbers;  // the observations; null: 0, 1, ...
  uint *sorted_clusters;
  uint *sorted_numbers;
  uint *counts; // by digit and block
  uint rows, blocks;
  uint greatest; // greatest number of a cluster; greater ones count as this
  uint shift;    // bits below the digit
};

// The members of the clusters, and sums over them.
struct Members {
  const double *x;
  double *centers; // to move
  double *within;  // by cluster: sum of squared differences from the center
  const uint *sorted_clusters;
  const uint *sorted_numbers;
  uint *starts; // start of each cluster's members, and the end
  uint rows, columns, clusters;
  uint columns_each; // columns of a center that a block of `update` moves, at most THREADS
};
