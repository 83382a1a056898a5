// The argument of a sweep, shared by the host, neighbours.cu and products.cu.
// src/neighbours/sweep.rs has the same definitions, and a test compares them.

#pragma once

#include "base.cuh"

// The scalars of a reference or a query, after its coordinates. SCALARS is the number of scalars.
enum Scalar { ERROR, FACTOR, HALF, ALLOWANCE, SCALARS };

// How a bound follows from a sum: Epilog of single/sums.rs.
enum Kind { NORM, NORM_OF_PRODUCTS, SUM, ANGLE };

// A sweep for the neighbours of some queries. Value k of reference i (coordinates, then scalars) is
// at k * stride + i * step.
struct Sweep {
  double shrink, margin;
  const float *references; // coordinates, then SCALARS
  const uint *groups;      // group of each reference
  const float *queries;    // coordinates, then SCALARS
  const uint *query_groups;
  float *slopes, *bases; // threshold of each query: slope * FACTOR + base
  ulong *candidates;     // `room` for each query: sum or bound, then position
  ulong *floors; // of each query: all other references within the limit have keys from this key on
  uint *counts;  // number of candidates of each query, including those that found no room
  uint *kept;    // number of candidates that already are keys
  ulong stride, step, query_stride, query_step;
  uint columns, query_count, kind, capacity, room; // `columns` values come before the scalars
  uint first, last;                                // references of this launch

  __device__ float reference(uint scalar, uint i) const {
    return references[(columns + scalar) * stride + i * step];
  }
  __device__ float query(uint scalar, uint i) const {
    return queries[(columns + scalar) * query_stride + i * query_step];
  }
};
