// The workers, all blocks but the sequencer: they do posted jobs, one after the other.

#pragma once

#include "tree/decide.cuh"

#ifdef __CUDACC_RTC__
// Nanoseconds on a clock that all blocks share.
__device__ __forceinline__ ulong nanoseconds() {
  ulong now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
#endif

// Nanoseconds between two checks of a ring or of a union.
#define NAP 100

#if IS_WIDE
// Least limit from candidates, as a multiple of the guess, that replaces the guess. The bounds to
// close clusters far from the center are almost 0. If the factor is too low, a search with such a
// limit takes many sweeps; if too high, searches find more clusters than they have room for.
#define LEAST_OF_GUESS 0.0625f
#endif

// Waits for a post, by the first thread of a block. Returns NONE when the launch ends.
__device__ uint wait_for_post(const Tree &tree) {
  uint ticket = atomicAdd(tree.control + TAKEN, 1);
  for (;;) {
    ulong post = load_acquire(tree.posted + ticket % RING);
    if ((uint)(post >> 32) == ticket + 1) return (uint)post;
    if (*(volatile uint *)(tree.control + STATUS) != RUNNING) return NONE;
    __nanosleep(NAP);
  }
}

// Tells the sequencer that the job of this number is done, by all threads of the block.
__device__ void report(const Tree &tree, uint number) {
  // The place in the ring is taken while the threads' fences order their writes before the number.
  uint nth = threadIdx.x == 0 ? atomicAdd(tree.control + DONE, 1) : 0;
  __threadfence();
  __syncthreads();
  if (threadIdx.x > 0) return;
  *(volatile ulong *)(tree.done + nth % RING) = (ulong)(nth + 1) << 32 | number;
}

// Waits until the unions that a job needs are there, by all threads of the block. Returns false if
// one of them lacks room, or if the launch ends. The jobs of these unions were posted earlier, so
// other blocks have done them or work on them.
__device__ bool wait_for_unions(const Tree &tree, const Job &job) {
  if (job.waits_for[0] == NONE && job.waits_for[1] == NONE) return true;
  __shared__ uint are_there;
  if (threadIdx.x == 0) {
    are_there = true;
    for (uint side = 0; side < 2; side++) {
      if (job.waits_for[side] == NONE) continue;
      const Job &awaited = tree.jobs[job.waits_for[side]];
      bool made = false;
      for (;;) {
        made = load_acquire(&awaited.made) == job.awaited_ids[side];
        if (made || *(volatile uint *)(tree.control + STATUS) != RUNNING) break;
        __nanosleep(NAP);
      }
      if (!made || *(const volatile uint *)&awaited.lacks_room) are_there = false;
    }
  }
  __syncthreads();
  return are_there;
}

// Does the job of this number, by all threads of the block.
__device__ __forceinline__ void do_job(const Tree &tree, const Clusters &clusters, uint number,
                                       SearchState &search, float *query, Entries &entries,
                                       Workspace &room) {
  Job &job = tree.jobs[number];
  uint result = tree.clusters + number;
  __syncthreads();
  FOR_EACH(word, sizeof(Job) / sizeof(uint)) { ((uint *)&search.job)[word] = ((uint *)&job)[word]; }
  __syncthreads();
  uint node = search.job.node, last = THREADS - WARP;
  bool is_union = node >= tree.clusters;
  bool is_new = search.job.is_new;
  bool can = !is_new || wait_for_unions(tree, search.job);
  if (is_union && threadIdx.x >= last) {
    float guess = guess_by_children(tree, search.job);
    if (threadIdx.x == last) search.guess = guess;
  }
  bool lacks_room = !can || (is_new && !make_union(tree, clusters, search.job, job, query, room));
  if (!can) publish(job, search.job.id, true);
  if (threadIdx.x == last) {
    // The search sees the clusters of this many merges.
    search.made_at = load_acquire(tree.control + COMMITTED);
    search.births_below = min(search.job.births_below, tree.clusters + search.made_at);
    double floor = is_union ? 0 : tree.floor_values[node];
    if (!is_union) search.guess = floor > 0 ? (float)(2 * floor / tree.unit) : single_infinity();
  }
  if (lacks_room) return report(tree, number);
  __syncthreads();
  if (!is_new && is_union)
    write_query(clusters, speculative_row(tree, node), 1, query);
  else if (!is_new)
    write_query(clusters, row_at(clusters, tree.positions[node]), ROW_STRIDE, query);
  float limit = search.guess;
  bool is_guessed = limit < single_infinity();
#if IS_WIDE
  // With full distances, the bounds are too loose for a limit.
  if (is_union && !has_full_distances(tree)) {
    float known = limit_by_candidates(tree, clusters, search, query);
    float least = is_guessed ? LEAST_OF_GUESS * limit : 0;
    if (known > least && known < single_infinity()) {
      limit = known;
      is_guessed = false;
    }
  }
#endif
  if (!(limit < single_infinity())) limit = limit_by_minima(tree, clusters, search, query);
  Deciding on = {tree, clusters, number, search, query, entries, room};
  bool found = find_nearest(on, node, result, next_above(limit), !is_union, [&] {
    if (search.parts > 1 || tree.balls <= ALONE)
      sweep_alone(tree, clusters, search, query);
    else
      sweep_with_help(tree, clusters, number, search, query, room);
  });
  if (threadIdx.x == 0) {
    job.made_at = search.made_at;
    // Without a guess, the number counts as neither too small nor too large.
    job.found_first = is_guessed ? search.found_first : DECIDED_TOGETHER;
    job.below_floor = entries.below;
    job.bounds_too_loose = !found;
  }
  report(tree, number);
}
