# A few clusters of different shapes, n points in p dimensions.
blobs <- function(n, p, seed = 1) {
  set.seed(seed)
  centres <- matrix(rnorm(3 * p, sd = 6), 3)
  x <- centres[sample(3, n, replace = TRUE), , drop = FALSE] + matrix(rnorm(n * p), n)
  x[, 1] <- x[, 1] + 2 * x[, p]
  x
}

# gmhclust() where the inversions are beside the point.
quiet_gmhclust <- function(...) {
  suppressWarnings(gmhclust(...), classes = "gmhclust_warning_inversions")
}

some_cells <- function(n = 2000) {
  cells <- lymphocytes()
  as.matrix(cells[seq(1, nrow(cells), length.out = n), 1:14])
}

expect_same_tree <- function(tree, other) {
  same <- c("merge", "height", "order")
  expect_identical(unclass(tree)[same], unclass(other)[same])
}

# The tree has inversions, being made by centroid linkage.
inverted_tree <- function() hclust(dist(USArrests)^2, method = "centroid")
