// Makes a whole tree on the device: many blocks together, up to one on each multiprocessor, make
// the merges of a large problem. The host chooses their number (blocks_for in src/tree/launch.rs).
//
// Block 0 is the sequencer (tree/sequencer.cuh). It keeps the priority queue of all clusters
// (tree/queue.cuh), merges as long as the unions of the next pairs are ready (tree/merge.cuh),
// takes the results of the other blocks (tree/results.cuh), and plans their next jobs
// (tree/plan.cuh, tree/requests.cuh). The other blocks are workers: while the sequencer goes on,
// they make speculative unions before their turn (tree/union.cuh) and search for the nearest
// clusters of each union (tree/search.cuh, tree/decide.cuh). ARCHITECTURE.md, "How a tree grows on
// a GPU", describes the states of a job, and who writes what. A speculative union depends on its
// two clusters only, so it is valid as long as both are active. When its turn comes, the sequencer
// compares it with the clusters made since its search.
//
// All decisions are made in double precision, in the order of operations of mahalanobis/shape.rs
// and mahalanobis/distance.rs, so results have the same bits with any number of blocks. Lower
// bounds in single precision only rule clusters out. The next pair is the pair with the smallest
// distance; among equal distances, the pair with the smaller slots. As in mahalanobis/agglomerate,
// a pair belongs to the younger of its clusters. Each cluster knows its nearest older clusters, and
// a floor below the distances to all other older clusters.
//
// DIMENSIONS is the largest number of columns. Up to 64 coordinates are kept in registers.
//
// All functions are inlined, so that the compiler knows the memory space of each reference. Each
// step waits for the step before it, and loads from the generic address space take longer (11 to
// 22% of all time).

#include "tree/compact.cuh"
#include "tree/plan.cuh"
#include "tree/start.cuh"
#include "tree/worker.cuh"

// Number of merges after which the sequencer plans even while results keep coming. Without new
// results, it plans at once.
#define MERGES_A_PLAN 2
// Number of the sequencer's loops between two checks of the time and of the host's request to stop.
#define LOOPS_BETWEEN_CHECKS 256

__device__ void load_sequencer(const Tree &tree, Sequencer &sequencer) {
  uint i = threadIdx.x;
  FOR_EACH(word, SEQUENCER_BYTES / sizeof(uint))((uint *)&sequencer)[word] = 0;
  __syncthreads();
  sequencer.buckets[i] = NOWHERE;
  if (i < RECENT) sequencer.recent_ids[i] = NONE;
  if (i < 2) sequencer.least_bounds[i] = SINGLE_INFINITY_BITS;
  __syncthreads();
  FOR_EACH(leaf, leaves_of(tree)) atomicOr(&sequencer.dirty[leaf / 32], 1u << leaf % 32);
  if (i == 0) {
    const uint *control = tree.control;
    sequencer.merges = sequencer.committed = control[MERGES];
    sequencer.below_threshold = control[BELOW_THRESHOLD];
    sequencer.next_id = control[NEXT_ID];
    sequencer.shapes_used = control[SHAPES_USED];
    sequencer.free_shapes = control[FREE_SHAPES];
    sequencer.radius_factor = *tree.radius_factor;
    sequencer.status = RUNNING;
    tree.control[COMMITTED] = sequencer.merges;
  }
  __syncthreads();
}

__device__ void store_sequencer(const Tree &tree, Sequencer &sequencer) {
  // The heads of all clusters are kept for the next launch; the queue's entries are not.
  renew_stale(tree);
  sort_out(tree, false, true);
  if (threadIdx.x > 0) return;
  uint *control = tree.control;
  control[MERGES] = sequencer.merges;
  control[BELOW_THRESHOLD] = sequencer.below_threshold;
  control[NEXT_ID] = sequencer.next_id;
  control[SHAPES_USED] = sequencer.shapes_used;
  control[FREE_SHAPES] = sequencer.free_shapes;
  *tree.progress = sequencer.merges;
}

// Runs the sequencer until the launch ends. `work_on` does posted jobs if the grid has no other
// block.
template <class WorkOn> __device__ void serve(const Work &work, WorkOn work_on) {
  const Tree &tree = work.tree;
  Sequencer &sequencer = sequencer_of_block();
  ulong start = threadIdx.x == 0 ? nanoseconds() : 0;
  bool is_due = false;
  uint planned_at = sequencer.merges;
  for (uint loop = 0;; loop++) {
    uint results = take_results(work);
    if ((results > 0 || loop == 0) && sequencer.status == RUNNING) {
      merge_all_ready(work);
      __syncthreads();
      is_due = true;
    }
    // While results keep coming, taking them goes before planning.
    bool plans = is_due && (results == 0 || sequencer.merges - planned_at >= MERGES_A_PLAN);
    if (plans && sequencer.status == RUNNING) {
      commit(work);
      plan(work);
      is_due = false;
      planned_at = sequencer.merges;
    }
    if (threadIdx.x == 0) {
      if (sequencer.status == RUNNING && sequencer.merges >= tree.merges_until)
        sequencer.status = MANY_GONE;
      if (sequencer.status == RUNNING && loop % LOOPS_BETWEEN_CHECKS == 0) {
        *tree.progress = sequencer.merges;
        if (*tree.stop)
          sequencer.status = STOPPED;
        else if (nanoseconds() - start > 1000000ull * tree.milliseconds)
          sequencer.status = TIME_IS_UP;
      }
    }
    __syncthreads();
    if (sequencer.status != RUNNING) break;
    work_on();
  }
  commit(work);
}

// Makes merges until the tree is complete or the launch has to end; STATUS tells why it has ended.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    grow(const __grid_constant__ Tree tree, const __grid_constant__ Clusters clusters) {
  __shared__ Shared shared;
  __shared__ Entries entries;
  __shared__ uint number;
  uint p = tree.dimensions;
  if (blockIdx.x > 0) {
    SearchState &search = *(SearchState *)memory;
    float *query = (float *)(memory + SEARCH_BYTES / sizeof(double));
    Workspace room(tree, shared, memory + SEARCH_BYTES / sizeof(double) + query_doubles(p));
    for (;;) {
      __syncthreads();
      if (threadIdx.x == 0) number = wait_for_post(tree);
      __syncthreads();
      if (number == NONE) return;
      if (number & HELP)
        take_chunks(tree, clusters, number % (1u << NUMBER_BITS), search, query, room,
                    number >> NUMBER_BITS & ((1u << TAG_BITS) - 1), false);
      else
        do_job(tree, clusters, number, search, query, entries, room);
    }
  }
  Sequencer &sequencer = sequencer_of_block();
  // On a GPU, other blocks do the jobs. In tests on the CPU, a grid of a single block does them
  // itself.
#ifdef __CUDACC_RTC__
  constexpr bool is_alone = false;
#else
  bool is_alone = gridDim.x == 1;
#endif
  // The sequencer needs only the scratch memory of a workspace, and for sums, at the same place, a
  // factor and a mean.
  double *rest = lists_of_block(tree).end();
  Workspace room(tree, shared, rest);
  if (!is_alone) {
    room.scratch = rest;
    room.together = SEQUENCER_TOGETHER;
  }
  rest += is_alone ? workspace_doubles(p) : sequencer_doubles(p);
  SearchState &search = *(SearchState *)rest;
  Work work{tree, clusters, entries, room, search};
  load_sequencer(tree, sequencer);
  float *query = (float *)(rest + SEARCH_BYTES / sizeof(double));
  uint turn = 0;
  serve(work, [&] {
    if (!is_alone) return;
    // Does only some of the posted jobs each time, as if the blocks that do them were late.
    turn += 1;
    uint left = tree.control[POSTED] - tree.control[TAKEN], count = min(left, 1u << 2 * (turn % 4));
    for (uint i = 0; i < count; i++) {
      __syncthreads();
      uint at = tree.control[TAKEN];
      __syncthreads();
      if (threadIdx.x == 0) tree.control[TAKEN] = at + 1;
      do_job(tree, clusters, (uint)tree.posted[at % RING], search, query, entries, room);
    }
    __syncthreads();
  });
  store_sequencer(tree, sequencer);
  __syncthreads();
  if (threadIdx.x > 0) return;
  __threadfence();
  *(volatile uint *)(tree.control + STATUS) = sequencer.status;
}

// Searches for the nearest older clusters of the points at positions `first` to `end` - 1, where
// all clusters are points. Each warp searches for POINTS_A_WARP points.
extern "C" __global__ void __launch_bounds__(THREADS)
    start_with_points(const __grid_constant__ Tree tree, const __grid_constant__ Clusters clusters,
                      uint first, uint end) {
  __shared__ PointSearch searches[WARPS];
  uint groups = (end - first + POINTS_A_WARP - 1) / POINTS_A_WARP;
  uint group = blockIdx.x * WARPS + threadIdx.x / WARP;
  if (group >= groups) return;
  // Late positions go first, because they have the most older clusters to look at.
  uint from = first + (groups - 1 - group) * POINTS_A_WARP;
  search_points(tree, clusters, from, min((uint)POINTS_A_WARP, end - from),
                searches[threadIdx.x / WARP]);
}

// Searches for the nearest older clusters of active clusters of any kind, by a block for each. With
// `only_missing`, only for points whose neighbours the warps of `start_with_points` have not found.
extern "C" __global__ void __launch_bounds__(THREADS)
    start(const __grid_constant__ Tree tree, const __grid_constant__ Clusters clusters, uint first,
          uint end, uint only_missing) {
  __shared__ Shared shared;
  __shared__ Entries entries;
  SearchState &search = *(SearchState *)memory;
  float *query = (float *)(memory + SEARCH_BYTES / sizeof(double));
  uint p = tree.dimensions;
  Workspace room(tree, shared, memory + SEARCH_BYTES / sizeof(double) + query_doubles(p));
  for (uint position = first + blockIdx.x; position < end; position += gridDim.x) {
    uint slot = tree.slots_at[position];
    if (only_missing ? tree.counts[slot] == NOT_FOUND : tree.ids[slot] != NONE)
      search_at_start(tree, clusters, position, slot, search, query, entries, room);
  }
}

// Computes the balls around clusters, by a warp each.
extern "C" __global__ void __launch_bounds__(THREADS)
    enclose(const __grid_constant__ Tree tree, const __grid_constant__ Clusters clusters) {
  uint ball = (blockIdx.x * THREADS + threadIdx.x) / WARP;
  if (ball < tree.balls) enclose_clusters(tree, clusters, ball);
}
// Computes the regions around balls, by a warp each.
extern "C" __global__ void __launch_bounds__(THREADS)
    enclose_again(const __grid_constant__ Tree tree, const __grid_constant__ Clusters clusters) {
  uint region = (blockIdx.x * THREADS + threadIdx.x) / WARP;
  if (region < regions_of(tree)) enclose_balls(tree, region);
}

// Computes the new position of each cluster, without the gaps among the `used` positions; by one
// block.
extern "C" __global__ void __launch_bounds__(THREADS)
    find_all_moves(const __grid_constant__ Tree tree, const __grid_constant__ Clusters clusters,
                   uint used) {
  find_moves(tree, clusters, used);
}
// Moves each cluster to its new position, by a thread for each position.
extern "C" __global__ void __launch_bounds__(THREADS)
    move_all(const __grid_constant__ Tree tree, const __grid_constant__ Clusters clusters,
             uint used, uint left) {
  move_cluster(tree, clusters, used, left, blockIdx.x * THREADS + threadIdx.x);
}

// Copies the members of all active clusters to the front of the spare array, by a block for each
// cluster, and counts the used room in MEMBERS_USED.
extern "C" __global__ void __launch_bounds__(THREADS)
    gather_members(const __grid_constant__ Tree tree) {
  __shared__ uint start;
  for (uint slot = blockIdx.x; slot < tree.clusters; slot += gridDim.x) {
    if (tree.ids[slot] == NONE) continue;
    uint size = tree.sizes[slot];
    __syncthreads();
    if (threadIdx.x == 0) start = atomicAdd(tree.control + MEMBERS_USED, size);
    __syncthreads();
    copy_members(tree.members + tree.member_starts[slot], size, tree.spare_members + start);
    __syncthreads();
    if (threadIdx.x == 0) tree.member_starts[slot] = start;
  }
}

// Computes the shapes of all active clusters again, for all clusters are full-size now; by a block
// for each cluster.
extern "C" __global__ void __launch_bounds__(THREADS)
    reshape_all(const __grid_constant__ Tree tree, const __grid_constant__ Clusters clusters) {
  __shared__ Shared shared;
  uint p = tree.dimensions;
  Workspace room(tree, shared, memory);
  float *query = (float *)(memory + workspace_doubles(p));
  for (uint slot = blockIdx.x; slot < tree.clusters; slot += gridDim.x) {
    uint shape = tree.shapes[slot];
    if (tree.ids[slot] == NONE || shape == NONE) continue;
    Whitening found;
    shape = shape_up(tree, shape & ~IDENTITY, tree.sizes[slot], found, room);
    __syncthreads();
    uint position = tree.positions[slot];
    uint kept = make_query(tree, clusters, query, mean_of(tree, slot), shape, tree.sizes[slot],
                           found, room);
    FOR_EACH(k, p + SCALARS)
    row_at(clusters, position)[k * ROW_STRIDE] = row_of_query(query, p, kept, k);
    if (threadIdx.x == 0) tree.shapes[slot] = shape;
    __syncthreads();
  }
}
