// Makes the merges whose unions are ready, in shared memory, as long as the queue's entries tell
// the next pair. Commits their unions some merges at a time: copies them to where other blocks find
// them.

#pragma once

#include "tree/balls.cuh"
#include "tree/jobs.cuh"

// Minimum number of candidates below a bound for which a floor is lowered to this bound.
#define ENOUGH_LEFT 1

// The node of the union of a recent merge: its slot if the merge is committed, its job otherwise.
__device__ __forceinline__ uint node_of_merge(const Tree &tree, const Sequencer &sequencer,
                                              uint merge) {
  uint at = merge % RECENT;
  return merge < sequencer.committed ? sequencer.recent_slots[at]
                                     : tree.clusters + sequencer.recent_jobs[at];
}

// Lists the recent cluster at this place of the ring if it was made after the search for a job's
// union and its distance may be below the union's floor; by one thread for each place.
__device__ __forceinline__ void list_near_recent(const Work &work, uint job, uint place) {
  Sequencer &sequencer = sequencer_of_block();
  uint merges = sequencer.merges, nth = (merges - 1 - place) % RECENT,
       id = sequencer.recent_ids[place];
  if (nth >= merges - sequencer.made_at[job] || id == NONE) return;
  if (id == sequencer.lower_ids[job] || id == sequencer.higher_ids[job]) return;
  uint p = work.tree.dimensions;
  Lists lists = lists_of_block(work.tree);
  Margins margins(p);
  auto bound_for = [&](const float *row, const float *recent) {
    float square = 0;
    // With an unrolled loop, no step waits for the comparison of k and p.
#pragma unroll IS_WIDE ? 8 : DIMENSIONS
    for (uint k = 0; k < (IS_WIDE ? p : DIMENSIONS); k++) {
      float d = k < p ? row[k] - recent[k] : 0;
      square = fmaf(d, d, square);
    }
    float distance = __fsqrt_rn(square) * margins.shrink - (row[p + ERROR] + recent[p]);
    return half_of(fmaxf(distance, 0.0f) * (row[p + LOW] + recent[p + 1]), margins);
  };
  // Each call names the memory, so that the compiler knows it.
  float bound;
  if (lists.has_job_rows())
    bound = bound_for(lists.shared_row(job), lists.shared_recent(place));
  else if (lists.has_recent_rows())
    bound = bound_for(lists.device_row(job), lists.shared_recent(place));
  else
    bound = bound_for(lists.device_row(job), lists.device_recent(place));
  if (bound >= sequencer.limits[job]) return;
  uint at = atomicAdd(&sequencer.near_recent[merges % 2], 1);
  sequencer.list[at] = place;
  sequencer.near_bounds[at] = bound;
  atomicMin(&sequencer.least_bounds[merges % 2], __float_as_uint(bound));
}

// Updates the thread's entry, job and recent cluster for the merge of the clusters of `job`.
__device__ __forceinline__ void forget_merged(const Work &work, uint job) {
  Sequencer &sequencer = sequencer_of_block();
  uint i = threadIdx.x, lower = sequencer.lower[job], higher = sequencer.higher[job];
  uint lower_id = sequencer.lower_ids[job], higher_id = sequencer.higher_ids[job];
  auto is_merged = [&](uint slot) { return slot == lower || slot == higher; };
  if (i < ENTRIES && sequencer.kinds[i] != EMPTY) {
    ulong tie = sequencer.ties[i];
    bool has_merged = is_pair(tie) && (is_merged(lower_slot(tie)) || is_merged(higher_slot(tie)));
    if (is_merged(sequencer.owners[i]))
      sequencer.kinds[i] = EMPTY;
    else if (has_merged)
      sequencer.kinds[i] = STALE;
  }
  auto is_gone = [&](uint id) { return id == lower_id || id == higher_id; };
  uint state = state_of(sequencer, i);
  if (i != job && (state == PENDING || state == READY || state == SEARCHING)) {
    uint mine = sequencer.lower_ids[i], other = sequencer.higher_ids[i], id = sequencer.ids[job];
    if (is_gone(mine) || is_gone(other)) sequencer.is_obsolete[i] = 1;
    if (mine == id) sequencer.lower_nodes[i] = lower;
    if (other == id) sequencer.higher_nodes[i] = lower;
    if (state == READY) {
      bool is_nearest = true;
      bool changes = is_merged(sequencer.replacements[i]);
      Lists lists = lists_of_block(work.tree);
      auto forget = [&](uint *slots) {
        uint found[CANDIDATES];
        // All slots are read before any is written, so no read waits for another read.
#pragma unroll
        for (uint c = 0; c < CANDIDATES; c++) found[c] = slots[c * JOBS + i];
#pragma unroll
        for (uint c = 0; c < CANDIDATES; c++) {
          if (is_merged(found[c])) {
            slots[c * JOBS + i] = NONE;
            changes = changes || is_nearest;
          } else if (found[c] != NONE) {
            is_nearest = false;
          }
        }
      };
      if (lists.has_lists())
        forget(lists.slots);
      else
        forget(work.tree.list_slots);
      if (changes) {
        sequencer.replacements[i] = lower;
        sequencer.replacement_ids[i] = id;
        sequencer.is_changed[i] = true;
      }
    }
  }
  if (i >= FIRST_OF_RECENT && is_gone(sequencer.recent_ids[i - FIRST_OF_RECENT]))
    sequencer.recent_ids[i - FIRST_OF_RECENT] = NONE;
}

// Converts a bound from single precision and screen units to the bits of a distance in data units.
__device__ __forceinline__ ulong bits_of_bound(const Tree &tree, float bound) {
  return __double_as_longlong((double)bound * tree.unit);
}

// A candidate of a job's union, one for each lane below CANDIDATES, in increasing order. A
// candidate that is not `there` has been merged, or never existed.
struct Candidate {
  uint slot, id;
  ulong value;
  bool there;
  __device__ __forceinline__ Candidate(const Work &work, uint job) {
    Lists lists = lists_of_block(work.tree);
    uint lane = threadIdx.x % WARP;
    Listed listed = lists.at(lane % CANDIDATES * JOBS + job);
    slot = listed.slot;
    id = listed.id;
    value = listed.value;
    there = lane < sequencer_of_block().counts[job] && slot != NONE;
  }
};

// Lowers a union's floor to the least bound on its distances to near recent clusters if ENOUGH_LEFT
// candidates are below this bound. Then none of these distances has to be computed. Returns whether
// it has done so, in all threads. `nearest` becomes the distance of the nearest candidate.
__device__ __forceinline__ bool lower_floor(const Work &work, uint job, uint merge, Key &floor,
                                            ulong &nearest) {
  const Sequencer &sequencer = sequencer_of_block();
  ulong bound = bits_of_bound(work.tree, __uint_as_float(sequencer.least_bounds[merge % 2]));
  bound = min(bound, floor.value);
  Candidate candidate(work, job);
  uint active = __ballot_sync(WHOLE_WARP, candidate.there);
  uint left = __popc(__ballot_sync(WHOLE_WARP, candidate.there && candidate.value < bound));
  ulong first = __shfl_sync(WHOLE_WARP, candidate.value, active != 0 ? __ffs(active) - 1 : 0);
  nearest = active != 0 ? first : INFINITY_BITS;
  if (left < ENOUGH_LEFT) return false;
  floor = {bound, 0};
  return true;
}

// Makes a cluster the candidate number `rank` of a slot.
__device__ __forceinline__ void keep(const Work &work, uint slot, uint rank, Key key, uint other,
                                     uint id) {
  size_t to = (size_t)slot * CANDIDATES + rank;
  work.tree.candidate_values[to] = key.value;
  work.tree.candidate_slots[to] = other;
  work.tree.candidate_ids[to] = id;
  if (rank > 0) return;
  work.entries.first = key;
  work.entries.first_id = id;
}

// Gives a slot its floor and its number of candidates.
__device__ __forceinline__ void keep_floor(const Work &work, uint slot, uint count, Key floor) {
  work.tree.floor_values[slot] = __longlong_as_double(floor.value);
  work.tree.floor_ties[slot] = floor.tie;
  work.tree.counts[slot] = count;
  if (count == 0) work.entries.first = floor;
}

// Makes the candidates of a job's union that are active and below `floor` the candidates of its
// slot, by a warp. They keep their order.
__device__ __forceinline__ void keep_active(const Work &work, uint job, Key floor) {
  uint lane = threadIdx.x % WARP, slot = sequencer_of_block().lower[job];
  Candidate candidate(work, job);
  Key key = {candidate.value, pair_tie(slot, candidate.slot)};
  bool stays = candidate.there && key < floor;
  uint active = __ballot_sync(WHOLE_WARP, stays);
  uint rank = lanes_before(active);
  if (stays) keep(work, slot, rank, key, candidate.slot, candidate.id);
  if (lane == 0) keep_floor(work, slot, __popc(active), floor);
}

// The recent cluster at this place of the ring.
__device__ __forceinline__ Operand recent_at(const Tree &tree, const Sequencer &sequencer,
                                             uint place) {
  uint node = node_of_merge(tree, sequencer,
                            sequencer.merges - 1 - (sequencer.merges - 1 - place) % RECENT);
  return {node, without_identity(sequencer.recent_shapes[place]), sequencer.recent_sizes[place],
          sequencer.recent_starts[place]};
}

__device__ __forceinline__ Operand operand_of_job(const Tree &tree, const Sequencer &sequencer,
                                                  uint job) {
  return {tree.clusters + job, without_identity(sequencer.shapes[job]), sequencer.sizes[job],
          sequencer.starts[job]};
}

// Maximum number of recent clusters that `keep_with_few` compares: two warps share each, one for
// each direction.
#define COMPARED_AT_ONCE (WARPS / 2)
static_assert(2 * WARPS <= 3 * SEQUENCER_TOGETHER, "scratch for each warp");
static_assert(COMPARED_AT_ONCE + CANDIDATES <= WARP, "a lane for each");

// Does the same as `keep_nearest_active` if few clusters have to be compared. Returns false if they
// are many, or with full distances. Only the first warp may read what the first warp writes here.
__device__ __forceinline__ bool keep_with_few(const Work &work, uint job, Key floor,
                                              ulong nearest) {
  const Tree &tree = work.tree;
  const Sequencer &sequencer = sequencer_of_block();
  uint lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, p = tree.dimensions;
  uint near = sequencer.near_recent[sequencer.merges % 2], slot = sequencer.lower[job];
  if (has_full_distances(tree) || near > WARP) return false;
  float bound = lane < near ? sequencer.near_bounds[lane] : single_infinity();
  uint place = lane < near ? sequencer.list[lane] : NONE;
  bool is_compared = lane < near && bits_of_bound(tree, bound) <= nearest;
  uint compared = __ballot_sync(WHOLE_WARP, is_compared), count = __popc(compared);
  if (count > COMPARED_AT_ONCE) return false;
  // The lane of the compared cluster number n.
  auto lane_of = [&](uint n) {
    uint left = compared;
    for (uint i = 0; i < n; i++) left &= left - 1;
    return left != 0 ? (uint)__ffs(left) - 1 : 0;
  };
  Operand mine = operand_of_job(tree, sequencer, job);
  double *lengths = work.room.shared.reduced;
#if IS_WIDE
  // All threads share the rows of each factor.
  static_assert(COMPARED_AT_ONCE <= SEQUENCER_TOGETHER, "room for each");
  auto recent = [&](uint n) { return recent_at(tree, sequencer, sequencer.list[lane_of(n)]); };
  node_distances(tree, mine, count, work.room.scratch, work.room.together, recent,
                 [&](uint n, double distance) { lengths[2 * n] = distance; });
#else
  if (warp / 2 < count) {
    Operand other = recent_at(tree, sequencer, __shfl_sync(WHOLE_WARP, place, lane_of(warp / 2)));
    uint shape = warp % 2 == 0 ? mine.shape : other.shape;
    const double *mean = mean_of(tree, mine.node), *its_mean = mean_of(tree, other.node);
    double length = warp_distance<IN_REGISTERS>(
        p, [&](uint k) { return mean[k] - its_mean[k]; },
        shape == NONE ? nullptr : bands_of(tree, shape),
        work.room.scratch + warp * 2 * stride_of(p));
    if (lane == 0) lengths[warp] = length;
  }
#endif
  __syncthreads();
  if (warp > 0) return true;
  // The clusters that are not compared stay behind this floor.
  uint least = __float_as_uint(is_compared ? single_infinity() : bound);
  for (int step = WARP / 2; step > 0; step /= 2)
    least = min(least, __shfl_xor_sync(WHOLE_WARP, least, step));
  Key left = {bits_of_bound(tree, __uint_as_float(least)), 0};
  if (left < floor) floor = left;
  Candidate one(work, job);
  // The lanes after those of the candidates have the compared clusters.
  uint n = lane - min(lane, (uint)CANDIDATES);
  uint its_place = __shfl_sync(WHOLE_WARP, place, lane_of(n));
  if (lane >= CANDIDATES) {
    one.there = n < count;
    if (one.there) {
      one.slot = sequencer.recent_slots[its_place];
      one.id = sequencer.recent_ids[its_place];
      bool is_plain =
          mine.shape == NONE && without_identity(sequencer.recent_shapes[its_place]) == NONE;
      double distance =
          IS_WIDE || is_plain ? lengths[2 * n] : average(lengths[2 * n], lengths[2 * n + 1]);
      one.value = __double_as_longlong(distance);
    }
  }
  Key key = {one.value, pair_tie(slot, one.slot)};
  bool stays = one.there && key < floor;
  uint staying = __ballot_sync(WHOLE_WARP, stays), all = __popc(staying);
  uint candidates = staying & ((1u << CANDIDATES) - 1);
  // The candidates are in order; each compared cluster is compared with all.
  uint rank = lanes_before(candidates);
  for (uint i = 0; i < count; i++) {
    uint source = CANDIDATES + i;
    Key other = {__shfl_sync(WHOLE_WARP, key.value, source),
                 __shfl_sync(WHOLE_WARP, key.tie, source)};
    uint before = __popc(__ballot_sync(WHOLE_WARP, stays && key < other));
    if (lane == source)
      rank = before;
    else if (lane < CANDIDATES && staying >> source & 1)
      rank += other < key;
  }
  if (stays && rank < CANDIDATES) keep(work, slot, rank, key, one.slot, one.id);
  if (all > CANDIDATES) {
    // A floor comes before the pair with the same slots.
    uint source = __ffs(__ballot_sync(WHOLE_WARP, stays && rank == CANDIDATES)) - 1;
    floor = {__shfl_sync(WHOLE_WARP, key.value, source),
             __shfl_sync(WHOLE_WARP, key.tie, source) & ~1ull};
  }
  if (lane == 0) keep_floor(work, slot, min(all, (uint)CANDIDATES), floor);
  return true;
}

// A lower bound on the full distance of two nodes, in screen units. `centroids` is their centroid
// distance, in data units: by Jensen's inequality, the mean distance of members to a cluster is at
// least the distance of their mean. `error` is the sum of the ERRORs of both means.
__device__ __forceinline__ float bound_by_centroids(const Tree &tree, const Operand &a,
                                                    const Operand &b, double centroids,
                                                    float error) {
  double terms = (double)(1ull << tree.log2_terms);
  // A mean was moved once for each member, by at most the diagonal. ERROR covers only the part of
  // the rounding that is in proportion to the mean itself.
  double relative = (tree.dimensions + 16.0 + a.size + b.size) * 2 * EPSILON;
  // By how much rounding and the errors of the means may raise the centroid distance above the mean
  // of distances, both in the metric of this shape.
  auto lost_by = [&](uint shape) {
    Quanta quanta = quanta_for(tree, shape);
    // At least twice the stretch times the diagonal, see `quanta_of`.
    double greatest = quanta.high / (1.5 * terms);
    double stretch = greatest / tree.diagonal;
    return greatest * relative + rounding_of(quanta) + stretch * error * tree.unit;
  };
  // NaN, if the diagonal is 0, becomes 0.
  double bound = centroids - 0.5 * (lost_by(a.shape) + lost_by(b.shape));
  return __double2float_rd(fmax(bound, 0.0) / tree.unit);
}

// Removes the compared clusters whose full distances are certainly greater than `limit`, by the
// bound above, which takes far less time than sums over members; by all threads of the block. The
// removed clusters stay behind the floor. Overwrites `near_bounds`.
template <class Recent>
__device__ __forceinline__ void remove_by_centroids(const Work &work, uint job, const Operand &mine,
                                                    ulong limit, Recent recent) {
  const Tree &tree = work.tree;
  Sequencer &sequencer = sequencer_of_block();
  Lists lists = lists_of_block(tree);
  uint i = threadIdx.x, p = tree.dimensions, listed = sequencer.listed;
  if (listed == 0 || limit >= INFINITY_BITS) return;
  for (uint n = i / WARP; n < listed; n += WARPS) {
    Operand other = recent(n);
    prefetch_node(tree, other.node, other.shape, i % WARP, WARP);
  }
  float my_error = lists.row(job)[p + ERROR];
  node_distances(tree, mine, listed, work.room.scratch, work.room.together, recent,
                 [&](uint n, double centroids) {
                   float error = my_error + lists.recent(sequencer.compared[n])[p];
                   sequencer.near_bounds[n] =
                       bound_by_centroids(tree, mine, recent(n), centroids, error);
                 });
  __syncthreads();
  uint place = i < listed ? sequencer.compared[i] : NONE;
  float bound = i < listed ? sequencer.near_bounds[i] : 0;
  if (i == 0) sequencer.listed = 0;
  __syncthreads();
  if (place != NONE) {
    if (bits_of_bound(tree, bound) <= limit)
      sequencer.compared[atomicAdd(&sequencer.listed, 1)] = place;
    else
      atomicMin(&sequencer.least_left, __float_as_uint(bound));
  }
  __syncthreads();
}

// Gives a union's slot its candidates and floor if clusters made since its search may be below
// `floor`; by all threads of the block. `list` has the places of these clusters. Distances are
// computed for those clusters that may be nearer than the `nearest` candidate; the others stay
// behind the floor.
__device__ __forceinline__ void keep_nearest_active(const Work &work, uint job, Key floor,
                                                    ulong nearest) {
  const Tree &tree = work.tree;
  Sequencer &sequencer = sequencer_of_block();
  uint slot = sequencer.lower[job], i = threadIdx.x,
       near = sequencer.near_recent[sequencer.merges % 2];
  Operand mine = operand_of_job(tree, sequencer, job);
  // The compared cluster number `n`.
  auto recent = [&](uint n) { return recent_at(tree, sequencer, sequencer.compared[n]); };
  prefetch_node(tree, mine.node, mine.shape, i, THREADS);
  if (i == 0) {
    work.entries.count = sequencer.listed = 0;
    sequencer.least_left = SINGLE_INFINITY_BITS;
  }
  __syncthreads();
  if (i < near) {
    float bound = sequencer.near_bounds[i];
    if (bits_of_bound(tree, bound) <= nearest)
      sequencer.compared[atomicAdd(&sequencer.listed, 1)] = sequencer.list[i];
    else
      atomicMin(&sequencer.least_left, __float_as_uint(bound));
  }
  Lists lists = lists_of_block(tree);
  if (i < sequencer.counts[job]) {
    Listed one = lists.at(i * JOBS + job);
    double distance = __longlong_as_double(one.value);
    if (one.slot != NONE) add_entry(work.entries, distance, slot, one.slot, one.id);
  }
  __syncthreads();
  if (has_full_distances(tree))
    remove_by_centroids(work, job, mine, min(nearest, floor.value), recent);
  uint listed = sequencer.listed;
  auto add = [&](uint n, double distance) {
    uint place = sequencer.compared[n];
    add_entry(work.entries, distance, slot, sequencer.recent_slots[place],
              sequencer.recent_ids[place]);
  };
  if (has_full_distances(tree)) {
    SearchState &search = work.search;
    for (uint first = 0; first < listed; first += DECIDED_TOGETHER) {
      __syncthreads();
      bool there = i < DECIDED_TOGETHER && first + i < listed;
      if (i == 0) search.node = mine;
      if (i < DECIDED_TOGETHER) search.sizes[i] = 0;
      if (there) put_cluster(search, i, recent(first + i));
      sum_distances(tree, work.clusters, OF_SEQUENCER, search, nullptr, work.room);
      if (there) add(first + i, summed_distance(search, i));
    }
  } else {
    for (uint n = i / WARP; n < listed; n += WARPS) {
      Operand other = recent(n);
      prefetch_node(tree, other.node, other.shape, i % WARP, WARP);
    }
    node_distances(tree, mine, listed, work.room.scratch, work.room.together, recent, add);
  }
  __syncthreads();
  Key left = {bits_of_bound(tree, __uint_as_float(sequencer.least_left)), 0};
  keep_nearest(tree, slot, work.entries, left < floor ? left : floor);
  __syncthreads();
}

// The job whose union is that of an entry's pair, if it is ready and not too old after `merges`
// merges; NOWHERE otherwise.
__device__ __forceinline__ uint ready_job(const Sequencer &sequencer, const QueueEntry &entry,
                                          uint merges) {
  if (entry.kind != PAIR) return NOWHERE;
  uint at = entry.at;
  uint job =
      find_job(sequencer, sequencer.entry_lower_ids[at], sequencer.entry_higher_ids[at], merges);
  return job != NOWHERE && sequencer.states[job] == READY ? job : NOWHERE;
}

// Merges the pair of the entry at `at`, whose speculative union is `job`, and finds the next first
// entry. `front` and `unsorted_count` are arguments of `first_entry`. The values by which all
// threads of the caller decided on this merge change only after the first barrier in here.
__device__ __forceinline__ void merge(const Work &work, uint at, uint job, uint &front,
                                      uint unsorted_count) {
  const Tree &tree = work.tree;
  Sequencer &sequencer = sequencer_of_block();
  uint i = threadIdx.x, p = tree.dimensions, merge = sequencer.merges;
  uint lower = sequencer.lower[job], higher = sequencer.higher[job], id = sequencer.ids[job];
  if (i >= FIRST_OF_RECENT) list_near_recent(work, job, i - FIRST_OF_RECENT);
  forget_merged(work, job);
  __syncthreads();
  Key floor = {sequencer.floor_values[job], sequencer.floor_ties[job]};
  ulong nearest;
  if (sequencer.near_recent[merge % 2] > 0 && !lower_floor(work, job, merge, floor, nearest)) {
    if (!keep_with_few(work, job, floor, nearest)) keep_nearest_active(work, job, floor, nearest);
  } else if (i < WARP) {
    keep_active(work, job, floor);
  }
  if (i < WARP) {
    __syncwarp();
    if (i > 0) return;
    Key head = work.entries.first;
    bool pair = is_pair(head.tie);
    tree.heights[merge] = __longlong_as_double(sequencer.values[at]);
    put_entry(sequencer, at, {head, id, pair ? work.entries.first_id : NONE}, lower);
    add_unsorted(sequencer, at);
    sequencer.made = entry_at(sequencer, at);
    tree.head_values[lower] = head.value;
    tree.head_ties[lower] = head.tie;
    sequencer.recent_slots[merge % RECENT] = lower;
    sequencer.recent_ids[merge % RECENT] = id;
    sequencer.recent_jobs[merge % RECENT] = job;
    sequencer.recent_higher[merge % RECENT] = higher;
    sequencer.recent_shapes[merge % RECENT] = sequencer.shapes[job];
    sequencer.recent_sizes[merge % RECENT] = sequencer.sizes[job];
    sequencer.recent_starts[merge % RECENT] = sequencer.starts[job];
    sequencer.states[job] = MERGED;
  } else if (i < 2 * WARP) {
    uint what = i - WARP;
    if (what == 0) {
      tree.firsts[lower] = 0;
      tree.ids[lower] = NONE;
      tree.lower[merge] = lower;
      mark_leaf(sequencer, lower);
    } else if (what == 1) {
      tree.head_values[higher] = INFINITY_BITS;
      tree.head_ties[higher] = ~0ull;
      tree.ids[higher] = NONE;
      tree.higher[merge] = higher;
      mark_leaf(sequencer, higher);
    } else if (what == 2) {
      free_shape(tree, sequencer, sequencer.lower_shapes[job]);
    } else if (what == 3) {
      free_shape(tree, sequencer, sequencer.higher_shapes[job]);
    } else if (what == 4) {
      sequencer.below_threshold -= sequencer.newly_full_size[job];
      sequencer.near_recent[1 - merge % 2] = 0;
      sequencer.least_bounds[1 - merge % 2] = SINGLE_INFINITY_BITS;
    }
  } else if (i < 3 * WARP) {
    QueueEntry following = first_entry(sequencer, front, unsorted_count, at);
    if (i > 2 * WARP) return;
    sequencer.following = following;
    sequencer.following_job = ready_job(sequencer, following, merge + 1);
  } else {
    const float *row = lists_of_block(work.tree).row(job);
    float *recent = lists_of_block(work.tree).recent(merge);
    for (uint k = i - 3 * WARP; k < p + 2; k += THREADS - 3 * WARP)
      recent[k] = k < p ? row[k] : row[p + (k == p ? ERROR : LOW)];
  }
}

// Commits the merges since the last commit: copies their unions to their slots and positions, where
// all blocks find them from now on.
__device__ __forceinline__ void commit(const Work &work) {
  const Tree &tree = work.tree;
  Sequencer &sequencer = sequencer_of_block();
  uint i = threadIdx.x, lane = i % WARP, p = tree.dimensions;
  __syncthreads();
  uint first = sequencer.committed, count = sequencer.merges - first;
  if (count == 0) return;
  // All blocks see that the slots have no cluster before anything else of the slots changes.
  if (i == 0) __threadfence();
  // The positions of each warp's first merge are read before the barrier, which hides their
  // latency.
  auto positions_of = [&](uint n, uint &position, uint &gone) {
    uint job = sequencer.recent_jobs[(first + n) % RECENT];
    position = tree.positions[sequencer.lower[job]];
    gone = tree.positions[sequencer.higher[job]];
  };
  uint position = 0, gone = 0;
  if (i / WARP < count) positions_of(i / WARP, position, gone);
  __syncthreads();
  for (uint n = i / WARP; n < count; n += WARPS) {
    uint merge = first + n, at = merge % RECENT, job = sequencer.recent_jobs[at];
    uint lower = sequencer.lower[job], node = tree.clusters + job;
    if (n >= WARPS) positions_of(n, position, gone);
    if (lane == 0) row_at(work.clusters, gone)[(p + LOW) * ROW_STRIDE] = GONE;
    if (sequencer.recent_ids[at] == NONE) continue;
    for (uint k = lane; k < p; k += WARP) mean_of(tree, lower)[k] = mean_of(tree, node)[k];
    place_row(tree, work.clusters, lists_of_block(work.tree).row(job), position);
    if (lane == 0) {
      tree.births[lower] = tree.births_at[position] = tree.clusters + merge;
      tree.sizes[lower] = sequencer.sizes[job];
      if (has_full_distances(tree)) tree.member_starts[lower] = tree.member_starts[node];
      tree.shapes[lower] = sequencer.shapes[job];
    }
  }
  __threadfence();
  __syncthreads();
  if (i < count) {
    uint at = (first + i) % RECENT;
    if (sequencer.recent_ids[at] != NONE)
      tree.ids[sequencer.recent_slots[at]] = sequencer.recent_ids[at];
  }
  __syncthreads();
  if (i == 0) {
    __threadfence();
    *(volatile uint *)(tree.control + COMMITTED) = sequencer.committed = sequencer.merges;
  }
  __syncthreads();
}

// Merges as long as the next union is ready. Sets the status when the launch has to end.
__device__ void merge_all_ready(const Work &work) {
  const Tree &tree = work.tree;
  Sequencer &sequencer = sequencer_of_block();
  uint front = 0;
  for (;;) {
    __syncthreads();
    bool done = sequencer.merges + 1 == tree.clusters;
    bool full = sequencer.below_threshold == 0 && !tree.all_full_size;
    if (done || full) {
      __syncthreads();
      if (threadIdx.x == 0) sequencer.status = done ? ALL_MERGED : ALL_FULL_SIZE;
      return;
    }
    if (sequencer.merges - sequencer.committed == RECENT) commit(work);
    if (sequencer.unsorted_count >= MAX_UNSORTED) {
      insert_unsorted();
      front = 0;
    }
    uint unsorted_count = sequencer.unsorted_count;
    QueueEntry first = first_entry(sequencer, front, unsorted_count, NONE);
    if (first.kind == EMPTY || first.kind == STALE) {
      commit(work);
      if (first.kind == STALE)
        renew_stale(tree);
      else
        refill(tree);
      front = 0;
      if (sequencer.sorted_count > 0) continue;
      if (first.kind == STALE) continue;
      if (threadIdx.x == 0) sequencer.status = GAVE_UP;
      return;
    }
    uint job = ready_job(sequencer, first, sequencer.merges);
    if (job == NOWHERE) return;
    __syncthreads();
    // As long as nothing else has to be done, each merge tells the next one.
    while (job != NOWHERE) {
      merge(work, first.at, job, front, unsorted_count);
      if (threadIdx.x == 0) sequencer.merges += 1;
      __syncthreads();
      bool goes_on =
          sequencer.merges + 1 < tree.clusters && sequencer.merges - sequencer.committed < RECENT;
      goes_on = goes_on && (sequencer.below_threshold > 0 || tree.all_full_size);
      unsorted_count = sequencer.unsorted_count;
      if (!goes_on || unsorted_count >= MAX_UNSORTED) break;
      first = sequencer.made;
      bool is_next = first.kind != EMPTY && is_before(first, sequencer.following);
      if (!is_next) first = sequencer.following;
      job = is_next ? ready_job(sequencer, first, sequencer.merges) : sequencer.following_job;
    }
  }
}
