# Usage: Rscript kmeans.R [--gpu [--cpu] [--devices=N,...]] [--rows=ROW,...] [--repeats=N]
#                         [--peers=N] [--once=SECONDS] [--threads=N] [--out=FILE.csv]
#
# Times gkmeans() in R, on the CPU or, with --gpu, with an NVIDIA GPU (backend = "cuda"); every time
# includes reading x and returning the result. Without a GPU, stats::kmeans() is measured in the
# same run, on the same data, by Hartigan and Wong's algorithm, its default, and by Lloyd's, from
# rows drawn before; gkmeans() draws its centers by k-means++ within its time. All make ten
# iterations, except in row iterations, and none converges. Rows:
#   cells20k     the lymphocytes, 20,000 x 14, 1,000 centers
#   iterations   the same, from given centers: 1 and 100 iterations
#   cells1m      1,000,000 x 14 cells (smoothed_cells() in common.R), 1,000 centers and 10
#   4m           4,000,000 x 30 of a mixture, 2,000 centers
# By default, cells20k and iterations run without --gpu; cells20k, cells1m and 4m with it. --devices
# chooses GPUs by number.
#
# Each row runs in a separate process, whose first call with a GPU is cold: it opens the device.
# With
# --cpu, each call is made once without the GPU, too, and the results say whether both are equal.
# Each call is measured 3 times, others --peers times (as often), and only once if it took more than
# --once seconds. Prints medians; writes them with the machine's name as CSV, too, with --out.

library(gmhclust)
script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])
source(file.path(dirname(script), "common.R"))

gkmeans_call <- function(k, iterations = 10) {
  force(k)
  function(x, options) {
    set.seed(3)
    gkmeans(x, k, iterations, backend = options$backend, threads = options$threads,
            devices = chosen_devices(options), progress = FALSE)
  }
}

# From k given rows as centers.
gkmeans_from <- function(k, iterations) {
  function(x, options) gkmeans_call(first_rows(x, k), iterations)(x, options)
}

first_rows <- function(x, k) {
  set.seed(1)
  x[sample(nrow(x), k), ]
}

of_lymphocytes <- function(calls, peers = list()) {
  case("lymphocytes, 20,000 x 14", function(options) markers(), calls, peers)
}

rows <- list(
  cells20k = of_lymphocytes(
    list("gkmeans, 1,000 centers" = gkmeans_call(1000)),
    list(
      "stats::kmeans, Hartigan-Wong" = function(x) kmeans(x, first_rows(x, 1000)),
      "stats::kmeans, Lloyd" = function(x) kmeans(x, first_rows(x, 1000), algorithm = "Lloyd")
    )
  ),
  iterations = of_lymphocytes(list(
    "gkmeans, 1,000 given centers, 1 iteration" = gkmeans_from(1000, 1),
    "gkmeans, 1,000 given centers, 100 iterations" = gkmeans_from(1000, 100)
  )),
  cells1m = case("1,000,000 x 14 cells", function(options) smoothed_cells(1e6),
                 list("gkmeans, 1,000 centers" = gkmeans_call(1000),
                      "gkmeans, 10 centers" = gkmeans_call(10))),
  "4m" = case("4,000,000 x 30", function(options) {
    set.seed(2)
    matrix(rnorm(4e6 * 30), 4e6) + 3 * sample(20, 4e6, replace = TRUE)
  }, list("gkmeans, 2,000 centers" = gkmeans_call(2000)))
)

arguments <- commandArgs(trailingOnly = TRUE)
settings <- parse_options(
  arguments, c("cells20k", "iterations"), c("cells20k", "cells1m", "4m"), valued = "devices"
)
run_benchmark(settings, arguments, rows)
