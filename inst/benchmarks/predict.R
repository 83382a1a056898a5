# Usage: Rscript predict.R [--rows=ROW,...] [--repeats=N] [--threads=N] [--out=FILE.csv]
#
# Times predict() of populations on smoothed lymphocytes in 14 markers, and, in the same run, a pass
# over all values by R's sum(), which reads the same memory on one thread. Requires R and the
# package. The populations are those of cut_populations() with k = 7 of 2,000 measured cells. Rows:
#   1m 10m       1,000,000 and 10,000,000 cells, on all threads
#   1m-1         1,000,000 cells on 1 thread
#
# All rows run by default, each measurement 3 times. Prints a table of medians with the machine's
# name; writes it as CSV, too, with --out. `gb_per_second` is the size of the cells divided by the
# time; `passes` is the time in those of the pass.
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

timed <- function(row, n, options, threads = options$threads) {
  model <- populations()
  x <- smoothed_cells(n)
  map <- function(...) predict(model, x, ..., threads = threads, progress = FALSE)
  tasks <- list(
    "sum() of all values" = function() sum(x),
    "class by distance" = function() map(),
    "class by distance, beyond = 0.999" = function() map(beyond = 0.999),
    "class by posterior" = function() map(by = "posterior"),
    "distances" = function() map("distance"),
    "posteriors" = function() map("posterior"),
    "posteriors, top 2" = function() map("posterior", top = 2)
  )
  data <- paste(format(n, big.mark = ",", scientific = FALSE), "x", ncol(x))
  measured <- paired(row, data, tasks, options$repeats)
  measured$gb_per_second <- round(8e-9 * length(x) / measured$seconds, 2)
  measured$passes <- round(measured$seconds / measured$seconds[1], 2)
  measured
}

rows <- list(
  "1m" = function(options) timed("1m", 1e6, options),
  "1m-1" = function(options) timed("1m-1", 1e6, options, 1),
  "10m" = function(options) timed("10m", 1e7, options)
)

arguments <- commandArgs(trailingOnly = TRUE)
settings <- parse_options(arguments, names(rows), character(0))
if (settings$gpu) stop("predict() uses no GPU", call. = FALSE)
run_benchmark(settings, arguments, function(row, options) rows[[row]](options))
