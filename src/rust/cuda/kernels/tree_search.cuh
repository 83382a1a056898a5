// The search for the nearest clusters of a node, by a block: the sweep over all clusters, with
// bounds in single precision.

#pragma once

#include "tree_balls.cuh"
#include "tree_union.cuh"

// Neighbours that a search should find.
#define WANTED 8
// Clusters that a search should find that has found too many, and where members count: bounds tell
// less of their distances.
#define ENOUGH 64
#define ENOUGH_WITH_MEMBERS 256
// How often a search that finds none is made again with a greater limit.
#define MAX_RETRIES 8
// Directions of the distances that are computed together.
#define DIRECTIONS (2 * DECIDED_TOGETHER)
// Members that are few: the distances of all together are computed by a block.
#ifndef FEW_MEMBERS
#define FEW_MEMBERS (2 * THREADS)
#endif
// Balls that are looked at together, at most; and neighbours among them that stay together.
#define MAX_IN_PART 512
#ifndef GROUP
#define GROUP 8
#endif
// Balls that a warp looks into at a time, and coordinates of their clusters that it reads together:
// of many columns, few tell little.
#define BALLS_A_WARP 2
#define COORDINATES_AT_ONCE (DIMENSIONS > 16 ? 26 : 8)
static_assert(DIMENSIONS % COORDINATES_AT_ONCE == 0, "queries are filled up with zeros so far");

// The part of what a search works with that sums of members' distances need: the sequencer's block
// has no room for more.
struct SearchSums {
  // The node that is searched for, and the clusters whose distances to it are computed: of size 0
  // where there is none. Where members count: the sums, two for each of both directions; terms of
  // these; and the first of the spans that they are divided into.
  Operand node;
  double distances[DECIDED_TOGETHER], sums[JOB_SUMS];
  double2 terms[THREADS];
  uint slots[DECIDED_TOGETHER], ids[DECIDED_TOGETHER], shapes[DECIDED_TOGETHER];
  uint sizes[DECIDED_TOGETHER], starts[DECIDED_TOGETHER];
  uint first_spans[DIRECTIONS + 1];
  float from, limit, chosen_value, guess;
  uint found, found_first, listed, near, near_count, order, made_at, chunk, base, helpers;
  // Of all balls, the part that is swept; and whether the limit is not raised any more.
  uint part, parts, is_last;
};

// What a search works with, in shared memory.
struct SearchState : SearchSums {
  float values[THREADS];
  float bounds[FOUND_ROOM];
  uint positions[FOUND_ROOM];
  uint by_bound[FOUND_ROOM];
  uint balls[MAX_IN_PART];
  // Those regions that may have something near, and a bit for each of all.
  unsigned short regions[MAX_REGIONS];
  uint near_regions[MAX_REGIONS / WARP];
  Job job;
};

static_assert(sizeof(SearchState) <= SEARCH_BYTES, "the host reserves enough");
static_assert(sizeof(SearchSums) <= SUMS_BYTES, "and for sums");

// The `rank`-th of some values, in all threads; infinity where fewer are below infinity. All
// threads of the block have one each, those from `end` on infinity.
__device__ __forceinline__ float ranked(SearchState &search, float value, uint rank,
                                        uint end = THREADS) {
  __syncthreads();
  search.values[threadIdx.x] = value;
  if (threadIdx.x == 0) search.chosen_value = single_infinity();
  __syncthreads();
  if (value < single_infinity()) {
    uint mine = 0;
#pragma unroll 8
    for (uint j = 0; j < end; j++) {
      float other = search.values[j];
      mine += other < value || (other == value && j < threadIdx.x);
    }
    if (mine == rank) search.chosen_value = value;
  }
  __syncthreads();
  return search.chosen_value;
}

// The next number in single precision above one that is not negative.
__device__ __forceinline__ float next_above(float value) {
  return value < single_infinity() ? __uint_as_float(__float_as_uint(value) + 1) : value;
}

__device__ __forceinline__ bool is_skipped(const Job &job, uint slot) {
  for (uint i = 0; i < job.skipped; i++)
    if (job.skip[i] == slot) return true;
  return false;
}

// A guess of the distance of the last of the WANTED neighbours, from those of the two clusters of
// which a job's node is the union; by a warp. In screen units; infinity where they have none.
__device__ float guess_by_parents(const Tree &tree, const Job &job) {
  static_assert(2 * CANDIDATES == WARP, "a lane for each candidate of the two");
  uint lane = threadIdx.x % WARP, side = lane / CANDIDATES, i = lane % CANDIDATES;
  uint parent = side == 0 ? job.lower_node : job.higher_node;
  // Nothing is known of one whose neighbours are searched for at the same time.
  bool is_known = job.waits_for[side] == NONE;
  size_t at = (size_t)parent * CANDIDATES + i;
  uint slot = tree.candidate_slots[at], id = tree.candidate_ids[at];
  ulong stored = tree.candidate_values[at];
  float floor = is_known ? (float)(tree.floor_values[parent] / tree.unit) : single_infinity();
  bool counts = is_known && i < tree.counts[parent] && slot < tree.clusters;
  counts = counts && id_at(tree, slot) == id && !is_skipped(job, slot);
  float value = counts ? (float)(__longlong_as_double(stored) / tree.unit) : single_infinity();
  floor = fminf(floor, __shfl_xor_sync(WHOLE_WARP, floor, CANDIDATES));
  uint rank = 0;
#pragma unroll
  for (uint other = 0; other < WARP; other++) {
    float its = __shfl_sync(WHOLE_WARP, value, other);
    rank += its < value || (its == value && other < lane);
  }
  // There are none but these below the floor.
  float guess =
      __shfl_sync(WHOLE_WARP, value, __ffs(__ballot_sync(WHOLE_WARP, rank == WANTED - 1)) - 1);
  if (!(guess < single_infinity())) guess = floor;
  return guess * (float)*tree.radius_factor;
}

// Writes the query for a node: its row, whose numbers are `step` apart, and its factor behind it.
__device__ __forceinline__ void write_query(const Clusters &clusters, const float *row, size_t step,
                                            float *query) {
  uint p = clusters.dimensions, length = QUERY_LENGTH;
  FOR_EACH(k, length - COORDINATES) query[COORDINATES + k] = k < p ? row[k * step] : 0;
  FOR_EACH(s, SCALARS) query[s] = row[(p + s) * step];
  __syncthreads();
  uint shape = __float_as_uint(query[SHAPE]);
  __syncthreads();
  if (shape == NONE) return;
  const float *factor = factor_of(clusters, shape);
  float *out = query + length;
  FOR_EACH(e, p * p) {
    uint i = e / p, j = e % p;
    if (j <= i) out[padded_row(i) + j] = factor[element(p, i, j)];
  }
  FOR_EACH(i, p) {
    for (uint j = i + 1; j < (i / 4 + 1) * 4; j++) out[padded_row(i) + j] = 0;
  }
  if (threadIdx.x == 0) query[SHAPE] = __uint_as_float(0);
  __syncthreads();
}

// Adds to what a search has found, for each lane that is `near`. A bound is replaced by the tighter
// one from the cluster's own factor.
__device__ void collect(const Clusters &clusters, SearchState &search, const float *query,
                        uint position, bool near, float value, const Bound &bound,
                        const Margins &margins) {
  uint lane = threadIdx.x % WARP;
  float limit = search.limit;
  const float *scalars = row_at(clusters, position) + clusters.dimensions * row_step(clusters);
  auto scalar = [&](uint which) { return near ? scalars[which * row_step(clusters)] : 0; };
  // Where a cluster changes meanwhile, one lane tells all others which factor it has.
  uint number = near ? __float_as_uint(scalar(SHAPE)) : NONE;
  float relative = scalar(RELATIVE), absolute = scalar(ABSOLUTE);
  uint shaped = __ballot_sync(WHOLE_WARP, number != NONE);
  // All are on their way before the first one is needed.
  for (uint left = shaped; left != 0; left &= left - 1)
    touch_factor(clusters, __shfl_sync(WHOLE_WARP, number, __ffs(left) - 1));
  for (uint left = shaped; left != 0; left &= left - 1) {
    uint source = __ffs(left) - 1;
    const float *factor = factor_of(clusters, __shfl_sync(WHOLE_WARP, number, source));
    float norm = whole_warp_norm(clusters, position - lane + source, query, factor);
    if (lane != source) continue;
    float tighter = norm - relative * bound.distance - absolute * bound.error;
    value = fmaxf(margins.slack * (bound.to_query + fmaxf(bound.to_target, tighter)), 0.0f);
    near = value < limit || !(limit < single_infinity());
  }
  if (!near || value < search.from) return;
  uint place = atomicAdd(&search.found, 1);
  if (place >= FOUND_ROOM) return;
  search.bounds[place] = value;
  search.positions[place] = position;
}

// Parts that all balls have to be divided into, so that a part has room.
__device__ __forceinline__ uint least_parts(const Tree &tree) {
  return (tree.balls + MAX_IN_PART - 1) / MAX_IN_PART;
}

// Some balls: number i of them, and how many they are. Where there is none, the number is too high.
//
// Those in one of `parts` parts of all. What is near a query is in balls that follow each other: so
// each part has GROUP of them here and there.
struct PartOfBalls {
  uint part, parts, count;
  bool by_regions; // whether those of regions that are not near are passed over
  __device__ PartOfBalls(const Tree &tree, uint part, uint parts, bool by_regions)
      : part(part), parts(parts), by_regions(by_regions) {
    uint groups = (tree.balls + GROUP - 1) / GROUP;
    count = part < groups ? (groups - part + parts - 1) / parts * GROUP : 0;
  }
  __device__ __forceinline__ uint operator()(const SearchState &, uint i) const {
    return (part + i / GROUP * parts) * GROUP + i % GROUP;
  }
};
// Those in the near regions, from one of these on.
struct NearBalls {
  uint first, count;
  static constexpr bool by_regions = false; // there are no others
  __device__ NearBalls(const SearchState &search, uint first)
      : first(first), count(min(MAX_IN_PART, (search.near_count - first) * WARP)) {}
  __device__ __forceinline__ uint operator()(const SearchState &search, uint i) const {
    return search.regions[first + i / WARP] * WARP + i % WARP;
  }
};

// Finds the regions that may have something near.
__device__ __forceinline__ void find_near_regions(const Tree &tree, SearchState &search,
                                                  const float *query) {
  uint lane = threadIdx.x % WARP, regions = regions_of(tree);
  Margins margins(tree.dimensions);
  __syncthreads();
  if (threadIdx.x == 0) search.near_count = 0;
  __syncthreads();
  for (uint first = threadIdx.x - lane; first < regions; first += THREADS) {
    uint region = first + lane;
    bool near =
        region < regions && ball_can_compete<DIMENSIONS>(tree.dimensions, tree.region_rows + region,
                                                         regions, query, search.limit, margins);
    uint mask = __ballot_sync(WHOLE_WARP, near);
    if (lane == 0) search.near_regions[first / WARP] = mask;
    if (near) search.regions[atomicAdd(&search.near_count, 1)] = region;
  }
  __syncthreads();
}

// Looks at the clusters in some balls, which are MAX_IN_PART at most: `take` gets each cluster
// whose bound is below the limit, with its bound. All balls are looked into if `every_ball`.
template <class Balls, class Take>
__device__ __forceinline__ void look_into(const Tree &tree, const Clusters &clusters,
                                          SearchState &search, const float *query,
                                          const Balls &balls, bool every_ball, Take take) {
  uint lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, p = tree.dimensions;
  float limit = search.limit;
  const float *mean = query + COORDINATES, *factor = query + QUERY_LENGTH;
  size_t step = row_step(clusters);
  Margins margins(p);
  __syncthreads();
  if (threadIdx.x == 0) search.listed = 0;
  __syncthreads();
  for (uint i = threadIdx.x; i < balls.count; i += THREADS) {
    uint ball = balls(search, i), region = ball / WARP;
    if (ball >= tree.balls) continue;
    if (balls.by_regions && !(search.near_regions[region / WARP] >> region % WARP & 1)) continue;
    const float *rows = tree.ball_rows + ball;
    if (every_ball || ball_can_compete<DIMENSIONS>(p, rows, tree.balls, query, limit, margins))
      search.balls[atomicAdd(&search.listed, 1)] = ball;
  }
  __syncthreads();
  uint listed = search.listed, order = search.order;
  for (uint first = warp * BALLS_A_WARP; first < listed; first += WARPS * BALLS_A_WARP) {
    const float *rows[BALLS_A_WARP];
    float squares[BALLS_A_WARP], lows[BALLS_A_WARP], errors[BALLS_A_WARP];
    uint orders[BALLS_A_WARP], positions[BALLS_A_WARP];
    uint left = 0; // a bit for each ball that may have something near
#pragma unroll
    for (uint b = 0; b < BALLS_A_WARP; b++) {
      positions[b] = search.balls[min(first + b, listed - 1)] * WARP + lane;
      rows[b] = row_at(clusters, positions[b]);
      squares[b] = 0;
      lows[b] = rows[b][(p + LOW) * step];
      errors[b] = rows[b][(p + ERROR) * step];
      orders[b] = tree.orders_at[positions[b]];
      if (first + b < listed) left |= 1u << b;
    }
    for (uint start = 0; start < p && left != 0; start += COORDINATES_AT_ONCE) {
      float x[BALLS_A_WARP][COORDINATES_AT_ONCE] = {};
      bool all_there = start + COORDINATES_AT_ONCE <= p;
#pragma unroll
      for (uint b = 0; b < BALLS_A_WARP; b++) {
        const float *from = rows[b] + start * step;
        if (!(left >> b & 1)) continue;
        if (all_there) {
#pragma unroll
          for (uint k = 0; k < COORDINATES_AT_ONCE; k++) x[b][k] = from[k * step];
        } else {
#pragma unroll
          for (uint k = 0; k < COORDINATES_AT_ONCE; k++)
            x[b][k] = start + k < p ? from[k * step] : 0;
        }
      }
#pragma unroll
      for (uint b = 0; b < BALLS_A_WARP; b++) {
#pragma unroll
        for (uint k = 0; k < COORDINATES_AT_ONCE; k++) {
          float d = mean[start + k] - x[b][k];
          squares[b] = fmaf(d, d, squares[b]);
        }
        bool near = may_be_near(squares[b], query[LOW] + lows[b], query[ERROR] + errors[b], limit,
                                margins) &&
                    orders[b] < order;
        if (!__any_sync(WHOLE_WARP, near)) left &= ~(1u << b);
      }
    }
#pragma unroll
    for (uint b = 0; b < BALLS_A_WARP; b++) {
      if (!(left >> b & 1)) continue;
      uint position = positions[b];
      float error = query[ERROR] + errors[b];
      Bound bound;
      bool near =
          may_be_near(squares[b], query[LOW] + lows[b], error, limit, margins) && orders[b] < order;
      auto whitened = [&](uint which, float enough) {
        return Point<DIMENSIONS>(clusters, position).whitened(p, mean, factor + which, enough);
      };
      near = near && bound_of(clusters, position, query, squares[b], lows[b], error, limit, margins,
                              whitened, bound);
      float value = near ? fmaxf(margins.slack * (bound.to_query + bound.to_target), 0.0f)
                         : single_infinity();
      near = near && (value < limit || !(limit < single_infinity()));
      take(position, near, value, bound, margins);
    }
  }
  __syncthreads();
}

// Adds the clusters in some balls to what a search has found.
template <class Balls>
__device__ __forceinline__ void collect_from(const Tree &tree, const Clusters &clusters,
                                             SearchState &search, const float *query,
                                             const Balls &balls) {
  look_into(tree, clusters, search, query, balls, false,
            [&](uint position, bool near, float value, const Bound &bound, const Margins &margins) {
              collect(clusters, search, query, position, near, value, bound, margins);
            });
}

// A limit for a search that nothing else tells one: that of the WANTED-th of the threads' least
// bounds.
__device__ __forceinline__ float limit_by_minima(const Tree &tree, const Clusters &clusters,
                                                 SearchState &search, const float *query) {
  if (threadIdx.x == 0) search.limit = single_infinity();
  __syncthreads();
  float least = single_infinity();
  uint parts = least_parts(tree);
  for (uint part = 0; part < parts; part++)
    look_into(tree, clusters, search, query, PartOfBalls(tree, part, parts, false), true,
              [&](uint, bool, float value, const Bound &, const Margins &) {
                least = fminf(least, value);
              });
  return next_above(ranked(search, least, WANTED - 1));
}

// Finds what a query can be nearest to: all clusters whose bound is from `from` on and below a
// limit, about this one, so that they have room; greater by `factor`, and more, as long as there
// are none. `sweep` collects those below `search.limit`, of one of `search.parts`. False where more
// than there is room for have one bound: `search.limit` is just above that.
template <class Sweep>
__device__ bool find(SearchState &search, float from, float limit, float factor, uint enough,
                     Sweep sweep) {
  for (uint tries = 0;; tries++) {
    __syncthreads();
    if (threadIdx.x == 0) {
      search.from = from;
      search.limit = limit;
      search.found = 0;
    }
    __syncthreads();
    sweep();
    uint found = search.found;
    if (tries == 0 && from == 0 && threadIdx.x == 0) search.found_first = found;
    if (found > FOUND_ROOM) {
      uint rank = max((uint)((ulong)THREADS * enough / found), (uint)WANTED / 2);
      float lower = next_above(ranked(search, search.bounds[threadIdx.x], rank));
      if (!(lower < limit)) return false;
      limit = lower;
      tries = MAX_RETRIES;
    } else if (found == 0 && limit < single_infinity() && tries < MAX_RETRIES &&
               search.parts == 1 && !search.is_last) {
      limit = factor * limit;
      factor = factor * factor;
    } else {
      return true;
    }
  }
}
