// What the host, neighbours.cu and products.cu must agree on: the argument of a sweep.
// src/neighbours/sweep.rs has the same, and a test compares them.

#pragma once

#include "base.cuh"

// The scalars of a reference or a query, after its coordinates. SCALARS is their number.
enum Scalar { ERROR, FACTOR, HALF, ALLOWANCE, SCALARS };

// How a bound follows from a sum: Epilog of single/sums.rs.
enum Kind { NORM, NORM_OF_PRODUCTS, SUM, ANGLE };

// Number k of reference i, coordinates and
// then scalars, is at k * stride + i * step.
struct Sweep {
  double shrink, margin;
  const float *references; // coordinates, then SCALARS
  const uint *groups;      // of the references
  const float *queries;    // coordinates, then SCALARS
  const uint *query_groups;
  float *slopes, *bases; // thresholds of the queries
  ulong *candidates;     // `room` for each query: sum or bound, then position
  ulong *floors;         // of the queries: all else within the limit is from this key on
  uint *counts;          // of the candidates, those that found no room included
  uint *kept;            // how many of the candidates are keys already
  ulong stride, step, query_stride, query_step;
  uint columns, query_count, kind, capacity, room; // `columns` numbers are before the scalars
  uint first, last;                                // references of this launch

  __device__ float reference(uint scalar, uint i) const {
    return references[(columns + scalar) * stride + i * step];
  }
  __device__ float query(uint scalar, uint i) const {
    return queries[(columns + scalar) * query_stride + i * query_step];
  }
};
