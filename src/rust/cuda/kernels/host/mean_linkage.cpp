// mean_linkage.cu for the CPU: see the tests in src/mean_linkage/decisions.rs.

#include "cuda.hpp"

#include "../mean_linkage.cu"

static void search_after(const Clusters &clusters, uint round, uint blocks) {
  launch({blocks}, THREADS, [&] { sweep(clusters, round); });
  launch({blocks}, THREADS, [&] { decide(clusters, round); });
  launch({blocks}, THREADS, [&] { search(clusters, round); });
  launch({blocks}, THREADS, [&] { settle(clusters, round); });
}

EXPORT void host_convert(const Clusters &clusters, uint count, uint blocks, bool last_first) {
  backwards = last_first;
  launch({blocks}, THREADS, [&] { convert(clusters, count); });
}

EXPORT void host_search(const Clusters &clusters, uint round, uint blocks, bool last_first) {
  backwards = last_first;
  search_after(clusters, round, blocks);
}

EXPORT void host_round(const Clusters &clusters, uint round, uint blocks, bool last_first) {
  backwards = last_first;
  launch({blocks}, THREADS, [&] { merge(clusters, round); });
  launch({blocks}, THREADS, [&] { collect(clusters, round); });
  search_after(clusters, round, blocks);
}
