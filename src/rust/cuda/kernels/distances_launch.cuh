// What the host and distances.cu must agree on. src/distances.rs has the same, and a test
// compares them.

#pragma once

#include "base.cuh"

// A tile is ROWS by COLUMNS pairs: ACROSS by DOWN threads, each with ROWS_EACH by COLUMNS_EACH.
#define ACROSS 16
#define DOWN 16
#define ROWS_EACH 8
#define COLUMNS_EACH 4
#define ROWS (ACROSS * ROWS_EACH)
#define COLUMNS (DOWN * COLUMNS_EACH)
#define THREADS (ACROSS * DOWN)

// What 0/0 is in Canberra's distance: left out, 0 or 1.
enum ZeroOverZero { OMIT, ZERO, ONE };

// The pairs of a launch. Points lie coordinate after coordinate: coordinate k of point i is at
// k * stride + i.
struct Piece {
  const double *points;
  double *out; // for the distances of the first column's first row, and on
  ulong stride;
  uint rows, columns; // of points: rows that pair, coordinates
  uint first, last;   // columns of pairs, in all pairs
  uint triangle, parameter;
};
