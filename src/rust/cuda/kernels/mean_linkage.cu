// Merges all clusters of a linkage by means (neighbours/cluster_means.rs) to one, in rounds of
// reciprocal nearest neighbours, as linkage/geometric/reciprocal_merges.rs does. All distances have
// the bits of that code.
//
// A round is a launch of each of six kernels:
// - `merge` merges all pairs of clusters that are nearest to each other;
// - `collect` lists the remaining clusters, and those among them whose nearest cluster is not known
//   any more: unions, and clusters whose nearest cluster was merged;
// - `sweep` compares the latter, the queries, with all remaining clusters, the references, in single
//   precision;
// - `decide` writes the nearest cluster of each query, if the second nearest is so much farther that
//   rounding cannot matter, and lists the other queries as open;
// - `search` compares open queries with all references in double precision;
// - `settle` writes their nearest clusters.
// Before the first round, the last four find the nearest cluster of each cluster. The host launches
// several rounds at a time; a round after the last merge does nothing.
//
// The linkages are reducible: a union is not nearer to a cluster than the nearer of its parts. So
// the nearest cluster of a cluster stays the nearest until one of both is merged. If distances tie,
// nearest clusters may form a cycle, so that a round has no merge. Then all are searched for again.
//
// The CPU's code does the same, with one exception: in a round with many searches for each merge, it
// puts off searches. This changes the merges only if distances tie. Kernels report both, `crowded`
// and `tied`, and the host then leaves all merges to that code.

#include "mean_linkage_launch.cuh"

// Bytes of the coordinates of a cluster in shared memory at a time.
#define DEPTH_BYTES 64
// Keeps threads that write to a tile from waiting for the same bank of shared memory.
#define PADDING 4

// Below this distance, its square may lose digits.
#define LEAST_DISTANCE 1e-140
// A little more than 1/2, to be safe from rounding. In single precision, the margin is.
#define ABOVE_HALF 0.500000001

// The distance of two clusters, given the sum of squares between their means, and their sizes, for
// Ward's linkage, or their variances. As ClusterMeans::distance_of.
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
  // The margin is greater.
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
  // The size or the variance, see `distance_of`.
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

// The nearest references of query number i, from the items of its search for every `step`-th part of
// the references.
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

// Number of pairs of open queries and references.
__device__ __forceinline__ ulong open_pairs(const Clusters &all, uint round) {
  return (ulong)all.counts->open * all.counts->live[round % 2];
}

// Finds the nearest references in single precision of all queries after a round. Any number of
// blocks.
extern "C" __global__ void __launch_bounds__(THREADS, 2) sweep(Clusters all, uint round) {
  __shared__ __align__(16) Memory<float> memory;
  if (all.counts->given_up) return;
  search_all(all, all.changed, all.counts->changed, round, memory);
}

// Finds the nearest references of all open queries after a round, unless there are too many. Any
// number of blocks.
extern "C" __global__ void __launch_bounds__(THREADS, 2) search(Clusters all, uint round) {
  __shared__ __align__(16) Memory<double> memory;
  if (open_pairs(all, round) > all.most_open) return;
  search_all(all, all.open, all.counts->open, round, memory);
}

// The distance of two clusters in double precision.
__device__ __forceinline__ double distance(const Clusters &all, uint i, uint j) {
  const double *a = all.means + (size_t)i * all.columns, *b = all.means + (size_t)j * all.columns;
  double sum = 0;
  for (uint k = 0; k < all.columns; k++) add_square(sum, a[k] - b[k]);
  const double *weights = weights_of(all);
  return distance_of(all.linkage, sum, weights[i], weights[j]);
}

// Writes the nearest cluster of each query after a round, or lists the query as open. As many blocks
// as `sweep`, since the items depend on their number.
extern "C" __global__ void __launch_bounds__(THREADS) decide(Clusters all, uint round) {
  Counts &counts = *all.counts;
  if (counts.given_up) return;
  uint queries = counts.changed, lane = threadIdx.x % WARP;
  uint merges = counts.merges - counts.merges_after[(round + 1) % 2];
  if (round > 0 && merges > 0 && queries > (ulong)all.searches_per_merge * merges)
    counts.crowded = 1;
  Items items(queries, counts.live[round % 2]);
  const double *weights = weights_of(all);
  uint step = gridDim.x * THREADS;
  for (uint i = blockIdx.x * THREADS + threadIdx.x; i - lane < queries; i += step) {
    uint slot = i < queries ? all.changed[i] : NONE;
    bool is_open = false;
    if (slot != NONE) {
      Nearest<float> nearest = found<float>(all, items, i, 0, 1);
      // The last cluster has no other one.
      is_open = nearest.slot != NONE &&
                nearest.second <= farthest(all, nearest.least, float(weights[slot]));
      if (!is_open) {
        all.nearest[slot] = nearest.slot;
        all.distances[slot] = nearest.slot == NONE ? infinity() : distance(all, slot, nearest.slot);
      }
    }
    append(all.open, &counts.open, slot, is_open);
  }
}

// Writes the nearest cluster of each open query after a round, by a warp for each query. As many
// blocks as `search`.
extern "C" __global__ void __launch_bounds__(THREADS) settle(Clusters all, uint round) {
  Counts &counts = *all.counts;
  uint queries = counts.open;
  bool are_too_many = open_pairs(all, round) > all.most_open;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    ulong pairs = (ulong)counts.changed * counts.live[round % 2];
    counts.compared += pairs + OPEN_COST * open_pairs(all, round);
    if (are_too_many) counts.given_up = 1;
  }
  if (are_too_many) return;
  Items items(queries, counts.live[round % 2]);
  const double *weights = weights_of(all);
  uint lane = threadIdx.x % WARP, first = (blockIdx.x * THREADS + threadIdx.x) / WARP;
  for (uint i = first; i < queries; i += gridDim.x * (THREADS / WARP)) {
    Nearest<double> nearest = found<double>(all, items, i, lane, WARP);
    for (uint offset = WARP / 2; offset > 0; offset /= 2)
      nearest.add({__shfl_xor_sync(WHOLE_WARP, nearest.least, offset),
                   __shfl_xor_sync(WHOLE_WARP, nearest.second, offset),
                   __shfl_xor_sync(WHOLE_WARP, nearest.slot, offset)});
    if (lane > 0) continue;
    uint slot = all.open[i];
    all.nearest[slot] = nearest.slot;
    all.distances[slot] = nearest.least;
    if (nearest.second <= farthest(all, nearest.least, weights[slot])) counts.tied = 1;
  }
}

// Writes the mean, the size and the variance of the union of two clusters to the lower slot, and
// empties the higher slot, by all threads of a warp. As ClusterMeans::merge.
__device__ __forceinline__ void unite(const Clusters &all, uint lower, uint higher) {
  uint lane = threadIdx.x % WARP;
  double *to = all.means + (size_t)lower * all.columns;
  const double *from = all.means + (size_t)higher * all.columns;
  double a = all.sizes[lower], b = all.sizes[higher];
  double share = all.linkage == MCQUITTY ? 0.5 : b / (a + b), sum = 0;
  for (uint start = 0; start < all.columns; start += WARP) {
    uint k = start + lane;
    double square = 0;
    if (k < all.columns) {
      double difference = from[k] - to[k], mean = to[k] + share * difference;
      to[k] = mean;
      all.single_means[(size_t)lower * all.columns + k] = mean * all.scale;
      square = difference * difference;
    }
    if (all.linkage == WARD) continue;
    // In the order of the coordinates.
    for (uint i = 0; i < WARP; i++) sum += __shfl_sync(WHOLE_WARP, square, i);
  }
  // All threads have read the sizes.
  __syncwarp();
  if (lane > 0) return;
  double v = all.variances[lower], w = all.variances[higher];
  all.variances[lower] = (1.0 - share) * v + share * w + 0.5 * share * (1.0 - share) * sum;
  all.sizes[lower] = a + b;
  all.sizes[higher] = 0;
}

// Merges all reciprocal pairs of the clusters that remained after the round before, each by a warp.
// Any number of blocks.
extern "C" __global__ void __launch_bounds__(THREADS) merge(Clusters all, uint round) {
  Counts &counts = *all.counts;
  if (counts.given_up) return;
  uint first = blockIdx.x * THREADS + threadIdx.x, before = counts.live[(round + 1) % 2];
  if (first == 0) counts.changed = counts.open = counts.live[round % 2] = 0;
  const uint *live = live_after(all, round + 1);
  for (uint i = first / WARP; i < before; i += gridDim.x * (THREADS / WARP)) {
    uint lower = live[i], higher = all.nearest[lower];
    if (higher == NONE || higher < lower || all.nearest[higher] != lower) continue;
    unite(all, lower, higher);
    if (threadIdx.x % WARP == 0) {
      uint at = atomicAdd(&counts.merges, 1u);
      all.heights[at] = all.distances[lower];
      all.lower[at] = lower;
      all.higher[at] = higher;
      all.merged_in[lower] = all.merged_in[higher] = round;
    }
  }
}

// Lists the clusters that remain after a round, and those among them to search for: all if the round
// had no merge. Any number of blocks.
extern "C" __global__ void __launch_bounds__(THREADS) collect(Clusters all, uint round) {
  Counts &counts = *all.counts;
  if (counts.given_up) return;
  uint merges = counts.merges - counts.merges_after[(round + 1) % 2];
  if (blockIdx.x == 0 && threadIdx.x == 0) counts.merges_after[round % 2] = counts.merges;
  uint before = counts.live[(round + 1) % 2], lane = threadIdx.x % WARP;
  const uint *live = live_after(all, round + 1);
  uint step = gridDim.x * THREADS;
  for (uint i = blockIdx.x * THREADS + threadIdx.x; i - lane < before; i += step) {
    uint slot = i < before ? live[i] : NONE;
    bool remains = slot != NONE && all.sizes[slot] > 0, has_changed = false;
    if (remains) {
      uint nearest = all.nearest[slot];
      has_changed = merges == 0 || all.merged_in[slot] == round ||
                    nearest != NONE && all.merged_in[nearest] == round;
    }
    append(live_after(all, round), &counts.live[round % 2], slot, remains);
    append(all.changed, &counts.changed, slot, has_changed);
  }
}

// Makes the copy of all means in single precision. Any number of blocks.
extern "C" __global__ void __launch_bounds__(THREADS) convert(Clusters all, uint clusters) {
  size_t count = (size_t)clusters * all.columns, step = (size_t)gridDim.x * THREADS;
  for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += step)
    all.single_means[i] = all.means[i] * all.scale;
}
