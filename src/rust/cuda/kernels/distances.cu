// The distances of pairs of points, by a form of forms.cuh: one thread computes a pair and adds up
// coordinate after coordinate.
//
// Points are stored coordinate after coordinate: coordinate k of point i is at k * stride + i. A
// block computes a tile of ROWS rows by COLUMNS columns, and writes only the wanted pairs.

#include "base.cuh"
#include "distances/launch.cuh"
#include "forms.cuh"

// Number of coordinates in shared memory at a time.
#define DEPTH 8
// A thread loads every ROW_STEP-th coordinate of a row into shared memory.
#define ROW_STEP (THREADS / ROWS)
// A thread loads every COLUMN_STEP-th coordinate of a column into shared memory.
#define COLUMN_STEP (THREADS / COLUMNS)

// Index of the first pair of column j among all pairs, as Pairs::column of distances/mod.rs.
__device__ __forceinline__ ulong column_start(const Piece &piece, ulong j) {
  ulong rows = piece.rows;
  return piece.triangle ? j * (2 * rows - 1 - j) / 2 : j * rows;
}

// Number of coordinates to unroll: more than one if the code stays short.
constexpr int UNROLLED = FORM::zeros_count ? 1 : 4;

// Computes the distances of the wanted pairs. BLOCKS blocks share a multiprocessor and its
// registers.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) distances(Piece piece) {
  // Two buffers of each: one is filled while the other is read.
  __shared__ double rows[2][DEPTH][ROWS];
  __shared__ __align__(sizeof(double2)) double columns[2][DEPTH][COLUMNS];
  uint first_row = blockIdx.x * ROWS, first_column = piece.first + blockIdx.y * COLUMNS;
  // Nothing is wanted above the diagonal.
  if (piece.triangle && first_row + ROWS <= first_column + 1) return;
  uint across = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS;
  uint first_point = piece.triangle ? first_column : piece.rows + first_column;
  uint end_point = piece.triangle ? piece.last : piece.rows + piece.last;
  FORM forms[COLUMNS_EACH][ROWS_EACH];

  // The values that a thread loads into shared memory. They are requested while the previous
  // coordinates are processed.
  uint row_at = threadIdx.x % ROWS, row_k = threadIdx.x / ROWS;
  uint column_at = threadIdx.x % COLUMNS, column_k = threadIdx.x / COLUMNS;
  bool has_row = first_row + row_at < piece.rows, has_column = first_point + column_at < end_point;
  double next_row[DEPTH / ROW_STEP], next_column[DEPTH / COLUMN_STEP];
  auto fetch = [&](uint start) {
#pragma unroll
    for (int i = 0; i < DEPTH / ROW_STEP; i++) {
      uint k = start + row_k + i * ROW_STEP;
      bool there = has_row && k < piece.columns;
      next_row[i] = there ? piece.points[k * piece.stride + first_row + row_at] : 0;
    }
#pragma unroll
    for (int i = 0; i < DEPTH / COLUMN_STEP; i++) {
      uint k = start + column_k + i * COLUMN_STEP;
      bool there = has_column && k < piece.columns;
      next_column[i] = there ? piece.points[k * piece.stride + first_point + column_at] : 0;
    }
  };
  fetch(0);
  for (uint start = 0, half = 0; start < piece.columns; start += DEPTH, half ^= 1) {
#pragma unroll
    for (int i = 0; i < DEPTH / ROW_STEP; i++)
      rows[half][row_k + i * ROW_STEP][row_at] = next_row[i];
#pragma unroll
    for (int i = 0; i < DEPTH / COLUMN_STEP; i++)
      columns[half][column_k + i * COLUMN_STEP][column_at] = next_column[i];
    __syncthreads();
    if (start + DEPTH < piece.columns) fetch(start + DEPTH);
    uint depth = FORM::zeros_count ? min(DEPTH, piece.columns - start) : DEPTH;
#pragma unroll UNROLLED
    for (uint k = 0; k < depth; k++) {
      double row[ROWS_EACH], column[COLUMNS_EACH];
#pragma unroll
      for (int r = 0; r < ROWS_EACH; r++) row[r] = rows[half][k][r * ACROSS + across];
#pragma unroll
      for (int c = 0; c < COLUMNS_EACH; c += 2) {
        double2 pair = *(const double2 *)&columns[half][k][down * COLUMNS_EACH + c];
        column[c] = pair.x;
        column[c + 1] = pair.y;
      }
#pragma unroll
      for (int c = 0; c < COLUMNS_EACH; c++)
#pragma unroll
        for (int r = 0; r < ROWS_EACH; r++) forms[c][r].add(row[r], column[c], piece.parameter);
    }
  }

  ulong origin = column_start(piece, piece.first);
#pragma unroll
  for (int c = 0; c < COLUMNS_EACH; c++) {
    uint column = first_column + down * COLUMNS_EACH + c;
    if (column >= piece.last) break;
    uint skipped = piece.triangle ? column + 1 : 0;
    double *out = piece.out + (column_start(piece, column) - origin);
#pragma unroll
    for (int r = 0; r < ROWS_EACH; r++) {
      uint row = first_row + r * ACROSS + across;
      if (row >= skipped && row < piece.rows)
        out[row - skipped] = forms[c][r].finish(piece.columns, piece.parameter);
    }
  }
}
