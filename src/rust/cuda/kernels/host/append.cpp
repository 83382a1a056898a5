// Writes what a launch starts with to a file, for tree_races.cpp. The structs have padding, which
// Rust may not read.

#include <cstdio>
#include <cstdlib>

// Appends bytes to a file, then zeros up to a multiple of ALIGNED bytes.
extern "C" void host_append(const char *path, const void *from, size_t bytes) {
  static const char zeros[ALIGNED] = {};
  std::FILE *file = std::fopen(path, "ab");
  if (!file) std::abort();
  bool has_written = std::fwrite(from, 1, bytes, file) == bytes;
  size_t rest = (ALIGNED - bytes % ALIGNED) % ALIGNED;
  has_written = std::fwrite(zeros, 1, rest, file) == rest && has_written;
  if (std::fclose(file) != 0 || !has_written) std::abort();
}
