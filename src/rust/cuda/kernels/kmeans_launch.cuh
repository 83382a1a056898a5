// What the host and kmeans.cu must agree on. src/kmeans.rs has the same, and a test
// compares them.

#pragma once

#include "base.cuh"
#include "sweep.cuh"

// Values that are summed up together while drawing.
#define CHUNK 256
// Threads of a block of `draw`, and warps of one of `weigh`.
#define DRAW_THREADS 1024
#define WEIGH_WARPS 4
#define WEIGH_THREADS (WEIGH_WARPS * WARP)
// Bins of a group of observations, and the number of observations that a warp compares at a time.
#define BINS 32
#define PIECE 128
// Bytes of a code at a time, and the most columns of codes (kmeans_codes.cuh).
#define QUAD 16
#define CODED_COLUMNS 65535

// A tile of `screen` is TILE observations by TILE centers: ACROSS by DOWN threads, each with EACH
// by EACH. DEPTH coordinates are in shared memory at a time.
#define ACROSS 16
#define DOWN 16
#define THREADS (ACROSS * DOWN)
#define EACH 8
#define TILE 128
#define DEPTH 8

// Threads of `find_thresholds` for an observation.
#define THRESHOLD_LANES 8

// As in single/half.rs.
#define HALF_SCALE ((float)(1 << 14))

// A tile of `decide` is ROWS observations by CENTERS centers, as above.
#define CENTERS_EACH 4
#define ROWS_EACH 8
#define CENTERS (ACROSS * CENTERS_EACH)
#define ROWS (DOWN * ROWS_EACH)

// Threads of the kernels of kmeans_near.cuh, bins of the centers near a cluster, the most columns,
// and centers in shared memory at a time.
#define NEAR_THREADS 128
#define NEAR_BINS 256
#define NEAR_COLUMNS 32
#define NEAR_TOGETHER 32

// Values of a digit of cluster numbers, and its bits.
#define DIGIT_BITS 8
#define DIGITS (1 << DIGIT_BITS)
// Observations that a block sorts, a part for each warp.
#define WARPS (THREADS / WARP)
#define SORTED_EACH 512
#define SORTED (WARPS * SORTED_EACH)
#define SCAN_THREADS 1024
// Counts that a thread adds up at a time.
#define SCANNED 32

// Where to start: the arrays of kmeans_draw.cuh.
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
  uint first;      // the first center's observation
  uint is_grouped; // whether Groups are used
};

// Observations in groups: those with the same nearest center when they were sorted. A group has
// bins, the farthest observations in the first.
struct Groups {
  uint *sorted;     // the observations, group after group, bin after bin
  double *squares;  // of the sorted, as Seeding's
  double *greatest; // of the groups: the greatest square when they were sorted
  uint *ends;       // of the bins, in `sorted`
  ulong *pieces;    // of `sorted`, to be compared with a center: the start, and the end above it
  uint *of_pieces;  // the groups of the pieces
  uint *changed;    // chunks whose sum is to be computed again
  uint *is_changed; // by chunk
  uint *counts;     // how many pieces, how many chunks
  // As in kmeans_codes.cuh.
  uint4 *codes;        // of the sorted, `quads` each
  uint4 *center_codes; // of the new center, relative to each group
  uint groups;
  uint quads; // 0 without codes
};

// Lloyd's iterations. The device assigns the observations from `first` to `last`, and moves
// `clusters` centers, or some of them.
struct Lloyd {
  const double *x;
  double *centers;
  uint *cluster;    // of the observations
  uint *changed;    // not 0 where an observation has another cluster than before
  uint *open;       // observations that single precision does not decide
  uint *open_count; // how many
  // In single precision: coordinates in tiles, column after column.
  float *single_observations;
  float *errors; // of the observations' bounds, by the norm of a center
  float *single_centers;
  float *halves; // of the squares of the centers' norms, less their error
  float *norms;  // of the centers
  // As in kmeans/frame.rs and kmeans/margin.rs.
  const double *origin;
  double unit;
  double smallest; // a coordinate: smaller ones become zero
  double share;
  double tiny;
  double rounding;
  double margin;
  double underflow;
  uint rows, columns, clusters;
  uint first, last;
  uint offset; // of the first observation of a launch, from `first`

  // As Frame::coordinate.
  __device__ double coordinate(double value, uint k) const {
    double coordinate = (value - origin[k]) * unit;
    return fabs(coordinate) < smallest ? 0 : coordinate;
  }
  // As Margin's.
  __device__ double above(double distance) const { return distance * (1 + margin) + underflow; }
  __device__ double below(double distance) const { return distance * (1 - margin) - underflow; }
};

// The comparison in half precision: what `collect` of products.cu reads and writes for the
// observations of a batch, which begins at `offset` of a Lloyd.
struct Candidates {
  ushort *observations; // all of the device: coordinates in halves, row after row
  float *centers;       // coordinates in halves, then the scalars of sweep.cuh
  uint *numbers;        // of the centers
  float *thresholds;    // of the batch's observations
  float *zeros;         // as many
  uint *counts;         // of the candidates, those that found no room included
  const ulong *found;   // `room` candidates for each: the center in the lower half
  double share;         // as Frame::share_of_halves
  double tiny;          // as Frame::tiny_of_halves
  uint width;           // of a row: halves, a multiple of 16
  uint room, rows;

  // Between the centers' rows.
  __device__ uint step() const { return width / 2 + SCALARS; }
};

// The comparison of members with the centers near their own.
struct Near {
  const uint *numbers; // the observations, sorted by cluster
  const uint *starts;  // of the clusters' members, and the end
  uint *centers;       // `room` for each cluster: centers near its own, bin after bin
  uint *ends;          // of the bins of each cluster; NONE for bins without room
  double *scales;      // of the clusters: bins by distance
  ulong *counts;       // of all members: comparisons, and members beyond the listed bins
  uint room;
};

// A stable sort of observations by cluster, one digit of its number after the other.
struct Sort {
  const uint *clusters; // the numbers to sort by
  const uint *numbers;  // the observations; null: 0, 1, ...
  uint *sorted_clusters;
  uint *sorted_numbers;
  uint *counts; // by digit and block
  uint rows, blocks;
  uint greatest; // number of a cluster; all above it count as this one
  uint shift;    // of the digit
};

// The members of the clusters, and the centers to move.
struct Members {
  const double *x;
  double *centers;
  const uint *sorted_clusters;
  const uint *sorted_numbers;
  uint *starts; // of the clusters' members, and the end
  uint rows, columns, clusters;
};
