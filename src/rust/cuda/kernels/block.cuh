// Maxima, sums and least keys. All threads of a warp call the functions warp_*, and all threads of
// the block the functions block_*; each of these threads gets the result. The file that includes
// this header must have defined THREADS, the number of threads of a block.

#pragma once

#include "base.cuh"

#define WARPS (THREADS / WARP)

#define FOR_EACH(i, count) for (uint i = threadIdx.x; i < (count); i += THREADS)

// Values that the threads of a block exchange, in shared memory.
struct Shared {
  double reduced[2 * WARPS];
  ulong keys[2 * WARPS];
  uint sources[WARPS];
  uint task;
  uint stop;
};

__device__ double block_max(Shared &shared, double value) {
  for (int offset = WARP / 2; offset; offset /= 2)
    value = fmax(value, __shfl_xor_sync(WHOLE_WARP, value, offset));
  if (threadIdx.x % WARP == 0) shared.reduced[threadIdx.x / WARP] = value;
  __syncthreads();
  value = shared.reduced[0];
  for (int w = 1; w < WARPS; w++) value = fmax(value, shared.reduced[w]);
  __syncthreads();
  return value;
}

// The sum over the lanes of a warp, in all lanes.
template <class T> __device__ __forceinline__ T warp_sum(T value) {
  for (int offset = WARP / 2; offset; offset /= 2)
    value += __shfl_xor_sync(WHOLE_WARP, value, offset);
  return value;
}

// Two sums over the threads of a block. The order of the additions depends on THREADS, so the sums
// must be exact, or bounds.
__device__ __forceinline__ double2 block_sum(Shared &shared, double x, double y) {
  x = warp_sum(x);
  y = warp_sum(y);
  if (threadIdx.x % WARP == 0) {
    shared.reduced[2 * (threadIdx.x / WARP)] = x;
    shared.reduced[2 * (threadIdx.x / WARP) + 1] = y;
  }
  __syncthreads();
  x = shared.reduced[0];
  y = shared.reduced[1];
  for (int w = 1; w < WARPS; w++) {
    x += shared.reduced[2 * w];
    y += shared.reduced[2 * w + 1];
  }
  __syncthreads();
  return make_double2(x, y);
}

// Order of pairs: the bits of a distance (distances are >= 0, so their bits order them), then the
// slots, which decide between equal distances.
struct Key {
  ulong value, tie;
};

__device__ __forceinline__ bool operator<(const Key &a, const Key &b) {
  return a.value < b.value || (a.value == b.value && a.tie < b.tie);
}

__device__ __forceinline__ Key pair_key(double value, uint slot, uint other) {
  uint lower = min(slot, other), higher = max(slot, other);
  return {(ulong)__double_as_longlong(value), (ulong)lower << 32 | higher};
}

// The least key of a warp and the index that belongs to it, in all lanes.
__device__ __forceinline__ Key warp_least(Key key, uint *source) {
  for (int offset = WARP / 2; offset; offset /= 2) {
    Key other = {__shfl_xor_sync(WHOLE_WARP, key.value, offset),
                 __shfl_xor_sync(WHOLE_WARP, key.tie, offset)};
    uint other_source = __shfl_xor_sync(WHOLE_WARP, *source, offset);
    if (other < key) {
      key = other;
      *source = other_source;
    }
  }
  return key;
}

// The least key of a block and the index that belongs to it, in all threads.
__device__ __noinline__ Key block_least(Shared &shared, Key key, uint *source) {
  key = warp_least(key, source);
  if (threadIdx.x % WARP == 0) {
    uint w = threadIdx.x / WARP;
    shared.keys[2 * w] = key.value;
    shared.keys[2 * w + 1] = key.tie;
    shared.sources[w] = *source;
  }
  __syncthreads();
  key = {shared.keys[0], shared.keys[1]};
  *source = shared.sources[0];
  for (int w = 1; w < WARPS; w++) {
    Key other = {shared.keys[2 * w], shared.keys[2 * w + 1]};
    if (other < key) {
      key = other;
      *source = shared.sources[w];
    }
  }
  __syncthreads();
  return key;
}
