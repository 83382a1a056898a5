// Merges whole small problems, a block each: all merges of one apriori cluster, from its
// observations to one cluster.
//
// All decisions are made in double precision, in the order of operations of mahalanobis/shape.rs
// and mahalanobis/distance.rs, so that heights have the same bits. The kernels are compiled without
// contraction, so that only a written fma is fused. The next pair is the pair with the smallest
// distance; among equal distances, the pair with the smaller slots. As in mahalanobis/agglomerate,
// a pair belongs to the younger of its clusters. Each cluster keeps its two nearest older clusters,
// and searches again when both are merged away and its own turn comes.
//
// tools/build-kernels compiles variants for the DIMENSIONS that points in registers may have (0:
// any number, not in registers), for centroid distances (WITH_FULL_DISTANCES false) and for full
// distances, and for numbers of THREADS of a block: with 256, a problem takes less time; with 128,
// twice as many blocks merge problems at a time, and many problems take less time together.

#include "agglomerate/launch.cuh"
#include "base.cuh"
#include "block.cuh"
#include "cluster/distance.cuh"

#include "agglomerate/merge.cuh"
#include "agglomerate/partner.cuh"
#include "agglomerate/problem.cuh"
#include "cluster/shape.cuh"
#include "cluster/whitening.cuh"

// Number of blocks on a multiprocessor. A block loses more time waiting for memory than by spilling
// registers.
#define BLOCKS (1024 / THREADS)
// Number of merges between two checks of the host's request to stop.
#define MERGES_BETWEEN_CHECKS 8

// Makes a cluster of each observation, by all threads of the block.
template <bool FULL_DISTANCES>
__device__ __forceinline__ void begin(Problem &problem, const Arrays &arrays, uint p, uint n,
                                      ulong first) {
  FOR_EACH(i, n) {
    const double *x = problem.observation(i);
    for (uint k = 0; k < p; k++) problem.means()[(size_t)k * n + i] = x[k];
    arrays.slots[first + i] = i;
    arrays.slot_positions[first + i] = i;
    arrays.sizes[first + i] = 1;
    arrays.births[first + i] = i;
    arrays.slot_births[first + i] = i;
    arrays.shapes[first + i] = NONE;
    if (FULL_DISTANCES) {
      arrays.member_starts[first + i] = i;
      arrays.members[first + i] = i;
      arrays.member_slots[first + i] = i;
      for (uint k = 0; k < MOMENTS; k++) arrays.moments[(first + i) * MOMENTS + k] = 0;
    }
  }
  __syncthreads();
}

// Computes the least key of the pairs of a chunk, by a warp.
__device__ __forceinline__ void find_least(const Problem &problem, uint chunk) {
  const Arrays &arrays = problem.arrays;
  ulong first = problem.first;
  uint start = chunk * problem.chunk_length();
  uint end = min(start + problem.chunk_length(), problem.live), owner = NONE;
  Key least = {INFINITY_BITS, ~0ull};
  for (uint position = start + threadIdx.x % WARP; position < end; position += WARP) {
    Partner partner = arrays.partners[2 * (first + position)];
    Key key = pair_key(partner.distance, arrays.slots[first + position], partner.slot);
    if (partner.slot == NONE || !(key < least)) continue;
    least = key;
    owner = position;
  }
  least = warp_least(least, &owner);
  if (threadIdx.x % WARP > 0) return;
  problem.chunks.values[chunk] = least.value;
  problem.chunks.ties[chunk] = least.tie;
  problem.chunks.owners[chunk] = owner;
  problem.chunks.changed[chunk] = 0;
}

// The least known key of all pairs, by all threads of the block; `owner` becomes the position of
// its owner, NONE if there is no pair. If the partner of a pair has been merged away, the key is at
// most the true key.
__device__ __noinline__ Key least_pair(const Problem &problem, uint *owner) {
  // Consecutive chunks belong to different warps.
  uint warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, chunk = lane * WARPS + warp;
  uint changed = __ballot_sync(WHOLE_WARP, problem.chunks.changed[chunk]);
  __syncwarp();
  for (; changed; changed &= changed - 1) find_least(problem, (__ffs(changed) - 1) * WARPS + warp);
  __syncwarp();
  Key least = {problem.chunks.values[chunk], problem.chunks.ties[chunk]};
  *owner = problem.chunks.owners[chunk];
  return block_least(problem.shared, least, owner);
}

// Whether a partner is still the cluster that was found.
__device__ __forceinline__ bool is_up_to_date(const Problem &problem, const Partner &partner) {
  return partner.slot != NONE &&
         problem.arrays.slot_births[problem.first + partner.slot] == partner.birth;
}

// Makes the second partner of the cluster at a position its first one; false if the second one is
// merged away, too.
__device__ __forceinline__ bool promote(const Problem &problem, uint position) {
  Partner *partners = problem.arrays.partners + 2 * (problem.first + position);
  Partner next = partners[1];
  if (!is_up_to_date(problem, next)) return false;
  __syncthreads();
  if (threadIdx.x == 0) {
    partners[0] = next;
    partners[1].slot = NONE;
    problem.change(position);
  }
  __syncthreads();
  return true;
}

// Makes all merges of a problem, by all threads of the block. Returns false if it was stopped, or
// if something is wrong.
template <int P, bool FULL_DISTANCES> __device__ __noinline__ bool agglomerate(Problem &problem) {
  const Arrays &arrays = problem.arrays;
  uint p = problem.p, n = problem.n;
  ulong first = problem.first;
  begin<FULL_DISTANCES>(problem, arrays, p, n, first);
  if (!FULL_DISTANCES) begin_screen(problem);
  uint birth = n, shapes_used = 0, free_shapes = 0, merges = 0;
  uint below_threshold = is_full_size(arrays.threshold, 1) ? 0 : n;
  problem.all_full_size = below_threshold == 0;
  find_partners_of_observations<P>(problem);
  problem.chunks.changed[threadIdx.x] = 1;
  __syncthreads();

  while (problem.live > 1) {
    uint owner = NONE;
    Key least = least_pair(problem, &owner);
    if (owner == NONE) return false;
    uint lower = least.tie >> 32, higher = least.tie;
    if (!is_up_to_date(problem, arrays.partners[2 * (first + owner)])) {
      if (!promote(problem, owner)) find_partner<P, FULL_DISTANCES>(problem, owner);
      continue;
    }
    if (merges % MERGES_BETWEEN_CHECKS == 0) {
      if (threadIdx.x == 0) {
        problem.shared.stop = *arrays.stop;
        *arrays.progress = atomicAdd(arrays.merged, MERGES_BETWEEN_CHECKS);
      }
      __syncthreads();
      if (problem.shared.stop) return false;
    }
    if (threadIdx.x == 0) {
      arrays.lower[first + merges] = lower;
      arrays.higher[first + merges] = higher;
      arrays.heights[first + merges] = __longlong_as_double(least.value);
    }
    merges += 1;
    uint to = arrays.slot_positions[first + lower], from = arrays.slot_positions[first + higher];
    uint before = !is_full_size(arrays.threshold, arrays.sizes[first + to]) +
                  !is_full_size(arrays.threshold, arrays.sizes[first + from]);
    uint size = arrays.sizes[first + to] + arrays.sizes[first + from];
    __syncthreads();
    uint position = merge<P, FULL_DISTANCES>(problem, to, from, birth, &shapes_used, &free_shapes);
    birth += 1;
    below_threshold -= before - !is_full_size(arrays.threshold, size);
    if (problem.live == 1) break;
    if (below_threshold == 0 && !problem.all_full_size) {
      // All clusters have become full-size: all shapes and distances are computed again.
      problem.all_full_size = true;
      for (uint i = 0; i < problem.live; i++) {
        uint shape = arrays.shapes[first + i];
        if (shape == NONE) continue;
        shape =
            reshape_cluster<FULL_DISTANCES>(problem, shape & ~IDENTITY, arrays.sizes[first + i]);
        if (threadIdx.x == 0) arrays.shapes[first + i] = shape;
      }
      __syncthreads();
      if (!FULL_DISTANCES) move_together<P>(problem);
      for (uint i = 0; i < problem.live; i++) find_partner<P, FULL_DISTANCES>(problem, i);
      continue;
    }
    find_partner<P, FULL_DISTANCES>(problem, position);
  }
  return true;
}

// Does tasks, one after the other, until none is left; by all threads of the block.
template <int P, bool FULL_DISTANCES> __device__ void work(const Arrays &all_arrays) {
  // In shared memory: copies of all threads, in their own memory, would not fit into the cache.
  __shared__ Arrays arrays;
  __shared__ Shared shared;
  __shared__ Chunks chunks;
  if (threadIdx.x == 0) {
    arrays = all_arrays;
    shared.stop = 0;
  }
  for (;;) {
    if (threadIdx.x == 0) shared.task = atomicAdd(all_arrays.next_task, 1);
    __syncthreads();
    uint task = shared.task;
    __syncthreads();
    if (task >= arrays.tasks) return;
    const Task &mine = arrays.task[task];
    Problem problem = {arrays,
                       shared,
                       chunks,
                       arrays.dimensions,
                       mine.observations,
                       mine.observations,
                       mine.first,
                       mine.diagonal,
                       mine.log2_terms,
                       task,
                       false,
                       0,
                       1};
    if (!agglomerate<P, FULL_DISTANCES>(problem)) {
      if (threadIdx.x == 0) atomicAdd(arrays.failed_tasks, 1);
      if (shared.stop) return;
    }
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) agglomerate(Arrays arrays) {
  work<DIMENSIONS, WITH_FULL_DISTANCES>(arrays);
}
