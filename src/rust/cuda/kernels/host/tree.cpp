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

#if IS_WIDE
// Writes to `part` whether the leading coordinates of a difference d, with the first square and
// sum as in `are_enough`, rule out a cluster with this LOW; and to `whole` whether all coordinates,
// with the second square and sum, rule it out. `query` has the scalars of a query with a factor.
EXPORT void host_rule_out(uint p, const float *query, const float *squares, const float *sums,
                          float low, float error, float limit, bool *part, bool *whole) {
  Margins margins(p);
  *part = are_enough(query, squares[0], sums[0], low, error, limit, margins);
  Bound bound;
  float value;
  bool is_near = may_be_near(squares[1], query[LOW] + low, error, limit, margins) &&
                 bound_of(
                     false, nullptr, query, squares[1], low, error, limit, margins,
                     [&](uint, float) { return sums[1]; }, bound) &&
                 is_below(bound.to_query + bound.to_target, limit, margins, value);
  *whole = !is_near;
}
#endif
