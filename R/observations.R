#' Observations of an object
#'
#' The functions of this package call `observations()` on their data, so they take all objects that
#' it takes: matrices, data frames, flow cytometry data, and the experiments of Bioconductor. Call
#' it to see what they compute with, and write a method for a class to teach it to them.
#'
#' @param x An object:
#'   * a numeric, integer or logical **matrix** or **data frame** (also a tibble), observations in
#'     rows;
#'   * a `flowFrame` or `flowSet` of package \pkg{flowCore}, a `cytoframe` or `cytoset` of package
#'     \pkg{flowWorkspace}: every cell is an observation;
#'   * a `SummarizedExperiment` or `SingleCellExperiment`, or an `ExpressionSet` of package
#'     \pkg{Biobase};
#'   * a `DelayedMatrix`, for example of HDF5 files, or a sparse matrix of package \pkg{Matrix}.
#' @param channels Which columns of flow cytometry data to take: names of channels or of markers, or
#'   column numbers. `NULL` takes all but scatter (FSC, SSC), time and event parameters.
#' @param use Column names of flow cytometry data: `"marker"`, the marker where a channel has one;
#'   or `"channel"`.
#' @param of What is an observation of an experiment: its `"columns"` (cells, samples) or its
#'   `"rows"` (genes, features).
#' @param assay Which assay: a name or a number. `NULL` takes `"logcounts"` of a
#'   `SingleCellExperiment` that has it, else the first.
#' @param features Which rows of the experiment to use: names, numbers, or a logical vector. `NULL`
#'   takes all.
#' @param dimred The name or number of a reduced dimension (`reducedDim()`), to use instead of an
#'   assay.
#' @param altexp The name or number of an alternative experiment (`altExp()`), for example of
#'   antibodies, to use instead of the main one.
#' @param ... Arguments of the method for the class of `x`. The functions of this package take them,
#'   too: `gmhclust(sce, dimred = "PCA")`.
#'
#' @details
#' Sparse matrices and `DelayedMatrix` are returned unchanged. [gknn()] reads them in blocks. The
#' other functions make them dense, after a check that there is enough memory, and say so.
#'
#' Flow cytometry data are taken as they are: compensate and transform them before.
#'
#' @section Messages:
#' Functions that cluster or compare observations give a message of class
#' `gmhclust_message_columns` if
#' * a column looks like an identifier or a time: whole numbers that are all different, or numbers
#'   that never decrease. Distances would depend mostly on it;
#' * [gmhclust()], [mhclust()] or [gkmeans()] get more columns than rows: then the observations may
#'   be in columns.
#'
#' @section Errors:
#' A condition of class `gmhclust_error_input` if `x` has no numbers or is of another class, if an
#' argument does not fit it, or if the package for its class is not installed.
#'
#' @return A double matrix with observations in rows and their names as row names, where they have
#'   names; or `x`, if it is a sparse matrix or a `DelayedMatrix`. The observations of a `flowSet`
#'   or `cytoset` have an attribute `sample`, a factor: the sample that each row is of.
#' @seealso [gmhclust()]
#'
#' @examples
#' cells <- lymphocytes()
#' dim(observations(cells[1:14]))
#'
#' if (requireNamespace("SingleCellExperiment", quietly = TRUE)) {
#'   sce <- SingleCellExperiment::SingleCellExperiment(
#'     list(exprs = t(as.matrix(cells[1:500, 1:14])))
#'   )
#'   h <- gmhclust(sce, threshold = 50, features = c("CD3", "CD4", "CD8"))
#' }
#'
#' # A method for a class of your own:
#' observations.my_cells <- function(x, ...) observations(x$values, ...)
#' mine <- structure(list(values = cells[1:100, 1:14]), class = "my_cells")
#' registerS3method("observations", "my_cells", observations.my_cells)
#' dim(observations(mine))
#' @export
observations <- function(x, ...) {
  UseMethod("observations")
}

#' @export
observations.default <- function(x, ...) {
  call <- sys.call()
  check_no_more(x, ..., call = call)
  refuse_distances(x, "x", call)
  if (is.null(x)) refuse("x", "is NULL", needs_observations, call)
  if (is.atomic(x) && is.null(dim(x))) refuse_vector(x, "x", call)
  if (!is.matrix(x) && is.object(x) && length(dim(x)) == 2) {
    x <- tryCatch(as.matrix(x), error = function(e) x)
  }
  if (!is.matrix(x) || !is_numeric_type(x)) {
    refuse("x", paste("is", describe(x)), needs_observations, call)
  }
  # A matrix of another class has methods of its own.
  if (is.object(x)) x <- unclass(asS4(x, FALSE))
  as_doubles(x)
}

#' @export
observations.data.frame <- function(x, ...) {
  call <- sys.call()
  check_no_more(x, ..., call = call)
  if (length(x) != ncol(x) || any(vapply(x, NROW, 0L) != nrow(x))) {
    refuse("x", "has columns of different lengths", "a data frame has as many values in each", call)
  }
  check_columns(x, "x", call)
  as_doubles(if (ncol(x) > 0) as.matrix(x) else matrix(0, nrow(x), 0))
}

#' @rdname observations
#' @export
observations.DelayedMatrix <- function(x, ...) {
  call <- sys.call()
  check_no_more(x, ..., call = call)
  need_package("DelayedArray", call)
  type <- DelayedArray::type(x)
  if (!type %in% c("double", "integer", "logical")) {
    refuse("x", paste("is", describe(x), "of type", type), needs_observations, call)
  }
  x
}

# All sparse matrices of package Matrix.
#' @rdname observations
#' @export
observations.sparseMatrix <- function(x, ...) {
  call <- sys.call()
  check_no_more(x, ..., call = call)
  need_package("Matrix", call, install = "install.packages")
  x
}

# ---- what the verbs do with it ------------------------------------------------------------------

# The observations of the user's argument `arg`. Errors are raised on behalf of `call`, and name
# `arg`: those of the methods of this package, and those of other packages about their objects.
as_data <- function(x, arg, call, ...) {
  if (is_number_vector(x)) refuse_vector(x, arg, call)
  tryCatch(observations(x, ...), error = function(e) {
    if (!inherits(e, "gmhclust_error")) {
      got <- paste0("is ", describe(x), ", which cannot be read: ", conditionMessage(e))
      refuse(arg, got, needs_observations, call)
    }
    if (!is.null(e$refused) && e$refused$arg == "x") {
      refuse(arg, e$refused$got, e$refused$needs, call)
    }
    e$call <- call
    stop(e)
  })
}

# Stops if there are arguments that the method for x does not have.
check_no_more <- function(x, ..., call) {
  if (...length() == 0) return(invisible())
  names <- names(list(...))
  if (is.null(names)) names <- character(...length())
  shown <- ifelse(nzchar(names), paste0("`", names, "`"), "one without a name")
  text <- paste0(
    ngettext(...length(), "unused argument: ", "unused arguments: "), paste(shown, collapse = ", "),
    "; see the arguments of this function, and of observations() for ", describe_data(x)
  )
  stop(gmhclust_error_input(text, call))
}

describe_data <- function(x) if (is.data.frame(x)) "a data frame" else describe(x)

# Whether observations() leaves x to functions that read blocks of rows.
is_unread <- function(x) is_delayed(x) || is_sparse(x)

is_sparse <- function(x) inherits(x, "sparseMatrix")

# A double matrix, of observations that may be delayed or sparse.
read_all <- function(x, arg, call) {
  if (!is_unread(x)) return(x)
  bytes <- 8 * nrow(x) * ncol(x)
  # The dense matrix, and what makes it.
  check_memory(paste0("all values of `", arg, "` need"), 2 * bytes, call)
  if (is_sparse(x) && bytes >= 1e6) {
    message(gmhclust_condition(
      c("gmhclust_message_dense", "message"),
      paste0("`", arg, "` is sparse; as a dense matrix, its ", nrow(x), " x ", ncol(x),
             " values take ", in_megabytes(bytes), "\n"),
      call
    ))
  }
  as_doubles(as.matrix(x))
}

in_megabytes <- function(bytes) paste(format(signif(bytes / 1e6, 2), big.mark = ","), "MB")

# Gives one message if a column may be none of the data, or, with `wide`, if there are more columns
# than rows, unless the library refuses such a matrix.
message_if_doubtful <- function(x, arg, call, wide = FALSE) {
  text <- c(if (wide) message_of_shape(x, arg), message_of_counters(x, arg))
  if (length(text) == 0) return(invisible())
  message(gmhclust_condition(
    c("gmhclust_message_columns", "message"), paste0(paste(text, collapse = "\n"), "\n"), call
  ))
}

message_of_shape <- function(x, arg) {
  if (ncol(x) <= nrow(x) || nrow(x) * ncol(x)^3 > gmhclust_degenerate_limit()) return(NULL)
  paste0("`", arg, "` has ", nrow(x), " rows and ", ncol(x), " columns; observations go in rows: ",
         "use t(", arg, ") if they are in columns")
}

# More such columns than these are the nature of the data, for example counts.
most_counters <- 5L

message_of_counters <- function(x, arg) {
  if (ncol(x) < 2 || nrow(x) < fewest_counted) return(NULL)
  # Few columns begin like one, so most are not copied.
  begin <- x[seq_len(fewest_counted), , drop = FALSE]
  counters <- which(apply(begin, 2, is_whole_or_sorted))
  counters <- counters[vapply(counters, function(j) is_counter(x[, j]), NA)]
  if (length(counters) == 0 || length(counters) > most_counters) return(NULL)
  paste0("`", arg, "` has ", ngettext(length(counters), "a column that looks", "columns that look"),
         " like an identifier or a time: ", paste(column_names(x, counters), collapse = ", "),
         "; leave out what does not describe an observation")
}

# Columns by name, or by number where they have none.
column_names <- function(x, columns) {
  names <- colnames(x)[columns]
  if (is.null(names)) return(columns)
  ifelse(is.na(names) | !nzchar(names), columns, dQuote(names, FALSE))
}

# Fewer values, or fewer distinct ones, say nothing about a column. Counts of fewer observations
# than the last may all be different, too.
fewest_counted <- 20L
fewest_ticks <- 10L
fewest_identified <- 100L

# Whether values are like those of an identifier (whole numbers, all different) or of a time (never
# decreasing).
is_counter <- function(x) {
  n <- length(x)
  if (anyNA(x)) return(FALSE)
  if (all(x == round(x)) && anyDuplicated(x) == 0) {
    return(n >= fewest_identified || max(x) - min(x) == n - 1)
  }
  !is.unsorted(x) && length(unique(x)) >= fewest_ticks
}

is_whole_or_sorted <- function(x) !anyNA(x) && (all(x == round(x)) || !is.unsorted(x))
