// Decides by exact distances, in double precision, which candidates of a sweep are nearest. It
// makes the decisions of CpuNeighbours::decide, and src/neighbours/decision.rs compares them.

#pragma once

#include "base.cuh"
#include "forms.cuh"
#include "neighbours/decision.cuh"
#include "sweep.cuh"

// Number of coordinates in shared memory at a time.
#define DECIDE_DEPTH 16
#define DECIDE_WARPS (DECIDE_THREADS / WARP)

// A candidate with its exact distance.
struct ExactCandidate {
  double distance;
  uint index;
  __device__ bool is_before(const ExactCandidate &other) const {
    return distance < other.distance || (distance == other.distance && index < other.index);
  }
};

// The distances of a query from the candidates of a warp's lanes, one for each lane. The warp loads
// rows together, and each lane adds up coordinate after coordinate. All lanes must call it.
template <class Form>
__device__ double distance_of_lane(const Decision &decision, uint query, uint mine,
                                   double (*values)[DECIDE_DEPTH + 1]) {
  uint lane = threadIdx.x % WARP, half = lane / DECIDE_DEPTH, column = lane % DECIDE_DEPTH;
  uint columns = decision.columns;
  Form form;
  for (uint start = 0; start < columns; start += DECIDE_DEPTH) {
    uint depth = min(DECIDE_DEPTH, columns - start);
    const double *from = decision.rows + start + column;
#pragma unroll 8
    for (uint row = 0; row < WARP; row += WARP / DECIDE_DEPTH) {
      uint index = __shfl_sync(WHOLE_WARP, mine, row + half);
      if (column < depth) values[row + half][column] = from[(size_t)index * columns];
    }
    if (half == 0 && column < depth) values[WARP][column] = from[(size_t)query * columns];
    __syncwarp();
#pragma unroll 4
    for (uint k = 0; k < depth; k++) form.add(values[WARP][k], values[lane][k], decision.parameter);
    __syncwarp();
  }
  return form.finish(columns, decision.parameter);
}

// Shared memory of a block.
struct DecisionMemory {
  double values[DECIDE_WARPS][WARP + 1][DECIDE_DEPTH + 1]; // of a warp's candidates, then the query
  ExactCandidate decided[MOST_CANDIDATES];
  double last; // distance of the last one wanted
  uint found;  // number of candidates within the limit
};

// Decides about a query, a block for each.
template <class Form>
__device__ void decide_by(const Sweep &sweep, const Decision &decision, DecisionMemory &memory) {
  uint query = blockIdx.x, index = decision.queries[query];
  uint count = sweep.counts[query], wanted = decision.wanted;
  if (count > sweep.room) {
    // A candidate without room may be the nearest.
    if (threadIdx.x == 0) decision.counts[query] = NONE;
    return;
  }
  if (threadIdx.x == 0) memory.found = 0;
  const ulong *candidates = sweep.candidates + (size_t)query * sweep.room;
  for (uint first = threadIdx.x / WARP * WARP; first < count; first += DECIDE_THREADS) {
    uint i = first + threadIdx.x % WARP;
    uint mine = decision.indices[(uint)candidates[min(i, count - 1)]];
    double distance =
        distance_of_lane<Form>(decision, index, mine, memory.values[threadIdx.x / WARP]);
    if (i < count) memory.decided[i] = {distance, mine};
  }
  __syncthreads();

  double limit = decision.limits[query];
  uint within = 0;
  for (uint i = threadIdx.x; i < count; i += DECIDE_THREADS) {
    ExactCandidate own = memory.decided[i];
    if (own.distance > limit) continue;
    within += 1;
    uint rank = 0;
    for (uint j = 0; j < count; j++) rank += memory.decided[j].is_before(own);
    if (rank >= wanted) continue;
    decision.distances[(size_t)query * wanted + rank] = own.distance;
    decision.nearest[(size_t)query * wanted + rank] = own.index;
    if (rank + 1 == wanted) memory.last = own.distance;
  }
  if (within > 0) atomicAdd(&memory.found, within);
  __syncthreads();
  if (threadIdx.x > 0) return;
  // No reference outside the candidates has a lower distance than the floor. If no reference within
  // the limit was left out, the floor is still the first key beyond the limit (`first_beyond` of
  // layout.rs). For an infinite limit its bound is NaN, so the comparison below is false.
  double floor = (double)__uint_as_float((uint)(sweep.floors[query] >> 32)) * decision.unit;
  uint found = min(memory.found, wanted);
  double farthest = found == wanted ? memory.last : limit;
  bool open = farthest >= floor;
  decision.counts[query] = open ? NONE : found;
  if (open) decision.limits[query] = farthest;
}
