// Searches for the nearest clusters of a node, by a block. A sweep collects the near clusters, with
// lower bounds, in single precision, below a limit. A ball or region is near if it may have a near
// cluster.

#pragma once

#include "tree/query.cuh"

// Number of listed balls whose clusters a warp compares with the query at a time.
#define BALLS_A_WARP 2
// Number of coordinates of a cluster that are read together, and of rows in `look_at_leading`. With
// many columns, a few coordinates rule out few clusters, so more are read together.
#define COORDINATES_AT_ONCE (DIMENSIONS > 16 ? 26 : 8)
static_assert(DIMENSIONS % COORDINATES_AT_ONCE == 0, "reads behind a row meet zeros of the query");

// Adds the clusters of lanes that are `near` to the results of a search, by a warp. First tightens
// their bounds by the clusters' own factors. Clusters beyond FOUND_ROOM are only counted.
__device__ void collect(const Clusters &clusters, SearchState &search, uint position, bool near,
                        float value, const Bound &bound, const Margins &margins,
                        const Norms &norm_of) {
  uint lane = threadIdx.x % WARP;
  float limit = search.limit;
  const float *scalars = row_at(clusters, position) + clusters.dimensions * ROW_STRIDE;
  auto scalar = [&](uint which) { return near ? scalars[which * ROW_STRIDE] : 0; };
  // A cluster may change meanwhile, so only its lane reads the number of its factor.
  uint number = near ? __float_as_uint(scalar(SHAPE)) : NONE;
  float relative = scalar(RELATIVE), absolute = scalar(ABSOLUTE);
  uint shaped = __ballot_sync(WHOLE_WARP, number != NONE);
  // Prefetches all factors before the first is used.
  for (uint left = shaped; left != 0 && !IS_WIDE; left &= left - 1)
    prefetch_factor(clusters, __shfl_sync(WHOLE_WARP, number, __ffs(left) - 1));
  float lost = lost_of(relative, absolute, bound.distance, bound.error);
  // The value of ||W d||² above which the bound is not below the limit. Wide trees use it.
  float enough = IS_WIDE ? enough_for(limit, bound.to_query, lost) : 0;
  for (uint left = shaped; left != 0; left &= left - 1) {
    uint source = __ffs(left) - 1;
    const float *factor = factor_of(clusters, __shfl_sync(WHOLE_WARP, number, source));
    float norm = norm_of(source, factor, __shfl_sync(WHOLE_WARP, enough, source));
    if (lane != source) continue;
    float to_target = fmaxf(bound.to_target, norm - lost);
    near = is_below(bound.to_query + to_target, limit, margins, value);
  }
  if (!near || value < search.from) return;
  uint place = atomicAdd(&search.found, 1);
  if (place >= FOUND_ROOM) return;
  search.bounds[place] = value;
  search.positions[place] = position;
}

// Minimum number of parts of all balls: a part has at most MAX_IN_PART balls.
__device__ __forceinline__ uint least_parts(const Tree &tree) {
  return (tree.balls + MAX_IN_PART - 1) / MAX_IN_PART;
}

// The balls of a part, by index `i` below `count`. Numbers from `tree.balls` on are no balls. Near
// balls are mostly consecutive, so parts take groups of GROUP balls round-robin.
struct PartOfBalls {
  uint part, parts, count;
  bool by_regions; // whether balls of regions that are not near are skipped
  __device__ PartOfBalls(const Tree &tree, uint part, uint parts, bool by_regions)
      : part(part), parts(parts), by_regions(by_regions) {
    uint groups = (tree.balls + GROUP - 1) / GROUP;
    count = part < groups ? (groups - part + parts - 1) / parts * GROUP : 0;
  }
  __device__ __forceinline__ uint operator()(const SearchState &, uint i) const {
    return (part + i / GROUP * parts) * GROUP + i % GROUP;
  }
};
// The balls of the listed near regions, from region `first` of the list on; MAX_IN_PART at most.
struct NearBalls {
  uint first, count;
  static constexpr bool by_regions = false; // all its regions are near
  __device__ NearBalls(const SearchState &search, uint first)
      : first(first), count(min(MAX_IN_PART, (search.near_count - first) * WARP)) {}
  __device__ __forceinline__ uint operator()(const SearchState &search, uint i) const {
    return search.regions[first + i / WARP] * WARP + i % WARP;
  }
};

// Calls `take` with each near ball among `number(i)` for i below `count`, where NONE is no ball; by
// all threads of the block. The values of a ball are `stride` apart, from `rows + ball` on.
template <class Number, class Take>
__device__ __forceinline__ void for_near_balls(uint p, const float *rows, size_t stride, uint count,
                                               const float *query, float limit, Number number,
                                               Take take) {
  Margins margins(p);
#if IS_WIDE
  uint lane = threadIdx.x % WARP;
  uint first = threadIdx.x / WARP * BALLS_AT_ONCE;
  for (uint start = first; start < count; start += WARPS * BALLS_AT_ONCE) {
    uint i = start + lane % BALLS_AT_ONCE, ball = i < count ? number(i) : NONE;
    bool near =
        shared_ball_can_compete(p, rows + ball, stride, ball != NONE, query, limit, margins);
    if (near && lane < BALLS_AT_ONCE) take(ball);
  }
#else
  for (uint i = threadIdx.x; i < count; i += THREADS) {
    uint ball = number(i);
    if (ball == NONE) continue;
    if (ball_can_compete(p, rows + ball, stride, query, limit, margins)) take(ball);
  }
#endif
}

// Lists the near regions, by all threads of the block.
__device__ __forceinline__ void find_near_regions(const Tree &tree, SearchState &search,
                                                  const float *query) {
  uint regions = regions_of(tree);
  __syncthreads();
  if (threadIdx.x == 0) search.near_count = 0;
  FOR_EACH(word, MAX_REGIONS / WARP) search.near_regions[word] = 0;
  __syncthreads();
  for_near_balls(
      tree.dimensions, tree.region_rows, regions, regions, query, search.limit,
      [&](uint i) { return i; },
      [&](uint region) {
        search.regions[atomicAdd(&search.near_count, 1)] = region;
        atomicOr(&search.near_regions[region / WARP], 1u << region % WARP);
      });
  __syncthreads();
}

// Lists the near balls of `balls`, by all threads of the block. `every_ball` skips the comparison.
template <class Balls>
__device__ __forceinline__ void list_near_balls(const Tree &tree, SearchState &search,
                                                const float *query, const Balls &balls,
                                                bool every_ball) {
  __syncthreads();
  if (threadIdx.x == 0) search.listed = 0;
  __syncthreads();
  auto number = [&](uint i) {
    uint ball = balls(search, i), region = ball / WARP;
    if (ball >= tree.balls) return NONE;
    bool is_passed_over =
        balls.by_regions && !(search.near_regions[region / WARP] >> region % WARP & 1);
    return is_passed_over ? NONE : ball;
  };
  auto take = [&](uint ball) { search.balls[atomicAdd(&search.listed, 1)] = ball; };
  if (every_ball) {
    FOR_EACH(i, balls.count) {
      uint ball = number(i);
      if (ball != NONE) take(ball);
    }
  } else {
    for_near_balls(tree.dimensions, tree.ball_rows, tree.balls, balls.count, query, search.limit,
                   number, take);
  }
  __syncthreads();
}

// Whether the leading coordinates of a difference d show that the bound, as in `bound_of`, is not
// below the limit. `square` is the sum of squares of these coordinates, and `sum` is the sum of
// squares of the same rows of W d, for the query's factor W, which are products of these
// coordinates alone. Each further coordinate raises the bound by LOW of the cluster, `low`, and
// lowers it by the query's RELATIVE, for rounding. If `low` is smaller, the answer is false: a
// cluster that is ruled out here could have a bound below the limit, and no later sweep would find
// it.
__device__ __forceinline__ bool are_enough(const float *query, float square, float sum, float low,
                                           float error, float limit, const Margins &margins) {
  float distance = __fsqrt_rn(square);
  float to_target = low * fmaxf(distance * margins.shrink - error, 0.0f);
  float lost = lost_of(query[RELATIVE], query[ABSOLUTE], distance, error);
  return low >= 1.01f * query[RELATIVE] && sum > enough_for(limit, to_target, lost);
}

// The clusters in BALLS_A_WARP listed balls, from ball `first` of the list on, compared with the
// query by the squares of their distances; by a warp. A lane has a cluster of each ball.
struct InBalls {
  float squares[BALLS_A_WARP], lows[BALLS_A_WARP], errors[BALLS_A_WARP];
  uint births[BALLS_A_WARP], positions[BALLS_A_WARP];
  bool is_ruled_out[BALLS_A_WARP]; // by the query's factor
  float limit;
  uint births_below;
  uint left; // a bit for each ball that may still have a near cluster
  __device__ __forceinline__ InBalls(const Tree &tree, const Clusters &clusters,
                                     const SearchState &search, const float *query, uint first,
                                     const Margins &margins)
      : limit(search.limit), births_below(search.births_below), left(0) {
    uint lane = threadIdx.x % WARP, p = tree.dimensions, listed = search.listed;
    size_t step = ROW_STRIDE;
    const float *rows[BALLS_A_WARP], *mean = query + COORDINATES;
#pragma unroll
    for (uint b = 0; b < BALLS_A_WARP; b++) {
      positions[b] = search.balls[min(first + b, listed - 1)] * WARP + lane;
      rows[b] = row_at(clusters, positions[b]);
      squares[b] = 0;
      is_ruled_out[b] = false;
      lows[b] = rows[b][(p + LOW) * step];
      errors[b] = rows[b][(p + ERROR) * step];
      births[b] = tree.births_at[positions[b]];
      if (first + b < listed) left |= 1u << b;
    }
    bool has_factor = IS_WIDE && p >= COORDINATES_AT_ONCE && __float_as_uint(query[SHAPE]) != NONE;
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
          x[b][k] = d;
        }
        if (!__any_sync(WHOLE_WARP, is_near(query, b, margins))) left &= ~(1u << b);
      }
      if (has_factor) {
        look_at_leading(p, query, x, margins);
        break;
      }
    }
  }
  // Rules out clusters by the leading rows of W d, for the query's factor W and the differences d:
  // the sum of squares of these rows is at most ||W d||².
  __device__ __forceinline__ void look_at_leading(uint p, const float *query,
                                                  float (&d)[BALLS_A_WARP][COORDINATES_AT_ONCE],
                                                  const Margins &margins) {
    if (left == 0) return;
    const float *column = query + QUERY_LENGTH;
    float rows[BALLS_A_WARP][COORDINATES_AT_ONCE] = {}, sums[BALLS_A_WARP] = {};
#pragma unroll
    for (uint j = 0; j < COORDINATES_AT_ONCE; j++) {
#pragma unroll
      for (uint i = j; i < COORDINATES_AT_ONCE; i++) {
#pragma unroll
        for (uint b = 0; b < BALLS_A_WARP; b++) rows[b][i] = fmaf(column[i], d[b][j], rows[b][i]);
      }
      column += p - 1 - j;
    }
#pragma unroll
    for (uint b = 0; b < BALLS_A_WARP; b++) {
#pragma unroll
      for (uint i = 0; i < COORDINATES_AT_ONCE; i++)
        sums[b] = fmaf(rows[b][i], rows[b][i], sums[b]);
      is_ruled_out[b] =
          are_enough(query, squares[b], sums[b], lows[b], query[ERROR] + errors[b], limit, margins);
      if (!__any_sync(WHOLE_WARP, is_near(query, b, margins))) left &= ~(1u << b);
    }
  }
  // Whether the lane's cluster in ball `b` counts and may be near, by the coordinates read so far.
  __device__ __forceinline__ bool is_near(const float *query, uint b,
                                          const Margins &margins) const {
    return may_be_near(squares[b], query[LOW] + lows[b], query[ERROR] + errors[b], limit,
                       margins) &&
           births[b] < births_below && !is_ruled_out[b];
  }
};

#if IS_WIDE
// Maximum number of clusters that a round of `look_into` lists. Listed clusters are compared once
// the list may lack room for another round.
#define IN_A_ROUND (WARPS * BALLS_A_WARP * WARP)
static_assert(IN_A_ROUND <= NEAR_ROOM, "room for all");

// Computes the bounds of the clusters at the listed positions, by all threads of the block. Calls
// `take` as `look_into` does.
template <class Take>
__device__ __forceinline__ void compare_listed(const Tree &tree, const Clusters &clusters,
                                               SearchState &search, float *query, Take take) {
  uint lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, p = tree.dimensions;
  uint count = search.near_listed;
  float limit = search.limit;
  size_t step = ROW_STRIDE;
  Margins margins(p);
  const float *mean = query + COORDINATES, *factor = query + QUERY_LENGTH;
  float4 *differences = differences_of_warp(query, p);
  bool has_factor = __float_as_uint(query[SHAPE]) != NONE;
  for (uint first = warp * AT_ONCE; first < count; first += WARPS * AT_ONCE) {
    uint n = first + lane % AT_ONCE;
    uint position = search.near_positions[min(n, count - 1)];
    const float *rows[AT_ONCE];
#pragma unroll
    for (uint c = 0; c < AT_ONCE; c++)
      rows[c] = row_at(clusters, __shfl_sync(WHOLE_WARP, position, c));
    const float *scalars = row_at(clusters, position) + p * step;
    float low = scalars[LOW * step], error = query[ERROR] + scalars[ERROR * step], value = 0;
    float square = 0, sum = 0;
    bool is_ruled_out = false;
    for (uint top = 0; top < p; top += WARP) {
      float4 d = {};
      uint k = top + lane;
      if (k < p) {
        float x = mean[k];
        d = {x - rows[0][k * step], x - rows[1][k * step], x - rows[2][k * step],
             x - rows[3][k * step]};
        differences[k] = d;
      }
      square += sum_of_one({d.x * d.x, d.y * d.y, d.z * d.z, d.w * d.w});
      __syncwarp();
      if (!has_factor) continue;
      sum += square_of_rows(p, top, differences, factor);
      is_ruled_out = are_enough(query, square, sum, low, error, limit, margins);
      if (__all_sync(WHOLE_WARP, is_ruled_out)) break;
    }
    Bound bound;
    // The cluster may have been merged since it was listed.
    bool near = lane < AT_ONCE && n < count && low >= 0 && !is_ruled_out &&
                bound_of(
                    clusters.full_distances, scalars, query, square, low, error, limit, margins,
                    [&](uint, float) { return sum; }, bound) &&
                is_below(bound.to_query + bound.to_target, limit, margins, value);
    take(position, near, near ? value : single_infinity(), bound, margins, Norms{p, differences});
    __syncwarp();
  }
}

// Finds the near clusters in at most MAX_IN_PART balls, by all threads of the block. All lanes of a
// warp call `take` together: each with its cluster, whether this cluster is near, and its bound, or
// infinity if it is not near. With `every_ball`, no ball is skipped.
template <class Balls, class Take>
__device__ __forceinline__ void look_into(const Tree &tree, const Clusters &clusters,
                                          SearchState &search, float *query, const Balls &balls,
                                          bool every_ball, Take take) {
  uint lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  Margins margins(tree.dimensions);
  if (threadIdx.x == 0) search.near_listed = 0;
  list_near_balls(tree, search, query, balls, every_ball);
  uint listed = search.listed;
  for (uint start = 0; start < listed; start += WARPS * BALLS_A_WARP) {
    uint first = start + warp * BALLS_A_WARP;
    if (first < listed) {
      InBalls found(tree, clusters, search, query, first, margins);
#pragma unroll
      for (uint b = 0; b < BALLS_A_WARP; b++) {
        // The near clusters of a ball are listed side by side, as their rows are in memory.
        bool near = found.left >> b & 1 && found.is_near(query, b, margins);
        uint mask = __ballot_sync(WHOLE_WARP, near), place = 0;
        if (mask == 0) continue;
        if (lane == 0) place = atomicAdd(&search.near_listed, __popc(mask));
        place = __shfl_sync(WHOLE_WARP, place, 0) + lanes_before(mask);
        if (near) search.near_positions[place] = found.positions[b];
      }
    }
    __syncthreads();
    uint near_listed = search.near_listed;
    // All threads read the count before the next round adds to it.
    __syncthreads();
    bool is_last = start + WARPS * BALLS_A_WARP >= listed;
    if (!is_last && near_listed <= NEAR_ROOM - IN_A_ROUND) continue;
    compare_listed(tree, clusters, search, query, take);
    __syncthreads();
    if (threadIdx.x == 0) search.near_listed = 0;
    __syncthreads();
  }
  __syncthreads();
}
#else
// As `look_into` of wide trees.
template <class Balls, class Take>
__device__ __forceinline__ void look_into(const Tree &tree, const Clusters &clusters,
                                          SearchState &search, float *query, const Balls &balls,
                                          bool every_ball, Take take) {
  uint lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, p = tree.dimensions;
  float limit = search.limit;
  const float *mean = query + COORDINATES, *factor = query + QUERY_LENGTH;
  Margins margins(p);
  list_near_balls(tree, search, query, balls, every_ball);
  uint listed = search.listed;
  for (uint first = warp * BALLS_A_WARP; first < listed; first += WARPS * BALLS_A_WARP) {
    InBalls found(tree, clusters, search, query, first, margins);
#pragma unroll
    for (uint b = 0; b < BALLS_A_WARP; b++) {
      if (!(found.left >> b & 1)) continue;
      uint position = found.positions[b];
      const float *scalars = row_at(clusters, position) + p * ROW_STRIDE;
      auto whitened = [&](uint which, float enough) {
        return TreePoint(clusters, position).whitened(p, mean, factor + which, enough);
      };
      Bound bound;
      float value = 0;
      bool near = found.is_near(query, b, margins) &&
                  bound_of(clusters.full_distances, scalars, query, found.squares[b], found.lows[b],
                           query[ERROR] + found.errors[b], limit, margins, whitened, bound) &&
                  is_below(bound.to_query + bound.to_target, limit, margins, value);
      take(position, near, near ? value : single_infinity(), bound, margins,
           Norms{clusters, query, position - lane});
    }
  }
  __syncthreads();
}
#endif

// The `take` of `look_into` and `compare_listed` that adds clusters to the results of a search.
__device__ __forceinline__ auto collector(const Clusters &clusters, SearchState &search) {
  return [&](uint position, bool near, float value, const Bound &bound, const Margins &margins,
             const Norms &norm_of) {
    collect(clusters, search, position, near, value, bound, margins, norm_of);
  };
}

// Adds the near clusters in `balls` to the results of a search, by all threads of the block.
template <class Balls>
__device__ __forceinline__ void collect_from(const Tree &tree, const Clusters &clusters,
                                             SearchState &search, float *query,
                                             const Balls &balls) {
  look_into(tree, clusters, search, query, balls, false, collector(clusters, search));
}

// A limit for a search without a guess: just above the WANTED-th smallest of the threads' least
// bounds, over all clusters. By all threads of the block.
__device__ __forceinline__ float limit_by_minima(const Tree &tree, const Clusters &clusters,
                                                 SearchState &search, float *query) {
  if (threadIdx.x == 0) search.limit = single_infinity();
  __syncthreads();
  float least = single_infinity();
  uint parts = least_parts(tree);
  for (uint part = 0; part < parts; part++)
    look_into(tree, clusters, search, query, PartOfBalls(tree, part, parts, false), true,
              [&](uint, bool, float value, const Bound &, const Margins &, const Norms &) {
                least = fminf(least, value);
              });
  return next_above(ranked(search, least, WANTED - 1));
}

#if IS_WIDE
// A limit for the search for the nearest clusters of a union, by a block: the WANTED-th bound of
// the candidates of the union's two clusters, or the last bound if there are fewer. Infinity if
// fewer than WANTED / 2 are left. In many columns, distances differ little, so a limit guessed from
// the distances of the two clusters finds far too many clusters or none.
__device__ __forceinline__ float limit_by_candidates(const Tree &tree, const Clusters &clusters,
                                                     SearchState &search, float *query) {
  __syncthreads();
  if (threadIdx.x < WARP) {
    uint lane = threadIdx.x;
    ChildCandidate candidate(tree, search.job);
    uint slot = candidate.counts ? candidate.slot : NONE;
    // A candidate of both clusters is compared once.
    bool is_listed = candidate.counts;
    for (uint other = 0; other < WARP; other++)
      if (__shfl_sync(WHOLE_WARP, slot, other) == slot && other < lane) is_listed = false;
    uint mask = __ballot_sync(WHOLE_WARP, is_listed), place = lanes_before(mask);
    if (is_listed) search.near_positions[place] = tree.positions[slot];
    if (lane == 0) {
      search.near_listed = __popc(mask);
      search.limit = single_infinity();
      search.from = 0;
      search.found = 0;
    }
  }
  __syncthreads();
  compare_listed(tree, clusters, search, query, collector(clusters, search));
  __syncthreads();
  uint found = search.found;
  if (found < WANTED / 2) return single_infinity();
  float bound = threadIdx.x < found ? search.bounds[threadIdx.x] : single_infinity();
  return ranked(search, bound, min(found, (uint)WANTED) - 1, WARP);
}
#endif

// Collects the clusters with bounds of at least `from` and below a limit, by all threads of the
// block. `sweep` sweeps up to `search.limit`, at first `limit`. If nothing is found, the limit is
// multiplied by `factor`, which is then squared. If more than FOUND_ROOM are found, it is lowered
// to keep about `enough`. Returns false if nearly all bounds are equal, just below `search.limit`.
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
