// Dissimilarities between all clusters for linkage by reciprocal nearest neighbours
// (linkage/dissimilarities.rs) and by the nearest-neighbour chain, with the bits of the CPU: all
// arithmetic is in double precision, in the order of linkage/lance_williams.rs.
//
// Dissimilarities are stored row after row; each row leaves out the clusters before its own, as in
// R's `dist`. They are STORED as double or as float.

#include "base.cuh"
#include "dissimilarities/launch.cuh"

// Number of values that a lane reads together.
#define AHEAD 4
// Dissimilarities of larger magnitude are refused, as in linkage/condensed.rs.
#define LARGEST (sizeof(stored) == sizeof(double) ? 1e150 : 1e30)
#define GREATEST 1.7976931348623157e308

// Index of the first element of the row of cluster i of n: the dissimilarity to cluster i + 1.
__device__ __forceinline__ ulong row_start(ulong n, ulong i) { return i * (2 * n - 1 - i) / 2; }

// Index of the dissimilarity of two different clusters of n.
__device__ __forceinline__ ulong position(uint n, uint i, uint j) {
  uint low = min(i, j), high = max(i, j);
  return row_start(n, low) + (high - low - 1);
}

// The value that linkage uses for a stored one: its square, for linkages that work on squares.
__device__ __forceinline__ double load(const stored *values, ulong at, bool squared) {
  double value = values[at];
  return squared ? value * value : value;
}

// Rounds values from double precision to the stored type.
extern "C" __global__ void narrow(const double *values, stored *out, ulong count) {
  ulong step = (ulong)gridDim.x * blockDim.x;
  for (ulong at = (ulong)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step)
    out[at] = (stored)values[at];
}

// Reads the dissimilarities at some positions.
extern "C" __global__ void entries(const stored *values, const ulong *positions, double *out,
                                   uint count, uint squared) {
  uint at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) out[at] = load(values, positions[at], squared);
}

// A warp's nearest clusters, in order over the lanes. Of equally near clusters, the lower slot is
// first.
struct Nearest {
  double dissimilarity = infinity();
  uint slot = NONE;
  // The dissimilarity of the farthest wanted cluster.
  double limit = infinity();

  // Inserts the value of each lane. `first` is the slot of lane 0's value, and above all slots
  // before.
  __device__ __forceinline__ void take(double value, uint first, uint lane, uint each) {
    uint near = __ballot_sync(WHOLE_WARP, value < limit);
    while (near) {
      uint from = __ffs(near) - 1;
      near &= near - 1;
      double next = __shfl_sync(WHOLE_WARP, value, from);
      if (!(next < limit)) continue;
      uint before = __popc(__ballot_sync(WHOLE_WARP, dissimilarity <= next));
      double moved = __shfl_up_sync(WHOLE_WARP, dissimilarity, 1);
      uint moved_slot = __shfl_up_sync(WHOLE_WARP, slot, 1);
      if (lane > before) {
        dissimilarity = moved;
        slot = moved_slot;
      } else if (lane == before) {
        dissimilarity = next;
        slot = first + from;
      }
      limit = __shfl_sync(WHOLE_WARP, dissimilarity, each - 1);
    }
  }
};

// Finds the nearest clusters of each wanted cluster, by a warp for each. The wanted clusters of a
// block are mostly consecutive, so a cache line that one warp reads across rows serves the others.
extern "C" __global__ void __launch_bounds__(1024) nearest(Search search) {
  uint lane = threadIdx.x % WARP;
  uint which = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
  if (which >= search.count) return;
  uint n = search.clusters, own = search.wanted[which];
  Nearest found;
  for (uint first = 0; first < n; first += AHEAD * WARP) {
    double values[AHEAD];
#pragma unroll
    for (uint a = 0; a < AHEAD; a++) {
      uint other = first + a * WARP + lane;
      values[a] = infinity();
      if (other >= n || other == own) continue;
      ulong at = position(n, own, other);
      values[a] = load(search.values, at, search.squared);
      if (other > own && !(fabs(values[a]) <= LARGEST)) atomicMin(search.unusable, at);
      // Very large numbers of members can make sums overflow; these clusters come last then.
      if (values[a] > GREATEST) values[a] = GREATEST;
    }
#pragma unroll
    for (uint a = 0; a < AHEAD; a++) found.take(values[a], first + a * WARP, lane, search.each);
  }
  if (lane < search.each) {
    double dissimilarity = found.dissimilarity < GREATEST ? found.dissimilarity : infinity();
    search.dissimilarities[(ulong)which * search.each + lane] = dissimilarity;
    search.slots[(ulong)which * search.each + lane] = found.slot;
  }
}

__device__ __forceinline__ double lesser(double a, double b) { return a < b ? a : b; }
__device__ __forceinline__ double greater(double a, double b) { return a > b ? a : b; }

// Recurrence::update of linkage/lance_williams.rs, for reducible linkages.
__device__ __forceinline__ double update(uint linkage, const Step &step, double first,
                                         double second, double size) {
  double a = step.sizes[0], b = step.sizes[1], updated;
  switch (linkage) {
  case COMPLETE: updated = greater(first, second); break;
  case AVERAGE: updated = greater((a * first + b * second) / (a + b), lesser(first, second)); break;
  case MCQUITTY: updated = (first + second) / 2.0; break;
  case WARD_D:
  case WARD_D2: {
    double sum = (a + size) * first + (b + size) * second - size * step.height;
    updated = greater(sum / (a + b + size), lesser(first, second));
    break;
  }
  default: updated = lesser(first, second);
  }
  return (double)(stored)updated;
}

// Notes for each slot of a batch the step that changes it; NONE for the slot that disappears.
extern "C" __global__ void open(Merging merging) {
  uint at = merging.first + blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= merging.last) return;
  merging.step_of[merging.steps[at].lower] = at + 1;
  merging.step_of[merging.steps[at].higher] = NONE;
}

// Computes the new dissimilarities of the clusters that a batch makes, by `chunks` blocks for each
// cluster. Only the thread that writes a value reads it.
extern "C" __global__ void merge(Merging merging, uint chunks) {
  uint number = merging.first + blockIdx.x / chunks;
  uint slot = blockIdx.x % chunks * blockDim.x + threadIdx.x;
  uint n = merging.clusters;
  if (slot >= n) return;
  uint last = merging.step_of[slot];
  Step step = merging.steps[number];
  if (last == NONE || slot == step.lower) return;
  bool squared = merging.squared;
  stored *values = merging.values;
  if (last <= merging.first) {
    // This batch does not change the third cluster.
    bool merged = last > 0;
    double size = merged ? merging.steps[last - 1].size() : merging.sizes[slot];
    ulong at = position(n, step.lower, slot);
    double first = load(values, at, squared && !merged && !step.merged[0]);
    double second =
        load(values, position(n, step.higher, slot), squared && !merged && !step.merged[1]);
    values[at] = (stored)update(merging.linkage, step, first, second, size);
    return;
  }
  // A step of this batch makes the third cluster, too. The dissimilarity of the two unions follows
  // from those between the union of the earlier step and the two clusters of the later step, which
  // come first.
  if (last - 1 < number) return;
  Step later = merging.steps[last - 1];
  double parts[2];
#pragma unroll
  for (uint part = 0; part < 2; part++) {
    uint third = part == 0 ? later.lower : later.higher;
    bool plain = squared && !later.merged[part];
    double first = load(values, position(n, step.lower, third), plain && !step.merged[0]);
    double second = load(values, position(n, step.higher, third), plain && !step.merged[1]);
    parts[part] = update(merging.linkage, step, first, second, later.sizes[part]);
  }
  values[position(n, step.lower, later.lower)] =
      (stored)update(merging.linkage, later, parts[0], parts[1], step.size());
}

extern "C" __global__ void gather(Rest rest) {
  uint row = rest.first + blockIdx.x, slot = rest.live[row];
  stored *out = rest.out + (row_start(rest.clusters, row) - row_start(rest.clusters, rest.first));
  bool plain = rest.squared && rest.step_of[slot] == 0;
  for (uint column = row + 1 + threadIdx.x; column < rest.clusters; column += blockDim.x) {
    uint other = rest.live[column];
    bool squared = plain && rest.step_of[other] == 0;
    out[column - row - 1] = (stored)load(rest.values, position(rest.before, slot, other), squared);
  }
}

// A barrier for all blocks of a launch, which are all resident.
struct Barrier {
  uint *arrived;
  uint target = 0;
  __device__ __forceinline__ void wait() {
    target += gridDim.x;
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(arrived, 1);
      while (*(volatile uint *)arrived < target) {}
      __threadfence();
    }
    __syncthreads();
  }
};

// Replaces `best` and `slot` by the other cluster if that is nearer.
__device__ __forceinline__ void nearer(double &best, uint &slot, double other, uint other_slot) {
  if (other < best || (other == best && other_slot < slot)) {
    best = other;
    slot = other_slot;
  }
}

// The nearest cluster of all threads of a block, in all of them.
__device__ __forceinline__ void nearest_of_block(double &best, uint &slot) {
  __shared__ double of_warps[CHAIN_THREADS / WARP];
  __shared__ uint slots_of_warps[CHAIN_THREADS / WARP];
  uint lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
#pragma unroll
  for (uint apart = WARP / 2; apart > 0; apart /= 2)
    nearer(best, slot, __shfl_xor_sync(WHOLE_WARP, best, apart),
           __shfl_xor_sync(WHOLE_WARP, slot, apart));
  if (lane == 0) {
    of_warps[warp] = best;
    slots_of_warps[warp] = slot;
  }
  __syncthreads();
  for (uint other = 0; other < CHAIN_THREADS / WARP; other++)
    nearer(best, slot, of_warps[other], slots_of_warps[other]);
  __syncthreads();
}

// Makes steps of the nearest-neighbour chain, by all blocks of the launch. All threads take the
// same branches, since each knows the last two slots of the chain. Values that one block writes and
// another reads go through the L2 cache, with a barrier in between; other values each block knows
// itself.
extern "C" __global__ void __launch_bounds__(CHAIN_THREADS) chain(Chaining chaining) {
  uint n = chaining.clusters;
  uint start = blockIdx.x * CHAIN_THREADS + threadIdx.x, stride = gridDim.x * CHAIN_THREADS;
  bool writes = start == 0;
  volatile uint *gone = chaining.gone, *stack = chaining.stack;
  volatile double *sizes = chaining.sizes;
  Barrier barrier{chaining.arrived};
  uint length = *chaining.length, done = *chaining.done;
  uint last = length > 0 ? stack[length - 1] : NONE,
       previous = length > 1 ? stack[length - 2] : NONE;
  // The slot that the last step removed, which other blocks may not see in `gone` yet; and a slot
  // before which all slots are gone.
  uint removed = NONE, lowest = 0;
  for (uint step = 0; step < chaining.steps && done + 1 < n; step++) {
    if (length == 0) {
      while (lowest == removed || gone[lowest]) lowest++;
      last = lowest;
      previous = NONE;
      if (writes) stack[0] = last;
      length = 1;
    }
    double height = infinity();
    uint other = NONE;
    for (uint slot = start; slot < n; slot += stride)
      if (slot != last && slot != removed && !gone[slot])
        nearer(height, other, (double)__ldcg(&chaining.values[position(n, last, slot)]), slot);
    nearest_of_block(height, other);
    // Two places alternate, as some blocks may still read the place of the last step.
    uint place = step % 2 * gridDim.x;
    if (threadIdx.x == 0) {
      ((volatile double *)chaining.nearest)[place + blockIdx.x] = height;
      ((volatile uint *)chaining.nearest_slots)[place + blockIdx.x] = other;
    }
    barrier.wait();
    for (uint block = threadIdx.x; block < gridDim.x; block += CHAIN_THREADS)
      nearer(height, other, ((volatile double *)chaining.nearest)[place + block],
             ((volatile uint *)chaining.nearest_slots)[place + block]);
    nearest_of_block(height, other);
    removed = NONE;
    if (previous != other) {
      if (writes) stack[length] = other;
      length++;
      previous = last;
      last = other;
      continue;
    }
    uint lower = min(last, other), higher = max(last, other);
    Step merge;
    merge.height = height;
    merge.sizes[0] = sizes[lower];
    merge.sizes[1] = sizes[higher];
    for (uint slot = start; slot < n; slot += stride) {
      if (slot == lower || slot == higher || gone[slot]) continue;
      ulong at = position(n, lower, slot);
      double first = (double)__ldcg(&chaining.values[at]);
      double second = (double)__ldcg(&chaining.values[position(n, higher, slot)]);
      double updated = update(chaining.linkage, merge, first, second, sizes[slot]);
      __stcg(&chaining.values[at], (stored)updated);
    }
    length -= 2;
    last = length > 0 ? stack[length - 1] : NONE;
    previous = length > 1 ? stack[length - 2] : NONE;
    barrier.wait();
    // Other blocks read these after the next barrier only.
    if (writes) {
      sizes[lower] = merge.size();
      gone[higher] = 1;
      chaining.merged[2 * done] = lower;
      chaining.merged[2 * done + 1] = higher;
      chaining.heights[done] = height;
    }
    removed = higher;
    done++;
  }
  // No block may see these before all have ended: the next launch begins with them.
  barrier.wait();
  if (writes) {
    *chaining.length = length;
    *chaining.done = done;
  }
}
