// Shared work: work that is divided into chunks. A block that shares work calls idle blocks to
// help.

#pragma once

#include "tree/distances.cuh"

// Maximum number of blocks that are called to help with distances.
#ifndef DISTANCE_HELPERS
#define DISTANCE_HELPERS (MAX_CHUNKS - 1)
#endif
// Number of untaken posts from which on blocks do not call for help. Another rule, to call only as
// many blocks as wait for posts, took 1.2 times as long for 44,000 x 14 with full distances, and
// 1.5 times for 167,000 x 14 (H200).
#define MAX_UNTAKEN (RING / 4)
#ifdef __CUDACC_RTC__ // not the rings of tests, which are small on purpose
static_assert(MAX_UNTAKEN + (JOBS_WITH_MEMBERS + 1) * DISTANCE_HELPERS + JOBS_WITH_MEMBERS <= RING,
              "places for all posts if all jobs and the sequencer call for help at the same time");
#endif
// Maximum number of balls that a block sweeps by itself. More balls are divided into chunks.
#ifndef ALONE
#define ALONE (IS_WIDE ? 16 : 128)
#endif
// Maximum number of chunks of a sweep, unless MAX_IN_PART requires more.
#ifndef SWEEP_CHUNKS
#define SWEEP_CHUNKS (IS_WIDE ? 64 : DIMENSIONS > 16 ? 34 : 24)
#endif
// Minimum number of balls in a chunk. In many columns, a chunk takes longer.
#ifndef MIN_IN_CHUNK
#define MIN_IN_CHUNK (IS_WIDE ? 8 : 48)
#endif
// Maximum number of blocks that are called to help with a sweep.
#define SWEEP_HELPERS (SWEEP_CHUNKS - 1)
static_assert(SWEEP_CHUNKS <= MAX_CHUNKS, "a number for each");
// Maximum number of spans whose sums a block computes by itself. More spans are divided into chunks
// of WARPS spans; if these were more than MAX_CHUNKS, into MAX_CHUNKS equal chunks.
#ifndef SPANS_ALONE
#define SPANS_ALONE 16
#endif

// Number of chunks of a sweep.
__device__ __forceinline__ uint chunks_of_sweep(const Tree &tree) {
  return max(least_parts(tree), min(tree.balls / MIN_IN_CHUNK, (uint)SWEEP_CHUNKS));
}
// Number of chunks of sums of distances.
__device__ __forceinline__ uint chunks_of_distances(const SearchState &search) {
  return min((all_spans(search) + WARPS - 1) / WARPS, (uint)MAX_CHUNKS);
}
static_assert(MAX_LEAVES <= MAX_CHUNKS * MAX_IN_PART, "chunks for the most balls");

// Posts `number` at place `first` + `nth` of the ring, by one thread. The number's job or shared
// work must have been written before, and ordered by a fence.
__device__ __forceinline__ void write_post(const Tree &tree, uint first, uint nth, uint number) {
  uint ticket = first + nth;
  *(volatile ulong *)(tree.posted + ticket % RING) = (ulong)(ticket + 1) << 32 | number;
}

// Sweeps a chunk of the shared sweep of this number, by all threads of the block. Adds the clusters
// found to those of the other chunks.
__device__ void sweep_chunk(const Tree &tree, const Clusters &clusters, SharedWork &work,
                            uint number, uint chunk, SearchState &search, float *query) {
  if (threadIdx.x == 0) search.found = 0;
  __syncthreads();
  collect_from(tree, clusters, search, query,
               PartOfBalls(tree, chunk, chunks_of_sweep(tree), keeps_regions(tree)));
  uint found = search.found;
  if (found == 0) return;
  if (threadIdx.x == 0) search.base = atomicAdd(&work.found, found);
  __syncthreads();
  FOR_EACH(i, min(found, (uint)FOUND_ROOM)) {
    uint place = search.base + i;
    if (place >= FOUND_ROOM) continue;
    uint *out = tree.found + 2 * ((size_t)number * FOUND_ROOM + place);
    out[0] = __float_as_uint(search.bounds[i]);
    out[1] = search.positions[i];
  }
}

// The tag of a job's shared work number `generation`, which is of this kind.
__device__ __forceinline__ uint tag_of(uint generation, uint kind) {
  return (2 * generation + kind) % (1u << TAG_BITS);
}
__device__ __forceinline__ uint kind_of(uint tag) { return tag % 2; }
static_assert(SWEEP < 2 && DISTANCES < 2, "a bit for the kind");
static_assert(OF_SEQUENCER < 1 << NUMBER_BITS && NUMBER_BITS + TAG_BITS < 31, "room in a post");

// Copies the description of shared work, for a block that helps. `meanwhile` is called while the
// reads are on their way.
template <class Meanwhile>
__device__ __forceinline__ void copy_work(const Tree &tree, const SharedWork &work, uint number,
                                          bool is_sweep, SearchState &search, float *query,
                                          Meanwhile meanwhile) {
  const volatile SharedWork &shared = work;
  uint i = threadIdx.x;
  if (is_sweep) {
    const float *from = tree.queries + (size_t)number * tree.query_words;
    constexpr uint EACH = (QUERY_LENGTH + padded_row(IN_REGISTERS) + THREADS - 1) / THREADS;
    // All words are read before any is written, so no read waits for another read. In wide trees,
    // the rest of the factor follows.
    float words[EACH];
#pragma unroll
    for (uint n = 0; n < EACH; n++)
      words[n] = i + n * THREADS < tree.query_words ? __ldcg(from + i + n * THREADS) : 0;
    float least = shared.from, limit = shared.limit;
    uint births_below = shared.births_below;
    meanwhile();
#pragma unroll
    for (uint n = 0; n < EACH; n++)
      if (i + n * THREADS < tree.query_words) query[i + n * THREADS] = words[n];
    if (IS_WIDE) {
#pragma unroll 8
      for (uint at = i + EACH * THREADS; at < tree.query_words; at += THREADS)
        query[at] = __ldcg(from + at);
    }
    if (i == 0) {
      search.from = least;
      search.limit = limit;
      search.births_below = births_below;
    }
    return;
  }
  meanwhile();
  if (i == 0) search.node = {shared.node, shared.node_shape, shared.node_size, shared.node_start};
  if (i < DECIDED_TOGETHER) {
    search.slots[i] = shared.slots[i];
    search.shapes[i] = shared.shapes[i];
    search.sizes[i] = shared.sizes[i];
    search.starts[i] = shared.starts[i];
  }
  find_spans(search, SPAN);
}

// Takes chunks of a job's shared work until none is left, by all threads of the block. If the block
// `knows` the description of the work, `tag` is the tag of this work. Otherwise, `tag` is the tag
// of the call for help.
__device__ __forceinline__ void take_chunks(const Tree &tree, const Clusters &clusters, uint number,
                                            SearchState &search, float *query,
                                            const Workspace &room, uint tag, bool knows) {
  SharedWork &work = tree.shared_work[number];
  auto take = [&] {
    if (threadIdx.x == THREADS - 1) search.chunk = add_acquire(&work.next, 1);
  };
  for (;;) {
    __syncthreads();
    if (knows)
      take();
    else
      copy_work(tree, work, number, kind_of(tag) == SWEEP, search, query, take);
    __syncthreads();
    uint chunk = search.chunk % (1u << CHUNK_BITS), present = search.chunk >> CHUNK_BITS;
    if (chunk >= MAX_CHUNKS) return;
    // The work of this chunk cannot end before the chunk is done. If the chunk has the expected
    // tag, the copied description belongs to it, because no other work of the job came since the
    // call for help.
    bool is_sweep = kind_of(present) == SWEEP;
    if (present != tag) {
      tag = present;
      knows = false;
      __syncthreads();
      copy_work(tree, work, number, is_sweep, search, query, [] {});
      __syncthreads();
    }
    if (!knows && is_sweep && keeps_regions(tree)) find_near_regions(tree, search, query);
    knows = true;
    uint chunks = is_sweep ? chunks_of_sweep(tree) : chunks_of_distances(search);
    chunk -= MAX_CHUNKS - chunks;
    if (is_sweep)
      sweep_chunk(tree, clusters, work, number, chunk, search, query);
    else
      add_part(tree, search, chunk, chunks, tree.sums + (size_t)number * JOB_SUMS, room);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(&work.done, 1);
  }
}

// Shares `chunks` chunks of work with up to `most_helpers` other blocks, by all threads of the
// block. `describe` writes the description of the work. Returns when all chunks are done.
template <class Describe>
__device__ void share_work(const Tree &tree, const Clusters &clusters, uint number, uint kind,
                           uint chunks, uint most_helpers, SearchState &search, float *query,
                           const Workspace &room, Describe describe) {
  SharedWork &work = tree.shared_work[number];
  uint generation = *(volatile uint *)&work.generation + 1, tag = tag_of(generation, kind);
  describe(work);
  __threadfence();
  __syncthreads();
  // One warp reserves places for the calls, while another one publishes the work.
  if (threadIdx.x == WARP) {
    // Below MAX_UNTAKEN, the ring has room for the calls of all jobs and the sequencer.
    int untaken =
        (int)(*(volatile uint *)(tree.control + POSTED) - *(volatile uint *)(tree.control + TAKEN));
    bool calls = gridDim.x > 2 && untaken < MAX_UNTAKEN;
    uint helpers = search.helpers = calls ? min(chunks - 1, most_helpers) : 0;
    if (helpers > 0) search.base = atomicAdd(tree.control + POSTED, helpers);
  }
  if (threadIdx.x == 0) {
    work.generation = generation;
    work.done = 0;
    __threadfence();
    *(volatile uint *)&work.next = tag << CHUNK_BITS | (MAX_CHUNKS - chunks);
    __threadfence();
  }
  __syncthreads();
  if (threadIdx.x < search.helpers)
    write_post(tree, search.base, threadIdx.x, HELP | tag << NUMBER_BITS | number);
  if (kind == SWEEP && keeps_regions(tree)) find_near_regions(tree, search, query);
  take_chunks(tree, clusters, number, search, query, room, tag, true);
  __syncthreads();
  if (threadIdx.x == 0) {
    while (load_acquire(&work.done) < chunks) {}
  }
  __syncthreads();
}

// Sweeps for a query, by all threads of the block. With more than MAX_IN_PART balls that are not
// divided into parts, the sweep uses regions. Then it must come before the first merge of a launch:
// merges enlarge balls, but they enlarge regions only where `keeps_regions`.
__device__ void sweep_alone(const Tree &tree, const Clusters &clusters, SearchState &search,
                            float *query) {
  if (search.parts > 1 || tree.balls <= MAX_IN_PART)
    return collect_from(tree, clusters, search, query,
                        PartOfBalls(tree, search.part, search.parts, false));
  find_near_regions(tree, search, query);
  for (uint first = 0; first < search.near_count; first += MAX_IN_PART / WARP)
    collect_from(tree, clusters, search, query, NearBalls(search, first));
}

// Sweeps for the query of a job, by all threads of the block, with the help of other blocks.
__device__ void sweep_with_help(const Tree &tree, const Clusters &clusters, uint number,
                                SearchState &search, float *query, const Workspace &room) {
  share_work(tree, clusters, number, SWEEP, chunks_of_sweep(tree), SWEEP_HELPERS, search, query,
             room, [&](SharedWork &work) {
               float *to = tree.queries + (size_t)number * tree.query_words;
               FOR_EACH(k, tree.query_words) to[k] = query[k];
               if (threadIdx.x > 0) return;
               work.from = search.from;
               work.limit = search.limit;
               work.births_below = search.births_below;
               work.found = 0;
             });
  if (threadIdx.x == 0) search.found = *(volatile uint *)&tree.shared_work[number].found;
  __syncthreads();
  const uint *found = tree.found + 2 * (size_t)number * FOUND_ROOM;
  FOR_EACH(i, min(search.found, (uint)FOUND_ROOM)) {
    search.bounds[i] = __uint_as_float(__ldcg(found + 2 * i));
    search.positions[i] = __ldcg(found + 2 * i + 1);
  }
  __syncthreads();
}

// Sums the distances between the node and the clusters of a search, by all threads of the block. If
// `number` is the number of shared work, not NONE, and there are enough spans, other blocks help.
__device__ void sum_distances(const Tree &tree, const Clusters &clusters, uint number,
                              SearchState &search, float *query, const Workspace &room) {
  find_spans(search, 1);
  if (all_spans(search) <= FEW_MEMBER_DISTANCES) return sum_few(tree, search);
  find_spans(search, SPAN);
  if (number == NONE || all_spans(search) <= SPANS_ALONE) {
    FOR_EACH(i, JOB_SUMS) search.sums[i] = 0;
    __syncthreads();
    add_part(tree, search, 0, 1, search.sums, room);
    __syncthreads();
    return;
  }
  double *sums = tree.sums + (size_t)number * JOB_SUMS;
  share_work(tree, clusters, number, DISTANCES, chunks_of_distances(search), DISTANCE_HELPERS,
             search, query, room, [&](SharedWork &work) {
               uint i = threadIdx.x;
               FOR_EACH(k, JOB_SUMS) sums[k] = 0;
               if (i == 0) {
                 work.node = search.node.node;
                 work.node_shape = search.node.shape;
                 work.node_size = search.node.size;
                 work.node_start = search.node.start;
               }
               if (i >= DECIDED_TOGETHER) return;
               work.slots[i] = search.slots[i];
               work.shapes[i] = search.shapes[i];
               work.sizes[i] = search.sizes[i];
               work.starts[i] = search.starts[i];
             });
  FOR_EACH(k, JOB_SUMS) search.sums[k] = __ldcg(sums + k);
  __syncthreads();
}
