// The state of a search for the partner of a cluster: the two nearest of the older clusters.

#pragma once

#include "agglomerate/member_sums.cuh"

// A search for the two nearest of the clusters that are older than the one at position `owner`.
// `first` and `second` are the two least keys so far, of the pairs with the clusters at positions
// `nearest` and `next`.
struct PartnerSearch {
  uint owner, slot, birth, shape;
  bool averages_members; // whether the owner's members count
  Key first, second;
  uint nearest, next;

  __device__ __forceinline__ void consider(const Key &key, uint position) {
    if (!(key < second)) return;
    bool is_first = key < first;
    second = is_first ? first : key;
    next = is_first ? nearest : position;
    if (!is_first) return;
    first = key;
    nearest = position;
  }
  // Combines the searches of all threads: each gets the two least keys of all. More than one thread
  // may have the same key.
  __device__ __forceinline__ void share(Shared &shared) {
    Key own = first;
    uint own_position = nearest;
    first = block_least(shared, first, &nearest);
    // Different pairs have different keys.
    bool is_it = own.value == first.value && own.tie == first.tie;
    next = is_it ? next : own_position;
    second = block_least(shared, is_it ? second : own, &next);
  }
  // Whether a pair with this lower bound may be one of the two nearest.
  __device__ __forceinline__ bool competes(ulong bound) const {
    return bound < INFINITY_BITS && bound <= second.value;
  }
};
