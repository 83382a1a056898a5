# Usage: Rscript sizes.R [--quick] [--rows=ROW,...] [--limit=SECONDS] [--repeats=N] [--threads=N]
#                        [--out=FILE.csv]
#
# Times the functions of this package and of others against the number of cells n, with 14 markers,
# without a GPU. Vignette "choosing" draws its figures from the newest results/*-cpu-sizes.csv; to
# measure them again, from this folder:
#
#   Rscript sizes.R --out=results/$(date +%F)-cpu-sizes.csv
#
# On a machine that other programs use at the same time, add --threads=1: a call with one thread
# waits for them as the other packages do, a call with several waits longer.
#
# The cells are lymphocytes(), smoothed to size: smoothed_cells() in common.R. Rows; other packages
# are measured if they are installed:
#   mahalanobis  gmhclust: full, centroid, and full above 1,000 apriori clusters; and mhca::mhclust
#   linkage      average: ghclust, and stats::hclust and fastcluster::hclust with dist;
#                ward.D2: ghclust, and fastcluster::hclust.vector
#   kmeans       100 clusters, at most 10 iterations: gkmeans, stats::kmeans
#   neighbours   20 nearest: gknn, FNN::get.knn, BiocNeighbors::findKNN (KMKNN)
#
# n is 1,000, 2,000, 5,000 and so on, up to 1,000,000. A call leaves out all n from the first one
# that would take more than --limit seconds (20), or more than half of the available memory, by its
# growth up to then.
#
# All rows run by default, each measurement 3 times and in a fork of its own, on the default number
# of threads; the other packages use one thread. --quick measures once, with a limit of 2 seconds.
# Prints a table of medians with the machine's name; writes it as CSV, too, with --out.

library(gmhclust)
script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])
source(file.path(dirname(script), "common.R"))

sizes <- as.vector(outer(c(1, 2, 5), 10^(3:5)))
sizes <- c(sizes, 1e6)

# ---- the calls ----------------------------------------------------------------------------------

# The default of gmhclust() for 14 columns, for mhca, too.
threshold <- 70

# Functions of the cells and the options, by row. Names of other packages' calls begin with the
# package, which must be installed.
calls <- list(
  mahalanobis = list(
    "gmhclust, full" = function(x, options) {
      gmhclust(x, threshold, backend = "cpu", threads = options$threads, warn = FALSE)
    },
    "gmhclust, centroid" = function(x, options) {
      gmhclust(x, threshold, distance = "centroid", backend = "cpu", threads = options$threads,
               warn = FALSE)
    },
    "gmhclust, apriori = 1000" = function(x, options) {
      gmhclust(x, threshold, apriori = 1000, backend = "cpu", threads = options$threads,
               warn = FALSE)
    },
    "mhca::mhclust, full" = function(x, options) {
      getExportedValue("mhca", "mhclust")(x, threshold / nrow(x), warn = FALSE)
    }
  ),
  linkage = list(
    "ghclust, average" = function(x, options) {
      ghclust(x, "average", backend = "cpu", threads = options$threads)
    },
    "stats::hclust(dist), average" = function(x, options) hclust(dist(x), "average"),
    "fastcluster::hclust(dist), average" = function(x, options) {
      fastcluster::hclust(dist(x), "average")
    },
    "ghclust, ward.D2" = function(x, options) {
      ghclust(x, "ward.D2", backend = "cpu", threads = options$threads)
    },
    "fastcluster::hclust.vector, ward" = function(x, options) fastcluster::hclust.vector(x, "ward")
  ),
  kmeans = list(
    "gkmeans, k = 100" = function(x, options) {
      gkmeans(x, 100, 10, backend = "cpu", threads = options$threads)
    },
    "stats::kmeans, k = 100" = function(x, options) kmeans(x, 100)
  ),
  neighbours = list(
    "gknn, k = 20" = function(x, options) gknn(x, 20, backend = "cpu", threads = options$threads),
    "FNN::get.knn, k = 20" = function(x, options) FNN::get.knn(x, 20),
    "BiocNeighbors::findKNN, k = 20" = function(x, options) {
      kmknn <- getExportedValue("BiocNeighbors", "KmknnParam")()
      getExportedValue("BiocNeighbors", "findKNN")(x, 20, BNPARAM = kmknn)
    }
  )
)

# The least n of a call, where it isn't 1,000: apriori clusters of 5 cells on average.
first_size <- c("gmhclust, apriori = 1000" = 5000)

# ---- measuring ----------------------------------------------------------------------------------

# Whether n cells are expected to be within both limits, by the measurements `done` of one call.
# Times that are too short to show growth count as quadratic.
affordable <- function(done, n, options) {
  last <- nrow(done)
  if (last == 0) return(TRUE)
  times <- n / done$n[last]
  growth <- 2
  if (last > 1 && done$seconds[last - 1] > 0.2) {
    before <- done[last - 1, ]
    growth <- log(done$seconds[last] / before$seconds) / log(done$n[last] / before$n)
    growth <- min(max(growth, 1), 3)
  }
  bytes <- 1e6 * max(0, done$megabytes[last]) * times^2
  done$seconds[last] * times^growth <= options$limit &&
    is.null(gmhclust:::memory_refusal("twice the memory is", 2 * bytes))
}

# Measures all calls of a row, all of one n in turns.
calls_of_row <- function(row, options) {
  packages <- sub("::.*", "", names(calls[[row]]))
  others <- grepl("::", names(calls[[row]]))
  active <- calls[[row]][!others | vapply(packages, requireNamespace, NA, quietly = TRUE)]
  done <- data.frame()
  for (n in sizes) {
    names_now <- names(active)
    too_large <- vapply(names_now, function(name) {
      !affordable(done[done$call == name, ], n, options)
    }, NA)
    active <- active[!too_large]
    first <- ifelse(names(active) %in% names(first_size), first_size[names(active)], 0)
    if (length(active) == 0) break
    x <- smoothed_cells(n)
    tasks <- lapply(active[n >= first], function(call) function() call(x, options))
    now <- paired(row, named_size(n, 14), tasks, options$repeats, measure_in_fork)
    now$n <- n
    print(now[c("data", "call", "seconds", "megabytes")], row.names = FALSE, right = FALSE)
    done <- rbind(done, now)
  }
  done
}

arguments <- commandArgs(trailingOnly = TRUE)
if ("--quick" %in% arguments) {
  arguments <- c(setdiff(arguments, "--quick"), "--limit=2", "--repeats=1")
}
settings <- parse_options(arguments, names(calls), valued = "limit")
if (settings$gpu) stop("sizes.R measures the CPU; the other benchmarks have --gpu", call. = FALSE)
settings$limit <- number(settings$limit, 20)
rows <- lapply(structure(names(calls), names = names(calls)), function(row) {
  function(options) calls_of_row(row, options)
})
run_benchmark(settings, arguments, rows)
