// tree.cu for the CPU, with one block: see the tests in src/tree/host.rs.

#include "cuda.hpp"

#define DIMENSIONS 16

thread_local double memory[1 << 16];

#include "../tree.cu"

// Draws the balls (0), searches (1), makes merges (2), gives all clusters their shapes anew (3), or
// leaves out positions (4), of which `used` are used and `left` afterwards.
EXPORT void host_tree(const Tree *tree, const Clusters *clusters, size_t registers, uint what,
                      bool descending, uint used, uint left) {
  backwards = descending;
  // Shared memory has any content at the start.
  std::memset(memory, 0xa5, sizeof memory);
  if (what == 0) {
    launch({(tree->balls + WARPS - 1) / WARPS}, THREADS, [&] { enclose(*tree, *clusters); });
    return launch({(regions_of(*tree) + WARPS - 1) / WARPS}, THREADS,
                  [&] { enclose_again(*tree, *clusters); });
  }
  if (what == 3) return launch({2}, THREADS, [&] { reshape_all(*tree, *clusters); });
  if (what == 4) {
    launch({1}, THREADS, [&] { find_all_moves(*tree, *clusters, used); });
    return launch({(used + THREADS - 1) / THREADS}, THREADS,
                  [&] { move_all(*tree, *clusters, used, left); });
  }
  launch({what == 1 ? 3u : 1u}, THREADS, [&] {
    if (what == 1 && registers == 16) return start_for<16>(*tree, *clusters, 0, used);
    if (what == 1) return start_for<32>(*tree, *clusters, 0, used);
    if (registers == 16) return grow_for<16>(*tree, *clusters);
    return grow_for<32>(*tree, *clusters);
  });
}
