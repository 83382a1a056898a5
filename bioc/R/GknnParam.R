#' Exact nearest neighbours for BiocNeighbors
#'
#' Lets all functions that take an argument `BNPARAM` of package \pkg{BiocNeighbors} search by
#' [gmhclust::gknn()] and [gmhclust::gneighbours()]: `findKNN()`, `queryKNN()`, `findNeighbors()`
#' and `queryNeighbors()` themselves, and for example `runUMAP()` and `runTSNE()` of package
#' \pkg{scater}, `buildSNNGraph()` of package \pkg{scran}, and `NNGraphParam()` of package
#' \pkg{bluster}.
#'
#' @param distance The distance: `"Euclidean"`, `"Manhattan"` or `"Cosine"`, which is the Euclidean
#'   distance of rows that were scaled to length 1, as in \pkg{BiocNeighbors}.
#' @param threads The number of CPU threads of every search. `NULL` means the number that the call
#'   requests by `num.threads` or `BPPARAM`; by default, \pkg{BiocNeighbors} requests one thread.
#' @param backend,devices The arguments of [gmhclust::gknn()]: where to compute, and the GPUs to
#'   use.
#' @param object A `GknnParam` object.
#'
#' @details
#' The results are equal to the results of \pkg{BiocNeighbors}' exact searches, `KmknnParam()` and
#' `VptreeParam()`. Ties go to the smaller row number. The searches of \pkg{BiocNeighbors} skip
#' parts of the data, which helps most with few dimensions; `gknn()` compares all pairs, in single
#' precision at first, and its time does not depend on how the data are spread. At a distance of
#' exactly the threshold, `findNeighbors()` with \pkg{BiocNeighbors}' own classes may miss
#' neighbours because of rounding.
#'
#' `buildIndex()` makes an index of class `GknnIndex`. The index holds the data (for Cosine, scaled
#' to length 1), and can be saved like any R object. Rows of zeros have no direction; for Cosine,
#' they keep length 0.
#'
#' Functions that search in C++ code of their own, by `defineBuilder()`, cannot use `GknnParam`.
#'
#' The class supports \pkg{BiocNeighbors} 1.16, 2.0 and 2.6, whose methods differ. The methods are
#' chosen when \pkg{gmhclustBioc} is installed, so install it again after a new version of
#' \pkg{BiocNeighbors}. `findNeighbors()` lists the observation itself under version 1, but not
#' under version 2. With a query, `transposed = TRUE` means that the query has observations in
#' columns; under version 2, it means that the data have observations in columns, too.
#'
#' @return `GknnParam()`: an object of this class.
#' @seealso [gmhclust::gknn()]; `findKNN()` of package \pkg{BiocNeighbors}.
#'
#' @examples
#' library(BiocNeighbors)
#' x <- as.matrix(iris[1:4])
#' nn <- findKNN(x, k = 5, BNPARAM = GknnParam())
#' nn$index[1, ]
#'
#' # Build once, search several times:
#' index <- buildIndex(x, BNPARAM = GknnParam("Manhattan"))
#' if (packageVersion("BiocNeighbors") >= "2.0.0") {
#'   str(queryKNN(index, query = x[1:2, ], k = 3))
#' } else {
#'   str(queryKNN(BNINDEX = index, query = x[1:2, ], k = 3))
#' }
#'
#' # Clusters of the graph of shared neighbours:
#' library(bluster)
#' table(clusterRows(x, NNGraphParam(BNPARAM = GknnParam())))
#' @name GknnParam-class
#' @aliases GknnParam-class GknnIndex-class
NULL

#' @rdname GknnParam-class
#' @export
#' @importClassesFrom BiocNeighbors BiocNeighborParam
methods::setClass(
  "GknnParam",
  contains = "BiocNeighborParam",
  slots = c(threads = "ANY", backend = "character", devices = "ANY")
)

# The points and how to search among them. Slots `data`, which has an observation in each column,
# `NAMES` and `distance` are the slots of class BiocNeighborIndex in BiocNeighbors 1; in version 2,
# this class has no slots.
#' @rdname GknnParam-class
#' @export
#' @importClassesFrom BiocNeighbors BiocNeighborIndex
#' @importClassesFrom S4Vectors character_OR_NULL
methods::setClass(
  "GknnIndex",
  contains = "BiocNeighborIndex",
  slots = c(
    data = "matrix", NAMES = "character_OR_NULL", distance = "character", param = "GknnParam"
  )
)

# The metric of gknn() for each distance.
metrics <- c(Euclidean = "euclidean", Manhattan = "manhattan", Cosine = "euclidean")

S4Vectors::setValidity2("GknnParam", function(object) {
  all_valid(
    check_one_of(object@distance, "distance", names(metrics)),
    if (!is.null(object@threads)) check_number(object@threads, "threads", 1, whole = TRUE),
    check_one_of(object@backend, "backend", c("auto", "cpu", "cuda"))
  )
})

#' @rdname GknnParam-class
#' @export
GknnParam <- function(distance = c("Euclidean", "Manhattan", "Cosine"), # nolint
                      threads = NULL,
                      backend = getOption("gmhclust.backend", "auto"),
                      devices = getOption("gmhclust.devices")) {
  methods::new(
    "GknnParam", distance = first_choice(distance, missing(distance)), threads = threads,
    backend = backend, devices = devices
  )
}

#' @rdname GknnParam-class
#' @export
methods::setMethod("show", "GknnParam", function(object) {
  cat("class: GknnParam\n")
  show_slots(object, c("distance", "threads", "backend", "devices"))
})

#' @rdname GknnParam-class
#' @export
methods::setMethod("show", "GknnIndex", function(object) {
  cat("class: GknnIndex\n")
  cat("observations: ", ncol(object@data), "\n", sep = "")
  cat("dimensions: ", nrow(object@data), "\n", sep = "")
  cat("distance: ", object@distance, "\n", sep = "")
})

# The index of the rows of x or, if transposed, of its columns.
new_index <- function(x, transposed, param) {
  x <- points_in_rows(x, transposed, param@distance)
  methods::new(
    "GknnIndex", data = t(x), NAMES = rownames(x), distance = param@distance, param = param
  )
}

# A matrix of doubles with a point in each row.
points_in_rows <- function(x, transposed, distance, subset = NULL) {
  x <- as.matrix(x)
  if (transposed) x <- t(x)
  if (!is.null(subset)) x <- x[subset, , drop = FALSE]
  storage.mode(x) <- "double"
  if (distance != "Cosine") return(x)
  norm <- sqrt(rowSums(x^2))
  x / ifelse(norm > 0, norm, 1)
}
