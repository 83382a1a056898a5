# Functions of other packages for trees.
x <- blobs(30, 3)
rownames(x) <- paste0("cell", 1:30)
tree <- gmhclust(x, threshold = 8)
top <- cutree_top(tree, 12)

test_that("cutree(k = ) gives every number of clusters, nested", {
  cuts <- cutree(tree, k = 1:30)
  expect_identical(dim(cuts), c(30L, 30L))
  expect_identical(rownames(cuts), rownames(x))
  for (k in 1:29) {
    expect_length(unique(cuts[, k]), k)
    expect_length(unique(paste(cuts[, k], cuts[, k + 1])), k + 1)
  }
})

test_that("cutree(h = ) works once the tree is monotone", {
  monotone <- make_monotone(tree)
  expect_length(cutree(monotone, h = median(monotone$height)), 30)
})

test_that("plot() draws the tree", {
  expect_no_error(on_no_screen(plot(tree)))
  expect_no_error(on_no_screen(plot(tree, hang = -1, labels = FALSE)))
})

test_that("as.dendrogram() keeps the leaves in their order", {
  dendrogram <- as.dendrogram(tree)
  expect_identical(order.dendrogram(dendrogram), tree$order)
  expect_identical(labels(dendrogram), rownames(x)[tree$order])
  expect_no_error(on_no_screen(plot(dendrogram)))
})

test_that("rect.hclust() names the clusters, by number and by place as identify() does", {
  clusters <- on_no_screen({
    plot(tree)
    rect.hclust(tree, k = 4)
  })
  expect_setequal(unlist(clusters), 1:30)
  one <- on_no_screen({
    plot(tree)
    rect.hclust(tree, k = 4, x = 1)
  })
  expect_true(tree$order[1] %in% one[[1]])
})

test_that("cophenetic() and reorder() of the dendrogram accept the tree", {
  expect_length(cophenetic(tree), 30 * 29 / 2)
  expect_s3_class(reorder(as.dendrogram(tree), 30:1), "dendrogram")
})

test_that("heatmap() accepts the tree", {
  expect_no_error(on_no_screen(heatmap(x, Rowv = as.dendrogram(tree))))
})

test_that("as.hclust() gives the tree, also of the dendrogram", {
  expect_identical(as.hclust(tree), tree)
  again <- as.hclust(as.dendrogram(ghclust(x, "average")))
  expect_identical(again$height, ghclust(x, "average")$height)
})

test_that("dendextend colours, cuts and compares the tree", {
  skip_if_not_installed("dendextend")
  dendrogram <- dendextend::color_branches(as.dendrogram(tree), k = 3)
  expect_identical(labels(dendrogram), rownames(x)[tree$order])
  monotone <- make_monotone(tree)
  expect_identical(
    unname(dendextend::cutree(monotone, k = 4, order_clusters_as_data = TRUE)),
    unname(cutree(monotone, k = 4))
  )
  expect_equal(dendextend::cor_cophenetic(tree, tree), 1)
  expect_s3_class(dendextend::rotate(tree, rev(rownames(x))), "hclust")
})

test_that("ape makes a phylogenetic tree of it", {
  skip_if_not_installed("ape")
  for (h in list(tree, top)) {
    phylo <- ape::as.phylo(h)
    expect_s3_class(phylo, "phylo")
    expect_setequal(phylo$tip.label, h$labels)
    expect_identical(nrow(phylo$edge), 2L * length(h$order) - 2L)
  }
})

test_that("trees are plain hclust objects, for functions that compare the whole class", {
  for (h in list(tree, top, cutree_apriori(gmhclust(x, 8, rep(1:6, 5))), make_monotone(tree))) {
    expect_identical(class(h), "hclust")
  }
})

test_that("the same call gives the same object", {
  expect_identical(ghclust(x), ghclust(x))
  expect_identical(gmhclust(x, threshold = 8), gmhclust(x, threshold = 8))
})

test_that("ggdendro and dynamicTreeCut take the tree", {
  if (requireNamespace("ggdendro", quietly = TRUE)) {
    expect_identical(nrow(ggdendro::dendro_data(tree)$labels), 30L)
  }
  skip_if_not_installed("dynamicTreeCut")
  cut <- dynamicTreeCut::cutreeDynamic(make_monotone(tree), minClusterSize = 3, method = "tree",
                                       verbose = 0)
  expect_length(cut, 30)
})

test_that("pheatmap() takes the tree for rows and columns", {
  skip_if_not_installed("pheatmap")
  drawn <- on_no_screen(pheatmap::pheatmap(x, cluster_rows = tree, silent = TRUE))
  expect_identical(drawn$tree_row$order, tree$order)
  drawn <- on_no_screen(pheatmap::pheatmap(t(x), cluster_cols = tree, cutree_cols = 3,
                                           silent = TRUE))
  expect_identical(drawn$tree_col$order, tree$order)
})

test_that("ComplexHeatmap takes the tree, ghclust() and, with one argument, gdist()", {
  skip_if_not_installed("ComplexHeatmap")
  rows <- function(...) {
    on_no_screen(ComplexHeatmap::row_order(ComplexHeatmap::draw(
      ComplexHeatmap::Heatmap(x, row_dend_reorder = FALSE, ...)
    )))
  }
  expect_identical(rows(cluster_rows = tree), tree$order)
  expect_identical(rows(cluster_rows = as.dendrogram(tree)), tree$order)
  expect_identical(rows(cluster_rows = function(m) gmhclust(m, threshold = 8)), tree$order)
  expect_identical(rows(cluster_rows = function(m) ghclust(m, "average")),
                   ghclust(x, "average")$order)
  by_gdist <- rows(clustering_distance_rows = function(m) gdist(m, "pearson"))
  expect_identical(by_gdist, hclust(gdist(x, "pearson"))$order)
  expect_identical(rows(clustering_distance_rows = gdist(x, "pearson")), by_gdist)
})
