# Usage: Rscript memory.R [--rows=ROW,...] [--repeats=N] [--threads=N] [--out=FILE.csv]
#
# Measures the peak of memory that calls take beside their data, on the CPU, and holds it against
# the formulas of the help pages, sections "Memory" and "Time and memory". Linux only. Rows:
#   gdist linkage dist matrix_free gmst gkmeans gknn gneighbours trees gmhclust
#
# All rows run by default, each measurement once, since the peak hardly varies. Each call is
# measured in a process of its own. Prints a table with the machine's name; writes it as CSV, too,
# with --out. Columns: `megabytes` is the measured peak and `formula` what the help page says;
# `each` is the measured number of bytes for each `unit`; `share` is the measured part of the
# formula. Small numbers of megabytes have a share above 1 because of threads, about 5 MB.

library(gmhclust)
script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])
source(file.path(dirname(script), "common.R"))

points_of <- function(n, p) mixture(n, p, centres = 20, sd = 4)

size <- function(n, p) paste(format(n, big.mark = ",", scientific = FALSE), "x", p)

# The peak of a task beside `bytes`, what the help page says. `count` is the number of units.
against <- function(row, data, call, task, bytes, unit, count, options) {
  peaks <- replicate(options$repeats, measure_in_fork(task)[["megabytes"]]) * 2^20
  peak <- median(peaks)
  data.frame(
    row = row, data = data, call = call, megabytes = round(peak / 1e6),
    formula = round(bytes / 1e6), unit = unit, each = round(peak / count, 1),
    share = round(peak / bytes, 2), repeats = options$repeats
  )
}

on_cpu <- function(f, ..., options) {
  suppressWarnings(f(..., backend = "cpu", threads = options$threads, progress = FALSE))
}

matrix_formula <- function(n, factor, bytes) factor * bytes * n * (n - 1) / 2 + 2000 * n

rows <- list(
  gdist = function(options) {
    n <- 10000
    x <- points_of(n, 10)
    pairs <- n * (n - 1) / 2
    against("gdist", size(n, 10), "gdist", function() on_cpu(gdist, x, options = options),
            8 * pairs + 160 * n, "pair", pairs, options)
  },
  linkage = function(options) {
    n <- 10000
    pairs <- n * (n - 1) / 2
    calls <- expand.grid(p = c(1, 50), method = c("average", "ward.D", "centroid"),
                         precision = c("double", "single"), stringsAsFactors = FALSE)
    do.call(rbind, lapply(seq_len(nrow(calls)), function(i) {
      one <- calls[i, ]
      x <- points_of(n, one$p)
      is_single <- one$precision == "single"
      bytes <- if (is_single) 4 else 8
      formula <- matrix_formula(n, if (is_single) 2.3 else 1.8, bytes)
      if (one$method == "centroid") {
        formula <- matrix_formula(n, 1, bytes) + is_single * min(8 * pairs, 2^27)
      }
      task <- function() {
        on_cpu(ghclust, x, one$method, metric = "manhattan", precision = one$precision,
               options = options)
      }
      against("linkage", size(n, one$p), paste("ghclust,", one$method, one$precision), task,
              formula + 16 * n * one$p, "pair", pairs, options)
    }))
  },
  dist = function(options) {
    n <- 10000
    pairs <- n * (n - 1) / 2
    d <- gdist(points_of(n, 5), backend = "cpu", progress = FALSE)
    factors <- list(double = c(average = 0.8, ward.D2 = 0.8, median = 1, single = 0),
                    single = c(average = 1.5, ward.D2 = 1.5, median = 1, single = 0))
    do.call(rbind, lapply(names(factors), function(precision) {
      of_precision <- factors[[precision]]
      bytes <- if (precision == "single") 4 else 8
      do.call(rbind, lapply(names(of_precision), function(method) {
        task <- function() {
          on_cpu(ghclust, d, method, precision = precision, options = options)
        }
        against("dist", paste(n, "observations"), paste("ghclust,", method, precision), task,
                matrix_formula(n, of_precision[[method]], bytes), "pair", pairs, options)
      }))
    }))
  },
  matrix_free = function(options) {
    n <- 50000
    do.call(rbind, lapply(c(2, 20), function(p) {
      x <- points_of(n, p)
      metrics <- c(single = "euclidean", ward.D2 = "euclidean", centroid = "euclidean",
                   if (p > 2) c(average = "pearson"))
      do.call(rbind, lapply(names(metrics), function(method) {
        against("matrix_free", size(n, p), paste("ghclust,", method, metrics[[method]]),
                function() {
                  on_cpu(ghclust, x, method, metric = metrics[[method]], options = options)
                },
                (50 * p + 500) * n, "observation", n, options)
      }))
    }))
  },
  gmst = function(options) {
    n <- 50000
    do.call(rbind, lapply(c(2, 10), function(p) {
      x <- points_of(n, p)
      do.call(rbind, lapply(c(1, 50), function(k) {
        against("gmst", size(n, p), paste("gmst, min_points =", k),
                function() on_cpu(gmst, x, min_points = k, options = options),
                (30 * p + 400) * n + min(32 * k * n, 2^26), "observation", n, options)
      }))
    }))
  },
  gkmeans = function(options) {
    n <- 1000000
    do.call(rbind, lapply(c(2, 20), function(p) {
      x <- points_of(n, p)
      against("gkmeans", size(n, p), "gkmeans, k = 100",
              function() on_cpu(gkmeans, x, 100, options = options),
              (8 * p + 80) * n, "observation", n, options)
    }))
  },
  gknn = function(options) {
    n <- 40000
    do.call(rbind, lapply(c(2, 20), function(p) {
      x <- points_of(n, p)
      do.call(rbind, lapply(c(10, 100), function(k) {
        bytes <- (24 * k + 200 + 20 * p) * n + min(32 * k * n, 2^26)
        against("gknn", size(n, p), paste("gknn, k =", k),
                function() on_cpu(gknn, x, k, options = options), bytes, "query", n, options)
      }))
    }))
  },
  gneighbours = function(options) {
    n <- 4000
    x <- points_of(n, 2)
    do.call(rbind, lapply(c(3, 100), function(radius) {
      count <- sum(lengths(on_cpu(gneighbours, x, radius, options = options)$index))
      bytes <- 20 * count + (300 + 40) * n + min(32 * count, 2e8)
      against("gneighbours", size(n, 2), paste("gneighbours, radius", radius),
              function() on_cpu(gneighbours, x, radius, options = options), bytes, "neighbour",
              count, options)
    }))
  },
  trees = function(options) {
    n <- 50000
    h <- ghclust(points_of(n, 2), "ward.D2", backend = "cpu", progress = FALSE)
    k <- seq_len(500)
    rbind(
      against("trees", paste(n, "leaves"), "gcutree, 500 cuts", function() gcutree(h, k),
              4 * n * length(k) + 400 * n + 34e6, "value", n * length(k), options),
      against("trees", paste(n, "leaves"), "cut_populations", function() cut_populations(h),
              250 * n, "leaf", n, options)
    )
  },
  gmhclust = function(options) {
    measured <- function(x, call, each, ...) {
      against("gmhclust", size(nrow(x), ncol(x)), call,
              function() on_cpu(gmhclust, x, ..., warn = FALSE, options = options), each * nrow(x),
              "observation", nrow(x), options)
    }
    do.call(rbind, lapply(c(5, 14), function(p) {
      x <- points_of(50000, p)
      covariances <- (12 * p * (p + 1) + 300) / 10
      many <- points_of(1e6, p)
      groups <- integer(1e6)
      groups[order(many[, 1])] <- rep(1:1000, each = 1000)
      rbind(
        measured(x, "gmhclust, centroid", 40 * p + 460 + covariances, distance = "centroid"),
        measured(x, "gmhclust, full", 56 * p + 690 + covariances),
        measured(many, "gmhclust, centroid, apriori", 8 * p + 80, distance = "centroid",
                 apriori = groups),
        measured(many, "gmhclust, full, apriori", 32 * p + 80, apriori = groups)
      )
    }))
  }
)

arguments <- commandArgs(trailingOnly = TRUE)
chosen <- function(option) any(startsWith(arguments, paste0("--", option, "=")))
if (!chosen("repeats")) arguments <- c(arguments, "--repeats=1")
if (!chosen("threads")) arguments <- c(arguments, "--threads=2")
settings <- parse_options(arguments, names(rows))
if (settings$gpu) stop("this measures the memory of the CPU", call. = FALSE)
run_benchmark(settings, arguments, rows)
