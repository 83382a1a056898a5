# Neighbours as a table, a graph, hits, and for uwot.

on_a_line <- matrix(c(0, 1, 3, 7))

test_that("as_edges() makes a table with a row for each neighbour", {
  nn <- gknn(on_a_line, 2)
  expect_identical(as_edges(nn), data.frame(
    source = rep(1:4, each = 2L), target = c(2L, 3L, 1L, 3L, 2L, 1L, 3L, 2L),
    weight = c(1, 3, 1, 2, 2, 3, 4, 6)
  ))
  expect_identical(as_edges(nn, rows = c(4, 1))$source, c(4L, 4L, 1L, 1L))
  expect_identical(as_edges(gknn(on_a_line, 2, subset = c(4, 1))), as_edges(nn, rows = c(4, 1)))
  expect_identical(as_edges(gknn(on_a_line, 2, subset = c(4, 1)), rows = 2), as_edges(nn, rows = 1))
  expect_identical(as_edges(gneighbours(on_a_line, 2)), data.frame(
    source = c(1L, 2L, 2L, 3L), target = c(2L, 1L, 3L, 2L), weight = c(1, 1, 2, 2)
  ))
  expect_identical(as_edges(gneighbours(on_a_line, 2), rows = 3:4)$source, 3L)
  expect_identical(dim(as_edges(gneighbours(on_a_line, 0.5))), c(0L, 3L))
  refused <- function(object, message) expect_refused(object, message, by = "as_edges")
  refused(as_edges(1), "`nn` is 1; it must be what gknn() returns")
  refused(as_edges(nn[2]), "`nn` is a list; it must be what gknn() returns")
  refused(as_edges(nn[1]), "`nn` has no distances; search with `get.distance = TRUE`")
  refused(as_edges(list(index = nn$index, distance = nn$distance[1:2, ])), "`nn` is a list")
  refused(as_edges(list(index = list(1L, 2L), distance = list(1, 1:2))), "`nn` is a list")
})

test_that("as_igraph() makes a directed graph", {
  skip_if_not_installed("igraph")
  x <- blobs(20, 3)
  nn <- gknn(x, 3)
  graph <- as_igraph(nn, undirected = FALSE, weight = "distance")
  expect_true(igraph::is_directed(graph))
  expect_equal(igraph::vcount(graph), 20)
  ends <- igraph::as_edgelist(graph)
  edges <- as_edges(nn)
  expect_equal(ends, cbind(edges$source, edges$target))
  expect_identical(igraph::E(graph)$weight, edges$weight)
  refused <- function(object, message) expect_refused(object, message, by = "as_igraph")
  refused(as_igraph(gknn(x, 1, x[1:5, ])), "`nn` has neighbours of the rows of a `query`")
  refused(as_igraph(gknn(x, 3, subset = 1:5)), "`nn` has neighbours of a subset of the rows")
  refused(as_igraph(NULL), "`nn` is NULL")
  refused(as_igraph(nn, undirected = 1), "`undirected` is 1")
  refused(as_igraph(nn, weight = "rank"), "`weight` is \"rank\"")
  refused(as_igraph(nn, labels = letters), "`labels` is a character vector of length 26")
})

test_that("an undirected graph has one edge for each pair of neighbours", {
  skip_if_not_installed("igraph")
  nn <- gknn(blobs(60, 3), 4)
  graph <- as_igraph(nn, weight = "distance")
  expect_false(igraph::is_directed(graph))
  # Each pair once, in the order of its first edge.
  edges <- as_edges(nn)
  ends <- cbind(pmin(edges$source, edges$target), pmax(edges$source, edges$target))
  first <- !duplicated(ends)
  expect_lt(sum(first), 240)
  found <- igraph::as_edgelist(graph)
  expect_equal(cbind(pmin(found[, 1], found[, 2]), pmax(found[, 1], found[, 2])), ends[first, ])
  expect_identical(igraph::E(graph)$weight, edges$weight[first])
  expect_identical(igraph::E(graph)$distance, edges$weight[first])
})

test_that("similarities decrease with the distance and do not depend on its unit", {
  skip_if_not_installed("igraph")
  x <- blobs(60, 3)
  edges <- igraph::E(as_igraph(gknn(x, 4)))
  expect_identical(order(edges$weight), rev(order(edges$distance, decreasing = FALSE)))
  expect_identical(edges$weight, 1 / (1 + edges$distance / median(edges$distance)))
  scaled <- igraph::E(as_igraph(gknn(1024 * x, 4)))
  expect_identical(scaled$weight, edges$weight)
  expect_identical(igraph::E(as_igraph(gknn(matrix(1, 5, 2), 2)))$weight, rep(1, 7))
  alone <- as_igraph(gneighbours(x, 0))
  expect_equal(c(igraph::vcount(alone), igraph::ecount(alone)), c(60, 0))
})

# The definition of Jaccard weights: of the edge from i to each of its neighbours.
slow_jaccard <- function(nn) {
  index <- if (is.matrix(nn$index)) split(nn$index, row(nn$index)) else nn$index
  sets <- lapply(seq_along(index), function(i) c(i, index[[i]]))
  unlist(lapply(seq_along(index), function(i) {
    vapply(index[[i]], function(j) {
      length(intersect(sets[[i]], sets[[j]])) / length(union(sets[[i]], sets[[j]]))
    }, 0)
  }))
}

test_that("Jaccard weights are the share of common neighbours, each its own neighbour", {
  skip_if_not_installed("igraph")
  x <- blobs(80, 3)
  # gneighbours() finds different numbers of neighbours, here also none.
  within <- gneighbours(x, 1)
  expect_true(0L %in% lengths(within$index))
  for (nn in list(gknn(x, 5), gknn(x, 1), gknn(x, 79), within, gneighbours(x, 0))) {
    graph <- as_igraph(nn, undirected = FALSE, weight = "jaccard")
    expected <- as.double(slow_jaccard(nn))
    edges <- as_edges(nn)
    expect_identical(as.double(igraph::edge_attr(graph, "weight")), expected)
    expect_identical(as.double(igraph::edge_attr(graph, "distance")), edges$weight)
    expect_true(all(expected > 0 & expected <= 1))
    # An edge has the weight of either direction.
    graph <- as_igraph(nn, weight = "jaccard")
    ends <- cbind(pmin(edges$source, edges$target), pmax(edges$source, edges$target))
    expect_identical(as.double(igraph::edge_attr(graph, "weight")), expected[!duplicated(ends)])
  }
  expect_true(all(slow_jaccard(gknn(x, 79)) == 1))
  expect_identical(igraph::edge_attr(as_igraph(gknn(on_a_line, 1), weight = "jaccard"), "weight"),
                   c(1, 1 / 3, 1 / 3))
  expect_refused(as_igraph(gknn(x, 1, x[1:5, ]), weight = "jaccard"),
                 "`nn` has neighbours of the rows of a `query`", by = "as_igraph")
})

test_that("Jaccard weights are those of bluster for the same edges", {
  skip_if_not_installed("igraph")
  skip_if_not_installed("bluster")
  nn <- gknn(some_cells(500), 10)
  ours <- as_igraph(nn, weight = "jaccard", labels = NULL)
  theirs <- bluster::neighborsToSNNGraph(nn$index, type = "jaccard")
  number <- function(graph) {
    ends <- igraph::as_edgelist(graph)
    pmin(ends[, 1], ends[, 2]) * 501 + pmax(ends[, 1], ends[, 2])
  }
  at <- match(number(ours), number(theirs))
  expect_false(anyNA(at))
  expect_identical(igraph::edge_attr(ours, "weight"), igraph::edge_attr(theirs, "weight")[at])
})

test_that("Louvain's communities of the default graph are the clusters", {
  skip_if_not_installed("igraph")
  centres <- rbind(c(0, 0), c(50, 0), c(0, 50))
  x <- centres[rep(1:3, each = 40), ] + blobs(120, 2) %% 1
  rownames(x) <- paste0("cell", 1:120)
  graph <- as_igraph(gknn(x, 39))
  communities <- igraph::membership(igraph::cluster_louvain(graph))
  expect_named(communities, rownames(x))
  expect_identical(as.vector(tapply(communities, rep(1:3, each = 40), function(of_cluster) {
    length(unique(of_cluster))
  })), rep(1L, 3))
  expect_length(unique(communities), 3)
  named <- as_igraph(gneighbours(x, 5))
  expect_identical(igraph::V(named)$name, rownames(x))
  expect_null(igraph::V(as_igraph(gknn(x, 3), labels = NULL))$name)
  expect_identical(igraph::V(as_igraph(gknn(unname(x), 3), labels = 1:120))$name,
                   as.character(1:120))
})

test_that("as_uwot() puts each observation first", {
  nn <- gknn(blobs(50, 4), 7)
  uwot <- as_uwot(nn)
  expect_identical(uwot, list(idx = cbind(1:50, nn$index), dist = cbind(0, nn$distance)))
  query <- gknn(blobs(50, 4), 7, blobs(9, 4, seed = 2))
  expect_identical(as_uwot(query, self = FALSE), list(idx = query$index, dist = query$distance))
  refused <- function(object, message) expect_refused(object, message, by = "as_uwot")
  refused(as_uwot(query), "`nn` has neighbours of the rows of a `query`")
  refused(as_uwot(gknn(blobs(50, 4), 3, subset = 1:20)), "`nn` has neighbours of a subset")
  refused(as_uwot(gneighbours(blobs(50, 4), 2)), "different numbers of neighbours")
})

test_that("uwot makes a layout of as_uwot()'s value, as of its own exact neighbours", {
  skip_if_not_installed("uwot")
  x <- blobs(150, 4)
  umap <- function(...) {
    set.seed(1)
    uwot::umap(x, n_threads = 1, n_sgd_threads = 1, verbose = FALSE, n_epochs = 30, ...)
  }
  layout <- umap(nn_method = as_uwot(gknn(x, 14)))
  expect_identical(dim(layout), c(150L, 2L))
  expect_true(all(is.finite(layout)))
  skip_if_not_installed("FNN")
  expect_equal(layout, umap(nn_method = "fnn", n_neighbors = 15), ignore_attr = TRUE)
})

test_that("neighbours must be given", {
  for (convert in list(as_edges, as_igraph, as_uwot, as_hits)) {
    expect_error(convert(), "`nn` is missing", class = "gmhclust_error_input")
  }
})

test_that("as_hits() makes hits, sorted by query", {
  skip_if_not_installed("S4Vectors")
  nn <- gknn(on_a_line, 2)
  hits <- as_hits(nn)
  edges <- as_edges(nn)
  expect_s4_class(hits, "SortedByQuerySelfHits")
  expect_identical(S4Vectors::from(hits), edges$source)
  expect_identical(S4Vectors::to(hits), edges$target)
  expect_identical(S4Vectors::mcols(hits)$distance, edges$weight)
  expect_identical(S4Vectors::nnode(hits), 4L)
  expect_identical(S4Vectors::countQueryHits(as_hits(gneighbours(on_a_line, 2))), c(1L, 2L, 1L, 0L))
  query <- gknn(on_a_line, 1, cbind(c(6, 2.9)))
  hits <- as_hits(query, n = 4)
  expect_s4_class(hits, "SortedByQueryHits")
  expect_identical(S4Vectors::to(hits), 4:3)
  expect_identical(c(S4Vectors::nLnode(hits), S4Vectors::nRnode(hits)), c(2L, 4L))
  refused <- function(object, message) expect_refused(object, message, by = "as_hits")
  refused(as_hits(query), "neighbours of the rows of a `query`; give `n`, the number")
  refused(as_hits(query, n = 3), "`n` is 3; `nn` has the neighbour 4")
})
