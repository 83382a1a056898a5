// kmeans.cu for the CPU: see the tests in src/kmeans, in files *decisions.rs.

#include "cuda.hpp"

#include "../kmeans.cu"

EXPORT void host_draw(const Seeding &seeding, uint number) {
  launch({1}, DRAW_THREADS, [&] { draw(seeding, number); });
}

EXPORT void host_add_up(const double *weights, double *totals, uint count) {
  static thread_local double some[CHUNK], of_some[CHUNK];
  launch({1}, DRAW_THREADS, [&] { add_up_all(weights, totals, count, some, of_some); });
}

EXPORT void host_weigh(const Seeding &seeding, uint number, uint blocks) {
  launch({blocks}, WEIGH_THREADS, [&] { weigh(seeding, number); });
}

static void host_sum_parts(const Seeding &seeding, const Groups &groups) {
  uint parts = chunks_of(chunks_of(seeding.rows));
  launch({(parts + WEIGH_WARPS - 1) / WEIGH_WARPS}, WEIGH_THREADS,
         [&] { sum_parts(seeding, groups); });
}

EXPORT void host_count_bins(const Seeding &seeding, const Groups &groups) {
  uint blocks = (seeding.rows + THREADS - 1) / THREADS;
  launch({blocks}, THREADS, [&] { find_greatest(seeding, groups); });
  launch({blocks}, THREADS, [&] { count_bins(seeding, groups); });
}

EXPORT void host_fill_bins(const Seeding &seeding, const Groups &groups) {
  launch({(seeding.rows + THREADS - 1) / THREADS}, THREADS, [&] { fill_bins(seeding, groups); });
  host_sum_parts(seeding, groups);
}

EXPORT void host_weigh_groups(const Seeding &seeding, const Groups &groups, uint number) {
  launch({(groups.groups + THREADS - 1) / THREADS}, THREADS,
         [&] { open_groups(seeding, groups, number); });
  launch({2}, WEIGH_THREADS, [&] {
    groups.quads > 0 ? weigh_codes(seeding, groups, number) : weigh_pieces(seeding, groups, number);
  });
  launch({2}, WEIGH_THREADS, [&] { sum_changed(seeding, groups); });
  host_sum_parts(seeding, groups);
}

// Which observations may be nearer to center 1 by their codes: all are of the group of center 0.
EXPORT void host_find_open(const Seeding &seeding, const Groups &groups, bool *open) {
  launch({(seeding.rows + PIECE - 1) / PIECE}, PIECE, [&] {
    uint i = blockIdx.x * PIECE + threadIdx.x;
    if (i < seeding.rows) encode(seeding, groups, 0, i, i, seeding.squares[i]);
  });
  encode_center(seeding, groups, 0, 1);
  launch({(seeding.rows + PIECE - 1) / PIECE}, WARP, [&] {
    uint start = blockIdx.x * PIECE, end = min(start + PIECE, seeding.rows);
    uint mine = find_open(seeding, groups, 0, start, end);
    for (uint i = start + threadIdx.x, j = 0; i < end; i += WARP, j++) open[i] = mine >> j & 1;
  });
}

EXPORT void host_convert_observations(const Lloyd &lloyd, uint tiles) {
  launch({tiles}, TILE, [&] { convert_observations(lloyd); });
}

EXPORT void host_convert_centers(const Lloyd &lloyd, uint tiles) {
  launch({tiles}, TILE, [&] { convert_centers(lloyd); });
}

EXPORT void host_screen(const Lloyd &lloyd, uint tiles) {
  launch({tiles}, THREADS, [&] { screen(lloyd); });
}

EXPORT void host_decide(const Lloyd &lloyd, uint blocks) {
  launch({blocks}, THREADS, [&] { decide(lloyd); });
}

EXPORT void host_convert_observations_to_halves(const Lloyd &lloyd, const Candidates &candidates,
                                                uint blocks) {
  launch({blocks}, THREADS, [&] { convert_observations_to_halves(lloyd, candidates); });
}

EXPORT void host_convert_centers_to_halves(const Lloyd &lloyd, const Candidates &candidates) {
  uint warps = THREADS / WARP, blocks = (lloyd.clusters + warps - 1) / warps;
  launch({blocks}, THREADS, [&] { convert_centers_to_halves(lloyd, candidates); });
}

EXPORT void host_find_thresholds(const Lloyd &lloyd, const Candidates &candidates) {
  uint rows = THREADS / THRESHOLD_LANES, blocks = (candidates.rows + rows - 1) / rows;
  launch({blocks}, THREADS, [&] { find_thresholds(lloyd, candidates); });
}

EXPORT void host_decide_candidates(const Lloyd &lloyd, const Candidates &candidates) {
  uint blocks = (candidates.rows + THREADS - 1) / THREADS;
  launch({blocks}, THREADS, [&] { decide_candidates(lloyd, candidates); });
}

EXPORT void host_decide_few(const Lloyd &lloyd, uint open) {
  launch({open}, THREADS, [&] { decide_few(lloyd); });
}

EXPORT void host_sort(const Sort &sort) {
  launch({sort.blocks}, THREADS, [&] { count_digits(sort); });
  launch({1}, SCAN_THREADS, [&] { scan_counts(sort); });
  launch({sort.blocks}, THREADS, [&] { scatter(sort); });
}

EXPORT void host_update(const Members &members) {
  launch({members.rows / THREADS + 1}, THREADS, [&] { find_starts(members); });
  uint parts = (members.columns + members.columns_each - 1) / members.columns_each;
  launch({members.clusters * parts}, THREADS, [&] { update(members); });
}

EXPORT void host_sum_squares(const Members &members) {
  launch({members.clusters}, THREADS, [&] { sum_squares(members); });
}
