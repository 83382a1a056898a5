// The two-level ball tree: balls around WARP consecutive positions each, and regions around WARP
// consecutive balls each. With them, a sweep skips clusters that are far from its query.

#pragma once

#include "tree/launch.cuh"

#include "block.cuh"
#include "cluster/balls.cuh"

// Number of regions.
__device__ __forceinline__ uint regions_of(const Tree &tree) {
  return (tree.balls + WARP - 1) / WARP;
}

// Minimum number of balls for which merges keep regions up to date, and shared sweeps use them.
// Searches at the start use regions for fewer balls, too. Finding the near regions takes time, and
// in many columns it rules out few regions.
#ifndef MANY_BALLS
#define MANY_BALLS (DIMENSIONS > 16 ? 16384 : 4096)
#endif
__device__ __forceinline__ bool keeps_regions(const Tree &tree) { return tree.balls >= MANY_BALLS; }

// Computes the ball around the active clusters at WARP positions, by a warp.
__device__ void enclose_clusters(const Tree &tree, const Clusters &clusters, uint ball) {
  uint p = tree.dimensions, position = ball * WARP + threadIdx.x % WARP;
  const float *row = row_at(clusters, position);
  auto element = [&](uint k) { return row[k * ROW_STRIDE]; };
  float low = element(p + LOW);
  // False for NaN, the LOW of a cluster that is gone.
  bool there = low >= 0;
  enclose_by_warp(p, element, there, there ? element(p + ERROR) : 0, low, tree.ball_rows,
                  tree.balls, ball);
}

// Computes the region around WARP balls, by a warp.
__device__ void enclose_balls(const Tree &tree, uint region) {
  uint p = tree.dimensions, ball = region * WARP + threadIdx.x % WARP;
  auto element = [&](uint k) { return tree.ball_rows[(size_t)k * tree.balls + ball]; };
  float low = ball < tree.balls ? element(p + BALL_LOW) : single_infinity();
  bool there = low < single_infinity();
  enclose_by_warp(p, element, there, there ? element(p + RADIUS) : 0, low, tree.region_rows,
                  regions_of(tree), region);
}

// Writes a union's row to its position and enlarges the ball and, if regions are used, the region
// around this position; by a warp.
__device__ void place_row(const Tree &tree, const Clusters &clusters, const float *row,
                          uint position) {
  uint p = tree.dimensions, ball = position / WARP, region = ball / WARP, lane = threadIdx.x % WARP;
  size_t regions = regions_of(tree);
  bool by_regions = keeps_regions(tree);
  float *to = row_at(clusters, position), square = 0, region_square = 0;
  for (uint k = lane; k < p + SCALARS; k += WARP) {
    float value = row[k];
    to[k * ROW_STRIDE] = value;
    if (k >= p) continue;
    float d = value - tree.ball_rows[(size_t)k * tree.balls + ball];
    float region_d = by_regions ? value - tree.region_rows[k * regions + region] : 0;
    square = fmaf(d, d, square);
    region_square = fmaf(region_d, region_d, region_square);
  }
  square = warp_sum(square);
  if (by_regions) region_square = warp_sum(region_square);
  if (lane > 0) return;
  float low = row[p + LOW], error = row[p + ERROR];
  auto enlarge = [&](float *rows, size_t count, uint at, float squares) {
    float radius = rounded_radius(p, __fsqrt_rn(squares) + error);
    // The bits of numbers that are not negative have the order of the numbers.
    atomicMax((uint *)(rows + (p + RADIUS) * count + at), __float_as_uint(radius));
    atomicMin((uint *)(rows + (p + BALL_LOW) * count + at), __float_as_uint(low));
  };
  enlarge(tree.ball_rows, tree.balls, ball, square);
  if (by_regions) enlarge(tree.region_rows, regions, region, region_square);
}
