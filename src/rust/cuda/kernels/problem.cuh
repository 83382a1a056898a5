// One problem, as its block sees it.

#pragma once

#include "agglomerate_launch.cuh"
#include "block.cuh"
#include "shape.cuh"

#ifdef __CUDACC_RTC__
extern __shared__ double memory[];
#endif

// The least keys of a problem's pairs, in shared memory: the positions are divided into as many
// chunks as there are threads, or fewer. Only chunks that have changed are gone over again.
struct Chunks {
  ulong values[THREADS], ties[THREADS];
  uint owners[THREADS]; // the positions of the least keys
  uint changed[THREADS];
};

// The state of a problem, and where its parts of all arrays are.
struct Problem {
  const Arrays &arrays;
  Shared &shared;
  Chunks &chunks;
  uint p, n, live; // dimensions, observations, live clusters
  ulong first;
  double diagonal;
  uint log2_terms;
  bool all_full_size; // whether all live clusters are

  // The positions of a chunk: those of whole warps.
  __device__ __forceinline__ uint chunk_length() const {
    return max((n + THREADS - 1) / THREADS, (uint)WARP);
  }
  // Says that the pair of a position has changed, or its cluster.
  __device__ __forceinline__ void change(uint position) const {
    chunks.changed[position / chunk_length()] = 1;
  }

  // In shared memory, as the compiler should know: a triangle to work in, and vectors.
  __device__ __forceinline__ double *factor() const { return memory; }
  __device__ __forceinline__ double *line() const { return memory + banded_length(p); }
  __device__ __forceinline__ double *raw() const { return line() + p; }
  // While factors are made, the triangle is not used.
  __device__ __forceinline__ double *next() const { return factor(); }
  __device__ __forceinline__ double *mean() const { return raw() + p; }
  __device__ __forceinline__ double *scratch() const { // 2p for each warp
    return mean() + (DIMENSIONS ? DIMENSIONS : p);
  }

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
  // As many coordinates may be read as points in registers have.
  __device__ const double *observation(uint i) const { return arrays.x + (first + i) * p; }

  // The number of the whitening factor at a position, NONE for the identity.
  __device__ uint shape_at(uint position) const {
    uint shape = arrays.shapes[first + position];
    return shape & IDENTITY ? NONE : shape;
  }
};

// Copies the mean at a position to shared memory, filled up with zeros.
template <int P> __device__ __forceinline__ void read_mean(const Problem &problem, uint position) {
  FOR_EACH(k, P ? P : problem.p)
  problem.mean()[k] = k < problem.p ? problem.mean_at(k, position) : 0;
}
