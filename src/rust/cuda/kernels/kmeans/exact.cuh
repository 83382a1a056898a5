// Compares observations with all centers in double precision: kmeans/exact.rs.

#pragma once

#include "base.cuh"
#include "kmeans/launch.cuh"

// Number of coordinates in shared memory at a time.
#define EXACT_DEPTH 4
// Padding between coordinates, so that neighbouring threads write to different banks.
#define GAP 8
#define FETCHED (ROWS * EXACT_DEPTH / THREADS)

// Assigns the open observations to their nearest centers; among equally near centers, to the one
// with the smallest number. Blocks take tiles of observations in turn, because only the device
// knows their number.
extern "C" __global__ void __launch_bounds__(THREADS, 2) decide(Lloyd lloyd) {
  // Two buffers of each: one is filled while the other is read.
  __shared__ double rows[2][EXACT_DEPTH][ROWS + GAP];
  __shared__ double centers[2][EXACT_DEPTH][CENTERS + GAP];
  __shared__ uint of_tile[ROWS];
  uint across = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS, count = *lloyd.open_count;
  // The values that a thread loads into shared memory: one coordinate of some observations and of a
  // center. They are requested while the previous coordinates are processed.
  uint depth = threadIdx.x % EXACT_DEPTH, at = threadIdx.x / EXACT_DEPTH;
  bool changed = false;
  for (uint first = blockIdx.x * ROWS; first < count; first += gridDim.x * ROWS) {
    __syncthreads();
    if (threadIdx.x < ROWS)
      of_tile[threadIdx.x] = first + threadIdx.x < count ? lloyd.open[first + threadIdx.x] : NONE;
    __syncthreads();
    double sums[ROWS_EACH][CENTERS_EACH] = {};
    double least[ROWS_EACH];
    uint nearest[ROWS_EACH];
#pragma unroll
    for (int i = 0; i < ROWS_EACH; i++) {
      least[i] = infinity();
      nearest[i] = 0;
    }

    double next_row[FETCHED], next_center;
    uint next_tile = 0, next_start = 0;
    auto fetch = [&]() {
      uint k = next_start + depth;
#pragma unroll
      for (int i = 0; i < FETCHED; i++) {
        uint row = of_tile[at + i * (ROWS / FETCHED)];
        bool there = k < lloyd.columns && row != NONE;
        next_row[i] = there ? lloyd.x[(size_t)row * lloyd.columns + k] : 0;
      }
      uint center = next_tile + at;
      bool there = k < lloyd.columns && center < lloyd.clusters;
      next_center = there ? lloyd.centers[(size_t)center * lloyd.columns + k] : 0;
      next_start += EXACT_DEPTH;
      if (next_start >= lloyd.columns) next_tile += CENTERS, next_start = 0;
    };
    fetch();
    for (uint tile = 0, start = 0, half = 0; tile < lloyd.clusters; half ^= 1) {
#pragma unroll
      for (int i = 0; i < FETCHED; i++) rows[half][depth][at + i * (ROWS / FETCHED)] = next_row[i];
      centers[half][depth][at] = next_center;
      __syncthreads();
      if (next_tile < lloyd.clusters) fetch();
#pragma unroll
      for (uint k = 0; k < EXACT_DEPTH; k++) {
        // Zeros beyond the last coordinate add nothing.
        double row[ROWS_EACH], center[CENTERS_EACH];
#pragma unroll
        for (int i = 0; i < ROWS_EACH; i++) row[i] = rows[half][k][i * DOWN + down];
#pragma unroll
        for (int j = 0; j < CENTERS_EACH; j++) center[j] = centers[half][k][j * ACROSS + across];
#pragma unroll
        for (int i = 0; i < ROWS_EACH; i++)
#pragma unroll
          for (int j = 0; j < CENTERS_EACH; j++) {
            double difference = row[i] - center[j];
            sums[i][j] += difference * difference;
          }
      }
      start += EXACT_DEPTH;
      if (start < lloyd.columns) continue;
#pragma unroll
      for (int j = 0; j < CENTERS_EACH; j++) {
        uint center = tile + j * ACROSS + across;
#pragma unroll
        for (int i = 0; i < ROWS_EACH; i++) {
          if (center < lloyd.clusters && sums[i][j] < least[i]) {
            least[i] = sums[i][j];
            nearest[i] = center;
          }
          sums[i][j] = 0;
        }
      }
      tile += CENTERS;
      start = 0;
    }

#pragma unroll
    for (int i = 0; i < ROWS_EACH; i++) {
#pragma unroll
      for (int step = ACROSS / 2; step > 0; step /= 2) {
        double square = __shfl_xor_sync(WHOLE_WARP, least[i], step);
        uint center = __shfl_xor_sync(WHOLE_WARP, nearest[i], step);
        if (square < least[i] || (square == least[i] && center < nearest[i])) {
          least[i] = square;
          nearest[i] = center;
        }
      }
      uint row = of_tile[i * DOWN + down];
      if (across > 0 || row == NONE || lloyd.cluster[row] == nearest[i]) continue;
      lloyd.cluster[row] = nearest[i];
      changed = true;
    }
  }
  if (changed) *lloyd.changed = 1;
}
