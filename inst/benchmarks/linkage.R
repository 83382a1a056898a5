# Usage: Rscript linkage.R [--gpu [--cpu]] [--rows=ROW,...] [--repeats=N] [--peers=N]
#                          [--once=SECONDS] [--threads=N] [--out=FILE.csv]
#
# Times ghclust() in R, on the CPU or, with --gpu, with an NVIDIA GPU (backend = "cuda"); every time
# includes reading the data and returning the tree. Without a GPU, stats::hclust and, if installed,
# fastcluster are measured in the same run for comparison. Rows:
#   matrix       16,384 x 128: average, from points, with a matrix
#   dist         the Euclidean distances of these points: average, ward.D2, complete, single
#   cells20k     the lymphocytes, 20,000 x 14, no matrix: single, centroid, ward.D2, median
#   cells1m      1,000,000 x 14 cells (smoothed_cells() in common.R), no matrix: single, ward.D2
#   matrix100k   100,000 x 64: average, from points, with a matrix
#   genes20k     20,000 x 100 profiles, pearson, no matrix: average
#   genes1m      1,000,000 x 300 profiles, the same
# By default, matrix, dist, cells20k and genes20k run without --gpu, all but dist with it.
#
# Each row runs in a separate process, whose first call with a GPU is cold: it opens the device.
# With
# --cpu, each call is made once without the GPU, too, and the results say whether the trees are
# identical. Each call is measured 3 times, others --peers times (as often), and only once if it
# took more than --once seconds. Prints medians; writes them with the machine's name as CSV, too,
# with
# --out.

library(gmhclust)
script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])
source(file.path(dirname(script), "common.R"))

has_fastcluster <- requireNamespace("fastcluster", quietly = TRUE)

ghclust_calls <- function(methods, metric = "euclidean") {
  calls <- lapply(methods, function(method) {
    force(method)
    function(x, options) {
      ghclust(x, method, metric = metric, backend = options$backend, threads = options$threads,
              progress = FALSE)
    }
  })
  structure(calls, names = paste0("ghclust, ", methods))
}

fastcluster_calls <- function(name, methods) {
  if (!has_fastcluster) return(NULL)
  cluster <- getExportedValue("fastcluster", name)
  calls <- lapply(methods, function(method) {
    force(method)
    function(x) cluster(x, method)
  })
  structure(calls, names = paste0("fastcluster::", name, ", ", methods))
}

of_genes <- function(n, p) {
  case(named_size(n, p, "profiles, pearson"), function(options) profiles(n, p, seed = 3),
       ghclust_calls("average", "pearson"))
}

of_mixture <- function(n, p) {
  case(named_size(n, p), function(options) mixture(n, p), ghclust_calls("average"))
}

rows <- list(
  matrix = of_mixture(16384, 128),
  dist = case(
    "distances of 16,384", function(options) gdist(mixture(16384, 128), threads = options$threads),
    ghclust_calls(c("average", "ward.D2", "complete", "single")),
    c(
      list("stats::hclust, average" = function(d) hclust(d, "average")),
      fastcluster_calls("hclust", c("average", "ward.D2", "single"))
    )
  ),
  cells20k = case(
    "lymphocytes, 20,000 x 14", function(options) markers(),
    ghclust_calls(c("single", "centroid", "ward.D2", "median")),
    fastcluster_calls("hclust.vector", c("single", "centroid"))
  ),
  cells1m = case(
    "1,000,000 x 14 cells", function(options) smoothed_cells(1e6),
    ghclust_calls(c("single", "ward.D2"))
  ),
  matrix100k = of_mixture(100000, 64),
  genes20k = of_genes(20000, 100),
  genes1m = of_genes(1e6, 300)
)

arguments <- commandArgs(trailingOnly = TRUE)
settings <- parse_options(
  arguments, c("matrix", "dist", "cells20k", "genes20k"), setdiff(names(rows), "dist")
)
run_benchmark(settings, arguments, rows)
