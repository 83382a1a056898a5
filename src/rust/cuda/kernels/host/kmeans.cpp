// kmeans.cu for the CPU: see the tests in src/kmeans/decisions.rs.

#include "cuda.hpp"

#include "../kmeans.cu"

EXPORT void host_draw(const Seeding &seeding, uint number) {
  launch({1}, DRAW_THREADS, [&] { draw(seeding, number); });
}

EXPORT void host_weigh(const Seeding &seeding, uint number, uint blocks) {
  launch({blocks}, WEIGH_THREADS, [&] { weigh(seeding, number); });
}

EXPORT void host_assign(const Lloyd &lloyd, uint blocks) {
  launch({blocks}, THREADS, [&] { assign(lloyd); });
}

EXPORT void host_update(const Lloyd &lloyd) {
  launch({lloyd.clusters}, THREADS, [&] { update(lloyd); });
}
