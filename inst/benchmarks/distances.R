# Usage: Rscript distances.R [--gpu [--cpu]] [--rows=ROW,...] [--repeats=N] [--peers=N]
#                            [--once=SECONDS] [--threads=N] [--out=FILE.csv]
#
# Times gdist() in R, on the CPU or, with --gpu, with an NVIDIA GPU (backend = "cuda"); every time
# includes reading x and returning the distances. Without a GPU, stats::dist and stats::cor are
# measured in the same run for comparison. Rows, all on 16,384 x 128 normal random numbers unless
# said otherwise:
#   main         manhattan and pearson
#   metrics      all other metrics but minkowski
#   spearman     21,000 x 1,000: spearman
#   missing      3,000 x 128, a hundredth of the values missing: euclidean and pearson
# By default, main, metrics and missing run without --gpu; main, metrics and spearman with it.
#
# Each row runs in a separate process, whose first call with a GPU is cold: it opens the device.
# With
# --cpu, each call is made once without the GPU, too, and the results say whether both are equal.
# Each call is measured 3 times, others --peers times (as often), and only once if it took more than
# --once seconds. Prints medians; writes them with the machine's name as CSV, too, with --out.

library(gmhclust)
script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])
source(file.path(dirname(script), "common.R"))

normal <- function(n, p) {
  set.seed(1)
  matrix(rnorm(n * p), n)
}

gdist_calls <- function(methods) {
  calls <- lapply(methods, function(method) {
    force(method)
    function(x, options) gdist(x, method, backend = options$backend, threads = options$threads)
  })
  structure(calls, names = paste0("gdist, ", methods))
}

# The functions that gdist() replaces.
peers <- function(methods) {
  correlations <- c("pearson", "spearman")
  calls <- lapply(methods, function(method) {
    force(method)
    if (method %in% correlations) {
      function(x) cor(t(x), method = method, use = if (anyNA(x)) "pairwise" else "everything")
    } else {
      function(x) dist(x, method)
    }
  })
  by <- ifelse(methods %in% correlations, "stats::cor, ", "stats::dist, ")
  structure(calls, names = paste0(by, methods))
}

of_normal <- function(n, p, methods, replaced = methods) {
  case(named_size(n, p), function(options) normal(n, p), gdist_calls(methods), peers(replaced))
}

other_metrics <- c("euclidean", "maximum", "canberra", "binary", "spearman")
rows <- list(
  main = of_normal(16384, 128, c("manhattan", "pearson")),
  metrics = of_normal(16384, 128, c(other_metrics, "cosine"), other_metrics),
  spearman = of_normal(21000, 1000, "spearman"),
  missing = case("3,000 x 128, 1% missing", function(options) {
    x <- normal(3000, 128)
    x[sample(length(x), length(x) / 100)] <- NA
    x
  }, gdist_calls(c("euclidean", "pearson")), peers(c("euclidean", "pearson")))
)

arguments <- commandArgs(trailingOnly = TRUE)
settings <- parse_options(
  arguments, c("main", "metrics", "missing"), c("main", "metrics", "spearman")
)
run_benchmark(settings, arguments, rows)
