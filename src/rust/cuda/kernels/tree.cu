// A whole tree on the device: all merges of a large problem, by all multiprocessors together.
//
// The first block serves the chain of merges (tree_chain.cuh): it holds the queue of all clusters,
// and merges as long as the unions of the pairs that come next are ready. The other blocks make
// these unions ahead of their turn (tree_union.cuh) and search for their nearest clusters
// (tree_search.cuh). A tentative union depends on its two clusters only, so it is right for as long
// as both are active; the clusters made since its search are compared with it when its turn comes.
//
// What decides is in double precision and in the order of operations of mahalanobis/shape.rs and
// mahalanobis/distance.rs, so results have the same bits with any number of blocks; bounds in
// single precision only rule clusters out. Which pair comes next is the definition's: the smallest
// distance, then the smaller slots. As in mahalanobis/agglomerate a pair belongs to the younger of
// its clusters, and each cluster knows its nearest older ones and a floor under all others.
//
// Compiled with DIMENSIONS, the number of coordinates that are kept in registers (0: none, for any
// number), and BLOCKS, the number of blocks that a multiprocessor has room for.

#include "grid.cuh"
#include "tiles.cuh"
#include "tree_plan.cuh"

// Rounds between two looks at the host's wish to stop.
#define ROUNDS_BETWEEN_CHECKS 32

__device__ void load_chain(const Tree &tree, Chain &chain) {
  FOR_EACH(e, POOL) chain.states[e] = UNUSED;
  FOR_EACH(b, BUCKETS) chain.buckets[b] = NOWHERE;
  if (threadIdx.x == 0) {
    const uint *control = tree.control;
    chain.merges = control[MERGES];
    chain.below_threshold = control[BELOW_THRESHOLD];
    chain.next_id = control[NEXT_ID];
    chain.next_start = control[NEXT_START];
    chain.shapes_used = control[SHAPES_USED];
    chain.free_shapes = control[FREE_SHAPES];
    chain.searches = chain.has_queue = 0;
    chain.status = RUNNING;
    chain.width = tree.tuning[WIDTH];
    chain.level = 0;
  }
  __syncthreads();
}

__device__ void store_chain(const Tree &tree, Chain &chain) {
  sort_out(tree, chain, true, true);
  if (threadIdx.x > 0) return;
  uint *control = tree.control;
  control[MERGES] = chain.merges;
  control[BELOW_THRESHOLD] = chain.below_threshold;
  control[NEXT_ID] = chain.next_id;
  control[NEXT_START] = chain.next_start;
  control[SHAPES_USED] = chain.shapes_used;
  control[FREE_SHAPES] = chain.free_shapes;
  tree.tuning[WIDTH] = chain.width;
}

// Adds the cycles since `start`, which becomes now.
__device__ __forceinline__ void count_cycles(const Tree &tree, uint what, long long &start) {
  long long now = clock64();
  if (threadIdx.x == 0) tree.tuning[what] += (double)(now - start);
  start = now;
}

// The chain's part of a round: takes what the last round has found, merges what is ready, and
// chooses what the next round does.
__device__ void advance(const Tree &tree, const Clusters &clusters, Chain &chain,
                        float *recent_rows, uint round, Entries &entries, Workspace &room) {
  long long start = clock64();
  take_outcomes(tree, chain);
  count_cycles(tree, CYCLES_OUTCOMES, start);
  if (chain.status == RUNNING && chain.next_start < tree.clusters) {
    search_at_start(tree, chain);
  } else if (chain.status == RUNNING) {
    if (!chain.has_queue) {
      refresh_all(tree, chain);
      if (threadIdx.x == 0) chain.has_queue = 1;
      __syncthreads();
    }
    uint owner;
    Key head = merge_all_ready(tree, clusters, chain, recent_rows, &owner, entries, room);
    if (threadIdx.x == 0 && chain.status == RUNNING) {
      if (round % ROUNDS_BETWEEN_CHECKS == 0) {
        *tree.progress = chain.merges;
        if (*tree.stop) chain.status = STOPPED;
      }
      if (round >= tree.rounds) chain.status = ROUNDS_DONE;
    }
    __syncthreads();
    count_cycles(tree, CYCLES_MERGING, start);
    if (chain.status == RUNNING) plan(tree, chain, head, owner);
    count_cycles(tree, CYCLES_PLANNING, start);
  }
  if (threadIdx.x == 0) {
    tree.control[STATUS] = chain.status;
    tree.control[SEARCH_COUNT] = chain.searches;
    tree.control[UNGUESSED] = 0;
    tree.control[COUNT_ROUNDS] += 1;
    tree.control[COUNT_SEARCHES] += chain.searches;
  }
  __syncthreads();
}

template <int P>
__device__ void grow_for(const Tree &tree, const Clusters &clusters, double *memory) {
  __shared__ Shared shared;
  __shared__ Entries entries;
  uint p = tree.dimensions;
  bool alone = gridDim.x == 1, leads = blockIdx.x == 0, works = alone || !leads;
  uint workers = alone ? 1 : gridDim.x - 1, worker = alone ? 0 : blockIdx.x - 1;
  Chain &chain = *(Chain *)memory;
  float *recent_rows = (float *)(memory + CHAIN_BYTES / sizeof(double));
  uint recent_doubles = (RECENT * (p + 2) + 1) / 2;
  double *rest = leads ? memory + CHAIN_BYTES / sizeof(double) + recent_doubles : memory;
  Workspace room(shared, p, rest);
  Barrier barrier{tree.control + ARRIVED};
  if (leads) load_chain(tree, chain);
  for (uint round = 0;; round++) {
    if (leads) advance(tree, clusters, chain, recent_rows, round, entries, room);
    barrier.wait();
    if (*(volatile uint *)(tree.control + STATUS) != RUNNING) break;
    uint count = *(volatile uint *)(tree.control + SEARCH_COUNT);
    long long start = clock64();
    for (uint i = worker; works && i < count; i += workers) {
      const Search &search = tree.searches[i];
      if (search.node == NONE) {
        // No tile is below this end.
        if (threadIdx.x == 0)
          tree.queries[(size_t)i * query_stride<P>(p) + END] = __uint_as_float(0);
        continue;
      }
      if (search.is_new) make_union(tree, clusters, search, room);
      write_query<P>(tree, clusters, search, i, room);
    }
    barrier.wait();
    if (leads) count_cycles(tree, CYCLES_UNIONS, start);
    if (*(volatile uint *)(tree.control + UNGUESSED)) {
      if (works) sweep_tiles<P>(tree, clusters, count, worker, workers, true, (float *)rest);
      barrier.wait();
    }
    if (works) sweep_tiles<P>(tree, clusters, count, worker, workers, false, (float *)rest);
    barrier.wait();
    if (leads) count_cycles(tree, CYCLES_SWEEPS, start);
    for (uint i = worker; works && i < count; i += workers)
      if (tree.searches[i].node != NONE) decide<P>(tree, tree.searches[i], i, entries, room);
    barrier.wait();
    if (leads) count_cycles(tree, CYCLES_DECISIONS, start);
  }
  if (leads) store_chain(tree, chain);
}

// Makes rounds until all is merged, or until `status` says why not.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    grow(const __grid_constant__ Tree tree, const __grid_constant__ Clusters clusters) {
  extern __shared__ double memory[];
  grow_for<DIMENSIONS>(tree, clusters, memory);
}

// Gives all active clusters their shapes anew, for all are full-size now, and forgets what was found
// about them. A block for each.
extern "C" __global__ void __launch_bounds__(THREADS)
    start_anew(const __grid_constant__ Tree tree, const __grid_constant__ Clusters clusters) {
  extern __shared__ double triangles[];
  __shared__ Shared shared;
  uint p = tree.dimensions;
  Workspace room(shared, p, triangles);
  float *row = (float *)(room.scratch + WARPS * 2 * p);
  for (uint slot = blockIdx.x; slot < tree.clusters; slot += gridDim.x) {
    if (tree.ids[slot] == NONE) continue;
    uint shape = tree.shapes[slot];
    if (shape != NONE) {
      Whitening found;
      shape = shape_up(tree, shape & ~IDENTITY, tree.sizes[slot], found, room);
      __syncthreads();
      write_row(tree, clusters, row, mean_of(tree, slot), shape, found, room);
      uint position = tree.positions[slot];
      FOR_EACH(k, p + SCALARS) clusters.rows[(size_t)k * clusters.capacity + position] = row[k];
    }
    if (threadIdx.x == 0) {
      tree.shapes[slot] = shape;
      tree.sweeps[slot] = tree.counts[slot] = 0;
      tree.limits[slot] = single_infinity();
      tree.floor_values[slot] = 0;
      tree.floor_ties[slot] = tree.head_ties[slot] = 0;
      tree.head_values[slot] = 0;
    }
    __syncthreads();
  }
}
