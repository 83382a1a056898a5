// tree.cu for the CPU, with one block: see the tests in src/tree/host.rs. They define DIMENSIONS.

#include "cuda.hpp"

thread_local double memory[1 << 16];

#include "../tree.cu"

// Draws the balls (0), searches (1), makes merges (2), gives all clusters their shapes anew (3),
// leaves out positions (4), of which `used` are used and `left` afterwards, gathers members (5), or
// searches where all clusters are points (6).
EXPORT void host_tree(const Tree *tree, const Clusters *clusters, uint what,
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
  if (what == 5) return launch({2}, THREADS, [&] { gather_members(*tree); });
  bool points = what == 6;
  if (points) {
    uint blocks = (used + WARPS * POINTS_A_WARP - 1) / (WARPS * POINTS_A_WARP);
    launch({blocks}, THREADS, [&] { start_with_points(*tree, *clusters, 0, used); });
  }
  if (points || what == 1)
    return launch({3}, THREADS, [&] { start(*tree, *clusters, 0, used, points); });
  launch({1}, THREADS, [&] { grow(*tree, *clusters); });
}
