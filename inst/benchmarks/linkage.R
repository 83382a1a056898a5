# Usage: Rscript linkage.R [--rows=ROW,...] [--repeats=N] [--threads=N] [--out=FILE.csv]
#        Rscript linkage.R --gpu [--cpu] [--rows=ROW,...] [--repeats=N] [--threads=N]
#                          [--out=FILE.csv]
#
# Times ghclust() in R; every time includes reading the data and returning the tree. Requires R and
# the package, and for row `dist` package ALL from Bioconductor.
#
# The first form measures the CPU and, in the same run and on the same data, stats::hclust and, if
# installed, fastcluster for comparison. Rows:
#   dist         the Euclidean distances of the 12,625 probes of ALL: average, ward.D2, complete,
#                single
#   points       lymphocytes, 20,000 x 14, no matrix: single, centroid, ward.D2, median
#
# The second form measures with a GPU (backend = "cuda") on mixtures. With --cpu, it also measures
# once without a GPU on the same data, and reports whether the trees are identical. Each row runs in
# a separate process. Its first call is cold: it opens the device. Rows:
#   16k 100k     16,384 x 128 and 100,000 x 64: average, with a matrix
#   1m           1,000,000 x 32: single and ward.D2, from points
#
# All rows run by default, each measurement 3 times, on ghclust()'s default number of threads.
# Prints a table of medians with the machine's name; writes it as CSV, too, with --out.

library(gmhclust)
script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])
source(file.path(dirname(script), "common.R"))

# ---- the rows -----------------------------------------------------------------------------------

has_fastcluster <- requireNamespace("fastcluster", quietly = TRUE)

ghclust_tasks <- function(x, methods, options) {
  force(x)
  tasks <- lapply(methods, function(method) {
    force(method)
    function() ghclust(x, method, threads = options$threads)
  })
  structure(tasks, names = paste0("ghclust, ", methods))
}

rows <- list(
  dist = function(options) {
    loaded <- new.env()
    data("ALL", package = "ALL", envir = loaded)
    d <- gdist(Biobase::exprs(loaded$ALL))
    tasks <- c(
      ghclust_tasks(d, c("average", "ward.D2", "complete", "single"), options),
      list("stats::hclust, average" = function() hclust(d, "average")),
      if (has_fastcluster) list(
        "fastcluster::hclust, average" = function() fastcluster::hclust(d, "average"),
        "fastcluster::hclust, ward.D2" = function() fastcluster::hclust(d, "ward.D2"),
        "fastcluster::hclust, single" = function() fastcluster::hclust(d, "single")
      )
    )
    paired("dist", "distances of ALL, 12,625", tasks, options$repeats)
  },
  points = function(options) {
    x <- markers()
    tasks <- c(
      ghclust_tasks(x, c("single", "centroid", "ward.D2", "median"), options),
      if (has_fastcluster) list(
        "fastcluster::hclust.vector, single" = function() fastcluster::hclust.vector(x, "single"),
        "fastcluster::hclust.vector, centroid" = function() {
          fastcluster::hclust.vector(x, "centroid")
        }
      )
    )
    paired("points", "lymphocytes, 20,000 x 14", tasks, options$repeats)
  }
)

# ---- the rows with a GPU ------------------------------------------------------------------------

gpu_rows <- list(
  "16k" = list(n = 16384, p = 128, methods = "average"),
  "100k" = list(n = 100000, p = 64, methods = "average"),
  "1m" = list(n = 1000000, p = 32, methods = c("single", "ward.D2"))
)

# n points around 50 centres.
mixture <- function(n, p) {
  set.seed(1)
  centres <- matrix(rnorm(50 * p, sd = 3), 50)
  centres[sample(50, n, replace = TRUE), ] + rnorm(n * p)
}

# Measures one row in this process; a data frame.
gpu_row <- function(row, options) {
  what <- gpu_rows[[row]]
  x <- mixture(what$n, what$p)
  tables <- lapply(seq_along(what$methods), function(i) {
    method <- what$methods[i]
    timed <- time_on_gpu(function(backend) {
      tree <- NULL
      task <- function() {
        tree <<- ghclust(x, method, backend = backend, threads = options$threads, progress = FALSE)
      }
      measured <- measure(task)
      c(as.list(measured), list(result = tree[c("merge", "height", "order")]))
    }, options, cold = i == 1)
    data <- paste(format(what$n, big.mark = ","), "x", what$p)
    data.frame(row = row, data = data, n = what$n, p = what$p, call = method, timed)
  })
  do.call(rbind, tables)
}

arguments <- commandArgs(trailingOnly = TRUE)
settings <- parse_options(arguments, names(rows), names(gpu_rows))
run_benchmark(settings, arguments, function(row, options) rows[[row]](options), gpu_row)
