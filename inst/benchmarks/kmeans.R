# Usage: Rscript kmeans.R [--rows=ROW,...] [--repeats=N] [--threads=N] [--out=FILE.csv]
#        Rscript kmeans.R --gpu [--cpu] [--rows=ROW,...] [--repeats=N] [--threads=N]
#                         [--devices=N,...] [--out=FILE.csv]
#
# Times gkmeans() in R; every time includes reading X and returning the result. Requires R and the
# package.
#
# The first form measures the CPU and, in the same run, on the same data and from the same centers,
# stats::kmeans() for comparison: Hartigan and Wong's algorithm, its default, and Lloyd's. Each does
# ten iterations, in which none converges. Rows:
#   cells        lymphocytes, 20,000 x 14, 1,000 centers
#
# The second form measures with a GPU (backend = "cuda"). With --cpu, it also measures once without
# a GPU on the same data, and reports whether the results are identical. Each row runs in a separate
# process. Its first call is cold: it opens the device. Rows:
#   1m           1,000,000 x 20, 1,000 centers, ten iterations
#   4m           4,000,000 x 30, 2,000 centers, ten iterations
# --devices chooses GPUs by number.
#
# All rows run by default, each measurement 3 times, on gkmeans()'s default number of threads.
# Prints a table of medians with the machine's name; writes it as CSV, too, with --out.

library(gmhclust)
script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])
source(file.path(dirname(script), "common.R"))

# ---- the rows -----------------------------------------------------------------------------------

rows <- list(
  cells = function(options) {
    x <- markers()
    set.seed(1)
    centers <- x[sample(nrow(x), 1000), ]
    ours <- function(centers, iterations = 10) {
      gkmeans(x, centers, iterations, threads = options$threads)
    }
    tasks <- list(
      "gkmeans, k-means++" = function() ours(1000),
      "gkmeans, given centers" = function() ours(centers),
      "gkmeans, given centers, 1 iteration" = function() ours(centers, 1),
      "gkmeans, given centers, 100 iterations" = function() ours(centers, 100),
      "stats::kmeans, Hartigan-Wong" = function() kmeans(x, centers),
      "stats::kmeans, Lloyd" = function() kmeans(x, centers, algorithm = "Lloyd")
    )
    paired("cells", "lymphocytes, 20,000 x 14, k = 1,000", tasks, options$repeats)
  }
)

# ---- the rows with a GPU ------------------------------------------------------------------------

gpu_rows <- list(
  "1m" = list(n = 1e6, p = 20, k = 1000),
  "4m" = list(n = 4e6, p = 30, k = 2000)
)

# Measures one row in this process; a data frame.
gpu_row <- function(row, options) {
  what <- gpu_rows[[row]]
  set.seed(2)
  x <- matrix(rnorm(what$n * what$p), what$n) + 3 * sample(20, what$n, replace = TRUE)
  timed <- time_on_gpu(function(backend) {
    fit <- NULL
    task <- function() {
      set.seed(3)
      fit <<- gkmeans(x, what$k, 10, backend = backend, threads = options$threads,
                      devices = chosen_devices(options), progress = FALSE)
    }
    measured <- measure(task)
    c(as.list(measured), list(result = fit))
  }, options, cold = TRUE)
  data <- paste(format(what$n, big.mark = ",", scientific = FALSE), "x", what$p)
  call <- paste0("k-means++, k = ", what$k)
  data.frame(row = row, data = data, n = what$n, p = what$p, call = call, timed)
}

arguments <- commandArgs(trailingOnly = TRUE)
settings <- parse_options(arguments, names(rows), names(gpu_rows), valued = "devices")
run_benchmark(settings, arguments, function(row, options) rows[[row]](options), gpu_row)
