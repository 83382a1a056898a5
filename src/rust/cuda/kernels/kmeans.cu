// k-means, with the bits of kmeans/mod.rs and kmeans/seed.rs: every sum in double precision has one
// order, independent of the threads that compute it.
//
// Observations and centers are stored row after row. An iteration first compares observations with
// all centers, in half precision (kmeans_candidates.cuh) or in single precision
// (kmeans_screen.cuh), or with the centers near their own (kmeans_near.cuh). Then it decides the
// remaining observations in double precision (kmeans_exact.cuh), and moves the centers
// (kmeans_update.cuh).

#include "kmeans_candidates.cuh"
#include "kmeans_draw.cuh"
#include "kmeans_exact.cuh"
#include "kmeans_near.cuh"
#include "kmeans_screen.cuh"
#include "kmeans_update.cuh"
