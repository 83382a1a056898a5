// What other blocks are to do next: the results of their jobs, and the choice of new ones.

#pragma once

#include "tree_merge.cuh"
#include "tree_worker.cuh"

// Unions of unions that are prepared ahead.
#define FOLLOW_UPS 15
static_assert(2 * (FOLLOW_UPS + 1) <= SKIPPED, "room for all clusters of such a union");
static_assert(SKIPPED <= WARP, "a lane for each of them");
// Entries at the front of the queue of whose unions the nearest neighbours are guessed, as long as these
// are searched for.
#define GUESSED 8
// Entries before a tentative union's that take a near neighbour of it, with whose unions its own is tried.
#define JOINED 2
// How far guesses follow guesses.
#define GUESS_DEPTH 2
// Merges after which all jobs are looked at anew; before, those that have changed are.
#define MERGES_A_WHOLE_PLAN 8

// The next job of one that is not yet in a bucket.
#define UNLISTED (NONE - 1)

// ---- results ----

// Whether a slot's cluster has been merged since so many merges were done, of the last ones.
__device__ __forceinline__ bool is_merged_since(const Chain &chain, uint slot, uint merges) {
  if (chain.merges - merges > RECENT) return true;
  bool found = false;
#pragma unroll 4
  for (uint merge = merges; merge < chain.merges; merge++)
    found = found || chain.recent_slots[merge % RECENT] == slot ||
            chain.recent_higher[merge % RECENT] == slot;
  return found;
}

// Takes the result of a tentative union's job, by a warp.
__device__ void take_union(const Work &work, uint number) {
  const Tree &tree = work.tree;
  Chain &chain = chain_of_block();
  uint lane = threadIdx.x % WARP, node = tree.clusters + number, count = tree.counts[node];
  const Job job = tree.jobs[number];
  // All is read before anything is written, so no read waits for another one.
  double floor = tree.floor_values[node];
  ulong tie = tree.floor_ties[node];
  uint size = tree.sizes[node], shape = tree.shapes[node];
  uint start = has_members(tree) ? tree.member_starts[node] : 0, length = tree.dimensions + SCALARS;
  constexpr uint PARTS = (DIMENSIONS + SCALARS + WARP - 1) / WARP;
  float in_row[PARTS];
#pragma unroll
  for (uint part = 0; part < PARTS; part++) {
    uint k = part * WARP + lane;
    in_row[part] = k < length ? tree.rows[(size_t)number * length + k] : 0;
  }
  if (job.lacks_room || job.is_hopeless) {
    if (lane == 0 && !chain.is_dead[number]) chain.status = job.lacks_room ? NO_ROOM : GAVE_UP;
    return;
  }
  Lists lists = lists_of_block(tree);
  if (lane < CANDIDATES) {
    // All are there to be read, whether they count or not: so no read waits for another one.
    size_t from = (size_t)node * CANDIDATES + lane;
    uint at = lane * JOBS + number, slot = tree.candidate_slots[from];
    uint id = tree.candidate_ids[from];
    ulong value = tree.candidate_values[from];
    if (lane >= count || is_merged_since(chain, slot, job.made_at)) slot = NONE;
    lists.set(at, {value, slot, id});
  }
#pragma unroll
  for (uint part = 0; part < PARTS; part++) {
    uint k = part * WARP + lane;
    if (lists.has_job_rows() && k < length) lists.shared_row(number)[k] = in_row[part];
  }
  if (lane > 0) return;
  chain.counts[number] = count;
  chain.heirs[number] = NONE;
  chain.floor_values[number] = __double_as_longlong(floor);
  chain.floor_ties[number] = tie;
  // Above it, also where it is 0: there may be others at this distance.
  chain.limits[number] = next_above(__double2float_ru(floor / tree.unit * (1 + SLACK)));
  chain.sizes[number] = size;
  chain.shapes[number] = shape;
  chain.starts[number] = start;
  chain.made_at[number] = job.made_at;
  if (job.is_new) {
    chain.fuller[number] = job.fuller;
    bool are_few = job.nearest < WANTED / 2 && job.found_first < DECIDED_TOGETHER;
    if (are_few || job.found_first < WANTED / 2) atomicAdd(&chain.few, 1);
    if (job.found_first > 4 * DECIDED_TOGETHER) atomicAdd(&chain.many, 1);
    atomicAdd(&chain.inserted, 1);
  }
  chain.states[number] = READY;
  chain.is_changed[number] = true;
}

// Gives an active cluster the candidates that a search has found, by a warp.
__device__ void take_search(const Work &work, uint number) {
  const Tree &tree = work.tree;
  Chain &chain = chain_of_block();
  uint lane = threadIdx.x % WARP, node = tree.clusters + number, slot = chain.lower[number];
  bool is_active = !chain.is_dead[number];
  __syncwarp();
  if (lane == 0) chain.states[number] = UNUSED;
  if (!is_active) return;
  if (tree.jobs[number].is_hopeless) {
    if (lane == 0) chain.status = GAVE_UP;
    return;
  }
  uint count = tree.counts[node];
  if (lane < count) {
    size_t from = (size_t)node * CANDIDATES + lane, to = (size_t)slot * CANDIDATES + lane;
    tree.candidate_values[to] = tree.candidate_values[from];
    tree.candidate_slots[to] = tree.candidate_slots[from];
    tree.candidate_ids[to] = tree.candidate_ids[from];
  }
  Key before = floor_of(tree, slot), floor = floor_of(tree, node);
  __syncwarp();
  if (lane == 0) {
    // Otherwise a search whose bounds tell too little would be made for ever.
    if (count == 0 && !(before < floor)) chain.status = GAVE_UP;
    tree.counts[slot] = count;
    tree.floor_values[slot] = __longlong_as_double(floor.value);
    tree.floor_ties[slot] = floor.tie;
    mark_leaf(chain, slot);
  }
  __syncwarp();
  bool is_entry = false;
  for (uint i = lane; i < ENTRIES; i += WARP) {
    if (chain.owners[i] == slot && chain.kinds[i] != EMPTY) {
      chain.kinds[i] = STALE;
      is_entry = true;
    }
  }
  // Its head is found with those of other entries that are stale.
  if (!__any_sync(WHOLE_WARP, is_entry)) write_head(tree, slot);
}

// Takes the results of all jobs that are done; returns how many they are.
__device__ uint take_results(const Work &work) {
  const Tree &tree = work.tree;
  Chain &chain = chain_of_block();
  uint i = threadIdx.x, nth = chain.done + i;
  ulong entry = load_acquire(tree.done + nth % RING);
  __syncthreads();
  if (i == 0) {
    chain.count = THREADS;
    chain.few = chain.many = chain.inserted = 0;
  }
  __syncthreads();
  if ((uint)(entry >> 32) != nth + 1) atomicMin(&chain.count, i);
  __syncthreads();
  uint count = chain.count;
  if (count == 0) return 0;
  if (i < count) chain.list[i] = (uint)entry;
  if (i == 0) chain.done += count;
  __syncthreads();
  for (uint n = i / WARP; n < count; n += WARPS) {
    uint number = chain.list[n], state = chain.states[number];
    __syncwarp();
    if (i % WARP == 0) {
      atomicAdd(&chain.users[number], ~0u);
      uint lower = chain.lower_used[number], higher = chain.higher_used[number];
      if (lower != NONE) atomicAdd(&chain.users[lower], ~0u);
      if (higher != NONE) atomicAdd(&chain.users[higher], ~0u);
    }
    if (state == SEARCHING)
      take_search(work, number);
    else if (state == PENDING || state == READY)
      take_union(work, number);
  }
  __syncthreads();
  if (i == 0 && chain.inserted > 0) {
    float change = 1 + 0.05f * ((float)chain.few - (float)chain.many) / (float)chain.inserted;
    chain.radius_factor = fmin(fmax(chain.radius_factor * change, 0.1), 10.0);
    *tree.radius_factor = chain.radius_factor;
  }
  return count;
}

// ---- the jobs that are still wanted ----

// Whether one cluster of a tentative union's pair is still to be expected: active, or a tentative
// union. A merged one shows in `is_dead`.
__device__ __forceinline__ bool is_expected(const Tree &tree, const Chain &chain, uint id,
                                            uint node) {
  if (node < tree.clusters) return true;
  uint number = node - tree.clusters, state = chain.states[number];
  return chain.ids[number] == id && (state == PENDING || state == READY);
}

// Drops tentative unions that cannot come any more, or are too old; all but those that are expected
// soon where there is little room for others. Lists the jobs that can be used.
__device__ __forceinline__ void sort_out(const Tree &tree, bool is_full, bool all) {
  Chain &chain = chain_of_block();
  uint i = threadIdx.x, state = state_of(chain, i);
  __syncthreads();
  if (state == PENDING || state == READY) {
    bool is_unexpected = is_full && chain.depths[i] == 0;
    if (all || chain.is_dead[i] || is_too_old(chain, i, chain.merges) || is_unexpected)
      chain.states[i] = DROPPED;
  }
  __syncthreads();
  // What a dropped one would be part of, and so on.
  for (;;) {
    state = state_of(chain, i);
    bool drops = (state == PENDING || state == READY) &&
                 !(is_expected(tree, chain, chain.lower_ids[i], chain.lower_nodes[i]) &&
                   is_expected(tree, chain, chain.higher_ids[i], chain.higher_nodes[i]));
    if (!__syncthreads_or(drops)) break;
    if (drops) chain.states[i] = DROPPED;
    __syncthreads();
  }
  chain.buckets[i] = NOWHERE;
  if (i == 0) chain.unused_count = 0;
  __syncthreads();
  state = state_of(chain, i);
  if ((state == DROPPED || state == MERGED) && (chain.users[i] == 0 || all)) {
    if (state == DROPPED) free_shape(tree, chain, chain.shapes[i]);
    chain.states[i] = state = UNUSED;
  }
  // The node of a search is its own, and may be used by none.
  if (state == UNUSED && chain.users[i] == 0 && i < tree.most_jobs)
    chain.unused[atomicAdd(&chain.unused_count, 1)] = i;
  else if (state == PENDING || state == READY || state == SEARCHING)
    put_in_bucket(chain, i);
  __syncthreads();
}

// ---- new jobs ----

// The number of an unused job, for a new one; NOWHERE where no more are wanted.
__device__ __forceinline__ uint new_job(Chain &chain) {
  uint left = atomicAdd(&chain.unused_count, ~0u);
  if (left > 0 && left <= JOBS) return chain.unused[left - 1];
  atomicAdd(&chain.unused_count, 1);
  return NOWHERE;
}

// Notes that a job whose description is written is to be posted.
__device__ __forceinline__ void note_post(Chain &chain, uint number) {
  atomicAdd(&chain.users[number], 1);
  chain.to_post[atomicAdd(&chain.inserted, 1)] = number;
}

// A search for an active cluster whose floor is reached.
__device__ __forceinline__ void search_again(const Tree &tree, uint slot, uint id) {
  Chain &chain = chain_of_block();
  uint number = new_job(chain);
  if (number == NOWHERE) return;
  chain.states[number] = SEARCHING;
  chain.is_dead[number] = 0;
  chain.lower[number] = slot;
  chain.lower_ids[number] = id;
  chain.higher_ids[number] = NONE;
  chain.lower_used[number] = chain.higher_used[number] = NONE;
  Job &job = tree.jobs[number];
  job.node = job.slot = slot;
  job.lower_node = job.higher_node = NONE;
  job.is_new = 0;
  job.order = tree.orders[slot];
  job.skipped = 0;
  note_post(chain, number);
  chain.next[number] = UNLISTED;
}

// Whether a tentative union is one of two active clusters.
__device__ __forceinline__ bool is_simple(const Tree &tree, const Chain &chain, uint number) {
  return chain.lower_nodes[number] < tree.clusters && chain.higher_nodes[number] < tree.clusters;
}

// Of the nodes that a tentative union is made of, the one to go on with: a tentative union, if there is
// one. Where both are, one is simple: `beside` becomes its number, NONE otherwise.
__device__ __forceinline__ uint next_node(const Tree &tree, const Chain &chain, uint number,
                                          uint &beside) {
  uint lower = chain.lower_nodes[number], higher = chain.higher_nodes[number];
  beside = NONE;
  if (lower < tree.clusters) return higher;
  if (higher < tree.clusters) return lower;
  bool is_lower = is_simple(tree, chain, lower - tree.clusters);
  beside = (is_lower ? lower : higher) - tree.clusters;
  return is_lower ? higher : lower;
}

// Adds the slots that a search for a union with this node has to leave out.
__device__ __forceinline__ uint skip_of(const Tree &tree, const Chain &chain, uint node, uint slot,
                                        uint *skip, uint skipped) {
  auto add = [&](uint one) {
    for (uint i = 0; i < skipped; i++)
      if (skip[i] == one) return;
    if (skipped < SKIPPED) skip[skipped++] = one;
  };
  if (node < tree.clusters) {
    add(slot);
    return skipped;
  }
  // Those of a tentative union's pair; of the pairs that these are made of, too.
  while (node >= tree.clusters) {
    uint number = node - tree.clusters, beside;
    add(chain.lower[number]);
    add(chain.higher[number]);
    node = next_node(tree, chain, number, beside);
    if (beside == NONE) continue;
    add(chain.lower[beside]);
    add(chain.higher[beside]);
  }
  return skipped;
}

// Posts the search for a tentative union.
__device__ __forceinline__ void search_union(const Tree &tree, uint number, bool is_new) {
  Chain &chain = chain_of_block();
  uint lower = chain.lower[number], higher = chain.higher[number];
  uint lower_node = chain.lower_nodes[number], higher_node = chain.higher_nodes[number];
  Job &job = tree.jobs[number];
  job.node = tree.clusters + number;
  job.slot = lower;
  job.lower_node = lower_node;
  job.higher_node = higher_node;
  job.is_new = is_new;
  job.id = chain.ids[number];
  auto wait_for = [&](uint side, uint node) {
    bool waits = node >= tree.clusters && chain.states[node - tree.clusters] == PENDING;
    job.waits_for[side] = waits ? node - tree.clusters : NONE;
    if (waits) job.awaited_ids[side] = chain.ids[node - tree.clusters];
  };
  wait_for(0, lower_node);
  wait_for(1, higher_node);
  job.order = NONE;
  uint skipped = skip_of(tree, chain, lower_node, lower, job.skip, 0);
  skipped = skip_of(tree, chain, higher_node, higher, job.skip, skipped);
  job.skipped = skipped;
  auto used = [&](uint node) {
    if (node < tree.clusters) return NONE;
    atomicAdd(&chain.users[node - tree.clusters], 1);
    return node - tree.clusters;
  };
  chain.lower_used[number] = used(lower_node);
  chain.higher_used[number] = used(higher_node);
  note_post(chain, number);
}

// The number of a shape that is in no use.
__device__ __forceinline__ uint new_shape(const Tree &tree, Chain &chain) {
  uint stacked = atomicAdd(&chain.free_shapes, ~0u);
  if (stacked > 0 && stacked <= tree.shape_limit) return tree.free_shapes[stacked - 1];
  atomicAdd(&chain.free_shapes, 1);
  return atomicAdd(&chain.shapes_used, 1);
}

// The shape of a node that a union is made of.
__device__ __forceinline__ uint shape_for(const Tree &tree, const Chain &chain, uint node) {
  return node < tree.clusters ? tree.shapes[node] : chain.shapes[node - tree.clusters];
}

// What is wished for: the union of the pair of an entry of the queue, which is its candidate number 1
// where guesses may follow; that of a job's union and one of its candidates, or a slot's cluster, or
// another job's union; or a search for an entry's owner.
enum WishKind { PAIR_UNION, NEXT_UNION, GUESSED_UNION, JOINED_UNION, OWNER_SEARCH };

// Of a union: its pair's distance, and how far it is from the queue.
struct Wish {
  uint lower, lower_id, lower_node, higher, higher_id, higher_node;
  ulong value;
  uint depth;
};

__device__ __forceinline__ void add_wish(Chain &chain, WishKind kind, uint subject, uint candidate,
                                         uint depth) {
  uint at = atomicAdd(&chain.wish_count, 1);
  if (at >= JOBS) return;
  chain.wish_kinds[at] = kind;
  chain.wish_subjects[at] = subject;
  chain.wish_candidates[at] = candidate;
  chain.wish_depths[at] = depth;
}

// Lists a job of whose union the next merge is wished for, once in a plan.
__device__ __forceinline__ void list_job(Chain &chain, uint number, uint depth, bool guesses) {
  if (atomicExch(&chain.listed_in[number], chain.plans) == chain.plans) return;
  chain.is_changed[number] = chain.is_early[number] = false;
  uint at = atomicAdd(&chain.listed_count, 1);
  if (at >= JOBS) return;
  chain.listed_jobs[at] = number;
  chain.listed_depths[at] = depth;
  chain.guesses[number] = guesses;
}

// Has a tentative union made, and lists it where guesses may follow. Returns the number of its job, or
// NOWHERE.
__device__ __forceinline__ uint prepare(const Tree &tree, const Wish &wish, bool guesses) {
  Chain &chain = chain_of_block();
  uint number = new_job(chain);
  if (number == NOWHERE) return NOWHERE;
  // All is read before it is used, so no read waits for another one.
  uint lower_shape = shape_for(tree, chain, wish.lower_node);
  uint higher_shape = shape_for(tree, chain, wish.higher_node);
  uint shape = tree.has_shapes ? new_shape(tree, chain) : NONE;
  chain.states[number] = PENDING;
  chain.is_dead[number] = 0;
  chain.lower[number] = wish.lower;
  chain.higher[number] = wish.higher;
  chain.lower_ids[number] = wish.lower_id;
  chain.higher_ids[number] = wish.higher_id;
  chain.lower_nodes[number] = wish.lower_node;
  chain.higher_nodes[number] = wish.higher_node;
  chain.pair_values[number] = wish.value;
  chain.depths[number] = wish.depth;
  chain.made_at[number] = chain.merges;
  chain.ids[number] = atomicAdd(&chain.next_id, 1);
  chain.lower_shapes[number] = lower_shape;
  chain.higher_shapes[number] = higher_shape;
  tree.shapes[tree.clusters + number] = chain.shapes[number] = shape;
  chain.follows[number] = NOWHERE;
  chain.guesses[number] = guesses;
  chain.is_changed[number] = chain.is_early[number] = false;
  search_union(tree, number, true);
  chain.next[number] = UNLISTED;
  if (guesses && wish.depth <= GUESS_DEPTH) list_job(chain, number, wish.depth, true);
  return number;
}

// Notes that a tentative union is expected soon, and searches for it again where that is due. If it
// is ready, it is listed, for what may follow, unless that is as it was in the last plan; `guesses` says
// whether also if it is not.
__device__ void expect(const Tree &tree, Chain &chain, uint number, uint depth, bool guesses) {
  bool is_as_before = chain.depths[number] == depth && !chain.is_changed[number] &&
                      (!guesses || chain.guesses[number]);
  chain.depths[number] = depth;
  bool is_ready = chain.states[number] == READY;
  if (is_ready ? is_as_before : !(guesses && chain.states[number] == PENDING)) return;
  list_job(chain, number, depth, guesses);
  if (!is_ready) return;
  bool is_due =
      atomicAdd(&chain.users[number], 0) == 0 && chain.merges - chain.made_at[number] > RECENT / 2;
  if (is_due) search_union(tree, number, false);
}

// Puts new jobs into their buckets. No other thread looks there meanwhile.
__device__ void list_new_jobs(Chain &chain) {
  __syncthreads();
  uint i = threadIdx.x, state = state_of(chain, i);
  if ((state == PENDING || state == SEARCHING) && chain.next[i] == UNLISTED)
    put_in_bucket(chain, i);
  __syncthreads();
}

// The first entries of the queue, one for each lane of every warp: the slots of its pair, NONE for
// a floor, and its distance; and a bit for each that will probably be merged, or searched for: one that
// has no cluster in common with one of these before it.
struct FirstEntries {
  uint lower, higher, live;
  ulong value;

  __device__ FirstEntries(Chain &chain, uint count) {
    uint lane = threadIdx.x % WARP;
    lower = higher = NONE;
    value = INFINITY_BITS;
    if (lane < count) {
      uint at = chain.sorted[lane];
      ulong tie = chain.ties[at];
      value = chain.values[at];
      if (is_pair(tie)) {
        lower = lower_slot(tie);
        higher = higher_slot(tie);
      }
    }
    // The entries before each that have one of its clusters.
    for (uint rank = threadIdx.x / WARP; rank < count; rank += WARPS) {
      uint one = __shfl_sync(WHOLE_WARP, lower, rank),
           other = __shfl_sync(WHOLE_WARP, higher, rank);
      uint shared =
          __ballot_sync(WHOLE_WARP, lane < rank && lower != NONE && (has(one) || has(other)));
      if (lane == 0) chain.contests[rank] = shared;
    }
    __syncthreads();
    uint before = lane < count ? chain.contests[lane] : 0;
    uint contested = __ballot_sync(WHOLE_WARP, before != 0);
    live = ~contested;
    for (uint left = contested; left != 0; left &= left - 1) {
      uint rank = __ffs(left) - 1;
      if (!(__shfl_sync(WHOLE_WARP, before, rank) & live)) live |= 1u << rank;
    }
  }
  __device__ __forceinline__ bool has(uint slot) const { return lower == slot || higher == slot; }
  // Whether this lane's will probably be merged.
  __device__ __forceinline__ bool is_live() const { return live >> threadIdx.x % WARP & 1; }
};

// Wishes for what the first entries of the queue need next.
__device__ void wish_for_entries(const Tree &tree, Chain &chain, const FirstEntries &entries,
                                 uint count) {
  // A lane for each of the warp's.
  uint lane = threadIdx.x % WARP, rank = threadIdx.x / WARP + lane * WARPS;
  if (lane >= WARP / WARPS || rank >= count || !(entries.live >> rank & 1)) return;
  uint at = chain.sorted[rank];
  uint merges = chain.merges;
  uint job = find_job(chain, chain.entry_lower_ids[at], chain.entry_higher_ids[at], merges);
  bool pair = is_pair(chain.ties[at]);
  if (pair && job != NOWHERE)
    expect(tree, chain, job, 1, rank < GUESSED);
  else if (job == NOWHERE)
    add_wish(chain, pair ? PAIR_UNION : OWNER_SEARCH, at, rank < GUESSED, 1);
  if (rank == 0 && job == NOWHERE) chain.is_urgent = true;
}

// Wishes for the union of a tentative union and another cluster, unless that is being made, by a thread.
__device__ __forceinline__ void wish_or_expect(const Tree &tree, Chain &chain, uint job, uint other,
                                               uint other_id, WishKind kind, uint candidate,
                                               uint depth) {
  uint mine = chain.lower[job], id = chain.ids[job];
  uint lower_id = mine < other ? id : other_id, higher_id = mine < other ? other_id : id;
  uint known = find_job(chain, lower_id, higher_id, chain.merges);
  if (known != NOWHERE)
    expect(tree, chain, known, depth, chain.guesses[job]);
  else
    add_wish(chain, kind, job, candidate, depth);
}

// Wishes for the union of a tentative union and an active cluster, by a warp; false if that is probably
// merged with another one before: then for that with their union, where that is one of the first for this
// tentative union; `joined` has a bit for each entry of these. `value` is the distance of the tentative
// union's pair; `is_other` whether the lane's entry has none of the clusters that are in it.
__device__ bool wish_for(const Work &work, const FirstEntries &entries, bool is_other, ulong value,
                         uint job, uint other, uint other_id, WishKind kind, uint candidate,
                         uint depth, uint &joined) {
  const Tree &tree = work.tree;
  Chain &chain = chain_of_block();
  bool takes = entries.is_live() && entries.value < value && entries.has(other) && is_other;
  uint taking = __ballot_sync(WHOLE_WARP, takes), lane = threadIdx.x % WARP;
  if (taking == 0) {
    if (lane == 0) wish_or_expect(tree, chain, job, other, other_id, kind, candidate, depth);
    return true;
  }
  uint first = taking & -taking;
  if (joined & first || __popc(joined) == JOINED) return false;
  joined |= first;
  if (first != 1u << lane) return false;
  uint at = chain.sorted[lane];
  uint pair = find_job(chain, chain.entry_lower_ids[at], chain.entry_higher_ids[at], chain.merges);
  // Where that has no job yet, it gets one in this plan.
  if (pair == NOWHERE)
    chain.is_early[job] = true;
  else
    wish_or_expect(tree, chain, job, chain.lower[pair], chain.ids[pair], JOINED_UNION, pair, depth);
  return false;
}

// The job that was guessed to follow this one, if it still can; NOWHERE otherwise.
__device__ __forceinline__ uint guess_after(const Chain &chain, uint job) {
  uint next = chain.follows[job], id = chain.ids[job];
  if (next == NOWHERE || chain.is_dead[next]) return NOWHERE;
  bool is_of_it = chain.lower_ids[next] == id || chain.higher_ids[next] == id;
  return is_of_it && (chain.states[next] == PENDING || chain.states[next] == READY) ? next
                                                                                    : NOWHERE;
}

// Goes on from the last guess for a tentative union that is searched for, by a warp: false where there is
// none, or where it is probably wrong by now.
__device__ __forceinline__ bool follow_guess(const Work &work, const FirstEntries &entries,
                                             uint job, uint depth) {
  Chain &chain = chain_of_block();
  uint known = guess_after(chain, job);
  if (known == NOWHERE) return false;
  uint other = chain.lower_ids[known] == chain.ids[job] ? chain.higher[known] : chain.lower[known];
  bool takes = entries.is_live() && entries.value < chain.pair_values[job] && entries.has(other) &&
               !entries.has(chain.lower[job]) && !entries.has(chain.higher[job]);
  if (__any_sync(WHOLE_WARP, takes)) return false;
  if (threadIdx.x % WARP == 0) expect(work.tree, chain, known, depth, chain.guesses[job]);
  return true;
}

// Wishes for the union of a tentative union and its nearest neighbour, if that is probable; by a
// warp.
__device__ void wish_to_follow(const Work &work, const FirstEntries &entries, uint job, uint depth,
                               ulong horizon) {
  Chain &chain = chain_of_block();
  uint slot = chain.lower[job], partner = chain.higher[job], heir = chain.heirs[job];
  ulong value = chain.pair_values[job];
  bool is_other = !entries.has(slot) && !entries.has(partner);
  Lists lists = lists_of_block(work.tree);
  uint at = threadIdx.x % WARP % CANDIDATES * JOBS + job, lane = threadIdx.x % WARP;
  Listed listed = lists.at(at);
  uint mine = listed.slot;
  bool counts = lane < chain.counts[job] && mine != NONE && listed.value <= horizon;
  // A cluster that has taken up the nearest neighbour is about as near.
  uint heir_id = heir == NONE ? NONE : chain.heir_ids[job];
  uint joined = 0;
  if (heir_id != NONE)
    wish_for(work, entries, is_other, value, job, heir, heir_id, GUESSED_UNION, heir, depth,
             joined);
  for (uint left = __ballot_sync(WHOLE_WARP, counts); left != 0; left &= left - 1) {
    uint c = __ffs(left) - 1, other = __shfl_sync(WHOLE_WARP, mine, c);
    uint id = __shfl_sync(WHOLE_WARP, listed.id, c);
    if (wish_for(work, entries, is_other, value, job, other, id, NEXT_UNION, c, depth, joined))
      return;
  }
}

// The node whose neighbours tell about those of another one: of a union that is searched for, one of those
// that it is made of.
__device__ __forceinline__ uint known_node(const Tree &tree, const Chain &chain, uint node) {
  while (node >= tree.clusters && chain.states[node - tree.clusters] != READY) {
    uint lower = chain.lower_nodes[node - tree.clusters];
    uint higher = chain.higher_nodes[node - tree.clusters];
    node = higher >= tree.clusters ? higher : lower;
  }
  return node;
}

// The same for a tentative union that is searched for: its nearest neighbour is guessed, by those of
// the nodes that it is made of.
__device__ __forceinline__ void wish_by_guess(const Work &work, const FirstEntries &entries,
                                              uint job, uint depth, ulong horizon) {
  if (follow_guess(work, entries, job, depth)) return;
  const Tree &tree = work.tree;
  Chain &chain = chain_of_block();
  Lists lists = lists_of_block(tree);
  uint lane = threadIdx.x % WARP, c = lane % CANDIDATES;
  uint node = lane < CANDIDATES ? chain.lower_nodes[job] : chain.higher_nodes[job];
  node = known_node(tree, chain, node);
  ulong value = INFINITY_BITS, pair_value = chain.pair_values[job];
  uint slot = NONE, id = NONE;
  // The slots that its search leaves out: those of the clusters that are in it.
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
    if (c < chain.counts[number] && listed.slot != NONE) {
      slot = listed.slot;
      id = listed.id;
      value = listed.value;
    }
  }
  // The clusters that are in it do not count.
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
    if (wish_for(work, entries, is_other, pair_value, job, other, other_id, GUESSED_UNION, other,
                 depth, joined))
      return;
    if (slot == other) value = INFINITY_BITS;
  }
}

// The union that a wish is for.
__device__ Wish wish_of(const Work &work, WishKind kind, uint subject, uint candidate, uint depth) {
  const Chain &chain = chain_of_block();
  if (kind == PAIR_UNION) {
    uint lower = lower_slot(chain.ties[subject]), higher = higher_slot(chain.ties[subject]);
    return {lower,  chain.entry_lower_ids[subject], lower, higher, chain.entry_higher_ids[subject],
            higher, chain.values[subject],          depth};
  }
  uint other = candidate, id = NONE, slot = chain.lower[subject], mine = chain.ids[subject];
  uint node = work.tree.clusters + subject;
  ulong value = chain.pair_values[subject];
  uint other_node = other;
  if (kind == GUESSED_UNION) {
    id = id_at(work.tree, other);
  } else if (kind == JOINED_UNION) {
    other = chain.lower[candidate];
    id = chain.ids[candidate];
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

// Does what is wished for, from number `first` on, in parallel, and posts the jobs.
__device__ __forceinline__ void fulfil(const Work &work, uint first) {
  const Tree &tree = work.tree;
  Chain &chain = chain_of_block();
  uint i = threadIdx.x, wish = first + i, count = min(chain.wish_count, (uint)JOBS);
  if (wish < count) {
    WishKind kind = (WishKind)chain.wish_kinds[wish];
    uint subject = chain.wish_subjects[wish], candidate = chain.wish_candidates[wish];
    if (kind == OWNER_SEARCH) {
      search_again(tree, chain.owners[subject], chain.entry_lower_ids[subject]);
    } else {
      bool guesses = kind == PAIR_UNION ? candidate == 1 : chain.guesses[subject];
      Wish wanted = wish_of(work, kind, subject, candidate, chain.wish_depths[wish]);
      uint number = prepare(tree, wanted, guesses);
      if (kind == GUESSED_UNION) chain.follows[subject] = number;
    }
  }
  list_new_jobs(chain);
  uint posted = chain.posted, inserted = chain.inserted, more = inserted - posted;
  if (more == 0) return;
  // At the same time, by two warps.
  if (i == 0) __threadfence();
  if (i == WARP) chain.first_post = atomicAdd(tree.control + POSTED, more);
  __syncthreads();
  if (i < more) write_post(tree, chain.first_post, i, chain.to_post[posted + i]);
  if (i == 0) chain.posted = inserted;
  __syncthreads();
}

// Whether a tentative union can still come: its clusters are active, and so are those of the tentative
// unions that it is made of.
__device__ __forceinline__ bool can_come(const Tree &tree, const Chain &chain, uint number) {
  for (;;) {
    if (chain.is_dead[number]) return false;
    uint lower = chain.lower_nodes[number], higher = chain.higher_nodes[number], beside;
    if (!is_expected(tree, chain, chain.lower_ids[number], lower)) return false;
    if (!is_expected(tree, chain, chain.higher_ids[number], higher)) return false;
    uint node = next_node(tree, chain, number, beside);
    if (beside != NONE && chain.is_dead[beside]) return false;
    if (node < tree.clusters) return true;
    number = node - tree.clusters;
  }
}

// Lists the thread's job if what may follow it has changed, or is guessed.
__device__ __forceinline__ void list_changed(const Tree &tree, Chain &chain) {
  uint i = threadIdx.x, state = state_of(chain, i);
  if (state == NO_JOB) return;
  uint depth = chain.depths[i];
  bool guesses = chain.guesses[i];
  bool is_guessed = state == PENDING && guesses && depth <= GUESS_DEPTH;
  bool has_changed = is_guessed || (state == READY && (chain.is_changed[i] || chain.is_early[i]));
  if (depth > 0 && has_changed && can_come(tree, chain, i)) list_job(chain, i, depth, guesses);
}

// Chooses what other blocks do next.
__device__ void plan(const Work &work) {
  const Tree &tree = work.tree;
  Chain &chain = chain_of_block();
  uint i = threadIdx.x;
  renew_stale(tree);
  // Heads beyond the limit may come before the last of few entries are merged.
  if (chain.sorted_count < FEW && chain.limit_value < INFINITY_BITS) {
    refill(tree);
    renew_stale(tree);
  }
  uint count = min(chain.sorted_count, tree.batch);
  bool is_whole = chain.merges - chain.whole_plan_at >= MERGES_A_WHOLE_PLAN ||
                  chain.unused_count < tree.most_jobs / 4;
  if (is_whole) {
    sort_out(tree, false, false);
    if (chain.unused_count < tree.most_jobs / 4) sort_out(tree, true, false);
    if (i < JOBS) chain.depths[i] = 0;
  }
  __syncthreads();
  if (i == 0) {
    chain.inserted = chain.posted = chain.wish_count = chain.listed_count = 0;
    chain.is_urgent = false;
    chain.plans += 1;
    if (is_whole) chain.whole_plan_at = chain.merges;
  }
  __syncthreads();
  if (count == 0) return;
  FirstEntries entries(chain, count);
  ulong horizon = chain.values[chain.sorted[count - 1]];
  wish_for_entries(tree, chain, entries, count);
  bool has_changed = !is_whole;
  __syncthreads();
  uint wish = chain.is_urgent ? min(chain.wish_count, (uint)JOBS) : 0;
  __syncthreads();
  // What the chain waits for goes first.
  if (wish > 0) fulfil(work, 0);
  for (uint first = 0;;) {
    // Jobs that are listed tell what follows, and so on; then those whose turn has not come, though they
    // have changed; then what is wished for is listed.
    for (;;) {
      __syncthreads();
      uint end = min(chain.listed_count, (uint)JOBS);
      __syncthreads();
      if (first == end) {
        if (!has_changed) break;
        has_changed = false;
        list_changed(tree, chain);
        continue;
      }
      for (uint n = first + i / WARP; n < end; n += WARPS) {
        uint job = chain.listed_jobs[n], depth = chain.listed_depths[n];
        if (chain.states[job] == READY && depth <= FOLLOW_UPS)
          wish_to_follow(work, entries, job, depth + 1, horizon);
        else if (depth <= GUESS_DEPTH)
          wish_by_guess(work, entries, job, depth + 1, horizon);
      }
      first = end;
    }
    uint wishes = min(chain.wish_count, (uint)JOBS);
    if (wish == wishes) break;
    fulfil(work, wish);
    wish = wishes;
  }
}
