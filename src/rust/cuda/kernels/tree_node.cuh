// Nodes of a growing tree, their distances, and the order of pairs.

#pragma once

#include "block.cuh"
#include "distance.cuh"
#include "screen_bounds.cuh"
#include "tree_launch.cuh"
#include "whitening.cuh"

// The number of a node's shape, NONE for the identity.
__device__ __forceinline__ uint shape_of(const Tree &tree, uint node) {
  uint shape = tree.shapes[node];
  return shape & IDENTITY ? NONE : shape;
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

// The slots of a pair, for ties. A floor comes before a pair of the same slots.
__device__ __forceinline__ ulong pair_tie(uint slot, uint other) {
  uint lower = min(slot, other), higher = max(slot, other);
  return (ulong)lower << 32 | (ulong)higher << 1 | 1;
}
__device__ __forceinline__ bool is_pair(ulong tie) { return tie & 1; }
__device__ __forceinline__ uint lower_slot(ulong tie) { return tie >> 32; }
__device__ __forceinline__ uint higher_slot(ulong tie) { return (uint)tie >> 1; }

// The distance between two nodes, by a warp whose own `scratch` is 2p long.
__device__ double node_distance(const Tree &tree, uint node, uint other, double *scratch) {
  uint p = tree.dimensions, shape = shape_of(tree, node), other_shape = shape_of(tree, other);
  const double *mean = mean_of(tree, node), *other_mean = mean_of(tree, other);
  auto difference = [&](uint k) { return mean[k] - other_mean[k]; };
  const double *factor = shape == NONE ? nullptr : bands_of(tree, shape);
  double to_node = warp_distance(p, difference, factor, scratch);
  if (shape == NONE && other_shape == NONE) return to_node;
  const double *other_factor = other_shape == NONE ? nullptr : bands_of(tree, other_shape);
  return average(to_node, warp_distance(p, difference, other_factor, scratch));
}

// The key of a node's floor: all older clusters that are no candidates are behind it.
__device__ __forceinline__ Key floor_of(const Tree &tree, uint node) {
  return {(ulong)__double_as_longlong(tree.floor_values[node]), tree.floor_ties[node]};
}

// Clusters to choose the nearest from, in shared memory.
struct Entries {
  ulong values[FOUND_ROOM + CANDIDATES];
  ulong ties[FOUND_ROOM + CANDIDATES];
  uint slots[FOUND_ROOM + CANDIDATES];
  uint ids[FOUND_ROOM + CANDIDATES];
  uint count;
};

// Makes the least of the entries the candidates of a node, with a floor that is not above `floor`.
// All threads of the block call it.
__device__ void keep_nearest(const Tree &tree, uint node, const Entries &entries, Key floor,
                             Shared &shared) {
  uint count = entries.count;
  size_t first = (size_t)node * CANDIDATES;
  Key next = floor;
  uint below = 0;
  FOR_EACH(i, count) {
    Key mine = {entries.values[i], entries.ties[i]};
    if (!(mine < floor)) continue;
    uint rank = 0;
    for (uint j = 0; j < count; j++) {
      Key other = {entries.values[j], entries.ties[j]};
      rank += other < mine || (j < i && !(mine < other));
    }
    below = max(below, rank + 1);
    if (rank < CANDIDATES) {
      tree.candidate_values[first + rank] = mine.value;
      tree.candidate_slots[first + rank] = entries.slots[i];
      tree.candidate_ids[first + rank] = entries.ids[i];
    } else {
      // A floor comes before the pair with the same slots.
      mine.tie &= ~1ull;
      if (mine < next) next = mine;
    }
  }
  uint unused = 0;
  next = block_least(shared, next, &unused);
  below = (uint)block_max(shared, (double)below);
  if (threadIdx.x == 0) {
    tree.floor_values[node] = __longlong_as_double(next.value);
    tree.floor_ties[node] = next.tie;
    tree.counts[node] = min(below, (uint)CANDIDATES);
    tree.firsts[node] = 0;
  }
  __syncthreads();
}

// The first candidate of a node that is active, by a warp; CANDIDATES if there is none below the
// floor.
__device__ uint first_candidate(const Tree &tree, uint node) {
  uint lane = threadIdx.x % WARP, count = tree.counts[node];
  bool there = false;
  if (lane < count) {
    size_t at = (size_t)node * CANDIDATES + lane;
    there = tree.ids[tree.candidate_slots[at]] == tree.candidate_ids[at];
  }
  uint active = __ballot_sync(WHOLE_WARP, there);
  return active ? __ffs(active) - 1 : CANDIDATES;
}

// Writes the head of an active cluster: its first candidate or its floor; by a warp.
__device__ void write_head(const Tree &tree, uint slot) {
  uint first = first_candidate(tree, slot);
  if (threadIdx.x % WARP > 0) return;
  tree.firsts[slot] = first;
  Key head = floor_of(tree, slot);
  if (first < CANDIDATES) {
    size_t at = (size_t)slot * CANDIDATES + first;
    head = {tree.candidate_values[at], pair_tie(slot, tree.candidate_slots[at])};
  }
  tree.head_values[slot] = head.value;
  tree.head_ties[slot] = head.tie;
}
