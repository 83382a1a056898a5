#' Nearest neighbours as a graph
#'
#' `as_edges()` makes a table of edges from the result of [gknn()]: one from every observation to
#' each of its neighbours. `as_igraph()` makes a directed graph of package \pkg{igraph}.
#'
#' @param nn The result of [gknn()], a list of the matrices `index` and `distance`, or neighbours in
#'   files ([read_gknn()]). For `as_igraph()`, a result without `query`: with `query`, observations
#'   and neighbours are rows of different matrices.
#' @param rows `NULL`, or the numbers of the observations whose edges to return, for example to read
#'   neighbours in files in parts.
#'
#' @return `as_edges()`: a data frame with a row for each edge. The edges are in the order of the
#'   observations, and the edges of each observation begin with the nearest neighbour. Columns:
#'   \describe{
#'     \item{`source`}{integer: the row number of the observation.}
#'     \item{`target`}{integer: the row number of the neighbour.}
#'     \item{`weight`}{double: their distance.}
#'   }
#'
#'   `as_igraph()`: a graph with a vertex for each observation, these edges, and the edge attribute
#'   `weight`.
#'
#' @seealso [gknn()]
#'
#' @examples
#' nn <- gknn(as.matrix(iris[1:4]), 2)
#' head(as_edges(nn))
#' as_edges(nn, rows = 150)
#'
#' if (requireNamespace("igraph", quietly = TRUE)) {
#'   # Groups of observations that neighbours connect:
#'   table(igraph::components(as_igraph(nn), mode = "weak")$membership, iris$Species)
#' }
#' @export
as_edges <- function(nn, rows = NULL) {
  call <- match.call()
  in_files <- inherits(nn, "gknn_files")
  if (!in_files) check_neighbours(nn, "nn", call)
  n <- if (in_files) nn$rows else nrow(nn$index)
  rows <- if (is.null(rows)) seq_len(n) else as.integer(check_rows(rows, n, "rows", call))
  nn <- if (in_files) nn[rows] else lapply(nn, function(part) part[rows, , drop = FALSE])
  data.frame(
    source = rep(rows, each = ncol(nn$index)),
    target = as.vector(t(nn$index)),
    weight = as.vector(t(nn$distance))
  )
}

#' @rdname as_edges
#' @export
as_igraph <- function(nn) {
  call <- match.call()
  if (inherits(nn, "gknn_files")) nn <- as.list(nn)
  check_neighbours(nn, "nn", call)
  if (!requireNamespace("igraph", quietly = TRUE)) {
    stop(gmhclust_error_input("as_igraph() needs package igraph; install.packages(\"igraph\")",
                              call))
  }
  n <- nrow(nn$index)
  if (any(nn$index > n) || any(nn$index == row(nn$index))) {
    refuse("nn", "is of queries and of other rows as their neighbours",
           "a graph has one set of vertices; as_edges() makes a table of it", call)
  }
  edges <- as_edges(nn)
  graph <- igraph::make_graph(rbind(edges$source, edges$target), n = n, directed = TRUE)
  igraph::set_edge_attr(graph, "weight", value = edges$weight)
}

# Stops unless `nn` is a list like that of gknn().
check_neighbours <- function(nn, arg, call) {
  is_result <- is.list(nn) && is.matrix(nn$index) && is.numeric(nn$index) &&
    is.matrix(nn$distance) && is.numeric(nn$distance) && identical(dim(nn$index), dim(nn$distance))
  if (!is_result) {
    needs <- "it must be what gknn() returns: a list of matrices `index` and `distance`"
    refuse(arg, paste("is", describe(nn)), needs, call)
  }
}
