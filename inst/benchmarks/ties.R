# Usage: Rscript ties.R [--rows=ROW,...] [--calls=CALL;...] [--n=N] [--repeats=N] [--threads=N]
#                       [--limit=SECONDS] [--gpu] [--out=FILE.csv]
#
# Times gmhclust(), gknn(), gmst(), gkmeans() and ghclust() on data with ties, duplicates and
# outliers and, in the same run, on normal data of the same shape. Requires R and the package.
#
# Rows, each a kind of data with N rows (--n, by default 20,000):
#   zeros        3 columns, 70% of the rows zero, the others normal
#   counts       Poisson(0.2) x 5
#   constant     all rows equal, x 3
#   saturated    normal x 3, one value 1e10
#   exponential  exp(8 * normal) x 3
#   bytes        whole numbers from 0 to 255, x 14
#   inflated     30 columns, 70% of the values zero, the others normal
#   grid         a cubic grid of whole numbers
#   repeated     60 distinct rows, x 5
#   offset       normal + 1e9, x 3
#   scales       normal x 3, in units of 1e-6, 1 and 1e6
#   groups       two groups of normal data, x 3, 1e9 apart
#   cauchy       Cauchy x 5
#
# Calls: gmhclust() with both distances, gknn() with k = 10, gmst(), gkmeans() with 20 iterations,
# ghclust() from points; and ghclust() with a matrix and from a dist object, on the first quarter of
# the rows only. Calls that are not defined for a kind of data (correlations of constant rows, more
# centers than distinct rows) are left out.
#
# Every measurement is a call in a separate process, 3 times each, with tied and normal data in
# turns. A call that takes more than --limit seconds (60) is stopped and not repeated; the limit is
# then a lower bound on its time. With --gpu, all calls have backend = "cuda", and follow an
# unmeasured call that opens the device. Prints a table of medians with the machine's name; writes
# it as CSV, too, with --out.

library(gmhclust)
script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])
source(file.path(dirname(script), "common.R"))

normal <- function(n, p) matrix(rnorm(n * p), n)

# ---- the data -----------------------------------------------------------------------------------

rows <- list(
  zeros = function(n) normal(n, 3) * (seq_len(n) %in% sample(n, 0.3 * n)),
  counts = function(n) matrix(as.double(rpois(5 * n, 0.2)), n),
  constant = function(n) matrix(1, n, 3),
  saturated = function(n) {
    x <- normal(n, 3)
    x[n / 2, 2] <- 1e10
    x
  },
  exponential = function(n) exp(8 * normal(n, 3)),
  bytes = function(n) matrix(as.double(sample(0:255, 14 * n, replace = TRUE)), n),
  inflated = function(n) normal(n, 30) * rbinom(30 * n, 1, 0.3),
  grid = function(n) {
    side <- as.double(seq_len(round(n^(1 / 3))))
    unname(as.matrix(expand.grid(side, side, side)))
  },
  repeated = function(n) normal(60, 5)[sample(60, n, replace = TRUE), ],
  offset = function(n) normal(n, 3) + 1e9,
  scales = function(n) normal(n, 3) * rep(c(1e-6, 1, 1e6), each = n),
  groups = function(n) normal(n, 3) + 1e9 * rep_len(0:1, n),
  cauchy = function(n) matrix(rcauchy(5 * n), n)
)

# ---- the calls ----------------------------------------------------------------------------------

# Functions of the data and the options of all calls. Each returns the call to measure.
from_rows <- function(call, ...) {
  arguments <- list(...)
  function(x, options) function() do.call(call, c(list(quote(x)), arguments, options))
}

quarter <- function(x) x[seq_len(nrow(x) / 4), , drop = FALSE]

through_matrix <- function(method) {
  function(x, options) {
    x <- quarter(x)
    function() do.call(ghclust, c(list(quote(x), method, metric = "manhattan"), options))
  }
}

of_dist <- function(method) {
  function(x, options) {
    d <- gdist(quarter(x))
    function() do.call(ghclust, c(list(quote(d), method), options))
  }
}

of_each <- function(what, make, names) {
  structure(lapply(names, make), names = paste0(what, ", ", names))
}

calls <- c(
  list(
    "gmhclust, centroid" = from_rows(gmhclust, threshold = 0.5, distance = "centroid"),
    "gmhclust, full" = from_rows(gmhclust, threshold = 0.5),
    "gknn, euclidean" = from_rows(gknn, 10),
    "gknn, manhattan" = from_rows(gknn, 10, metric = "manhattan"),
    "gknn, pearson" = from_rows(gknn, 10, metric = "pearson"),
    "gmst, euclidean" = from_rows(gmst),
    "gmst, manhattan" = from_rows(gmst, metric = "manhattan"),
    "gkmeans, k = 100" = from_rows(gkmeans, 100, 20),
    "gkmeans, k = 1,000" = from_rows(gkmeans, 1000, 20)
  ),
  of_each(
    "ghclust", function(method) from_rows(ghclust, method),
    c("single", "ward.D2", "centroid", "median")
  ),
  of_each(
    "ghclust, matrix", through_matrix,
    c("complete", "average", "mcquitty", "ward.D", "centroid", "median")
  ),
  of_each(
    "ghclust, dist", of_dist, c("single", "complete", "average", "ward.D2", "centroid", "median")
  )
)

# ---- measuring ----------------------------------------------------------------------------------

# The data of a row; normal data of the same shape unless `tied`.
data_of <- function(row, n, tied) {
  set.seed(1)
  x <- rows[[row]](n)
  if (tied) x else normal(nrow(x), ncol(x))
}

# Whether a call is defined for data.
allows <- function(call, x) {
  if (grepl("pearson", call)) return(all(apply(x, 1, var) > 0))
  if (grepl("gkmeans", call)) {
    k <- as.numeric(gsub("[^0-9]", "", call))
    return(nrow(unique(x)) >= k)
  }
  TRUE
}

# Measures one call in this process; a data frame.
work <- function(options) {
  x <- data_of(options$rows, options$n, options$data == "tied")
  settings <- list(threads = options$threads, progress = FALSE)
  if (options$gpu) {
    settings$backend <- "cuda"
    gknn(normal(1000, 3), 5, backend = "cuda", progress = FALSE)
  }
  task <- calls[[options$calls]](x, settings)
  set.seed(2)
  as.data.frame(as.list(measure(task)))
}

# The same in a separate process; `NA` seconds if the call took too long or failed.
measure_apart <- function(row, call, data, options) {
  file <- tempfile(fileext = ".csv")
  on.exit(unlink(file))
  own <- c(
    "--worker", paste0("--", c("rows", "calls", "data", "n", "out", "threads"), "=",
                       c(row, call, data, options$n, file, options$threads)),
    if (options$gpu) "--gpu"
  )
  rscript <- file.path(R.home("bin"), "Rscript")
  status <- suppressWarnings(
    system2(rscript, shQuote(c(script, own)), timeout = options$limit + 30)
  )
  if (status == 124) return(data.frame(seconds = Inf, megabytes = NA))
  if (status != 0) return(data.frame(seconds = NA, megabytes = NA))
  read.csv(file)
}

compare <- function(row, call, options) {
  runs <- list(tied = NULL, normal = NULL)
  for (i in seq_len(options$repeats)) {
    for (data in names(runs)) {
      runs[[data]] <- rbind(runs[[data]], measure_apart(row, call, data, options))
    }
    if (!is.finite(runs$tied$seconds[i]) || runs$tied$seconds[i] > options$limit) break
  }
  medians <- lapply(runs, function(run) vapply(run, median, 0))
  seconds <- vapply(medians, `[[`, 0, "seconds")
  megabytes <- vapply(medians, `[[`, 0, "megabytes")
  result <- data.frame(
    row = row, data = paste(counted(options$n), "rows"), call = call, n = options$n,
    seconds = round(seconds[["tied"]], 3),
    normal_seconds = round(seconds[["normal"]], 3),
    times = round(seconds[["tied"]] / seconds[["normal"]], 2),
    megabytes = round(megabytes[["tied"]]), normal_megabytes = round(megabytes[["normal"]]),
    repeats = nrow(runs$tied), row.names = NULL
  )
  cat(sprintf("%-12s %-26s %9.3f s %9.3f s %7.2f times %6.0f MB %6.0f MB\n", row, call,
              result$seconds, result$normal_seconds, result$times, result$megabytes,
              result$normal_megabytes))
  result
}

arguments <- commandArgs(trailingOnly = TRUE)
settings <- parse_options(
  arguments, names(rows), names(rows), c("calls", "n", "limit", "data")
)
settings$n <- number(settings$n, 20000)
settings$limit <- number(settings$limit, 60)
settings$calls <- listed(settings$calls, ";", names(calls), "call")
if (settings$worker) {
  write.csv(work(settings), settings$out, row.names = FALSE)
} else {
  machine <- machine_columns(settings)
  print_machine(machine)
  table <- NULL
  for (row in settings$rows) {
    allowed <- Filter(function(call) allows(call, data_of(row, settings$n, TRUE)), settings$calls)
    for (call in allowed) {
      table <- rbind(table, compare(row, call, settings))
      write_results(table, machine, settings)
    }
  }
  cat("\nseconds: median of the repeats; megabytes: peak memory beyond that before the call;",
      "normal_: of\nnormal data of that shape; times: how much longer the row takes\n")
}
