// Lists the near balls and regions of a search, by a block: those that may have a cluster below the
// limit of the search.

#pragma once

#include "tree/query.cuh"

// Minimum number of parts of all balls: a part has at most MAX_IN_PART balls.
__device__ __forceinline__ uint least_parts(const Tree &tree) {
  return (tree.balls + MAX_IN_PART - 1) / MAX_IN_PART;
}

// The balls of a part, by index `i` below `count`. Numbers from `tree.balls` on are no balls. Near
// balls are mostly consecutive, so parts take groups of GROUP balls round-robin.
struct PartOfBalls {
  uint part, parts, count;
  bool by_regions; // whether balls of regions that are not near are skipped
  __device__ PartOfBalls(const Tree &tree, uint part, uint parts, bool by_regions)
      : part(part), parts(parts), by_regions(by_regions) {
    uint groups = (tree.balls + GROUP - 1) / GROUP;
    count = part < groups ? (groups - part + parts - 1) / parts * GROUP : 0;
  }
  __device__ __forceinline__ uint operator()(const SearchState &, uint i) const {
    return (part + i / GROUP * parts) * GROUP + i % GROUP;
  }
};
// The balls of the listed near regions, from region `first` of the list on; MAX_IN_PART at most.
struct NearBalls {
  uint first, count;
  static constexpr bool by_regions = false; // all its regions are near
  __device__ NearBalls(const SearchState &search, uint first)
      : first(first), count(min(MAX_IN_PART, (search.near_count - first) * WARP)) {}
  __device__ __forceinline__ uint operator()(const SearchState &search, uint i) const {
    return search.regions[first + i / WARP] * WARP + i % WARP;
  }
};

// Calls `take` with each near ball among `number(i)` for i below `count`, where NONE is no ball; by
// all threads of the block. The values of a ball are `stride` apart, from `rows + ball` on.
template <class Number, class Take>
__device__ __forceinline__ void for_near_balls(uint p, const float *rows, size_t stride, uint count,
                                               const float *query, float limit, Number number,
                                               Take take) {
  Margins margins(p);
#if IS_WIDE
  uint lane = threadIdx.x % WARP;
  uint first = threadIdx.x / WARP * BALLS_AT_ONCE;
  for (uint start = first; start < count; start += WARPS * BALLS_AT_ONCE) {
    uint i = start + lane % BALLS_AT_ONCE, ball = i < count ? number(i) : NONE;
    bool near =
        shared_ball_can_compete(p, rows + ball, stride, ball != NONE, query, limit, margins);
    if (near && lane < BALLS_AT_ONCE) take(ball);
  }
#else
  for (uint i = threadIdx.x; i < count; i += THREADS) {
    uint ball = number(i);
    if (ball == NONE) continue;
    if (ball_can_compete(p, rows + ball, stride, query, limit, margins)) take(ball);
  }
#endif
}

// Lists the near regions, by all threads of the block.
__device__ __forceinline__ void find_near_regions(const Tree &tree, SearchState &search,
                                                  const float *query) {
  uint regions = regions_of(tree);
  __syncthreads();
  if (threadIdx.x == 0) search.near_count = 0;
  FOR_EACH(word, MAX_REGIONS / WARP) search.near_regions[word] = 0;
  __syncthreads();
  for_near_balls(
      tree.dimensions, tree.region_rows, regions, regions, query, search.limit,
      [&](uint i) { return i; },
      [&](uint region) {
        search.regions[atomicAdd(&search.near_count, 1)] = region;
        atomicOr(&search.near_regions[region / WARP], 1u << region % WARP);
      });
  __syncthreads();
}

// Lists the near balls of `balls`, by all threads of the block. `every_ball` skips the comparison.
template <class Balls>
__device__ __forceinline__ void list_near_balls(const Tree &tree, SearchState &search,
                                                const float *query, const Balls &balls,
                                                bool every_ball) {
  __syncthreads();
  if (threadIdx.x == 0) search.listed = 0;
  __syncthreads();
  auto number = [&](uint i) {
    uint ball = balls(search, i), region = ball / WARP;
    if (ball >= tree.balls) return NONE;
    bool is_passed_over =
        balls.by_regions && !(search.near_regions[region / WARP] >> region % WARP & 1);
    return is_passed_over ? NONE : ball;
  };
  auto take = [&](uint ball) { search.balls[atomicAdd(&search.listed, 1)] = ball; };
  if (every_ball) {
    FOR_EACH(i, balls.count) {
      uint ball = number(i);
      if (ball != NONE) take(ball);
    }
  } else {
    for_near_balls(tree.dimensions, tree.ball_rows, tree.balls, balls.count, query, search.limit,
                   number, take);
  }
  __syncthreads();
}
