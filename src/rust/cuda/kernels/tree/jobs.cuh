// The sequencer's hash table of jobs, by the ids of their clusters.

#pragma once

#include "tree/queue.cuh"

// The state of the thread's job; NO_JOB if the thread has none.
__device__ __forceinline__ uint state_of(const Sequencer &sequencer, uint thread) {
  return thread < JOBS ? sequencer.states[thread] : NO_JOB;
}

__device__ __forceinline__ uint bucket_of(uint lower_id, uint higher_id) {
  return (lower_id * 0x9e3779b1u ^ higher_id * 0x85ebca77u) >> 24;
}
static_assert(BUCKETS == 1 << (32 - 24), "a bucket for each hash");

__device__ __forceinline__ void put_in_bucket(Sequencer &sequencer, uint job) {
  uint bucket = bucket_of(sequencer.lower_ids[job], sequencer.higher_ids[job]);
  sequencer.next[job] = atomicExch(&sequencer.buckets[bucket], job);
}

// Whether a union's search is too old after `merges` merges: the ring of recent clusters may no
// longer have all clusters made since the search.
__device__ __forceinline__ bool is_too_old(const Sequencer &sequencer, uint job, uint merges) {
  return merges - sequencer.made_at[job] > RECENT;
}

// The job for clusters with these ids; NOWHERE if there is none, or if its result is too old after
// `merges` merges. The second id is NONE for a search.
__device__ __forceinline__ uint find_job(const Sequencer &sequencer, uint lower_id, uint higher_id,
                                         uint merges) {
  for (uint job = sequencer.buckets[bucket_of(lower_id, higher_id)]; job != NOWHERE;
       job = sequencer.next[job]) {
    if (sequencer.lower_ids[job] != lower_id || sequencer.higher_ids[job] != higher_id) continue;
    uint state = sequencer.states[job];
    if (state == READY && is_too_old(sequencer, job, merges)) continue;
    if (state == PENDING || state == READY || state == SEARCHING) return job;
  }
  return NOWHERE;
}

// Puts a shape on the stack of free shapes.
__device__ __forceinline__ void free_shape(const Tree &tree, Sequencer &sequencer, uint shape) {
  if (shape != NONE) tree.free_shapes[atomicAdd(&sequencer.free_shapes, 1)] = shape & ~IDENTITY;
}
