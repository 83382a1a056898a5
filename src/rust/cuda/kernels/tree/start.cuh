// The searches at the start of a tree, for the nearest older clusters of each cluster. At the
// start, clusters at lower positions are older.

#pragma once

#include "tree/decide.cuh"

// Number of found clusters for which a warp has room, for each of its points.
#define ROOM_OF_POINT (2 * WARP)
static_assert(WARP % POINTS_A_WARP == 0, "all in one ball");
static_assert(CANDIDATES <= ROOM_OF_POINT - WARP, "room for those of another ball");

// Value of `counts` for a point whose candidates its warp has not found.
#define NOT_FOUND NONE

// ---- points ----

// Working memory of a warp that searches for points: clusters without a shape, with centroid
// distances. For each point: its row, the limit of bounds, and the clusters found below the limit.
struct PointSearch {
  __align__(16) float means[POINTS_A_WARP][DIMENSIONS];
  float bounds[POINTS_A_WARP][ROOM_OF_POINT];
  uint positions[POINTS_A_WARP][ROOM_OF_POINT];
  float lows[POINTS_A_WARP], errors[POINTS_A_WARP], limits[POINTS_A_WARP];
  uint counts[POINTS_A_WARP];
};

// Reads `count` points from position `first` on, by a warp.
__device__ __forceinline__ void read_points(const Clusters &clusters, PointSearch &search,
                                            uint first, uint count) {
  uint p = clusters.dimensions, lane = threadIdx.x % WARP;
  auto element = [&](uint k, uint q) { return row_at(clusters, first + q)[k * ROW_STRIDE]; };
  for (uint e = lane; e < POINTS_A_WARP * DIMENSIONS; e += WARP) {
    uint q = e % POINTS_A_WARP, k = e / POINTS_A_WARP;
    search.means[q][k] = q < count && k < p ? element(k, q) : 0;
  }
  if (lane < count) {
    search.lows[lane] = element(p + LOW, lane);
    search.errors[lane] = element(p + ERROR, lane);
    search.limits[lane] = single_infinity();
    search.counts[lane] = 0;
  }
  __syncwarp();
}

// Lowers the limit of a point so that about CANDIDATES of the found clusters are below it, and
// removes the others; by a warp. Returns false if too many remain, because their bounds are equal.
__device__ __forceinline__ bool tighten(PointSearch &search, uint q) {
  uint lane = threadIdx.x % WARP, count = search.counts[q];
  float *bounds = search.bounds[q];
  uint *positions = search.positions[q];
  float mine[2];
  uint at[2], ranks[2] = {}, chosen[2], kept[2];
#pragma unroll
  for (uint half = 0; half < 2; half++) {
    uint i = half * WARP + lane;
    mine[half] = i < count ? bounds[i] : single_infinity();
    at[half] = i < count ? positions[i] : NONE;
  }
  for (uint j = 0; j < count; j++) {
    float other = bounds[j];
#pragma unroll
    for (uint half = 0; half < 2; half++)
      ranks[half] += other < mine[half] || (other == mine[half] && j < half * WARP + lane);
  }
#pragma unroll
  for (uint half = 0; half < 2; half++)
    chosen[half] = __ballot_sync(WHOLE_WARP, ranks[half] == CANDIDATES - 1 && at[half] != NONE);
  float last = chosen[0] != 0 ? __shfl_sync(WHOLE_WARP, mine[0], __ffs(chosen[0]) - 1)
                              : __shfl_sync(WHOLE_WARP, mine[1], __ffs(chosen[1]) - 1);
  float limit = next_above(last);
#pragma unroll
  for (uint half = 0; half < 2; half++) kept[half] = __ballot_sync(WHOLE_WARP, mine[half] < limit);
  uint left = __popc(kept[0]) + __popc(kept[1]);
  if (left > ROOM_OF_POINT - WARP) return false;
  __syncwarp();
#pragma unroll
  for (uint half = 0; half < 2; half++) {
    if (!(kept[half] >> lane & 1)) continue;
    uint to = half * __popc(kept[0]) + lanes_before(kept[half]);
    bounds[to] = mine[half];
    positions[to] = at[half];
  }
  if (lane == 0) {
    search.counts[q] = left;
    search.limits[q] = limit;
  }
  __syncwarp();
  return true;
}

// The squares of the distances between a warp's points and a cluster, or the centre of a ball. In
// wide trees, coordinates are read once for all points.
struct SquaresToPoints {
#if IS_WIDE
  float squares[POINTS_A_WARP] = {};
  __device__ SquaresToPoints(uint p, const PointSearch &search, const float *first, size_t stride) {
#pragma unroll 8
    for (uint k = 0; k < p; k++) {
      float x = first[k * stride];
#pragma unroll
      for (uint q = 0; q < POINTS_A_WARP; q++) {
        float d = search.means[q][k] - x;
        squares[q] = fmaf(d, d, squares[q]);
      }
    }
  }
  __device__ __forceinline__ float to(uint, const PointSearch &, uint point) const {
    float square = squares[0];
#pragma unroll
    for (uint q = 1; q < POINTS_A_WARP; q++) square = point == q ? squares[q] : square;
    return square;
  }
#else
  TreePoint cluster;
  __device__ SquaresToPoints(uint p, const PointSearch &, const float *first, size_t stride)
      : cluster(p, first, stride) {}
  __device__ __forceinline__ float to(uint p, const PointSearch &search, uint point) const {
    return cluster.square(p, search.means[point]);
  }
#endif
};

// A bit for each point for which a ball, whose values are `stride` apart, may have a near cluster.
__device__ __forceinline__ uint near_points(uint p, const PointSearch &search, uint count,
                                            const float *ball, size_t stride,
                                            const Margins &margins) {
  SquaresToPoints squares(p, search, ball, stride);
  float radius = ball[(p + RADIUS) * stride], low = ball[(p + BALL_LOW) * stride];
  uint near = 0;
  for (uint q = 0; q < count; q++) {
    float square = squares.to(p, search, q);
    if (ball_competes(square, radius + search.errors[q], search.lows[q] + low, search.limits[q],
                      margins))
      near |= 1u << q;
  }
  return near;
}

// Compares the clusters in a ball with a warp's points, by the warp. `first` is the position of the
// first point; `wanted` has a bit for each point to compare. Returns a bit for each point that has
// no room for its near clusters.
__device__ __forceinline__ uint compare_points(const Clusters &clusters, PointSearch &search,
                                               uint first, uint ball, uint wanted,
                                               const Margins &margins) {
  uint p = clusters.dimensions, lane = threadIdx.x % WARP, position = ball * WARP + lane,
       failed = 0;
  SquaresToPoints squares(p, search, row_at(clusters, position), ROW_STRIDE);
  const float *scalars = row_at(clusters, position) + p * ROW_STRIDE;
  float target_low = scalars[LOW * ROW_STRIDE];
  float target_error = scalars[ERROR * ROW_STRIDE];
  for (; wanted != 0; wanted &= wanted - 1) {
    uint q = __ffs(wanted) - 1;
    float limit = search.limits[q];
    float square = squares.to(p, search, q);
    float low = search.lows[q] + target_low, error = search.errors[q] + target_error;
    bool near = position < first + q && may_be_near(square, low, error, limit, margins);
    if (!__any_sync(WHOLE_WARP, near)) continue;
    float distance = fmaxf(__fsqrt_rn(square) * margins.shrink - error, 0.0f);
    float value;
    near = is_below(distance * low, limit, margins, value) && near;
    uint mask = __ballot_sync(WHOLE_WARP, near), before = search.counts[q];
    if (before + __popc(mask) > ROOM_OF_POINT) {
      if (!tighten(search, q)) {
        failed |= 1u << q;
        continue;
      }
      near = near && value < search.limits[q];
      mask = __ballot_sync(WHOLE_WARP, near);
      before = search.counts[q];
    }
    __syncwarp();
    if (near) {
      uint to = before + lanes_before(mask);
      search.bounds[q][to] = value;
      search.positions[q][to] = position;
    }
    if (lane == 0) search.counts[q] = before + __popc(mask);
    __syncwarp();
  }
  return failed;
}

// Makes the nearest clusters found for a point the candidates of its slot, by a warp. At most WARP
// clusters may have been found.
__device__ __forceinline__ void keep_nearest_of_point(const Tree &tree, const PointSearch &search,
                                                      uint q, uint slot) {
  uint p = tree.dimensions, lane = threadIdx.x % WARP, other = NONE;
  float limit = search.limits[q];
  double least = limit < single_infinity() ? (double)limit * tree.unit : infinity();
  Key floor = {(ulong)__double_as_longlong(least), 0}, key = {INFINITY_BITS, ~0ull};
  if (lane < search.counts[q]) {
    other = tree.slots_at[search.positions[q][lane]];
    const double *mean = mean_of(tree, slot), *its = mean_of(tree, other);
    double square = 0;
#pragma unroll 8
    for (uint k = 0; k < p; k++) {
      double difference = mean[k] - its[k];
      square = fma(difference, difference, square);
    }
    key = {(ulong)__double_as_longlong(sqrt(square)), pair_tie(slot, other)};
  }
  bool is_below = other != NONE && key < floor;
  if (!is_below) key = {INFINITY_BITS, ~0ull};
  uint rank = 0, below = __popc(__ballot_sync(WHOLE_WARP, is_below));
#pragma unroll 4
  for (uint j = 0; j < WARP; j++) {
    Key its = {__shfl_sync(WHOLE_WARP, key.value, j), __shfl_sync(WHOLE_WARP, key.tie, j)};
    rank += its < key;
  }
  size_t start = (size_t)slot * CANDIDATES;
  if (is_below && rank < CANDIDATES) {
    tree.candidate_values[start + rank] = key.value;
    tree.candidate_slots[start + rank] = other;
    tree.candidate_ids[start + rank] = id_at(tree, other);
  }
  // A floor comes before the pair with the same slots.
  uint next = __ballot_sync(WHOLE_WARP, is_below && rank == CANDIDATES);
  Key first_left = {key.value, key.tie & ~1ull};
  if (next == 0 ? lane == 0 : lane == __ffs(next) - 1) {
    if (next != 0) floor = first_left;
    tree.floor_values[slot] = __longlong_as_double(floor.value);
    tree.floor_ties[slot] = floor.tie;
    tree.counts[slot] = min(below, (uint)CANDIDATES);
  }
  __syncwarp();
  write_head(tree, slot);
}

// Searches for the nearest older clusters of the points at `count` positions, by a warp. All
// clusters must be points.
__device__ void search_points(const Tree &tree, const Clusters &clusters, uint first, uint count,
                              PointSearch &search) {
  uint p = tree.dimensions, lane = threadIdx.x % WARP, failed = 0;
  uint own = first / WARP, regions = regions_of(tree);
  Margins margins(p);
  read_points(clusters, search, first, count);
  auto fail = [&](uint which) {
    failed |= which;
    // No bound is below a limit of 0.
    if (which >> lane & 1) search.limits[lane] = 0;
    __syncwarp();
  };
  // Backwards, because clusters at the positions just before are near.
  for (uint end = own / WARP + 1; end > 0; end -= min(end, (uint)WARP)) {
    uint region = end - 1 - lane;
    bool is_near = lane < end &&
                   near_points(p, search, count, tree.region_rows + region, regions, margins) != 0;
    for (uint left = __ballot_sync(WHOLE_WARP, is_near); left != 0; left &= left - 1) {
      uint ball = (end - __ffs(left)) * WARP + WARP - 1 - lane;
      uint wanted = ball <= own
                        ? near_points(p, search, count, tree.ball_rows + ball, tree.balls, margins)
                        : 0;
      for (uint balls = __ballot_sync(WHOLE_WARP, wanted != 0); balls != 0; balls &= balls - 1) {
        uint source = __ffs(balls) - 1;
        uint its = __shfl_sync(WHOLE_WARP, ball, source);
        uint points = __shfl_sync(WHOLE_WARP, wanted, source) & ~failed;
        uint full = compare_points(clusters, search, first, its, points, margins);
        if (full != 0) fail(full);
      }
    }
  }
  for (uint q = 0; q < count; q++) {
    uint slot = tree.slots_at[first + q];
    bool found = !(failed >> q & 1) && (search.counts[q] <= WARP || tighten(search, q));
    if (found)
      keep_nearest_of_point(tree, search, q, slot);
    else if (lane == 0)
      tree.counts[slot] = NOT_FOUND;
  }
}

// ---- any clusters ----

// Searches for the nearest older clusters of the active cluster at a position, by all threads of
// the block.
__device__ void search_at_start(const Tree &tree, const Clusters &clusters, uint position,
                                uint slot, SearchState &search, float *query, Entries &entries,
                                Workspace &room) {
  __syncthreads();
  if (threadIdx.x == 0) {
    search.job.slot = search.job.node = slot;
    search.job.skipped = 0;
    search.births_below = tree.births[slot];
  }
  write_query(clusters, row_at(clusters, position), ROW_STRIDE, query);
  // The clusters at the positions just before are near: they give a limit.
  float bound_before = single_infinity();
#if IS_WIDE
  if (threadIdx.x == 0) {
    search.near_listed = 0;
    search.limit = single_infinity();
  }
  __syncthreads();
  if (threadIdx.x < position) {
    uint before = position - 1 - threadIdx.x;
    if (tree.births_at[before] < search.births_below)
      search.near_positions[atomicAdd(&search.near_listed, 1)] = before;
  }
  __syncthreads();
  compare_listed(tree, clusters, search, query,
                 [&](uint, bool, float value, const Bound &, const Margins &, const Norms &) {
                   bound_before = fminf(bound_before, value);
                 });
#else
  Margins margins(tree.dimensions);
  if (threadIdx.x < position) {
    uint before = position - 1 - threadIdx.x;
    TreePoint point(clusters, before);
    Bound bound;
    const float *factor = query + QUERY_LENGTH;
    if (tree.births_at[before] < search.births_below &&
        loose_bound(clusters, point, before, query, factor, single_infinity(), margins, bound))
      bound_before = half_of(bound.to_query + bound.to_target, margins);
  }
#endif
  float limit = next_above(ranked(search, bound_before, WANTED - 1));
  if (!(limit < single_infinity())) limit = limit_by_minima(tree, clusters, search, query);
  Deciding on = {tree, clusters, NONE, search, query, entries, room};
  bool found = find_nearest(on, slot, slot, limit, true,
                            [&] { sweep_alone(tree, clusters, search, query); });
  if (!found && threadIdx.x == 0) {
    // A floor of 0: the sequencer will search again.
    tree.counts[slot] = 0;
    tree.floor_values[slot] = 0;
    tree.floor_ties[slot] = 0;
  }
  __syncthreads();
  if (threadIdx.x < WARP) write_head(tree, slot);
}
