// The distances of pairs of points, in double precision, with the bits of metric/form: one thread
// computes a pair and adds up coordinate after coordinate.
//
// Points are stored coordinate after coordinate: coordinate k of point i is at k * stride + i. A
// block computes a tile of ROWS rows by COLUMNS columns, and writes only the wanted pairs.

#include "base.cuh"
#include "distances_launch.cuh"

// Number of coordinates in shared memory at a time.
#define DEPTH 8
// A thread loads every ROW_STEP-th coordinate of a row into shared memory.
#define ROW_STEP (THREADS / ROWS)
// A thread loads every COLUMN_STEP-th coordinate of a column into shared memory.
#define COLUMN_STEP (THREADS / COLUMNS)

// R takes denominators of Canberra distances up to the least normal number as zero.
#define LEAST_NORMAL 2.2250738585072014e-308

// Forms of metric/form. `add` adds one coordinate of both points; `finish` returns the distance.
// `parameter` depends on the form: the convention for 0/0 (enum ZeroOverZero), or whether
// magnitudes count. If `zeros_count` is false, coordinates that are 0 in both points change
// nothing.

__device__ __forceinline__ double not_available() { return __longlong_as_double(NA_BITS); }

__device__ __forceinline__ double scaled_up(double sum, int count, uint columns) {
  return count == columns ? sum : sum / ((double)count / (double)columns);
}

struct Square {
  static __device__ __forceinline__ double of(double d) { return d * d; }
  static __device__ __forceinline__ double last(double sum) { return sqrt(sum); }
};

struct Magnitude {
  static __device__ __forceinline__ double of(double d) { return fabs(d); }
  static __device__ __forceinline__ double last(double sum) { return sum; }
};

template <typename Term> struct Sum {
  static const bool zeros_count = false;
  double sum = 0;
  __device__ __forceinline__ void add(double a, double b, uint) { sum += Term::of(a - b); }
  __device__ __forceinline__ double finish(uint, uint) const { return Term::last(sum); }
};

template <typename Term> struct SumWithHoles {
  static const bool zeros_count = true;
  double sum = 0;
  int count = 0;
  __device__ __forceinline__ void add(double a, double b, uint) {
    double difference = a - b;
    if (difference == difference) {
      sum += Term::of(difference);
      count += 1;
    }
  }
  __device__ __forceinline__ double finish(uint columns, uint) const {
    return count == 0 ? not_available() : Term::last(scaled_up(sum, count, columns));
  }
};

struct Maximum {
  static const bool zeros_count = false;
  // With its sign: a comparison takes magnitudes at no cost, a copy does not.
  double greatest = 0;
  __device__ __forceinline__ void add(double a, double b, uint) {
    double difference = a - b;
    if (fabs(difference) > fabs(greatest)) greatest = difference;
  }
  __device__ __forceinline__ double finish(uint, uint) const { return fabs(greatest); }
};

struct MaximumWithHoles {
  static const bool zeros_count = true;
  double greatest = 0;
  int count = 0;
  __device__ __forceinline__ void add(double a, double b, uint) {
    double difference = fabs(a - b);
    if (difference == difference) {
      if (difference > greatest) greatest = difference;
      count += 1;
    }
  }
  __device__ __forceinline__ double finish(uint, uint) const {
    return count == 0 ? not_available() : greatest;
  }
};

struct Canberra {
  static const bool zeros_count = true;
  double sum = 0;
  int count = 0;
  __device__ __forceinline__ void add(double a, double b, uint zero_over_zero) {
    double difference = fabs(a - b), magnitude = fabs(a) + fabs(b);
    double quotient = difference == magnitude ? 1.0 : difference / magnitude;
    if (magnitude > LEAST_NORMAL && quotient == quotient) {
      sum += quotient;
      count += 1;
    } else if (magnitude <= LEAST_NORMAL && zero_over_zero != OMIT) {
      sum += zero_over_zero == ONE ? 1.0 : 0.0;
      count += 1;
    }
  }
  __device__ __forceinline__ double finish(uint columns, uint) const {
    return count == 0 ? not_available() : scaled_up(sum, count, columns);
  }
};

// The Canberra distance if 0/0 does not count as 1, for coordinates that are 0 or have a magnitude
// from 2^-500 to 2^500. Then all quotients except 0/0 are 0 or at least 2^-54, and no intermediate
// value overflows or underflows. So division takes the instructions of the compiler's own division,
// without its tests of the operands.
struct CanberraInRange {
  static const bool zeros_count = true;
  double sum = 0;
  int zeros = 0; // number of coordinates that are 0/0
  __device__ __forceinline__ void add(double a, double b, uint) {
    double magnitude = fabs(a) + fabs(b), quotient = divided(a - b, magnitude);
    if (__double2hiint(magnitude) != 0)
      sum += fabs(quotient);
    else
      zeros += 1;
  }
  __device__ __forceinline__ double finish(uint columns, uint zero_over_zero) const {
    int count = zero_over_zero == OMIT ? columns - zeros : columns;
    return count == 0 ? not_available() : scaled_up(sum, count, columns);
  }
  static __device__ __forceinline__ double divided(double a, double b) {
    double inverse;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(inverse) : "d"(b));
    return refined(a, b, __hiloint2double(__double2hiint(inverse), 1));
  }
  // The quotient from an approximate inverse of b whose lower half is arbitrary.
  static __device__ __forceinline__ double refined(double a, double b, double inverse) {
    double error = fma(-b, inverse, 1.0);
    inverse = fma(inverse, fma(error, error, error), inverse);
    inverse = fma(inverse, fma(-b, inverse, 1.0), inverse);
    double quotient = a * inverse;
    return fma(inverse, fma(-b, quotient, a), quotient);
  }
};

struct Binary {
  static const bool zeros_count = true;
  int differ = 0, some = 0, both = 0;
  __device__ __forceinline__ void add(double a, double b, uint) {
    double difference = fabs(a - b);
    if (difference == difference) {
      differ += difference != 0;
      some += a != 0 || b != 0;
      both += 1;
    }
  }
  __device__ __forceinline__ double finish(uint, uint) const {
    if (both == 0) return not_available();
    return some == 0 ? 0.0 : (double)differ / (double)some;
  }
};

struct Angle {
  static const bool zeros_count = false;
  double dot = 0;
  __device__ __forceinline__ void add(double a, double b, uint) { dot = fma(a, b, dot); }
  __device__ __forceinline__ double finish(uint, uint absolute) const {
    double similarity = absolute ? fabs(dot) : dot;
    if (similarity > 1) similarity = 1;
    if (similarity < -1) similarity = -1;
    return 1.0 - similarity;
  }
};

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
