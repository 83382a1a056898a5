// The sequencer's plans: the requests of a plan, and the jobs that are posted for them.

#pragma once

#include "tree/requests.cuh"

// Number of merges after which a plan looks at all jobs again. The plans in between look at jobs
// that have changed.
#define MERGES_A_WHOLE_PLAN 8

// Creates the jobs for the requests from number `first` on, by a thread for each, and posts them.
__device__ __forceinline__ void post_requests(const Work &work, uint first) {
  const Tree &tree = work.tree;
  Sequencer &sequencer = sequencer_of_block();
  uint i = threadIdx.x, request = first + i, count = min(sequencer.request_count, (uint)JOBS);
  if (request < count) {
    RequestKind kind = (RequestKind)sequencer.request_kinds[request];
    uint subject = sequencer.request_subjects[request],
         candidate = sequencer.request_candidates[request];
    if (kind == OWNER_SEARCH) {
      search_again(tree, sequencer.owners[subject], sequencer.entry_lower_ids[subject]);
    } else {
      bool guesses = kind == PAIR_UNION ? candidate == 1 : sequencer.guesses[subject];
      MergeRequest wanted =
          merge_request(work, kind, subject, candidate, sequencer.request_depths[request]);
      uint members = 0;
      if (has_full_distances(tree))
        members = size_for(tree, sequencer, wanted.lower_node) +
                  size_for(tree, sequencer, wanted.higher_node);
      bool is_first = kind == PAIR_UNION && subject == sequencer.sorted[0];
      if (may_prepare(sequencer, members, is_first)) {
        uint number = prepare(tree, wanted, members, guesses);
        if (kind == GUESSED_UNION) sequencer.follows[subject] = number;
      } else if (kind != PAIR_UNION) {
        sequencer.is_early[subject] = true;
      }
    }
  }
  hash_new_jobs(sequencer);
  uint posted = sequencer.posted, inserted = sequencer.inserted, more = inserted - posted;
  if (more == 0) return;
  // Two warps do this at the same time.
  if (i == 0) __threadfence();
  if (i == WARP) sequencer.first_post = atomicAdd(tree.control + POSTED, more);
  __syncthreads();
  if (i < more) write_post(tree, sequencer.first_post, i, sequencer.to_post[posted + i]);
  if (i == 0) sequencer.posted = inserted;
  __syncthreads();
}

// Whether a speculative union can still be merged: no cluster of it, or of the speculative unions
// that it is made of, has been merged elsewhere.
__device__ __forceinline__ bool can_come(const Tree &tree, const Sequencer &sequencer,
                                         uint number) {
  for (;;) {
    if (sequencer.is_obsolete[number]) return false;
    uint lower = sequencer.lower_nodes[number], higher = sequencer.higher_nodes[number], beside;
    if (!is_expected(tree, sequencer, sequencer.lower_ids[number], lower)) return false;
    if (!is_expected(tree, sequencer, sequencer.higher_ids[number], higher)) return false;
    uint node = next_node(tree, sequencer, number, beside);
    if (beside != NONE && sequencer.is_obsolete[beside]) return false;
    if (node < tree.clusters) return true;
    number = node - tree.clusters;
  }
}

// Lists the thread's job if its next merge has changed or is guessed.
__device__ __forceinline__ void list_changed(const Tree &tree, Sequencer &sequencer) {
  uint i = threadIdx.x, state = state_of(sequencer, i);
  if (state == NO_JOB) return;
  uint depth = sequencer.depths[i];
  bool guesses = sequencer.guesses[i];
  bool is_guessed = state == PENDING && guesses && depth <= GUESS_DEPTH;
  bool has_changed =
      is_guessed || (state == READY && (sequencer.is_changed[i] || sequencer.is_early[i]));
  if (depth > 0 && has_changed && can_come(tree, sequencer, i))
    list_job(sequencer, i, depth, guesses);
}

// Makes a plan: chooses the next jobs of other blocks, and posts them.
__device__ void plan(const Work &work) {
  const Tree &tree = work.tree;
  Sequencer &sequencer = sequencer_of_block();
  uint i = threadIdx.x;
  renew_stale(tree);
  // If few entries are left, heads beyond the limit may be merged soon.
  if (sequencer.sorted_count < FEW && sequencer.limit_value < INFINITY_BITS) {
    refill(tree);
    renew_stale(tree);
  }
  uint count = min(sequencer.sorted_count, tree.batch);
  bool is_whole = sequencer.merges - sequencer.whole_plan_at >= MERGES_A_WHOLE_PLAN ||
                  sequencer.unused_count < tree.max_jobs / 4;
  if (is_whole) {
    sort_out(tree, false, false);
    if (sequencer.unused_count < tree.max_jobs / 4) sort_out(tree, true, false);
    if (i < JOBS) sequencer.depths[i] = 0;
  }
  __syncthreads();
  if (i == 0) {
    sequencer.inserted = sequencer.posted = sequencer.request_count = sequencer.listed_count = 0;
    sequencer.is_urgent = false;
    sequencer.pending_members = 0;
    sequencer.plans += 1;
    if (is_whole) sequencer.whole_plan_at = sequencer.merges;
  }
  __syncthreads();
  if (count == 0) return;
  bool is_large =
      has_full_distances(tree) && state_of(sequencer, i) == PENDING && sequencer.sizes[i] >= LARGE;
  if (is_large) atomicAdd(&sequencer.pending_members, sequencer.sizes[i]);
  FirstEntries entries(sequencer, count);
  ulong horizon = sequencer.values[sequencer.sorted[count - 1]];
  request_for_entries(tree, sequencer, entries, count);
  bool has_changed = !is_whole;
  __syncthreads();
  uint request = sequencer.is_urgent ? min(sequencer.request_count, (uint)JOBS) : 0;
  __syncthreads();
  // The sequencer waits for the first entry, so its job is posted first.
  if (request > 0) post_requests(work, 0);
  for (uint first = 0;;) {
    // Listed jobs request their next merges, which may list more jobs. Then come the changed jobs
    // that are not listed yet. Then the requests are posted, which may list new jobs.
    for (;;) {
      __syncthreads();
      uint end = min(sequencer.listed_count, (uint)JOBS);
      __syncthreads();
      if (first == end) {
        if (!has_changed) break;
        has_changed = false;
        list_changed(tree, sequencer);
        continue;
      }
      for (uint n = first + i / WARP; n < end; n += WARPS) {
        uint job = sequencer.listed_jobs[n], depth = sequencer.listed_depths[n];
        if (sequencer.states[job] == READY && depth <= FOLLOW_UPS)
          request_followers(work, entries, job, depth + 1, horizon);
        else if (depth <= GUESS_DEPTH)
          request_by_guess(work, entries, job, depth + 1, horizon);
      }
      first = end;
    }
    uint requests = min(sequencer.request_count, (uint)JOBS);
    if (request == requests) break;
    post_requests(work, request);
    request = requests;
  }
}
