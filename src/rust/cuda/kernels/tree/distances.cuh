// The full distances between a node and some clusters: means over members.
//
// Their sums do not depend on the order of the terms, so any warp of any block may add a share. The
// members of each cluster are divided into spans, and so are the members of the node, once for each
// cluster. If all members together are few, a span is a single member.

#pragma once

#include "tree/search.cuh"

// Minimum number of consecutive spans of a direction, in one part, for which a block copies the
// target to shared memory. Its factor is read for every member, and the L1 cache, which shares its
// memory with shared memory, has no room for it in many columns. Without copies, trees of 30,000 x
// 17, 25 and 41 took 1.7, 1.7 and 2 times as long (H200).
#ifndef LONG_DIRECTION
#define LONG_DIRECTION 8
#endif

__device__ __forceinline__ void put_cluster(SearchState &search, uint n, const Operand &place) {
  search.slots[n] = place.node;
  search.shapes[n] = place.shape;
  search.sizes[n] = place.size;
  search.starts[n] = place.start;
}

__device__ __forceinline__ Operand cluster_of(const SearchState &search, uint n) {
  return {search.slots[n], search.shapes[n], search.sizes[n], search.starts[n]};
}

// Computes where the spans, of `members` members each, of all clusters start: for each cluster,
// first the spans of its own members, then the spans of the node's members. By all threads of the
// block.
__device__ void find_spans(SearchState &search, uint members) {
  __syncthreads();
  uint lane = threadIdx.x;
  if (lane < WARP) {
    // Spans of one member are used for few members only: a greater number tells no more.
    auto spans_of = [&](uint size) {
      return members > 1 ? (size + members - 1) / members : min(size, FEW_MEMBER_DISTANCES + 1u);
    };
    uint size = lane < DECIDED_TOGETHER ? search.sizes[lane] : 0;
    uint mine = spans_of(size), both = size > 0 ? mine + spans_of(search.node.size) : 0, end = both;
    for (uint step = 1; step < WARP; step *= 2) {
      uint before = __shfl_up_sync(WHOLE_WARP, end, step);
      if (lane >= step) end += before;
    }
    if (lane <= DECIDED_TOGETHER) search.first_spans[2 * lane] = end - both;
    if (lane < DECIDED_TOGETHER) search.first_spans[2 * lane + 1] = end - both + mine;
  }
  __syncthreads();
}
static_assert(DECIDED_TOGETHER < WARP, "a lane for each, and one for the end");

__device__ __forceinline__ uint all_spans(const SearchState &search) {
  return search.first_spans[DIRECTIONS];
}

// The operand whose members a direction sums over, and the operand to which their distances are.
__device__ __forceinline__ void find_ends(const SearchState &search, uint direction, Operand &from,
                                          Operand &to) {
  Operand cluster = cluster_of(search, direction / 2);
  bool is_back = direction % 2;
  from = is_back ? search.node : cluster;
  to = is_back ? cluster : search.node;
}

// Computes the sums if a span is one member and all members are few, by all threads of the block: a
// thread computes each term, then a thread adds the terms of each direction.
__device__ __forceinline__ void sum_few(const Tree &tree, SearchState &search) {
  uint i = threadIdx.x, all = all_spans(search);
  double2 sum = make_double2(0, 0);
  for (uint start = 0; start < all; start += THREADS) {
    uint at = start + i;
    if (at < all) {
      uint direction = 0;
      // The last direction that does not start after this span.
      for (uint end = DIRECTIONS; end - direction > 1;) {
        uint middle = (direction + end) / 2;
        if (search.first_spans[middle] <= at)
          direction = middle;
        else
          end = middle;
      }
      Operand from, to;
      find_ends(search, direction, from, to);
      search.terms[i] =
          member_term(tree, from, at - search.first_spans[direction], target_of(tree, to));
    }
    __syncthreads();
    if (i < DIRECTIONS) {
      uint end = min(search.first_spans[i + 1], start + THREADS);
      for (uint k = max(search.first_spans[i], start); k < end; k++) {
        sum.x += search.terms[k - start].x;
        sum.y += search.terms[k - start].y;
      }
    }
    __syncthreads();
  }
  if (i < DIRECTIONS) {
    search.sums[2 * i] = sum.x;
    search.sums[2 * i + 1] = sum.y;
  }
  __syncthreads();
}

// The direction of a span: the last one that does not start after it; by a warp.
__device__ __forceinline__ uint direction_of(const SearchState &search, uint span) {
  static_assert(DIRECTIONS >= WARP, "a direction for each lane");
  uint lane = threadIdx.x % WARP, mine = search.first_spans[1 + lane];
  bool comes_first = lane + WARP < DIRECTIONS && search.first_spans[1 + lane + WARP] <= span;
  return __popc(__ballot_sync(WHOLE_WARP, mine <= span)) +
         __popc(__ballot_sync(WHOLE_WARP, comes_first));
}

// Adds the spans from `first` to `end` - 1, which are of this direction, to its sums; by a warp.
__device__ __forceinline__ void add_spans_of(const Tree &tree, const SearchState &search,
                                             uint direction, const Operand &from, const Target &to,
                                             uint first, uint end, double *sums) {
  if (first >= end) return;
  uint start = search.first_spans[direction];
  double2 sum =
      sum_of_lane(tree, from, to, (first - start) * SPAN, min(from.size, (end - start) * SPAN));
  sum = {warp_sum(sum.x), warp_sum(sum.y)};
  if (threadIdx.x % WARP > 0) return;
  atomicAdd(sums + 2 * direction, sum.x);
  atomicAdd(sums + 2 * direction + 1, sum.y);
}

// Adds the spans from `first` to `end` - 1 to the sums, by a warp.
__device__ __forceinline__ void add_spans(const Tree &tree, const SearchState &search, uint first,
                                          uint end, double *sums) {
  while (first < end) {
    uint direction = direction_of(search, first);
    uint last = min(end, search.first_spans[direction + 1]);
    Operand from, to;
    find_ends(search, direction, from, to);
    add_spans_of(tree, search, direction, from, target_of(tree, to), first, last, sums);
    first = last;
  }
}

// Calls `add` with the warp's share of the spans from `first` to `end` - 1.
template <class Add> __device__ __forceinline__ void divide_spans(uint first, uint end, Add add) {
  uint share = (end - first + WARPS - 1) / WARPS;
  first = min(end, first + threadIdx.x / WARP * share);
  add(first, min(end, first + share));
}

// Adds the spans from `first` to `end` - 1, which are of this direction, to its sums, by all
// threads of the block. First copies the mean and the factor of the target to shared memory.
__device__ __forceinline__ void add_long_direction(const Tree &tree, const SearchState &search,
                                                   uint direction, uint first, uint end,
                                                   double *sums, const Workspace &room) {
  Operand from, to;
  find_ends(search, direction, from, to);
  Target target = target_of(tree, to);
  uint p = tree.dimensions;
  double *factor = room.factor(), *mean = room.line();
  __syncthreads();
  FOR_EACH(k, p) mean[k] = target.mean[k];
  if (target.has_shape) FOR_EACH(e, banded_length(p)) factor[e] = target.factor[e];
  __syncthreads();
  target.mean = mean;
  target.factor = factor;
  divide_spans(first, end, [&](uint first, uint end) {
    add_spans_of(tree, search, direction, from, target, first, end, sums);
  });
}

// Adds part `part` of `parts` of all spans to the sums, by all threads of the block.
__device__ void add_part(const Tree &tree, const SearchState &search, uint part, uint parts,
                         double *sums, const Workspace &room) {
  uint all = all_spans(search), each = (all + parts - 1) / parts;
  uint first = min(all, part * each), end = min(all, first + each);
  auto add_short = [&](uint first, uint end) { add_spans(tree, search, first, end, sums); };
#if IS_WIDE
  divide_spans(first, end, add_short);
#else
  for (uint done = first;;) {
    // Directions with few spans are done together, up to the next direction with many spans.
    uint direction = 0, last = first;
    bool is_long = false;
    while (first < end && !is_long) {
      direction = direction_of(search, first);
      last = min(end, search.first_spans[direction + 1]);
      is_long = last - first >= LONG_DIRECTION;
      if (!is_long) first = last;
    }
    divide_spans(done, first, add_short);
    if (!is_long) return;
    add_long_direction(tree, search, direction, first, last, sums, room);
    done = first = last;
  }
#endif
}

// The distance between the node and cluster number `n`, from the sums.
__device__ double summed_distance(const SearchState &search, uint n) {
  const double *sums = search.sums + 4 * n;
  return average(exact_mean(sums[0], sums[1], search.sizes[n]),
                 exact_mean(sums[2], sums[3], search.node.size));
}
