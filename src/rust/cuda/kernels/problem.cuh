// One problem, as its block sees it.

#pragma once

#include "agglomerate_launch.cuh"
#include "block.cuh"
#include "shape.cuh"

#ifdef __CUDACC_RTC__
extern __shared__ double memory[];
#endif

// The state of a problem, and where its parts of all arrays are.
struct Problem {
  const Arrays &arrays;
  Shared &shared;
  uint p, n, live; // dimensions, observations, live clusters
  ulong first;
  double diagonal;
  uint log2_terms;
  bool all_full_size; // whether all live clusters are

  // In shared memory, as the compiler should know: a triangle to work in, and vectors.
  __device__ __forceinline__ double *factor() const { return memory; }
  __device__ __forceinline__ double *line() const { return memory + banded_length(p); }
  __device__ __forceinline__ double *raw() const { return line() + p; }
  __device__ __forceinline__ double *mean() const { return raw() + p; }
  __device__ __forceinline__ double *scratch() const { return mean() + p; } // 2p for each warp

  __device__ double *shape_scatter(uint shape) const {
    return arrays.scatters + (first / 2 + shape) * packed_length(p);
  }
  __device__ double *shape_factor(uint shape) const {
    return arrays.factors + (first / 2 + shape) * banded_length(p);
  }
  __device__ double *shape_scalars(uint shape) const {
    return arrays.shape_scalars + (first / 2 + shape) * SHAPE_SCALARS;
  }
  __device__ double *means() const { return arrays.means + first * p; }
  __device__ double mean_at(uint k, uint position) const {
    return means()[(size_t)k * n + position];
  }
  __device__ const double *observation(uint i) const { return arrays.x + (first + i) * p; }

  // The number of the whitening factor at a position, NONE for the identity.
  __device__ uint shape_at(uint position) const {
    uint shape = arrays.shapes[first + position];
    return shape & IDENTITY ? NONE : shape;
  }
};
