# Usage: Rscript tools/large.R [CELLS]
#
# Holds trees of many cells on a GPU to the bits of the CPU: smoothed cells of lymphocytes(), 14
# markers, by centroid and full distances, with and without apriori clusters. Prints a line for each
# pair of trees, and fails at the first that differs. Takes minutes on 16 cores.

arguments <- commandArgs(trailingOnly = TRUE)
cells <- if (length(arguments) > 0) as.numeric(arguments[1]) else 300000

library(gmhclust)
script <- "inst/benchmarks/common.R" # its folder has what common.R reads
source("inst/benchmarks/common.R")
options(gmhclust.progress = FALSE)

x <- smoothed_cells(cells)
set.seed(1)
groups <- suppressWarnings(gkmeans(x, 1000, iter.max = 5, backend = "cpu")$cluster)

grow <- function(backend, distance, apriori) {
  seconds <- system.time(
    tree <- gmhclust(x, apriori = apriori, distance = distance, backend = backend, warn = FALSE)
  )[["elapsed"]]
  if (!identical(tree$backend, backend)) stop("the tree is of backend ", tree$backend)
  list(seconds = seconds, tree = tree[c("merge", "height", "order")])
}

for (apriori in list(NULL, groups)) {
  for (distance in c("centroid", "full")) {
    gpu <- grow("cuda", distance, apriori)
    cpu <- grow("cpu", distance, apriori)
    what <- paste0(
      format(cells, big.mark = ",", scientific = FALSE), " cells, ", distance,
      if (!is.null(apriori)) ", 1,000 apriori clusters"
    )
    if (!identical(gpu$tree, cpu$tree)) stop("not identical: ", what)
    cat(sprintf("identical: %s (GPU %.1f s, CPU %.1f s)\n", what, gpu$seconds, cpu$seconds))
  }
}
