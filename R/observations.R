#' Observations of an object
#'
#' Converts an object to a matrix with observations in rows, or describes files that have them. The
#' functions of this package call `observations()` on their data, so they take every object that has
#' a method: matrices, data frames, files, flow cytometry data, and Bioconductor experiments. Call
#' it to see the values that the functions use. A method for another class extends all functions to
#' that class.
#'
#' @param x An object:
#'   * a numeric, integer or logical **matrix** or **data frame** (also a tibble), observations in
#'     rows;
#'   * a `flowFrame` or `flowSet` of package \pkg{flowCore}, a `cytoframe` or `cytoset` of package
#'     \pkg{flowWorkspace}: every cell is an observation. See *Sets of samples*;
#'   * the names of **FCS files**, or of a folder with them: every event is an observation; or the
#'     names of **Parquet files**, or of a folder with them, or of **.npy files** of NumPy: every
#'     row of a table or an array is an observation. See *Files*;
#'   * a **function** of two row numbers, the first and the last, that returns these rows as a
#'     matrix;
#'   * a `SummarizedExperiment` or `SingleCellExperiment`, or an `ExpressionSet` of package
#'     \pkg{Biobase};
#'   * a matrix of any class of package \pkg{Matrix}, dense or sparse; a `DelayedMatrix`, for
#'     example of HDF5 files; a `SparseMatrix` of package \pkg{SparseArray}.
#'
#'   The assays and reduced dimensions of experiments may be any of these matrices, too.
#' @param channels The columns of flow cytometry data to use: names of channels or of markers, or
#'   column numbers. If several channels have a marker, `"CD3 (FL1-A)"` names one of them, as the
#'   result does. `NULL` means all columns except scatter (FSC, SSC and similar channels), time,
#'   descriptions of an event or its image, and results of an earlier analysis; see *Flow
#'   cytometry*.
#' @param use The column names for flow cytometry data: `"marker"`, the marker of a channel if it
#'   has one, else the channel; or `"channel"`.
#' @param cofactor `NULL`, or the cofactor of the inverse hyperbolic sine by which flow cytometry
#'   data are transformed: asinh(x / cofactor). Either one number, for all channels except the
#'   channels that are left out by default (scatter, time and so on); or one number for each of the
#'   chosen channels, in their order or named by channel or marker. `NULL` leaves the values as they
#'   are.
#' @param of Which dimension of an experiment holds the observations: `"columns"` (cells, samples)
#'   or `"rows"` (genes, features).
#' @param assay The assay: a name or a number. `NULL` means assay `"logcounts"` of a
#'   `SingleCellExperiment` if it exists, else the first assay.
#' @param features The rows of the experiment to use: names, numbers, or a logical vector. `NULL`
#'   means all rows.
#' @param dimred The name or number of a reduced dimension (`reducedDim()`), to use instead of an
#'   assay.
#' @param altexp The name or number of an alternative experiment (`altExp()`), for example of
#'   antibodies, to use instead of the main experiment.
#' @param rows_are_observations By default, a square matrix that looks like distances, such as
#'   `as.matrix(dist(x))` or `1 - cor(x)`, is an error; for linkage of distances, use
#'   `ghclust(as.dist(d))`. `TRUE` takes the rows of the matrix as observations.
#' @param ... Arguments of the method for the class of `x`. The functions of this package pass such
#'   arguments on, as in `gmhclust(sce, dimred = "PCA")`.
#'
#' @details
#' `observations()` keeps sparse matrices sparse, and does not read a `DelayedMatrix`, files, a
#' `cytoset` or a function. [gknn()] and `predict()` read all of these in blocks; [gkmeans()],
#' [gmhclust()], [cut_populations()] and [stability()] read them in blocks, except sparse matrices,
#' and keep them in memory or in a scratch file, by their argument `memory`. The other functions
#' convert them to dense matrices after checking the memory; for a large sparse matrix, a message of
#' class `gmhclust_message_dense` says so.
#'
#' @section Files:
#' At first, only the headers of files are read. One error names all files that are damaged, or all
#' files whose channels differ from the channels of the first file; columns are matched by name.
#' Later, events are read in blocks, as often as they are needed, so files must not change
#' meanwhile. `channels`, `use` and `cofactor` are as for a `flowFrame`.
#'
#' Files of FCS 2.0 to 3.1 (Spidlen et al. 2010) are read with values in single or double precision,
#' or integers of 8, 16 or 32 bits. The values are those of `flowCore::read.FCS(transformation =
#' FALSE, truncate_max_range = FALSE)`. Files with integers in logarithmic channels or with other
#' formats are refused; flowCore reads some of them.
#'
#' Parquet files are read by package \pkg{nanoparquet}: columns of numbers are channels, other
#' columns are left out. A file is read whole and is in memory while its rows are used, so divide
#' large tables into several files.
#'
#' Arrays in .npy files are of real numbers in single or double precision, of integers of up to 32
#' bits, or of logical values, in rows and columns. Arrays in C order are read faster than those in
#' Fortran order. They have no names of columns.
#'
#' [count_populations()] counts cells in each file, and [add_populations()] writes populations into
#' copies of FCS files.
#'
#' @section Sets of samples:
#' Every sample of a `flowSet` or `cytoset` must have the chosen channels. They are matched by name,
#' and one error names all samples that lack some.
#'
#' The cells of a `flowSet`, which are in memory, become one matrix, whose attribute `sample` has
#' the sample of each cell. A `cytoset` is on disk and is read as files are, whenever functions need
#' its cells: one sample at a time is in memory, with all its channels. Its samples must not change
#' meanwhile, for example by `transform()`. Workers of `BPPARAM` read it only if they are forks of
#' this R process, as those of `BiocParallel::MulticoreParam()`. `in_blocks = TRUE` reads a
#' `flowSet` in the same way.
#'
#' [count_populations()] counts cells in each sample of both.
#'
#' @section Flow cytometry:
#' `observations()` does not compensate. Compensate a `flowFrame`, `flowSet` or `cytoset` first; for
#' files, compensate by `transform`. It is called after `cofactor`, so leave out `cofactor` and
#' transform the values in the same function. Values that are not transformed yet need `cofactor` or
#' `transform`. The usual cofactors are 5 for mass cytometry and 150 for fluorescence (Bendall et
#' al. 2011, Figure S2). A named `cofactor` may also name channels that are not chosen. It must name
#' every chosen channel, except channels that are left out by default (scatter, time and so on):
#' without a cofactor, their values stay as they are.
#'
#' Without `channels`, the names of the channels (`$PnN`) decide which channels are left out:
#' * scatter: `FSC-A`, `SSC-B-H`, `VSSC-A`, `Violet SSC-A`, `BSC-A`, `FS Lin`, `FALS`, `LightLoss`;
#' * time: `Time`, `TIMESTAMP`, `HDR-T`;
#' * descriptions of an event: `Event_length`, `Center`, `Offset`, `Width`, `Residual`, `HDR-CE`,
#'   numbers of events, bits and phases of sorters;
#' * shapes of images: `Size (LightLoss)`, `Eccentricity (LightLoss)`, `Radial Moment (FSC)`;
#' * columns of an earlier analysis, such as populations that were written back into the file:
#'   `population`, `cluster`, `metacluster`, `label`, `sample`, `file_number`, `tSNE1`, `UMAP_2`. A
#'   message of class `gmhclust_message_channels` names them.
#'
#' Beads, DNA, barcodes and viability are not left out, nor are the heights and widths of
#' fluorescence (`FITC-H`, `FITC-W`). A marker that is there as area, height and width counts three
#' times in every distance. `channels` can select any channel, also one that is left out by default.
#'
#' @section Messages:
#' Functions that cluster or compare observations give a message of class
#' `gmhclust_message_columns` if
#' * a column looks like an identifier or a time: whole numbers that are all different, or numbers
#'   that never decrease. Distances would depend mostly on this column;
#' * [gmhclust()], [mhclust()], [gkmeans()] or [stability()] get more columns than rows: the
#'   observations may be in columns.
#'
#' @section Errors:
#' A condition of class `gmhclust_error_input` if `x` has no numbers or is of another class, if an
#' argument does not fit it, if the package for its class is not installed, or if flow cytometry
#' data in memory have the same value in all events of each channel, as after reading a file
#' wrongly.
#'
#' @return For files, functions, a `cytoset`, and a `flowSet` with `in_blocks = TRUE`, an object of
#'   class [row_blocks]. Else a double matrix with observations in rows. If the observations have
#'   names, these are the row names. A sparse matrix of package \pkg{Matrix} becomes a `dgCMatrix`;
#'   a `DelayedMatrix` or a `SparseMatrix` of package \pkg{SparseArray} becomes a `DelayedMatrix`.
#'   The observations of a `flowSet` have an attribute `sample`, a factor: the sample of each row.
#' @references
#' Spidlen J, Moore W, Parks D, et al. (2010). Data File Standard for Flow Cytometry, version FCS
#' 3.1. *Cytometry Part A* 77A(1), 97-100. \doi{10.1002/cyto.a.20825}
#'
#' Bendall SC, Simonds EF, Qiu P, et al. (2011). Single-cell mass cytometry of differential immune
#' and drug responses across a human hematopoietic continuum. *Science* 332(6030), 687-696.
#' \doi{10.1126/science.1198704}
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
#'   tree <- gmhclust(sce, threshold = 50, features = c("CD3", "CD4", "CD8"))
#' }
#'
#' # A method for a class of your own:
#' observations.my_cells <- function(x, ...) observations(x$values, ...)
#' mine <- structure(list(values = cells[1:100, 1:14]), class = "my_cells")
#' registerS3method("observations", "my_cells", observations.my_cells)
#' dim(observations(mine))
#' @export
observations <- function(x, ...) {
  if (missing(x)) refuse_missing("x", needs_observations, match.call())
  UseMethod("observations")
}

#' @rdname observations
#' @export
observations.default <- function(x, rows_are_observations = FALSE, ...) {
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
  # A class may have its own methods, which must not be called for a plain matrix.
  if (is.object(x)) x <- unclass(asS4(x, FALSE))
  refuse_square_distances(as_doubles(x), rows_are_observations, call)
}

#' @rdname observations
#' @export
observations.data.frame <- function(x, rows_are_observations = FALSE, ...) {
  call <- sys.call()
  check_no_more(x, ..., call = call)
  if (!is.list(x)) refuse("x", paste("is", describe(x)), needs_observations, call)
  if (length(x) != ncol(x) || any(vapply(x, NROW, 0L) != nrow(x))) {
    refuse("x", "has columns of different lengths", "a data frame has as many values in each", call)
  }
  check_columns(x, "x", call)
  # as.matrix() takes a column with levels, such as numbers of populations, for text, and writes all
  # other columns with getOption("digits") digits.
  for (j in which(vapply(x, function(column) !is.null(attr(column, "levels")), NA))) {
    x[[j]] <- as.vector(unclass(x[[j]]))
  }
  x <- as_doubles(if (ncol(x) > 0) as.matrix(x) else matrix(0, nrow(x), 0))
  refuse_square_distances(x, rows_are_observations, call)
}

# Returns x; stops if it is a square matrix of distances, unless `rows_are_observations`. `n` is the
# number of its rows; x may be their first rows and columns.
refuse_square_distances <- function(x, rows_are_observations, call, n = nrow(x)) {
  insists <- check_flag(rows_are_observations, "rows_are_observations", call)
  if (insists || !is_square_distances(x)) return(x)
  needs <- paste(
    "use ghclust(as.dist(...)) for linkage of these distances; rows_are_observations = TRUE takes",
    "the rows as observations"
  )
  refuse("x", paste0("looks like distances: its ", n, " x ", n,
                     " values are symmetric and not negative, with a diagonal of zeros"),
         needs, call)
}

# Whether a matrix of doubles is symmetric and not negative, with a diagonal of zeros, up to
# rounding, as 1 - cor(x) is. Matrices smaller than 3 x 3, and matrices of zeros, may as well be
# data.
is_square_distances <- function(x) {
  n <- nrow(x)
  if (n != ncol(x) || n < 3) return(FALSE)
  if (is_sparse(x)) {
    x@Dimnames <- list(NULL, NULL)
    return(isTRUE(all(x@x >= 0) && any(x@x > 0)) && all(Matrix::diag(x) == 0) &&
             Matrix::isSymmetric(x))
  }
  largest <- suppressWarnings(max(x, na.rm = TRUE))
  if (!is.finite(largest) || largest <= 0) return(FALSE)
  rounding <- 1e-8 * largest
  diagonal <- x[seq.int(1, by = n + 1, length.out = n)]
  if (anyNA(diagonal) || any(abs(diagonal) > rounding) || min(x, na.rm = TRUE) < -rounding) {
    return(FALSE)
  }
  difference <- abs(x - t(x))
  identical(is.na(x), t(is.na(x))) && all(difference <= rounding, na.rm = TRUE)
}

#' @rdname observations
#' @export
observations.DelayedMatrix <- function(x, rows_are_observations = FALSE, ...) {
  call <- sys.call()
  check_no_more(x, ..., call = call)
  need_package("DelayedArray", call)
  type <- DelayedArray::type(x)
  if (!type %in% c("double", "integer", "logical")) {
    refuse("x", paste("is", describe(x), "of type", type), needs_observations, call)
  }
  insists <- check_flag(rows_are_observations, "rows_are_observations", call)
  if (!insists && nrow(x) == ncol(x)) {
    # A corner, because all values may not fit into memory.
    corner <- seq_len(min(nrow(x), 200))
    values <- as_doubles(as.matrix(x[corner, corner, drop = FALSE]))
    refuse_square_distances(values, FALSE, call, nrow(x))
  }
  x
}

# All classes of package Matrix.
#' @rdname observations
#' @export
observations.Matrix <- function(x, # nolint: object_name_linter. The class's name.
                                rows_are_observations = FALSE, ...) {
  call <- sys.call()
  check_no_more(x, ..., call = call)
  need_package("Matrix", call, install = "install.packages")
  if (!is_sparse(x)) return(observations(as.matrix(x), rows_are_observations))
  refuse_square_distances(as_compressed(x), rows_are_observations, call)
}

# A sparse matrix of any class as a "dgCMatrix", which all versions of DelayedArray read. Some
# versions refuse symmetric and triangular classes.
as_compressed <- function(x) {
  if (inherits(x, "dgCMatrix")) return(x)
  # Compressed first: a logical value may be in several triplets, and counts once.
  for (class in c("CsparseMatrix", "dMatrix", "generalMatrix")) x <- methods::as(x, class)
  x
}

# The sparse matrices of package SparseArray, as matrices to be read in blocks.
#' @rdname observations
#' @export
observations.SparseMatrix <- function(x, ...) { # nolint: object_name_linter. The class's name.
  call <- sys.call()
  check_no_more(x, ..., call = call)
  need_package("DelayedArray", call)
  observations(DelayedArray::DelayedArray(x))
}

# ---- observations in other functions -------------------------------------------------------------

# The observations of the user's argument `arg`. Errors have the call `call` and name `arg`, whether
# a method of this package or of another package raises them.
as_data <- function(x, arg, call, ...) {
  if (missing(x)) refuse_missing(arg, needs_observations, call)
  if (is_number_vector(x)) refuse_vector(x, arg, call)
  values <- tryCatch(observations(x, ...), error = function(e) {
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
  if (is.matrix(values) && is.double(values) && !is.object(values)) return(values)
  plain_observations(values, x, arg, call)
}

# The value of a method of a user's class, as a plain matrix of doubles, a DelayedMatrix or a sparse
# matrix. The class is removed because the library reads the attribute `dim`, not the value of a
# method of dim().
plain_observations <- function(values, x, arg, call) {
  if ((isS4(values) && is_unread(values)) || is_row_blocks(values)) return(values)
  if ((isS4(values) || is.data.frame(values)) && !identical(class(values), class(x))) {
    return(as_data(values, arg, call))
  }
  plain <- unclass(if (isS4(values)) asS4(values, FALSE) else values)
  if (!is.matrix(plain) || !is_numeric_type(values)) {
    got <- paste0("is ", describe(x), ", whose method of observations() gave ", describe(plain))
    refuse(arg, got, "it must give a numeric matrix with observations in rows", call)
  }
  as_doubles(plain)
}

# Stops if there are arguments that the method for x does not have.
check_no_more <- function(x, ..., call) {
  if (...length() == 0) return(invisible())
  names <- names(list(...))
  if (is.null(names)) names <- character(...length())
  shown <- ifelse(nzchar(names), paste0("`", names, "`"), "an unnamed argument")
  text <- paste0(
    ngettext(...length(), "unused argument: ", "unused arguments: "), paste(shown, collapse = ", "),
    "; see the arguments of this function, and of observations() for ", describe_data(x)
  )
  stop(gmhclust_error_input(text, call))
}

describe_data <- function(x) {
  if (is.null(x)) return("`x`")
  if (is.data.frame(x)) "a data frame" else describe(x)
}

# Whether observations() returns x unread, for functions that read blocks of rows.
is_unread <- function(x) is_in_blocks(x) || is_sparse(x)

is_sparse <- function(x) inherits(x, "sparseMatrix")

# The value of observations(), which may be delayed or sparse, as a plain double matrix.
read_all <- function(x, arg, call) {
  if (!is_unread(x)) return(x)
  bytes <- 8 * nrow(x) * ncol(x)
  # The dense matrix, and the memory that the conversion takes.
  check_memory(paste0("all values of `", arg, "` need"), 2 * bytes, call)
  if (is_sparse(x) && bytes >= 1e6) {
    inform_user(
      "dense",
      paste0("`", arg, "` is sparse; as a dense matrix, its ", nrow(x), " x ", ncol(x),
             " values take ", in_megabytes(bytes)),
      call
    )
  }
  if (!is_row_blocks(x)) return(as_doubles(as.matrix(x)))
  values <- x[, , drop = FALSE]
  # The attribute that the observations of a flowSet have if they are not read in blocks.
  if (identical(x$what[1], "sample")) attr(values, "sample") <- parts_of_rows(x)
  values
}

# The least number of two digits that is not less than a positive number.
rounded_up <- function(number) {
  unit <- 10^(floor(log10(number)) - 1)
  ceiling(number / unit) * unit
}

in_megabytes <- function(bytes) paste(shown_count(signif(bytes / 1e6, 2)), "MB")

# Gives one message if a column looks like an identifier or a time, or, with `wide`, if there are
# more columns than rows, unless the library refuses such a matrix.
message_if_doubtful <- function(x, arg, call, wide = FALSE) {
  text <- c(if (wide) message_of_shape(x, arg), message_of_counters(x, arg))
  if (length(text) == 0) return(invisible())
  inform_user("columns", paste(text, collapse = "\n"), call)
}

message_of_shape <- function(x, arg) {
  if (ncol(x) <= nrow(x) || nrow(x) * ncol(x)^3 > gmhclust_degenerate_limit()) return(NULL)
  paste0("`", arg, "` has ", nrow(x), " rows and ", ncol(x), " columns; observations go in rows: ",
         "use t(", arg, ") if they are in columns")
}

# Maximum number of columns that the message names. If more columns look like identifiers, the data
# are probably counts, so there is no message.
most_counters <- 5L

message_of_counters <- function(x, arg) {
  if (ncol(x) < 2 || nrow(x) < fewest_counted) return(NULL)
  # Few columns begin like an identifier or a time, so most columns are not copied. Counts often
  # begin with different values, but not for long.
  counters <- seq_len(ncol(x))
  for (rows in c(fewest_counted, 50L * fewest_counted)) {
    begin <- x[seq_len(min(rows, nrow(x))), counters, drop = FALSE]
    counters <- counters[apply(begin, 2, begins_as_counter)]
  }
  counters <- counters[vapply(counters, function(j) is_counter(x[, j]), NA)]
  if (length(counters) == 0 || length(counters) > most_counters) return(NULL)
  paste0("`", arg, "` has ", ngettext(length(counters), "a column that looks", "columns that look"),
         " like an identifier or a time: ", paste(column_names(x, counters), collapse = ", "),
         "; leave out columns that do not describe an observation")
}

# The names of columns; for a column without a name, its number.
column_names <- function(x, columns, quote = TRUE) {
  names <- colnames(x)[columns]
  if (is.null(names)) return(columns)
  ifelse(is.na(names) | !nzchar(names), columns, if (quote) quoted(names) else names)
}

# Minimum numbers for the message about a column: rows of data (`fewest_counted`), distinct values
# of a time (`fewest_ticks`), and rows for an identifier whose numbers have gaps
# (`fewest_identified`), because counts of fewer rows may all be different by chance.
fewest_counted <- 20L
fewest_ticks <- 10L
fewest_identified <- 100L

# Whether values look like an identifier (whole numbers, all different) or like a time (never
# decreasing).
is_counter <- function(x) {
  n <- length(x)
  if (anyNA(x)) return(FALSE)
  if (all(x == round(x)) && anyDuplicated(x) == 0) {
    return(n >= fewest_identified || max(x) - min(x) == n - 1)
  }
  !is.unsorted(x) && length(unique(x)) >= fewest_ticks
}

# Whether the values of a counter may begin with these.
begins_as_counter <- function(x) {
  !anyNA(x) && (!is.unsorted(x) || all(x == round(x)) && anyDuplicated(x) == 0)
}
