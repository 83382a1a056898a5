// A point in single precision, in a thread's registers or, for P = 0, in its own memory.

#pragma once

#include "cluster/bounds.cuh"

// The coordinates of a point, padded with zeros: up to P, or up to MOST_DIMENSIONS for P = 0, which
// may not fit into registers. The means that are compared with them must also be padded with zeros.
template <int P> struct Point {
  static constexpr int SIZE = P ? P : MOST_DIMENSIONS;
  float x[SIZE];
  // The coordinates are `stride` apart. No read waits for another read.
  __device__ Point(uint p, const float *first, size_t stride) {
#pragma unroll
    for (int k = 0; k < SIZE; k++) x[k] = k < p ? first[k * stride] : 0;
  }
  __device__ Point(const Clusters &clusters, uint position)
      : Point(clusters.dimensions, row_at(clusters, position), ROW_STRIDE) {}
  __device__ __forceinline__ float square(uint, const float *mean) const {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < SIZE; k++) {
      float d = mean[k] - x[k];
      sum = fmaf(d, d, sum);
    }
    return sum;
  }
  // ||W d||² for the difference d between `mean` and the point, and a factor W with padded rows,
  // see `padded_row`; or a part of the sum that already exceeds `enough`.
  __device__ __forceinline__ float whitened(uint p, const float *mean, const float *factor,
                                            float enough) const {
    float d[SIZE], sum = 0;
#pragma unroll
    for (int k = 0; k < SIZE; k++) d[k] = mean[k] - x[k];
    const float4 *rows = (const float4 *)factor;
    // Sums 4 rows of the same padded length at a time: their additions do not wait for each other.
    for (uint i = 0; i < p; i += 4) {
      uint length = i / 4 + 1;
      float values[4] = {};
#pragma unroll
      for (int group = 0; group < SIZE / 4; group++) {
        if (group >= length) break;
#pragma unroll
        for (int r = 0; r < 4; r++) {
          // If fewer rows are left, the last row is read again. The copies do not count.
          float4 w = rows[min((uint)r, p - 1 - i) * length + group];
          values[r] = fmaf(w.x, d[4 * group], values[r]);
          values[r] = fmaf(w.y, d[4 * group + 1], values[r]);
          values[r] = fmaf(w.z, d[4 * group + 2], values[r]);
          values[r] = fmaf(w.w, d[4 * group + 3], values[r]);
        }
      }
#pragma unroll
      for (int r = 0; r < 4; r++)
        if (i + r < p) sum = fmaf(values[r], values[r], sum);
      rows += 4 * length;
      if (sum > enough) break;
    }
    return sum;
  }
};
