// Merges random observations by a block of agglomerate.cu under ThreadSanitizer, which reports each
// pair of threads that race, in shared and in device memory: `races N P FULL`, with full distances
// if FULL is 1. See the test in src/blocks/decisions.rs.

#define RACES
#include "agglomerate.cpp"

#include <algorithm>
#include <random>

int main(int, char **arguments) {
  size_t n = atoi(arguments[1]), p = atoi(arguments[2]);
  bool is_full = atoi(arguments[3]);
  std::mt19937 random;
  std::normal_distribution<double> normal;
  // Groups, and more observations behind the last one than the kernel may read.
  double *x = array<double>(n * p + MOST_DIMENSIONS);
  for (size_t i = 0; i < n * p; i++) x[i] = normal(random) + 3 * (i / p % 4);
  Task task = {100, 0, (uint)n, 10};
  Arrays arrays = {};
  arrays.threshold = 0.05 * n;
  arrays.dimensions = p;
  arrays.tasks = 1;
  arrays.task = &task;
  arrays.x = x;
  arrays.partners = array<Partner>(2 * n);
  size_t factor = banded_length(p);
  double **doubles[] = {&arrays.means,   &arrays.scatters,    &arrays.factors,      &arrays.bounds,
                        &arrays.moments, &arrays.member_sums, &arrays.shape_scalars};
  for (double **each : doubles) *each = array<double>(n * std::max(factor, (size_t)16));
  float **singles[] = {&arrays.singles, &arrays.lows, &arrays.errors, &arrays.balls};
  for (float **each : singles) *each = array<float>((n + WARP) * (p + BALL_SCALARS));
  uint **words[] = {&arrays.slots,        &arrays.sizes,          &arrays.births,
                    &arrays.shapes,       &arrays.member_starts,  &arrays.free_shapes,
                    &arrays.slot_births,  &arrays.slot_positions, &arrays.members,
                    &arrays.next_members, &arrays.member_slots,   &arrays.next_member_slots,
                    &arrays.births_at,         &arrays.slots_at,       &arrays.shapes_at,
                    &arrays.places,       &arrays.lower,          &arrays.higher};
  for (uint **each : words) *each = array<uint>(n);
  arrays.heights = array<double>(n);
  for (uint i = 0; i < n; i++) arrays.slots_at[i] = i;
  std::sort(arrays.slots_at, arrays.slots_at + n,
            [&](uint a, uint b) { return x[a * p] < x[b * p]; });
  uint *counters = array<uint>(5);
  arrays.next_task = counters;
  arrays.failed_tasks = counters + 1;
  arrays.merged = counters + 2;
  arrays.progress = counters + 3;
  arrays.stop = counters + 4;
  host_agglomerate(arrays, 16, is_full, 1, false);
  bool is_merged = arrays.failed_tasks[0] == 0 && arrays.heights[n - 2] > 0;
  return is_merged ? 0 : 1;
}
