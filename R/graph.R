#' Neighbours for other packages
#'
#' Converts the result of [gknn()] or [gneighbours()] for other packages: `as_edges()` to a table of
#' edges, from every observation to each of its neighbours; `as_igraph()` to a graph of package
#' \pkg{igraph}, for example to find communities; `as_uwot()` to the argument `nn_method` of package
#' \pkg{uwot}, for UMAP; and `as_hits()` to a `Hits` object of package \pkg{S4Vectors}.
#'
#' @param nn The result of [gknn()] or [gneighbours()], or neighbours in files ([read_gknn()]).
#'   `as_igraph()` needs the neighbours of all rows of `x` among each other: a result without
#'   `query` and `subset`. `as_uwot()` needs the result of [gknn()].
#' @param rows `NULL`, or the numbers of the rows of `nn` whose edges to return, for example to read
#'   neighbours in files in parts.
#' @param undirected If `TRUE`, two observations share one edge if either is a neighbour of the
#'   other. If `FALSE`, an edge leads from every observation to each of its neighbours.
#' @param weight The edge attribute `weight`, which most functions of \pkg{igraph} read. Modularity
#'   and communities (`cluster_louvain()`, `cluster_leiden()`) need a similarity: `"similarity"` is
#'   1 / (1 + d / m) for an edge of distance d, where m is the median of the distances above 0;
#'   `"jaccard"` is the share of neighbours that both ends have in common, see *Jaccard weights*.
#'   Paths (`distances()`) and `mst()` need the `"distance"`.
#' @param labels `NULL`, or the names of the vertices, one for each row of `x`. By default the row
#'   names of `x`, if it has any. Neighbours in files have no names.
#' @param self Whether each observation is its own first neighbour, at distance 0, as \pkg{uwot}
#'   expects. `FALSE` for neighbours of a `query`, for `umap_transform()`.
#' @param n `NULL` for neighbours of the rows of `x` among each other. For neighbours of a `query`
#'   or a `subset`: the number of rows of `x`.
#'
#' @section Jaccard weights:
#' The set of an observation is the observation itself and its neighbours. The weight of an edge is
#' the Jaccard index of the sets of its two ends: the size of their intersection, divided by the
#' size of their union. If both ends have k neighbours, and their sets share s members, the weight
#' is s / (2 (k + 1) - s). So a weight is at least 1 / (2 k + 1) and at most 1; it is never 0, and
#' all edges are kept.
#'
#' `neighborsToSNNGraph(type = "jaccard")` of package \pkg{bluster} has the same weights, but also
#' edges between observations that share a neighbour without being neighbours. PhenoGraph (Levine et
#' al. 2015) has these edges, but does not count an observation among its own neighbours, leaves out
#' edges of weight 0, and halves the weight of an edge if only one end is a neighbour of the other.
#'
#' The time is proportional to the number of edges, times the number of neighbours per observation.
#'
#' @return `as_edges()`: a data frame with a row for each edge. The edges are in the order of the
#'   observations, and the edges of each observation begin with the nearest neighbour. Columns:
#'   \describe{
#'     \item{`source`}{integer: the row number of the observation in `query` or, without it, in
#'     `x`.}
#'     \item{`target`}{integer: the row number of the neighbour in `x`.}
#'     \item{`weight`}{double: the distance between both.}
#'   }
#'
#'   `as_igraph()`: a graph with a vertex for each row of `x`. Its vertex attribute is `name` (with
#'   `labels` only); its edge attributes are `weight` and `distance`.
#'
#'   `as_uwot()`: a list of two matrices, `idx` and `dist`, with a row for each observation.
#'
#'   `as_hits()`: a `SelfHits` object or, with `n`, a `Hits` object from the rows of `nn` to the
#'   rows of `x`, both sorted by query. The metadata column `distance` has the distances.
#'
#' @references
#' Levine JH, Simonds EF, Bendall SC, et al. (2015). Data-driven phenotypic dissection of AML
#' reveals progenitor-like cells that correlate with prognosis. *Cell* 162(1), 184-197.
#' \doi{10.1016/j.cell.2015.05.047}
#'
#' @seealso [gknn()], [gneighbours()]
#'
#' @examples
#' nn <- gknn(as.matrix(iris[1:4]), 10)
#' head(as_edges(nn))
#' as_edges(nn, rows = 150)[1:2, ]
#'
#' # Communities of the graph of neighbours:
#' if (requireNamespace("igraph", quietly = TRUE)) {
#'   communities <- igraph::cluster_louvain(as_igraph(nn, weight = "jaccard"))
#'   table(igraph::membership(communities), iris$Species)
#' }
#'
#' # UMAP from exact neighbours:
#' if (requireNamespace("uwot", quietly = TRUE)) {
#'   layout <- uwot::umap(NULL, nn_method = as_uwot(nn), n_threads = 1)
#'   plot(layout, col = iris$Species, asp = 1)
#' }
#' @export
as_edges <- function(nn, rows = NULL) {
  call <- match.call()
  if (missing(nn)) refuse_missing("nn", needs_neighbours, call)
  in_files <- inherits(nn, "gknn_files")
  if (in_files) check_files(nn, "nn", call) else check_neighbours(nn, "nn", call)
  n <- if (in_files) nn$rows else count_queries(nn)
  rows <- if (is.null(rows)) seq_len(n) else as.integer(check_rows(rows, n, "rows", call))
  found <- if (in_files) nn[rows] else lapply(nn[c("index", "distance")], take_rows, rows)
  # The row numbers of the queries, if the result is for a subset.
  numbers <- if (in_files) NULL else attr(nn, "rows")
  data.frame(list_edges(found, if (is.null(numbers)) rows else numbers[rows]))
}

#' @rdname as_edges
#' @export
as_igraph <- function(nn,
                      undirected = TRUE,
                      weight = c("similarity", "distance", "jaccard"),
                      labels = attr(nn, "labels")) {
  call <- match.call()
  if (missing(nn)) refuse_missing("nn", needs_neighbours, call)
  force(labels)
  undirected <- check_flag(undirected, "undirected", call)
  weight <- check_choice(weight, c("similarity", "distance", "jaccard"), "weight", call)
  nn <- neighbours_in_memory(nn, "nn", call)
  n <- count_queries(nn)
  is_fit <- is.atomic(labels) && (!is.factor(labels) || is_sound_factor(labels)) &&
    length(labels) == n
  if (!is.null(labels) && !is_fit) {
    refuse("labels", paste("is", describe(labels)), paste("it must have one name for each of the",
                                                          n, "vertices"), call)
  }
  need_package("igraph", call, install = "install.packages")
  needs <- "a graph has one set of vertices; as_edges() makes a table of it"
  edges <- edges_within(nn, "nn", needs, call)
  if (weight == "jaccard") edges$jaccard <- jaccard(nn, edges, call)
  if (undirected) edges <- without_direction(edges, n)
  graph <- igraph::make_graph(
    rbind(edges$source, edges$target), n = n, directed = !undirected
  )
  if (!is.null(labels)) {
    graph <- igraph::set_vertex_attr(graph, "name", value = as.character(labels))
  }
  value <- switch(weight,
    similarity = similarity(edges$weight), distance = edges$weight, jaccard = edges$jaccard
  )
  graph <- igraph::set_edge_attr(graph, "weight", value = value)
  igraph::set_edge_attr(graph, "distance", value = edges$weight)
}

#' @rdname as_edges
#' @export
as_uwot <- function(nn, self = TRUE) {
  call <- match.call()
  if (missing(nn)) refuse_missing("nn", needs_neighbours, call)
  self <- check_flag(self, "self", call)
  nn <- neighbours_in_memory(nn, "nn", call)
  if (!is.matrix(nn$index)) {
    refuse("nn", "has observations with different numbers of neighbours",
           "uwot needs the same number for each, as gknn() finds", call)
  }
  if (!self) return(list(idx = nn$index, dist = nn$distance))
  edges_within(nn, "nn", "use `self = FALSE`", call)
  list(
    idx = unname(cbind(seq_len(nrow(nn$index)), nn$index)),
    dist = unname(cbind(0, nn$distance))
  )
}

#' @rdname as_edges
#' @export
as_hits <- function(nn, n = NULL) {
  call <- match.call()
  if (missing(nn)) refuse_missing("nn", needs_neighbours, call)
  nn <- neighbours_in_memory(nn, "nn", call)
  need_package("S4Vectors", call)
  if (is.null(n)) {
    edges <- edges_within(nn, "nn", "give `n`, the number of rows of x", call)
    return(S4Vectors::SelfHits(
      edges$source, edges$target, nnode = count_queries(nn), distance = edges$weight,
      sort.by.query = TRUE
    ))
  }
  n <- check_count(n, .Machine$integer.max, "n", call)
  edges <- list_edges(nn, seq_len(count_queries(nn)))
  if (any(edges$target > n)) {
    refuse("n", paste("is", n), paste("`nn` has the neighbour", max(edges$target)), call)
  }
  S4Vectors::Hits(
    edges$source, edges$target, nLnode = count_queries(nn), nRnode = n, distance = edges$weight,
    sort.by.query = TRUE
  )
}

# The components `index` and `distance` of neighbours have one of two forms: matrices with a row for
# each query, or lists with a vector for each query.

needs_neighbours <- paste(
  "it must be what gknn() returns: a list of matrices `index` and `distance`, or what",
  "gneighbours() returns"
)

# Stops if `nn` is not like the value of gknn() or gneighbours().
check_neighbours <- function(nn, arg, call) {
  # lengths() can crash R for objects of S4.
  is_plain <- function(part) is.numeric(part) && !is.object(part) && !isS4(part)
  is_form <- function(part) {
    is.matrix(part) && is_plain(part) ||
      is.list(part) && !is.object(part) && !isS4(part) && all(vapply(part, is_plain, NA))
  }
  is_result <- is.list(nn) && !is.data.frame(nn) && is_form(nn$index)
  if (is_result && is.null(nn$distance)) {
    refuse(arg, "has no distances", "search with `get.distance = TRUE`", call)
  }
  is_result <- is_result && is_form(nn$distance) &&
    identical(dim(nn$index), dim(nn$distance)) &&
    identical(lengths(nn$index), lengths(nn$distance))
  if (!is_result) {
    refuse(arg, paste("is", describe(nn)), needs_neighbours, call)
  }
  check_values_of_neighbours(nn, arg, call)
}

check_values_of_neighbours <- function(nn, arg, call) {
  index <- unlist(nn$index, use.names = FALSE)
  bad <- which(is.na(index) | index < 1 | index > .Machine$integer.max | index != round(index))
  if (length(bad) > 0) {
    refuse(arg, paste("has", index[bad[1]], "in `index`"), "indices must be numbers of rows", call)
  }
  if (anyNA(unlist(nn$distance, use.names = FALSE))) {
    refuse(arg, "has missing values in `distance`", "there must be one for each of `index`", call)
  }
  rows <- attr(nn, "rows")
  if (!is.null(rows) && !(is.numeric(rows) && length(rows) == count_queries(nn))) {
    refuse(arg, "has an attribute `rows` that does not fit", "it must number the queries", call)
  }
}

# Checked neighbours; neighbours in files are read first.
neighbours_in_memory <- function(nn, arg, call) {
  if (inherits(nn, "gknn_files")) {
    check_files(nn, arg, call)
    nn <- as.list(nn)
  }
  check_neighbours(nn, arg, call)
  nn
}

count_queries <- function(nn) if (is.matrix(nn$index)) nrow(nn$index) else length(nn$index)

take_rows <- function(part, rows) if (is.matrix(part)) part[rows, , drop = FALSE] else part[rows]

# A list of the ends and distances of all edges; `numbers` are the numbers of the queries.
list_edges <- function(nn, numbers) {
  if (is.matrix(nn$index)) {
    return(list(
      source = rep(numbers, each = ncol(nn$index)),
      target = as.vector(t(nn$index)),
      weight = as.vector(t(nn$distance))
    ))
  }
  list(
    source = rep.int(numbers, lengths(nn$index)),
    target = as.integer(unlist(nn$index, use.names = FALSE)),
    weight = as.double(unlist(nn$distance, use.names = FALSE))
  )
}

# Like list_edges(), for neighbours of all rows of `x` among each other. Stops for other neighbours;
# the error ends with `needs`.
edges_within <- function(nn, arg, needs, call) {
  n <- count_queries(nn)
  edges <- list_edges(nn, seq_len(n))
  if (!is.null(attr(nn, "rows"))) {
    refuse(arg, "has neighbours of a subset of the rows", needs, call)
  }
  if (any(edges$target > n) || any(edges$target == edges$source)) {
    refuse(arg, "has neighbours of the rows of a `query`", needs, call)
  }
  edges
}

# Keeps the first of several edges between the same two vertices, whatever their direction. `n` is
# the number of vertices.
without_direction <- function(edges, n) {
  lower <- pmin(edges$source, edges$target)
  higher <- pmax(edges$source, edges$target)
  # A double holds the number of a pair exactly up to n = 94,906,265.
  first <- !duplicated((lower - 1) * n + higher)
  # A Jaccard coefficient has no direction.
  list(source = lower[first], target = higher[first], weight = edges$weight[first],
       jaccard = edges$jaccard[first])
}

# A similarity in [0, 1] for each distance: 1 at distance 0, and 1/2 at the median of the positive
# distances. It does not depend on the unit of the distances.
similarity <- function(distance) {
  positive <- distance[distance > 0]
  if (length(positive) == 0) return(rep(1, length(distance)))
  1 / (1 + distance / stats::median(positive))
}

# The Jaccard coefficient of the neighbours of both ends of each of the edges of `nn`.
jaccard <- function(nn, edges, call) {
  count <- if (is.matrix(nn$index)) rep(ncol(nn$index), nrow(nn$index)) else lengths(nn$index)
  run_job(job_jaccard(count, as.integer(edges$target)), FALSE, "Comparing neighbours", call)
}
