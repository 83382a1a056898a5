# A few clusters of different shapes, n points in p dimensions.
blobs <- function(n, p, seed = 1) {
  set.seed(seed)
  centres <- matrix(rnorm(3 * p, sd = 6), 3)
  x <- centres[sample(3, n, replace = TRUE), , drop = FALSE] + matrix(rnorm(n * p), n)
  x[, 1] <- x[, 1] + 2 * x[, p]
  x
}

some_cells <- function(n = 2000) {
  cells <- lymphocytes()
  as.matrix(cells[seq(1, nrow(cells), length.out = n), 1:14])
}

# A tree without its call.
as_computed <- function(tree) {
  tree$call <- NULL
  tree
}

expect_same_tree <- function(tree, other) {
  same <- c("merge", "height", "order")
  expect_identical(unclass(tree)[same], unclass(other)[same])
}

# The tree has inversions, because its linkage is centroid.
inverted_tree <- function() hclust(dist(USArrests)^2, method = "centroid")

# An error that names an argument, raised on behalf of the function `by`.
expect_refused <- function(object, message, by = "gmhclust") {
  error <- expect_error(object, class = "gmhclust_error_input")
  expect_s3_class(error, c("gmhclust_error_input", "gmhclust_error", "error", "condition"),
                  exact = TRUE)
  expect_match(conditionMessage(error), message, fixed = TRUE)
  expect_identical(as.character(conditionCall(error)[[1]]), by)
}

# The expression values of `probes` of package ALL's 12,625 probes in 128 arrays.
some_probes <- function(probes) {
  skip_if_not_installed("ALL")
  skip_if_not_installed("Biobase")
  loaded <- new.env()
  utils::data("ALL", package = "ALL", envir = loaded)
  values <- Biobase::exprs(loaded$ALL)
  values[seq(1, nrow(values), length.out = probes), ]
}
