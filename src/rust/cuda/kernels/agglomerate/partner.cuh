// Searches for a cluster's partner: the nearest of the older clusters; among equally near ones, the
// one with the first slots. Also searches for the second nearest, which becomes the partner if the
// first is merged away. The cluster that searches is the owner of the pair.

#pragma once

#include "agglomerate/partner_by_members.cuh"
#include "agglomerate/partner_by_screen.cuh"

// Finds the two nearest of the clusters that are older than the one at position `owner`, by all
// threads of the block.
template <int P, bool FULL_DISTANCES>
__device__ __noinline__ void find_partner(Problem &problem, uint owner) {
  const Arrays &arrays = problem.arrays;
  uint p = problem.p, size = arrays.sizes[problem.first + owner];
  ulong first = problem.first;
  PartnerSearch search = {owner,
                          arrays.slots[first + owner],
                          arrays.births[first + owner],
                          problem.shape_at(owner),
                          FULL_DISTANCES && size > 1,
                          {INFINITY_BITS, ~0ull},
                          {INFINITY_BITS, ~0ull},
                          NONE,
                          NONE};
  // The owner's mean and factor are copied to shared memory.
  read_mean<P>(problem, owner);
  if (search.shape != NONE) {
    const double *factor = problem.shape_factor(search.shape);
    FOR_EACH(e, banded_length(p)) problem.factor()[e] = factor[e];
  }
  __syncthreads();
  if constexpr (FULL_DISTANCES)
    consider_all<P>(problem, search, size);
  else
    consider_by_screen<P>(problem, search);
  if (threadIdx.x == 0) {
    uint at[] = {search.nearest, search.next};
    ulong values[] = {search.first.value, search.second.value};
#pragma unroll
    for (uint rank = 0; rank < 2; rank++) {
      Partner found = {__longlong_as_double(values[rank]), NONE, NONE};
      if (at[rank] != NONE) {
        found.slot = arrays.slots[first + at[rank]];
        found.birth = arrays.births[first + at[rank]];
      }
      arrays.partners[2 * (first + owner) + rank] = found;
    }
    problem.change(owner);
  }
  __syncthreads();
}

// Finds the two nearest older observations of all observations at the start, by a thread for each.
template <int P> __device__ __noinline__ void find_partners_of_observations(Problem &problem) {
  const Arrays &arrays = problem.arrays;
  uint p = problem.p;
  const double *all = problem.observation(0);
  FOR_EACH(i, problem.n) {
    const double *mine = all + (size_t)i * p;
    Difference<P> x(p, READABLE, [=](uint k) { return mine[k]; });
    // An observation's birth is its slot.
    Partner nearest = {infinity(), NONE, NONE}, next = nearest;
    double nearest_square = infinity(), next_square = nearest_square;
    for (uint j = 0; j < i; j++) {
      double square = x.square_to(p, all + (size_t)j * p);
      if (square >= next_square) continue;
      double distance = sqrt(square);
      if (distance < nearest.distance) {
        next = nearest;
        next_square = nearest_square;
        nearest = {distance, j, j};
        nearest_square = square;
      } else if (distance < next.distance) {
        next = {distance, j, j};
        next_square = square;
      }
    }
    arrays.partners[2 * (problem.first + i)] = nearest;
    arrays.partners[2 * (problem.first + i) + 1] = next;
  }
  __syncthreads();
}
