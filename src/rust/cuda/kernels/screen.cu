// The screen on the GPU: lower bounds on the distances from a few clusters (the queries) to all.
//
// Compiled with DIMENSIONS, how many of them are kept in registers (0: none, for any number), and
// BLOCKS, how many blocks a multiprocessor has room for.
//
// backend/screen.rs says what the bounds are and why they hold; this file follows
// backend/cpu/screen.rs term by term, in single precision throughout.
//
// The clusters lie dimension after dimension: element (k, position) of `rows` is at
// k * capacity + position, the p coordinates first, then the scalars of enum Scalar. Whitening
// factors are lower triangles packed column by column (so that a warp reads a column at once) in
// slabs of `slab_shapes`, named by their number.

typedef unsigned int uint;

enum Scalar { ERROR, LOW, RELATIVE, ABSOLUTE, VARIANCE, FOURTH, LARGEST, THIRD, SHAPE, SCALARS };

// A query: its scalars as above (SHAPE says where in `factors` its whitening factor is: row by row,
// each row of the lower triangle padded with zeros to whole groups of 4), then these, then its p
// coordinates.
enum Query { LIMIT = SCALARS, END, GROUPS, ROOM, OUTPUT, COORDINATES };

#define NO_SHAPE 0xffffffffu
#define INFINITE 0x7f800000u
#define WARP 32
#define WHOLE_WARP 0xffffffffu
#define THREADS 256
#define QUERIES_PER_BLOCK 8
#define MOST_GROUPS 64

// Clusters that follow each other are often near each other: these many make a tile, which can be
// out of reach as a whole. Of the ball around each tile there are the centre's coordinates, then
// these.
#define TILE THREADS
enum Ball { RADIUS, BALL_LOW, BALL_SCALARS };

// What every kernel needs to know of the clusters.
struct Clusters {
  float *rows;
  float *const *slabs;
  uint capacity;
  uint slab_shapes;
  uint dimensions;
  uint full;
  float *balls; // element (k, tile) is at k * (capacity / TILE) + tile
  uint tiles;   // how many have a ball
};

__device__ __forceinline__ uint packed_length(uint p) { return p * (p + 1) / 2; }

// Where element (i, j), j <= i, of a packed factor is.
__device__ __forceinline__ uint element(uint p, uint i, uint j) {
  return j * p - j * (j + 1) / 2 + i;
}

__device__ __forceinline__ const float *shape(const Clusters &clusters, uint number) {
  return clusters.slabs[number / clusters.slab_shapes] +
         (size_t)(number % clusters.slab_shapes) * packed_length(clusters.dimensions);
}

// Applies a batch of changes: the positions `removed` are gone; each of the `added` entries is a
// position, coordinates and scalars as in `rows`, and a word for the host; each of the packed
// whitening `factors` goes to the shape of that number in `shaped`, unless it is NO_SHAPE. Also
// copies the `queries` of the sweep that follows and their factors, `words` in all, from the host.
//
// All this lies in the host's memory, which takes long to answer: each thread asks for what it needs
// at once, and with a thread for each word that time passes but once.
extern "C" __global__ void update(Clusters clusters, const uint *removed, uint removed_count,
                                  const uint *added, uint added_count, const uint *shaped,
                                  uint shaped_count, const float *factors, const uint *queries,
                                  uint words, uint *copied) {
  uint p = clusters.dimensions, height = p + SCALARS, length = packed_length(p);
  uint thread = blockIdx.x * blockDim.x + threadIdx.x;
  uint threads = gridDim.x * blockDim.x;
  uint total = words + removed_count + added_count * height + shaped_count * length;
  for (uint all = thread; all < total; all += threads) {
    uint i = all;
    if (i < words) {
      copied[i] = queries[i];
      continue;
    }
    i -= words;
    if (i < removed_count) {
      clusters.rows[(size_t)(p + LOW) * clusters.capacity + removed[i]] = __int_as_float(-1);
      continue;
    }
    i -= removed_count;
    if (i < added_count * height) {
      const uint *entry = added + (size_t)(i / height) * (height + 2);
      uint k = i % height, position = entry[0], value = entry[1 + k];
      clusters.rows[(size_t)k * clusters.capacity + position] = __uint_as_float(value);
      continue;
    }
    i -= added_count * height;
    uint number = shaped[i / length];
    float value = factors[i];
    if (number != NO_SHAPE) ((float *)shape(clusters, number))[i % length] = value;
  }
}

// Moves the clusters at the positions `from` to the positions 0, 1, ... of `target`.
extern "C" __global__ void compact(Clusters clusters, float *target, const uint *from, uint count) {
  uint to = blockIdx.x * blockDim.x + threadIdx.x;
  if (to >= count) return;
  uint source = from[to];
  for (uint k = 0; k < clusters.dimensions + SCALARS; k++)
    target[(size_t)k * clusters.capacity + to] =
        clusters.rows[(size_t)k * clusters.capacity + source];
}

// The sum, or what `join` makes, of the values of all threads of a block of THREADS.
template <class Join> __device__ float over_block(float value, Join join) {
  __shared__ float shared[THREADS / WARP];
  for (int step = WARP / 2; step > 0; step /= 2)
    value = join(value, __shfl_xor_sync(WHOLE_WARP, value, step));
  __syncthreads();
  if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = value;
  __syncthreads();
  value = shared[0];
  for (uint i = 1; i < THREADS / WARP; i++) value = join(value, shared[i]);
  return value;
}

// Draws the balls around the tiles from `first` on, a block each.
extern "C" __global__ void __launch_bounds__(THREADS) enclose(Clusters clusters, uint first) {
  uint p = clusters.dimensions, tile = first + blockIdx.x, tiles = clusters.capacity / TILE;
  const float *mine = clusters.rows + (size_t)tile * TILE + threadIdx.x;
  float square = 0;
  for (uint k = 0; k < p; k++) {
    float x = mine[(size_t)k * clusters.capacity];
    float center = over_block(x, [](float a, float b) { return a + b; }) / TILE;
    if (threadIdx.x == 0) clusters.balls[(size_t)k * tiles + tile] = center;
    float d = x - center;
    square = fmaf(d, d, square);
  }
  float low = mine[(size_t)(p + LOW) * clusters.capacity];
  float error = mine[(size_t)(p + ERROR) * clusters.capacity];
  bool there = low >= 0;
  float slack = 1.0f + ((float)p + 16.0f) / (1 << 24);
  float radius = there ? (__fsqrt_rn(square) + error) * slack : 0;
  radius = over_block(radius, [](float a, float b) { return fmaxf(a, b); });
  low = there ? low : __int_as_float(INFINITE);
  low = over_block(low, [](float a, float b) { return fminf(a, b); });
  if (threadIdx.x > 0) return;
  clusters.balls[(size_t)(p + RADIUS) * tiles + tile] = radius;
  clusters.balls[(size_t)(p + BALL_LOW) * tiles + tile] = low;
}

// The margins of the bounds.
struct Margins {
  float unit, shrink, cautious, moment, slack;
  __device__ explicit Margins(uint p) {
    unit = 1.0f / (1 << 24);
    shrink = 1.0f - ((float)p + 8.0f) * unit;
    cautious = shrink * 0.999999f;
    moment = 1.0f - (4.0f * (float)p + 96.0f) * unit;
    slack = 0.5f * (1.0f - 4.0f * unit);
  }
};

// Hölder's bound on the mean norm, see backend/screen.rs.
__device__ __forceinline__ float mean_norm(float square, float distance, float variance,
                                           float fourth, float largest, float third) {
  float second = variance + square;
  float factor = fmaf(4.0f, largest, fmaf(2.00001f, variance, square));
  float total = fmaf(4.0f * third, distance, fmaf(factor, square, fourth)) + 1.17549435e-38f;
  return __fsqrt_rn(second) * __fdiv_rn(second, __fsqrt_rn(total));
}

// One cluster's coordinates: in registers for up to P dimensions, in memory for P = 0. The means
// they are compared with are padded with zeros to P.
template <int P> struct Point {
  float x[P];
  __device__ Point(const Clusters &clusters, uint position) {
#pragma unroll
    for (int k = 0; k < P; k++)
      x[k] = k < clusters.dimensions ? clusters.rows[(size_t)k * clusters.capacity + position] : 0;
  }
  __device__ __forceinline__ float square(const Clusters &, const float *mean) const {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < P; k++) {
      float d = mean[k] - x[k];
      sum = fmaf(d, d, sum);
    }
    return sum;
  }
  // ||W d||², or less where that is enough already.
  __device__ __forceinline__ float whitened(const Clusters &clusters, const float *mean,
                                            const float *factor, float enough) const {
    float d[P], sum = 0;
#pragma unroll
    for (int k = 0; k < P; k++) d[k] = mean[k] - x[k];
    const float4 *row = (const float4 *)factor;
    for (uint i = 0; i < clusters.dimensions; i++) {
      float value = 0;
#pragma unroll
      for (int group = 0; group < P / 4; group++) {
        if (4 * group <= i) {
          float4 w = row[group];
          value = fmaf(w.x, d[4 * group], value);
          value = fmaf(w.y, d[4 * group + 1], value);
          value = fmaf(w.z, d[4 * group + 2], value);
          value = fmaf(w.w, d[4 * group + 3], value);
        }
      }
      row += i / 4 + 1;
      sum = fmaf(value, value, sum);
      if (sum > enough) break;
    }
    return sum;
  }
};

template <> struct Point<0> {
  const float *x;
  __device__ Point(const Clusters &clusters, uint position) : x(clusters.rows + position) {}
  __device__ __forceinline__ float square(const Clusters &clusters, const float *mean) const {
    float sum = 0;
    for (uint k = 0; k < clusters.dimensions; k++) {
      float d = mean[k] - x[(size_t)k * clusters.capacity];
      sum = fmaf(d, d, sum);
    }
    return sum;
  }
  __device__ float whitened(const Clusters &clusters, const float *mean, const float *factor,
                            float enough) const {
    float sum = 0;
    for (uint i = 0; i < clusters.dimensions; i++) {
      float value = 0;
      for (uint j = 0; j <= i; j++)
        value = fmaf(factor[j], mean[j] - x[(size_t)j * clusters.capacity], value);
      factor += (i / 4 + 1) * 4;
      sum = fmaf(value, value, sum);
      if (sum > enough) break;
    }
    return sum;
  }
};

// A lower bound between a query and a thread's cluster; `to_target` still lacks the bound from the
// target's own factor.
struct Bound {
  float to_query, to_target, distance, error;
};

// False where the bound cannot be below `limit`, always so for a cluster that is gone.
template <int P>
__device__ bool loose_bound(const Clusters &clusters, const Point<P> &point, uint position,
                            const float *query, const float *factors, float limit,
                            const Margins &margins, Bound &out) {
  uint p = clusters.dimensions;
  const float *mean = query + COORDINATES;
  const float *scalars = clusters.rows + (size_t)p * clusters.capacity + position;
  auto scalar = [&](uint which) { return scalars[(size_t)which * clusters.capacity]; };
  float square = point.square(clusters, mean);
  float target_low = scalar(LOW);
  float low = query[LOW] + target_low;
  float error = query[ERROR] + scalar(ERROR);
  float left = low * margins.cautious;
  float right = fmaf(low, error, 2.0f * limit);
  // Where both sides underflow, that tells nothing.
  if (!(left * left * square <= right * right)) return false;
  float distance = __fsqrt_rn(square);
  float near = fmaxf(distance * margins.shrink - error, 0.0f), far = near;
  if (clusters.full) {
    float from_query = mean_norm(square, distance, query[VARIANCE], query[FOURTH], query[LARGEST],
                                 query[THIRD]);
    float from_target = mean_norm(square, distance, scalar(VARIANCE), scalar(FOURTH),
                                  scalar(LARGEST), scalar(THIRD));
    near = fmaxf(near, from_target * margins.moment - error);
    far = fmaxf(far, from_query * margins.moment - error);
  }
  out.to_query = query[LOW] * near;
  out.to_target = target_low * far;
  uint factor = __float_as_uint(query[SHAPE]);
  if (factor != NO_SHAPE) {
    float lost = fmaf(query[RELATIVE], distance, query[ABSOLUTE] * error);
    // From here on the bound cannot be below the limit; a little more, for its rounding.
    float least = fmaxf(limit * 2.00001f - out.to_target + lost, 0.0f) * 1.00001f;
    float enough = least * least;
    float sum = point.whitened(clusters, mean, factors + factor, enough);
    if (sum > enough) return false;
    out.to_query = fmaxf(out.to_query, __fsqrt_rn(sum) - lost);
  }
  out.distance = distance;
  out.error = error;
  return true;
}

// ||W d|| for the difference d between a query and the cluster at `position`, by a whole warp.
__device__ float whole_warp_norm(const Clusters &clusters, uint position, const float *query,
                                 const float *factor) {
  uint p = clusters.dimensions, lane = threadIdx.x % WARP;
  const float *cluster = clusters.rows + position;
  float sum = 0;
  for (uint top = 0; top < p; top += WARP) {
    uint i = top + lane;
    float row = 0;
    for (uint left = 0; left <= top; left += WARP) {
      uint k = left + lane;
      float mine = k < p ? query[COORDINATES + k] - cluster[(size_t)k * clusters.capacity] : 0;
      uint columns = min(p - left, (uint)WARP);
#pragma unroll 8
      for (uint c = 0; c < columns; c++) {
        float d = __shfl_sync(WHOLE_WARP, mine, c);
        uint j = left + c;
        if (j <= i && i < p) row = fmaf(factor[element(p, i, j)], d, row);
      }
    }
    sum = fmaf(row, row, sum);
  }
  for (int step = WARP / 2; step > 0; step /= 2) sum += __shfl_xor_sync(WHOLE_WARP, sum, step);
  return __fsqrt_rn(sum);
}

// The bound from the target's own factor, by a whole warp; all lanes get it.
__device__ float bound_to_target(const Clusters &clusters, uint position, const float *query,
                                 float distance, float error) {
  uint p = clusters.dimensions;
  const float *scalars = clusters.rows + (size_t)p * clusters.capacity + position;
  auto scalar = [&](uint which) { return scalars[(size_t)which * clusters.capacity]; };
  uint number = __float_as_uint(scalar(SHAPE));
  if (number == NO_SHAPE) return 0;
  float norm = whole_warp_norm(clusters, position, query, shape(clusters, number));
  return norm - scalar(RELATIVE) * distance - scalar(ABSOLUTE) * error;
}

// Whether a tile can hold something whose bound is below the limit.
template <int P>
__device__ bool in_reach(const Clusters &clusters, uint tile, const float *query, float limit,
                         const Margins &margins) {
  if (tile * TILE >= __float_as_uint(query[END])) return false;
  if (tile >= clusters.tiles) return true;
  uint p = clusters.dimensions, tiles = clusters.capacity / TILE;
  const float *ball = clusters.balls + tile, *mean = query + COORDINATES;
  float square = 0;
#pragma unroll(P > 0 ? P : 8)
  for (uint k = 0; k < p; k++) {
    float d = mean[k] - __ldg(ball + (size_t)k * tiles);
    square = fmaf(d, d, square);
  }
  float radius = __ldg(ball + (size_t)(p + RADIUS) * tiles);
  float low = query[LOW] + __ldg(ball + (size_t)(p + BALL_LOW) * tiles);
  float distance = __fsqrt_rn(square) * margins.shrink - (radius + query[ERROR]);
  // Also where that is no number.
  return !(fmaxf(distance, 0.0f) * low * (margins.slack * 0.999999f) >= limit);
}

// Where a query is in shared memory.
template <int P> __device__ __forceinline__ uint padded_query(uint p) {
  return COORDINATES + (P > 0 ? P : p);
}

// Copies the block's share of the queries to shared memory; returns how many they are.
template <int P>
__device__ uint load_queries(const float *queries, uint count, uint p, float *shared) {
  uint first = blockIdx.y * QUERIES_PER_BLOCK;
  uint mine = min(count - first, (uint)QUERIES_PER_BLOCK);
  uint padded = padded_query<P>(p), length = COORDINATES + p;
  for (uint i = threadIdx.x; i < mine * padded; i += blockDim.x) {
    uint query = i / padded, k = i % padded;
    shared[i] = k < length ? queries[(size_t)(first + query) * length + k] : 0.0f;
  }
  __syncthreads();
  return mine;
}

// The limit of a query as far as it has come down: among the clusters at or below the maximum of its
// minima there is at least one of each group. Each lane looks at its share of the groups.
__device__ float lowered(float limit, const volatile uint *minima, uint groups, uint lane) {
  uint most = 0;
  for (uint g = lane; g < groups; g += WARP) most = max(most, minima[g]);
  for (int step = WARP / 2; step > 0; step /= 2)
    most = max(most, __shfl_xor_sync(WHOLE_WARP, most, step));
  // The next above, so that what attains it counts.
  return groups > 0 && most < INFINITE ? fminf(limit, __uint_as_float(most + 1)) : limit;
}

// The block that comes last completes the answer, and clears what the next sweep starts with;
// `wrote` says whether this thread has written to the answer. The queries are `stride` apart.
__device__ void finish(const float *queries, uint stride, uint count, uint *minima, uint *counts,
                       volatile uint *answer, uint ticket, bool wrote) {
  __shared__ bool last;
  // What was written is on the host before the block counts as done.
  if (wrote) __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(counts + count, 1) == gridDim.x * gridDim.y - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  uint lane = threadIdx.x % WARP;
  for (uint i = threadIdx.x / WARP; i < count; i += blockDim.x / WARP) {
    const float *query = queries + (size_t)i * stride;
    float limit = lowered(query[LIMIT], minima + (size_t)i * MOST_GROUPS,
                          __float_as_uint(query[GROUPS]), lane);
    if (lane == 0) {
      answer[1 + i] = *(volatile uint *)(counts + i);
      answer[1 + count + i] = __float_as_uint(limit);
    }
  }
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) answer[0] = ticket;
  for (uint i = threadIdx.x; i < count + 1; i += blockDim.x) counts[i] = 0;
  for (uint i = threadIdx.x; i < count * MOST_GROUPS; i += blockDim.x) minima[i] = INFINITE;
}

// Writes to the answer what was found, if there is room.
__device__ __forceinline__ bool put(volatile uint *answer, uint count, const float *query,
                                    uint place, float bound, uint position) {
  if (place >= __float_as_uint(query[ROOM])) return false;
  size_t entry = 1 + 2 * (size_t)(count + __float_as_uint(query[OUTPUT]) + place);
  answer[entry] = __float_as_uint(bound);
  answer[entry + 1] = position;
  return true;
}

// What a thread does with its cluster of a tile, for each query that reaches it. Returns whether it
// wrote to the answer.
template <int P>
__device__ bool collect_from_tile(const Clusters &clusters, uint tile, uint which,
                                  const float *queries, uint mine, const uint *reached,
                                  const float *limits, const float *factors, uint first, uint count,
                                  uint *minima, uint *counts, volatile uint *answer,
                                  const Margins &margins) {
  uint p = clusters.dimensions, lane = threadIdx.x % WARP;
  uint position = tile * TILE + threadIdx.x;
  uint warp = position / WARP;
  uint readable = min(position, clusters.capacity - 1);
  Point<P> point(clusters, readable);
  const float infinity = __int_as_float(INFINITE);
  bool wrote = false;
  for (uint i = 0; i < mine; i++) {
    if (!(reached[i] >> which & 1)) continue;
    const float *query = queries + i * padded_query<P>(p);
    uint end = __float_as_uint(query[END]), groups = __float_as_uint(query[GROUPS]);
    if (position - lane >= end) continue;
    uint *group_minima = minima + (size_t)(first + i) * MOST_GROUPS;
    float limit = limits[i];
    Bound bound;
    float loose = infinity;
    if (position < end &&
        loose_bound<P>(clusters, point, readable, query, factors, limit, margins, bound))
      loose = fmaxf(margins.slack * (bound.to_query + bound.to_target), 0.0f);
    // Where the limit stays as it is, those without a shape need not wait for each other.
    if (groups == 0) {
      const float *shapes = clusters.rows + (size_t)(p + SHAPE) * clusters.capacity;
      bool found = loose < limit && __float_as_uint(shapes[readable]) == NO_SHAPE;
      uint all = __ballot_sync(WHOLE_WARP, found), place = 0;
      if (lane == 0 && all != 0) place = atomicAdd(counts + first + i, __popc(all));
      place = __shfl_sync(WHOLE_WARP, place, 0) + __popc(all & ((1u << lane) - 1));
      if (found) {
        wrote |= put(answer, count, query, place, loose, position);
        loose = infinity;
      }
    }
    // The nearest first: it may bring the limit down below the others.
    for (;;) {
      float least = loose;
      for (int step = WARP / 2; step > 0; step /= 2)
        least = fminf(least, __shfl_xor_sync(WHOLE_WARP, least, step));
      if (!(least < limit)) break;
      uint source = __ffs(__ballot_sync(WHOLE_WARP, loose == least)) - 1;
      float distance = __shfl_sync(WHOLE_WARP, bound.distance, source);
      float error = __shfl_sync(WHOLE_WARP, bound.error, source);
      float tighter = bound_to_target(clusters, position - lane + source, query, distance, error);
      float full = fmaxf(margins.slack * (bound.to_query + fmaxf(bound.to_target, tighter)), 0.0f);
      full = __shfl_sync(WHOLE_WARP, full, source);
      if (lane == source) loose = infinity;
      if (!(full < limit)) continue;
      if (lane == source) {
        uint place = atomicAdd(counts + first + i, 1);
        wrote |= put(answer, count, query, place, full, position);
        if (groups > 0) atomicMin(group_minima + warp % groups, __float_as_uint(full));
      }
      limit = lowered(limit, group_minima, groups, lane);
    }
  }
  return wrote;
}

// For each query, collects the clusters whose bound is below its limit. The limit comes down as
// near clusters are found, so that about as many are collected as the query has groups: every warp
// keeps the least bound that it finds in `minima`, in the group that is its turn. The answer goes
// to the host's memory: first `ticket`, written last, by which the host knows that it is complete;
// then how many there are for each query; the limits; and bound and position of as many as there is
// room for. `counts` has room for one more than the queries: how many blocks are done. It starts
// with zeros, and `minima` at infinity.
//
// `shared` has the block's share of the queries, and `queries` all of them, `stride` apart.
template <int P>
__device__ void sweep(const Clusters &clusters, const float *shared, uint mine,
                      const float *queries, uint stride, uint count, const float *factors,
                      uint *minima, uint *counts, volatile uint *answer, uint ticket) {
  __shared__ float limits[QUERIES_PER_BLOCK];
  __shared__ uint reached[QUERIES_PER_BLOCK];
  uint p = clusters.dimensions;
  uint first = blockIdx.y * QUERIES_PER_BLOCK;
  uint lane = threadIdx.x % WARP;
  for (uint i = threadIdx.x / WARP; i < mine; i += blockDim.x / WARP) {
    const float *query = shared + i * padded_query<P>(p);
    float limit = lowered(query[LIMIT], minima + (size_t)(first + i) * MOST_GROUPS,
                          __float_as_uint(query[GROUPS]), lane);
    if (lane == 0) limits[i] = limit;
  }
  __syncthreads();
  Margins margins(p);
  uint end = 0;
  for (uint i = 0; i < mine; i++)
    end = max(end, __float_as_uint(shared[i * padded_query<P>(p) + END]));
  uint tiles = (end + TILE - 1) / TILE;
  // With one tile for each block and few queries, looking at the balls first would only take time.
  bool wrote = false, in_one_go = gridDim.y == 1 && tiles <= gridDim.x;
  // A block takes every gridDim.x-th tile. Which of them are in reach of which queries is looked up
  // for as many tiles at a time as a warp has lanes, a query for each warp.
  for (uint start = blockIdx.x; start < tiles; start += WARP * gridDim.x) {
    for (uint i = threadIdx.x / WARP; i < mine; i += blockDim.x / WARP) {
      uint tile = start + lane * gridDim.x;
      const float *query = shared + i * padded_query<P>(p);
      bool near =
          tile < tiles && (in_one_go || in_reach<P>(clusters, tile, query, limits[i], margins));
      uint mask = __ballot_sync(WHOLE_WARP, near);
      if (lane == 0) reached[i] = mask;
    }
    __syncthreads();
    uint any = 0;
    for (uint i = 0; i < mine; i++) any |= reached[i];
    for (; any != 0; any &= any - 1) {
      uint which = __ffs(any) - 1;
      wrote |= collect_from_tile<P>(clusters, start + which * gridDim.x, which, shared, mine,
                                    reached, limits, factors, first, count, minima, counts, answer,
                                    margins);
    }
    __syncthreads();
  }
  finish(queries, stride, count, minima, counts, answer, ticket, wrote);
}

// A sweep for queries that `update` has copied.
template <int P>
__device__ void collect_for(const Clusters &clusters, const float *queries, uint count,
                            const float *factors, uint *minima, uint *counts,
                            volatile uint *answer, uint ticket) {
  extern __shared__ float shared[];
  uint p = clusters.dimensions;
  uint mine = load_queries<P>(queries, count, p, shared);
  sweep<P>(clusters, shared, mine, queries, COORDINATES + p, count, factors, minima, counts, answer,
           ticket);
}

// Few changes and the queries after them, as an argument of a kernel: no way to the device is
// shorter.
#define ROUND_WORDS 2496
struct __align__(16) Round {
  uint removed, added, queries; // how many
  uint packed_at, queries_at;   // where they start
  uint factors_at;              // where the queries' whitening factors start, at whole groups of 4
  uint length;                  // of it all
  uint unused;
  // The positions removed; the added entries and their factors, as for `update`; the queries, with
  // zeros for coordinates up to P; and their factors.
  uint words[ROUND_WORDS];
};

// Applies the changes and sweeps for the queries, at most QUERIES_PER_BLOCK, in one launch. Each
// block changes those tiles that it looks at itself.
template <int P>
__device__ void change_and_collect_for(const Clusters &clusters, const Round &round, uint *minima,
                                       uint *counts, volatile uint *answer, uint ticket) {
  extern __shared__ uint4 groups[];
  const uint *words = (const uint *)groups;
  const uint4 *source = (const uint4 *)round.words;
  // From here on a place in memory like any other. Threads that each read another word of an
  // argument, known as one, would have to wait for each other.
  asm volatile("" : "+l"(source));
#pragma unroll 4
  for (uint i = threadIdx.x; i < (round.length + 3) / 4; i += blockDim.x) groups[i] = source[i];
  __syncthreads();
  uint p = clusters.dimensions, height = p + SCALARS, length = packed_length(p);
  auto is_mine = [](uint position) { return position / TILE % gridDim.x == blockIdx.x; };
  for (uint i = threadIdx.x; i < round.removed; i += blockDim.x) {
    uint position = words[i];
    if (is_mine(position))
      clusters.rows[(size_t)(p + LOW) * clusters.capacity + position] = __int_as_float(-1);
  }
  for (uint which = 0; which < round.added; which++) {
    const uint *entry = words + round.removed + which * (height + 2);
    uint position = entry[0];
    if (!is_mine(position)) continue;
    for (uint k = threadIdx.x; k < height; k += blockDim.x)
      clusters.rows[(size_t)k * clusters.capacity + position] = __uint_as_float(entry[1 + k]);
    uint number = entry[1 + p + SHAPE], factor = entry[1 + height];
    if (number == NO_SHAPE) continue;
    float *place = (float *)shape(clusters, number);
    const uint *packed = words + round.packed_at + factor * length;
    for (uint i = threadIdx.x; i < length; i += blockDim.x) place[i] = __uint_as_float(packed[i]);
  }
  // All threads of the block see the changes.
  __syncthreads();
  const float *queries = (const float *)words + round.queries_at;
  const float *factors = (const float *)words + round.factors_at;
  sweep<P>(clusters, queries, round.queries, queries, padded_query<P>(p), round.queries, factors,
           minima, counts, answer, ticket);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    collect(Clusters clusters, const float *queries, uint count, const float *factors,
            uint *minima, uint *counts, uint *answer, uint ticket) {
  collect_for<DIMENSIONS>(clusters, queries, count, factors, minima, counts, answer, ticket);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    change_and_collect(Clusters clusters, const __grid_constant__ Round round, uint *minima,
                       uint *counts, uint *answer, uint ticket) {
  change_and_collect_for<DIMENSIONS>(clusters, round, minima, counts, answer, ticket);
}
