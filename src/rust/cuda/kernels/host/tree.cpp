// tree.cu for the CPU, with one block: see the tests in src/tree/host.rs.

#include "cuda.hpp"

#define DIMENSIONS 16
#define BLOCKS 1

thread_local double memory[1 << 16];
thread_local double triangles[1 << 14];

#include "../tree.cu"

// Draws the balls (0), makes merges (1), or gives all clusters their shapes anew (2).
EXPORT void host_tree(const Tree *tree, const Clusters *clusters, size_t registers, uint what,
                      bool descending) {
  backwards = descending;
  if (what == 0) return launch({clusters->tiles}, THREADS, [&] { enclose(*clusters, 0); });
  if (what == 2) return launch({2}, THREADS, [&] { start_anew(*tree, *clusters); });
  launch({1}, THREADS, [&] {
    switch (registers) {
    case 16: return grow_for<16>(*tree, *clusters, memory);
    default: return grow_for<32>(*tree, *clusters, memory);
    }
  });
}
