// Sums over the members of clusters, in the order of the members' numbers, as in kmeans/members.rs.
// A stable sort by cluster finds the members.

#pragma once

#include "base.cuh"
#include "kmeans/launch.cuh"

// ---- the sort ----

__device__ __forceinline__ uint digit_of(const Sort &sort, uint cluster) {
  return (min(cluster, sort.greatest) >> sort.shift) % DIGITS;
}

// Counts the digits of each warp's part.
__device__ void count_of_warps(const Sort &sort, uint counts[WARPS][DIGITS]) {
  uint lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  for (uint i = threadIdx.x; i < WARPS * DIGITS; i += THREADS) counts[i / DIGITS][i % DIGITS] = 0;
  __syncthreads();
  uint first = blockIdx.x * SORTED + warp * SORTED_EACH;
  for (uint i = first + lane; i < first + SORTED_EACH && i < sort.rows; i += WARP)
    atomicAdd(&counts[warp][digit_of(sort, sort.clusters[i])], 1u);
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS) count_digits(Sort sort) {
  __shared__ uint counts[WARPS][DIGITS];
  count_of_warps(sort, counts);
  for (uint digit = threadIdx.x; digit < DIGITS; digit += THREADS) {
    uint sum = 0;
    for (uint warp = 0; warp < WARPS; warp++) sum += counts[warp][digit];
    sort.counts[digit * sort.blocks + blockIdx.x] = sum;
  }
}

// The sum of the values of a warp's threads up to and including this thread.
__device__ __forceinline__ uint sum_until(uint value) {
  uint lane = threadIdx.x % WARP;
#pragma unroll
  for (uint step = 1; step < WARP; step *= 2) {
    uint before = __shfl_up_sync(WHOLE_WARP, value, step);
    if (lane >= step) value += before;
  }
  return value;
}

// The sum of the values of the warps before this one, of a block; `all` becomes the sum of all.
__device__ uint sum_before(uint value, uint &all) {
  __shared__ uint of_warps[WARP];
  uint lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, until = sum_until(value);
  __syncthreads();
  if (lane == WARP - 1) of_warps[warp] = until;
  __syncthreads();
  uint before = 0;
  all = 0;
  for (uint other = 0; other < SCAN_THREADS / WARP; other++) {
    uint sum = of_warps[other];
    if (other < warp) before += sum;
    all += sum;
  }
  return before;
}

// Replaces each count by the sum of the counts before it, by one block. The counts of a warp are
// consecutive, and so are the counts that its threads read together.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS) scan_counts(Sort sort) {
  uint count = DIGITS * sort.blocks, before = 0;
  for (uint start = 0; start < count; start += SCAN_THREADS * SCANNED) {
    uint first = start + threadIdx.x / WARP * WARP * SCANNED + threadIdx.x % WARP;
    uint values[SCANNED], sum = 0, all;
#pragma unroll
    for (int i = 0; i < SCANNED; i++) {
      uint at = first + i * WARP;
      values[i] = at < count ? sort.counts[at] : 0;
      sum += values[i];
    }
    uint to = before + sum_before(sum, all);
#pragma unroll
    for (int i = 0; i < SCANNED; i++) {
      uint at = first + i * WARP, until = sum_until(values[i]);
      if (at < count) sort.counts[at] = to + until - values[i];
      to += __shfl_sync(WHOLE_WARP, until, WARP - 1);
    }
    before += all;
  }
}

// Moves the observations to where their digits begin, in their order.
extern "C" __global__ void __launch_bounds__(THREADS) scatter(Sort sort) {
  // By warp: the place of the next observation with each digit.
  __shared__ uint starts[WARPS][DIGITS];
  uint lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  count_of_warps(sort, starts);
  for (uint digit = threadIdx.x; digit < DIGITS; digit += THREADS) {
    uint to = sort.counts[digit * sort.blocks + blockIdx.x];
    for (uint other = 0; other < WARPS; other++) {
      uint count = starts[other][digit];
      starts[other][digit] = to;
      to += count;
    }
  }
  __syncthreads();
  uint first = blockIdx.x * SORTED + warp * SORTED_EACH;
  for (uint start = first; start < first + SORTED_EACH && start < sort.rows; start += WARP) {
    uint i = start + lane;
    bool there = i < sort.rows;
    uint cluster = there ? min(sort.clusters[i], sort.greatest) : 0;
    uint number = !there ? 0 : sort.numbers ? sort.numbers[i] : i;
    // A thread beyond the last observation has a digit that no other thread has.
    uint digit = digit_of(sort, cluster);
    uint same = __match_any_sync(WHOLE_WARP, there ? digit : DIGITS + lane);
    uint earlier = lanes_before(same);
    uint to = starts[warp][digit] + earlier;
    __syncwarp();
    if (there && earlier == 0) starts[warp][digit] += __popc(same);
    __syncwarp();
    if (!there) continue;
    sort.sorted_clusters[to] = cluster;
    sort.sorted_numbers[to] = number;
  }
}

// ---- the sums ----

// Computes where the members of each cluster start.
extern "C" __global__ void __launch_bounds__(THREADS) find_starts(Members members) {
  uint i = blockIdx.x * THREADS + threadIdx.x;
  if (i > members.rows) return;
  uint after = i == 0 ? 0 : min(members.sorted_clusters[i - 1], members.clusters) + 1;
  uint until = members.clusters;
  if (i < members.rows) until = min(until, members.sorted_clusters[i]);
  for (uint cluster = after; cluster <= until; cluster++) members.starts[cluster] = i;
}

// Number of values that a thread loads into shared memory at a time.
#define FETCHED_EACH 8
// Number of values that a block loads into shared memory at a time.
#define FETCHED_TOGETHER (THREADS * FETCHED_EACH)
// Number of values that a thread reads from shared memory before it adds them.
#define ADDED_TOGETHER 16

// `sum` plus every `step`-th of `count` values, from number `first` on, one after the other.
__device__ __forceinline__ double plus(double sum, const double *values, uint count, uint first,
                                       uint step) {
  uint i = first;
  for (; i + (ADDED_TOGETHER - 1) * step < count; i += ADDED_TOGETHER * step) {
    double some[ADDED_TOGETHER];
#pragma unroll
    for (int j = 0; j < ADDED_TOGETHER; j++) some[j] = values[i + j * step];
#pragma unroll
    for (int j = 0; j < ADDED_TOGETHER; j++) sum += some[j];
  }
  for (; i < count; i += step) sum += values[i];
  return sum;
}

// Visits the values of a cluster's members in the columns from `start` on, `columns` of them: some
// members after the other, or parts of a member if it does not fit in shared memory. change(value,
// column) makes the value that is stored in shared memory; add(values, count) adds the stored ones.
// Meanwhile the next values are on the way.
template <typename Change, typename Add>
__device__ __forceinline__ void visit_members(const Members &members, uint cluster, uint start,
                                              uint columns, const Change &change, const Add &add) {
  __shared__ double values[FETCHED_TOGETHER];
  const uint *numbers = members.sorted_numbers + members.starts[cluster];
  uint size = members.starts[cluster + 1] - members.starts[cluster];
  uint width = min(columns, (uint)FETCHED_TOGETHER), rows = FETCHED_TOGETHER / width;
  // Of each value of this thread: the member and the column.
  uint member_of[FETCHED_EACH], column_of[FETCHED_EACH];
#pragma unroll
  for (int i = 0; i < FETCHED_EACH; i++) {
    member_of[i] = (i * THREADS + threadIdx.x) / width;
    column_of[i] = (i * THREADS + threadIdx.x) % width;
  }
  double next[FETCHED_EACH];
  // Threads beyond the last member or column load a value that is not added.
  auto fetch = [&](uint first, uint column) {
    if (first >= size) return;
    uint number[FETCHED_EACH];
#pragma unroll
    for (int i = 0; i < FETCHED_EACH; i++)
      number[i] = numbers[min(member_of[i], size - 1 - first) + first];
#pragma unroll
    for (int i = 0; i < FETCHED_EACH; i++)
      next[i] = members.x[(size_t)number[i] * members.columns + start +
                          min(column + column_of[i], columns - 1)];
  };
  fetch(0, 0);
  for (uint first = 0, column = 0; first < size;) {
    uint count = min(rows, size - first) * min(width, columns - column);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < FETCHED_EACH; i++)
      values[i * THREADS + threadIdx.x] =
          change(next[i], start + min(column + column_of[i], columns - 1));
    __syncthreads();
    column += width;
    if (column >= columns) {
      column = 0;
      first += min(rows, size - first);
    }
    fetch(first, column);
    add(values, count);
  }
}

// Moves each center to the mean of its members, if it has any. A block moves some columns of a
// center.
extern "C" __global__ void __launch_bounds__(THREADS) update(Members members) {
  uint parts = (members.columns + members.columns_each - 1) / members.columns_each;
  uint cluster = blockIdx.x / parts, start = blockIdx.x % parts * members.columns_each;
  uint columns = min(members.columns_each, members.columns - start);
  uint size = members.starts[cluster + 1] - members.starts[cluster];
  double sum = 0;
  visit_members(
      members, cluster, start, columns, [](double value, uint) { return value; },
      [&](const double *values, uint count) {
        if (threadIdx.x < columns) sum = plus(sum, values, count, threadIdx.x, columns);
      });
  if (threadIdx.x < columns && size > 0)
    members.centers[(size_t)cluster * members.columns + start + threadIdx.x] = sum / (double)size;
}

// Adds up the squared differences of each cluster's members from its center, coordinate by
// coordinate, as in kmeans/cluster.rs, by a block for each cluster. One thread adds.
extern "C" __global__ void __launch_bounds__(THREADS) sum_squares(Members members) {
  const double *center = members.centers + (size_t)blockIdx.x * members.columns;
  double sum = 0;
  visit_members(
      members, blockIdx.x, 0, members.columns,
      [&](double value, uint column) {
        double difference = value - center[column];
        return difference * difference;
      },
      [&](const double *squares, uint count) {
        if (threadIdx.x == 0) sum = plus(sum, squares, count, 0, 1);
      });
  if (threadIdx.x == 0) members.within[blockIdx.x] = sum;
}
