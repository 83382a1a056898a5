// Definitions for all kernels for Mahalanobis-average clustering: options, and the layout of shapes
// and moments. src/blocks/arrays.rs has the same definitions, and a test compares them.

#pragma once

#include "base.cuh"

// Maximum number of columns that the kernels are compiled for: 64 in agglomerate.cu. Modules of
// tree.cu for more columns define it as DIMENSIONS, and keep points in memory.
#ifndef MOST_DIMENSIONS
#define MOST_DIMENSIONS 64
#endif
// Number of rows of a whitening factor that are stored together: see `bands` in cluster/shape.cuh.
#define BAND 4

enum Subthreshold { MAHAL, MAHAL0, EUCLID, EUCLID_MAHAL };

// Moments of a cluster's members about its mean, for the lower bound on mean norms: see struct
// Spread in screen/profile.rs. MOMENTS is the number of moments.
enum Moment { MOMENT_VARIANCE, MOMENT_FOURTH, MOMENT_LARGEST, MOMENT_THIRD, MOMENTS };

// Scalars of a shape: the quanta of exact sums of distances to it, an upper bound on the rounding
// of each term of these sums, and a lower and an upper bound on ‖Wy‖/‖y‖. SHAPE_SCALARS is the
// number of scalars.
enum ShapeScalar { QUANTUM_HIGH, QUANTUM_LOW, ROUNDING, SMALLEST_STRETCH, STRETCH, SHAPE_SCALARS };

// Mark of a shape that is the identity, added to its number.
#define IDENTITY 0x80000000u

// Number of elements of a packed lower triangle of p rows; also the index of the first element of
// row p.
__host__ __device__ __forceinline__ uint packed_length(uint p) { return p * (p + 1) / 2; }
// Index of element (i, j) of a packed symmetric matrix.
__host__ __device__ __forceinline__ uint packed_at(uint i, uint j) {
  return j <= i ? packed_length(i) + j : packed_length(j) + i;
}
