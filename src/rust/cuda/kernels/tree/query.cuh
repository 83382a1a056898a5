// The working memory of a search for the nearest clusters of a node, and the query: the node in
// single precision. Both are in shared memory.

#pragma once

#include "tree/balls.cuh"
#include "tree/point.cuh"

// Number of neighbours that a search should find.
#define WANTED 8
// Number of clusters that a search with centroid distances should find after it has found too many.
#define ENOUGH 64
// The same number with full distances, about which bounds tell less.
#define ENOUGH_WITH_MEMBERS 256
// Number of clusters above which a search has found too many, so the next searches get a lower
// limit. In wide trees, where bounds tell less, far more clusters are left to look at.
#define MANY_FOUND (IS_WIDE ? 24 : 64)
// Maximum number of times that a search which finds nothing is repeated with a greater limit.
#define MAX_RETRIES 8
// Number of directions of the distances that are computed together.
#define DIRECTIONS (2 * DECIDED_TOGETHER)
// Maximum number of member distances, in all directions together, that a block computes by itself,
// one in each thread at a time (`sum_few`). Only the time depends on it.
#ifndef FEW_MEMBER_DISTANCES
#define FEW_MEMBER_DISTANCES (2 * THREADS)
#endif
#if IS_WIDE
// Maximum number of clusters that may be near and are compared together.
#ifndef NEAR_ROOM
#define NEAR_ROOM 1024
#endif
#endif
// Maximum number of balls that a block looks at together.
#define MAX_IN_PART 512
// Number of consecutive balls that stay in the same part.
#ifndef GROUP
#define GROUP 8
#endif

// The part of a search's working memory that the sequencer's block has room for, too: the operands
// and results of sums of members' distances, and the state of the sweep.
struct SearchSums {
  // The node that is searched for, and the clusters whose distances from it are computed (size 0
  // where there is none). For full distances: the sums, two for each of both directions; their
  // terms; and the first span of each direction.
  Operand node;
  double distances[DECIDED_TOGETHER], sums[JOB_SUMS];
  double2 terms[THREADS];
  uint slots[DECIDED_TOGETHER], ids[DECIDED_TOGETHER], shapes[DECIDED_TOGETHER];
  uint sizes[DECIDED_TOGETHER], starts[DECIDED_TOGETHER];
  uint first_spans[DIRECTIONS + 1];
  // The sweep finds clusters whose bound is at least `from` and below `limit`.
  float from, limit, chosen_value, guess;
  uint found, found_first, listed, near, near_count, births_below, made_at, chunk, base, helpers;
  // Index of the part of all balls that is swept; number of parts; and whether the limit is not
  // raised any more.
  uint part, parts, is_last;
};

// The working memory of a search.
struct SearchState : SearchSums {
  float values[THREADS];
  float bounds[FOUND_ROOM];
  uint positions[FOUND_ROOM];
  uint by_bound[FOUND_ROOM];
  uint balls[MAX_IN_PART];
#if IS_WIDE
  // Positions of clusters that may be near.
  uint near_positions[NEAR_ROOM], near_listed;
#endif
  // The near regions, which may have a near cluster; and a bit for each region, set if it is near.
  unsigned short regions[MAX_REGIONS];
  uint near_regions[MAX_REGIONS / WARP];
  Job job;
};

static_assert(sizeof(SearchState) <= SEARCH_BYTES, "the host reserves enough");
static_assert(sizeof(SearchSums) <= SUMS_BYTES, "and for sums");

// The `rank`-th smallest value of the block's threads, counted from 0, in all threads; infinity if
// too few values are finite. The values of the threads from `end` on are infinity.
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

__device__ __forceinline__ bool is_skipped(const Job &job, uint slot) {
  for (uint i = 0; i < job.skipped; i++)
    if (job.skip[i] == slot) return true;
  return false;
}

// A lane's share of the candidates of a union's two children: the lower half of a warp has those of
// the lower child.
struct ChildCandidate {
  uint slot;
  float value; // its distance from the child, in screen units; infinity unless it counts
  float floor; // of the child
  bool counts; // whether it is active and not in the union
  __device__ ChildCandidate(const Tree &tree, const Job &job) {
    static_assert(2 * CANDIDATES == WARP, "a lane for each candidate of the two");
    uint lane = threadIdx.x % WARP, side = lane / CANDIDATES, i = lane % CANDIDATES;
    uint child = side == 0 ? job.lower_node : job.higher_node;
    // If a child is searched for at the same time, nothing is known about its neighbours.
    bool is_known = job.waits_for[side] == NONE;
    size_t at = (size_t)child * CANDIDATES + i;
    slot = tree.candidate_slots[at];
    uint id = tree.candidate_ids[at];
    ulong stored = tree.candidate_values[at];
    floor = is_known ? (float)(tree.floor_values[child] / tree.unit) : single_infinity();
    counts = is_known && i < tree.counts[child] && slot < tree.clusters;
    counts = counts && id_at(tree, slot) == id && !is_skipped(job, slot);
    value = counts ? (float)(__longlong_as_double(stored) / tree.unit) : single_infinity();
  }
};

// The search radius for the neighbours of a job's union, by a warp: `radius_factor` times the
// WANTED-th least distance of the candidates of both children. In screen units; infinity if neither
// child has a candidate or a finite floor.
__device__ float guess_by_children(const Tree &tree, const Job &job) {
  uint lane = threadIdx.x % WARP;
  ChildCandidate candidate(tree, job);
  float value = candidate.value, floor = candidate.floor;
  floor = fminf(floor, __shfl_xor_sync(WHOLE_WARP, floor, CANDIDATES));
  uint rank = 0;
#pragma unroll
  for (uint other = 0; other < WARP; other++) {
    float its = __shfl_sync(WHOLE_WARP, value, other);
    rank += its < value || (its == value && other < lane);
  }
  // If these neighbours are too few, the lower of the floors is the guess: no other neighbours are
  // below it.
  float guess =
      __shfl_sync(WHOLE_WARP, value, __ffs(__ballot_sync(WHOLE_WARP, rank == WANTED - 1)) - 1);
  if (!(guess < single_infinity())) guess = floor;
  return guess * (float)*tree.radius_factor;
}

// Writes the query of a node from its row, whose values are `step` apart: first the scalars and
// coordinates, then the factor.
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
#if IS_WIDE
#pragma unroll 8
  FOR_EACH(e, packed_length(p)) out[e] = factor[e];
#else
  FOR_EACH(e, p * p) {
    uint i = e / p, j = e % p;
    if (j <= i) out[padded_row(i) + j] = factor[element(p, i, j)];
  }
  FOR_EACH(i, p) {
    for (uint j = i + 1; j < (i / 4 + 1) * 4; j++) out[padded_row(i) + j] = 0;
  }
#endif
  if (threadIdx.x == 0) query[SHAPE] = __uint_as_float(0);
  __syncthreads();
}
