// k-means, with the bits of kmeans/mod.rs and kmeans/seed.rs: every sum in double precision has one
// order, independent of the threads that compute it.
//
// Observations and centers are stored row after row. An iteration first compares observations with
// all centers, in half precision (kmeans/candidates.cuh) or in single precision
// (kmeans/screen.cuh), or with the centers near their own (kmeans/near.cuh). Then it decides the
// remaining observations in double precision (kmeans/exact.cuh), and moves the centers
// (kmeans/update.cuh).

#include "kmeans/candidates.cuh"
#include "kmeans/draw.cuh"
#include "kmeans/exact.cuh"
#include "kmeans/near.cuh"
#include "kmeans/screen.cuh"
#include "kmeans/update.cuh"
