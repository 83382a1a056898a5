# Functions of other packages for trees.
x <- blobs(30, 3)
rownames(x) <- paste0("cell", 1:30)
tree <- gmhclust(x, threshold = 8)

on_no_screen <- function(code) {
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  code
}

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
