// The argument of the kernel `decide`, and its constants. src/neighbours/decision.rs has the same
// definitions, and a test compares them.

#pragma once

#include "base.cuh"

// Number of threads of a block of `decide`.
#define DECIDE_THREADS 128
// Maximum number of candidates of a query for which `decide` has shared memory.
#define MOST_CANDIDATES 1024

// A decision about the candidates of a sweep's queries.
struct Decision {
  const double *rows;  // of all points, by index: `columns` values each
  const uint *indices; // index of the point at each position
  const uint *queries; // index of each query
  double *limits;      // search radius of each query; if it stays open, a bound on its answer
  double *distances;   // of the nearest references, `wanted` for each query, nearest first
  uint *nearest;       // their indices
  uint *counts;        // number of them, or NONE if the query stays open
  double unit;         // one unit of a bound, in units of the distances
  uint columns, wanted, parameter;
};
