// What all kernels for Mahalanobis-average clustering have in common: options, and the layout of
// shapes and moments. src/blocks/arrays.rs has the same, and a test compares them.

#pragma once

#include "base.cuh"

// What one thread has room for; problems of more dimensions are the CPU's.
#ifndef MOST_DIMENSIONS
#define MOST_DIMENSIONS 64
#endif
// Rows of a whitening factor that are stored together: see `bands` in shape.cuh.
#define BAND 4

enum Subthreshold { MAHAL, MAHAL0, EUCLID, EUCLID_MAHAL };

// Moments of a cluster's members around its mean, for the lower bound on mean norms: see struct
// Spread in screen/profile.rs. MOMENTS is their number.
enum Moment { MOMENT_VARIANCE, MOMENT_FOURTH, MOMENT_LARGEST, MOMENT_THIRD, MOMENTS };

// Of a shape: the quanta of exact sums of distances to it, a bound on what these round off, and a
// lower bound on ‖Wy‖/‖y‖. SHAPE_SCALARS is their number.
enum ShapeScalar { QUANTUM_HIGH, QUANTUM_LOW, ROUNDING, SMALLEST_STRETCH, SHAPE_SCALARS };

// Added to the number of a shape that is the identity.
#define IDENTITY 0x80000000u

// Elements of a lower triangle of p rows; also where row p of a packed one starts.
__host__ __device__ __forceinline__ uint packed_length(uint p) { return p * (p + 1) / 2; }
// Where element (i, j) of a packed symmetric matrix is.
__host__ __device__ __forceinline__ uint packed_at(uint i, uint j) {
  return j <= i ? packed_length(i) + j : packed_length(j) + i;
}
