// The sequencer's requests: which jobs are still wanted, and which unions and searches new jobs are
// for.

#pragma once

#include "tree/results.cuh"
#include "tree/worker.cuh"

// Maximum number of merges ahead of the queue for which unions of unions are prepared.
#define FOLLOW_UPS 15
static_assert(2 * (FOLLOW_UPS + 1) <= SKIPPED, "room for all clusters of such a union");
static_assert(SKIPPED <= WARP, "a lane for each of them");
// Number of entries at the front of the queue whose next merge is speculated on while their
// neighbour search still runs.
#define GUESSED 8
// Maximum number of entries whose unions a speculative union is joined with: entries that come
// before it in the queue and take one of its near neighbours.
#define JOINED 2
// Maximum depth of a union whose next merge is guessed before its search is done.
#define GUESS_DEPTH 2

// For full distances: number of members from which on a union is large. Most blocks help with the
// search for a large union. Not measured.
#ifndef LARGE
#define LARGE 1024
#endif
// Maximum number of members of all large unions that are pending together. The union of the first
// entry, and a large union while no other is pending, are prepared in any case. If too high, unions
// that are never merged delay the next one; if too low, blocks wait. Without this limit, a tree of
// 30,000 x 41 took 1.1 times as long; with twice the limit, as long (H200).
#ifndef MOST_MEMBERS
#define MOST_MEMBERS 32768
#endif

// Value of `next` for a job that is not in the hash table yet.
#define NOT_IN_TABLE (NONE - 1)

// ---- the jobs that are still wanted ----

// Whether one cluster of a speculative union's pair can still be merged: it is active, or a
// speculative union that is pending or ready. `is_obsolete` tells if it has been merged.
__device__ __forceinline__ bool is_expected(const Tree &tree, const Sequencer &sequencer, uint id,
                                            uint node) {
  if (node < tree.clusters) return true;
  uint number = node - tree.clusters, state = sequencer.states[number];
  return sequencer.ids[number] == id && (state == PENDING || state == READY);
}

// Drops speculative unions that cannot be merged any more or are too old; with `is_full`, also
// those that are not expected soon; with `all`, all of them. Then lists the unused numbers, and
// fills the hash table with the other jobs again.
__device__ __forceinline__ void sort_out(const Tree &tree, bool is_full, bool all) {
  Sequencer &sequencer = sequencer_of_block();
  uint i = threadIdx.x, state = state_of(sequencer, i);
  __syncthreads();
  if (state == PENDING || state == READY) {
    bool is_unexpected = is_full && sequencer.depths[i] == 0;
    if (all || sequencer.is_obsolete[i] || is_too_old(sequencer, i, sequencer.merges) ||
        is_unexpected)
      sequencer.states[i] = DROPPED;
  }
  __syncthreads();
  // Drops the unions of dropped unions, and so on.
  for (;;) {
    state = state_of(sequencer, i);
    bool drops =
        (state == PENDING || state == READY) &&
        !(is_expected(tree, sequencer, sequencer.lower_ids[i], sequencer.lower_nodes[i]) &&
          is_expected(tree, sequencer, sequencer.higher_ids[i], sequencer.higher_nodes[i]));
    if (!__syncthreads_or(drops)) break;
    if (drops) sequencer.states[i] = DROPPED;
    __syncthreads();
  }
  sequencer.buckets[i] = NOWHERE;
  if (i == 0) sequencer.unused_count = 0;
  __syncthreads();
  state = state_of(sequencer, i);
  if ((state == DROPPED || state == MERGED) && (sequencer.users[i] == 0 || all)) {
    if (state == DROPPED) free_shape(tree, sequencer, sequencer.shapes[i]);
    sequencer.states[i] = state = UNUSED;
  }
  // A search, too, writes to the node of its number, so no posted job may use this node.
  if (state == UNUSED && sequencer.users[i] == 0 && i < tree.max_jobs)
    sequencer.unused[atomicAdd(&sequencer.unused_count, 1)] = i;
  else if (state == PENDING || state == READY || state == SEARCHING)
    put_in_bucket(sequencer, i);
  __syncthreads();
}

// ---- new jobs ----

// An unused number, for a new job; NOWHERE if none is left.
__device__ __forceinline__ uint new_job(Sequencer &sequencer) {
  uint left = atomicAdd(&sequencer.unused_count, ~0u);
  if (left > 0 && left <= JOBS) return sequencer.unused[left - 1];
  atomicAdd(&sequencer.unused_count, 1);
  return NOWHERE;
}

// Notes that a job, whose description is written, has to be posted.
__device__ __forceinline__ void note_post(Sequencer &sequencer, uint number) {
  atomicAdd(&sequencer.users[number], 1);
  sequencer.to_post[atomicAdd(&sequencer.inserted, 1)] = number;
}

// Creates a job that searches for an active cluster again, because its floor is reached.
__device__ __forceinline__ void search_again(const Tree &tree, uint slot, uint id) {
  Sequencer &sequencer = sequencer_of_block();
  uint number = new_job(sequencer);
  if (number == NOWHERE) return;
  sequencer.states[number] = SEARCHING;
  sequencer.is_obsolete[number] = 0;
  sequencer.lower[number] = slot;
  sequencer.lower_ids[number] = id;
  sequencer.higher_ids[number] = NONE;
  sequencer.lower_used[number] = sequencer.higher_used[number] = NONE;
  Job &job = tree.jobs[number];
  job.node = job.slot = slot;
  job.lower_node = job.higher_node = NONE;
  job.is_new = 0;
  job.births_below = tree.births[slot];
  job.skipped = 0;
  note_post(sequencer, number);
  sequencer.next[number] = NOT_IN_TABLE;
}

// Whether a speculative union is made of two active clusters.
__device__ __forceinline__ bool is_simple(const Tree &tree, const Sequencer &sequencer,
                                          uint number) {
  return sequencer.lower_nodes[number] < tree.clusters &&
         sequencer.higher_nodes[number] < tree.clusters;
}

// The node to go on with of the two nodes that a speculative union is made of: a speculative union,
// if there is one. If both are speculative unions, one of them is simple, and `beside` becomes its
// number; otherwise, `beside` becomes NONE.
__device__ __forceinline__ uint next_node(const Tree &tree, const Sequencer &sequencer, uint number,
                                          uint &beside) {
  uint lower = sequencer.lower_nodes[number], higher = sequencer.higher_nodes[number];
  beside = NONE;
  if (lower < tree.clusters) return higher;
  if (higher < tree.clusters) return lower;
  bool is_lower = is_simple(tree, sequencer, lower - tree.clusters);
  beside = (is_lower ? lower : higher) - tree.clusters;
  return is_lower ? higher : lower;
}

// Adds the slots that a search for a union with this node has to leave out. Returns their number.
__device__ __forceinline__ uint skip_of(const Tree &tree, const Sequencer &sequencer, uint node,
                                        uint slot, uint *skip, uint skipped) {
  auto add = [&](uint one) {
    for (uint i = 0; i < skipped; i++)
      if (skip[i] == one) return;
    if (skipped < SKIPPED) skip[skipped++] = one;
  };
  if (node < tree.clusters) {
    add(slot);
    return skipped;
  }
  // The slots of the union's pair, and of the pairs of all unions that it is made of.
  while (node >= tree.clusters) {
    uint number = node - tree.clusters, beside;
    add(sequencer.lower[number]);
    add(sequencer.higher[number]);
    node = next_node(tree, sequencer, number, beside);
    if (beside == NONE) continue;
    add(sequencer.lower[beside]);
    add(sequencer.higher[beside]);
  }
  return skipped;
}

// Describes the job that searches for the neighbours of a speculative union, and first makes the
// union if `is_new`; notes that it has to be posted.
__device__ __forceinline__ void search_union(const Tree &tree, uint number, bool is_new) {
  Sequencer &sequencer = sequencer_of_block();
  uint lower = sequencer.lower[number], higher = sequencer.higher[number];
  uint lower_node = sequencer.lower_nodes[number], higher_node = sequencer.higher_nodes[number];
  Job &job = tree.jobs[number];
  job.node = tree.clusters + number;
  job.slot = lower;
  job.lower_node = lower_node;
  job.higher_node = higher_node;
  job.is_new = is_new;
  job.id = sequencer.ids[number];
  auto wait_for = [&](uint side, uint node) {
    bool waits = node >= tree.clusters && sequencer.states[node - tree.clusters] == PENDING;
    job.waits_for[side] = waits ? node - tree.clusters : NONE;
    if (waits) job.awaited_ids[side] = sequencer.ids[node - tree.clusters];
  };
  wait_for(0, lower_node);
  wait_for(1, higher_node);
  job.births_below = NONE;
  uint skipped = skip_of(tree, sequencer, lower_node, lower, job.skip, 0);
  skipped = skip_of(tree, sequencer, higher_node, higher, job.skip, skipped);
  job.skipped = skipped;
  auto used = [&](uint node) {
    if (node < tree.clusters) return NONE;
    atomicAdd(&sequencer.users[node - tree.clusters], 1);
    return node - tree.clusters;
  };
  sequencer.lower_used[number] = used(lower_node);
  sequencer.higher_used[number] = used(higher_node);
  note_post(sequencer, number);
}

// The number of a shape that is not in use.
__device__ __forceinline__ uint new_shape(const Tree &tree, Sequencer &sequencer) {
  uint stacked = atomicAdd(&sequencer.free_shapes, ~0u);
  if (stacked > 0 && stacked <= tree.shape_limit) return tree.free_shapes[stacked - 1];
  atomicAdd(&sequencer.free_shapes, 1);
  return atomicAdd(&sequencer.shapes_used, 1);
}

// The shape of one of the nodes that a union is made of.
__device__ __forceinline__ uint shape_for(const Tree &tree, const Sequencer &sequencer, uint node) {
  return node < tree.clusters ? tree.shapes[node] : sequencer.shapes[node - tree.clusters];
}

// The number of members of one of the nodes that a union is made of, for full distances.
__device__ __forceinline__ uint size_for(const Tree &tree, const Sequencer &sequencer, uint node) {
  return node < tree.clusters ? tree.sizes[node] : sequencer.sizes[node - tree.clusters];
}

// Kinds of requests. The subject of a request is an entry of the queue or a job:
//   PAIR_UNION     union of an entry's pair; `candidate` is 1 if its next merge may be guessed
//   NEXT_UNION     union of a job's union and its candidate number `candidate`
//   GUESSED_UNION  union of a job's union and the cluster in slot `candidate`
//   JOINED_UNION   union of a job's union and the union of job `candidate`
//   OWNER_SEARCH   search for an entry's owner
enum RequestKind { PAIR_UNION, NEXT_UNION, GUESSED_UNION, JOINED_UNION, OWNER_SEARCH };

// A requested union: the slots, ids and nodes of its pair, the distance of the pair, and the depth.
struct MergeRequest {
  uint lower, lower_id, lower_node, higher, higher_id, higher_node;
  ulong value;
  uint depth;
};

__device__ __forceinline__ void add_request(Sequencer &sequencer, RequestKind kind, uint subject,
                                            uint candidate, uint depth) {
  uint at = atomicAdd(&sequencer.request_count, 1);
  if (at >= JOBS) return;
  sequencer.request_kinds[at] = kind;
  sequencer.request_subjects[at] = subject;
  sequencer.request_candidates[at] = candidate;
  sequencer.request_depths[at] = depth;
}

// Lists a job, once in a plan: the plan then requests the next merge of its union.
__device__ __forceinline__ void list_job(Sequencer &sequencer, uint number, uint depth,
                                         bool guesses) {
  if (atomicExch(&sequencer.listed_in[number], sequencer.plans) == sequencer.plans) return;
  sequencer.is_changed[number] = sequencer.is_early[number] = false;
  uint at = atomicAdd(&sequencer.listed_count, 1);
  if (at >= JOBS) return;
  sequencer.listed_jobs[at] = number;
  sequencer.listed_depths[at] = depth;
  sequencer.guesses[number] = guesses;
}

// Whether a requested union of this many members may be prepared now: not if it is large, and other
// large unions are pending that have too many members together with it. `is_first` tells whether it
// is that of the first entry, for which the sequencer waits.
__device__ __forceinline__ bool may_prepare(Sequencer &sequencer, uint members, bool is_first) {
  if (members < LARGE) return true;
  for (uint before = load_while_added(&sequencer.pending_members);;) {
    if (before > 0 && before + members > MOST_MEMBERS && !is_first) return false;
    uint seen = atomicCAS(&sequencer.pending_members, before, before + members);
    if (seen == before) return true;
    before = seen;
  }
}

// Creates the job that makes a speculative union, and lists it if its next merge may be guessed.
// Returns its number, or NOWHERE if no number is left. `members` counts only for full distances.
__device__ __forceinline__ uint prepare(const Tree &tree, const MergeRequest &request, uint members,
                                        bool guesses) {
  Sequencer &sequencer = sequencer_of_block();
  uint number = new_job(sequencer);
  if (number == NOWHERE) return NOWHERE;
  // All values are read before they are used, so no read waits for another read.
  uint lower_shape = shape_for(tree, sequencer, request.lower_node);
  uint higher_shape = shape_for(tree, sequencer, request.higher_node);
  uint shape = tree.has_shapes ? new_shape(tree, sequencer) : NONE;
  sequencer.states[number] = PENDING;
  sequencer.is_obsolete[number] = 0;
  sequencer.lower[number] = request.lower;
  sequencer.higher[number] = request.higher;
  sequencer.lower_ids[number] = request.lower_id;
  sequencer.higher_ids[number] = request.higher_id;
  sequencer.lower_nodes[number] = request.lower_node;
  sequencer.higher_nodes[number] = request.higher_node;
  sequencer.pair_values[number] = request.value;
  sequencer.depths[number] = request.depth;
  sequencer.made_at[number] = sequencer.merges;
  sequencer.sizes[number] = members;
  sequencer.ids[number] = atomicAdd(&sequencer.next_id, 1);
  sequencer.lower_shapes[number] = lower_shape;
  sequencer.higher_shapes[number] = higher_shape;
  tree.shapes[tree.clusters + number] = sequencer.shapes[number] = shape;
  sequencer.follows[number] = NOWHERE;
  sequencer.guesses[number] = guesses;
  sequencer.is_changed[number] = sequencer.is_early[number] = false;
  search_union(tree, number, true);
  sequencer.next[number] = NOT_IN_TABLE;
  if (guesses && request.depth <= GUESS_DEPTH) list_job(sequencer, number, request.depth, true);
  return number;
}

// Notes that a speculative union is expected soon. Lists a ready union unless nothing has changed
// since the last plan; with `guesses`, also a pending union. A listed ready union is searched for
// again if its search is getting old.
__device__ void expect(const Tree &tree, Sequencer &sequencer, uint number, uint depth,
                       bool guesses) {
  bool is_as_before = sequencer.depths[number] == depth && !sequencer.is_changed[number] &&
                      (!guesses || sequencer.guesses[number]);
  sequencer.depths[number] = depth;
  bool is_ready = sequencer.states[number] == READY;
  if (is_ready ? is_as_before : !(guesses && sequencer.states[number] == PENDING)) return;
  list_job(sequencer, number, depth, guesses);
  if (!is_ready) return;
  bool is_due = atomicAdd(&sequencer.users[number], 0) == 0 &&
                sequencer.merges - sequencer.made_at[number] > RECENT / 2;
  if (is_due) search_union(tree, number, false);
}

// Puts new jobs into the hash table. No other thread reads the table meanwhile.
__device__ void hash_new_jobs(Sequencer &sequencer) {
  __syncthreads();
  uint i = threadIdx.x, state = state_of(sequencer, i);
  if ((state == PENDING || state == SEARCHING) && sequencer.next[i] == NOT_IN_TABLE)
    put_in_bucket(sequencer, i);
  __syncthreads();
}

// The first entries of the queue, one for each lane of every warp: the slots of its pair (NONE for
// a floor) and its distance. `live` has a bit for each entry that will probably be merged or
// searched for: it shares no cluster with a live entry before it.
struct FirstEntries {
  uint lower, higher, live;
  ulong value;

  __device__ FirstEntries(Sequencer &sequencer, uint count) {
    uint lane = threadIdx.x % WARP;
    lower = higher = NONE;
    value = INFINITY_BITS;
    if (lane < count) {
      uint at = sequencer.sorted[lane];
      ulong tie = sequencer.ties[at];
      value = sequencer.values[at];
      if (is_pair(tie)) {
        lower = lower_slot(tie);
        higher = higher_slot(tie);
      }
    }
    // For each entry, the earlier entries that share a cluster with it.
    for (uint rank = threadIdx.x / WARP; rank < count; rank += WARPS) {
      uint one = __shfl_sync(WHOLE_WARP, lower, rank),
           other = __shfl_sync(WHOLE_WARP, higher, rank);
      uint shared =
          __ballot_sync(WHOLE_WARP, lane < rank && lower != NONE && (has(one) || has(other)));
      if (lane == 0) sequencer.conflicts[rank] = shared;
    }
    __syncthreads();
    uint before = lane < count ? sequencer.conflicts[lane] : 0;
    uint conflicted = __ballot_sync(WHOLE_WARP, before != 0);
    live = ~conflicted;
    for (uint left = conflicted; left != 0; left &= left - 1) {
      uint rank = __ffs(left) - 1;
      if (!(__shfl_sync(WHOLE_WARP, before, rank) & live)) live |= 1u << rank;
    }
  }
  __device__ __forceinline__ bool has(uint slot) const { return lower == slot || higher == slot; }
  // Whether the lane's entry is live.
  __device__ __forceinline__ bool is_live() const { return live >> threadIdx.x % WARP & 1; }
};

// Requests the unions and searches that the first entries of the queue need next.
__device__ void request_for_entries(const Tree &tree, Sequencer &sequencer,
                                    const FirstEntries &entries, uint count) {
  // Each warp has every WARPS-th entry, with a lane for each.
  uint lane = threadIdx.x % WARP, rank = threadIdx.x / WARP + lane * WARPS;
  if (lane >= WARP / WARPS || rank >= count || !(entries.live >> rank & 1)) return;
  uint at = sequencer.sorted[rank];
  uint merges = sequencer.merges;
  uint job =
      find_job(sequencer, sequencer.entry_lower_ids[at], sequencer.entry_higher_ids[at], merges);
  bool pair = is_pair(sequencer.ties[at]);
  if (pair && job != NOWHERE)
    expect(tree, sequencer, job, 1, rank < GUESSED);
  else if (job == NOWHERE)
    add_request(sequencer, pair ? PAIR_UNION : OWNER_SEARCH, at, rank < GUESSED, 1);
  if (rank == 0 && job == NOWHERE) sequencer.is_urgent = true;
}

// Requests the union of a speculative union and another cluster, by one thread. If the union
// already has a job, notes that it is expected.
__device__ __forceinline__ void request_or_expect(const Tree &tree, Sequencer &sequencer, uint job,
                                                  uint other, uint other_id, RequestKind kind,
                                                  uint candidate, uint depth) {
  uint mine = sequencer.lower[job], id = sequencer.ids[job];
  uint lower_id = mine < other ? id : other_id, higher_id = mine < other ? other_id : id;
  uint known = find_job(sequencer, lower_id, higher_id, sequencer.merges);
  if (known != NOWHERE)
    expect(tree, sequencer, known, depth, sequencer.guesses[job]);
  else
    add_request(sequencer, kind, job, candidate, depth);
}

// Requests the union of a speculative union and an active cluster, by a warp. Returns false if an
// earlier live entry of the queue takes this cluster. Then the union with that entry's union is
// requested instead, if that entry is one of the first JOINED of this speculative union: `joined`
// has a bit for each of them. `value` is the distance of the speculative union's pair; `is_other`
// tells whether the lane's entry has none of its clusters.
__device__ bool request_union(const Work &work, const FirstEntries &entries, bool is_other,
                              ulong value, uint job, uint other, uint other_id, RequestKind kind,
                              uint candidate, uint depth, uint &joined) {
  const Tree &tree = work.tree;
  Sequencer &sequencer = sequencer_of_block();
  bool takes = entries.is_live() && entries.value < value && entries.has(other) && is_other;
  uint taking = __ballot_sync(WHOLE_WARP, takes), lane = threadIdx.x % WARP;
  if (taking == 0) {
    if (lane == 0) request_or_expect(tree, sequencer, job, other, other_id, kind, candidate, depth);
    return true;
  }
  uint first = taking & -taking;
  if (joined & first || __popc(joined) == JOINED) return false;
  joined |= first;
  if (first != 1u << lane) return false;
  uint at = sequencer.sorted[lane];
  uint pair = find_job(sequencer, sequencer.entry_lower_ids[at], sequencer.entry_higher_ids[at],
                       sequencer.merges);
  // The entry has no job yet, but gets one in this plan, or later if its union is large.
  if (pair == NOWHERE)
    sequencer.is_early[job] = true;
  else
    request_or_expect(tree, sequencer, job, sequencer.lower[pair], sequencer.ids[pair],
                      JOINED_UNION, pair, depth);
  return false;
}

// The job of the merge that was guessed to follow this one, if it can still follow; NOWHERE
// otherwise.
__device__ __forceinline__ uint guess_after(const Sequencer &sequencer, uint job) {
  uint next = sequencer.follows[job], id = sequencer.ids[job];
  if (next == NOWHERE || sequencer.is_obsolete[next]) return NOWHERE;
  bool is_of_it = sequencer.lower_ids[next] == id || sequencer.higher_ids[next] == id;
  return is_of_it && (sequencer.states[next] == PENDING || sequencer.states[next] == READY)
             ? next
             : NOWHERE;
}

// Keeps the last guess for a speculative union that is still searched for: notes that the guessed
// next union is expected; by a warp. Returns false if there is no guess, or if it is probably wrong
// by now.
__device__ __forceinline__ bool follow_guess(const Work &work, const FirstEntries &entries,
                                             uint job, uint depth) {
  Sequencer &sequencer = sequencer_of_block();
  uint known = guess_after(sequencer, job);
  if (known == NOWHERE) return false;
  uint other = sequencer.lower_ids[known] == sequencer.ids[job] ? sequencer.higher[known]
                                                                : sequencer.lower[known];
  bool takes = entries.is_live() && entries.value < sequencer.pair_values[job] &&
               entries.has(other) && !entries.has(sequencer.lower[job]) &&
               !entries.has(sequencer.higher[job]);
  if (__any_sync(WHOLE_WARP, takes)) return false;
  if (threadIdx.x % WARP == 0) expect(work.tree, sequencer, known, depth, sequencer.guesses[job]);
  return true;
}

// Requests the union of a ready speculative union and its nearest neighbour that no earlier entry
// takes, up to the distance `horizon`; by a warp.
__device__ void request_followers(const Work &work, const FirstEntries &entries, uint job,
                                  uint depth, ulong horizon) {
  Sequencer &sequencer = sequencer_of_block();
  uint slot = sequencer.lower[job], partner = sequencer.higher[job],
       replacement = sequencer.replacements[job];
  ulong value = sequencer.pair_values[job];
  bool is_other = !entries.has(slot) && !entries.has(partner);
  Lists lists = lists_of_block(work.tree);
  uint at = threadIdx.x % WARP % CANDIDATES * JOBS + job, lane = threadIdx.x % WARP;
  Listed listed = lists.at(at);
  uint mine = listed.slot;
  bool counts = lane < sequencer.counts[job] && mine != NONE && listed.value <= horizon;
  // The replacement neighbour has taken up the nearest neighbour, and is about as near.
  uint replacement_id = replacement == NONE ? NONE : sequencer.replacement_ids[job];
  uint joined = 0;
  if (replacement_id != NONE)
    request_union(work, entries, is_other, value, job, replacement, replacement_id, GUESSED_UNION,
                  replacement, depth, joined);
  for (uint left = __ballot_sync(WHOLE_WARP, counts); left != 0; left &= left - 1) {
    uint c = __ffs(left) - 1, other = __shfl_sync(WHOLE_WARP, mine, c);
    uint id = __shfl_sync(WHOLE_WARP, listed.id, c);
    if (request_union(work, entries, is_other, value, job, other, id, NEXT_UNION, c, depth, joined))
      return;
  }
}

// The node whose neighbours tell about the neighbours of `node`: for a union that is still searched
// for, one of the nodes that it is made of.
__device__ __forceinline__ uint known_node(const Tree &tree, const Sequencer &sequencer,
                                           uint node) {
  while (node >= tree.clusters && sequencer.states[node - tree.clusters] != READY) {
    uint lower = sequencer.lower_nodes[node - tree.clusters];
    uint higher = sequencer.higher_nodes[node - tree.clusters];
    node = higher >= tree.clusters ? higher : lower;
  }
  return node;
}

// Requests the union of a speculative union, whose search is not done yet, and its probable nearest
// neighbour, by a warp: the nearest of the neighbours of the nodes that it is made of.
__device__ __forceinline__ void request_by_guess(const Work &work, const FirstEntries &entries,
                                                 uint job, uint depth, ulong horizon) {
  if (follow_guess(work, entries, job, depth)) return;
  const Tree &tree = work.tree;
  Sequencer &sequencer = sequencer_of_block();
  Lists lists = lists_of_block(tree);
  uint lane = threadIdx.x % WARP, c = lane % CANDIDATES;
  uint node = lane < CANDIDATES ? sequencer.lower_nodes[job] : sequencer.higher_nodes[job];
  node = known_node(tree, sequencer, node);
  ulong value = INFINITY_BITS, pair_value = sequencer.pair_values[job];
  uint slot = NONE, id = NONE;
  // The slots of its own clusters, which its search leaves out.
  const Job &posted = tree.jobs[job];
  uint skipped = lane < SKIPPED ? posted.skip[lane] : NONE;
  if (lane >= posted.skipped) skipped = NONE;
  if (node < tree.clusters) {
    size_t at = (size_t)node * CANDIDATES + c;
    ulong stored = tree.candidate_values[at];
    slot = tree.candidate_slots[at];
    id = tree.candidate_ids[at];
    if (c < tree.counts[node] && id_at(tree, slot) == id) value = stored;
  } else {
    uint number = node - tree.clusters, at = c * JOBS + number;
    Listed listed = lists.at(at);
    if (c < sequencer.counts[number] && listed.slot != NONE) {
      slot = listed.slot;
      id = listed.id;
      value = listed.value;
    }
  }
  // Its own clusters do not count.
  bool has_mine = false, has_entry = false;
  for (uint i = 0, all = posted.skipped; i < all; i++) {
    uint member = __shfl_sync(WHOLE_WARP, skipped, i);
    has_mine = has_mine || member == slot;
    has_entry = has_entry || entries.has(member);
  }
  if (has_mine) value = INFINITY_BITS;
  bool is_other = !has_entry;
  for (uint joined = 0;;) {
    ulong least = least_of_warp(value);
    if (least > horizon || least >= INFINITY_BITS) return;
    uint source = __ffs(__ballot_sync(WHOLE_WARP, value == least)) - 1;
    uint other = __shfl_sync(WHOLE_WARP, slot, source),
         other_id = __shfl_sync(WHOLE_WARP, id, source);
    if (request_union(work, entries, is_other, pair_value, job, other, other_id, GUESSED_UNION,
                      other, depth, joined))
      return;
    if (slot == other) value = INFINITY_BITS;
  }
}

// The union that a request asks for.
__device__ MergeRequest merge_request(const Work &work, RequestKind kind, uint subject,
                                      uint candidate, uint depth) {
  const Sequencer &sequencer = sequencer_of_block();
  if (kind == PAIR_UNION) {
    uint lower = lower_slot(sequencer.ties[subject]), higher = higher_slot(sequencer.ties[subject]);
    return {lower,
            sequencer.entry_lower_ids[subject],
            lower,
            higher,
            sequencer.entry_higher_ids[subject],
            higher,
            sequencer.values[subject],
            depth};
  }
  uint other = candidate, id = NONE, slot = sequencer.lower[subject], mine = sequencer.ids[subject];
  uint node = work.tree.clusters + subject;
  ulong value = sequencer.pair_values[subject];
  uint other_node = other;
  if (kind == GUESSED_UNION) {
    id = id_at(work.tree, other);
  } else if (kind == JOINED_UNION) {
    other = sequencer.lower[candidate];
    id = sequencer.ids[candidate];
    other_node = work.tree.clusters + candidate;
  } else {
    Lists lists = lists_of_block(work.tree);
    Listed listed = lists.at(candidate * JOBS + subject);
    other = other_node = listed.slot;
    id = listed.id;
    value = listed.value;
  }
  if (slot < other) return {slot, mine, node, other, id, other_node, value, depth};
  return {other, id, other_node, slot, mine, node, value, depth};
}
