// Tentative unions of two nodes, by a block each: mean, scatter, shape, and the row for the sweeps.
//
// What decides is in the order of operations of mahalanobis/shape.rs; a row follows ClusterFrame in
// mahalanobis/screen/frame.rs.

#pragma once

#include "tree_node.cuh"

// What a block works in, in shared memory.
struct Workspace {
  Shared &shared;
  uint p;
  double *factor, *work, *pivots, *difference;
  double *scratch; // scratch_doubles(p) for each warp

  __device__ Workspace(Shared &shared, uint p, double *memory) : shared(shared), p(p) {
    factor = memory;
    work = factor + banded_length(p);
    pivots = work + packed_length(p);
    difference = pivots + p;
    scratch = difference + p;
  }
  __device__ double *of_warp() const { return scratch + threadIdx.x / WARP * scratch_doubles(p); }
};

// Doubles that it needs.
__host__ __device__ __forceinline__ uint workspace_doubles(uint p) {
  return banded_length(p) + packed_length(p) + 2 * p + WARPS * scratch_doubles(p);
}

// Largest norm of whitened differences, in screen units, whose square does not overflow; and log2 of
// the largest coordinate. As in frame.rs.
#define LARGEST_WHITENED 1e18
#define LARGEST_COORDINATE 1048576.0

// Where row i of a factor is, whose rows are padded to whole groups of 4.
__device__ __forceinline__ uint padded_row(uint i) {
  uint group = i / 4;
  return 4 * (2 * group * (group + 1) + i % 4 * (group + 1));
}

__device__ __forceinline__ float *tentative_row(const Tree &tree, uint node) {
  return tree.rows + (size_t)(node - tree.clusters) * (tree.dimensions + SCALARS);
}

// Writes the mean to a row, and its scalars: those of the shape of this number with the packed factor
// in `room.factor`, unless that is the identity.
__device__ void write_row(const Tree &tree, const Clusters &clusters, float *row,
                          const double *mean, uint shape, const Whitening &found,
                          Workspace &room) {
  uint p = room.p, length = packed_length(p);
  double scale = 1 / tree.unit, lost = 0, square = 0;
  FOR_EACH(k, p) {
    double exact = (mean[k] - tree.center[k]) * scale;
    float single = (float)exact;
    row[k] = single;
    double rounding = fabs(exact) * 2 * EPSILON + fabs(exact - (double)single);
    lost = fma(rounding, rounding, lost);
  }
  if (!found.identity) FOR_EACH(e, length) square = fma(room.factor[e], room.factor[e], square);
  double2 sums = block_sum(room.shared, lost, square);
  lost = sqrt(sums.x);
  double stretch = found.identity ? 1 : sqrt(sums.y) * (1 + SLACK), low = 1;
  bool usable = stretch * LARGEST_COORDINATE * sqrt((double)p) < LARGEST_WHITENED;
  if (!found.identity) {
    double rounding = 8.0 * p * EPSILON * stretch;
    low = found.scale / sqrt(found.largest_eigenvalue) * (1 - 1e-6) -
          rounding * (1 + stretch * sqrt(found.trace) / found.scale);
    // Also where that is no number.
    if (!(low > 0) || !usable) low = 0;
  }
  bool shaped = !found.identity && usable;
  if (shaped) {
    float *factor = (float *)factor_of(clusters, shape);
    FOR_EACH(e, p * p) {
      uint i = e / p, j = e % p;
      if (j <= i) factor[element(p, i, j)] = (float)room.factor[packed_length(i) + j];
    }
  }
  if (threadIdx.x == 0) {
    float *scalars = row + p;
    double unit = 1.0 / (1 << 24);
    scalars[ERROR] = __double2float_ru(lost * 1.000001 + 1.0 / (1ull << 60));
    scalars[LOW] = __double2float_rd(low);
    scalars[RELATIVE] = __double2float_ru((2 * p + 12) * unit * stretch);
    scalars[ABSOLUTE] = __double2float_ru(1.000001 * stretch);
    scalars[VARIANCE] = scalars[FOURTH] = scalars[LARGEST] = scalars[THIRD] = 0;
    scalars[SHAPE] = __uint_as_float(shaped ? shape : NONE);
  }
  __syncthreads();
}

__device__ __forceinline__ ShapeRule rule_of(const Tree &tree) {
  return {tree.threshold, tree.subthreshold, tree.normalize || !tree.all_full_size,
          tree.all_full_size != 0};
}

// Gives the shape of this number its factor, by its scatter; returns the number with IDENTITY added
// where it is the identity. `found` is its whitening.
__device__ uint shape_up(const Tree &tree, uint shape, uint members, Whitening &found,
                         Workspace &room) {
  found = whiten(room, rule_of(tree), scatter_of(tree, shape), members);
  if (found.identity) return shape | IDENTITY;
  store_in_bands(room, bands_of(tree, shape));
  return shape;
}

// Makes the union of a job's nodes. Its shape has a number, with which it comes, unless no cluster
// has a shape.
__device__ void make_union(const Tree &tree, const Clusters &clusters, Job &job,
                           Workspace &room) {
  __shared__ uint size_a, size_b, shape_a, shape_b;
  uint p = room.p, node = job.node, a = job.lower_node, b = job.higher_node;
  // One of the two may be merged away meanwhile; all threads go the same way nevertheless.
  if (threadIdx.x == 0) {
    size_a = tree.sizes[a];
    size_b = tree.sizes[b];
    shape_a = tree.shapes[a];
    shape_b = tree.shapes[b];
  }
  __syncthreads();
  uint members = size_a + size_b;
  double m_a = size_a, m_b = size_b;
  double share = tree.midpoint ? 0.5 : share_of(m_a, m_b), weight = between_weight(m_a, m_b);
  const double *mean_a = mean_of(tree, a), *mean_b = mean_of(tree, b);
  double *mean = mean_of(tree, node);
  FOR_EACH(k, p) {
    double difference = mean_b[k] - mean_a[k];
    room.difference[k] = difference;
    mean[k] = merged_mean(share, difference, mean_a[k]);
  }
  __syncthreads();
  uint shape = tree.shapes[node];
  Whitening found = {true, 1, 0, 0};
  if (shape != NONE) {
    double *scatter = scatter_of(tree, shape);
    const double *scatter_a = shape_a == NONE ? nullptr : scatter_of(tree, shape_a & ~IDENTITY);
    const double *scatter_b = shape_b == NONE ? nullptr : scatter_of(tree, shape_b & ~IDENTITY);
    FOR_EACH(e, p * p) {
      uint i = e / p, j = e % p, at = packed_length(i) + j;
      if (j > i) continue;
      double both = scatter_a ? scatter_a[at] : 0.0;
      if (scatter_b) both = both + scatter_b[at];
      scatter[at] = merged_scatter(weight * room.difference[i], room.difference[j], both);
    }
    __syncthreads();
    shape = shape_up(tree, shape, members, found, room);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    tree.sizes[node] = members;
    tree.shapes[node] = shape;
    job.fuller = !is_full_size(tree.threshold, size_a) + !is_full_size(tree.threshold, size_b) -
                 !is_full_size(tree.threshold, members);
  }
  write_row(tree, clusters, tentative_row(tree, node), mean, shape, found, room);
}
