#' Distances between observations
#'
#' Distances between the rows of a matrix, on all cores or a GPU: the distances of [stats::dist()],
#' bit for bit, and correlation distances, as used for microarray data.
#'
#' @param x Numeric, integer or logical matrix, data frame or vector (one column), with observations
#'   in rows. `NA` is a missing value. Row names become the labels of the result; the automatic row
#'   names of a data frame do not.
#' @param method The distance, see *Distances* below: `"euclidean"`, `"maximum"`, `"manhattan"`,
#'   `"canberra"`, `"binary"`, `"minkowski"`, `"pearson"`, `"spearman"` or `"cosine"`. It may be
#'   abbreviated; abbreviations that [stats::dist()] accepts mean the same here.
#' @param diag,upper Whether printing the result shows the diagonal, and the upper triangle.
#' @param p The power of the Minkowski distance, a positive number.
#' @param y `NULL`, or a second matrix with the same number of columns: the result then has the
#'   distances between each row of `x` and each row of `y`. Columns are matched by number; the same
#'   column names in another order are an error.
#' @param absolute If `TRUE`, `"pearson"`, `"spearman"` and `"cosine"` use the absolute value of the
#'   similarity, so that opposite profiles are close.
#' @param zero_over_zero The value of a term 0/0 in the Canberra distance, on which conventions
#'   differ: `"0"`, `"1"`, or `"omit"`, which leaves the term out like a missing value, as
#'   [stats::dist()] does.
#' @param backend Where to compute: `"cpu"`; `"cuda"`, on an NVIDIA GPU; or `"auto"`, on a GPU if
#'   there is one and the data are large enough to profit. The result is the same, bit for bit. See
#'   [gpu_devices()].
#' @param threads Number of CPU threads. The default is option `gmhclust.threads`. `NULL` means
#'   `getOption("mc.cores")` if set, else the environment variable `OMP_NUM_THREADS` if set, else
#'   the number of cores that this process may use, from [parallelly::availableCores()]: all cores
#'   of the machine, or fewer in a container, in a cluster job or with a CPU quota. `NULL` gives at
#'   most `OMP_THREAD_LIMIT` threads, and at most two under `R CMD check`. More than four threads
#'   for each core that this process may use (or eight, if it has one core) are capped, with a
#'   message of class `gmhclust_message_threads`. The result is the same, bit for bit.
#' @param devices The GPUs to use: their numbers, as [gpu_devices()] lists them, or `NULL` for all
#'   usable GPUs. [gpu_devices()] says which functions use more than one.
#' @param progress Whether to show progress and the time left: `TRUE` for a bar, or for lines on the
#'   error output if that is no terminal, such as the log of a batch job; `"progressr"` for the
#'   handlers of package \pkg{progressr}.
#' @param ... Arguments of [observations()] for the data.
#'
#' @section Distances:
#' Between rows a and b, with sums over the columns:
#' * `"euclidean"`: the square root of the sum of (a - b)^2;
#' * `"maximum"`: the largest |a - b|;
#' * `"manhattan"`: the sum of |a - b|;
#' * `"canberra"`: the sum of |a - b| / (|a| + |b|); `zero_over_zero` is the value of terms 0/0;
#' * `"binary"`: among the columns in which a or b is not zero, the share of columns in which one of
#'   them is zero;
#' * `"minkowski"`: the pth root of the sum of |a - b|^p;
#' * `"pearson"`: 1 - r with Pearson's correlation r; 1 - |r| if `absolute`;
#' * `"spearman"`: like `"pearson"`, with the ranks of the values; tied values get their mean rank;
#' * `"cosine"`: 1 - c with the cosine c of the angle between a and b; 1 - |c| if `absolute`.
#'
#' The first six distances repeat the operations of [stats::dist()] in double precision, so the
#' results are equal to the last bit. Correlation distances agree with `1 - cor(t(x))` up to
#' rounding; the distance between equal rows may be some 1e-16 instead of 0.
#'
#' @section Missing and infinite values:
#' The first six distances treat missing values as [stats::dist()] does. They leave out columns in
#' which a or b is missing, or in which their difference is undefined (`Inf - Inf`). The sum is then
#' scaled up in proportion to the number of columns left out, before the root is taken; omitted
#' Canberra terms are treated in the same way. The distance is `NA` if no column is left. `"binary"`
#' treats infinite values as missing, with a warning.
#'
#' The correlations treat missing values as `cor(use = "pairwise")` does: they use the columns in
#' which neither row has a missing value, and rank the values of these columns for each pair. The
#' distance is `NA` if there are fewer than 2 such columns (for the cosine, if there is none). A
#' missing value anywhere in `x` slows down all correlations.
#'
#' A constant row has no correlation, and a row of zeros has no angle. The distances of these rows
#' are `NaN`, and one warning of class `gmhclust_warning_constant` names the rows. With missing
#' values, a distance is also `NaN` if one row is constant over the columns that the pair uses.
#'
#' @section Memory:
#' The result has n (n - 1) / 2 values of 8 bytes: 0.64 GB for 12,625 observations, 40 GB for
#' 100,000. It may be longer than 2^31 (n > 65,536). The library writes the distances directly into
#' R's memory and needs two copies of `x` in addition. If there is too little memory for the result,
#' the call stops at once with an error of class `gmhclust_error_memory`.
#'
#' The functions of this package count the memory that is available on the machine and, on Linux, in
#' its container or job: the memory limits of control groups (Docker, Kubernetes, SLURM, systemd),
#' or else the memory that a SLURM job asked for (`SLURM_MEM_PER_NODE`, `SLURM_MEM_PER_CPU`). Free
#' swap counts as available, and so does the file cache, because the system frees it on demand. On
#' Windows and under `ulimit -v`, the system itself refuses requests for memory that it does not
#' have. On macOS, the limit is the physical memory.
#'
#' Before a call starts, it adds up all the memory that it will need, including its result, and
#' compares the sum with the available memory. A reserve of three percent of the limit, at least 32
#' MB and at most 1 GB, stays free for R itself. If there is too little memory, R first runs its
#' garbage collector. A call that needs less than 16 MB is not checked. A running call is stopped
#' with the same error when half of the reserve is used, for example by other programs.
#' `inst/benchmarks/memory.R` measures the figures of memory on these help pages.
#'
#' An interrupt (Ctrl-C) stops the work within a second.
#'
#' @inheritSection gmhclust Errors
#'
#' @return Without `y`, an object of class [`dist`][stats::dist]: the distances of all pairs, column
#'   by column of the lower triangle, with the attributes `Size`, `Labels` (if `x` has row names),
#'   `Diag`, `Upper`, `method`, `p` (for `"minkowski"`) and `call`. [stats::hclust()],
#'   [stats::cmdscale()] and `as.matrix()` accept it.
#'
#'   With `y`, a matrix with a row for each row of `x` and a column for each row of `y`, and their
#'   names.
#'
#' @section Heat maps:
#' `Heatmap(clustering_distance_rows = )` of package \pkg{ComplexHeatmap} requires functions of one
#' or two arguments. `gdist()` has more arguments, so wrap it in a function of the matrix:
#' `clustering_distance_rows = function(m) gdist(m, "spearman")`. The argument may also be a result
#' of `gdist()`.
#'
#' @seealso [stats::dist()], [stats::cor()]; [gmhclust()].
#'
#' @examples
#' d <- gdist(USArrests, "manhattan")
#' all.equal(d, dist(USArrests, "manhattan"), check.attributes = FALSE)
#' plot(hclust(d, "average"))
#'
#' # Genes by the shape of their profiles, whatever the sign:
#' profiles <- matrix(rnorm(60), 6, dimnames = list(letters[1:6], NULL))
#' gdist(profiles, "pearson", absolute = TRUE)
#'
#' # How far from each of three references?
#' gdist(profiles, y = profiles[c("a", "c", "e"), ])
#' @export
gdist <- function(x,
                  method = "euclidean",
                  diag = FALSE,
                  upper = FALSE,
                  p = 2,
                  y = NULL,
                  absolute = FALSE,
                  zero_over_zero = c("omit", "0", "1"),
                  backend = getOption("gmhclust.backend", "auto"),
                  threads = getOption("gmhclust.threads"),
                  devices = getOption("gmhclust.devices"),
                  progress = getOption("gmhclust.progress", interactive()),
                  ...) {
  call <- match.call()
  x <- as_points(x, "x", call, ...)
  message_if_doubtful(x, "x", call)
  y <- if (!is.null(y)) as_other_points(y, x, "y", call, ...)
  metric <- check_metric_options(method, p, absolute, zero_over_zero, "method", call)
  diag <- check_flag(diag, "diag", call)
  upper <- check_flag(upper, "upper", call)
  device <- check_device(backend, threads, devices, call)
  progress <- check_progress(progress, call)

  value <- run_job(
    job_gdist(x, y, metric, device), progress, "Computing distances", call
  )
  warn_undefined_rows(value$constant, x, y, metric$name, call)
  attributes <- if (is.null(y)) {
    c(
      list(Size = nrow(x), Labels = rownames(x), Diag = diag, Upper = upper, method = metric$name),
      if (metric$name == "minkowski") list(p = p),
      list(call = call, class = "dist")
    )
  } else {
    list(dim = c(nrow(x), nrow(y)), dimnames = both_names(rownames(x), rownames(y)))
  }
  with_attributes(value$distances, attributes, call)
}

# Sets the attributes of `distances` without a copy. No other variable may refer to `distances`.
with_attributes <- function(distances, attributes, call) {
  value <- set_attributes_in_place(distances, attributes)
  if (is.null(value)) {
    stop(gmhclust_error_input(
      paste("the distances cannot get the dimensions or names of the observations, because their",
            "lengths do not fit the number of rows"),
      call
    ))
  }
  value
}

as_other_points <- function(y, x, arg, call, ...) {
  points <- as_points(y, arg, call, ...)
  check_same_columns(points, x, arg, call)
  points
}

check_same_columns <- function(y, x, arg, call) {
  if (ncol(y) != ncol(x)) {
    got <- paste("has", ncol(y), ngettext(ncol(y), "column", "columns"))
    refuse(arg, got, paste("it must have as many as `x`,", ncol(x)), call)
  }
  check_column_order(colnames(y), colnames(x), arg, call)
}

# Stops if the columns have the names of the columns `of` something, `expected`, in another order.
# Columns are matched by number; other names say nothing about the order.
check_column_order <- function(names, expected, arg, call, of = "`x`") {
  first <- first_out_of_order(names, expected)
  if (is.null(first)) return(invisible())
  needs <- paste0("column ", first, " is ", quoted(names[first]), ", and that of ", of, " is ",
                  quoted(expected[first]), ": give the columns in the order of ", of)
  refuse(arg, paste("has the columns of", of, "in another order"), needs, call)
}

both_names <- function(rows, columns) {
  if (!is.null(rows) || !is.null(columns)) list(rows, columns)
}

# Warns of rows without a direction (constant rows; rows of zeros for the cosine). `constant` has
# their numbers; the rows of `y` are numbered after the rows of `x`.
warn_undefined_rows <- function(constant, x, y, method, call) {
  if (method == "binary" && (any(is.infinite(x)) || any(is.infinite(y)))) {
    warn_user("infinite", "treating non-finite values as NA", call)
  }
  what <- if (method == "cosine") "rows of zeros" else "constant rows"
  n <- nrow(x)
  warn_constant_rows(constant[constant <= n], rownames(x), "x", what, call)
  if (!is.null(y)) warn_constant_rows(constant[constant > n] - n, rownames(y), "y", what, call)
}
