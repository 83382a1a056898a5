// Grows a tree by a block under ThreadSanitizer, which reports each pair of threads that race, in
// shared and in device memory: `tree_races IMAGE`. The file has what a launch starts with, each
// piece at the address that others know. See the test in src/tree/host.rs.

#define RACES
#include "tree.cpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

// Where the test expects the file in memory. ThreadSanitizer leaves this address to programs.
constexpr size_t START = 0x1000000000;
// All pieces start at multiples of this number of bytes.
constexpr size_t ALIGNED = 64;

// The steps after the balls.
struct Steps {
  uint search, used;
};

template <class T> T &take(size_t &at) {
  T &piece = *(T *)at;
  at += (sizeof(T) + ALIGNED - 1) / ALIGNED * ALIGNED;
  return piece;
}

int main(int, char **arguments) {
  int file = open(arguments[1], O_RDONLY);
  struct stat status;
  fstat(file, &status);
  void *image = mmap((void *)START, status.st_size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_FIXED_NOREPLACE, file, 0);
  if (image != (void *)START) return 2;
  size_t at = START;
  Tree &tree = take<Tree>(at);
  Clusters &clusters = take<Clusters>(at);
  Steps &steps = take<Steps>(at);
  host_tree(&tree, &clusters, 0, false, steps.used, steps.used);
  host_tree(&tree, &clusters, steps.search, false, steps.used, steps.used);
  host_tree(&tree, &clusters, 2, false, steps.used, steps.used);
  return tree.control[STATUS] == ALL_MERGED ? 0 : 1;
}
