#' Distances between observations
#'
#' The distances between the rows of a matrix: all that [stats::dist()] computes, with the same
#' result bit for bit, and the correlation distances that microarray data are compared by; on all
#' cores, and into R's memory directly.
#'
#' @param X Numeric, integer or logical matrix, data frame or vector (one column), observations in
#'   rows. `NA` is a missing value. Row names become the labels of the result; the automatic row
#'   names of a data frame do not.
#' @param method The distance, see *Distances* below: `"euclidean"`, `"maximum"`, `"manhattan"`,
#'   `"canberra"`, `"binary"`, `"minkowski"`, `"pearson"`, `"spearman"` or `"cosine"`. It may be
#'   abbreviated, and every abbreviation that [stats::dist()] takes means what it means there.
#' @param diag,upper Whether printing the result shows the diagonal, and the upper triangle.
#' @param p The power of the Minkowski distance, positive.
#' @param Y `NULL`, or a second matrix with as many columns: then the distances are those of each
#'   row of X from each row of Y.
#' @param absolute If `TRUE`, `"pearson"`, `"spearman"` and `"cosine"` take the magnitude of the
#'   similarity, so that opposite profiles are close.
#' @param zero_over_zero What a term of the Canberra distance is where both values are zero, on
#'   which conventions differ: `"omit"`, left out as if missing, as [stats::dist()] does; `"0"` or
#'   `"1"`.
#' @param backend Where to compute: `"cpu"`, `"cuda"` (NVIDIA GPUs), or `"auto"`, on a GPU where
#'   there is one and the data are large enough to profit. The result does not depend on it, bit for
#'   bit. See [gpu_devices()].
#' @param threads Number of CPU threads. `NULL` means `getOption("mc.cores")` if set, else the
#'   environment's `OMP_NUM_THREADS` if set, else all cores; never more than `OMP_THREAD_LIMIT`, nor
#'   more than two under `R CMD check`. The result does not depend on it, bit for bit.
#' @param progress Whether to draw a progress bar.
#' @param devices Which GPUs to use: their numbers, as [gpu_devices()] lists them, or `NULL` for all
#'   that are usable.
#'
#' @section Distances:
#' Of rows a and b, the sums being over the columns:
#' * `"euclidean"`: the root of the sum of (a - b)^2;
#' * `"maximum"`: the greatest |a - b|;
#' * `"manhattan"`: the sum of |a - b|;
#' * `"canberra"`: the sum of |a - b| / (|a| + |b|), terms 0/0 by `zero_over_zero`;
#' * `"binary"`: of the columns where a or b is not zero, the share where the other one is;
#' * `"minkowski"`: the pth root of the sum of |a - b|^p;
#' * `"pearson"`: 1 - r, r being Pearson's correlation; 1 - |r| if `absolute`;
#' * `"spearman"`: the same of the ranks, ties having their mean rank;
#' * `"cosine"`: 1 - c, c being the cosine of the angle between a and b; 1 - |c| if `absolute`.
#'
#' The first six take the steps of [stats::dist()] one by one, in double precision, so the results
#' are the same to the last bit. The others agree with `1 - cor(t(X))` to rounding; equal rows may
#' be some 1e-16 apart.
#'
#' @section Missing and infinite values:
#' For the first six, as in [stats::dist()]: columns where a or b is missing, or where their
#' difference is not defined (`Inf - Inf`), are left out. The sum is then scaled up in proportion to
#' the columns left out, before the root is taken; so it is where Canberra terms are omitted. The
#' distance is `NA` where no column is left. `"binary"` takes infinite values as missing, with a
#' warning.
#'
#' For the correlations, as in `cor(use = "pairwise")`: those of the columns that both rows have,
#' whose ranks are taken anew for every pair; `NA` where these are fewer than 2 (for the cosine,
#' none). Missing values anywhere in X make every correlation take the longer way.
#'
#' A constant row has no correlation, and a row of zeros no angle: its distances are `NaN`, and one
#' warning of class `gmhclust_warning_constant` names these rows. With missing values, a pair is
#' `NaN` also where one row is constant over the columns that both have.
#'
#' @section Memory:
#' The result has n (n - 1) / 2 values of 8 bytes: 0.64 GB for 12,625 observations, 40 GB for
#' 100,000. It may be longer than 2^31 (n > 65,536). The library writes it straight into R's memory;
#' beside it there are two copies of X. Where the machine has less memory than the result takes, or
#' R gets none, there is an error of class `gmhclust_error_memory` before the work starts.
#'
#' An interrupt (Ctrl-C) stops the work within a second.
#'
#' @inheritSection gmhclust Errors
#'
#' @return Without Y, an object of class [`dist`][stats::dist]: the distances of all pairs, column
#'   by column of the lower triangle, with the attributes `Size`, `Labels` (where X has row names),
#'   `Diag`, `Upper`, `method`, `p` (for `"minkowski"`) and `call`. [stats::hclust()],
#'   [stats::cmdscale()] and `as.matrix()` take it.
#'
#'   With Y, a matrix with a row for each row of X and a column for each row of Y, and their names.
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
#' gdist(profiles, Y = profiles[c("a", "c", "e"), ])
#' @export
gdist <- function(X, # nolint: object_name_linter.
                  method = "euclidean",
                  diag = FALSE,
                  upper = FALSE,
                  p = 2,
                  Y = NULL, # nolint: object_name_linter.
                  absolute = FALSE,
                  zero_over_zero = c("omit", "0", "1"),
                  backend = c("auto", "cpu", "cuda"),
                  threads = NULL,
                  progress = interactive(),
                  devices = NULL) {
  call <- match.call()
  x <- as_points(X, "X", call)
  y <- if (!is.null(Y)) as_other_points(Y, x, "Y", call)
  metric <- check_metric_options(method, p, absolute, zero_over_zero, "method", call)
  diag <- check_flag(diag, "diag", call)
  upper <- check_flag(upper, "upper", call)
  device <- check_device(backend, threads, devices, call)
  progress <- check_flag(progress, "progress", call)

  value <- run_job(
    job_gdist(x, y, metric, device), progress, "Computing distances", call
  )
  warn_of_rows(value$constant, x, y, metric$name, call)
  attributes <- if (is.null(y)) {
    c(
      list(Size = nrow(x), Labels = rownames(x), Diag = diag, Upper = upper, method = metric$name),
      if (metric$name == "minkowski") list(p = p),
      list(call = call, class = "dist")
    )
  } else {
    list(dim = c(nrow(x), nrow(y)), dimnames = both_names(rownames(x), rownames(y)))
  }
  own_attributes(value$distances, attributes)
}

as_other_points <- function(y, x, arg, call) {
  points <- as_points(y, arg, call)
  check_same_columns(points, x, arg, call)
  points
}

check_same_columns <- function(y, x, arg, call) {
  if (ncol(y) != ncol(x)) {
    got <- paste("has", ncol(y), ngettext(ncol(y), "column", "columns"))
    refuse(arg, got, paste("it must have as many as `X`,", ncol(x)), call)
  }
}

both_names <- function(rows, columns) {
  if (!is.null(rows) || !is.null(columns)) list(rows, columns)
}

# `constant` are the numbers of constant rows, those of `y` counted on from those of `x`.
warn_of_rows <- function(constant, x, y, method, call) {
  if (method == "binary" && (any(is.infinite(x)) || any(is.infinite(y)))) {
    warning(simpleWarning("treating non-finite values as NA", call))
  }
  what <- if (method == "cosine") "rows of zeros" else "constant rows"
  n <- nrow(x)
  warn_constant_rows(constant[constant <= n], rownames(x), "X", what, call)
  if (!is.null(y)) warn_constant_rows(constant[constant > n] - n, rownames(y), "Y", what, call)
}
