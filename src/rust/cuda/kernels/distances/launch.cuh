// Definitions shared by the host and distances.cu. src/distances.rs has the same definitions, and a
// test compares them.

#pragma once

#include "base.cuh"

// A tile has ROWS by COLUMNS pairs. A block has ACROSS by DOWN threads, each with ROWS_EACH by
// COLUMNS_EACH pairs.
#define ACROSS 16
#define DOWN 16
#define ROWS_EACH 8
#define COLUMNS_EACH 4
#define ROWS (ACROSS * ROWS_EACH)
#define COLUMNS (DOWN * COLUMNS_EACH)
#define THREADS (ACROSS * DOWN)

// The pairs of a launch. Points are stored coordinate after coordinate: coordinate k of point i is
// at k * stride + i.
struct Piece {
  const double *points;
  double *out; // distances, from the first row of the first column on
  ulong stride;
  uint rows, columns; // number of points that form rows; number of coordinates
  uint first, last;   // range of columns of this launch, among all pairs
  uint triangle, parameter;
};
