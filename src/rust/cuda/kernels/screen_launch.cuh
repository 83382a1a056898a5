// What the host and screen.cu must agree on: how clusters, queries and answers are laid out, and
// the sizes of blocks. src/screen/kernels.rs and src/screen/wire.rs have the same, and a
// test compares them.

#pragma once

#include "base.cuh"

// Threads of a block.
#define THREADS 256
// Queries that a block sweeps for at a time, from shared memory.
#define QUERIES_PER_BLOCK 8
// Groups of warps whose least bounds are kept for a query: see `sweep`.
#define MOST_GROUPS 64

// Clusters that follow each other are often near each other: TILE of them make a tile, which can be
// passed over as a whole.
#define TILE THREADS

// The scalars of a cluster, as in struct ClusterView of screen/view.rs; SHAPE is the number of its
// whitening factor, as an integer, NONE for the identity. SCALARS is their number.
enum Scalar { ERROR, LOW, RELATIVE, ABSOLUTE, VARIANCE, FOURTH, LARGEST, THIRD, SHAPE, SCALARS };

// LOW of a cluster that is gone. A NaN, so that no bound with it is below any limit.
#define GONE __uint_as_float(SINGLE_NAN_BITS)

// A query: its scalars as above (SHAPE says where in `factors` its whitening factor is: row by row,
// each row of the lower triangle padded with zeros to whole groups of 4), then the limit of bounds,
// the end of the positions to look at, the number of groups, the room in the answer and where that
// starts, then its p coordinates.
enum Query { LIMIT = SCALARS, END, GROUPS, ROOM, OUTPUT, COORDINATES };

// A cluster that is added: its position, then its coordinates and scalars as in `rows`, then the
// number of its whitening factor among those of the batch.
enum Entry { ENTRY_POSITION, ENTRY_ROWS };
__host__ __device__ __forceinline__ uint entry_scalar(uint p, uint scalar) {
  return ENTRY_ROWS + p + scalar;
}
__host__ __device__ __forceinline__ uint entry_factor(uint p) { return entry_scalar(p, SCALARS); }
__host__ __device__ __forceinline__ uint entry_words(uint p) { return entry_factor(p) + 1; }

// Of the ball around each tile: the centre's coordinates, then these.
enum Ball { RADIUS, BALL_LOW, BALL_SCALARS };

// The clusters on the device.
struct Clusters {
  float *rows;         // see row_at
  float *const *slabs; // whitening factors, packed column by column
  uint capacity;       // positions
  uint slab_shapes;    // factors in a slab
  uint dimensions;
  uint member_distances; // whether distances are means of members' distances
  float *balls;          // element (k, tile) is at k * (capacity / TILE) + tile
  uint tiles;            // the first `tiles` tiles have a ball
};

// The row of the cluster at a position, and how far apart its numbers are: each number of all positions
// is together; in a tree, which reads all of a row, the rows of each WARP positions are.
#ifdef ROWS_TOGETHER
__device__ __forceinline__ float *row_at(const Clusters &clusters, uint position) {
  size_t length = clusters.dimensions + SCALARS;
  return clusters.rows + position / WARP * WARP * length + position % WARP;
}
__device__ __forceinline__ constexpr size_t row_step(const Clusters &) { return WARP; }
#else
__device__ __forceinline__ float *row_at(const Clusters &clusters, uint position) {
  return clusters.rows + position;
}
__device__ __forceinline__ size_t row_step(const Clusters &clusters) { return clusters.capacity; }
#endif

// A small batch of changes and the queries after them, as an argument of a kernel: no way to the
// device is shorter.
#define SMALL_BATCH_WORDS 2496
struct __align__(16) SmallBatch {
  uint removed, added, queries; // their numbers
  uint packed_at, queries_at;   // where the added clusters' factors and the queries start
  uint factors_at;              // where the queries' whitening factors start, at whole groups of 4
  uint length;                  // of it all
  uint unused;
  // The positions removed; the added entries and their factors, as for `update`; the queries, with
  // zeros for coordinates up to P; and their factors.
  uint words[SMALL_BATCH_WORDS];
};
