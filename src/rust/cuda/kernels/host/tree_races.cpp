// Grows a tree by a block under ThreadSanitizer, which reports each pair of threads that race, in
// shared and in device memory: `tree_races FILE`. The file has the arrays of a launch, as they are
// in memory from START on, and then the launch. See the test in src/tree/host.rs, which defines
// START and ALIGNED.

#define RACES
#include "tree.cpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct Launch {
  alignas(ALIGNED) Tree tree;
  alignas(ALIGNED) Clusters clusters;
  alignas(ALIGNED) uint search; // the step that searches for the nearest clusters
  uint used;                    // number of positions in use
};

int main(int, char **arguments) {
  int file = open(arguments[1], O_RDONLY);
  struct stat status;
  fstat(file, &status);
  void *start = mmap((void *)START, status.st_size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_FIXED_NOREPLACE, file, 0);
  if (start != (void *)START) return 2;
  Launch &launch = *(Launch *)(START + status.st_size - sizeof(Launch));
  for (uint step : {0u, launch.search, 2u})
    host_tree(&launch.tree, &launch.clusters, step, false, launch.used, launch.used);
  return launch.tree.control[STATUS] == ALL_MERGED ? 0 : 1;
}
