// What all blocks but the chain's do: jobs, one after the other, from a ring; and the searches at
// the start.

#pragma once

#include "tree_search.cuh"

#ifdef __CUDACC_RTC__
// Nanoseconds since some time, the same one for all blocks.
__device__ __forceinline__ ulong nanoseconds() {
  ulong now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
#endif

// Nanoseconds between two looks for what is posted.
#define NAP 100

// Blocks that are called to help with a sweep, at most.
#define MOST_HELPERS 23
// Balls that a block sweeps by itself; others are divided into so many chunks, with room for what is
// in them, of at least so many balls.
#define ALONE 128
#define CHUNKS 24
#define LEAST_IN_CHUNK 48

__device__ __forceinline__ uint chunks_of(const Tree &tree) {
  return max(least_parts(tree), min(tree.balls / LEAST_IN_CHUNK, (uint)CHUNKS));
}

// Waits for what is posted, by the first thread of a block; NONE when the launch ends.
__device__ uint wait_for_post(const Tree &tree) {
  uint ticket = atomicAdd(tree.control + TAKEN, 1);
  for (;;) {
    ulong post = *(volatile ulong *)(tree.posted + ticket % RING);
    if ((uint)(post >> 32) == ticket + 1) {
      __threadfence();
      return (uint)post;
    }
    if (*(volatile uint *)(tree.control + STATUS) != RUNNING) return NONE;
    __nanosleep(NAP);
  }
}

// Posts as many numbers, by as many threads; a thread's own is `number`, and `first` the place of
// the first one. What they are about has been written, and ordered by a fence.
__device__ __forceinline__ void write_post(const Tree &tree, uint first, uint nth, uint number) {
  uint ticket = first + nth;
  *(volatile ulong *)(tree.posted + ticket % RING) = (ulong)(ticket + 1) << 32 | number;
}

// Takes chunks of a sweep for as long as there are some. `query` has the query of `generation`, or
// gets that of another one.
__device__ void take_chunks(const Tree &tree, const Clusters &clusters, uint number, Hunt &hunt,
                            float *query, uint generation) {
  Sweep &sweep = tree.sweeps[number];
  uint chunks = chunks_of(tree);
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) {
      hunt.chunk = atomicAdd(&sweep.next, 1);
      __threadfence();
    }
    __syncthreads();
    uint chunk = hunt.chunk;
    if (chunk >= chunks) return;
    // The sweep does not end before this chunk is done.
    uint present = *(volatile uint *)&sweep.generation;
    if (present != generation) {
      generation = present;
      const float *from = tree.queries + (size_t)number * tree.query_words;
      FOR_EACH(k, tree.query_words) query[k] = __ldcg(from + k);
      if (threadIdx.x == 0) {
        hunt.limit = *(volatile float *)&sweep.limit;
        hunt.order = *(volatile uint *)&sweep.order;
      }
      __syncthreads();
      if (uses_regions(tree)) find_near_regions(tree, hunt, query);
    }
    __syncthreads();
    if (threadIdx.x == 0) hunt.found = 0;
    __syncthreads();
    collect_from(tree, clusters, hunt, query, PartOfBalls(tree, chunk, chunks, uses_regions(tree)));
    uint found = hunt.found;
    if (found > 0) {
      if (threadIdx.x == 0) hunt.base = atomicAdd(&sweep.found, found);
      __syncthreads();
      FOR_EACH(i, min(found, (uint)FOUND_ROOM)) {
        uint place = hunt.base + i;
        if (place >= FOUND_ROOM) continue;
        uint *out = tree.found + 2 * ((size_t)number * FOUND_ROOM + place);
        out[0] = __float_as_uint(hunt.bounds[i]);
        out[1] = hunt.positions[i];
      }
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(&sweep.done, 1);
  }
}

// Sweeps for a query, without the help of other blocks; of many balls, before the chain has enlarged
// any.
__device__ void sweep_alone(const Tree &tree, const Clusters &clusters, Hunt &hunt, float *query) {
  if (tree.balls <= MOST_IN_PART)
    return collect_from(tree, clusters, hunt, query, PartOfBalls(tree, 0, 1, false));
  find_near_regions(tree, hunt, query);
  for (uint first = 0; first < hunt.near_count; first += MOST_IN_PART / WARP)
    collect_from(tree, clusters, hunt, query, NearBalls(hunt, first));
}

// Sweeps for the query of a job, with the help of blocks that have nothing else to do.
__device__ void sweep_with_help(const Tree &tree, const Clusters &clusters, uint number,
                                Hunt &hunt, float *query) {
  Sweep &sweep = tree.sweeps[number];
  uint chunks = chunks_of(tree);
  uint generation = *(volatile uint *)&sweep.generation + 1;
  float *to = tree.queries + (size_t)number * tree.query_words;
  FOR_EACH(k, tree.query_words) to[k] = query[k];
  __threadfence();
  __syncthreads();
  uint helpers = gridDim.x > 2 ? min(chunks - 1, (uint)MOST_HELPERS) : 0;
  if (threadIdx.x == 0) {
    sweep.limit = hunt.limit;
    sweep.order = hunt.order;
    sweep.generation = generation;
    sweep.done = sweep.found = 0;
    __threadfence();
    *(volatile uint *)&sweep.next = 0;
    __threadfence();
    if (helpers > 0) hunt.base = atomicAdd(tree.control + POSTED, helpers);
  }
  __syncthreads();
  if (threadIdx.x < helpers) write_post(tree, hunt.base, threadIdx.x, HELP | number);
  if (uses_regions(tree)) find_near_regions(tree, hunt, query);
  take_chunks(tree, clusters, number, hunt, query, generation);
  __syncthreads();
  if (threadIdx.x == 0) {
    while (*(volatile uint *)&sweep.done < chunks) {}
    __threadfence();
    hunt.found = *(volatile uint *)&sweep.found;
  }
  __syncthreads();
  const uint *found = tree.found + 2 * (size_t)number * FOUND_ROOM;
  FOR_EACH(i, min(hunt.found, (uint)FOUND_ROOM)) {
    hunt.bounds[i] = __uint_as_float(__ldcg(found + 2 * i));
    hunt.positions[i] = __ldcg(found + 2 * i + 1);
  }
  __syncthreads();
}

// Does the job of this number, by a block.
__device__ __noinline__ void do_job(const Tree &tree, const Clusters &clusters, uint number,
                                    Hunt &hunt, float *query, Entries &entries, Workspace &room) {
  Job &job = tree.jobs[number];
  uint result = tree.clusters + number;
  __syncthreads();
  if (threadIdx.x == 0) hunt.job = job;
  __syncthreads();
  uint node = hunt.job.node;
  bool is_union = node >= tree.clusters;
  if (hunt.job.is_new) make_union(tree, clusters, job, room);
  __syncthreads();
  if (threadIdx.x == 0) {
    hunt.made_at = *(volatile uint *)(tree.control + COMMITTED);
    // Of that many merges, all that follows is seen.
    __threadfence();
    hunt.order = min(hunt.job.order, tree.clusters + hunt.made_at);
  }
  if (is_union)
    write_query(clusters, tentative_row(tree, node), 1, query);
  else
    write_query(clusters, clusters.rows + tree.positions[node], clusters.capacity, query);
  float guess = is_union ? guess_by_parents(tree, hunt) : 0;
  if (threadIdx.x == 0) {
    double floor = is_union ? 0 : tree.floor_values[node];
    hunt.guess = is_union    ? guess
                 : floor > 0 ? (float)(2 * floor / tree.unit)
                             : single_infinity();
  }
  __syncthreads();
  float limit = hunt.guess;
  if (!(limit < single_infinity()))
    limit = limit_by_minima(tree, clusters, hunt, query);
  bool found;
  float factor = 4;
  for (uint tries = 0;; tries++) {
    found = find(hunt, next_above(limit), [&] {
      if (tree.balls <= ALONE)
        sweep_alone(tree, clusters, hunt, query);
      else
        sweep_with_help(tree, clusters, number, hunt, query);
    });
    if (!found) break;
    limit = hunt.limit;
    __syncthreads();
    decide(tree, hunt, node, result, !is_union, entries, room);
    // Where bounds tell little, all that was found may be farther away.
    if (entries.below > 0 || !(hunt.limit < single_infinity()) || tries >= MOST_RETRIES) break;
    limit = factor * limit;
    factor = factor * factor;
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    job.made_at = hunt.made_at;
    job.found = hunt.found;
    job.found_first = hunt.found_first;
    job.nearest = entries.below;
    job.is_hopeless = !found;
  }
  // All threads' writes come before the news that the job is done.
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    uint nth = atomicAdd(tree.control + DONE, 1);
    *(volatile ulong *)(tree.done + nth % RING) = (ulong)(nth + 1) << 32 | number;
  }
}

// Searches for the nearest older clusters of the cluster at a position, by a block: at the start,
// when clusters are as old as their positions tell.
__device__ void search_at_start(const Tree &tree, const Clusters &clusters, uint position,
                                Hunt &hunt, float *query, Entries &entries, Workspace &room) {
  uint slot = tree.slots_at[position];
  if (tree.ids[slot] == NONE) return;
  __syncthreads();
  if (threadIdx.x == 0) {
    hunt.job.slot = hunt.job.node = slot;
    hunt.job.skipped = 0;
    hunt.order = tree.orders[slot];
  }
  write_query(clusters, clusters.rows + position, clusters.capacity, query);
  // Clusters are near those at positions before them: these give a limit.
  Margins margins(tree.dimensions);
  float bound_before = single_infinity();
  if (threadIdx.x < position) {
    uint before = position - 1 - threadIdx.x;
    Point<DIMENSIONS> point(clusters, before);
    Bound bound;
    const float *factor = query + QUERY_LENGTH;
    if (tree.orders_at[before] < hunt.order &&
        loose_bound<DIMENSIONS>(clusters, point, before, query, factor, single_infinity(), margins,
                                bound))
      bound_before = fmaxf(margins.slack * (bound.to_query + bound.to_target), 0.0f);
  }
  float limit = next_above(ranked(hunt, bound_before, WANTED - 1));
  if (!(limit < single_infinity()))
    limit = limit_by_minima(tree, clusters, hunt, query);
  bool found = find(hunt, limit, [&] { sweep_alone(tree, clusters, hunt, query); });
  if (found) {
    decide(tree, hunt, slot, slot, true, entries, room);
  } else if (threadIdx.x == 0) {
    // The chain will search again.
    tree.counts[slot] = 0;
    tree.floor_values[slot] = 0;
    tree.floor_ties[slot] = 0;
  }
  __syncthreads();
  if (threadIdx.x < WARP) write_head(tree, slot);
}
