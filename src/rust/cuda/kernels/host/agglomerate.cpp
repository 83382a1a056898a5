// agglomerate.cu and its headers for the CPU: see the tests in src/blocks/decisions.rs.

#include "cuda.hpp"

alignas(16) thread_local double memory[1 << 14];

#define DIMENSIONS 0
#define WITH_FULL_DISTANCES false
// The fewest that a module has, so that a few hundred observations take every way.
#define THREADS 128
#include "../agglomerate.cu"

// ---- cluster/shape.cuh and cluster/distance.cuh, function by function ----

EXPORT double host_geometric_mean(const double *values, uint count) {
  GeometricMean mean;
  for (uint i = 0; i < count; i++) mean.add(values[i]);
  return mean.of(count);
}

EXPORT bool host_is_full_size(double threshold, uint members) {
  return is_full_size(threshold, members);
}

EXPORT bool host_may_have_shape(double threshold, uint subthreshold, bool all_full_size,
                                uint members) {
  return may_have_shape(threshold, subthreshold, all_full_size, members);
}

// The quanta, and more than they drop of each term.
EXPORT void host_quanta(double stretch, double diagonal, uint log2_terms, double *out) {
  Quanta quanta;
  quanta_of(stretch, diagonal, log2_terms, &quanta);
  out[0] = quanta.high;
  out[1] = quanta.low;
  out[2] = rounding_of(quanta);
}

// The high and the low part of an exact sum, and the mean.
EXPORT void host_exact_sum(const double *terms, uint count, double high, double low, double *out) {
  Quanta quanta = {high, low};
  out[0] = out[1] = 0;
  for (uint i = 0; i < count; i++) {
    double2 term = exact_term(terms[i], quanta);
    out[0] += term.x;
    out[1] += term.y;
  }
  out[2] = exact_mean(out[0], out[1], count);
}

EXPORT double host_average(double to_owner, double from_owner) {
  return average(to_owner, from_owner);
}

// The distance of a point to a cluster, whose whitening factor, if any, is in bands; and the square
// of its distance to the mean.
template <int P>
double point_to_cluster(const double *x, const double *mean, uint p, const double *bands,
                        double *square) {
  Difference<P> difference(p, [&](uint k) { return x[k] - mean[k]; });
  *square = Difference<P>(p, [&](uint k) { return x[k]; }).square_to(p, mean);
  return bands ? difference.to_shape(p, bands) : difference.to_identity(p);
}

EXPORT double host_to_cluster(uint registers, const double *x, const double *mean, uint p,
                              const double *bands, double *square) {
  switch (registers) {
  case 16: return point_to_cluster<16>(x, mean, p, bands, square);
  case 24: return point_to_cluster<24>(x, mean, p, bands, square);
  case 32: return point_to_cluster<32>(x, mean, p, bands, square);
  default: return point_to_cluster<0>(x, mean, p, bands, square);
  }
}

// The mean and the scatter, packed, of a union: a single observation has a scatter of zeros.
EXPORT void host_merge(uint p, double members_a, const double *mean_a, const double *scatter_a,
                       double members_b, const double *mean_b, const double *scatter_b,
                       double *mean, double *scatter) {
  double share = share_of(members_a, members_b);
  double weight = between_weight(members_a, members_b);
  for (uint i = 0; i < p; i++) {
    double difference = mean_b[i] - mean_a[i];
    mean[i] = merged_mean(share, difference, mean_a[i]);
    for (uint j = 0; j <= i; j++) {
      uint at = packed_length(i) + j;
      scatter[at] =
          merged_scatter(weight * difference, mean_b[j] - mean_a[j], scatter_a[at] + scatter_b[at]);
    }
  }
}

// Where a packed factor is in bands; returns the length of that.
EXPORT uint host_bands(uint p, const double *packed, double *banded) {
  for (uint j = 0; j < band_rows(p, 0); j++) {
    uint band = j / BAND;
    for (uint i = BAND * band; i < band_rows(p, 0); i++)
      banded[band_start(p, band) + j % BAND * band_rows(p, band) + i - BAND * band] =
          i < p && j <= i ? packed[packed_length(i) + j] : 0;
  }
  return banded_length(p);
}

// ---- cluster/whitening.cuh, by a block ----

// The whitening factor, in bands, and the scalars of a shape with this scatter; false for the
// identity.
EXPORT bool host_reshape(const Arrays &arrays, const Task &task, bool all_full_size, uint members) {
  bool is_identity = false;
  static thread_local Shared shared;
  static thread_local Chunks chunks;
  launch({1}, THREADS, [&] {
    Problem problem = {arrays,
                       shared,
                       chunks,
                       arrays.dimensions,
                       task.observations,
                       task.observations,
                       task.first,
                       task.diagonal,
                       task.log2_terms,
                       0,
                       all_full_size,
                       0,
                       1};
    uint shape = reshape<true>(problem, 0, members);
    if (threadIdx.x == 0) is_identity = shape & IDENTITY;
  });
  return !is_identity;
}

// ---- the whole kernel ----

EXPORT void host_agglomerate(const Arrays &arrays, uint registers, bool full_distances,
                             uint blocks, bool descending) {
  backwards = descending;
  launch({blocks}, THREADS, [&] {
    switch (registers + full_distances) {
    case 0: return work<0, false>(arrays);
    case 1: return work<0, true>(arrays);
    case 16: return work<16, false>(arrays);
    case 17: return work<16, true>(arrays);
    case 32: return work<32, false>(arrays);
    case 33: return work<32, true>(arrays);
    }
  });
  backwards = false;
}
