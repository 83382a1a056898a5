// mean_linkage.cu for the CPU: see the tests in src/mean_linkage/decisions.rs.

#include "cuda.hpp"

#include "../mean_linkage.cu"

static void host_search(const Clusters &clusters, uint round, uint blocks) {
  launch({blocks}, THREADS, [&] { sweep(clusters, round); });
  launch({blocks}, THREADS, [&] { decide(clusters, round); });
  launch({blocks}, THREADS, [&] { search(clusters, round); });
  launch({blocks}, THREADS, [&] { settle(clusters, round); });
}

EXPORT void host_first_search(const Clusters &clusters, uint count, uint blocks, bool last_first) {
  backwards = last_first;
  launch({blocks}, THREADS, [&] { convert(clusters, count); });
  host_search(clusters, 0, blocks);
}

EXPORT void host_round(const Clusters &clusters, uint round, uint blocks, bool last_first) {
  backwards = last_first;
  launch({blocks}, THREADS, [&] { merge(clusters, round); });
  launch({blocks}, THREADS, [&] { collect(clusters, round); });
  host_search(clusters, round, blocks);
}
