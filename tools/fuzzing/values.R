# Hostile values, as R expressions, so that a call with them can be printed and repeated.

# Values that take the place of an argument or of a part of it.
hostile_values <- expression(
  # Nothing, or nearly so.
  NULL, character(0), logical(0), integer(0), numeric(0), complex(0), raw(0), list(), list(NULL),
  pairlist(1), data.frame(), matrix(0, 0, 0), matrix(0, 0, 4), matrix(0, 30, 0),
  factor(character(0)), "", NA, NA_integer_, NA_real_, NA_character_, NA_complex_, NaN,
  # Numbers at and over the limits of types.
  0, -0.0, -1, -1L, 0L, 1, 1L, 2, 2L, 3, 5, 29, 30, 31, 0.5, 1.5, 2.9999999, 1e-300, 5e-324, 1e300,
  1e308, -1e308, Inf, -Inf, 2147483647, 2147483647L, -2147483647L, 2147483648, -2147483648,
  4294967296, 2^53, 2^62, 2^63, 2^64, -2^63, 1i, as.raw(1), TRUE, FALSE,
  # Strings.
  "a", "0", "1", "NA", "e", "mahal", "single", "cosine", "cuda", "\xff", "a\xffb", "\u00fc",
  iconv("\u00fc", "UTF-8", "latin1"), with_encoding("\xff\xfe", "bytes"), strrep("a", 1e5), "%s%n",
  "{x}", "/", "/dev/null", "/dev/zero", "/dev/null/a", "~", ".", "a/b/../c", letters, "b\nc",
  "\001",
  # Vectors, some of them compact.
  1:30, 30:1, 1:29, 1:31, seq_len(1e6), as.character(1:30), as.character(c(1:29, NA)), rev(1:30),
  rep(0, 30), rep(-1L, 30), rep(NA, 30), rep(NaN, 30), rep("a", 30), rep(c(TRUE, FALSE), 15),
  rep(1e308, 30), rep(2^40, 30), c(1:29, NA), c(1:28, 0.5, Inf), c(a = 1, b = 2),
  with_names(1:2, c("\xff", NA)), c(1, 1), c(-1, 2), rep(5e-324, 30), complex(30), raw(30),
  1:435 / 7, -(1:435), rep(NA_real_, 435),
  # Objects of other kinds.
  quote(a), quote(f(x)), ~a, expression(a), function(x) x, sum, globalenv(), new.env(), stdout(),
  list(1), list(1, "a"), list(list(1)), as.list(1:30), nested(2000), rep(list(NULL), 30),
  factor("a"), factor(rep(c("a", "b"), 15)), factor(rep(NA, 30)),
  with_class(c(1L, 99L, rep(NA, 28)), "factor"),
  with_attr(with_attr(rep(7L, 30), "levels", c("a", "b")), "class", "factor"),
  with_class("a", "factor"), Sys.Date(), as.POSIXct(0), as.POSIXlt(0),
  as.difftime(1, units = "secs"), numeric_version("1.2"), ts(1:30), table(c(1, 1, 2)),
  array(1:4, 4), array(1:8, c(2, 2, 2)), noquote("a"), I(1), I("a"), I(matrix(1:4, 2)), asS4(1),
  asS4(list(1)), methods::new("numeric"), methods::new("environment"), with_class(1, "integer64"),
  with_class(rep(1, 30), "integer64"), with_class(1, c("\xff", "")), with_class(1, "nonesuch"),
  with_class(list(1), "nonesuch"), fails_on_use(),
  # Matrices and data frames.
  matrix(1:6, 3), matrix(NA, 2, 2), matrix(NA_real_, 30, 4), matrix("a", 30, 4), matrix(1i, 2, 2),
  matrix(as.raw(1), 2, 2), matrix(TRUE, 30, 4), matrix(list(1, 2, 3, 4), 2), matrix(Inf, 30, 4),
  matrix(1e308, 30, 4), matrix(rep(c(1e308, -1e308), 60), 30), matrix(5e-324, 30, 4),
  matrix(0, 30, 4), matrix(1, 1, 4), matrix(1, 2, 4), matrix(1:4, 1), matrix(1:30, 30),
  matrix(1:120, 30, 4), matrix(0, 2, 500), diag(30), t(1:30), data.frame(a = 1:30),
  data.frame(a = 1:30, b = "x"), data.frame(a = 1:30, b = I(as.list(1:30))),
  data.frame(a = 1:30, b = I(matrix(1:60, 30))), data.frame(a = Sys.Date() + 1:30),
  data.frame(a = 1i, b = 2), with_class(list(a = 1:3, b = 1:2), "data.frame"),
  with_attr(with_class(list(a = 1:3, b = 1:2), "data.frame"), "row.names", 1:3),
  with_attr(with_class(list(a = 1:3), "data.frame"), "row.names", 1:9),
  with_class(1:3, "data.frame"), with_class(list(), "data.frame"),
  with_attr(data.frame(a = 1:30, b = 1:30), "names", NULL),
  with_attr(data.frame(a = 1:30, b = 1:30), "names", c("a", NA)),
  # Objects whose class says what they are not.
  with_class(1:3, "dist"), dist_of(1:3, 3L), dist_of(1:3, 3), dist_of(1:3, 4L), dist_of(1:3, 2L),
  dist_of(1:3, NA), dist_of(1:3, "3"), dist_of(1:3, 2.5), dist_of(1:3, -1L), dist_of(1:3, 1e10),
  dist_of(1:3, 2147483647L), dist_of(1:3, c(3, 3)), dist_of(1:3, list()),
  dist_of(list(1, 2, 3), 3L), dist_of(c("a", "b", "c"), 3L), dist_of(numeric(0), 1L),
  dist_of(numeric(0), 0L), dist_of(c(1, NA, 3), 3L), dist_of(c(Inf, -Inf, 1), 3L),
  dist_of(c(1i, 2, 3), 3L), dist_of(NULL, 3L), dist_of(matrix(1:3, 1), 3L),
  dist_of(quote(f(x, y)), 3L), dist_of(c(-1, -2, 5), 3L), dist_of(factor(1:3), 3L),
  with_class(list(), "hclust"), with_class(1, "hclust"),
  with_class(list(), c("gmhclust", "hclust")), with_class(NULL_list(), "hclust"),
  with_class(list(merge = matrix(-1:-2, 1)), "hclust"), with_class(list(), "gknn_files"),
  with_class(1L, "populations"), with_class(rep(1L, 30), "populations"),
  with_class(list(), "kmeans"), with_class(list(cluster = "a"), "kmeans"),
  with_class(list(cluster = rep(1:2, 15)), "kmeans"), with_class(list(), "BiocParallelParam"),
  with_class(list(), "DelayedMatrix"), with_class(list(), "dgCMatrix"),
  with_class(matrix(1:4, 2), "sparseMatrix"), with_class(list(), "flowFrame"),
  with_class(list(), "flowSet"), with_class(list(), "cytoframe"),
  with_class(1, "SummarizedExperiment"), with_class(1, "SingleCellExperiment"),
  with_class(list(), "ExpressionSet"), with_class(1, "gpu_devices"),
  # Others' classes.
  Matrix::Matrix(0, 30, 4), Matrix::rsparsematrix(30, 4, 0.3),
  Matrix::Matrix(c(0, NA, Inf, 1), 2, sparse = TRUE), Matrix::sparseMatrix(1:2, 1:2),
  Matrix::Diagonal(30), methods::as(Matrix::Diagonal(3), "indMatrix")
)

# Values in place of one element of a vector.
hostile_elements <- expression(
  NA, NaN, Inf, -Inf, 0, -1, 1, 2, 30, -30, 31, -31, 0.5, 1e10, -1e10, 1e308, 2^31, -2^31, 5e-324,
  "a", "\xff", list(1), NULL, 1i, TRUE
)

hostile_attributes <- c(
  "names", "dim", "dimnames", "class", "levels", "row.names", "tsp", "Size", "Labels", "Diag",
  "method", "labels", "rows", "sizes", "k", "roots", "nearest", "min_members", "rest", "sample",
  "problem", ".S3Class", "package"
)

# Changes to a valid argument; .(e) is its expression.
mutations <- alist(
  .(e)[0], .(e)[1], .(e)[-1], rev(.(e)), c(.(e), .(e)), c(.(e), NA), list(.(e)), unlist(.(e)),
  unclass(.(e)), as.list(.(e)), as.character(.(e)), as.integer(.(e)), as.numeric(.(e)),
  as.complex(.(e)), as.logical(.(e)), as.factor(.(e)), as.raw(.(e)), as.vector(.(e)),
  as.matrix(.(e)), as.data.frame(.(e)), t(.(e)), -.(e), .(e) / 2, .(e) * 1e308, .(e) * 1e-320,
  .(e) + NA, .(e) + 0.5, .(e) * 2^31, as.integer(.(e)) + 0L, asS4(.(e)), I(.(e)), noquote(.(e)),
  rep(.(e), 3), head(.(e), 2), .(e)[, 1], .(e)[1, , drop = FALSE], .(e)[1:2, , drop = FALSE],
  .(e)[0, , drop = FALSE], .(e)[, 0, drop = FALSE], rbind(.(e), NA), cbind(.(e), .(e)),
  cbind(.(e), "a"), rbind(.(e), .(e)), with_attr(.(e), "dim", NULL), with_attr(.(e), "class", NULL),
  with_attr(.(e), "names", NULL), with_attr(.(e), "dimnames", NULL), with_class(.(e), "nonesuch"),
  with_class(.(e), c("hclust", "gmhclust")), with_class(.(e), "dist"), with_class(.(e), "factor"),
  with_class(.(e), "data.frame"), with_class(.(e), "kmeans"), with_class(.(e), "populations"),
  with_class(.(e), "gknn_files"), with_class(.(e), "table"), with_class(.(e), "Date"),
  with_class(.(e), "integer64"), rownames_of(.(e), "\xff"), rownames_of(.(e), "a"),
  rownames_of(.(e), NA), rownames_of(.(e), strrep("b", 1e4)), colnames_of(.(e), "\xff"),
  colnames_of(.(e), NA), colnames_of(.(e), ""), colnames_of(.(e), with_encoding("\xe9", "latin1")),
  lapply(.(e), identity), matrix(as.list(.(e)), nrow(.(e))), Matrix::Matrix(.(e), sparse = TRUE),
  DelayedArray::DelayedArray(.(e)), stats::dist(.(e)), ts(.(e)), array(.(e), length(.(e))),
  array(.(e), c(dim(.(e)), 1L)), as.table(.(e)), zoo_like(.(e)), tibble::as_tibble(.(e))
)

# ---- what these expressions call -----------------------------------------------------------------

with_attr <- function(x, name, value) {
  attr(x, name) <- value
  x
}

with_class <- function(x, class) with_attr(x, "class", class)

with_names <- function(x, names) with_attr(x, "names", names)

with_part <- function(x, name, value) {
  class <- class(x)
  x <- unclass(x)
  x[name] <- list(value)
  if (is.null(value)) x[[name]] <- NULL
  with_class(x, class)
}

with_element <- function(x, at, value) {
  x[[at]] <- value
  x
}

with_encoding <- function(x, encoding) {
  Encoding(x) <- encoding
  x
}

dist_of <- function(values, size) with_attr(with_class(values, "dist"), "Size", size)

rownames_of <- function(x, name) {
  rownames(x) <- rep(name, nrow(x))
  x
}

colnames_of <- function(x, name) {
  colnames(x) <- rep(name, ncol(x))
  x
}

nested <- function(depth) Reduce(function(inner, i) list(inner), seq_len(depth), 1)

NULL_list <- function() list(NULL) # nolint: object_name_linter.

# An object of whose class most functions fail.
fails_on_use <- function() with_class(list(1), "fuzz_fails")
fail <- function(...) stop("a method of the user's class failed")
for (generic in c("length", "dim", "as.matrix", "print", "format", "as.character", "[", "is.na")) {
  registerS3method(generic, "fuzz_fails", fail)
}

zoo_like <- function(x) with_attr(with_class(x, "zoo"), "index", seq_len(NROW(x)))
