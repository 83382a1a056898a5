# Usage: Rscript distances.R [--rows=ROW,...] [--repeats=N] [--threads=N] [--out=FILE.csv]
#        Rscript distances.R --gpu [--cpu] [--rows=ROW,...] [--repeats=N] [--threads=N]
#                            [--out=FILE.csv]
#
# Times gdist() in R; every time includes reading X and returning the distances. Requires R and the
# package, and for the first form package ALL from Bioconductor.
#
# The first form measures the CPU on the 12,625 probes x 128 arrays of ALL and, in the same run,
# stats::dist and stats::cor for comparison. Rows:
#   euclidean manhattan maximum canberra binary
#   pearson spearman
#   missing      euclidean and pearson on 3,000 of the probes, a hundredth of the values missing
#
# The second form measures with a GPU (backend = "cuda") on normal random numbers. With --cpu, it
# also measures once without a GPU on the same data, and reports whether the distances are
# identical. Each row runs in a separate process. Its first call is cold: it opens the device. Rows:
#   metrics      16,384 x 128: euclidean, manhattan, maximum, canberra, binary, pearson, spearman,
#                cosine
#   spearman     21,000 x 1,000: spearman
#
# All rows run by default, each measurement 3 times, on gdist()'s default number of threads. Prints
# a table of medians with the machine's name; writes it as CSV, too, with --out.

library(gmhclust)
script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])
source(file.path(dirname(script), "common.R"))

# ---- the rows -----------------------------------------------------------------------------------

probes <- function() {
  loaded <- new.env()
  data("ALL", package = "ALL", envir = loaded)
  Biobase::exprs(loaded$ALL)
}

gdist_task <- function(x, method, options) {
  force(x)
  function() gdist(x, method, threads = options$threads)
}

# gdist() and the function that it replaces.
tasks <- function(x, method, options) {
  force(x)
  peer <- if (method %in% c("pearson", "spearman")) {
    list("stats::cor" = function() cor(t(x), method = method, use = cor_use(x)))
  } else {
    list("stats::dist" = function() dist(x, method))
  }
  both <- c(gdist = gdist_task(x, method, options), peer)
  structure(both, names = paste0(names(both), ", ", method))
}

cor_use <- function(x) if (anyNA(x)) "pairwise.complete.obs" else "everything"

on_probes <- function(method, options) {
  paired(method, "ALL, 12,625 x 128", tasks(probes(), method, options), options$repeats)
}

with_missing <- function(options) {
  x <- probes()[1:3000, ]
  set.seed(1)
  x[sample(length(x), length(x) / 100)] <- NA
  both <- c(tasks(x, "euclidean", options), tasks(x, "pearson", options))
  paired("missing", "ALL, 3,000 x 128, 1% missing", both, options$repeats)
}

methods <- c("euclidean", "manhattan", "maximum", "canberra", "binary", "pearson", "spearman")

cpu_row <- function(row, options) {
  if (row == "missing") with_missing(options) else on_probes(row, options)
}

# ---- the rows with a GPU ------------------------------------------------------------------------

gpu_rows <- list(
  metrics = list(n = 16384, p = 128, methods = c(methods, "cosine")),
  spearman = list(n = 21000, p = 1000, methods = "spearman")
)

# Measures one row in this process; a data frame.
gpu_row <- function(row, options) {
  what <- gpu_rows[[row]]
  set.seed(1)
  x <- matrix(rnorm(what$n * what$p), what$n)
  tables <- lapply(seq_along(what$methods), function(i) {
    method <- what$methods[i]
    timed <- time_on_gpu(function(backend) {
      distances <- NULL
      task <- function() {
        distances <<- gdist(x, method, backend = backend, threads = options$threads)
      }
      measured <- measure(task)
      attributes(distances) <- NULL
      c(as.list(measured), list(result = distances))
    }, options, cold = i == 1)
    data <- paste(format(what$n, big.mark = ","), "x", format(what$p, big.mark = ","))
    data.frame(row = row, data = data, n = what$n, p = what$p, call = method, timed)
  })
  do.call(rbind, tables)
}

arguments <- commandArgs(trailingOnly = TRUE)
settings <- parse_options(arguments, c(methods, "missing"), names(gpu_rows))
run_benchmark(settings, arguments, cpu_row, gpu_row)
