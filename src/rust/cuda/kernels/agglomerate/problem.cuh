// The state of a problem in the block that merges it.

#pragma once

#include "agglomerate/launch.cuh"
#include "block.cuh"
#include "cluster/clusters.cuh"
#include "cluster/shape.cuh"

#ifdef __CUDACC_RTC__
extern __shared__ __align__(16) double memory[];
#endif

// The least keys of a problem's pairs, in shared memory. Positions are divided into as many chunks
// as there are threads, or fewer. Only changed chunks are searched again.
struct Chunks {
  ulong values[THREADS], ties[THREADS];
  uint owners[THREADS]; // positions of the clusters that own the pairs with the least keys
  uint changed[THREADS];
};

// The state of a problem, and its parts of all arrays. All threads of the block have the same.
struct Problem {
  const Arrays &arrays;
  Shared &shared;
  Chunks &chunks;
  uint p, n, live; // dimensions, observations, live clusters
  ulong first;
  double diagonal;
  uint log2_terms;
  uint task;          // number of the problem
  bool all_full_size; // whether all live clusters are full-size
  // The screen: number of places, and size of a screen unit in data units.
  uint places;
  double unit;

  // Number of positions of a chunk: those of whole warps.
  __device__ __forceinline__ uint chunk_length() const {
    return max((n + THREADS - 1) / THREADS, (uint)WARP);
  }
  // Notes that the pair or the cluster of a position has changed.
  __device__ __forceinline__ void change(uint position) const {
    chunks.changed[position / chunk_length()] = 1;
  }

  // Working memory, named so that the compiler knows that it is in shared memory: a triangle, and
  // vectors.
  __device__ __forceinline__ double *factor() const { return memory; }
  __device__ __forceinline__ double *line() const { return memory + banded_length(p); }
  __device__ __forceinline__ double *raw() const { return line() + p; }
  // The triangle is not used while factors are made.
  __device__ __forceinline__ double *next() const { return factor(); }
  // The point at the origin of the screen.
  __device__ __forceinline__ double *center() const { return raw() + p; }
  __device__ __forceinline__ double *mean() const { return center() + p; }
  __device__ __forceinline__ double *scratch() const { // 2p for each warp
    return mean() + (DIMENSIONS ? DIMENSIONS : p);
  }
  // The cluster whose partner is searched for, in single precision: scalars, coordinates, and the
  // factor from `query_length` on. Aligned for reads of 16 bytes.
  __device__ __forceinline__ float *query() const {
    uint before = banded_length(p) + 3 * p + (DIMENSIONS ? DIMENSIONS : p) + 2 * WARPS * p;
    return (float *)(memory + (before + 1) / 2 * 2);
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
  __device__ float *singles() const { return arrays.singles + first * p; }
  // The problem's part of the balls. Each earlier problem has at most one ball that is not full, so
  // the balls of all earlier problems are at most first / WARP + task.
  __device__ float *ball_rows() const {
    return arrays.balls + (first / WARP + task) * (p + BALL_SCALARS);
  }
  __device__ uint most_balls() const { return (n + WARP - 1) / WARP; }
  // A kernel may read up to DIMENSIONS coordinates from here on, also for the last observation: the
  // array `x` is padded (MOST_IN_REGISTERS in src/blocks/arrays.rs).
  __device__ const double *observation(uint i) const { return arrays.x + (first + i) * p; }

  // The number of the whitening factor at a position; NONE for the identity.
  __device__ uint shape_at(uint position) const {
    uint shape = arrays.shapes[first + position];
    return shape & IDENTITY ? NONE : shape;
  }
};

// Number of words of a query before its factor.
template <int P> __device__ __forceinline__ constexpr uint query_length() {
  return (COORDINATES + (P ? P : MOST_DIMENSIONS) + 3) / 4 * 4;
}

// Copies the mean of the cluster at a position to shared memory, and fills it up with zeros; by all
// threads of the block.
template <int P> __device__ __forceinline__ void read_mean(const Problem &problem, uint position) {
  FOR_EACH(k, P ? P : problem.p)
  problem.mean()[k] = k < problem.p ? problem.mean_at(k, position) : 0;
}
