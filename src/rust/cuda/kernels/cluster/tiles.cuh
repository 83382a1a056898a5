// The lower triangle of a matrix of many columns, in the registers of a block, for its elimination.

#pragma once

#include "cluster/shape.cuh"

// Number of rows, and of columns, of a tile. A thread has one element of each tile.
#define TILE_ROWS 16

// A thread's elements of the lower triangle of a matrix of up to MOST columns. The functions are
// those of struct Triangle. In a step of an elimination, a thread reads one element of the line for
// each row and each column of tiles; with a Triangle, it reads two for each of its elements.
template <int MOST> struct Tiles {
  static constexpr int COUNT = (MOST + TILE_ROWS - 1) / TILE_ROWS;
  static_assert(COUNT == 0 || TILE_ROWS * TILE_ROWS == THREADS, "a thread for each element");
  int p, row, column; // in each tile
  // One value for each tile, by rows of tiles up to the diagonal. Values above the diagonal, or in
  // rows from p on, do not count.
  double values[COUNT * (COUNT + 1) / 2];

  __device__ explicit Tiles(uint p)
      : p(p), row(threadIdx.x / TILE_ROWS), column(threadIdx.x % TILE_ROWS) {
#pragma unroll
    for (int n = 0; n < COUNT * (COUNT + 1) / 2; n++) values[n] = 0;
  }
  // Calls `f` with the value in each tile that begins before row p, its row and its column. The
  // value may be one that does not count.
  template <class F> __device__ __forceinline__ void for_all(F f) {
#pragma unroll
    for (int r = 0; r < COUNT; r++) {
      int i = r * TILE_ROWS + row;
      if (r * TILE_ROWS >= p) continue;
#pragma unroll
      for (int c = 0; c <= r; c++) f(values[r * (r + 1) / 2 + c], i, c * TILE_ROWS + column);
    }
  }
  // Restores the matrix as it was read, by reading it again: registers have no room for a copy.
  struct Kept {
    __device__ explicit Kept(const Tiles &) {}
    __device__ __forceinline__ void bring_back(Tiles &matrix, const double *packed,
                                               double divisor) const {
      matrix.read(packed, divisor);
    }
  };
  template <class F> __device__ __forceinline__ void for_each(F f) {
    for_all([&](double &value, int i, int j) {
      if (i < p && j <= i) f((uint)(packed_length(i) + j), i, j, value);
    });
  }
  __device__ __forceinline__ void read(const double *packed, double divisor) {
    for_all([&](double &value, int i, int j) {
      value = i < p && j <= i ? packed[packed_length(i) + j] : 0;
    });
    for_all([&](double &value, int, int) { value = covariance(value, divisor); });
  }
  // Row k is in row NTH of tiles.
  template <int NTH>
  __device__ __forceinline__ void subtract(int k, const double *line, double reciprocal) {
    double of_columns[COUNT];
#pragma unroll
    for (int c = 0; c < COUNT; c++)
      of_columns[c] = c * TILE_ROWS + column < p ? line[c * TILE_ROWS + column] : 0;
#pragma unroll
    for (int r = NTH; r < COUNT; r++) {
      int i = r * TILE_ROWS + row;
      // The first condition is the same for all threads, the second is not.
      if (r * TILE_ROWS >= p) continue;
      if ((r == NTH && i <= k) || i >= p) continue;
      double multiple = line[i] * reciprocal;
#pragma unroll
      for (int c = 0; c <= r; c++) {
        double &value = values[r * (r + 1) / 2 + c];
        value = fma(-multiple, of_columns[c], value);
      }
    }
  }
  template <int NTH> __device__ __forceinline__ void publish(int k, double *line, double *pivots) {
    int place = k % TILE_ROWS;
    if (row == place) {
#pragma unroll
      for (int c = 0; c <= NTH; c++) {
        double value = values[NTH * (NTH + 1) / 2 + c];
        if (c < NTH || column < place) line[c * TILE_ROWS + column] = value;
        if (c < NTH || column != place) continue;
        pivots[k] = value;
        line[k] = 1.0;
      }
    }
    if (column != place) return;
#pragma unroll
    for (int r = NTH; r < COUNT; r++) {
      int i = r * TILE_ROWS + row;
      if ((r == NTH && row <= place) || i >= p) continue;
      double &value = values[r * (r + 1) / 2 + NTH];
      line[i] = value;
      value = 0;
    }
  }
  // As `publish`, for row k, where row k - 1 is in row NTH of tiles.
  template <int NTH>
  __device__ __forceinline__ void publish_next(int k, double *line, double *pivots) {
    if (k % TILE_ROWS != 0)
      publish<NTH>(k, line, pivots);
    else if constexpr (NTH + 1 < COUNT)
      publish<NTH + 1>(k, line, pivots);
  }
  // Takes a step for each row. Stops and returns false once a step returns false. NTH tells the
  // compiler which registers have the elements of a row.
  template <int NTH = 0, class Step> __device__ __forceinline__ bool for_each_row(Step &step) {
    if constexpr (NTH < COUNT) {
      int end = min(p, (NTH + 1) * TILE_ROWS);
      for (int k = NTH * TILE_ROWS; k < end; k++)
        if (!step.template take<NTH>(k)) return false;
      return for_each_row<NTH + 1>(step);
    }
    return true;
  }
};
