// Removes the positions of clusters that are gone: sweeps have less to look at, and the balls
// around WARP positions are small again. The order of positions stays, so clusters at consecutive
// positions are still near each other.

#pragma once

#include "tree/launch.cuh"

#include "block.cuh"

// Computes the new position of the cluster at each of the `used` positions, NONE for a position
// without a cluster; by one block.
__device__ void find_moves(const Tree &tree, const Clusters &clusters, uint used) {
  constexpr uint LOADS = 8;
  __shared__ uint counts[WARPS];
  uint lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, before = 0;
  size_t low = (tree.dimensions + LOW) * ROW_STRIDE;
  for (uint first = 0; first < used; first += LOADS * THREADS) {
    uint mine = first + warp * LOADS * WARP + lane, count = 0;
    uint masks[LOADS];
#pragma unroll
    for (uint k = 0; k < LOADS; k++) {
      uint position = mine + k * WARP;
      // False for NaN, the LOW of a cluster that is gone.
      masks[k] = position < used && row_at(clusters, position)[low] >= 0;
    }
#pragma unroll
    for (uint k = 0; k < LOADS; k++) {
      masks[k] = __ballot_sync(WHOLE_WARP, masks[k]);
      count += __popc(masks[k]);
    }
    if (lane == 0) counts[warp] = count;
    __syncthreads();
    uint to = before;
    for (uint w = 0; w < WARPS; w++) {
      if (w < warp) to += counts[w];
      before += counts[w];
    }
#pragma unroll
    for (uint k = 0; k < LOADS; k++) {
      uint position = mine + k * WARP;
      bool there = masks[k] >> lane & 1;
      if (position < used) tree.moves[position] = there ? to + lanes_before(masks[k]) : NONE;
      to += __popc(masks[k]);
    }
    __syncthreads();
  }
}

// Moves the cluster at a position to its new position in the spare arrays, which have `left`
// clusters in the end. Also fills the last ball up with positions that have no cluster. By a thread
// for each position, by WARP threads at least.
__device__ void move_cluster(const Tree &tree, const Clusters &clusters, uint used, uint left,
                             uint position) {
  uint p = tree.dimensions;
  // The spare rows have the same layout.
  Clusters spare = clusters;
  spare.rows = tree.spare_rows;
  size_t step = ROW_STRIDE;
  uint to = position < used ? tree.moves[position] : NONE;
  if (to != NONE) {
    for (uint k = 0; k < p + SCALARS; k++)
      row_at(spare, to)[k * step] = row_at(clusters, position)[k * step];
    uint slot = tree.slots_at[position];
    tree.spare_slots_at[to] = slot;
    tree.spare_births_at[to] = tree.births_at[position];
    tree.positions[slot] = to;
  }
  uint free = left + position;
  if (free >= (left + WARP - 1) / WARP * WARP) return;
  for (uint k = 0; k < p + SCALARS; k++) row_at(spare, free)[k * step] = k == p + LOW ? GONE : 0;
  tree.spare_slots_at[free] = 0;
  tree.spare_births_at[free] = NONE;
}
