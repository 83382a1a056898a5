# Usage: Rscript stability.R [--gpu] [--cells=N] [--clusters=K] [--times=N] [--devices=N,...]
#                            [--rows=ROW,...] [--repeats=N] [--once=SECONDS] [--threads=N]
#                            [--out=FILE.csv]
#
# Times stability() in R on smoothed lymphocytes in 14 markers above apriori clusters by k-means, on
# the CPU or, with --gpu, with an NVIDIA GPU (backend = "cuda"). Requires only R and the package.
# Rows:
#   full       trees of full distances
#   centroid   trees of centroid distances
#
# Both rows run by default, with 1,000,000 cells (N), 1,000 apriori clusters (K) and 100 draws
# (--times). Every time includes reading the cells, finding the populations of the tree by
# cut_populations() on the CPU, drawing, and clustering the draws; the tree is made before. The
# threshold is 1% of the cells. With --gpu, each call is also made once without the GPU, and
# `identical` says whether all agreements are the same.
#
# Each row runs in a separate process, whose first call with a GPU is cold: it opens the device.
# Each call is measured 3 times, or once if it took more than --once seconds. Prints medians; writes
# them with the machine's name as CSV, too, with --out.

library(gmhclust)
script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])
source(file.path(dirname(script), "common.R"))

# The cells and their tree. It is made without the GPU, so that the first call of stability() stays
# cold.
tree_of_cells <- function(distance) {
  function(options) {
    x <- smoothed_cells(options$cells)
    set.seed(1)
    found <- suppressWarnings(gkmeans(x, options$clusters, 10, backend = "cpu",
                                      threads = options$threads, progress = FALSE))
    tree <- gmhclust(x, options$cells / 100, found$cluster, distance = distance, backend = "cpu",
                     threads = options$threads, progress = FALSE, warn = FALSE)
    list(x = x, tree = tree)
  }
}

# The same draws in every call.
draws_of_tree <- function(data, options) {
  set.seed(1)
  stability(data$tree, data$x, options$times, backend = options$backend,
            threads = options$threads, devices = chosen_devices(options), progress = FALSE)
}

of_distance <- function(distance) {
  data <- paste(named_size(settings$cells, 14, "cells"), "in", counted(settings$clusters),
                "apriori clusters")
  call <- paste0("stability, ", distance, ", ", counted(settings$times), " draws")
  case(data, tree_of_cells(distance), structure(list(draws_of_tree), names = call),
       columns = list(n = settings$cells, p = 14, clusters = settings$clusters,
                      draws = settings$times),
       compare = TRUE)
}

distances <- c("full", "centroid")
arguments <- commandArgs(trailingOnly = TRUE)
settings <- parse_options(arguments, distances, distances,
                          valued = c("cells", "clusters", "times", "devices"))
settings$cells <- number(settings$cells, 1e6)
settings$clusters <- number(settings$clusters, 1000)
settings$times <- number(settings$times, 100)
run_benchmark(settings, arguments, list(
  full = of_distance("full"),
  centroid = of_distance("centroid")
))
