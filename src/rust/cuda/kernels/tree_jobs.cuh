// The jobs that the sequencer has posted: a hash table by the ids of their clusters.

#pragma once

#include "tree_queue.cuh"

// The state of a thread's job.
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

// Whether, after so many merges, some recent cluster that a union was not compared with may be none
// of the last any more.
__device__ __forceinline__ bool is_too_old(const Sequencer &sequencer, uint job, uint merges) {
  return merges - sequencer.made_at[job] > RECENT;
}

// The job for clusters with these ids; NOWHERE if there is none, or it is too old after so many
// merges. The second id is NONE for a search.
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

// Gives a shape back.
__device__ __forceinline__ void free_shape(const Tree &tree, Sequencer &sequencer, uint shape) {
  if (shape != NONE) tree.free_shapes[atomicAdd(&sequencer.free_shapes, 1)] = shape & ~IDENTITY;
}
