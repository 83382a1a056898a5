# Methods of observations() for the experiments of Bioconductor.

# nolint start: object_name_linter, object_length_linter. The classes' names.

#' @rdname observations
#' @export
observations.SummarizedExperiment <- function(x, of = c("columns", "rows"), assay = NULL,
                                              features = NULL, ...) {
  call <- sys.call()
  check_no_more(x, ..., call = call)
  need_package("SummarizedExperiment", call)
  assays <- SummarizedExperiment::assayNames(x)
  count <- length(SummarizedExperiment::assays(x, withDimnames = FALSE))
  if (count == 0) refuse("x", "has no assays", "it must have at least 1", call)
  chosen <- check_part(assay, assays, count, "assay", "assays", call)
  # The names are those of the experiment, because a symmetric matrix cannot name rows and columns
  # differently.
  values <- SummarizedExperiment::assay(x, chosen, withDimnames = FALSE)
  of <- check_choice(of, c("columns", "rows"), "of", call)
  of_experiment(values, dimnames(x), of, features, call)
}

#' @rdname observations
#' @export
observations.SingleCellExperiment <- function(x, of = c("columns", "rows"), assay = NULL,
                                              features = NULL, dimred = NULL, altexp = NULL, ...) {
  call <- sys.call()
  check_no_more(x, ..., call = call)
  need_package("SingleCellExperiment", call)
  of <- check_choice(of, c("columns", "rows"), "of", call)
  if (!is.null(altexp)) {
    names <- SingleCellExperiment::altExpNames(x)
    altexp <- check_part(altexp, names, length(names), "altexp", "alternative experiments", call)
    x <- SingleCellExperiment::altExp(x, altexp)
  }
  if (!is.null(dimred)) return(reduced_dimension(x, dimred, of, assay, features, call))
  if (is.null(assay) && "logcounts" %in% SummarizedExperiment::assayNames(x)) assay <- "logcounts"
  observations.SummarizedExperiment(x, of, assay, features)
}

#' @rdname observations
#' @export
observations.ExpressionSet <- function(x, of = c("columns", "rows"), features = NULL, ...) {
  call <- sys.call()
  check_no_more(x, ..., call = call)
  need_package("Biobase", call)
  values <- Biobase::exprs(x)
  of <- check_choice(of, c("columns", "rows"), "of", call)
  of_experiment(values, dimnames(values), of, features, call)
}

# nolint end

reduced_dimension <- function(x, dimred, of, assay, features, call) {
  unused <- c("of", "assay", "features")[c(of == "rows", !is.null(assay), !is.null(features))]
  if (length(unused) > 0) {
    needs <- paste0("a reduced dimension has cells in rows and no features: leave out `", unused[1],
                    "`")
    refuse("dimred", "is given", needs, call)
  }
  names <- SingleCellExperiment::reducedDimNames(x)
  chosen <- check_part(dimred, names, length(names), "dimred", "reduced dimensions", call)
  observations(SingleCellExperiment::reducedDim(x, chosen))
}

# The observations among `values`, a matrix of any class with features in rows. `names` are its row
# and column names, or NULL.
of_experiment <- function(values, names, of, features, call) {
  if (length(dim(values)) != 2) {
    refuse("x", paste("has an assay that is", describe(values)), "it must be a matrix", call)
  }
  if (is.null(names)) names <- list(NULL, NULL)
  if (!is.null(features)) {
    rows <- check_features(features, names[[1]], nrow(values), call)
    values <- values[rows, , drop = FALSE]
    names <- list(names[[1]][rows], names[[2]])
  }
  if (of == "columns") {
    values <- transposed(values)
    names <- rev(names)
  }
  # The values of an experiment are not distances, even if the matrix looks like distances.
  values <- if (is.matrix(values) || inherits(values, "Matrix")) {
    observations(values, rows_are_observations = TRUE)
  } else {
    observations(values)
  }
  # Without names, a matrix of base R has no list of names, and other matrices have an empty list.
  if (is.matrix(values) && all(lengths(names) == 0)) names <- NULL
  dimnames(values) <- names
  values
}

# The transpose of a matrix of any class. t() of base R transposes no S4 matrix except a
# DelayedMatrix.
transposed <- function(x) {
  if (inherits(x, "Matrix")) return(Matrix::t(x))
  if (isS4(x) && !is_delayed(x)) return(transposed(observations(x)))
  t(x)
}

# The numbers of the chosen features, among `count` features with these names.
check_features <- function(features, names, count, call) {
  if (is.logical(features) && length(features) == count && !anyNA(features)) {
    return(which(features))
  }
  rows <- if (is.character(features)) {
    check_unique_names(features, names, "features", "features", call)
    match(features, names)
  } else if (is.numeric(features)) {
    match(features, seq_len(count))
  } else {
    NA_integer_
  }
  bad <- which(is.na(rows))
  if (length(bad) > 0) {
    got <- if (is.character(features) || is.numeric(features)) {
      paste("has", if (is.na(features[bad[1]])) "NA" else shown_value(features[bad[1]]))
    } else {
      paste("is", describe(features))
    }
    needs <- paste("it must be names or numbers of the", count, "features, or a logical for each")
    refuse("features", got, needs, call)
  }
  rows
}

# The checked name or number of one of `count` parts with these names; the first if `part` is NULL.
check_part <- function(part, names, count, arg, what, call) {
  if (is.null(part)) return(1L)
  is_one <- length(part) == 1 && !is.na(part)
  valid <- is_one && (is.character(part) && part %in% names ||
    is.numeric(part) && part %in% seq_len(count))
  if (!valid) {
    if (count == 0) refuse(arg, paste("is", describe(part)), paste("`x` has no", what), call)
    known <- if (length(names) > 0) paste(dQuote(names, FALSE), collapse = ", ") else count
    refuse(arg, paste("is", describe(part)), paste0("it must be one of the ", what, ": ", known),
           call)
  }
  part
}
