# Usage: Rscript predict.R [--rows=ROW,...] [--repeats=N] [--threads=N] [--out=FILE.csv]
#
# Times predict() of populations on smoothed lymphocytes in 14 markers, and, in the same run, a pass
# over all values by R's sum(), which reads the same memory on one thread. Requires R and the
# package. The populations are those of cut_populations() with k = 7 of 2,000 measured cells. Rows:
#   1m 10m       1,000,000 and 10,000,000 cells, on all threads
#   1m-1         1,000,000 cells on 1 thread
#
# All rows run by default, each measurement 3 times. Prints a table of medians with the machine's
# name; writes it as CSV, too, with --out. The time of sum() is that of a pass over the cells.
#
# A lower bound for the time with p columns and c populations: 8 p bytes a cell from memory, and
# c (p (p + 1) / 2 + p) multiply-adds and c p subtractions; here 112 bytes and 931 operations, 8 for
# each byte. So a core is bound by its arithmetic, and all cores together by memory only if they do
# 8 operations in double precision in the time of a byte.

library(gmhclust)
script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])
source(file.path(dirname(script), "common.R"))

populations <- function() {
  x <- markers()[seq(1, 20000, by = 10), ]
  tree <- gmhclust(x, 50, progress = FALSE, warn = FALSE)
  population_model(cut_populations(tree, 7, 20, x = x))
}

timed <- function(n, threads = NULL) {
  map <- function(...) {
    function(data, options) {
      threads <- if (is.null(threads)) options$threads else threads
      predict(data$model, data$x, ..., threads = threads, progress = FALSE)
    }
  }
  make <- function(options) list(model = populations(), x = smoothed_cells(n))
  case(named_size(n, 14), make, list(
    "sum() of all values" = function(data, options) sum(data$x),
    "class by distance" = map(),
    "class by distance, beyond = 0.999" = map(beyond = 0.999),
    "class by posterior" = map(by = "posterior"),
    "distances" = map("distance"),
    "posteriors" = map("posterior"),
    "posteriors, top 2" = map("posterior", top = 2)
  ), columns = list(n = n, p = 14))
}

rows <- list("1m" = timed(1e6), "1m-1" = timed(1e6, 1), "10m" = timed(1e7))

arguments <- commandArgs(trailingOnly = TRUE)
settings <- parse_options(arguments, names(rows))
if (settings$gpu) stop("predict() uses no GPU", call. = FALSE)
run_benchmark(settings, arguments, rows)
