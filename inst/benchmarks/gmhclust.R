# Usage: Rscript gmhclust.R [--gpu [--cpu] [--devices=N,...]] [--csv=FILE [--columns=NAME,...]]
#                           [--threshold=T] [--calls=CALL;...] [--rows=ROW,...] [--repeats=N]
#                           [--once=SECONDS] [--threads=N] [--out=FILE.csv]
#
# Times gmhclust() in R, on the CPU or, with --gpu, with an NVIDIA GPU (backend = "cuda"); every
# time includes reading x and returning the tree. Requires only R and the package. Rows, all on the
# package's lymphocytes or on cells smoothed from them (smoothed_cells() in common.R):
#   cells20k               the lymphocytes, 20,000 x 14
#   cells44k cells167k cells841k
#                          44,000 x 14, 167,000 x 13 and 841,000 x 14
#   cells265k              265,000 x 32: random linear mixtures of the markers, with noise
#                          (mass_cytometry_cells() in common.R)
#   apriori20k             the lymphocytes in 1,000 apriori clusters by k-means
#   cells1m cells1m300     1,000,000 x 14 in 1,000 and 300 apriori clusters by k-means
#   cells20m               20,000,000 x 14 in 2,000 apriori clusters by k-means (no call is cold)
#   growth                 5,000 to 40,000 x 14: how time grows with n
#   crossover              2,000 to 60,000 x 14, with and without GPU
#   columns                30,000 x 41, 64 and 100 and 15,000 x 200, made as cells265k
#   apriori2k              1,000 apriori clusters of 2,000 x 20, from a mixture
#   groups2m groups20m     2,000,000 and 20,000,000 x 14 in apriori clusters of 10,000, random
#                          samples
#   csv                    the numeric columns (or those of --columns) of --csv's FILE, a table with
#                          a header, as exported from FCS files by programs for cytometry
# By default, cells20k, cells44k, apriori20k and growth run without --gpu, and all rows but
# apriori20k, cells20m, growth, columns, apriori2k, groups2m and groups20m with it; csv alone with
# --csv.
#
# The threshold is 100 for the lymphocytes, groups2m and groups20m, and 1% of n for others;
# --threshold is a count, or a fraction of n. --calls replaces the calls of each row by one or more
# of "euclidMahal, centroid", "mahal, centroid" and "mahal, full". With --cpu, each call is made
# once without the GPU, too, and the results say whether the trees are identical. --devices chooses
# GPUs by number.
#
# Each row runs in a separate process, whose first call with a GPU is cold: it opens the device.
# Each call is measured 3 times, or once if it took more than --once seconds. Prints medians; writes
# them with the machine's name as CSV, too, with --out.

library(gmhclust)
script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])
source(file.path(dirname(script), "common.R"))

# ---- the calls ----------------------------------------------------------------------------------

ways <- list(
  "euclidMahal, centroid" = list(subthreshold = "euclidMahal", distance = "centroid"),
  "mahal, centroid" = list(subthreshold = "mahal", distance = "centroid"),
  "mahal, full" = list(subthreshold = "mahal", distance = "full")
)

# Calls on data, a list of `x` and, if wanted, `apriori`.
calls_of <- function(names, threshold) {
  lapply(structure(names, names = names), function(name) {
    force(name)
    function(data, options) {
      # The tree keeps the call, which must contain the name of the data, not the data.
      call <- as.call(c(
        quote(gmhclust), quote(data$x), apriori = quote(data$apriori), ways[[name]],
        threshold = threshold, backend = options$backend, threads = options$threads,
        list(devices = chosen_devices(options)), progress = FALSE, warn = FALSE
      ))
      eval(call)
    }
  })
}

# ---- the rows -----------------------------------------------------------------------------------

of_data <- function(data, n, p, make, calls, threshold = 0.01, compare = FALSE) {
  chosen <- if (is.null(settings$calls)) calls else settings$calls
  if (!is.null(settings$threshold)) threshold <- settings$threshold
  if (threshold < 1) threshold <- threshold * n
  case(data, make, calls_of(chosen, threshold), compare = compare,
       columns = list(n = n, p = p, threshold = threshold))
}

of_lymphocytes <- function() {
  of_data("lymphocytes, 20,000 x 14", 20000, 14, function(options) list(x = markers()), names(ways),
          threshold = 100)
}

# The first p markers of smoothed cells.
of_cells <- function(n, p, calls, compare = FALSE) {
  of_data(named_size(n, p, "cells"), n, p, function(options) {
    list(x = smoothed_cells(n)[, seq_len(p)])
  }, calls, compare = compare)
}

of_mass_cytometry <- function(n, p, calls) {
  of_data(named_size(n, p, "cells"), n, p, function(options) {
    list(x = mass_cytometry_cells(n, p))
  }, calls)
}

# Cells in k apriori clusters. gkmeans() finds them without the GPU, so that the first call of
# gmhclust() stays cold, unless `warm`.
in_k_means <- function(data, n, k, calls, make, threshold = 0.01, warm = FALSE) {
  data <- paste(data, "in", counted(k), "apriori clusters")
  of_data(data, n, 14, function(options) {
    x <- make()
    set.seed(1)
    backend <- if (warm) options$backend else "cpu"
    found <- suppressWarnings(
      gkmeans(x, k, 10, backend = backend, threads = options$threads, progress = FALSE)
    )
    list(x = x, apriori = found$cluster)
  }, calls, threshold)
}

# n points in p dimensions from k equally large elliptical clusters with different centres,
# orientations and axes: list(x = n x p matrix, apriori = integer vector, 1..k).
elliptical_mixture <- function(n, p, k, seed) {
  set.seed(seed)
  component <- rep_len(seq_len(k), n)
  x <- matrix(0, n, p)
  for (members in split(seq_len(n), component)) {
    rotation <- qr.Q(qr(matrix(rnorm(p * p), p)))
    shape <- exp(rnorm(p, sd = 0.7)) * t(rotation)
    x[members, ] <- rep(rnorm(p, sd = 10), each = length(members)) +
      matrix(rnorm(length(members) * p), ncol = p) %*% shape
  }
  list(x = x, apriori = component)
}

in_mixture <- function(size, calls) {
  data <- paste("1,000 apriori clusters of", counted(size), "x 20")
  of_data(data, 1000 * size, 20, function(options) elliptical_mixture(1000 * size, 20, 1000, 6),
          calls)
}

# Cells in random groups of this size, each of which is a sample of all cells.
in_groups <- function(n, size, calls) {
  data <- paste(named_size(n, 14, "cells"), "in apriori clusters of", counted(size))
  of_data(data, n, 14, function(options) {
    list(x = smoothed_cells(n), apriori = rep_len(seq_len(n / size), n))
  }, calls, threshold = size / 100)
}

of_table <- function(options) {
  table <- read.csv(options$csv, check.names = FALSE)
  columns <- if (is.null(options$columns)) {
    names(table)[vapply(table, is.numeric, NA)]
  } else {
    strsplit(options$columns, ",")[[1]]
  }
  unknown <- setdiff(columns, names(table))
  if (length(unknown) > 0) stop("no such column: ", unknown[1], call. = FALSE)
  x <- as.matrix(table[columns])
  of_data(basename(options$csv), nrow(x), ncol(x), function(options) list(x = x), names(ways))
}

both <- names(ways)[2:3]
arguments <- commandArgs(trailingOnly = TRUE)
csv_given <- any(startsWith(arguments, "--csv="))
on_cpu <- c("cells20k", "cells44k", "apriori20k", "growth")
on_gpu <- c(
  "cells20k", "cells44k", "cells167k", "cells265k", "cells841k", "cells1m", "cells1m300",
  "crossover"
)
settings <- parse_options(
  arguments, if (csv_given) "csv" else on_cpu, if (csv_given) "csv" else on_gpu,
  c("csv", "columns", "threshold", "calls", "devices"),
  c(on_cpu, on_gpu, "cells20m", "columns", "apriori2k", "groups2m", "groups20m", "csv")
)
settings$threshold <- number(settings$threshold, NULL)
if (!is.null(settings$calls)) settings$calls <- listed(settings$calls, ";", names(ways), "call")

rows <- list(
  "cells20k" = of_lymphocytes(),
  "cells44k" = of_cells(44000, 14, names(ways)),
  "cells167k" = of_cells(167000, 13, both),
  "cells265k" = of_mass_cytometry(265000, 32, names(ways)[1:2]),
  "cells841k" = of_cells(841000, 14, both),
  "apriori20k" = in_k_means("lymphocytes", 20000, 1000, "mahal, full", markers, threshold = 100),
  "cells1m" = in_k_means("1,000,000 x 14 cells", 1e6, 1000, both, function() smoothed_cells(1e6)),
  "cells1m300" = in_k_means("1,000,000 x 14 cells", 1e6, 300, both, function() smoothed_cells(1e6)),
  "cells20m" = in_k_means("20,000,000 x 14 cells", 2e7, 2000, both[1],
                          function() smoothed_cells(2e7), warm = TRUE),
  "growth" = lapply(c(5, 10, 20, 40) * 1000, of_cells, 14, both),
  "crossover" = lapply(c(2, 4, 9, 16, 30, 60) * 1000, of_cells, 14, both, compare = TRUE),
  "columns" = Map(of_mass_cytometry, c(30, 30, 30, 15) * 1000, c(41, 64, 100, 200), list(both)),
  "apriori2k" = in_mixture(2000, both),
  "groups2m" = in_groups(2e6, 10000, both),
  "groups20m" = in_groups(2e7, 10000, both[1])
)
if (csv_given) rows$csv <- of_table(settings)
run_benchmark(settings, arguments, rows)
