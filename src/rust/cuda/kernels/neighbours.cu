// Sweeps for nearest neighbours, in single precision: which references may be near each query.
//
// neighbours/single says which values are summed, derives bounds and thresholds from the sums, and
// proves them; this file computes the same. Each query has room for `room` candidates. `collect`
// collects every reference that may be nearer than the query's threshold. Between the launches for
// the parts of the references, `narrow` keeps the nearest candidates and lowers the threshold.
//
// References and queries are stored coordinate after coordinate, except for products.cu, which
// packs them.

#include "base.cuh"
#include "neighbours/decide.cuh"
#include "neighbours/launch.cuh"
#include "sweep.cuh"

// Number of coordinates in shared memory at a time.
#define DEPTH 8
#define STEP (THREADS / TILE)

// Half the distance from 1 to the next greater single.
#define ROUNDING_UNIT (1.0 / (1 << 24))
// s in (a + e)^2 <= (1 + 1/s) a^2 + (1 + s) e^2. As in neighbours/single/frame.rs.
#define SPLIT 1024.0
// Covers the roundings of a threshold. As in neighbours/single/frame.rs.
#define THRESHOLD_SLACK (1.0 + 16.0 * ROUNDING_UNIT)
// A key after the keys of all references: no candidate.
#define NO_KEY 0xffffffffffffffffull

// Copies rows of `columns` values to positions of an array that is stored coordinate after
// coordinate.
extern "C" __global__ void scatter(const float *rows, const uint *positions, uint count,
                                   uint columns, float *coordinates, ulong stride) {
  __shared__ float tile[WARP][WARP + 1];
  uint first = blockIdx.x * WARP, start = blockIdx.y * WARP;
  for (uint r = threadIdx.y; r < WARP; r += blockDim.y) {
    uint row = first + r, k = start + threadIdx.x;
    if (row < count && k < columns) tile[r][threadIdx.x] = rows[(size_t)row * columns + k];
  }
  __syncthreads();
  uint row = first + threadIdx.x;
  for (uint k = threadIdx.y; k < WARP; k += blockDim.y)
    if (row < count && start + k < columns)
      coordinates[(size_t)(start + k) * stride + positions[row]] = tile[threadIdx.x][k];
}

// Copies the values at some positions to positions 0, 1, ....
extern "C" __global__ void gather(const float *coordinates, const uint *positions, uint count,
                                  uint columns, ulong stride, ulong step, float *copy,
                                  ulong copy_stride, ulong copy_step) {
  uint at = blockIdx.x * blockDim.x + threadIdx.x, k = blockIdx.y;
  if (at < count)
    copy[k * copy_stride + at * copy_step] = coordinates[k * stride + positions[at] * step];
}

// Sums over coordinates: RowSum of single/sums.rs. `Exact` is the form of the exact distance; for
// sums of products, it may also be the Euclidean distance.
struct Squares {
  typedef Sum<Square> Exact;
  static __device__ __forceinline__ float add(float sum, float a, float b) {
    float d = a - b;
    return fmaf(d, d, sum);
  }
  static __device__ __forceinline__ float finish(float sum) { return sum; }
};

struct Magnitudes {
  typedef Sum<Magnitude> Exact;
  static __device__ __forceinline__ float add(float sum, float a, float b) {
    return sum + fabsf(a - b);
  }
  static __device__ __forceinline__ float finish(float sum) { return sum; }
};

struct Greatest {
  typedef Maximum Exact;
  static __device__ __forceinline__ float add(float sum, float a, float b) {
    return fmaxf(sum, fabsf(a - b));
  }
  static __device__ __forceinline__ float finish(float sum) { return sum; }
};

struct Quotients {
  typedef Canberra Exact;
  static __device__ __forceinline__ float add(float sum, float a, float b) {
    // Makes 0/0 zero and changes no other quotient, because coordinates are zero or far greater.
    float magnitude = (fabsf(a) + fabsf(b)) + 1.17549435e-38f;
    return sum + __fdiv_rn(fabsf(a - b), magnitude);
  }
  static __device__ __forceinline__ float finish(float sum) { return sum; }
};

struct Products {
  typedef Angle Exact;
  static __device__ __forceinline__ float add(float sum, float a, float b) {
    return fmaf(-a, b, sum);
  }
  static __device__ __forceinline__ float finish(float sum) { return sum; }
};

struct AbsoluteProducts {
  typedef Angle Exact;
  static __device__ __forceinline__ float add(float sum, float a, float b) {
    return fmaf(a, b, sum);
  }
  static __device__ __forceinline__ float finish(float sum) { return -fabsf(sum); }
};

// Collects the references below the thresholds, for a tile of queries by references.
extern "C" __global__ void __launch_bounds__(THREADS, 2) collect(Sweep sweep) {
  // Two buffers of each: one is filled while the other is read.
  __shared__ float references[2][DEPTH][TILE];
  __shared__ float queries[2][DEPTH][TILE];
  uint across = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS;
  uint first_reference = sweep.first + blockIdx.x * TILE, first_query = blockIdx.y * TILE;
  float sums[EACH][EACH] = {};

  // The values that a thread loads into shared memory: every STEP-th coordinate of one reference
  // and of one query. They are requested while the previous coordinates are processed.
  uint at = threadIdx.x % TILE, row = threadIdx.x / TILE;
  uint my_reference = first_reference + at, my_query = first_query + at;
  bool has_reference = my_reference < sweep.last, has_query = my_query < sweep.query_count;
  float next_reference[DEPTH / STEP], next_query[DEPTH / STEP];
  auto fetch = [&](uint start) {
#pragma unroll
    for (int i = 0; i < DEPTH / STEP; i++) {
      uint k = start + row + i * STEP;
      bool there = k < sweep.columns;
      next_reference[i] =
          there && has_reference ? sweep.references[k * sweep.stride + my_reference] : 0;
      next_query[i] = there && has_query ? sweep.queries[k * sweep.query_stride + my_query] : 0;
    }
  };
  fetch(0);
  for (uint start = 0, half = 0; start < sweep.columns; start += DEPTH, half ^= 1) {
#pragma unroll
    for (int i = 0; i < DEPTH / STEP; i++) {
      references[half][row + i * STEP][at] = next_reference[i];
      queries[half][row + i * STEP][at] = next_query[i];
    }
    __syncthreads();
    if (start + DEPTH < sweep.columns) fetch(start + DEPTH);
#pragma unroll
    for (uint k = 0; k < DEPTH; k++) {
      // Zeros beyond the last coordinate add nothing.
      float r[EACH], q[EACH];
#pragma unroll
      for (int i = 0; i < EACH; i++) r[i] = references[half][k][i * ACROSS + across];
#pragma unroll
      for (int i = 0; i < EACH; i++) q[i] = queries[half][k][down * EACH + i];
#pragma unroll
      for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++) sums[i][j] = TERM::add(sums[i][j], q[i], r[j]);
    }
  }

#pragma unroll
  for (int j = 0; j < EACH; j++) {
    uint reference = first_reference + j * ACROSS + across;
    if (reference >= sweep.last) break;
    float factor = sweep.reference(FACTOR, reference),
          allowance = sweep.reference(ALLOWANCE, reference);
    uint group = sweep.groups[reference];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      uint query = first_query + down * EACH + i;
      if (query >= sweep.query_count) break;
      float sum = TERM::finish(sums[i][j]);
      float threshold = fmaf(sweep.slopes[query], factor, sweep.bases[query]) + allowance;
      // False if there is no reference: its allowance is NaN.
      if (!(sum < threshold) || group == sweep.query_groups[query]) continue;
      uint at = atomicAdd(sweep.counts + query, 1);
      if (at < sweep.room)
        sweep.candidates[(size_t)query * sweep.room + at] =
            (ulong)__float_as_uint(sum) << 32 | reference;
    }
  }
}

// A single above a positive value; 0 for 0.
__device__ float up(double value) { return __double2float_ru(value * (1 + 1e-15)); }
// The greatest single that is not above a value, but at least 0.
__device__ float down(double value) { return fmaxf(__double2float_rd(value), 0.0f); }

__device__ double ratio(float a, float b) {
  return sqrt(1.0 / ((double)a + (double)b)) * (1.0 - ROUNDING_UNIT);
}

// Frame::bound of neighbours/single: a lower bound on the distance, from its sum.
__device__ float bound(const Sweep &s, float single, uint query, uint reference) {
  double sum = single;
  double lost = (double)s.query(ERROR, query) + (double)s.reference(ERROR, reference);
  double bound;
  switch (s.kind) {
  case NORM:
    bound = (sqrt(sum) * s.shrink - lost) *
            ratio(s.query(FACTOR, query), s.reference(FACTOR, reference));
    break;
  case NORM_OF_PRODUCTS: {
    double square =
        2.0 * ((double)s.query(HALF, query) + (double)s.reference(HALF, reference) + sum);
    bound = (sqrt(fmax(square, 0.0)) * (1.0 - ROUNDING_UNIT) - lost) *
            ratio(s.query(FACTOR, query), s.reference(FACTOR, reference));
    break;
  }
  case SUM: bound = sum * s.shrink - lost; break;
  default: bound = 1.0 + sum - s.margin - lost * THRESHOLD_SLACK;
  }
  // NaN bounds nothing.
  return bound > 0 ? down(bound * (1 - 1e-15)) : 0.0f;
}

// Frame::threshold of neighbours/single: the threshold of a query for a limit of distances.
__device__ void lower_threshold(const Sweep &s, uint query, float limit) {
  double allowance = s.query(ALLOWANCE, query), slope = 0, base;
  switch (s.kind) {
  case NORM:
  case NORM_OF_PRODUCTS: {
    double half = s.kind == NORM ? 1.0 : 0.5;
    double root = (double)limit / s.shrink;
    slope = half * (1.0 + 1.0 / SPLIT) * root * root * THRESHOLD_SLACK;
    base = slope * (double)s.query(FACTOR, query) * THRESHOLD_SLACK + allowance;
    break;
  }
  case SUM: base = (double)limit / s.shrink * THRESHOLD_SLACK + allowance; break;
  default: base = (double)limit * THRESHOLD_SLACK - 1.0 + s.margin + allowance;
  }
  s.slopes[query] = slope == 0 ? 0.0f : up(fmax(slope, 1e-30));
  s.bases[query] = base < 0 ? __double2float_ru(base * (1 - 1e-15)) : up(base);
}

// Sorts `size` keys in shared memory; `size` is a power of two. Places without a candidate have
// NO_KEY, so they come last.
__device__ void sort_bitonically(ulong *keys, uint size) {
  for (uint width = 2; width <= size; width *= 2) {
    for (uint step = width / 2; step > 0; step /= 2) {
      for (uint i = threadIdx.x; i < size; i += NARROW_THREADS) {
        uint other = i ^ step;
        if (other > i && (keys[i] > keys[other]) == ((i & width) == 0)) {
          ulong key = keys[i];
          keys[i] = keys[other];
          keys[other] = key;
        }
      }
      __syncthreads();
    }
  }
}

// Sorts at most NARROW_THREADS keys of shared memory. Keys are different, except NO_KEY.
__device__ void sort_by_ranks(ulong *keys, uint count) {
  uint i = threadIdx.x, rank = 0;
  ulong own = i < count ? keys[i] : NO_KEY;
  for (uint j = 0; j < count; j++) rank += keys[j] < own;
  __syncthreads();
  if (i < count) keys[i] = NO_KEY;
  __syncthreads();
  if (own != NO_KEY) keys[rank] = own;
  __syncthreads();
}

// Turns a query's candidates into keys (bounds, then positions), a block for each query. Keeps the
// `capacity` least keys, sorted. The threshold becomes the one of the first key that is left out.
extern "C" __global__ void __launch_bounds__(NARROW_THREADS) narrow(Sweep sweep) {
  extern __shared__ ulong keys[];
  uint query = blockIdx.x, count = sweep.counts[query], kept = sweep.kept[query];
  // A candidate without room may have been the nearest, so nothing is known of this query.
  if (count > sweep.room || count == kept) return;
  ulong *candidates = sweep.candidates + (size_t)query * sweep.room;
  ulong floor = sweep.floors[query];
  bool is_small = count <= NARROW_THREADS;
  uint size = is_small ? count : NARROW_THREADS, found = 0;
  while (size < count) size *= 2;
  for (uint first = 0; first < size; first += NARROW_THREADS) {
    uint i = first + threadIdx.x;
    ulong key = NO_KEY;
    if (i < count) {
      key = candidates[i];
      if (i >= kept) {
        uint reference = (uint)key;
        float least = bound(sweep, __uint_as_float((uint)(key >> 32)), query, reference);
        key = (ulong)__float_as_uint(least) << 32 | reference;
      }
      if (key >= floor) key = NO_KEY;
    }
    if (i < size) keys[i] = key;
    // Ends the writes to `keys`, too.
    found += __syncthreads_count(key != NO_KEY);
  }
  if (is_small)
    sort_by_ranks(keys, count);
  else
    sort_bitonically(keys, size);
  uint least = min(found, sweep.capacity);
  for (uint i = threadIdx.x; i < least; i += NARROW_THREADS) candidates[i] = keys[i];
  if (threadIdx.x > 0) return;
  sweep.counts[query] = least;
  sweep.kept[query] = least;
  if (found > sweep.capacity) {
    ulong left_out = keys[sweep.capacity];
    sweep.floors[query] = left_out;
    lower_threshold(sweep, query, __uint_as_float((uint)(left_out >> 32)));
  }
}

// Copies the kept candidates, `capacity` for each query, one query after the other.
extern "C" __global__ void pack(Sweep sweep, ulong *packed) {
  uint i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= sweep.capacity) return;
  for (uint query = blockIdx.y; query < sweep.query_count; query += gridDim.y)
    packed[(size_t)query * sweep.capacity + i] =
        i < sweep.counts[query] ? sweep.candidates[(size_t)query * sweep.room + i] : NO_KEY;
}

// Decides about the candidates of each query.
extern "C" __global__ void __launch_bounds__(DECIDE_THREADS)
    decide(Sweep sweep, Decision decision) {
  __shared__ DecisionMemory memory;
  if (sweep.kind == NORM || sweep.kind == NORM_OF_PRODUCTS)
    decide_by<Sum<Square>>(sweep, decision, memory);
  else
    decide_by<TERM::Exact>(sweep, decision, memory);
}
