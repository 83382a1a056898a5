// The screen of a problem: its clusters in single precision, for lower bounds on centroid
// distances. Most clusters are ruled out by their bounds, so few distances are computed in double
// precision.
//
// Each cluster has a place in the screen. At the start, the host has sorted the observations so
// that those at neighbouring places are near each other. The clusters at WARP consecutive places
// are in a ball, and a search skips the balls that are too far away. A union takes the place of the
// larger of its two clusters, and the other place becomes empty. From time to time, the clusters
// move to lower places, in the same order, and leave no place empty.

#pragma once

#include "agglomerate/problem.cuh"
#include "block.cuh"
#include "cluster/balls.cuh"
#include "cluster/bounds.cuh"
#include "cluster/point.cuh"

// The clusters move to lower places once the places are this many times as many as the clusters.
// If too low, they move too often; if too high, searches read empty places, and balls become large.
#define PLACES_A_CLUSTER 1.5
// Number of places that are too few to be worth moving clusters.
#define FEW_PLACES (WARPS * WARP)
// Number of observations from which the center of a screen is computed.
#define CENTER_SAMPLE 31
// Largest exponent of a unit. As in frame.rs.
#define LARGEST_EXPONENT 250

// Number of balls.
__device__ __forceinline__ uint balls_of(const Problem &problem) {
  return (problem.places + WARP - 1) / WARP;
}

// The ball of this number: value k is at k * problem.most_balls().
__device__ __forceinline__ float *ball_at(const Problem &problem, uint ball) {
  return problem.ball_rows() + ball;
}

// LOW of a cluster with a shape of this number.
__device__ __forceinline__ float low_of(const Problem &problem, uint shape) {
  bool is_identity = shape == NONE || shape & IDENTITY;
  return is_identity ? 1 : __double2float_rd(problem.shape_scalars(shape)[SMALLEST_STRETCH]);
}

// Computes the ball of this number, by a warp.
__device__ __forceinline__ void enclose_places(const Problem &problem, uint ball) {
  const Arrays &arrays = problem.arrays;
  uint place = ball * WARP + threadIdx.x % WARP;
  ulong at = problem.first + min(place, problem.places - 1);
  bool there = place < problem.places && arrays.births_at[at] != NONE;
  const float *single = problem.singles() + (at - problem.first);
  enclose_by_warp(
      problem.p, [&](uint k) { return single[(size_t)k * problem.n]; }, there, arrays.errors[at],
      arrays.lows[at], problem.ball_rows(), problem.most_balls(), ball);
}

// Computes all balls, by all threads of the block.
__device__ __forceinline__ void enclose_all(const Problem &problem) {
  __syncthreads();
  for (uint ball = threadIdx.x / WARP; ball < balls_of(problem); ball += WARPS)
    enclose_places(problem, ball);
  __syncthreads();
}

// Moves all clusters to lower places, so that no place is empty, reads their shapes, and computes
// all balls again; by all threads of the block.
template <int P> __device__ __noinline__ void move_together(Problem &problem) {
  const Arrays &arrays = problem.arrays;
  uint p = problem.p, n = problem.n, places = problem.places, end = 0;
  ulong first = problem.first;
  float *singles = problem.singles();
  __syncthreads();
  for (uint start = 0; start < places; start += THREADS) {
    uint place = start + threadIdx.x, from = min(place, places - 1);
    // All values are read before the first is written: a cluster's new place may be another
    // cluster's old one.
    uint its_birth = place < places ? arrays.births_at[first + from] : NONE;
    uint slot = arrays.slots_at[first + from];
    float error = arrays.errors[first + from];
    Point<P> point(p, singles + from, n);
    uint ballot = __ballot_sync(WHOLE_WARP, its_birth != NONE), to = end + lanes_before(ballot);
    if (threadIdx.x % WARP == 0) problem.shared.sources[threadIdx.x / WARP] = __popc(ballot);
    __syncthreads();
    for (uint w = 0; w < WARPS; w++) {
      uint count = problem.shared.sources[w];
      if (w < threadIdx.x / WARP) to += count;
      end += count;
    }
    if (its_birth != NONE) {
#pragma unroll
      for (int k = 0; k < Point<P>::SIZE; k++)
        if (k < p) singles[(size_t)k * n + to] = point.x[k];
      arrays.births_at[first + to] = its_birth;
      arrays.slots_at[first + to] = slot;
      arrays.errors[first + to] = error;
      uint shape = arrays.shapes[first + arrays.slot_positions[first + slot]];
      arrays.shapes_at[first + to] = shape;
      arrays.lows[first + to] = low_of(problem, shape);
      arrays.places[first + slot] = to;
    }
    __syncthreads();
  }
  problem.places = end;
  enclose_all(problem);
}

// The median of coordinate k of some observations.
__device__ __forceinline__ double middle_of(const Problem &problem, uint k) {
  uint count = min(problem.n, (uint)CENTER_SAMPLE), step = problem.n / count;
  auto sample = [&](uint i) { return problem.observation(i * step)[k]; };
  double middle = sample(0);
#pragma unroll 1
  for (uint i = 0; i < count; i++) {
    double mine = sample(i);
    uint rank = 0;
#pragma unroll 1
    for (uint j = 0; j < count; j++) {
      double other = sample(j);
      rank += other < mine || (other == mine && j < i);
    }
    if (rank == count / 2) middle = mine;
  }
  return middle;
}

// Makes the screen of all observations, by all threads of the block.
__device__ __noinline__ void begin_screen(Problem &problem) {
  const Arrays &arrays = problem.arrays;
  uint p = problem.p, n = problem.n;
  ulong first = problem.first;
  FOR_EACH(k, p) problem.center()[k] = middle_of(problem, k);
  __syncthreads();
  double largest = 0;
  FOR_EACH(i, n) {
#pragma unroll 1
    for (uint k = 0; k < p; k++)
      largest = fmax(largest, fabs(problem.observation(i)[k] - problem.center()[k]));
  }
  largest = block_max(problem.shared, largest);
  // As ClusterFrame::new in screen/frame.rs.
  int exponent = (int)((ulong)__double_as_longlong(largest) >> 52) - 1022 - LOG2_LARGEST_COORDINATE;
  exponent = max(-LARGEST_EXPONENT, min(exponent, LARGEST_EXPONENT));
  problem.unit = __longlong_as_double((ulong)(exponent + 1023) << 52);
  problem.places = n;
  double scale = 1 / problem.unit;
  FOR_EACH(place, n) {
    uint slot = arrays.slots_at[first + place];
    double lost = 0;
#pragma unroll 1
    for (uint k = 0; k < p; k++) {
      double exact = (problem.observation(slot)[k] - problem.center()[k]) * scale;
      problem.singles()[(size_t)k * n + place] = to_single(exact, lost);
    }
    arrays.places[first + slot] = place;
    arrays.births_at[first + place] = slot;
    arrays.errors[first + place] = error_of(lost);
    arrays.shapes_at[first + place] = NONE;
    arrays.lows[first + place] = 1;
  }
  enclose_all(problem);
}

// Writes the union at a position to `place`, and enlarges the ball around this place, by the first
// warp. `other` is the place of the other of its clusters. `birth` is that of the union.
__device__ __forceinline__ void place_union(const Problem &problem, uint position, uint place,
                                            uint other, uint birth, uint shape) {
  const Arrays &arrays = problem.arrays;
  uint p = problem.p, slot = arrays.slots[problem.first + position];
  ulong at = problem.first + place;
  size_t balls = problem.most_balls();
  float *ball = ball_at(problem, place / WARP), square = 0;
  double scale = 1 / problem.unit, lost = 0;
  for (uint k = threadIdx.x; k < p; k += WARP) {
    double exact = (problem.mean_at(k, position) - problem.center()[k]) * scale;
    float single = to_single(exact, lost), d = single - ball[k * balls];
    problem.singles()[(size_t)k * problem.n + place] = single;
    square = fmaf(d, d, square);
  }
  lost = warp_sum(lost);
  square = warp_sum(square);
  if (threadIdx.x > 0) return;
  float error = error_of(lost), low = low_of(problem, shape);
  arrays.errors[at] = error;
  arrays.lows[at] = low;
  arrays.births_at[at] = birth;
  arrays.slots_at[at] = slot;
  arrays.shapes_at[at] = shape;
  arrays.places[problem.first + slot] = place;
  arrays.births_at[problem.first + other] = NONE;
  float *radius = ball + (p + RADIUS) * balls, *ball_low = ball + (p + BALL_LOW) * balls;
  *radius = fmaxf(*radius, rounded_radius(p, __fsqrt_rn(square) + error));
  *ball_low = fminf(*ball_low, low);
}

// Writes the query for the cluster at a place with a shape of this number, NONE for the identity,
// by all threads of the block. Its factor in bands is in `problem.factor()`.
template <int P>
__device__ __forceinline__ void write_query(const Problem &problem, uint place, uint shape) {
  const Arrays &arrays = problem.arrays;
  uint p = problem.p;
  float *query = problem.query(), *factor = query + query_length<P>();
  FOR_EACH(k, query_length<P>() - COORDINATES)
  query[COORDINATES + k] = k < p ? problem.singles()[(size_t)k * problem.n + place] : 0;
  double stretch = shape == NONE ? 1 : problem.shape_scalars(shape)[STRETCH];
  bool is_shaped = shape != NONE && is_usable(p, stretch);
  if (is_shaped) {
    uint columns = (p + 3) / 4 * 4;
    FOR_EACH(e, p * columns) {
      uint i = e / columns, j = e % columns, band = j / BAND;
      if (j >= (i / 4 + 1) * 4) continue;
      uint at = band_start(p, band) + j % BAND * band_rows(p, band) + i - BAND * band;
      factor[padded_row(i) + j] = j <= i ? (float)problem.factor()[at] : 0;
    }
  }
  if (threadIdx.x == 0) {
    write_stretches(p, query, stretch, arrays.lows[problem.first + place]);
    query[ERROR] = arrays.errors[problem.first + place];
    query[SHAPE] = __uint_as_float(is_shaped ? 0 : NONE);
  }
  __syncthreads();
}

// The cluster at a place, and its bound.
struct Placed {
  float bound;
  uint slot, shape;
};

// The cluster at the place of each lane and its bound, for the query of a cluster with this birth;
// by a warp. The bound is infinity if it is not below `limit`, or if the cluster is not older.
template <int P>
__device__ __noinline__ Placed bound_at(const Problem &problem, uint birth, uint place,
                                        float limit) {
  const Arrays &arrays = problem.arrays;
  const float *query = problem.query();
  uint p = problem.p, there = min(place, problem.places - 1);
  ulong at = problem.first + there;
  Margins margins(p);
  // All values are requested before any is used.
  uint its_birth = arrays.births_at[at];
  float low = arrays.lows[at], error = query[ERROR] + arrays.errors[at];
  Placed placed = {single_infinity(), arrays.slots_at[at], arrays.shapes_at[at]};
  Point<P> point(p, problem.singles() + there, problem.n);
  float square = point.square(p, query + COORDINATES);
  bool is_near = place < problem.places && its_birth < birth &&
                 may_be_near(square, query[LOW] + low, error, limit, margins);
  if (!is_near) return placed;
  auto whitened = [&](uint factor, float enough) {
    return point.whitened(p, query + COORDINATES, query + query_length<P>() + factor, enough);
  };
  Bound bound;
  float value = 0;
  is_near = bound_of(false, nullptr, query, square, low, error, limit, margins, whitened, bound) &&
            is_below(bound.to_query + bound.to_target, limit, margins, value);
  if (is_near) placed.bound = value;
  return placed;
}

// Whether a ball can hold a cluster with a bound below `limit`.
template <int P>
__device__ __forceinline__ bool ball_may_be_near(const Problem &problem, uint ball, float limit) {
  const float *query = problem.query(), *row = ball_at(problem, ball);
  uint p = problem.p;
  size_t balls = problem.most_balls();
  float error = row[(p + RADIUS) * balls] + query[ERROR];
  float low = query[LOW] + row[(p + BALL_LOW) * balls];
  float square = Point<P>(p, row, balls).square(p, query + COORDINATES);
  return ball_competes(square, error, low, limit, Margins(p));
}
