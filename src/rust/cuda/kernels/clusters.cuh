// The clusters of a tree on the device, and queries, in single precision: what the host and tree.cu
// must agree on. src/tree/clusters.rs has the same, and a test compares them.

#pragma once

#include "base.cuh"

// The scalars of a cluster, as in struct ClusterView of screen/view.rs; SHAPE is the number of its
// whitening factor, as an integer, NONE for the identity. SCALARS is their number.
enum Scalar { ERROR, LOW, RELATIVE, ABSOLUTE, VARIANCE, FOURTH, LARGEST, THIRD, SHAPE, SCALARS };

// LOW of a cluster that is gone. A NaN, so that no bound with it is below any limit.
#define GONE __uint_as_float(SINGLE_NAN_BITS)

// A query: its scalars as above, then its coordinates.
#define COORDINATES SCALARS

// Of a ball: the centre's coordinates, then these.
enum Ball { RADIUS, BALL_LOW, BALL_SCALARS };

// The clusters on the device.
struct Clusters {
  float *rows;    // see row_at
  float *factors; // whitening factors, packed column by column
  uint dimensions;
  uint member_distances; // whether distances are means of members' distances
};

// The row of the cluster at a position, its coordinates and then its scalars, and how far apart
// these are: the rows of WARP positions are interleaved.
__device__ __forceinline__ float *row_at(const Clusters &clusters, uint position) {
  size_t length = clusters.dimensions + SCALARS;
  return clusters.rows + position / WARP * WARP * length + position % WARP;
}
#define ROW_STRIDE ((size_t)WARP)
