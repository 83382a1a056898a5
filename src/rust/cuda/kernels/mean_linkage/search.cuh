// Searches for the nearest clusters of some clusters, the queries, among all remaining clusters,
// the references, in single or in double precision: see mean_linkage.cu.

#pragma once

#include "mean_linkage/launch.cuh"

// Bytes of the coordinates of a cluster in shared memory at a time.
#define DEPTH_BYTES 64
// Keeps threads that write to a tile from waiting for the same bank of shared memory.
#define PADDING 4

// Below this distance, its square may lose digits.
#define LEAST_DISTANCE 1e-140
// A little more than 1/2, so that rounding excludes no reference. In single precision this is 1/2
// itself, and the margin of `farthest` covers the rounding.
#define ABOVE_HALF 0.500000001

// The distance of two clusters, given the sum of squares between their means, and their sizes for
// Ward's linkage, or half their variances. As ClusterMeans::distance_of.
template <class T> __device__ __forceinline__ T distance_of(uint linkage, T square, T a, T b) {
  return linkage == WARD ? sqrt(T(2) * (a * b) / (a + b) * square) : T(0.5) * square + (a + b);
}

// By slot, the weights for `distance_of`.
__device__ __forceinline__ const double *weights_of(const Clusters &all) {
  return all.linkage == WARD ? all.sizes : all.variances;
}

// The searches in a precision: the means, and how far a distance may be above the least one to
// matter.
template <class T> struct Precision;
template <> struct Precision<double> {
  static __device__ __forceinline__ const double *means(const Clusters &all) { return all.means; }
  static __device__ __forceinline__ double share(const Clusters &all) { return all.tie_share; }
  static __device__ __forceinline__ double margin(const Clusters &all) { return all.tie_margin; }
  static __device__ __forceinline__ double least_distance() { return LEAST_DISTANCE; }
};
template <> struct Precision<float> {
  static __device__ __forceinline__ const float *means(const Clusters &all) {
    return all.single_means;
  }
  static __device__ __forceinline__ double share(const Clusters &all) { return all.single_share; }
  static __device__ __forceinline__ double margin(const Clusters &all) { return all.single_margin; }
  // None: `farthest` is at least single_margin, whose square loses no digits.
  static __device__ __forceinline__ float least_distance() { return 0; }
};

// The greatest distance that matters if this is the least distance from a cluster of this weight,
// which is as in `distance_of`.
template <class T> __device__ __forceinline__ T farthest(const Clusters &all, T least, T weight) {
  T margin = Precision<T>::margin(all);
  if (all.linkage == WARD) margin *= sqrt(T(2) * weight);
  return least * T(1 + Precision<T>::share(all)) + margin;
}

// The division of a search into items: each is a tile of queries, and a part of the references.
struct Items {
  // Queries of a thread, and references of a thread at a time.
  uint each;
  uint query_tiles, reference_tiles;
  // Number of parts of the references.
  uint parts;

  __device__ __forceinline__ Items(uint queries, uint references) {
    each = MOST_EACH;
    divide(queries, references);
    // Small tiles keep more blocks busy.
    if ((ulong)query_tiles * reference_tiles < gridDim.x) {
      each = 1;
      divide(queries, references);
    }
  }
  __device__ __forceinline__ void divide(uint queries, uint references) {
    query_tiles = tiles(queries), reference_tiles = tiles(references);
    uint wanted = tiles_of(ITEMS_PER_BLOCK * gridDim.x, max(query_tiles, 1u));
    parts = min(wanted, reference_tiles);
  }
  __device__ __forceinline__ uint tiles(uint clusters) const {
    return tiles_of(clusters, SIDE * each);
  }
  static __device__ __forceinline__ uint tiles_of(uint count, uint size) {
    return (count + size - 1) / size;
  }
  __device__ __forceinline__ uint count() const { return query_tiles * parts; }
  __device__ __forceinline__ uint query_tile(uint item) const { return item % query_tiles; }
  // The first tile of references of a part.
  __device__ __forceinline__ uint first_tile(uint part) const {
    return (ulong)reference_tiles * part / parts;
  }
};

// The slots of the remaining clusters after a round.
__device__ __forceinline__ uint *live_after(const Clusters &all, uint round) {
  return round % 2 == 0 ? all.live_after_even : all.live_after_odd;
}

// Appends the slots of the threads of a warp for which `wanted` is true. Each thread has one slot.
__device__ __forceinline__ void append(uint *slots, uint *count, uint slot, bool wanted) {
  uint ballot = __ballot_sync(WHOLE_WARP, wanted), start = 0;
  if (ballot == 0) return;
  if (threadIdx.x % WARP == 0) start = atomicAdd(count, (uint)__popc(ballot));
  start = __shfl_sync(WHOLE_WARP, start, 0);
  if (wanted) slots[start + lanes_before(ballot)] = slot;
}

// Adds a square. In single precision, the order of rounding does not matter.
__device__ __forceinline__ void add_square(double &sum, double value) { sum += value * value; }
__device__ __forceinline__ void add_square(float &sum, float value) {
  sum = fmaf(value, value, sum);
}

// The nearest references of a query.
template <class T> struct Nearest {
  T least, second;
  uint slot;

  __device__ __forceinline__ void clear() {
    least = second = infinity();
    slot = NONE;
  }
  // Considers another reference. Of references at the same distance, the lower slot is the nearest.
  __device__ __forceinline__ void add(T distance, uint other) {
    if (distance < least || distance == least && other < slot) {
      second = least;
      least = distance;
      slot = other;
    } else if (distance < second) {
      second = distance;
    }
  }
  __device__ __forceinline__ void add(const Nearest &other) {
    add(other.least, other.slot);
    if (other.second < second) second = other.second;
  }
};

// A query of a thread.
template <class T> struct Query {
  uint slot;
  // The size or half the variance, see `distance_of`.
  T weight;
  Nearest<T> nearest;
  // Ward's linkage: half the square of the greatest distance that matters, or a little more.
  T limit;

  __device__ __forceinline__ void begin(uint of, T its_weight) {
    slot = of;
    weight = its_weight;
    nearest.clear();
    limit = infinity();
  }
  // Considers a reference, given the sum of squares between the means.
  __device__ __forceinline__ void consider(const Clusters &all, T square, uint reference,
                                           T reference_weight) {
    if (all.linkage == WARD) {
      T product = weight * reference_weight * square;
      // Most references end here, without a division and a root.
      if (!(product <= limit * (weight + reference_weight))) return;
    }
    T before = nearest.least;
    nearest.add(distance_of(all.linkage, square, weight, reference_weight), reference);
    if (nearest.least == before) return;
    T reach = farthest(all, nearest.least, weight);
    limit = reach < Precision<T>::least_distance() ? T(infinity()) : T(ABOVE_HALF) * reach * reach;
  }
};

// Coordinates of a tile of queries and of a tile of references.
template <class T, uint EACH> struct Tiles {
  static const uint DEPTH = DEPTH_BYTES / sizeof(T);
  static const uint WIDTH = SIDE * EACH + PADDING;
  T queries[2][DEPTH][WIDTH], references[2][DEPTH][WIDTH];
};

// Shared memory of a search.
template <class T> union Memory {
  Tiles<T, MOST_EACH> large;
  Tiles<T, 1> small;
  // By row of threads and by query.
  struct {
    T least[SIDE][SIDE * MOST_EACH], second[SIDE][SIDE * MOST_EACH];
    uint slots[SIDE][SIDE * MOST_EACH];
  } found;
};

// Reads consecutive values from shared memory.
__device__ __forceinline__ void read(const double *from, double (&to)[MOST_EACH]) {
#pragma unroll
  for (uint i = 0; i < MOST_EACH; i += 2) {
    double2 pair = *(const double2 *)(from + i);
    to[i] = pair.x;
    to[i + 1] = pair.y;
  }
}
__device__ __forceinline__ void read(const float *from, float (&to)[MOST_EACH]) {
  static_assert(MOST_EACH == 4, "a float4");
  float4 values = *(const float4 *)from;
  to[0] = values.x, to[1] = values.y, to[2] = values.z, to[3] = values.w;
}
template <class T> __device__ __forceinline__ void read(const T *from, T (&to)[1]) {
  to[0] = *from;
}

// The rows of clusters that a thread copies to a tile. Threads with numbers that differ by a
// multiple of DEPTH copy different rows.
template <class T, uint EACH> struct Rows {
  static const uint DEPTH = Tiles<T, EACH>::DEPTH, WIDTH = Tiles<T, EACH>::WIDTH;
  static const uint STEP = THREADS / DEPTH;
  static const uint EACH_THREAD = (SIDE * EACH + STEP - 1) / STEP;
  const T *rows[EACH_THREAD];
  T next[EACH_THREAD];

  // The rows of the clusters in `slots` from number `first` on. `count` is the number of slots.
  __device__ __forceinline__ void begin(const Clusters &all, const uint *slots, uint first,
                                        uint count) {
#pragma unroll
    for (uint i = 0; i < EACH_THREAD; i++) {
      uint at = threadIdx.x / DEPTH + i * STEP;
      bool there = at < SIDE * EACH && first + at < count;
      size_t start = there ? (size_t)slots[first + at] * all.columns : 0;
      rows[i] = there ? Precision<T>::means(all) + start : nullptr;
    }
  }
  // Reads the coordinates from number `start` on.
  __device__ __forceinline__ void fetch(uint start, uint columns) {
    uint k = start + threadIdx.x % DEPTH;
#pragma unroll
    for (uint i = 0; i < EACH_THREAD; i++) next[i] = rows[i] && k < columns ? rows[i][k] : 0;
  }
  __device__ __forceinline__ void store(T (*tile)[WIDTH]) const {
#pragma unroll
    for (uint i = 0; i < EACH_THREAD; i++) {
      uint at = threadIdx.x / DEPTH + i * STEP;
      if (at < SIDE * EACH) tile[threadIdx.x % DEPTH][at] = next[i];
    }
  }
};

// Adds up the squares of the differences of coordinates of each query and each reference of this
// thread, coordinate after coordinate.
template <class T, uint EACH>
__device__ __forceinline__ void add_squares(Rows<T, EACH> &queries, Rows<T, EACH> &references,
                                            uint columns, Tiles<T, EACH> &tiles,
                                            T (&sums)[EACH][EACH]) {
  constexpr uint DEPTH = Tiles<T, EACH>::DEPTH;
  uint across = threadIdx.x % SIDE, down = threadIdx.x / SIDE;
  queries.fetch(0, columns);
  references.fetch(0, columns);
  for (uint start = 0, half = 0; start < columns; start += DEPTH, half ^= 1) {
    queries.store(tiles.queries[half]);
    references.store(tiles.references[half]);
    __syncthreads();
    if (start + DEPTH < columns) {
      queries.fetch(start + DEPTH, columns);
      references.fetch(start + DEPTH, columns);
    }
#pragma unroll 4
    for (uint k = 0; k < DEPTH; k++) {
      T query[EACH], reference[EACH];
      read(&tiles.queries[half][k][across * EACH], query);
      read(&tiles.references[half][k][down * EACH], reference);
#pragma unroll
      for (uint q = 0; q < EACH; q++)
#pragma unroll
        for (uint r = 0; r < EACH; r++) add_square(sums[q][r], query[q] - reference[r]);
    }
  }
}

// Writes the nearest references of each query of an item, by all threads of the block. `live` has
// the slots of `references` clusters, and `slots_of` the slots of the queries.
template <class T, uint EACH>
__device__ __forceinline__ void search_item(const Clusters &all, const uint *slots_of, uint queries,
                                            const uint *live, uint references, const Items &items,
                                            uint item, Memory<T> &memory, Tiles<T, EACH> &tiles) {
  const double *weights = weights_of(all);
  uint across = threadIdx.x % SIDE, down = threadIdx.x / SIDE;
  uint first_query = items.query_tile(item) * SIDE * EACH, part = item / items.query_tiles;
  Query<T> mine[EACH];
#pragma unroll
  for (uint q = 0; q < EACH; q++) {
    uint at = first_query + across * EACH + q, slot = at < queries ? slots_of[at] : NONE;
    mine[q].begin(slot, slot == NONE ? 0 : weights[slot]);
  }
  Rows<T, EACH> query_rows, reference_rows;
  query_rows.begin(all, slots_of, first_query, queries);
  uint end = items.first_tile(part + 1);
  for (uint tile = items.first_tile(part); tile < end; tile++) {
    uint first = tile * SIDE * EACH, slots[EACH];
    T sums[EACH][EACH] = {}, their_weights[EACH];
#pragma unroll
    for (uint r = 0; r < EACH; r++) {
      uint at = first + down * EACH + r;
      slots[r] = at < references ? live[at] : NONE;
      their_weights[r] = slots[r] == NONE ? 0 : weights[slots[r]];
    }
    reference_rows.begin(all, live, first, references);
    add_squares<T, EACH>(query_rows, reference_rows, all.columns, tiles, sums);
#pragma unroll
    for (uint r = 0; r < EACH; r++)
#pragma unroll
      for (uint q = 0; q < EACH; q++)
        if (slots[r] != NONE && slots[r] != mine[q].slot)
          mine[q].consider(all, sums[q][r], slots[r], their_weights[r]);
    // The first half of the tiles is written next, also if it was read last.
    __syncthreads();
  }
#pragma unroll
  for (uint q = 0; q < EACH; q++) {
    memory.found.least[down][across * EACH + q] = mine[q].nearest.least;
    memory.found.second[down][across * EACH + q] = mine[q].nearest.second;
    memory.found.slots[down][across * EACH + q] = mine[q].nearest.slot;
  }
  __syncthreads();
  if (threadIdx.x < SIDE * EACH) {
    Nearest<T> nearest;
    nearest.clear();
    for (uint i = 0; i < SIDE; i++)
      nearest.add({memory.found.least[i][threadIdx.x], memory.found.second[i][threadIdx.x],
                   memory.found.slots[i][threadIdx.x]});
    uint at = item * SIDE * EACH + threadIdx.x;
    all.least[at] = nearest.least;
    all.second[at] = nearest.second;
    all.least_slots[at] = nearest.slot;
  }
  // The found references are overwritten next.
  __syncthreads();
}

// Finds the nearest references of some queries in a precision, item by item.
template <class T>
__device__ __forceinline__ void search_all(const Clusters &all, const uint *slots_of, uint queries,
                                           uint round, Memory<T> &memory) {
  uint references = all.counts->live[round % 2];
  const uint *live = live_after(all, round);
  Items items(queries, references);
  for (uint item = blockIdx.x; item < items.count(); item += gridDim.x) {
    if (items.each == 1)
      search_item<T, 1>(all, slots_of, queries, live, references, items, item, memory,
                        memory.small);
    else
      search_item<T, MOST_EACH>(all, slots_of, queries, live, references, items, item, memory,
                                memory.large);
  }
}

// The nearest references of query number i, from the items of its search for every `step`-th part
// of the references.
template <class T>
__device__ __forceinline__ Nearest<T> found(const Clusters &all, const Items &items, uint i,
                                            uint first, uint step) {
  uint size = SIDE * items.each;
  Nearest<T> nearest;
  nearest.clear();
  for (uint part = first; part < items.parts; part += step) {
    uint at = (part * items.query_tiles + i / size) * size + i % size;
    nearest.add({T(all.least[at]), T(all.second[at]), all.least_slots[at]});
  }
  return nearest;
}
