// Makes the speculative union of two nodes, by a block: mean, scatter, shape, members, moments, and
// the row for sweeps.
//
// All values that decide are computed in the order of operations of mahalanobis/shape.rs. A row
// follows ClusterFrame in mahalanobis/screen/frame.rs, and moments follow
// mahalanobis/clusters/merged.rs.

#pragma once

#include "cluster/bounds.cuh"
#include "tree/node.cuh"

// Working memory of a block, in shared memory. In wide trees, the factor is in device memory.
struct Workspace {
  Shared &shared;
  uint p;
  double *room, *block_factor;
  double *scratch; // scratch_doubles(p) for each of the distances that are computed together
  uint together;

  __device__ Workspace(const Tree &tree, Shared &shared, double *memory)
      : shared(shared), p(tree.dimensions), room(memory), together(BLOCK_TOGETHER) {
    if (IS_WIDE) block_factor = tree.block_factors + (size_t)blockIdx.x * banded_length(p);
    scratch = difference() + p;
  }
  __device__ __forceinline__ double *factor() const { return IS_WIDE ? block_factor : room; }
  __device__ __forceinline__ double *line() const {
    return IS_WIDE ? room : room + banded_length(p);
  }
  __device__ __forceinline__ double *raw() const { return line() + p; }
  __device__ __forceinline__ double *difference() const { return raw() + p; }
  // Room for a vector while factors are made.
  __device__ __forceinline__ double *next() const { return IS_WIDE ? scratch : factor(); }
};

// Doubles of a workspace in shared memory.
__host__ __device__ __forceinline__ uint workspace_doubles(uint p) {
  return (IS_WIDE ? 0 : banded_length(p)) + 3 * p + BLOCK_TOGETHER * scratch_doubles(p);
}

// Doubles of the part of a workspace that the sequencer needs; an even number.
__host__ __device__ __forceinline__ uint sequencer_doubles(uint p) {
  uint scratch = SEQUENCER_TOGETHER * scratch_doubles(p), target = banded_length(p) + p;
  return IS_WIDE || scratch >= target ? scratch : (target + 1) / 2 * 2;
}

// Relative slack of moments in single precision, as in frame.rs.
#define MOMENT_SLACK 1e-6
__device__ __forceinline__ float *speculative_row(const Tree &tree, uint node) {
  return tree.rows + (size_t)(node - tree.clusters) * (tree.dimensions + SCALARS);
}

// Number of words of a query before its factor, in shared memory.
#define QUERY_LENGTH ((COORDINATES + DIMENSIONS + 3) / 4 * 4)

// Doubles of a query and its factor.
__device__ __forceinline__ uint query_doubles(uint p) {
  return (QUERY_LENGTH + padded_row(p) + 3) / 4 * 2;
}

// Writes the moments of a node's members to the scalars of its query, from the shape with this
// number, and adds the error of member distances to ERROR. `stretch` is an upper bound on the
// stretch of the shape's factor, `low` a lower bound.
__device__ void write_moments(const Tree &tree, float *scalars, const double *mean, uint shape,
                              uint members, double stretch, double low, Workspace &room) {
  uint p = room.p;
  double square = 0, third = 0, squares = 0, trace = 0;
  FOR_EACH(k, p) square = fma(mean[k], mean[k], square);
  if (shape != NONE) {
    const double *scatter = scatter_of(tree, shape), *spread = spread_of(tree, shape);
    FOR_EACH(k, p) third = fma(spread[THIRD_MOMENTS + k], spread[THIRD_MOMENTS + k], third);
    FOR_EACH(e, p * p) {
      uint i = e / p, j = e % p;
      double value = scatter[packed_at(i, j)];
      squares = fma(value, value, squares);
      if (i == j) trace += value;
    }
  }
  double2 first = block_sum(room.shared, square, third),
          both = block_sum(room.shared, squares, trace);
  if (threadIdx.x > 0) return;
  double scale = 1 / tree.unit, up = 1 + MOMENT_SLACK;
  double error = 4.0 * members * EPSILON * sqrt(first.x) * scale;
  if (low > 0) error += tree.sum_error * stretch / low;
  scalars[ERROR] = __double2float_ru((scalars[ERROR] + error) * 1.000001);
  if (shape == NONE) return;
  double variance = both.y / members, fourth = spread_of(tree, shape)[FOURTH_MOMENT];
  double largest = largest_eigenvalue_bound(both.y, both.x, p) / members;
  // The inequality of Cauchy and Schwarz bounds a third moment that has lost digits.
  third = first.y >= LEAST_MOMENT ? sqrt(first.y) : sqrt(variance) * sqrt(fourth);
  // An infinite fourth moment makes the bound 0.
  if (variance > 0 && !(fourth >= LEAST_MOMENT)) fourth = infinity();
  scalars[VARIANCE] = __double2float_rd(variance * scale * scale * (1 - MOMENT_SLACK));
  scalars[FOURTH] = __double2float_ru(fourth * scale * scale * scale * scale * up);
  scalars[LARGEST] = __double2float_ru(largest * scale * scale * up);
  scalars[THIRD] = __double2float_ru(third * scale * scale * scale * up);
}

// Writes the query of a node with this mean and `members` members, and its factor behind it. Unless
// the shape is the identity, `room.factor()` has its packed factor, which also becomes the factor
// in single precision of the shape with this number. Returns the number of the shape that the
// node's row has, or NONE.
__device__ uint make_query(const Tree &tree, const Clusters &clusters, float *query,
                           const double *mean, uint shape, uint members, const Whitening &found,
                           Workspace &room) {
  uint p = room.p, length = packed_length(p);
  double scale = 1 / tree.unit, lost = 0, square = 0;
  FOR_EACH(k, QUERY_LENGTH - COORDINATES) {
    double exact = k < p ? (mean[k] - tree.center[k]) * scale : 0;
    query[COORDINATES + k] = to_single(exact, lost);
  }
  if (!found.identity) FOR_EACH(e, length) square = fma(room.factor()[e], room.factor()[e], square);
  double2 sums = block_sum(room.shared, lost, square);
  double stretch = found.identity ? 1 : sqrt(sums.y) * (1 + SLACK);
  double low = found.identity ? 1 : least_stretch(p, found, stretch);
  bool shaped = !found.identity && is_usable(p, stretch);
  if (shaped) {
    float *factor = (float *)factor_of(clusters, shape), *out = query + QUERY_LENGTH;
    uint columns = (p + 3) / 4 * 4;
    FOR_EACH(e, p * columns) {
      uint i = e / columns, j = e % columns;
      if (j >= (i / 4 + 1) * 4) continue;
      float single = j <= i ? (float)room.factor()[packed_length(i) + j] : 0;
      if (!IS_WIDE) out[padded_row(i) + j] = single;
      if (j > i) continue;
      factor[element(p, i, j)] = single;
      if (IS_WIDE) out[element(p, i, j)] = single;
    }
  }
  if (threadIdx.x == 0) {
    float *scalars = query;
    scalars[ERROR] = error_of(sums.x);
    write_stretches(p, scalars, stretch, low);
    scalars[VARIANCE] = scalars[FOURTH] = scalars[LARGEST] = scalars[THIRD] = 0;
    scalars[SHAPE] = __uint_as_float(shaped ? 0 : NONE);
  }
  if (has_full_distances(tree))
    write_moments(tree, query, mean, number_of(shape), members, stretch, low, room);
  __syncthreads();
  return shaped ? shape : NONE;
}

// Value k of the row of a cluster with this query, whose shape has this number.
__device__ __forceinline__ float row_of_query(const float *query, uint p, uint shape, uint k) {
  return k < p ? query[COORDINATES + k] : k == p + SHAPE ? __uint_as_float(shape) : query[k - p];
}

__device__ __forceinline__ ShapeRule rule_of(const Tree &tree) {
  return {tree.threshold, tree.subthreshold, tree.normalize || !tree.all_full_size,
          tree.all_full_size != 0};
}

// Computes the factor of the shape with this number from its scatter, by all threads of the block.
// Returns the number, with IDENTITY added if the shape is the identity. `found` becomes its
// whitening.
__device__ uint shape_up(const Tree &tree, uint shape, uint members, Whitening &found,
                         Workspace &room) {
  found = whiten(room, rule_of(tree), scatter_of(tree, shape), members);
  if (has_full_distances(tree) && threadIdx.x == 0) {
    Quanta quanta;
    quanta_of(found.identity ? 1 : stretch_of(room.p, room.factor()), tree.diagonal,
              tree.log2_terms, &quanta);
    spread_of(tree, shape)[QUANTUM_OF_HIGH] = quanta.high;
    spread_of(tree, shape)[QUANTUM_OF_LOW] = quanta.low;
  }
  if (found.identity) return shape | IDENTITY;
  store_in_bands(room, bands_of(tree, shape));
  return shape;
}

// The product of row i of a packed symmetric matrix and a vector.
template <class F>
__device__ __forceinline__ double product_of_row(const double *packed, uint p, uint i, F vector) {
  double product = 0;
  if constexpr (IS_WIDE) {
#pragma unroll 8
    for (uint j = 0; j < p; j++) product = fma(packed[packed_at(i, j)], vector(j), product);
  } else {
    // The whole row is read before any of it is used, so no read waits for another read.
    double row[DIMENSIONS];
#pragma unroll
    for (uint j = 0; j < DIMENSIONS; j++) row[j] = j < p ? packed[packed_at(i, j)] : 0;
#pragma unroll
    for (uint j = 0; j < DIMENSIONS; j++) product = fma(row[j], j < p ? vector(j) : 0, product);
  }
  return product;
}

// Adds a node's moments about the mean of its union to the spread of the union, weighted by
// `share`, the node's share of the members; by the first warp. `away` times the difference in
// `room` is the node's mean minus the union's. A node without a shape has one member.
__device__ void add_moments(const Tree &tree, uint shape, uint members, double away, double share,
                            const Workspace &room, double *to) {
  uint p = room.p, lane = threadIdx.x;
  bool is_shaped = shape != NONE;
  const double *scatter = is_shaped ? scatter_of(tree, shape) : nullptr;
  const double *spread = is_shaped ? spread_of(tree, shape) : nullptr;
  double square = 0, variance = 0;
  for (uint i = lane; i < p; i += WARP) {
    double shift = away * room.difference()[i];
    square = fma(shift, shift, square);
    if (is_shaped) variance += scatter[packed_at(i, i)];
  }
  square = warp_sum(square);
  variance = warp_sum(variance) / members;
  double products = 0, thirds = 0;
  for (uint i = lane; i < p; i += WARP) {
    double shift = away * room.difference()[i], product = 0, third = 0;
    if (is_shaped) {
      third = spread[THIRD_MOMENTS + i];
      product = product_of_row(scatter, p, i, [&](uint j) { return away * room.difference()[j]; });
      product = product / members;
    }
    products = fma(shift, product, products);
    thirds = fma(shift, third, thirds);
    to[THIRD_MOMENTS + i] += share * (third + (variance + square) * shift + 2 * product);
  }
  double fourth = (is_shaped ? spread[FOURTH_MOMENT] : 0) + 4 * warp_sum(products) +
                  4 * warp_sum(thirds) + 2 * variance * square + square * square;
  if (lane == 0) to[FOURTH_MOMENT] += share * fourth;
}

// Writes the moments of the union of two nodes to the spread of the shape with this number, by the
// first warp. The difference of their means is in `room`.
__device__ void unite_moments(const Tree &tree, uint shape, uint shape_a, uint size_a, uint shape_b,
                              uint size_b, const Workspace &room) {
  double *spread = spread_of(tree, shape), a = size_a, b = size_b;
  // Each lane adds only to elements that it has written itself.
  for (uint i = threadIdx.x; i < room.p; i += WARP) spread[THIRD_MOMENTS + i] = 0;
  if (threadIdx.x == 0) spread[FOURTH_MOMENT] = 0;
  add_moments(tree, shape_a, size_a, -b / (a + b), a / (a + b), room, spread);
  add_moments(tree, shape_b, size_b, a / (a + b), b / (a + b), room, spread);
}

// Number of loads that a thread issues together when it copies members.
#define COPIES 8

// Copies `size` members, by all threads of the block.
__device__ __forceinline__ void copy_members(const uint *from, uint size, uint *to) {
  for (uint first = threadIdx.x; first < size; first += COPIES * THREADS) {
    uint values[COPIES];
#pragma unroll
    for (uint k = 0; k < COPIES; k++)
      values[k] = first + k * THREADS < size ? from[first + k * THREADS] : 0;
#pragma unroll
    for (uint k = 0; k < COPIES; k++)
      if (first + k * THREADS < size) to[first + k * THREADS] = values[k];
  }
}

// Reserves room for `members` members, by one thread. Returns where it starts, or NONE if there is
// none.
__device__ uint reserve_members(const Tree &tree, uint members) {
  uint *used = tree.control + MEMBERS_USED, start = *(volatile uint *)used;
  for (;;) {
    if (members > tree.member_room - start) return NONE;
    uint before = atomicCAS(used, start, start + members);
    if (before == start) return start;
    start = before;
  }
}

// Lets jobs go on that wait for a job's union, by all threads of the block: the union is there as
// far as they need it, or there is no room for its members.
__device__ __forceinline__ void publish(Job &posted, uint id, bool lacks_room) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x > 0) return;
  posted.lacks_room = lacks_room;
  __threadfence();
  *(volatile uint *)&posted.made = id;
}

// Makes the union of a job's nodes, and the query for it, by all threads of the block. Returns
// false if there is no room for its members. Writes results to `posted`, the job as other blocks
// see it: among them, by how much a merge of the union decreases the number of clusters below the
// threshold. The union already has the number of a shape, unless no cluster can have a shape.
__device__ bool make_union(const Tree &tree, const Clusters &clusters, const Job &job, Job &posted,
                           float *query, Workspace &room) {
  __shared__ uint size_a, size_b, shape_a, shape_b, start;
  uint p = room.p, node = job.node, a = job.lower_node, b = job.higher_node, k = threadIdx.x;
  static_assert(DIMENSIONS <= THREADS, "a thread for each coordinate");
  uint shape = tree.shapes[node];
  double mean_a = k < p ? mean_of(tree, a)[k] : 0;
  double difference = k < p ? mean_of(tree, b)[k] - mean_a : 0;
  // One thread reads these values, because a node may be merged meanwhile: all threads have to take
  // the same branches.
  if (k == 0) {
    size_a = tree.sizes[a];
    size_b = tree.sizes[b];
    shape_a = tree.shapes[a];
    shape_b = tree.shapes[b];
    start = has_full_distances(tree) ? reserve_members(tree, size_a + size_b) : 0;
  }
  if (k < p) room.difference()[k] = difference;
  __syncthreads();
  if (start == NONE) {
    publish(posted, job.id, true);
    return false;
  }
  uint members = size_a + size_b;
  if (has_full_distances(tree)) {
    uint *to = tree.members + start;
    copy_members(tree.members + tree.member_starts[a], size_a, to);
    copy_members(tree.members + tree.member_starts[b], size_b, to + size_a);
    if (threadIdx.x == 0) tree.member_starts[node] = start;
  }
  double m_a = size_a, m_b = size_b;
  double share = tree.midpoint ? 0.5 : share_of(m_a, m_b), weight = between_weight(m_a, m_b);
  double *mean = mean_of(tree, node);
  if (k < p) mean[k] = merged_mean(share, difference, mean_a);
  if (k == 0) {
    tree.sizes[node] = members;
    posted.newly_full_size = !is_full_size(tree.threshold, size_a) +
                             !is_full_size(tree.threshold, size_b) -
                             !is_full_size(tree.threshold, members);
  }
  if (shape != NONE) {
    double *scatter = scatter_of(tree, shape);
    uint number_a = number_of(shape_a), number_b = number_of(shape_b);
    const double *scatter_a = number_a == NONE ? nullptr : scatter_of(tree, number_a);
    const double *scatter_b = number_b == NONE ? nullptr : scatter_of(tree, number_b);
    Matrix elements(p);
    // All elements are read before the first is written, so no read waits for another read.
    elements.for_each([&](uint at, int, int, double &both) {
      both = scatter_a ? scatter_a[at] : 0.0;
      if (scatter_b) both = both + scatter_b[at];
    });
    elements.for_each([&](uint at, int i, int j, double both) {
      scatter[at] = merged_scatter(weight * room.difference()[i], room.difference()[j], both);
    });
    if (has_full_distances(tree) && threadIdx.x < WARP)
      unite_moments(tree, shape, number_a, size_a, number_b, size_b, room);
  }
  // A union with this union needs neither its factor nor its query.
  publish(posted, job.id, false);
  Whitening found = {true, 1, 0, 0};
  // Without a barrier, as each thread goes on with the elements that it has written.
  if (shape != NONE) shape = shape_up(tree, shape, members, found, room);
  __syncthreads();
  if (k == 0) tree.shapes[node] = shape;
  shape = make_query(tree, clusters, query, mean, shape, members, found, room);
  float *row = speculative_row(tree, node);
  FOR_EACH(k, p + SCALARS) row[k] = row_of_query(query, p, shape, k);
  return true;
}
