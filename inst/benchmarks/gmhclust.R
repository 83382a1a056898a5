# Usage: Rscript gmhclust.R [--rows=ROW,...] [--repeats=N] [--threads=N] [--out=FILE.csv]
#
# Times gmhclust() through R, and beside it, in the same run and on the same data, what it stands in
# for: fastcluster's matrix-free centroid linkage (as much work as a Euclidean centroid distance)
# and mhca, where they are installed. Prints a table of medians with the machine's name; writes it
# as CSV, too, with --out. Rows:
#   small        2,000 x 14 mixture: mahal, both distances
#   lymphocytes  20,000 x 14 cells, threshold 100: euclidMahal and mahal, both distances
#   apriori      the same cells in kmeans(X, 1000) apriori clusters
#   mixture      44,000 x 14 mixture: mahal, centroid distance
#   million      1,000,000 x 20 mixture in 1,000 apriori clusters, with its peak memory
#   growth       5,000 to 40,000 x 14 mixture: how time grows with n
# All rows run by default, each measurement 3 times, on gmhclust()'s default number of threads.

library(gmhclust)

# n points in p dimensions from k elliptical clusters, each with a centre, orientation, axes and
# weight of its own. Returns list(x = n x p matrix, component = integer vector, 1..k).
elliptical_mixture <- function(n, p, k, seed) {
  set.seed(seed)
  component <- sample(k, n, replace = TRUE, prob = runif(k, 0.5, 1.5))
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

# ---- measuring ----------------------------------------------------------------------------------

# Megabytes of this process, "VmRSS" (now) or "VmHWM" (at most); NA where the system does not say.
process_megabytes <- function(what) {
  status <- "/proc/self/status"
  if (!file.exists(status)) return(NA_real_)
  line <- grep(paste0("^", what), readLines(status), value = TRUE)
  as.numeric(gsub("[^0-9]", "", line)) / 1024
}

# Sets VmHWM back to VmRSS, where the system allows; else the peak is that of the whole run, an
# upper bound.
reset_peak <- function() {
  try(suppressWarnings(cat("5\n", file = "/proc/self/clear_refs")), silent = TRUE)
}

measure <- function(task) {
  gc(reset = TRUE)
  reset_peak()
  before <- process_megabytes("VmRSS")
  seconds <- suppressWarnings(system.time(task())[["elapsed"]])
  c(seconds = seconds, megabytes = process_megabytes("VmHWM") - before)
}

# Runs the named tasks `repeats` times, taking turns, so that what slows the machine slows all.
paired <- function(row, data, tasks, repeats) {
  runs <- lapply(seq_len(repeats), function(i) vapply(tasks, measure, numeric(2)))
  runs <- simplify2array(runs)
  medians <- apply(runs, 1:2, median)
  data.frame(
    row = row, data = data, call = names(tasks), seconds = round(medians["seconds", ], 3),
    fastest = round(apply(runs["seconds", , , drop = FALSE], 2, min), 3),
    slowest = round(apply(runs["seconds", , , drop = FALSE], 2, max), 3),
    megabytes = round(medians["megabytes", ]), repeats = repeats, row.names = NULL
  )
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

markers <- function() as.matrix(lymphocytes()[1:14])

rows <- list(
  small = function(options) {
    x <- elliptical_mixture(2000, 14, k = 10, seed = 1)$x
    tasks <- c(mahal_tasks(x, options, 100), fastcluster_task(x), mhca_tasks(x, 100))
    paired("small", "2,000 x 14 mixture", tasks, options$repeats)
  },
  lymphocytes = function(options) {
    x <- markers()
    tasks <- c(
      list("euclidMahal, centroid" = cluster_task(
        x, options, threshold = 100, subthreshold = "euclidMahal", quick = TRUE
      )),
      mahal_tasks(x, options, 100), fastcluster_task(x)
    )
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

# ---- the command line ---------------------------------------------------------------------------

parse_options <- function(arguments) {
  known <- "^--(rows|repeats|threads|out)=(.+)$"
  wrong <- grep(known, arguments, invert = TRUE, value = TRUE)
  if (length(wrong) > 0) stop("unknown option: ", wrong[1], call. = FALSE)
  given <- structure(as.list(sub(known, "\\2", arguments)), names = sub(known, "\\1", arguments))
  chosen <- if (is.null(given$rows)) names(rows) else strsplit(given$rows, ",")[[1]]
  unknown <- setdiff(chosen, names(rows))
  if (length(unknown) > 0) {
    stop("unknown row: ", unknown[1], "; rows: ", toString(names(rows)), call. = FALSE)
  }
  number <- function(text, default) if (is.null(text)) default else as.integer(text)
  list(
    rows = chosen, out = given$out,
    threads = number(given$threads, NULL), repeats = number(given$repeats, 3L)
  )
}

machine_name <- function() {
  cpu <- "/proc/cpuinfo"
  model <- if (file.exists(cpu)) {
    sub(".*: *", "", grep("^model name", readLines(cpu), value = TRUE)[1])
  } else {
    Sys.info()[["machine"]]
  }
  sprintf("%s, %d cores, %s, gmhclust %s", model, parallel::detectCores(), R.version.string,
          packageVersion("gmhclust"))
}

settings <- parse_options(commandArgs(trailingOnly = TRUE))
cat(machine_name(), "\n\n")
measured <- do.call(rbind, lapply(settings$rows, function(row) rows[[row]](settings)))
options(width = 160)
print(measured[names(measured) != "row"], row.names = FALSE, right = FALSE)
cat("\nseconds: median of the repeats; megabytes: peak memory beyond that before the call\n")
if (!is.null(settings$out)) {
  write.csv(cbind(measured, machine = machine_name()), settings$out, row.names = FALSE)
}
