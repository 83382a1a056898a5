// Merges all clusters of a linkage by means (neighbours/cluster_means.rs) to one, in rounds of
// reciprocal nearest neighbours, as linkage/geometric/reciprocal_merges.rs does. All distances have
// the bits of that code.
//
// A round is a launch of each of six kernels:
// - `merge` merges all pairs of clusters that are nearest to each other;
// - `collect` lists the remaining clusters, and those among them whose nearest cluster is not known
//   any more: unions, and clusters whose nearest cluster was merged;
// - `sweep` compares the latter, the queries, with all remaining clusters, the references, in
//   single precision;
// - `decide` writes the nearest cluster of each query, if the second nearest is so much farther
//   that rounding cannot matter, and lists the other queries as open;
// - `search` compares open queries with all references in double precision;
// - `settle` writes their nearest clusters.
// Before the first round, the last four find the nearest cluster of each cluster, unless the host
// knows them. The host launches several rounds at a time; a round after the last merge does
// nothing.
//
// The linkages are reducible: a union is not nearer to a cluster than the nearer of its parts. So
// the nearest cluster of a cluster stays the nearest until one of both is merged. If distances tie,
// nearest clusters may form a cycle, so that a round has no merge. Then all are searched for again.
//
// The CPU's code does the same, with one exception: in a round with many searches for each merge,
// it puts off searches. This changes the merges only if distances tie. Kernels report both,
// `crowded` and `tied`, and the host then leaves the merges to that code.

#include "mean_linkage/search.cuh"

// Number of pairs of open queries and references.
__device__ __forceinline__ ulong open_pairs(const Clusters &all, uint round) {
  return (ulong)all.counts->open * all.counts->live[round % 2];
}

// Finds the nearest references in single precision of all queries after a round. Any number of
// blocks.
extern "C" __global__ void __launch_bounds__(THREADS, 2) sweep(Clusters all, uint round) {
  __shared__ __align__(16) Memory<float> memory;
  if (all.counts->given_up) return;
  search_all(all, all.changed, all.counts->changed, round, memory);
}

// Finds the nearest references of all open queries after a round, unless there are too many. Any
// number of blocks.
extern "C" __global__ void __launch_bounds__(THREADS, 2) search(Clusters all, uint round) {
  __shared__ __align__(16) Memory<double> memory;
  if (open_pairs(all, round) > all.most_open) return;
  search_all(all, all.open, all.counts->open, round, memory);
}

// The distance of two clusters in double precision.
__device__ __forceinline__ double distance(const Clusters &all, uint i, uint j) {
  const double *a = all.means + (size_t)i * all.columns, *b = all.means + (size_t)j * all.columns;
  double sum = 0;
  for (uint k = 0; k < all.columns; k++) add_square(sum, a[k] - b[k]);
  const double *weights = weights_of(all);
  return distance_of(all.linkage, sum, weights[i], weights[j]);
}

// Writes the nearest cluster of each query after a round, or lists the query as open. As many
// blocks as `sweep`, since the items depend on their number.
extern "C" __global__ void __launch_bounds__(THREADS) decide(Clusters all, uint round) {
  Counts &counts = *all.counts;
  if (counts.given_up) return;
  uint queries = counts.changed, lane = threadIdx.x % WARP;
  uint merges = counts.merges - counts.merges_after[(round + 1) % 2];
  if (round > 0 && merges > 0 && queries > (ulong)all.searches_per_merge * merges)
    counts.crowded = 1;
  Items items(queries, counts.live[round % 2]);
  const double *weights = weights_of(all);
  uint step = gridDim.x * THREADS;
  for (uint i = blockIdx.x * THREADS + threadIdx.x; i - lane < queries; i += step) {
    uint slot = i < queries ? all.changed[i] : NONE;
    bool is_open = false;
    if (slot != NONE) {
      Nearest<float> nearest = found<float>(all, items, i, 0, 1);
      // The last cluster has no other one.
      is_open = nearest.slot != NONE &&
                nearest.second <= farthest(all, nearest.least, float(weights[slot]));
      if (!is_open) {
        all.nearest[slot] = nearest.slot;
        all.distances[slot] = nearest.slot == NONE ? infinity() : distance(all, slot, nearest.slot);
      }
    }
    append(all.open, &counts.open, slot, is_open);
  }
}

// Writes the nearest cluster of each open query after a round, by a warp for each query. As many
// blocks as `search`.
extern "C" __global__ void __launch_bounds__(THREADS) settle(Clusters all, uint round) {
  Counts &counts = *all.counts;
  uint queries = counts.open;
  bool are_too_many = open_pairs(all, round) > all.most_open;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    ulong pairs = (ulong)counts.changed * counts.live[round % 2];
    counts.compared += pairs + OPEN_COST * open_pairs(all, round);
    if (are_too_many) counts.given_up = 1;
  }
  if (are_too_many) return;
  Items items(queries, counts.live[round % 2]);
  const double *weights = weights_of(all);
  uint lane = threadIdx.x % WARP, first = (blockIdx.x * THREADS + threadIdx.x) / WARP;
  for (uint i = first; i < queries; i += gridDim.x * (THREADS / WARP)) {
    Nearest<double> nearest = found<double>(all, items, i, lane, WARP);
    for (uint offset = WARP / 2; offset > 0; offset /= 2)
      nearest.add({__shfl_xor_sync(WHOLE_WARP, nearest.least, offset),
                   __shfl_xor_sync(WHOLE_WARP, nearest.second, offset),
                   __shfl_xor_sync(WHOLE_WARP, nearest.slot, offset)});
    if (lane > 0) continue;
    uint slot = all.open[i];
    all.nearest[slot] = nearest.slot;
    all.distances[slot] = nearest.least;
    if (nearest.second <= farthest(all, nearest.least, weights[slot])) counts.tied = 1;
  }
}

// Writes the mean, the size and half the variance of the union of two clusters to the lower slot,
// and empties the higher slot, by all threads of a warp. As ClusterMeans::merge.
__device__ __forceinline__ void unite(const Clusters &all, uint lower, uint higher) {
  uint lane = threadIdx.x % WARP;
  double *to = all.means + (size_t)lower * all.columns;
  const double *from = all.means + (size_t)higher * all.columns;
  double a = all.sizes[lower], b = all.sizes[higher];
  double share = all.linkage == MCQUITTY ? 0.5 : b / (a + b), sum = 0;
  for (uint start = 0; start < all.columns; start += WARP) {
    uint k = start + lane;
    double square = 0;
    if (k < all.columns) {
      double difference = from[k] - to[k], mean = to[k] + share * difference;
      to[k] = mean;
      all.single_means[(size_t)lower * all.columns + k] = mean * all.scale;
      square = difference * difference;
    }
    if (all.linkage == WARD) continue;
    // In the order of the coordinates.
    for (uint i = 0; i < WARP; i++) sum += __shfl_sync(WHOLE_WARP, square, i);
  }
  // All threads have read the sizes.
  __syncwarp();
  if (lane > 0) return;
  double v = all.variances[lower], w = all.variances[higher];
  all.variances[lower] = (1.0 - share) * v + share * w + 0.5 * share * (1.0 - share) * sum;
  all.sizes[lower] = a + b;
  all.sizes[higher] = 0;
}

// Merges all reciprocal pairs of the clusters that remained after the round before, each by a warp.
// Any number of blocks.
extern "C" __global__ void __launch_bounds__(THREADS) merge(Clusters all, uint round) {
  Counts &counts = *all.counts;
  if (counts.given_up) return;
  uint first = blockIdx.x * THREADS + threadIdx.x, before = counts.live[(round + 1) % 2];
  if (first == 0) counts.changed = counts.open = counts.live[round % 2] = 0;
  const uint *live = live_after(all, round + 1);
  for (uint i = first / WARP; i < before; i += gridDim.x * (THREADS / WARP)) {
    uint lower = live[i], higher = all.nearest[lower];
    if (higher == NONE || higher < lower || all.nearest[higher] != lower) continue;
    unite(all, lower, higher);
    if (threadIdx.x % WARP == 0) {
      uint at = atomicAdd(&counts.merges, 1u);
      all.heights[at] = all.distances[lower];
      all.lower[at] = lower;
      all.higher[at] = higher;
      all.merged_in[lower] = all.merged_in[higher] = round;
    }
  }
}

// Lists the clusters that remain after a round, and those among them to search for: all if the
// round had no merge. Any number of blocks.
extern "C" __global__ void __launch_bounds__(THREADS) collect(Clusters all, uint round) {
  Counts &counts = *all.counts;
  if (counts.given_up) return;
  uint merges = counts.merges - counts.merges_after[(round + 1) % 2];
  if (blockIdx.x == 0 && threadIdx.x == 0) counts.merges_after[round % 2] = counts.merges;
  uint before = counts.live[(round + 1) % 2], lane = threadIdx.x % WARP;
  const uint *live = live_after(all, round + 1);
  uint step = gridDim.x * THREADS;
  for (uint i = blockIdx.x * THREADS + threadIdx.x; i - lane < before; i += step) {
    uint slot = i < before ? live[i] : NONE;
    bool remains = slot != NONE && all.sizes[slot] > 0, has_changed = false;
    if (remains) {
      uint nearest = all.nearest[slot];
      has_changed = merges == 0 || all.merged_in[slot] == round ||
                    nearest != NONE && all.merged_in[nearest] == round;
    }
    append(live_after(all, round), &counts.live[round % 2], slot, remains);
    append(all.changed, &counts.changed, slot, has_changed);
  }
}

// Makes the copy of all means in single precision. Any number of blocks.
extern "C" __global__ void __launch_bounds__(THREADS) convert(Clusters all, uint clusters) {
  size_t count = (size_t)clusters * all.columns, step = (size_t)gridDim.x * THREADS;
  for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += step)
    all.single_means[i] = all.means[i] * all.scale;
}
