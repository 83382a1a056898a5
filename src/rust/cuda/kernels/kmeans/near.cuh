// Compares the members of each cluster with the centers near its own, in double precision.
//
// By the triangle inequality, a member at distance u from its own center is at least D - u away
// from a center at distance D from its own. So centers with D > 2u need no comparison (Elkan 2003,
// Using the triangle inequality to accelerate k-means, lemma 1). The other centers are a prefix of
// a list, which has bins of D in increasing order.

#pragma once

#include "base.cuh"
#include "kmeans/launch.cuh"

// The sum of squared differences, in the order of kmeans/margin.rs.
__device__ __forceinline__ double square_between(const double *a, const double *b, uint columns) {
  double sum = 0;
  for (uint k = 0; k < columns; k++) {
    double difference = a[k] - b[k];
    sum += difference * difference;
  }
  return sum;
}

// If a center is farther than this from an observation's own center, it is certainly farther from
// the observation than its own center. `own` is the square of the observation's distance to its own
// center. The margins are for this sum, for the sum of the two centers (`center_distance`), and for
// the sum of the other center.
__device__ __forceinline__ double reach_of(const Lloyd &lloyd, double own) {
  return lloyd.above(lloyd.above(2 * sqrt(own)));
}

__device__ __forceinline__ double center_distance(const Lloyd &lloyd, double square) {
  return lloyd.below(lloyd.below(sqrt(square)));
}

// The bin of a distance, NEAR_BINS if it is beyond the last bin. A greater distance is in no
// smaller bin.
__device__ __forceinline__ uint near_bin_of(double distance, double scale) {
  double bin = distance * scale;
  if (!(bin < NEAR_BINS)) return NEAR_BINS;
  return bin > 0 ? (uint)bin : 0;
}

// Calls `visit` with each other center that has a bin, and its bin; by all threads of the block.
template <typename Visit>
__device__ void visit_centers(const Lloyd &lloyd, uint cluster, double scale, const double *own,
                              double *some, Visit visit) {
  // Odd, so that neighbouring threads read different banks.
  uint columns = lloyd.columns, step = columns | 1;
  for (uint first = 0; first < lloyd.clusters; first += NEAR_THREADS) {
    uint count = min((uint)NEAR_THREADS, lloyd.clusters - first);
    const double *centers = lloyd.centers + (size_t)first * columns;
    __syncthreads();
    for (uint i = threadIdx.x; i < count * columns; i += NEAR_THREADS)
      some[i / columns * step + i % columns] = centers[i];
    __syncthreads();
    if (threadIdx.x >= count || first + threadIdx.x == cluster) continue;
    double square = square_between(some + threadIdx.x * step, own, columns);
    uint bin = near_bin_of(center_distance(lloyd, square), scale);
    if (bin < NEAR_BINS) visit(first + threadIdx.x, bin);
  }
}

// Lists the centers near that of each cluster, and counts the comparisons of its members; by a
// block for each cluster.
extern "C" __global__ void __launch_bounds__(NEAR_THREADS) list_near(Lloyd lloyd, Near near) {
  __shared__ double own[NEAR_COLUMNS], some[NEAR_THREADS * (NEAR_COLUMNS | 1)];
  __shared__ double of_warps[NEAR_THREADS / WARP];
  __shared__ uint ends[NEAR_BINS], next[NEAR_BINS];
  uint cluster = blockIdx.x, columns = lloyd.columns;
  uint start = near.starts[cluster], end = near.starts[cluster + 1];
  if (start == end) return;
  for (uint k = threadIdx.x; k < columns; k += NEAR_THREADS)
    own[k] = lloyd.centers[(size_t)cluster * columns + k];
  for (uint bin = threadIdx.x; bin < NEAR_BINS; bin += NEAR_THREADS) ends[bin] = 0;
  __syncthreads();

  // The bins reach as far as the centers that may be nearer to any member.
  double farthest = 0;
  for (uint i = start + threadIdx.x; i < end; i += NEAR_THREADS) {
    const double *row = lloyd.x + (size_t)near.numbers[i] * columns;
    farthest = fmax(farthest, square_between(row, own, columns));
  }
#pragma unroll
  for (uint step = WARP / 2; step > 0; step /= 2)
    farthest = fmax(farthest, __shfl_xor_sync(WHOLE_WARP, farthest, step));
  if (threadIdx.x % WARP == 0) of_warps[threadIdx.x / WARP] = farthest;
  __syncthreads();
  for (uint warp = 0; warp < NEAR_THREADS / WARP; warp++) farthest = fmax(farthest, of_warps[warp]);
  double scale = NEAR_BINS * (1 - 1e-9) / reach_of(lloyd, farthest);

  auto count = [&](uint, uint bin) { atomicAdd(&ends[bin], 1u); };
  visit_centers(lloyd, cluster, scale, own, some, count);
  __syncthreads();
  if (threadIdx.x == 0) {
    uint sum = 0;
    for (uint bin = 0; bin < NEAR_BINS; bin++) {
      next[bin] = sum;
      sum += ends[bin];
      ends[bin] = sum <= near.room ? sum : NONE;
    }
    near.scales[cluster] = scale;
  }
  __syncthreads();
  for (uint bin = threadIdx.x; bin < NEAR_BINS; bin += NEAR_THREADS)
    near.ends[(size_t)cluster * NEAR_BINS + bin] = ends[bin];
  uint *list = near.centers + (size_t)cluster * near.room;
  visit_centers(lloyd, cluster, scale, own, some, [&](uint center, uint bin) {
    if (ends[bin] != NONE) list[atomicAdd(&next[bin], 1u)] = center;
  });

  ulong compared = 0, beyond = 0;
  for (uint i = start + threadIdx.x; i < end; i += NEAR_THREADS) {
    const double *row = lloyd.x + (size_t)near.numbers[i] * columns;
    uint bin = near_bin_of(reach_of(lloyd, square_between(row, own, columns)), scale);
    uint until = bin < NEAR_BINS ? ends[bin] : NONE;
    if (until == NONE) {
      beyond++;
    } else {
      compared += until;
    }
  }
#pragma unroll
  for (uint step = WARP / 2; step > 0; step /= 2) {
    compared += __shfl_xor_sync(WHOLE_WARP, compared, step);
    beyond += __shfl_xor_sync(WHOLE_WARP, beyond, step);
  }
  if (threadIdx.x % WARP > 0) return;
  atomicAdd(&near.counts[0], compared);
  atomicAdd(&near.counts[1], beyond);
}

// Assigns members to their nearest centers; among equally near centers, to the one with the
// smallest number. Members beyond the listed bins become open. By some blocks for each cluster.
extern "C" __global__ void __launch_bounds__(NEAR_THREADS) assign_near(Lloyd lloyd, Near near) {
  __shared__ double rows[NEAR_COLUMNS][NEAR_THREADS], some[NEAR_TOGETHER * NEAR_COLUMNS];
  __shared__ uint numbers[NEAR_TOGETHER], most;
  uint cluster = blockIdx.x, columns = lloyd.columns;
  uint start = near.starts[cluster], end = near.starts[cluster + 1];
  const double *own = lloyd.centers + (size_t)cluster * columns;
  const uint *list = near.centers + (size_t)cluster * near.room;
  bool changed = false;
  for (uint first = start + blockIdx.y * NEAR_THREADS; first < end;
       first += gridDim.y * NEAR_THREADS) {
    uint row = NONE, compared = 0, nearest = cluster;
    double least = 0;
    if (first + threadIdx.x < end) {
      row = near.numbers[first + threadIdx.x];
      const double *from = lloyd.x + (size_t)row * columns;
      for (uint k = 0; k < columns; k++) rows[k][threadIdx.x] = from[k];
      least = square_between(from, own, columns);
      uint bin = near_bin_of(reach_of(lloyd, least), near.scales[cluster]);
      compared = bin < NEAR_BINS ? near.ends[(size_t)cluster * NEAR_BINS + bin] : NONE;
      if (compared == NONE) {
        lloyd.open[atomicAdd(lloyd.open_count, 1u)] = row;
        compared = 0;
      }
    }
    __syncthreads();
    if (threadIdx.x == 0) most = 0;
    __syncthreads();
    atomicMax(&most, compared);
    __syncthreads();
    for (uint from = 0, until = most; from < until; from += NEAR_TOGETHER) {
      uint count = min((uint)NEAR_TOGETHER, until - from);
      __syncthreads();
      if (threadIdx.x < count) numbers[threadIdx.x] = list[from + threadIdx.x];
      for (uint i = threadIdx.x; i < count * columns; i += NEAR_THREADS)
        some[i] = lloyd.centers[(size_t)list[from + i / columns] * columns + i % columns];
      __syncthreads();
      if (compared <= from) continue;
      uint mine = min(count, compared - from);
      for (uint c = 0; c < mine; c += 4) {
        // Sums beyond the last center are not used.
        double sums[4] = {};
        for (uint k = 0; k < columns; k++) {
          double value = rows[k][threadIdx.x];
#pragma unroll
          for (uint j = 0; j < 4; j++) {
            double difference = value - some[(c + j) * columns + k];
            sums[j] += difference * difference;
          }
        }
#pragma unroll
        for (uint j = 0; j < 4; j++) {
          if (c + j >= mine) break;
          uint center = numbers[c + j];
          if (sums[j] < least || (sums[j] == least && center < nearest)) {
            least = sums[j];
            nearest = center;
          }
        }
      }
    }
    if (nearest == cluster) continue;
    lloyd.cluster[row] = nearest;
    changed = true;
  }
  if (changed) *lloyd.changed = 1;
}
