// Definitions that the host, tree.cu and agglomerate.cu share: clusters and queries in single
// precision. src/tree/clusters.rs has the same definitions, and a test compares them.

#pragma once

#include "base.cuh"

// The scalars of a cluster, as in struct ClusterView of screen/view.rs. SHAPE is the number of its
// whitening factor, as an integer, NONE for the identity. SCALARS is the number of scalars.
enum Scalar { ERROR, LOW, RELATIVE, ABSOLUTE, VARIANCE, FOURTH, LARGEST, THIRD, SHAPE, SCALARS };

// LOW of a cluster that has been merged away: a NaN, so no bound with it is below any limit.
#define GONE __uint_as_float(SINGLE_NAN_BITS)

// Index of the first coordinate of a query, after its scalars.
#define COORDINATES SCALARS

// Scalars of a ball, after the coordinates of its centre.
enum Ball { RADIUS, BALL_LOW, BALL_SCALARS };

// The clusters on the device, by position.
struct Clusters {
  float *rows;    // see row_at
  float *factors; // whitening factors, packed column by column
  uint dimensions;
  uint full_distances; // whether full distances are used: means over members
};

// The row of the cluster at a position: its coordinates, then its scalars. The rows of WARP
// positions are interleaved, so the values of a row are ROW_STRIDE apart.
__device__ __forceinline__ float *row_at(const Clusters &clusters, uint position) {
  size_t length = clusters.dimensions + SCALARS;
  return clusters.rows + position / WARP * WARP * length + position % WARP;
}
#define ROW_STRIDE ((size_t)WARP)
