# Packages for single cells run on the classes of this package, and give the same as on those of
# BiocNeighbors.
ours <- GknnParam()
# Draws no random numbers, which KmknnParam() of BiocNeighbors 1 does.
theirs <- BiocNeighbors::ExhaustiveParam()

test_that("scater draws the same UMAP and t-SNE", {
  skip_if_not_installed("scater")
  sce <- cells_at(whole_numbers())
  for (draw in list(scater::runUMAP, scater::runTSNE)) {
    layout <- function(param) {
      set.seed(1)
      done <- draw(sce, dimred = "PCA", external_neighbors = TRUE, BNPARAM = param, name = "layout")
      SingleCellExperiment::reducedDim(done, "layout")
    }
    expect_identical(layout(ours), layout(theirs))
  }
})

test_that("scran and bluster build the same graphs", {
  x <- whole_numbers()
  builders <- list(bluster::makeSNNGraph, bluster::makeKNNGraph)
  if (scran_clusters()) {
    of_transposed <- function(build) function(x, ...) build(t(x), ...)
    builders <- c(builders, lapply(list(scran::buildSNNGraph, scran::buildKNNGraph), of_transposed))
  }
  for (build in builders) {
    edges <- function(param) {
      graph <- build(x, BNPARAM = param)
      list(igraph::as_edgelist(graph), igraph::edge_attr(graph))
    }
    expect_identical(edges(ours), edges(theirs))
  }
})

test_that("scran clusters cells", {
  skip_if(!scran_clusters(), "no scran before 1.36, whose clusterCells() is not deprecated")
  kinds <- rep(1:2, each = 100)
  set.seed(1)
  sce <- cells_at(matrix(rnorm(200 * 3), 200) + 20 * kinds)
  param <- GmhclustParam(k = 2, min_members = 20, warn = FALSE)
  clusters <- scran::clusterCells(sce, use.dimred = "PCA", BLUSPARAM = param)
  expect_true(all(rowSums(table(kinds, clusters) > 0) == 1))
  set.seed(1)
  clusters <- scran::clusterCells(sce, use.dimred = "PCA", BLUSPARAM = GkmeansParam(2, nstart = 5))
  expect_true(all(rowSums(table(kinds, clusters) > 0) == 1))
})

test_that("bluster clusters graphs of neighbours alike", {
  x <- whole_numbers()
  for (shared in c(TRUE, FALSE)) {
    clusters <- function(param) {
      set.seed(1)
      bluster::clusterRows(x, bluster::NNGraphParam(shared = shared, BNPARAM = param))
    }
    expect_gt(nlevels(clusters(ours)), 1)
    expect_identical(clusters(ours), clusters(theirs))
  }
})

test_that("bluster's other uses of neighbours are the same", {
  x <- whole_numbers()
  theirs <- BiocNeighbors::KmknnParam()
  density <- function(param) bluster::clusterRows(x, bluster::DbscanParam(BNPARAM = param))
  expect_identical(density(ours), density(theirs))
  labels <- rep(1:4, 50)
  expect_identical(bluster::neighborPurity(x, labels, BNPARAM = ours),
                   bluster::neighborPurity(x, labels, BNPARAM = theirs))
})
