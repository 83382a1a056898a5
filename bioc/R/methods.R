# Methods for the generics of BiocNeighbors, which differ by its version:
# * version 1: each function is a generic on its arguments `BNINDEX` and `BNPARAM`;
# * version 2.0: each is a generic on `X`, the data or an index, and on `BNPARAM`;
# * by version 2.6: they are functions that call a generic on the index, named ...FromIndex.
# The generics that the installed version exports decide which methods are made.
#' @include GknnParam.R search.R
NULL

# nolint start: object_name_linter. The arguments have the names of BiocNeighbors.

has_export <- function(name) name %in% getNamespaceExports("BiocNeighbors")

set_method <- function(name, signature, definition) {
  methods::setMethod(
    getExportedValue("BiocNeighbors", name), signature, definition, where = topenv()
  )
}

# The bodies of the methods. `...` has arguments for buildIndex(), which the index does not need.
find_knn <- function(index, k, get.index = TRUE, get.distance = TRUE, num.threads = 1,
                     subset = NULL, ..., BPPARAM = NULL) {
  threads <- threads_for(num.threads, BPPARAM)
  nearest(index, k, NULL, subset, get.index, get.distance, threads)
}

query_knn <- function(index, query, k, get.index = TRUE, get.distance = TRUE, num.threads = 1,
                      subset = NULL, transposed = FALSE, ..., BPPARAM = NULL) {
  query <- points_of_query(query, transposed, subset, index)
  threads <- threads_for(num.threads, BPPARAM)
  nearest(index, k, query, NULL, get.index, get.distance, threads)
}

find_neighbors <- function(index, threshold, get.index = TRUE, get.distance = TRUE,
                           num.threads = 1, subset = NULL, ..., BPPARAM = NULL) {
  threads <- threads_for(num.threads, BPPARAM)
  within_threshold(index, threshold, NULL, subset, get.index, get.distance, threads)
}

query_neighbors <- function(index, query, threshold, get.index = TRUE, get.distance = TRUE,
                            num.threads = 1, subset = NULL, transposed = FALSE, ...,
                            BPPARAM = NULL) {
  query <- points_of_query(query, transposed, subset, index)
  threads <- threads_for(num.threads, BPPARAM)
  within_threshold(index, threshold, query, NULL, get.index, get.distance, threads)
}

find_distance <- function(index, k, num.threads = 1, subset = NULL, ...) {
  distance_to_kth(index, k, NULL, subset, num.threads)
}

query_distance <- function(index, query, k, num.threads = 1, subset = NULL,
                           transposed = FALSE, ...) {
  query <- points_of_query(query, transposed, subset, index)
  distance_to_kth(index, k, query, NULL, num.threads)
}

# Makes the function `of` a method on an index: it gets all arguments of the generic but BNPARAM,
# the index first.
set_method_on_index <- function(name, of) {
  arguments <- formals(getExportedValue("BiocNeighbors", name))
  passed <- setdiff(names(arguments), "BNPARAM")
  values <- lapply(passed, as.name)
  names(values) <- ifelse(passed %in% c(passed[1], "..."), "", passed)
  definition <- as.function(c(arguments, as.call(c(as.name(of), values))), envir = topenv())
  set_method(name, stats::setNames("GknnIndex", passed[1]), definition)
}

# As above for version 1, whose generics have few arguments, and take data or an index. `index_of`
# makes the index of data.
set_methods_of_version_1 <- function(name, of, index_of) {
  arguments <- formals(getExportedValue("BiocNeighbors", name))
  # X is first, and BNINDEX and BNPARAM are last.
  passed <- setdiff(names(arguments), c("X", "BNINDEX", "BNPARAM"))
  values <- lapply(passed, as.name)
  names(values) <- ifelse(passed == "...", "", passed)
  method <- function(index) {
    as.function(c(arguments, as.call(c(as.name(of), index, values))), envir = topenv())
  }
  of_data <- call(index_of, quote(X), quote(BNPARAM), quote(...))
  set_method(name, c("missing", "GknnParam"), method(of_data))
  set_method(name, c("GknnIndex", "missing"), method(quote(BNINDEX)))
  set_method(name, c("GknnIndex", "GknnParam"), method(quote(BNINDEX)))
}

# The index of X, or an index that was built before, which version 1 also takes as `precomputed`.
index_of_data <- function(X, param, transposed = FALSE, precomputed = NULL, ...) {
  if (is.null(precomputed)) return(new_index(X, transposed, param))
  if (methods::is(precomputed, "GknnIndex")) return(precomputed)
  stop("`precomputed` is an object of class ", dQuote(class(precomputed)[1], FALSE),
       "; it must be the value of buildIndex(BNPARAM = GknnParam())", call. = FALSE)
}

# The index of X where a query is given: in version 1, `transposed` then concerns the query only.
index_of_reference <- function(X, param, transposed = FALSE, ...) {
  index_of_data(X, param, ...)
}

# Version 1 lists the observation itself among its neighbours, and has an argument `last`.
find_knn_1 <- function(index, k, get.index = TRUE, get.distance = TRUE, subset = NULL,
                       last = k, ..., BPPARAM = NULL) {
  threads <- threads_for(1, BPPARAM)
  last_columns(nearest(index, k, NULL, subset, get.index, get.distance, threads), last)
}

query_knn_1 <- function(index, query, k, get.index = TRUE, get.distance = TRUE,
                        subset = NULL, transposed = FALSE, last = k, ...,
                        BPPARAM = NULL) {
  query <- points_of_query(query, transposed, subset, index)
  threads <- threads_for(1, BPPARAM)
  last_columns(nearest(index, k, query, NULL, get.index, get.distance, threads), last)
}

last_columns <- function(found, last) {
  lapply(found, function(part) {
    part[, seq.int(to = ncol(part), length.out = min(last, ncol(part))), drop = FALSE]
  })
}

find_neighbors_1 <- function(index, threshold, get.index = TRUE, get.distance = TRUE,
                             subset = NULL, ..., BPPARAM = NULL) {
  threads <- threads_for(1, BPPARAM)
  found <- within_threshold(index, threshold, NULL, subset, get.index, get.distance, threads)
  if (!get.index && !get.distance) return(found + 1L)
  rows <- rows_of_subset(subset, index)
  if (is.null(rows)) rows <- seq_len(ncol(index@data))
  if (get.index) found$index <- Map(c, rows, found$index)
  if (get.distance) found$distance <- lapply(found$distance, function(part) c(0, part))
  found
}

no_builder <- function(BNPARAM) {
  stop("`BNPARAM` is a GknnParam, which has no builder for C++ code; use buildIndex(), or a ",
       "parameter of BiocNeighbors such as KmknnParam()", call. = FALSE)
}

# The kind of generics that BiocNeighbors has, by the version that introduced it.
kind_of_generics <- function() {
  if (has_export("bndata")) return("1")
  if (has_export("findKnnFromIndex")) "2.6" else "2.0"
}

made_for <- kind_of_generics()

if (made_for == "1") {
  set_method("buildIndex", "GknnParam", function(X, ..., BNPARAM) index_of_data(X, BNPARAM, ...))
  set_method("bnorder", "GknnIndex", function(x) seq_len(ncol(x@data)))
  set_methods_of_version_1("findKNN", "find_knn_1", "index_of_data")
  set_methods_of_version_1("queryKNN", "query_knn_1", "index_of_reference")
  set_methods_of_version_1("findNeighbors", "find_neighbors_1", "index_of_data")
  set_methods_of_version_1("queryNeighbors", "query_neighbors", "index_of_reference")
} else {
  set_method("defineBuilder", "GknnParam", no_builder)
  if (made_for == "2.6") {
    set_method("buildIndex", "GknnParam", function(X, BNPARAM, transposed = FALSE, ...) {
      new_index(X, transposed, BNPARAM)
    })
  } else {
    # For a matrix, BiocNeighbors has a method for all of its parameters, which comes before one
    # for any object.
    for (data in c("matrix", "ANY")) {
      set_method(
        "buildIndex", c(X = data, BNPARAM = "GknnParam"),
        function(X, transposed = FALSE, ..., BNPARAM = NULL) new_index(X, transposed, BNPARAM)
      )
    }
  }
  of_index <- if (made_for == "2.6") {
    function(name) paste0(sub("KNN", "Knn", name), "FromIndex")
  } else {
    identity
  }
  set_method_on_index(of_index("findKNN"), "find_knn")
  set_method_on_index(of_index("queryKNN"), "query_knn")
  set_method_on_index(of_index("findNeighbors"), "find_neighbors")
  set_method_on_index(of_index("queryNeighbors"), "query_neighbors")
  set_method_on_index(of_index("findDistance"), "find_distance")
  set_method_on_index(of_index("queryDistance"), "query_distance")
}

# Methods for generics that are gone would fail without a reason.
check_generics <- function(made, found) {
  if (made == found) return(invisible())
  stop("this gmhclustBioc was installed for BiocNeighbors ", made, ", but the generics are of ",
       "version ", found, ": install gmhclustBioc again", call. = FALSE)
}

.onLoad <- function(libname, pkgname) check_generics(made_for, kind_of_generics())
# nolint end
