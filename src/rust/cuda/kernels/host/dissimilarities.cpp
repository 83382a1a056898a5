// dissimilarities.cu for the CPU: see the tests in src/dissimilarities/decisions.rs.

#include "cuda.hpp"

#include "../dissimilarities.cu"

EXPORT double host_update(uint linkage, const Step &step, double first, double second,
                          double size) {
  return update(linkage, step, first, second, size);
}

// In one block, for which no other has to be resident.
EXPORT void host_chain(const Chaining &chaining) {
  launch({1}, CHAIN_THREADS, [&] { chain(chaining); });
}
