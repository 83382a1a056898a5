// Codes of sorted observations: their differences from the center of their group in 8 bits each
// (scalar quantization of residuals, as in Jegou et al. 2011, Product quantization for nearest
// neighbor search). A draw reads the codes in their order, and only those observations themselves
// that may be nearer to the new center by their codes.
//
// The unit of a group is a step: its farthest observation was RADIUS steps from its center g when
// the observations were sorted. Let t = x - g be the differences of an observation in steps, q the
// integers nearest to them, y = c - g the differences of the new center, and z the integers nearest
// to PARTS y. By the triangle inequality, the distance of the two is
//
//   |t - y| >= |q - z / PARTS| - |t - q| - |y - z / PARTS|
//
// steps. So the observation is no nearer to c than u, its distance from the nearest center so far,
// in steps, if the integers reach >= PARTS (u + |t - q|) and allowance >= |PARTS y - z| have
//
//   |PARTS q - z| >= reach + allowance.
//
// Both sides are squared, and computed without an error:
//
// - A coordinate of q is at most RADIUS, by the greatest square of the group. A coordinate of z is
//   less than 2 PARTS RADIUS + 1, since a group is looked at only if its radius is at least half of
//   the distance of c from g (`open_groups`). As norms, rounding adds up to sqrt(columns) / 2 < 128
//   to each: |q| < RADIUS + 128 and |z| < 2 PARTS RADIUS + 129. So |PARTS q - z| < 2^15 for up to
//   CODED_COLUMNS columns, and its square fits into an int. z = HIGH high + low, in 8 bits each.
// - |PARTS y - z| <= sqrt(columns) (1/2 + 2^-36), as y has a relative error of 2^-51 at most.
// - |t - q| is computed from t, for each observation. The roundings of t, u and their sum change
//   PARTS times the sum by less than 10^-6. `now < square` in double precision is certainly false
//   for an observation that is beyond u by a relative margin of (columns + 16) 2^-52 and 10^-150
//   (kmeans/margin.rs): less than 10^-6 again. REACH_MARGIN is more than all of these.
//
// Groups whose squares may underflow, with a greatest one below LEAST_CODED, or whose greatest
// square is infinite have steps of 0: all integers are 0, and all observations open.

#pragma once

#include "base.cuh"
#include "kmeans/launch.cuh"

// Number of steps from the center of a group to its farthest observation: all differences fit into
// 8 bits.
#define RADIUS 126
// The new center is rounded to parts of a step: this number of them is a step.
#define PARTS 64
// Number of parts in a unit of `high`.
#define HIGH 128
// Margin of `reach` for roundings, as derived above.
#define REACH_MARGIN 1e-3
// Least greatest square of a group for codes: below it, squares may underflow.
#define LEAST_CODED 1e-200
// Number of bits below the reach of an observation: it takes the last two bytes of the code.
#define REACH_SHIFT 16
// Number of observations of a piece for each lane.
#define PIECE_EACH (PIECE / WARP)

// Number of steps in a unit of the coordinates.
__device__ __forceinline__ double steps_of(double greatest) {
  return greatest < LEAST_CODED ? 0 : RADIUS / sqrt(greatest);
}

// Writes an integer of 8 bits to a place of four words.
__device__ __forceinline__ void put_byte(uint *words, uint place, int value) {
  words[place / 4] |= ((uint)value & 0xff) << place % 4 * 8;
}

// Writes the code of observation `i`, which is in place `place` of the sorted observations of this
// group, with its square.
__device__ void encode(const Seeding &s, const Groups &groups, uint group, uint place, uint i,
                       double square) {
  const double *row = s.x + (size_t)i * s.columns;
  const double *center = s.centers + (size_t)group * s.columns;
  double steps = steps_of(groups.greatest[group]), errors = 0;
  for (uint quad = 0; quad < groups.quads; quad++) {
    uint words[QUAD / 4] = {};
#pragma unroll
    for (uint at = 0; at < QUAD; at++) {
      uint k = quad * QUAD + at;
      if (k >= s.columns || steps == 0) continue;
      double difference = (row[k] - center[k]) * steps, rounded = rint(difference);
      errors += (difference - rounded) * (difference - rounded);
      put_byte(words, at, (int)rounded);
    }
    if (quad + 1 == groups.quads) {
      double reach = steps == 0 ? 0 : PARTS * (sqrt(square) * steps + sqrt(errors));
      words[QUAD / 4 - 1] |= ((uint)(reach + REACH_MARGIN) + 1) << REACH_SHIFT;
    }
    groups.codes[(size_t)place * groups.quads + quad] = {words[0], words[1], words[2], words[3]};
  }
}

// The code of the new center relative to this group: `quads` words of `high`, `quads` of `low`, and
// the sum of the squares of z.
__device__ __forceinline__ uint4 *center_code(const Groups &groups, uint group) {
  return groups.center_codes + (size_t)group * (2 * groups.quads + 1);
}

// Writes the code of the new center relative to this group.
__device__ void encode_center(const Seeding &s, const Groups &groups, uint group, uint number) {
  const double *from = s.centers + (size_t)group * s.columns;
  const double *center = s.centers + (size_t)number * s.columns;
  double parts = PARTS * steps_of(groups.greatest[group]);
  uint4 *code = center_code(groups, group);
  uint squares = 0;
  for (uint quad = 0; quad < groups.quads; quad++) {
    uint high[QUAD / 4] = {}, low[QUAD / 4] = {};
#pragma unroll
    for (uint at = 0; at < QUAD; at++) {
      uint k = quad * QUAD + at;
      if (k >= s.columns || parts == 0) continue;
      int z = (int)rint((center[k] - from[k]) * parts);
      int lower = (z + HIGH / 2 & HIGH - 1) - HIGH / 2;
      put_byte(high, at, (z - lower) / HIGH);
      put_byte(low, at, lower);
      squares += z * z;
    }
    code[quad] = {high[0], high[1], high[2], high[3]};
    code[groups.quads + quad] = {low[0], low[1], low[2], low[3]};
  }
  code[2 * groups.quads] = {squares, 0, 0, 0};
}

// Adds the products of 16 integers of 8 bits each.
__device__ __forceinline__ int add_products(const uint4 &a, const uint4 &b, int sum) {
  sum = __dp4a((int)a.x, (int)b.x, sum);
  sum = __dp4a((int)a.y, (int)b.y, sum);
  sum = __dp4a((int)a.z, (int)b.z, sum);
  return __dp4a((int)a.w, (int)b.w, sum);
}

// Finds the sorted observations of a piece of this group that may be nearer to the new center, by a
// warp. Returns a bit for each of this lane's observations, every WARP-th one from `start` on.
__device__ __forceinline__ uint find_open(const Seeding &s, const Groups &groups, uint group,
                                          uint start, uint end) {
  const uint4 *center = center_code(groups, group);
  uint quads = groups.quads, lane = threadIdx.x % WARP, open = 0;
  uint allowance = (uint)(sqrt((double)s.columns) / 2) + 1;
  uint reaches[PIECE_EACH];
  int squares[PIECE_EACH] = {}, products[PIECE_EACH] = {};
  for (uint quad = 0; quad < quads; quad++) {
    uint4 high = center[quad], low = center[quads + quad];
#pragma unroll
    for (int j = 0; j < PIECE_EACH; j++) {
      uint place = min(start + j * WARP + lane, end - 1);
      uint4 code = groups.codes[(size_t)place * quads + quad];
      if (quad + 1 == quads) {
        reaches[j] = code.w >> REACH_SHIFT;
        code.w &= (1u << REACH_SHIFT) - 1;
      }
      squares[j] = add_products(code, code, squares[j]);
      products[j] += HIGH * add_products(code, high, 0) + add_products(code, low, 0);
    }
  }
  int of_center = (int)center[2 * quads].x;
#pragma unroll
  for (int j = 0; j < PIECE_EACH; j++) {
    uint limit = reaches[j] + allowance;
    int square = PARTS * PARTS * squares[j] - 2 * PARTS * products[j] + of_center;
    bool is_there = start + j * WARP + lane < end;
    if (is_there && (uint)square < limit * limit) open |= 1u << j;
  }
  return open;
}
