// The screen on the GPU: lower bounds on the distances from a few clusters (the queries) to all.
//
// Compiled with DIMENSIONS, the number of coordinates that are kept in registers (0: none, for any
// number), and BLOCKS, the number of blocks that a multiprocessor has room for.

#include "base.cuh"
#include "screen_bounds.cuh"
#include "screen_launch.cuh"
#include "screen_sweep.cuh"

// Applies a batch of changes: the positions `removed` are gone; the `added` clusters are laid out
// as enum Entry says; each of the packed whitening `factors` goes to the shape of that number in
// `shaped`, unless it is NONE. Also copies the `queries` of the sweep that follows and their
// factors, `words` in all, from the host.
//
// All this lies in the host's memory, which takes long to answer: each thread asks for what it
// needs at once, and with a thread for each word that time passes but once.
extern "C" __global__ void update(Clusters clusters, const uint *removed, uint removed_count,
                                  const uint *added, uint added_count, const uint *shaped,
                                  uint shaped_count, const float *factors, const uint *queries,
                                  uint words, uint *copied) {
  uint p = clusters.dimensions, height = p + SCALARS, length = packed_length(p);
  uint thread = blockIdx.x * blockDim.x + threadIdx.x;
  uint threads = gridDim.x * blockDim.x;
  uint total = words + removed_count + added_count * height + shaped_count * length;
  for (uint all = thread; all < total; all += threads) {
    uint i = all;
    if (i < words) {
      copied[i] = queries[i];
      continue;
    }
    i -= words;
    if (i < removed_count) {
      clusters.rows[(size_t)(p + LOW) * clusters.capacity + removed[i]] = GONE;
      continue;
    }
    i -= removed_count;
    if (i < added_count * height) {
      const uint *entry = added + (size_t)(i / height) * entry_words(p);
      uint k = i % height, position = entry[ENTRY_POSITION], value = entry[ENTRY_ROWS + k];
      clusters.rows[(size_t)k * clusters.capacity + position] = __uint_as_float(value);
      continue;
    }
    i -= added_count * height;
    uint number = shaped[i / length];
    float value = factors[i];
    if (number != NONE) ((float *)factor_of(clusters, number))[i % length] = value;
  }
}

// Moves the clusters at the positions `from` to the positions 0, 1, ... of `target`.
extern "C" __global__ void compact(Clusters clusters, float *target, const uint *from, uint count) {
  uint to = blockIdx.x * blockDim.x + threadIdx.x;
  if (to >= count) return;
  uint source = from[to];
  for (uint k = 0; k < clusters.dimensions + SCALARS; k++)
    target[(size_t)k * clusters.capacity + to] =
        clusters.rows[(size_t)k * clusters.capacity + source];
}

// The sum, or what `join` makes, of the values of all threads of a block of THREADS.
template <class Join> __device__ float over_block(float value, Join join) {
  __shared__ float shared[THREADS / WARP];
  for (int step = WARP / 2; step > 0; step /= 2)
    value = join(value, __shfl_xor_sync(WHOLE_WARP, value, step));
  __syncthreads();
  if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = value;
  __syncthreads();
  value = shared[0];
  for (uint i = 1; i < THREADS / WARP; i++) value = join(value, shared[i]);
  return value;
}

// Draws the balls around the tiles from `first` on, a block each.
extern "C" __global__ void __launch_bounds__(THREADS) enclose(Clusters clusters, uint first) {
  uint p = clusters.dimensions, tile = first + blockIdx.x, tiles = clusters.capacity / TILE;
  const float *mine = clusters.rows + (size_t)tile * TILE + threadIdx.x;
  float square = 0;
  for (uint k = 0; k < p; k++) {
    float x = mine[(size_t)k * clusters.capacity];
    float center = over_block(x, [](float a, float b) { return a + b; }) / TILE;
    if (threadIdx.x == 0) clusters.balls[(size_t)k * tiles + tile] = center;
    float d = x - center;
    square = fmaf(d, d, square);
  }
  float low = mine[(size_t)(p + LOW) * clusters.capacity];
  float error = mine[(size_t)(p + ERROR) * clusters.capacity];
  bool there = low >= 0;
  float slack = 1.0f + ((float)p + 16.0f) / (1 << 24);
  float radius = there ? (__fsqrt_rn(square) + error) * slack : 0;
  radius = over_block(radius, [](float a, float b) { return fmaxf(a, b); });
  low = there ? low : single_infinity();
  low = over_block(low, [](float a, float b) { return fminf(a, b); });
  if (threadIdx.x > 0) return;
  clusters.balls[(size_t)(p + RADIUS) * tiles + tile] = radius;
  clusters.balls[(size_t)(p + BALL_LOW) * tiles + tile] = low;
}

// A sweep for queries that `update` has copied.
template <int P>
__device__ void collect_for(const Clusters &clusters, const float *queries, uint count,
                            const float *factors, uint *minima, uint *counts, volatile uint *answer,
                            uint ticket) {
  extern __shared__ float shared[];
  uint p = clusters.dimensions;
  uint mine = load_queries<P>(queries, count, p, shared);
  sweep<P>(clusters, shared, mine, queries, COORDINATES + p, count, factors, minima, counts, answer,
           ticket);
}

// Applies the changes and sweeps for the queries, at most QUERIES_PER_BLOCK, in one launch. Each
// block changes those tiles that it looks at itself.
template <int P>
__device__ void change_and_collect_for(const Clusters &clusters, const SmallBatch &batch,
                                       uint *minima, uint *counts, volatile uint *answer,
                                       uint ticket) {
  extern __shared__ uint4 groups[];
  const uint *words = (const uint *)groups;
  const uint4 *source = (const uint4 *)batch.words;
  // From here on a place in memory like any other. Threads that each read another word of an
  // argument, known as one, would have to wait for each other.
  asm volatile("" : "+l"(source));
#pragma unroll 4
  for (uint i = threadIdx.x; i < (batch.length + 3) / 4; i += blockDim.x) groups[i] = source[i];
  __syncthreads();
  uint p = clusters.dimensions, height = p + SCALARS, length = packed_length(p);
  auto is_mine = [](uint position) { return position / TILE % gridDim.x == blockIdx.x; };
  for (uint i = threadIdx.x; i < batch.removed; i += blockDim.x) {
    uint position = words[i];
    if (is_mine(position)) clusters.rows[(size_t)(p + LOW) * clusters.capacity + position] = GONE;
  }
  for (uint which = 0; which < batch.added; which++) {
    const uint *entry = words + batch.removed + which * entry_words(p);
    uint position = entry[ENTRY_POSITION];
    if (!is_mine(position)) continue;
    for (uint k = threadIdx.x; k < height; k += blockDim.x)
      clusters.rows[(size_t)k * clusters.capacity + position] =
          __uint_as_float(entry[ENTRY_ROWS + k]);
    uint number = entry[entry_scalar(p, SHAPE)], factor = entry[entry_factor(p)];
    if (number == NONE) continue;
    float *place = (float *)factor_of(clusters, number);
    const uint *packed = words + batch.packed_at + factor * length;
    for (uint i = threadIdx.x; i < length; i += blockDim.x) place[i] = __uint_as_float(packed[i]);
  }
  // All threads of the block see the changes.
  __syncthreads();
  const float *queries = (const float *)words + batch.queries_at;
  const float *factors = (const float *)words + batch.factors_at;
  sweep<P>(clusters, queries, batch.queries, queries, padded_query<P>(p), batch.queries, factors,
           minima, counts, answer, ticket);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    collect(Clusters clusters, const float *queries, uint count, const float *factors, uint *minima,
            uint *counts, uint *answer, uint ticket) {
  collect_for<DIMENSIONS>(clusters, queries, count, factors, minima, counts, answer, ticket);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    change_and_collect(Clusters clusters, const __grid_constant__ SmallBatch batch, uint *minima,
                       uint *counts, uint *answer, uint ticket) {
  change_and_collect_for<DIMENSIONS>(clusters, batch, minima, counts, answer, ticket);
}
