// The sequencer takes the results of jobs.

#pragma once

#include "tree/merge.cuh"

// The largest relative change of the radius factor after some results, and the limits of the
// factor. If the step is too small, searches find too few or too many clusters for longer; if it is
// too large, the factor swings. Only the time depends on them.
#define RADIUS_STEP 0.05f
#define LEAST_RADIUS_FACTOR 0.1
#define MOST_RADIUS_FACTOR 10.0

// Whether a slot's cluster has been merged after the first `merges` merges. True if more than
// RECENT merges have been done since.
__device__ __forceinline__ bool is_merged_since(const Sequencer &sequencer, uint slot,
                                                uint merges) {
  if (sequencer.merges - merges > RECENT) return true;
  bool found = false;
#pragma unroll 4
  for (uint merge = merges; merge < sequencer.merges; merge++)
    found = found || sequencer.recent_slots[merge % RECENT] == slot ||
            sequencer.recent_higher[merge % RECENT] == slot;
  return found;
}

// Takes the result of a speculative union's job, by a warp.
__device__ void take_union(const Work &work, uint number) {
  const Tree &tree = work.tree;
  Sequencer &sequencer = sequencer_of_block();
  uint lane = threadIdx.x % WARP, node = tree.clusters + number, count = tree.counts[node];
  const Job job = tree.jobs[number];
  // All values are read before any is written, so no read waits for another read.
  double floor = tree.floor_values[node];
  ulong tie = tree.floor_ties[node];
  uint size = tree.sizes[node], shape = tree.shapes[node];
  uint start = has_full_distances(tree) ? tree.member_starts[node] : 0,
       length = tree.dimensions + SCALARS;
  constexpr uint PARTS = (DIMENSIONS + SCALARS + WARP - 1) / WARP;
  float in_row[PARTS];
#pragma unroll
  for (uint part = 0; part < PARTS; part++) {
    uint k = part * WARP + lane;
    in_row[part] = k < length ? tree.rows[(size_t)number * length + k] : 0;
  }
  if (job.lacks_room || job.bounds_too_loose) {
    if (lane == 0 && !sequencer.is_obsolete[number])
      sequencer.status = job.lacks_room ? NO_ROOM : GAVE_UP;
    return;
  }
  Lists lists = lists_of_block(tree);
  if (lane < CANDIDATES) {
    // All CANDIDATES may be read, whether they count or not, so no read waits for another read.
    size_t from = (size_t)node * CANDIDATES + lane;
    uint at = lane * JOBS + number, slot = tree.candidate_slots[from];
    uint id = tree.candidate_ids[from];
    ulong value = tree.candidate_values[from];
    if (lane >= count || is_merged_since(sequencer, slot, job.made_at)) slot = NONE;
    lists.set(at, {value, slot, id});
  }
#pragma unroll
  for (uint part = 0; part < PARTS; part++) {
    uint k = part * WARP + lane;
    if (lists.has_job_rows() && k < length) lists.shared_row(number)[k] = in_row[part];
  }
  if (lane > 0) return;
  sequencer.counts[number] = count;
  sequencer.replacements[number] = NONE;
  sequencer.floor_values[number] = __double_as_longlong(floor);
  sequencer.floor_ties[number] = tie;
  // Strictly above the floor, even if it is 0: other clusters may be at this distance.
  sequencer.limits[number] = next_above(__double2float_ru(floor / tree.unit * (1 + SLACK)));
  sequencer.sizes[number] = size;
  sequencer.shapes[number] = shape;
  sequencer.starts[number] = start;
  sequencer.made_at[number] = job.made_at;
  if (job.is_new) {
    sequencer.newly_full_size[number] = job.newly_full_size;
    bool are_few = job.below_floor < WANTED / 2 && job.found_first < DECIDED_TOGETHER;
    if (are_few || job.found_first < WANTED / 2) atomicAdd(&sequencer.few, 1);
    if (job.found_first > MANY_FOUND) atomicAdd(&sequencer.many, 1);
    atomicAdd(&sequencer.inserted, 1);
  }
  sequencer.states[number] = READY;
  sequencer.is_changed[number] = true;
}

// Gives an active cluster the candidates that its search has found, by a warp.
__device__ void take_search(const Work &work, uint number) {
  const Tree &tree = work.tree;
  Sequencer &sequencer = sequencer_of_block();
  uint lane = threadIdx.x % WARP, node = tree.clusters + number, slot = sequencer.lower[number];
  bool is_active = !sequencer.is_obsolete[number];
  __syncwarp();
  if (lane == 0) sequencer.states[number] = UNUSED;
  if (!is_active) return;
  if (tree.jobs[number].bounds_too_loose) {
    if (lane == 0) sequencer.status = GAVE_UP;
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
    // Otherwise a search with bounds that are too loose would be repeated for ever.
    if (count == 0 && !(before < floor)) sequencer.status = GAVE_UP;
    tree.counts[slot] = count;
    tree.floor_values[slot] = __longlong_as_double(floor.value);
    tree.floor_ties[slot] = floor.tie;
    mark_leaf(sequencer, slot);
  }
  __syncwarp();
  bool is_entry = false;
  for (uint i = lane; i < ENTRIES; i += WARP) {
    if (sequencer.owners[i] == slot && sequencer.kinds[i] != EMPTY) {
      sequencer.kinds[i] = STALE;
      is_entry = true;
    }
  }
  // The heads of stale entries are computed later, all together.
  if (!__any_sync(WHOLE_WARP, is_entry)) write_head(tree, slot);
}

// Takes the results of jobs that are done, THREADS at most. Returns their number.
__device__ uint take_results(const Work &work) {
  const Tree &tree = work.tree;
  Sequencer &sequencer = sequencer_of_block();
  uint i = threadIdx.x, nth = sequencer.done + i;
  ulong entry = load_acquire(tree.done + nth % RING);
  __syncthreads();
  if (i == 0) {
    sequencer.count = THREADS;
    sequencer.few = sequencer.many = sequencer.inserted = 0;
  }
  __syncthreads();
  if ((uint)(entry >> 32) != nth + 1) atomicMin(&sequencer.count, i);
  __syncthreads();
  uint count = sequencer.count;
  if (count == 0) return 0;
  if (i < count) sequencer.list[i] = (uint)entry;
  if (i == 0) sequencer.done += count;
  __syncthreads();
  for (uint n = i / WARP; n < count; n += WARPS) {
    uint number = sequencer.list[n], state = sequencer.states[number];
    __syncwarp();
    if (i % WARP == 0) {
      atomicAdd(&sequencer.users[number], ~0u);
      uint lower = sequencer.lower_used[number], higher = sequencer.higher_used[number];
      if (lower != NONE) atomicAdd(&sequencer.users[lower], ~0u);
      if (higher != NONE) atomicAdd(&sequencer.users[higher], ~0u);
    }
    if (state == SEARCHING)
      take_search(work, number);
    else if (state == PENDING || state == READY)
      take_union(work, number);
  }
  __syncthreads();
  if (i == 0 && sequencer.inserted > 0) {
    float change = 1 + RADIUS_STEP * ((float)sequencer.few - (float)sequencer.many) /
                           (float)sequencer.inserted;
    sequencer.radius_factor =
        fmin(fmax(sequencer.radius_factor * change, LEAST_RADIUS_FACTOR), MOST_RADIUS_FACTOR);
    *tree.radius_factor = sequencer.radius_factor;
  }
  return count;
}
