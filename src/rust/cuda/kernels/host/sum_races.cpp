// Sums distances between a node and clusters by a block of a tree under ThreadSanitizer, which
// reports each pair of threads that race. Fails if a sum is not that of its terms. See the test in
// src/tree/host.rs.

#define RACES
#include "cuda.hpp"

alignas(16) thread_local double memory[1 << 14];

#define DIMENSIONS 52
#include "../tree/help.cuh"

#include <random>

// Members of the node, then of the clusters: some directions have many spans, others few.
static const uint SIZES[] = {700, 300, 5, 40, 260};
static const uint NODES = 5, P = 21;

int main() {
  std::mt19937 random;
  std::normal_distribution<double> normal;
  uint observations = 0;
  Tree tree = {};
  tree.dimensions = P;
  tree.clusters = NODES;
  tree.member_room = 1;
  tree.log2_terms = 11;
  tree.diagonal = 100;
  tree.sizes = array<uint>(NODES);
  tree.shapes = array<uint>(NODES);
  tree.member_starts = array<uint>(NODES);
  tree.means = array<double>(NODES * P);
  tree.factors = array<double>(NODES * banded_length(P));
  tree.spreads = array<double>(NODES * spread_length(P));
  for (uint node = 0; node < NODES; node++) {
    tree.sizes[node] = SIZES[node];
    tree.member_starts[node] = observations;
    observations += SIZES[node];
    // The third cluster has no shape.
    tree.shapes[node] = node == 3 ? NONE : node;
    for (uint k = 0; k < P; k++) tree.means[node * P + k] = normal(random);
    double *bands = bands_of(tree, node);
    for (uint k = 0; k < P; k++)
      for (uint i = k; i < P; i++)
        bands[band_start(P, k / BAND) + k % BAND * band_rows(P, k / BAND) + i - k / BAND * BAND] =
            normal(random);
    Quanta quanta;
    quanta_of(100, tree.diagonal, tree.log2_terms, &quanta);
    spread_of(tree, node)[QUANTUM_OF_HIGH] = quanta.high;
    spread_of(tree, node)[QUANTUM_OF_LOW] = quanta.low;
  }
  tree.members = array<uint>(observations);
  double *x = array<double>(observations * P);
  for (uint m = 0; m < observations; m++) tree.members[m] = observations - 1 - m;
  for (uint i = 0; i < observations * P; i++) x[i] = normal(random);
  tree.x = x;

  double found[JOB_SUMS];
  launch({1}, THREADS, [&] {
    __shared__ Shared shared;
    SearchState &search = *(SearchState *)memory;
    Workspace room(tree, shared, memory + SEARCH_BYTES / sizeof(double) + query_doubles(P));
    uint i = threadIdx.x;
    if (i == 0) search.node = operand_of(tree, 0);
    if (i < DECIDED_TOGETHER) search.sizes[i] = 0;
    __syncthreads();
    if (i > 0 && i < NODES) put_cluster(search, i - 1, operand_of(tree, i));
    FOR_EACH(k, JOB_SUMS) search.sums[k] = 0;
    find_spans(search, SPAN);
    add_part(tree, search, 0, 1, search.sums, room);
    __syncthreads();
    FOR_EACH(k, JOB_SUMS) found[k] = search.sums[k];
  });
  bool is_right = true;
  for (uint direction = 0; direction < 2 * (NODES - 1); direction++) {
    Operand cluster = operand_of(tree, 1 + direction / 2), node = operand_of(tree, 0);
    Operand from = direction % 2 ? node : cluster, to = direction % 2 ? cluster : node;
    double high = 0, low = 0;
    for (uint m = 0; m < from.size; m++) {
      double2 term = member_term(tree, from, m, target_of(tree, to));
      high += term.x, low += term.y;
    }
    is_right =
        is_right && high > 0 && found[2 * direction] == high && found[2 * direction + 1] == low;
  }
  return is_right ? 0 : 1;
}
