# Usage: Rscript neighbours.R [--rows=ROW,...] [--repeats=N] [--threads=N] [--out=FILE.csv]
#        Rscript neighbours.R --gpu [--cpu] [--rows=ROW,...] [--repeats=N] [--threads=N]
#                             [--devices=N,...] [--out=FILE.csv]
#
# Times gknn() and gmst() in R; every time includes reading X and returning the result. Requires R
# and the package.
#
# The first form measures the CPU and, in the same run and on the same data, FNN's kd-tree,
# BiocNeighbors' KMKNN, and fastcluster's single linkage from points for comparison, if they are
# installed. Rows:
#   cells        lymphocytes, 20,000 x 14, k = 20: euclidean, manhattan, maximum, canberra
#   expression   24,000 x 295 of a low-rank mixture with noise, k = 20: pearson, spearman
#   tree         lymphocytes, 20,000 x 14: the minimum spanning tree
#
# The second form measures with a GPU (backend = "cuda") on data with the sizes published for
# GPU-FS-kNN (Arefin et al. 2012, doi:10.1371/journal.pone.0044000). With --cpu, it also measures
# once without a GPU on the same data, and reports whether the results are identical. Each row runs
# in a separate process. Its first call is cold: it opens the device. Rows:
#   24k 384k 1533k     24,158, 384,126 and 1,533,876 x 295, pearson, k = 20
#   1m                 1,000,000 x 32, euclidean, k = 64
# --devices chooses GPUs by number.
#
# All rows run by default, each measurement 3 times, on gknn()'s default number of threads. Prints
# a table of medians with the machine's name; writes it as CSV, too, with --out.

library(gmhclust)
script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])
source(file.path(dirname(script), "common.R"))

# n profiles of p values: mixtures of a few common patterns, with independent noise.
profiles <- function(n, p, seed, patterns = 12) {
  set.seed(seed)
  matrix(rnorm(n * patterns), n) %*% matrix(rnorm(patterns * p), patterns) + rnorm(n * p)
}

# ---- the rows -----------------------------------------------------------------------------------

gknn_tasks <- function(x, metrics, options) {
  force(x)
  tasks <- lapply(metrics, function(metric) {
    force(metric)
    function() gknn(x, 20, metric = metric, threads = options$threads)
  })
  structure(tasks, names = paste0("gknn, ", metrics))
}

fnn_task <- function(x) {
  if (!requireNamespace("FNN", quietly = TRUE)) return(NULL)
  list("FNN::get.knn, euclidean" = function() FNN::get.knn(x, 20))
}

bioc_task <- function(x, what, options) {
  if (!requireNamespace("BiocNeighbors", quietly = TRUE)) return(NULL)
  find <- getExportedValue("BiocNeighbors", "findKNN")
  parameters <- getExportedValue("BiocNeighbors", "KmknnParam")()
  task <- function() find(x, 20, BNPARAM = parameters)
  structure(list(task), names = paste0("BiocNeighbors::findKNN, ", what))
}

# Centred rows of unit length: their Euclidean distances have the order of Pearson's.
unit_rows <- function(x) {
  x <- x - rowMeans(x)
  x / sqrt(rowSums(x^2))
}

rows <- list(
  cells = function(options) {
    x <- markers()
    tasks <- c(
      gknn_tasks(x, c("euclidean", "manhattan", "maximum", "canberra"), options),
      fnn_task(x), bioc_task(x, "euclidean", options)
    )
    paired("cells", "lymphocytes, 20,000 x 14, k = 20", tasks, options$repeats)
  },
  expression = function(options) {
    x <- profiles(24000, 295, seed = 1)
    tasks <- c(
      gknn_tasks(x, c("pearson", "spearman"), options),
      bioc_task(unit_rows(x), "euclidean of unit rows", options)
    )
    paired("expression", "24,000 x 295 profiles, k = 20", tasks, options$repeats)
  },
  tree = function(options) {
    x <- markers()
    tasks <- list("gmst" = function() gmst(x, threads = options$threads))
    if (requireNamespace("fastcluster", quietly = TRUE)) {
      tasks[["fastcluster::hclust.vector, single"]] <- function() {
        fastcluster::hclust.vector(x, "single")
      }
    }
    paired("tree", "lymphocytes, 20,000 x 14", tasks, options$repeats)
  }
)

# ---- the rows with a GPU ------------------------------------------------------------------------

gpu_rows <- list(
  "24k" = list(n = 24158, p = 295, k = 20, metric = "pearson"),
  "384k" = list(n = 384126, p = 295, k = 20, metric = "pearson"),
  "1533k" = list(n = 1533876, p = 295, k = 20, metric = "pearson"),
  "1m" = list(n = 1000000, p = 32, k = 64, metric = "euclidean")
)

# Measures one row in this process; a data frame.
gpu_row <- function(row, options) {
  what <- gpu_rows[[row]]
  x <- profiles(what$n, what$p, seed = 2)
  timed <- time_on_gpu(function(backend) {
    nn <- NULL
    task <- function() {
      nn <<- gknn(x, what$k, metric = what$metric, backend = backend, threads = options$threads,
                  devices = chosen_devices(options), progress = FALSE)
    }
    measured <- measure(task)
    c(as.list(measured), list(result = nn))
  }, options, cold = TRUE)
  data <- paste(format(what$n, big.mark = ","), "x", what$p)
  call <- paste0(what$metric, ", k = ", what$k)
  data.frame(row = row, data = data, n = what$n, p = what$p, call = call, timed)
}

arguments <- commandArgs(trailingOnly = TRUE)
settings <- parse_options(arguments, names(rows), names(gpu_rows), valued = "devices")
run_benchmark(settings, arguments, function(row, options) rows[[row]](options), gpu_row)
