// Whole small problems, a block each: all merges of one apriori cluster, from its observations to
// one cluster.
//
// Everything that decides is in double precision and in the order of operations of
// mahalanobis/shape.rs and mahalanobis/distance.rs, so that heights have the same bits; the kernels
// are compiled without contraction, so that only what is written as fma is fused. Which pair comes
// next is the definition's: the smallest distance, then the smaller slots. As in
// mahalanobis/agglomerate.rs a pair belongs to the younger of its clusters; each cluster knows the
// nearest of the older ones, and looks for another when that is merged away and its turn comes.
//
// The live clusters of a problem are at positions 0, 1, ... of its arrays. What has one entry for
// each cluster starts at the problem's first observation.

typedef unsigned int uint;
typedef unsigned long long ulong;

#define WARP 32
#define WHOLE_WARP 0xffffffffu
#define THREADS 128
#define WARPS (THREADS / WARP)
// On a multiprocessor. What a block waits for takes longer than what it spills.
#define BLOCKS 8
#define NONE 0xffffffffu
// Added to the number of a shape that is the identity.
#define IDENTITY 0x80000000u
#define INFINITE 0x7ff0000000000000ull
// What one thread has room for; larger problems are the CPU's.
#define MOST_DIMENSIONS 64
#define BAND 4
#define EPSILON 2.2204460492503131e-16
// The relative error of a lower bound is far below this.
#define SLACK 1e-9
// Merges between two looks at the host's wish to stop.
#define MERGES_BETWEEN_CHECKS 8

enum Subthreshold { MAHAL, MAHAL0, EUCLID, EUCLID_MAHAL };

// As struct Task in backend/cuda/blocks.rs.
struct Task {
  double diagonal;
  ulong first;
  uint observations;
  uint log2_terms;
};

// The rest of the options, and the arrays. As struct Arrays in backend/cuda/blocks.rs.
struct Arrays {
  double threshold;
  uint subthreshold, normalize, dimensions, tasks;
  const Task *task;
  const double *x;  // observation after observation
  double *means;    // in each problem dimension after dimension
  double *scatters; // by number of the shape: packed lower triangle
  double *factors;  // by number of the shape: whitening factor in bands
  double *values;   // the distance to the partner
  double *bounds;   // of the present sweep, in the order of `listed`
  double *forths;   // of the present sweep: distances to the owner, in the same order
  double *sums;     // two for each cluster: of the present sweep
  double *spreads;  // SPREAD for each cluster
  double *traits;   // TRAITS by number of the shape
  uint *slots, *sizes, *births, *shapes, *partners, *partner_births, *segments;
  uint *shape_stack; // numbers of shapes that are free again
  uint *born;        // by slot: its cluster's birth, NONE when merged away
  uint *places;      // by slot: its cluster's position
  uint *members, *members_after; // the observations of each cluster, in segments
  uint *owners, *owners_after; // the slots of their clusters
  uint *listed; // of the present sweep: positions
  double *heights;
  uint *lower, *higher;
  uint *next;              // the next task to do
  uint *faults;            // how many tasks could not be done
  uint *merged;            // merges done
  volatile uint *progress; // in the host's memory: merges done, as far as it needs to know
  volatile uint *stop;     // in the host's memory: its wish
};

// About a cluster's members around its mean, for the bound on mean norms: see struct Spread in
// backend/screen.rs.
enum Spread { VARIANCE, FOURTH, LARGEST, THIRD, SPREAD };

// Of a shape: the quanta of sums of distances to it, the rounding of those, and a lower bound on
// ‖Wy‖/‖y‖.
enum Trait { HIGH, LOW, ROUNDING, SMALLEST, TRAITS };

__device__ __forceinline__ uint packed_length(uint p) { return p * (p + 1) / 2; }

// Whitening factors are kept in bands of BAND rows, each as wide as its last row and filled up with
// zeros, column after column, so that a thread goes through the rows of a band at once.
__device__ __forceinline__ uint bands(uint p) { return (p + BAND - 1) / BAND; }
__device__ __forceinline__ uint band_start(uint band) {
  return BAND * BAND * band * (band + 1) / 2;
}
__device__ __forceinline__ uint banded_length(uint p) { return band_start(bands(p)); }

// An upper bound on the largest eigenvalue of a symmetric p x p matrix with this trace and this sum
// of squares of all elements (Wolkowicz and Styan 1980, "Bounds for eigenvalues using traces").
__device__ double largest_eigenvalue_bound(double trace, double squares, uint p) {
  double mean = trace / p;
  // What cancels in the difference is covered by the second term.
  double rest = fmax(squares - mean * trace, 0.0) + 1e-12 * squares;
  return (mean + sqrt(rest * (p - 1) / p)) * (1 + SLACK);
}

// ---- shape.rs ----

__device__ bool is_full_size(const Arrays &a, uint members) {
  return (double)members >= a.threshold;
}

__device__ double weight_of(const Arrays &a, uint members) {
  if (members <= 2) return 0;
  return is_full_size(a, members) ? 1 : (double)members / a.threshold;
}

__device__ bool may_have_shape(const Arrays &a, uint members, bool all_full_size) {
  double weight = weight_of(a, members);
  switch (a.subthreshold) {
  case EUCLID_MAHAL: return weight == 1;
  case EUCLID: return weight == 1 && all_full_size;
  default: return weight > 0;
  }
}

__device__ double split(double value, long long *exponent) {
  int shift = 0;
  if (value < 2.2250738585072014e-308) {
    value = value * 18014398509481984.0;
    shift = 54;
  }
  ulong bits = __double_as_longlong(value);
  *exponent = (long long)(bits >> 52) - 1023 - shift;
  return __longlong_as_double((bits & ((1ull << 52) - 1)) | (1023ull << 52));
}

__device__ double geometric_mean(const double *values, uint count) {
  double mantissa = 1;
  long long exponent = 0;
  for (uint i = 0; i < count; i++) {
    long long e, carry;
    double m = split(values[i], &e);
    mantissa = split(mantissa * m, &carry);
    exponent += e + carry;
  }
  long long whole = exponent / (long long)count;
  if (whole * (long long)count > exponent) whole -= 1;
  long long rest = exponent - whole * (long long)count;

  // log2 of the mantissa
  double x = mantissa, offset = 0;
  if (x > 1.41421356237309504880) {
    x = x * 0.5;
    offset = 1;
  }
  double z = (x - 1) / (x + 1);
  double square = z * z;
  double sum = 1.0 / 23.0;
#pragma unroll
  for (int odd = 21; odd >= 1; odd -= 2) sum = fma(square, sum, 1.0 / odd);
  double logarithm = fma(2.0 * 1.44269504088896340736 * z, sum, offset);

  double part = ((double)rest + logarithm) / (double)count;
  // 2^part
  double y = (part - 0.5) * 0.693147180559945309417;
  sum = 1;
#pragma unroll 1
  for (int k = 16; k >= 1; k--) sum = fma(y / (double)k, sum, 1.0);
  double value = 1.41421356237309504880 * sum;
  long long half = whole / 2;
  double first = __longlong_as_double((half + 1023) << 52);
  double second = __longlong_as_double((whole - half + 1023) << 52);
  return value * first * second;
}

// ---- blocks ----

struct Shared {
  double reduced[2 * WARPS];
  ulong keys[2 * WARPS];
  uint words[WARPS];
  uint listed;
  uint task;
  uint stop;
  double scalar;
  uint singular;
};

__device__ double block_max(Shared &s, double value) {
  for (int offset = WARP / 2; offset; offset /= 2)
    value = fmax(value, __shfl_xor_sync(WHOLE_WARP, value, offset));
  if (threadIdx.x % WARP == 0) s.reduced[threadIdx.x / WARP] = value;
  __syncthreads();
  value = s.reduced[0];
  for (int w = 1; w < WARPS; w++) value = fmax(value, s.reduced[w]);
  __syncthreads();
  return value;
}

// Two sums at once; for what does not depend on the order, or need not.
__device__ __noinline__ double2 block_sum(Shared &s, double x, double y) {
  for (int offset = WARP / 2; offset; offset /= 2) {
    x += __shfl_xor_sync(WHOLE_WARP, x, offset);
    y += __shfl_xor_sync(WHOLE_WARP, y, offset);
  }
  if (threadIdx.x % WARP == 0) {
    s.reduced[2 * (threadIdx.x / WARP)] = x;
    s.reduced[2 * (threadIdx.x / WARP) + 1] = y;
  }
  __syncthreads();
  x = s.reduced[0];
  y = s.reduced[1];
  for (int w = 1; w < WARPS; w++) {
    x += s.reduced[2 * w];
    y += s.reduced[2 * w + 1];
  }
  __syncthreads();
  return make_double2(x, y);
}

// A distance's bits (distances are >= 0, so their bits order them), then what decides among equals.
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

// The least key, and who brought it, in all threads.
__device__ __noinline__ Key block_least(Shared &s, Key key, uint *who) {
  for (int offset = WARP / 2; offset; offset /= 2) {
    Key other = {__shfl_xor_sync(WHOLE_WARP, key.value, offset),
                 __shfl_xor_sync(WHOLE_WARP, key.tie, offset)};
    uint theirs = __shfl_xor_sync(WHOLE_WARP, *who, offset);
    if (other < key) {
      key = other;
      *who = theirs;
    }
  }
  if (threadIdx.x % WARP == 0) {
    uint w = threadIdx.x / WARP;
    s.keys[2 * w] = key.value;
    s.keys[2 * w + 1] = key.tie;
    s.words[w] = *who;
  }
  __syncthreads();
  key = {s.keys[0], s.keys[1]};
  *who = s.words[0];
  for (int w = 1; w < WARPS; w++) {
    Key other = {s.keys[2 * w], s.keys[2 * w + 1]};
    if (other < key) {
      key = other;
      *who = s.words[w];
    }
  }
  __syncthreads();
  return key;
}

#define FOR_EACH(i, count) for (uint i = threadIdx.x; i < (count); i += THREADS)

// The state of a problem: everything offset to it.
struct Problem {
  const Arrays &a;
  Shared &s;
  uint p, n, live;
  ulong first;
  double diagonal;
  uint log2_terms;
  bool all_full_size;
  // In shared memory: triangles to work in, and vectors.
  double *factor, *work, *pivots, *mean, *rooms;

  __device__ double *shape_scatter(uint shape) const {
    return a.scatters + (first / 2 + shape) * packed_length(p);
  }
  __device__ double *shape_factor(uint shape) const {
    return a.factors + (first / 2 + shape) * banded_length(p);
  }
  __device__ double *shape_traits(uint shape) const {
    return a.traits + (first / 2 + shape) * TRAITS;
  }
  __device__ double *means() const { return a.means + first * p; }
  __device__ double mean_at(uint k, uint position) const {
    return means()[(size_t)k * n + position];
  }
  __device__ const double *observation(uint i) const { return a.x + (first + i) * p; }

  // The number of the whitening factor at a position, NONE for the identity.
  __device__ uint shape_at(uint position) const {
    uint shape = a.shapes[first + position];
    return shape & IDENTITY ? NONE : shape;
  }
};

// The Cholesky factor of the packed matrix in `work`, in place, its squared pivots in `pivots`;
// false when it is singular. Column after column, which for each element is the order of
// shape.rs.
__device__ __noinline__ bool cholesky(Problem &q) {
  uint p = q.p;
  double *matrix = q.work;
  double largest = 0;
  FOR_EACH(i, p) largest = fmax(largest, matrix[packed_length(i) + i]);
  largest = block_max(q.s, largest);
  double smallest = EPSILON * (double)p * largest;
  for (uint k = 0; k < p; k++) {
    double pivot = matrix[packed_length(k) + k];
    if (!(pivot > smallest)) {
      __syncthreads();
      return false;
    }
    double root = sqrt(pivot);
    __syncthreads();
    FOR_EACH(i, p) {
      if (i == k) {
        q.pivots[k] = pivot;
        matrix[packed_length(k) + k] = root;
      } else if (i > k) {
        matrix[packed_length(i) + k] = matrix[packed_length(i) + k] / root;
      }
    }
    __syncthreads();
    uint rest = p - k - 1;
    FOR_EACH(e, rest * rest) {
      uint i = k + 1 + e / rest, j = k + 1 + e % rest;
      if (j > i) continue;
      double *element = matrix + packed_length(i) + j;
      *element = fma(-matrix[packed_length(i) + k], matrix[packed_length(j) + k], *element);
    }
    __syncthreads();
  }
  return true;
}

// `geometric_mean` of the pivots, in all threads.
__device__ __noinline__ double mean_pivot(Problem &q) {
  if (threadIdx.x == 0) q.s.scalar = geometric_mean(q.pivots, q.p);
  __syncthreads();
  double mean = q.s.scalar;
  __syncthreads();
  return mean;
}

// What shape.rs calls whitening, for the scatter of this shape and so many members; writes the
// factor and the traits of the shape. Returns its number, with IDENTITY where it is that.
template <bool FULL> __device__ __noinline__ uint reshape(Problem &q, uint shape, uint members) {
  const Arrays &a = q.a;
  uint p = q.p, length = packed_length(p);
  double *traits = q.shape_traits(shape);
  const double *scatter = q.shape_scatter(shape);
  double weight = weight_of(a, members);
  bool identity =
      !may_have_shape(a, members, q.all_full_size) || (weight == 1 && members <= p);
  double scale = 1, largest_eigenvalue = 0;
  if (!identity) {
    double divisor = (double)members - 1.0;
    if (weight < 1) {
      double f = 1;
      if (a.subthreshold == MAHAL && members > p) {
        FOR_EACH(e, length) q.work[e] = scatter[e] / divisor;
        __syncthreads();
        if (cholesky(q)) f = mean_pivot(q);
      }
      double ridge = (1.0 - weight) * f;
      FOR_EACH(e, p * p) {
        uint i = e / p, j = e % p, at = packed_length(i) + j;
        if (j > i) continue;
        q.work[at] = fma(weight, scatter[at] / divisor, i == j ? ridge : 0.0);
      }
    } else {
      FOR_EACH(e, length) q.work[e] = scatter[e] / divisor;
    }
    __syncthreads();
    double squares = 0, trace = 0;
    FOR_EACH(e, p * p) {
      uint i = e / p, j = e % p;
      double value = q.work[j <= i ? packed_length(i) + j : packed_length(j) + i];
      squares = fma(value, value, squares);
      if (i == j) trace += value;
    }
    double2 norms = block_sum(q.s, squares, trace);
    largest_eigenvalue = largest_eigenvalue_bound(norms.y, norms.x, p);
    identity = !cholesky(q);
  }
  if (!identity) {
    if (a.normalize || !q.all_full_size) scale = sqrt(mean_pivot(q));
    // Columns of the inverse depend on nothing but the factor.
    FOR_EACH(j, p) {
      for (uint i = j; i < p; i++) {
        const double *row = q.work + packed_length(i);
        double value;
        if (i == j) {
          value = 1.0 / row[i];
        } else {
          double sum = 0;
          for (uint k = j; k < i; k++) sum = fma(row[k], q.factor[packed_length(k) + j], sum);
          value = -sum / row[i];
        }
        q.factor[packed_length(i) + j] = value;
      }
    }
    __syncthreads();
    double *factor = q.shape_factor(shape);
    FOR_EACH(e, length) q.factor[e] = q.factor[e] * scale;
    __syncthreads();
    FOR_EACH(i, bands(p) * BAND) {
      double *band = factor + band_start(i / BAND) + i % BAND;
      for (uint j = 0; j < (i / BAND + 1) * BAND; j++)
        band[BAND * j] = i < p && j <= i ? q.factor[packed_length(i) + j] : 0;
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    if (FULL) {
      double stretch = 1;
      if (!identity) {
        double square = 0;
        for (uint e = 0; e < length; e++) square = fma(q.factor[e], q.factor[e], square);
        stretch = sqrt(square);
      }
      double largest = 2.0 * stretch * q.diagonal;
      double terms = (double)(1ull << q.log2_terms);
      double bound =
          __longlong_as_double(((ulong)__double_as_longlong(largest) >> 52) << 52) * 2.0;
      double high = 1.5 * bound * terms;
      double low = high * terms * (0.5 * EPSILON);
      traits[HIGH] = high;
      traits[LOW] = low;
      traits[ROUNDING] = low * EPSILON;
    }
    traits[SMALLEST] =
        identity ? 1 : largest_eigenvalue > 0 ? scale / sqrt(largest_eigenvalue) * (1 - SLACK) : 0;
  }
  __syncthreads();
  return identity ? shape | IDENTITY : shape;
}

// ---- distance.rs ----

// A difference of two points: in registers for up to P dimensions, in the thread's own memory for
// P = 0.
template <int P> struct Difference {
  static constexpr int SIZE = P ? P : MOST_DIMENSIONS;
  static constexpr int UNROLL = P ? P : 1;
  double d[SIZE];
  template <typename F> __device__ Difference(uint p, F difference) {
#pragma unroll UNROLL
    for (int k = 0; k < SIZE; k++) {
      if (!P && k >= BAND * bands(p)) break;
      d[k] = k < p ? difference(k) : 0;
    }
  }
  __device__ __forceinline__ double to_identity(uint p) const {
    double square = 0;
#pragma unroll UNROLL
    for (int k = 0; k < SIZE; k++) {
      if (!P && k >= p) break;
      square = fma(d[k], d[k], square);
    }
    return sqrt(square);
  }
  // The square of the distance of two points, of which this holds one.
  __device__ __forceinline__ double square_to(uint p, const double *other) const {
    double square = 0;
#pragma unroll UNROLL
    for (int k = 0; k < SIZE; k++) {
      if (k >= p) break;
      double difference = d[k] - other[k];
      square = fma(difference, difference, square);
    }
    return square;
  }
  // To a cluster with this whitening factor, in bands. What fills them up changes nothing.
  __device__ __forceinline__ double to_shape(uint p, const double *factor) const {
    double square = 0;
#pragma unroll 1
    for (int band = 0; band < bands(p); band++) {
      double whitened[BAND] = {};
#pragma unroll UNROLL
      for (int start = 0; start < SIZE; start += BAND) {
        if (start > BAND * band) break;
#pragma unroll
        for (int k = start; k < start + BAND; k++) {
#pragma unroll
          for (int row = 0; row < BAND; row++)
            whitened[row] = fma(factor[BAND * k + row], d[k], whitened[row]);
        }
      }
#pragma unroll
      for (int row = 0; row < BAND; row++) square = fma(whitened[row], whitened[row], square);
      factor += BAND * BAND * (band + 1);
    }
    return sqrt(square);
  }
};

// A term of a sum that does not depend on the order, see ExactSum in distance.rs.
__device__ __forceinline__ double2 exact_term(double term, double quantum_high,
                                              double quantum_low) {
  double high = (term + quantum_high) - quantum_high;
  double rest = term - high;
  return make_double2(high, (rest + quantum_low) - quantum_low);
}

// The bound on the mean norm of E‖r + u‖, see backend/screen.rs.
__device__ double mean_norm(const double *spread, double square) {
  double second = spread[VARIANCE] + square;
  double factor = 4.0 * spread[LARGEST] + 2.0 * spread[VARIANCE] + square;
  double total = spread[FOURTH] + factor * square + 4.0 * spread[THIRD] * sqrt(square);
  return total > 0 ? sqrt(second) * (second / sqrt(total)) * (1 - 1e-6) : 0;
}

// ---- sweeps ----

// The quanta of a position's cluster; those of the identity where it has no shape.
__device__ void quanta_at(const Problem &q, uint position, double *high, double *low,
                          double *rounding) {
  uint shape = q.a.shapes[q.first + position];
  if (shape != NONE) {
    const double *traits = q.shape_traits(shape & ~IDENTITY);
    *high = traits[HIGH];
    *low = traits[LOW];
    *rounding = traits[ROUNDING];
    return;
  }
  double largest = 2.0 * q.diagonal;
  double terms = (double)(1ull << q.log2_terms);
  double bound = __longlong_as_double(((ulong)__double_as_longlong(largest) >> 52) << 52) * 2.0;
  *high = 1.5 * bound * terms;
  *low = *high * terms * (0.5 * EPSILON);
  *rounding = *low * EPSILON;
}

// The distance from the owner's mean to the cluster at a position with a shape, by a warp whose own
// `room` is 2p long.
__device__ double warp_to_shape(const Problem &q, uint position, uint shape, double *room) {
  uint p = q.p, lane = threadIdx.x % WARP;
  double *difference = room, *whitened = room + p;
  for (uint k = lane; k < p; k += WARP) difference[k] = q.mean[k] - q.mean_at(k, position);
  __syncwarp();
  const double *factor = q.shape_factor(shape);
  for (uint i = lane; i < p; i += WARP) {
    const double *band = factor + band_start(i / BAND) + i % BAND;
    double sum = 0;
#pragma unroll 8
    for (uint k = 0; k <= i; k++) sum = fma(band[BAND * k], difference[k], sum);
    whitened[i] = sum;
  }
  __syncwarp();
  double square = 0;
#pragma unroll 8
  for (uint i = 0; i < p; i++) square = fma(whitened[i], whitened[i], square);
  __syncwarp();
  return sqrt(square);
}

// The mean distance of the owner's members to the cluster at a position, by a warp.
template <int P> __device__ double warp_mean_distance(const Problem &q, uint owner, uint position) {
  const Arrays &a = q.a;
  uint shape = q.shape_at(position), size = a.sizes[q.first + owner];
  const uint *members = a.members + q.first + a.segments[q.first + owner];
  double quantum_high, quantum_low, rounding;
  quanta_at(q, position, &quantum_high, &quantum_low, &rounding);
  double high = 0, low = 0;
  for (uint m = threadIdx.x % WARP; m < size; m += WARP) {
    const double *x = q.observation(members[m]);
    Difference<P> difference(q.p, [&](uint k) { return x[k] - q.mean_at(k, position); });
    double distance = shape == NONE ? difference.to_identity(q.p)
                                    : difference.to_shape(q.p, q.shape_factor(shape));
    double2 term = exact_term(distance, quantum_high, quantum_low);
    high += term.x;
    low += term.y;
  }
  for (int offset = WARP / 2; offset; offset /= 2) {
    high += __shfl_xor_sync(WHOLE_WARP, high, offset);
    low += __shfl_xor_sync(WHOLE_WARP, low, offset);
  }
  return (high + low) / (double)size;
}

// Sums the distances of the members of the older clusters to the owner.
template <int P> __device__ __noinline__ void sum_members(Problem &q, uint owner, const double *factor) {
  const Arrays &a = q.a;
  ulong first = q.first;
  uint p = q.p, birth = a.births[first + owner];
  double quantum_high, quantum_low, rounding;
  quanta_at(q, owner, &quantum_high, &quantum_low, &rounding);
  FOR_EACH(i, 2 * q.live) a.sums[2 * first + i] = 0;
  __syncthreads();
  for (uint start = 0; start < q.n; start += THREADS) {
    uint m = start + threadIdx.x;
    uint place = NONE;
    double2 term = make_double2(0, 0);
    if (m < q.n) {
      place = a.places[first + a.owners[first + m]];
      if (a.births[first + place] >= birth || a.sizes[first + place] == 1) place = NONE;
    }
    if (place != NONE) {
      const double *x = q.observation(a.members[first + m]);
      Difference<P> difference(p, [&](uint k) { return x[k] - q.mean[k]; });
      double distance = factor ? difference.to_shape(p, factor) : difference.to_identity(p);
      term = exact_term(distance, quantum_high, quantum_low);
    }
    // The members of a cluster are neighbours: mostly the warp has one sum.
    uint head = __shfl_sync(WHOLE_WARP, place, 0);
    if (__all_sync(WHOLE_WARP, place == head)) {
      for (int offset = WARP / 2; offset; offset /= 2) {
        term.x += __shfl_xor_sync(WHOLE_WARP, term.x, offset);
        term.y += __shfl_xor_sync(WHOLE_WARP, term.y, offset);
      }
      if (threadIdx.x % WARP != 0) place = NONE;
    }
    if (place != NONE) {
      atomicAdd(a.sums + 2 * (first + place), term.x);
      atomicAdd(a.sums + 2 * (first + place) + 1, term.y);
    }
  }
  __syncthreads();
}

// Finds the nearest of the clusters that are older than the one at `owner`: first what takes little
// to know exactly, and lower bounds on the rest; then the rest, as far as the bounds compete.
template <int P, bool FULL> __device__ __noinline__ void sweep(Problem &q, uint owner) {
  const Arrays &a = q.a;
  uint p = q.p, live = q.live;
  ulong first = q.first;
  uint shape = q.shape_at(owner), slot = a.slots[first + owner], birth = a.births[first + owner];
  bool several = FULL && a.sizes[first + owner] > 1;
  // The owner's mean and factor go to shared memory.
  FOR_EACH(k, p) q.mean[k] = q.mean_at(k, owner);
  if (shape != NONE) {
    const double *factor = q.shape_factor(shape);
    FOR_EACH(e, banded_length(p)) q.factor[e] = factor[e];
  }
  if (threadIdx.x == 0) q.s.listed = 0;
  const double *factor = shape == NONE ? nullptr : q.factor;
  __syncthreads();
  if (FULL && live < q.n) sum_members<P>(q, owner, factor);

  const double *spread = a.spreads + (first + owner) * SPREAD;
  // At most how far the owner's mean, as rounded, is from that of its members: see
  // Clusters::mean_error in mahalanobis/clusters.rs.
  double mean_error = 0;
  if (several) {
    for (uint k = 0; k < p; k++) mean_error = fma(q.mean[k], q.mean[k], mean_error);
    mean_error = 4.0 * a.sizes[first + owner] * EPSILON * sqrt(mean_error);
  }
  Key best = {INFINITE, ~0ull};
  uint partner = NONE;
  FOR_EACH(other, live) {
    // All that is needed is asked for before anything is waited for.
    uint other_birth = a.births[first + other], other_slot = a.slots[first + other];
    uint other_size = a.sizes[first + other], other_shape = q.shape_at(other);
    Difference<P> difference(p, [&](uint k) { return q.mean_at(k, other) - q.mean[k]; });
    if (other_birth >= birth) continue;
    double centroids = difference.to_identity(p);
    double forth;
    if (FULL && other_size > 1) {
      const double *sum = a.sums + 2 * (first + other);
      forth = (sum[0] + sum[1]) / (double)other_size;
    } else {
      forth = factor ? difference.to_shape(p, factor) : centroids;
    }
    if (!several && other_shape == NONE) {
      Key key = pair_key(0.5 * (forth + centroids), slot, other_slot);
      if (key < best) {
        best = key;
        partner = other;
      }
      continue;
    }
    double smallest = other_shape == NONE ? 1 : q.shape_traits(other_shape)[SMALLEST];
    double norm = several ? fmax(centroids, mean_norm(spread, centroids * centroids)) : centroids;
    double back = smallest * (norm * (1 - SLACK) - mean_error);
    if (several) {
      double high, low, rounding;
      quanta_at(q, other, &high, &low, &rounding);
      back = fmax(back - rounding, 0.0);
    }
    double bound = 0.5 * (forth + back);
    if ((ulong)__double_as_longlong(bound) > best.value) continue;
    uint at = atomicAdd(&q.s.listed, 1);
    a.listed[first + at] = other;
    a.forths[first + at] = forth;
    a.bounds[first + at] = bound;
  }
  best = block_least(q.s, best, &partner);
  uint listed = q.s.listed;

  if (listed > 0) {
    // The one with the least bound, so that there is something to compete with.
    Key least = {INFINITE, ~0ull};
    uint nearest = 0;
    FOR_EACH(at, listed) {
      Key key = {(ulong)__double_as_longlong(a.bounds[first + at]), at};
      if (key < least) {
        least = key;
        nearest = at;
      }
    }
    block_least(q.s, least, &nearest);
    uint warp = threadIdx.x / WARP;
    double *room = q.rooms + warp * 2 * p;
    // Warps take one each; all begin with the nearest.
    Key mine = best;
    uint my_partner = partner;
    for (uint turn = 0; turn <= (listed + WARPS - 1) / WARPS; turn++) {
      uint at = turn == 0 ? nearest : (turn - 1) * WARPS + warp;
      if (at >= listed) break;
      if (turn > 0 && at == nearest) continue;
      if ((ulong)__double_as_longlong(a.bounds[first + at]) > mine.value) continue;
      uint other = a.listed[first + at];
      double back = several ? warp_mean_distance<P>(q, owner, other)
                            : warp_to_shape(q, other, a.shapes[first + other], room);
      Key key =
          pair_key(0.5 * (a.forths[first + at] + back), slot, a.slots[first + other]);
      if (key < mine) {
        mine = key;
        my_partner = other;
      }
    }
    best = block_least(q.s, mine, &my_partner);
    partner = my_partner;
  }
  if (threadIdx.x == 0) {
    a.values[first + owner] = __longlong_as_double(best.value);
    a.partners[first + owner] = partner == NONE ? NONE : a.slots[first + partner];
    a.partner_births[first + owner] = partner == NONE ? NONE : a.births[first + partner];
  }
  __syncthreads();
}

// As `sweep`, for all of the observations at the start: a thread each.
template <int P> __device__ __noinline__ void sweep_observations(Problem &q) {
  const Arrays &a = q.a;
  FOR_EACH(i, q.n) {
    const double *mine = q.observation(i);
    Difference<P> x(q.p, [&](uint k) { return mine[k]; });
    double least = __longlong_as_double(INFINITE), least_square = least;
    uint partner = NONE;
    for (uint j = 0; j < i; j++) {
      double square = x.square_to(q.p, q.observation(j));
      if (square >= least_square) continue;
      least_square = square;
      double distance = sqrt(square);
      if (distance < least) {
        least = distance;
        partner = j;
      }
    }
    a.values[q.first + i] = least;
    a.partners[q.first + i] = partner;
    a.partner_births[q.first + i] = partner;
  }
  __syncthreads();
}

// ---- merges ----

// Brings the members of the clusters at `to` and `from` together, those of `from` last or first.
__device__ __noinline__ void join_members(Problem &q, uint to, uint from) {
  const Arrays &a = q.a;
  ulong first = q.first;
  uint to_start = a.segments[first + to], to_size = a.sizes[first + to];
  uint from_start = a.segments[first + from], from_size = a.sizes[first + from];
  uint slot = a.slots[first + to];
  // The earlier segment stays, the later one moves to its end, what is between moves on.
  uint head = min(to_start, from_start), tail = max(to_start, from_start);
  uint head_size = head == to_start ? to_size : from_size;
  uint tail_size = head == to_start ? from_size : to_size;
  uint end = head + head_size;
  for (uint m = end + threadIdx.x; m < tail + tail_size; m += THREADS) {
    uint target = m < tail ? m + tail_size : end + (m - tail);
    a.members_after[first + target] = a.members[first + m];
    a.owners_after[first + target] = a.owners[first + m];
  }
  __syncthreads();
  for (uint m = end + threadIdx.x; m < tail + tail_size; m += THREADS) {
    a.members[first + m] = a.members_after[first + m];
    a.owners[first + m] = a.owners_after[first + m];
  }
  __syncthreads();
  FOR_EACH(m, head_size + tail_size) a.owners[first + head + m] = slot;
  FOR_EACH(position, q.live) {
    uint start = a.segments[first + position];
    if (start >= end && start < tail) a.segments[first + position] = start + tail_size;
  }
  __syncthreads();
  if (threadIdx.x == 0) a.segments[first + to] = head;
  __syncthreads();
}

// The spread of the members of the cluster at a position around its mean.
__device__ __noinline__ void measure_spread(Problem &q, uint position, const double *scatter) {
  const Arrays &a = q.a;
  uint p = q.p, size = a.sizes[q.first + position];
  const uint *members = a.members + q.first + a.segments[q.first + position];
  FOR_EACH(k, p) q.mean[k] = q.mean_at(k, position);
  __syncthreads();
  double2 moments = make_double2(0, 0);
  // Squares of the distances to the mean, for the third moments.
  FOR_EACH(m, size) {
    const double *x = q.observation(members[m]);
    double square = 0;
    for (uint k = 0; k < p; k++) square = fma(x[k] - q.mean[k], x[k] - q.mean[k], square);
    a.bounds[q.first + m] = square;
    moments.x += square;
    moments.y = fma(square, square, moments.y);
  }
  moments = block_sum(q.s, moments.x, moments.y);
  double third = 0, squares = 0, trace = 0;
  FOR_EACH(k, p) {
    double sum = 0;
    for (uint m = 0; m < size; m++)
      sum = fma(a.bounds[q.first + m], q.observation(members[m])[k] - q.mean[k], sum);
    third = fma(sum, sum, third);
  }
  FOR_EACH(e, p * p) {
    uint i = e / p, j = e % p;
    double value = scatter[j <= i ? packed_length(i) + j : packed_length(j) + i];
    squares = fma(value, value, squares);
    if (i == j) trace += value;
  }
  double2 norms = block_sum(q.s, squares, trace);
  third = block_sum(q.s, third, 0).x;
  if (threadIdx.x == 0) {
    double *spread = a.spreads + (q.first + position) * SPREAD;
    spread[VARIANCE] = moments.x / size * (1 - SLACK);
    spread[FOURTH] = moments.y / size * (1 + SLACK);
    spread[LARGEST] = largest_eigenvalue_bound(norms.y, norms.x, p) / size * (1 + SLACK);
    spread[THIRD] = sqrt(third) / size * (1 + SLACK);
  }
  __syncthreads();
}

// Merges the clusters at the positions `to` (of the lower slot) and `from`, and says where the
// result is.
template <bool FULL>
__device__ __noinline__ uint merge(Problem &q, uint to, uint from, uint birth, uint *shapes_used,
                      uint *shapes_free) {
  const Arrays &a = q.a;
  uint p = q.p;
  ulong first = q.first;
  uint size_a = a.sizes[first + to], size_b = a.sizes[first + from];
  uint shape_a = a.shapes[first + to], shape_b = a.shapes[first + from];
  double m_a = size_a, m_b = size_b;
  double share = m_b / (m_a + m_b);
  double weight = m_a * m_b / (m_a + m_b);
  FOR_EACH(k, p) q.mean[k] = q.mean_at(k, from) - q.mean_at(k, to);
  // The numbers without what they are.
  if (shape_a != NONE) shape_a &= ~IDENTITY;
  if (shape_b != NONE) shape_b &= ~IDENTITY;
  uint shape = shape_a != NONE ? shape_a : shape_b;
  if (shape == NONE) {
    if (*shapes_free > 0) {
      *shapes_free -= 1;
      shape = a.shape_stack[first + *shapes_free];
    } else {
      shape = *shapes_used;
      *shapes_used += 1;
    }
  } else if (shape_a != NONE && shape_b != NONE) {
    if (threadIdx.x == 0) a.shape_stack[first + *shapes_free] = shape_b;
    *shapes_free += 1;
  }
  __syncthreads();
  double *scatter = q.shape_scatter(shape);
  FOR_EACH(e, p * p) {
    uint i = e / p, j = e % p, at = packed_length(i) + j;
    if (j > i) continue;
    double both = shape_a == NONE ? 0.0 : q.shape_scatter(shape_a)[at];
    if (shape_b != NONE) both = both + q.shape_scatter(shape_b)[at];
    scatter[at] = fma(weight * q.mean[i], q.mean[j], both);
  }
  FOR_EACH(k, p) {
    double *value = q.means() + (size_t)k * q.n + to;
    *value = fma(share, q.mean[k], *value);
  }
  __syncthreads();
  if (FULL) join_members(q, to, from);
  uint size = size_a + size_b, last = q.live - 1;
  if (threadIdx.x == 0) {
    a.born[first + a.slots[first + to]] = birth;
    a.born[first + a.slots[first + from]] = NONE;
    a.sizes[first + to] = size;
    a.births[first + to] = birth;
  }
  __syncthreads();
  // The last position fills the gap.
  if (from != last) {
    FOR_EACH(k, p) {
      double *means = q.means() + (size_t)k * q.n;
      means[from] = means[last];
    }
    if (threadIdx.x == 0) {
      uint slot = a.slots[first + last];
      a.slots[first + from] = slot;
      a.places[first + slot] = from;
      a.sizes[first + from] = a.sizes[first + last];
      a.births[first + from] = a.births[first + last];
      a.shapes[first + from] = a.shapes[first + last];
      a.values[first + from] = a.values[first + last];
      a.partners[first + from] = a.partners[first + last];
      a.partner_births[first + from] = a.partner_births[first + last];
      if (FULL) {
        a.segments[first + from] = a.segments[first + last];
        for (uint k = 0; k < SPREAD; k++)
          a.spreads[(first + from) * SPREAD + k] = a.spreads[(first + last) * SPREAD + k];
      }
    }
  }
  q.live = last;
  __syncthreads();
  uint position = to == last ? from : to;
  shape = reshape<FULL>(q, shape, size);
  if (threadIdx.x == 0) a.shapes[first + position] = shape;
  __syncthreads();
  if (FULL) measure_spread(q, position, scatter);
  return position;
}

// All merges of a problem; false when it was stopped or something is wrong.
template <int P, bool FULL> __device__ __noinline__ bool agglomerate(Problem &q) {
  const Arrays &a = q.a;
  uint p = q.p, n = q.n;
  ulong first = q.first;
  FOR_EACH(i, n) {
    const double *x = q.observation(i);
    for (uint k = 0; k < p; k++) q.means()[(size_t)k * n + i] = x[k];
    a.slots[first + i] = i;
    a.places[first + i] = i;
    a.sizes[first + i] = 1;
    a.births[first + i] = i;
    a.born[first + i] = i;
    a.shapes[first + i] = NONE;
    if (FULL) {
      a.segments[first + i] = i;
      a.members[first + i] = i;
      a.owners[first + i] = i;
      for (uint k = 0; k < SPREAD; k++) a.spreads[(first + i) * SPREAD + k] = 0;
    }
  }
  __syncthreads();
  uint birth = n, shapes_used = 0, shapes_free = 0, merges = 0;
  uint below = is_full_size(a, 1) ? 0 : n;
  q.all_full_size = below == 0;
  sweep_observations<P>(q);

  while (q.live > 1) {
    // The least of what is known of all pairs; what is out of date comes first among equals.
    Key least = {INFINITE, ~0ull};
    uint owner = NONE;
    FOR_EACH(position, q.live) {
      uint partner = a.partners[first + position];
      if (partner == NONE) continue;
      Key key = pair_key(a.values[first + position], a.slots[first + position], partner);
      bool dated = a.born[first + partner] != a.partner_births[first + position];
      if (!dated) key.tie |= 1ull << 63;
      if (key < least) {
        least = key;
        owner = position;
      }
    }
    least = block_least(q.s, least, &owner);
    if (owner == NONE) return false;
    if (!(least.tie >> 63)) {
      sweep<P, FULL>(q, owner);
      continue;
    }
    if (merges % MERGES_BETWEEN_CHECKS == 0) {
      if (threadIdx.x == 0) {
        q.s.stop = *a.stop;
        *a.progress = atomicAdd(a.merged, MERGES_BETWEEN_CHECKS);
      }
      __syncthreads();
      if (q.s.stop) return false;
    }
    uint lower = (uint)(least.tie >> 32) & 0x7fffffffu, higher = (uint)least.tie;
    if (threadIdx.x == 0) {
      a.lower[first + merges] = lower;
      a.higher[first + merges] = higher;
      a.heights[first + merges] = __longlong_as_double(least.value);
    }
    merges += 1;
    uint to = a.places[first + lower], from = a.places[first + higher];
    uint before = !is_full_size(a, a.sizes[first + to]) + !is_full_size(a, a.sizes[first + from]);
    uint size = a.sizes[first + to] + a.sizes[first + from];
    __syncthreads();
    uint position = merge<FULL>(q, to, from, birth, &shapes_used, &shapes_free);
    birth += 1;
    below -= before - !is_full_size(a, size);
    if (q.live == 1) break;
    if (below == 0 && !q.all_full_size) {
      // All have become full-size: all shapes and distances are computed anew.
      q.all_full_size = true;
      for (uint i = 0; i < q.live; i++) {
        uint shape = a.shapes[first + i];
        if (shape == NONE) continue;
        shape = reshape<FULL>(q, shape & ~IDENTITY, a.sizes[first + i]);
        if (threadIdx.x == 0) a.shapes[first + i] = shape;
      }
      __syncthreads();
      for (uint i = 0; i < q.live; i++) sweep<P, FULL>(q, i);
      continue;
    }
    sweep<P, FULL>(q, position);
  }
  return true;
}

template <int P, bool FULL> __device__ void work(const Arrays &arrays, double *memory) {
  __shared__ Shared shared;
  uint p = arrays.dimensions;
  if (threadIdx.x == 0) shared.stop = 0;
  for (;;) {
    if (threadIdx.x == 0) shared.task = atomicAdd(arrays.next, 1);
    __syncthreads();
    uint task = shared.task;
    __syncthreads();
    if (task >= arrays.tasks) return;
    const Task &t = arrays.task[task];
    Problem problem = {arrays,     shared,       p,    t.observations, t.observations, t.first,
                       t.diagonal, t.log2_terms, false};
    problem.factor = memory;
    problem.work = problem.factor + banded_length(p);
    problem.pivots = problem.work + packed_length(p);
    problem.mean = problem.pivots + p;
    problem.rooms = problem.mean + p; // 2p for each warp
    if (!agglomerate<P, FULL>(problem)) {
      if (threadIdx.x == 0) atomicAdd(arrays.faults, 1);
      if (shared.stop) return;
    }
    __syncthreads();
  }
}

// tools/build-kernels compiles a variant for each of some DIMENSIONS that points in registers may
// have (0: as many as there are, not in registers) and for centroid (FULL false) and full distances.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) agglomerate(Arrays arrays) {
  extern __shared__ double memory[];
  work<DIMENSIONS, FULL_DISTANCES>(arrays, memory);
}
