# Usage: Rscript workers.R [--rows=ROW,...] [--repeats=N] [--out=FILE.csv]
#
# Times one and two workers of parallel::makeCluster() on this machine, each with one thread, beside
# this process with one thread, on smoothed lymphocytes in 14 markers. On the CPU. Rows:
#   kmeans    gkmeans(), 1,000,000 cells, 1,000 given centers, 10 iterations
#   drawn     the same, of drawn centers; this process draws them
#   knn       gknn(), 100,000 cells, k = 20
#   tree      gmhclust(), 200,000 cells in 100 apriori clusters, centroid distances
#   spanning  gmst(), 100,000 cells
#
# All rows run by default, each measurement 3 times. Prints a table of medians with the machine's
# name; writes it as CSV, too, with --out. The times have the sending of the data to the workers.

library(gmhclust)
script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])
source(file.path(dirname(script), "common.R"))

clusters <- list()

# A cluster of this size, which has loaded the package; NULL for none.
workers <- function(count) {
  if (count == 0) return(NULL)
  name <- as.character(count)
  if (is.null(clusters[[name]])) {
    clusters[[name]] <<- parallel::makeCluster(count)
    parallel::clusterEvalQ(clusters[[name]], library(gmhclust))
  }
  clusters[[name]]
}

timed <- function(n, work, prepare = function(x) NULL) {
  make <- function(options) {
    x <- smoothed_cells(n)
    list(x = x, with = prepare(x))
  }
  call <- function(count) {
    function(data, options) work(data$x, data$with, BPPARAM = workers(count), threads = 1)
  }
  case(named_size(n, 14, "cells"), make, list(
    "this process" = call(0), "1 worker" = call(1), "2 workers" = call(2)
  ), columns = list(n = n, p = 14))
}

every <- function(x, count) x[round(seq(1, nrow(x), length.out = count)), ]

rows <- list(
  kmeans = timed(1e6, prepare = function(x) every(x, 1000), function(x, centers, ...) {
    gkmeans(x, centers, iter.max = 10, ..., backend = "cpu", progress = FALSE)
  }),
  drawn = timed(1e6, function(x, none, ...) {
    set.seed(1)
    gkmeans(x, 1000, iter.max = 10, ..., backend = "cpu", progress = FALSE)
  }),
  knn = timed(1e5, function(x, none, ...) gknn(x, 20, ..., backend = "cpu", progress = FALSE)),
  tree = timed(2e5, prepare = function(x) {
    set.seed(1)
    suppressWarnings(gkmeans(x, 100, iter.max = 5, backend = "cpu", progress = FALSE))$cluster
  }, function(x, labels, ...) {
    gmhclust(x, apriori = labels, distance = "centroid", ..., backend = "cpu", progress = FALSE,
             warn = FALSE)
  }),
  spanning = timed(1e5, function(x, none, ...) gmst(x, ..., backend = "cpu", progress = FALSE))
)

arguments <- commandArgs(trailingOnly = TRUE)
settings <- parse_options(arguments, names(rows))
if (settings$gpu) stop("this is measured on the CPU", call. = FALSE)
run_benchmark(settings, arguments, rows)
for (cluster in clusters) parallel::stopCluster(cluster)
