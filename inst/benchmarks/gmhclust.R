# Usage: Rscript gmhclust.R [--rows=ROW,...] [--repeats=N] [--threads=N] [--out=FILE.csv]
#        Rscript gmhclust.R --gpu [--cpu] [--csv=FILE [--columns=NAME,...]] [--threshold=T]
#                           [--calls=CALL;...] [--rows=ROW,...] [--repeats=N] [--threads=N]
#                           [--devices=N,...] [--out=FILE.csv]
#
# Times gmhclust() in R; every time includes reading X and returning the tree. Requires only R and
# the package.
#
# The first form measures the CPU and, in the same run and on the same data, fastcluster's
# matrix-free centroid linkage (the same work as a Euclidean centroid distance) and mhca for
# comparison, if they are installed. Rows:
#   small        2,000 x 14 mixture: mahal, both distances
#   lymphocytes  20,000 x 14 cells, threshold 100: euclidMahal and mahal, both distances
#   apriori      the same cells in kmeans(X, 1000) apriori clusters
#   cells        44,000 x 14 smoothed cells, threshold 440: euclidMahal and mahal, both distances
#   mixture      44,000 x 14 mixture: mahal, centroid distance
#   million      1,000,000 x 20 mixture in 1,000 apriori clusters, with its peak memory
#   growth       5,000 to 40,000 x 14 mixture: how time grows with n
#
# The second form measures with a GPU (backend = "cuda"), and a threshold of 1% of n. With --cpu, it
# also measures once without a GPU on the same data, and reports whether the trees are identical;
# row cells44k then adds fastcluster's matrix-free centroid linkage, if it is installed. Each row
# runs in a separate process. Its first call is cold: it opens the device. Rows on cells smoothed
# from lymphocytes() (smoothed_cells() in common.R):
#   cells44k cells167k cells841k
#                          44,000 x 14, 167,000 x 13 and 841,000 x 14
#   cells265k              265,000 x 32: random linear mixtures of the markers, with noise
#                          (mass_cytometry_cells() in common.R)
#   cells1m                1,000,000 x 14 in 1,000 apriori clusters by k-means
#   crossover              2,000 to 60,000 x 14, with and without GPU
# Rows on mixtures, whose clusters are well separated, with the sizes of published experiments:
#   44k 167k 265k 841k     44,000 x 14, 167,000 x 13, 265,000 x 32 and 841,000 x 39
#   apriori1k apriori2k apriori5k
#                          1,000 apriori clusters of 1,000, 2,000 and 5,000 points x 20
# And:
#   csv                    the numeric columns (or those of --columns) of --csv's FILE, a table with
#                          a header, as exported from FCS files by programs for cytometry
# --devices chooses GPUs by number. --threshold is a count, or a fraction of n. --calls replaces the
# calls of each row by one or more of "euclidMahal, centroid", "mahal, centroid" and "mahal, full".
#
# All rows run by default (csv alone with --csv), each measurement 3 times, on gmhclust()'s default
# number of threads. Prints a table of medians with the machine's name; writes it as CSV, too, with
# --out.

library(gmhclust)
script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])
source(file.path(dirname(script), "common.R"))

# n points in p dimensions from k elliptical clusters with different centres, orientations, axes and
# (unless `equal`) weights. Returns list(x = n x p matrix, component = integer vector, 1..k).
elliptical_mixture <- function(n, p, k, seed, equal = FALSE) {
  set.seed(seed)
  component <- if (equal) {
    rep_len(seq_len(k), n)
  } else {
    sample(k, n, replace = TRUE, prob = runif(k, 0.5, 1.5))
  }
  x <- matrix(0, n, p)
  for (members in split(seq_len(n), component)) {
    rotation <- qr.Q(qr(matrix(rnorm(p * p), p)))
    axes <- exp(rnorm(p, sd = 0.7))
    shape <- axes * t(rotation)
    x[members, ] <- rep(rnorm(p, sd = 10), each = length(members)) +
      matrix(rnorm(length(members) * p), ncol = p) %*% shape
  }
  list(x = x, component = component)
}

# ---- the rows -----------------------------------------------------------------------------------

cluster_task <- function(x, options, ...) {
  arguments <- list(...)
  function() do.call(gmhclust, c(list(quote(x), threads = options$threads), arguments))
}

mahal_tasks <- function(x, options, threshold) {
  list(
    "mahal, centroid" = cluster_task(x, options, threshold = threshold, quick = TRUE),
    "mahal, full" = cluster_task(x, options, threshold = threshold)
  )
}

all_tasks <- function(x, options, threshold) {
  euclid <- cluster_task(x, options, threshold = threshold, subthreshold = "euclidMahal",
                         quick = TRUE)
  c(list("euclidMahal, centroid" = euclid), mahal_tasks(x, options, threshold))
}

fastcluster_task <- function(x) {
  if (!requireNamespace("fastcluster", quietly = TRUE)) return(NULL)
  list("fastcluster::hclust.vector, centroid" = function() {
    fastcluster::hclust.vector(x, method = "centroid")
  })
}

mhca_tasks <- function(x, threshold) {
  if (!requireNamespace("mhca", quietly = TRUE)) return(NULL)
  mhclust <- getExportedValue("mhca", "mhclust")
  list(
    "mhca::mhclust, centroid" = function() mhclust(x, threshold / nrow(x), quick = TRUE),
    "mhca::mhclust, full" = function() mhclust(x, threshold / nrow(x))
  )
}

rows <- list(
  small = function(options) {
    x <- elliptical_mixture(2000, 14, k = 10, seed = 1)$x
    tasks <- c(mahal_tasks(x, options, 100), fastcluster_task(x), mhca_tasks(x, 100))
    paired("small", "2,000 x 14 mixture", tasks, options$repeats)
  },
  lymphocytes = function(options) {
    x <- markers()
    tasks <- c(all_tasks(x, options, 100), fastcluster_task(x))
    paired("lymphocytes", "lymphocytes, 20,000 x 14", tasks, options$repeats)
  },
  apriori = function(options) {
    x <- markers()
    set.seed(1)
    clusters <- suppressWarnings(kmeans(x, 1000)$cluster)
    task <- cluster_task(x, options, threshold = 100, apriori = clusters)
    paired("apriori", "lymphocytes in 1,000 apriori clusters", list("mahal, full" = task),
           options$repeats)
  },
  cells = function(options) {
    x <- smoothed_cells(44000)
    paired("cells", "44,000 x 14 cells", all_tasks(x, options, 440), options$repeats)
  },
  mixture = function(options) {
    x <- elliptical_mixture(44000, 14, k = 20, seed = 2)$x
    paired("mixture", "44,000 x 14 mixture", mahal_tasks(x, options, 100)["mahal, centroid"],
           options$repeats)
  },
  million = function(options) {
    mixture <- elliptical_mixture(1e6, 20, k = 1000, seed = 3)
    task <- cluster_task(mixture$x, options, threshold = 500, apriori = mixture$component,
                         quick = TRUE)
    paired("million", "1,000,000 x 20 in 1,000 apriori clusters", list("mahal, centroid" = task),
           options$repeats)
  },
  growth = function(options) {
    sizes <- c(5000, 10000, 20000, 40000)
    table <- do.call(rbind, lapply(sizes, function(n) {
      x <- elliptical_mixture(n, 14, k = 20, seed = 4)$x
      data <- paste(format(n, big.mark = ","), "x 14 mixture")
      paired("growth", data, mahal_tasks(x, options, 100), options$repeats)
    }))
    for (call in unique(table$call)) {
      seconds <- table$seconds[table$call == call]
      exponent <- coef(lm(log(seconds) ~ log(sizes)))[[2]]
      cat(sprintf("%s: time grows as n^%.2f\n", call, exponent))
    }
    table
  }
)

# ---- the rows with a GPU ------------------------------------------------------------------------

calls <- list(
  "euclidMahal, centroid" = list(subthreshold = "euclidMahal", quick = TRUE),
  "mahal, centroid" = list(subthreshold = "mahal", quick = TRUE),
  "mahal, full" = list(subthreshold = "mahal", quick = FALSE)
)

named_size <- function(n, p, what) {
  paste(format(n, big.mark = ",", scientific = FALSE), "x", p, what)
}

# The first p markers of smoothed cells. `peers`: a function that makes tasks of other packages.
of_cells <- function(n, p, calls, peers = NULL) {
  list(
    name = named_size(n, p, "cells"), calls = calls, peers = peers,
    data = function(options) list(x = smoothed_cells(n)[, seq_len(p)])
  )
}

of_mass_cytometry <- function(n, p, calls) {
  list(
    name = named_size(n, p, "cells"), calls = calls,
    data = function(options) list(x = mass_cytometry_cells(n, p))
  )
}

# Cells in k apriori clusters. gkmeans() finds them without the GPU, so that the first call of
# gmhclust() stays cold.
in_k_means <- function(n, p, k, calls) {
  clusters <- paste("cells in", format(k, big.mark = ","), "apriori clusters")
  list(
    name = named_size(n, p, clusters), calls = calls,
    data = function(options) {
      x <- smoothed_cells(n)[, seq_len(p)]
      set.seed(1)
      found <- gkmeans(x, k, 10, backend = "cpu", threads = options$threads, progress = FALSE)
      list(x = x, apriori = found$cluster)
    }
  )
}

of_mixture <- function(n, p, calls) {
  list(
    name = named_size(n, p, "mixture"), calls = calls,
    data = function(options) list(x = elliptical_mixture(n, p, k = 20, seed = 5)$x)
  )
}

in_apriori <- function(size, calls) {
  list(
    name = paste("1,000 apriori clusters of", format(size, big.mark = ","), "x 20"), calls = calls,
    data = function(options) {
      mixture <- elliptical_mixture(1000 * size, 20, k = 1000, seed = 6, equal = TRUE)
      list(x = mixture$x, apriori = mixture$component)
    }
  )
}

read_table <- function(options) {
  table <- read.csv(options$csv, check.names = FALSE)
  columns <- if (is.null(options$columns)) {
    names(table)[vapply(table, is.numeric, NA)]
  } else {
    strsplit(options$columns, ",")[[1]]
  }
  unknown <- setdiff(columns, names(table))
  if (length(unknown) > 0) stop("no such column: ", unknown[1], call. = FALSE)
  list(x = as.matrix(table[columns]))
}

gpu_rows <- list(
  "cells44k" = of_cells(44000, 14, names(calls), fastcluster_task),
  "cells167k" = of_cells(167000, 13, names(calls)[2:3]),
  "cells265k" = of_mass_cytometry(265000, 32, names(calls)[1:2]),
  "cells841k" = of_cells(841000, 14, names(calls)[2:3]),
  "cells1m" = in_k_means(1e6, 14, 1000, names(calls)[2:3]),
  "crossover" = c(2000, 4000, 9000, 16000, 30000, 60000),
  "44k" = of_mixture(44000, 14, names(calls)),
  "167k" = of_mixture(167000, 13, "mahal, centroid"),
  "265k" = of_mixture(265000, 32, names(calls)[1:2]),
  "841k" = of_mixture(841000, 39, "mahal, centroid"),
  "apriori1k" = in_apriori(1000, "mahal, centroid"),
  "apriori2k" = in_apriori(2000, names(calls)[2:3]),
  "apriori5k" = in_apriori(5000, "mahal, centroid"),
  "csv" = list(name = "csv", calls = names(calls), data = read_table)
)

# Measures one row in this process; a data frame.
gpu_row <- function(row, options) {
  if (row != "crossover") return(time_calls(row, gpu_rows[[row]], options, cold = TRUE))
  options$cpu <- TRUE
  tables <- lapply(gpu_rows[[row]], function(n) {
    both <- of_cells(n, 14, names(calls)[2:3])
    time_calls(row, both, options, cold = n == gpu_rows[[row]][1])
  })
  do.call(rbind, tables)
}

# `cold`: whether the first call is the first one of this process.
time_calls <- function(row, what, options, cold) {
  data <- what$data(options)
  n <- nrow(data$x)
  threshold <- options$threshold
  chosen <- if (is.null(options$calls)) what$calls else options$calls
  line <- function(call, timed) {
    data.frame(
      row = row, data = what$name, n = n, p = ncol(data$x),
      threshold = if (threshold < 1) threshold * n else threshold, call = call, timed
    )
  }
  tables <- lapply(seq_along(chosen), function(i) {
    how <- c(calls[[chosen[i]]], threshold = threshold, threads = options$threads,
             list(devices = chosen_devices(options)))
    run <- function(backend) run_once(data, how, backend)
    line(chosen[i], time_on_gpu(run, options, cold && i == 1))
  })
  peers <- if (options$cpu && !is.null(what$peers)) what$peers(data$x)
  timed <- lapply(names(peers), function(call) line(call, time_without_gpu(peers[[call]])))
  do.call(rbind, c(tables, timed))
}

run_once <- function(data, how, backend) {
  # The tree keeps the call, so the call must contain the name of the data, not the data.
  named <- list(quote(data$x), apriori = quote(data$apriori))
  call <- as.call(c(quote(gmhclust), named, how, backend = backend, progress = FALSE))
  tree <- NULL
  measured <- measure(function() tree <<- eval(call))
  c(as.list(measured), list(result = unclass(tree)[c("merge", "height", "order")]))
}

arguments <- commandArgs(trailingOnly = TRUE)
csv_given <- any(startsWith(arguments, "--csv="))
settings <- parse_options(
  arguments, names(rows), if (csv_given) "csv" else setdiff(names(gpu_rows), "csv"),
  c("csv", "columns", "threshold", "calls", "devices")
)
settings$threshold <- number(settings$threshold, 0.01)
if (!is.null(settings$calls)) settings$calls <- listed(settings$calls, ";", names(calls), "call")
run_benchmark(settings, arguments, function(row, options) rows[[row]](options), gpu_row)
