// Nodes of a growing tree, their distances, and the order of pairs.

#pragma once

// Defines THREADS, which the other headers need.
#include "tree/launch.cuh"

#include "block.cuh"
#include "cluster/bounds.cuh"
#include "cluster/distance.cuh"
#include "cluster/whitening.cuh"

// The number of a shape, also if the shape is the identity.
__device__ __forceinline__ uint number_of(uint shape) {
  return shape == NONE ? NONE : shape & ~IDENTITY;
}

// The number of a shape as distances need it: NONE for the identity.
__device__ __forceinline__ uint without_identity(uint shape) {
  return shape & IDENTITY ? NONE : shape;
}

__device__ __forceinline__ uint shape_of(const Tree &tree, uint node) {
  return without_identity(tree.shapes[node]);
}

__device__ __forceinline__ double *scatter_of(const Tree &tree, uint shape) {
  return tree.scatters + (size_t)shape * packed_length(tree.dimensions);
}

__device__ __forceinline__ double *bands_of(const Tree &tree, uint shape) {
  return tree.factors + (size_t)shape * banded_length(tree.dimensions);
}

__device__ __forceinline__ double *mean_of(const Tree &tree, uint node) {
  return tree.means + (size_t)node * tree.dimensions;
}

// The id of a slot's cluster, which another block may change at any time.
__device__ __forceinline__ uint id_at(const Tree &tree, uint slot) {
  return *(volatile uint *)(tree.ids + slot);
}

// The tie of a pair: its slots. A floor comes before a pair of the same slots.
__device__ __forceinline__ ulong pair_tie(uint slot, uint other) {
  uint lower = min(slot, other), higher = max(slot, other);
  return (ulong)lower << 32 | (ulong)higher << 1 | 1;
}
__device__ __forceinline__ bool is_pair(ulong tie) { return tie & 1; }
__device__ __forceinline__ uint lower_slot(ulong tie) { return tie >> 32; }
__device__ __forceinline__ uint higher_slot(ulong tie) { return (uint)tie >> 1; }

// Prefetches a node's mean and factor, by `count` threads, of which this is number `nth`.
__device__ __forceinline__ void prefetch_node(const Tree &tree, uint node, uint shape, uint nth,
                                              uint count) {
  uint p = tree.dimensions, bytes = shape == NONE ? 0 : sizeof(double) * banded_length(p);
  if (nth == 0) prefetch(mean_of(tree, node));
  for (uint at = nth * LINE_BYTES; at < bytes; at += count * LINE_BYTES)
    prefetch((const char *)bands_of(tree, shape) + at);
}

// Whether full distances are used, which are means over members.
__device__ __forceinline__ bool has_full_distances(const Tree &tree) {
  return tree.member_room > 0;
}

__host__ __device__ __forceinline__ uint spread_length(uint p) { return THIRD_MOMENTS + p; }

__device__ __forceinline__ double *spread_of(const Tree &tree, uint shape) {
  return tree.spreads + (size_t)shape * spread_length(tree.dimensions);
}

// A node as an operand of distances. The shape is NONE for the identity. The members are `size`
// elements of `tree.members`, from `start` on.
struct Operand {
  uint node, shape, size, start;
};

__device__ __forceinline__ Operand operand_of(const Tree &tree, uint node) {
  if (!has_full_distances(tree)) return {node, shape_of(tree, node), 1, 0};
  return {node, shape_of(tree, node), tree.sizes[node], tree.member_starts[node]};
}

// The quanta of sums of distances to a node with this shape.
__device__ __forceinline__ Quanta quanta_for(const Tree &tree, uint shape) {
  Quanta quanta;
  if (shape == NONE)
    quanta_of(1, tree.diagonal, tree.log2_terms, &quanta);
  else
    quanta = {spread_of(tree, shape)[QUANTUM_OF_HIGH], spread_of(tree, shape)[QUANTUM_OF_LOW]};
  return quanta;
}

// What the distances of members to a node are computed from: its mean, its factor in bands, which
// counts only if it has a shape, and its quanta.
struct Target {
  const double *mean, *factor;
  bool has_shape;
  Quanta quanta;
};

__device__ __forceinline__ Target target_of(const Tree &tree, const Operand &to) {
  return {mean_of(tree, to.node), bands_of(tree, to.shape), to.shape != NONE,
          quanta_for(tree, to.shape)};
}

// The term of member number `m` of `from` in the sum of distances to a target. A single member's
// distance is no sum, and has no low part.
__device__ __forceinline__ double2 member_term(const Tree &tree, const Operand &from, uint m,
                                               const Target &to) {
  uint p = tree.dimensions;
  const double *x = tree.x + (size_t)tree.members[from.start + m] * p;
  Difference<IN_REGISTERS> difference(p, x, to.mean);
  double distance = to.has_shape ? difference.to_shape(p, to.factor) : difference.to_identity(p);
  return from.size == 1 ? make_double2(distance, 0) : exact_term(distance, to.quanta);
}

// The lane's share of the sum of distances to a target, over the members `first` to `end` - 1 of
// `from`; by a warp.
__device__ __forceinline__ double2 sum_of_lane(const Tree &tree, const Operand &from,
                                               const Target &to, uint first, uint end) {
  double2 sum = make_double2(0, 0);
  for (uint m = first + threadIdx.x % WARP; m < end; m += WARP) {
    double2 term = member_term(tree, from, m, to);
    sum.x += term.x;
    sum.y += term.y;
  }
  return sum;
}

// Stride between vectors, in numbers: odd, to avoid bank conflicts in shared memory.
__host__ __device__ __forceinline__ uint stride_of(uint p) { return p | 1; }

// Doubles of scratch memory for each of the distances that are computed together.
__host__ __device__ __forceinline__ uint scratch_doubles(uint p) { return 3 * stride_of(p); }

// Computes the centroid distances between a node and `count` others, by all threads of the block,
// `together` of them at a time in `scratch`. `other(n)` is operand number n; its node is NONE if
// there is none. `take(n, distance)` gets each distance, in one thread.
template <class Other, class Take>
__device__ __forceinline__ void node_distances(const Tree &tree, const Operand &one, uint count,
                                               double *scratch, uint together, Other other,
                                               Take take) {
  uint p = tree.dimensions, stride = stride_of(p);
  const double *mean = mean_of(tree, one.node);
  double *differences = scratch, *whitened = scratch + together * stride;
  for (uint first = 0; first < count; first += together) {
    uint some = min(together, count - first);
    __syncthreads();
    FOR_EACH(e, some * p) {
      uint n = e / p, k = e % p;
      Operand place = other(first + n);
      if (place.node != NONE) differences[n * stride + k] = mean[k] - mean_of(tree, place.node)[k];
    }
    __syncthreads();
    FOR_EACH(e, some * 2 * p) {
      uint row = e / p, i = e % p;
      Operand place = other(first + row / 2);
      if (place.node == NONE) continue;
      const double *d = differences + row / 2 * stride;
      uint shape = row % 2 == 0 ? one.shape : place.shape;
      whitened[row * stride + i] =
          shape == NONE ? d[i] : whitened_element<IN_REGISTERS>(p, i, d, bands_of(tree, shape));
    }
    __syncthreads();
    uint row = threadIdx.x;
    double length = row < 2 * some ? length_of<IN_REGISTERS>(p, whitened + row * stride) : 0;
    double back = __shfl_xor_sync(WHOLE_WARP, length, 1);
    if (row % 2 == 1 || row >= 2 * some) continue;
    Operand place = other(first + row / 2);
    bool is_plain = one.shape == NONE && place.shape == NONE;
    if (place.node != NONE) take(first + row / 2, is_plain ? length : average(length, back));
  }
}

// The key of a node's floor: every older cluster that is not a candidate has a greater key.
__device__ __forceinline__ Key floor_of(const Tree &tree, uint node) {
  return {(ulong)__double_as_longlong(tree.floor_values[node]), tree.floor_ties[node]};
}

// Clusters from which the nearest are chosen, in shared memory.
struct Entries {
  ulong values[FOUND_ROOM + CANDIDATES];
  ulong ties[FOUND_ROOM + CANDIDATES];
  uint slots[FOUND_ROOM + CANDIDATES];
  uint ids[FOUND_ROOM + CANDIDATES];
  uint count;
  // Results of `keep_nearest`: the number of entries below the floor; the remaining floor; the
  // first entry, or this floor; and the id of the first entry.
  uint below, first_id;
  Key floor, first;
};

__device__ __forceinline__ void add_entry(Entries &entries, double distance, uint slot, uint other,
                                          uint id) {
  uint at = atomicAdd(&entries.count, 1);
  entries.values[at] = __double_as_longlong(distance);
  entries.ties[at] = pair_tie(slot, other);
  entries.slots[at] = other;
  entries.ids[at] = id;
}

// Makes the least entries the candidates of a node, with a floor of at most `floor`; by all threads
// of the block.
__device__ void keep_nearest(const Tree &tree, uint node, Entries &entries, Key floor) {
  uint count = entries.count;
  size_t start = (size_t)node * CANDIDATES;
  if (threadIdx.x == 0) {
    entries.below = 0;
    entries.first_id = NONE;
    entries.first = entries.floor = floor;
  }
  __syncthreads();
  FOR_EACH(i, count) {
    Key mine = {entries.values[i], entries.ties[i]};
    if (!(mine < floor)) continue;
    uint rank = 0;
#pragma unroll 4
    for (uint j = 0; j < count; j++) {
      Key other = {entries.values[j], entries.ties[j]};
      rank += other < mine || (j < i && !(mine < other));
    }
    atomicMax(&entries.below, rank + 1);
    if (rank < CANDIDATES) {
      tree.candidate_values[start + rank] = mine.value;
      tree.candidate_slots[start + rank] = entries.slots[i];
      tree.candidate_ids[start + rank] = entries.ids[i];
    }
    if (rank == 0) {
      entries.first = mine;
      entries.first_id = entries.ids[i];
    }
    // A floor comes before the pair with the same slots.
    if (rank == CANDIDATES) entries.floor = {mine.value, mine.tie & ~1ull};
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    tree.floor_values[node] = __longlong_as_double(entries.floor.value);
    tree.floor_ties[node] = entries.floor.tie;
    tree.counts[node] = min(entries.below, (uint)CANDIDATES);
  }
}

// The head of a slot in the queue: its first active candidate, with the candidate's id in
// `other_id`; or its floor, with NONE.
struct Head {
  Key key;
  uint id, other_id;
};

// Computes and writes the head of an active cluster, by a warp. Returns it.
__device__ Head write_head(const Tree &tree, uint slot) {
  uint lane = threadIdx.x % WARP, count = tree.counts[slot], id = id_at(tree, slot);
  Key floor = floor_of(tree, slot);
  // All CANDIDATES may be read, whether they count or not, so no read waits for another read.
  size_t at = (size_t)slot * CANDIDATES + lane % CANDIDATES;
  ulong value = tree.candidate_values[at];
  uint other = tree.candidate_slots[at], other_id = tree.candidate_ids[at];
  bool there = lane < count && id_at(tree, other) == other_id;
  uint active = __ballot_sync(WHOLE_WARP, there), first = CANDIDATES;
  Head head = {floor, id, NONE};
  if (active != 0) {
    first = __ffs(active) - 1;
    value = __shfl_sync(WHOLE_WARP, value, first);
    head.key = {value, pair_tie(slot, __shfl_sync(WHOLE_WARP, other, first))};
    head.other_id = __shfl_sync(WHOLE_WARP, other_id, first);
  }
  if (lane == 0) {
    tree.firsts[slot] = first;
    tree.head_values[slot] = head.key.value;
    tree.head_ties[slot] = head.key.tie;
  }
  return head;
}
