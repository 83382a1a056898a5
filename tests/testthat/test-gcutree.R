linked <- function(n, seed, method = "average") {
  set.seed(seed)
  # Few distinct values: many ties.
  hclust(dist(matrix(sample(5, 2 * n, replace = TRUE), n)), method)
}

test_that("every cut of small trees is that of stats::cutree(), ties included", {
  for (n in c(2:12, 40)) {
    for (seed in 1:3) {
      tree <- linked(n, seed)
      expect_identical(gcutree(tree, k = seq_len(n)), cutree(tree, k = seq_len(n)))
      for (k in seq_len(n)) expect_identical(gcutree(tree, k), cutree(tree, k))
    }
  }
})

test_that("heights cut as stats::cutree() does, at and between the tree's and beyond", {
  for (n in c(2, 3, 10, 60)) {
    for (method in c("single", "complete", "ward.D2")) {
      tree <- linked(n, n, method)
      levels <- unique(tree$height)
      heights <- c(-1, levels, levels - 1e-9, levels + 1e-9, 1e9)
      expect_identical(gcutree(tree, h = heights), cutree(tree, h = heights))
      for (h in heights) expect_identical(gcutree(tree, h = h), cutree(tree, h = h))
    }
  }
  expect_identical(gcutree(linked(9, 1), h = Inf), rep(1L, 9))
})

test_that("trees with inversions are cut in the order of their merges", {
  tree <- inverted_tree()
  expect_true(is.unsorted(tree$height))
  expect_identical(gcutree(tree, k = 1:50), cutree(tree, k = 1:50))
  tree <- gmhclust(blobs(60, 3), 12)
  expect_identical(gcutree(tree, k = 60:1), cutree(tree, k = 60:1))
})

test_that("names are those of stats::cutree(), whatever the labels are", {
  tree <- hclust(dist(USArrests))
  for (labels in list(NULL, tree$labels, factor(tree$labels), 50:1)) {
    tree["labels"] <- list(labels)
    for (k in list(4, c(4, 2, 2), 3:5, c(a = 3, b = 7))) {
      expect_identical(gcutree(tree, k), cutree(tree, k))
    }
    expect_identical(gcutree(tree, h = c(50, pi, 1e5)), cutree(tree, h = c(50, pi, 1e5)))
  }
})

test_that("fractions of clusters are cut off, and k goes before h", {
  tree <- hclust(dist(USArrests))
  expect_identical(gcutree(tree, 7.9), cutree(tree, 7.9))
  expect_identical(gcutree(tree, k = 3, h = 50), cutree(tree, k = 3, h = 50))
  expect_identical(gcutree(tree, k = 2:3, h = 50), cutree(tree, k = 2:3))
})

test_that("merges stored as doubles are the same tree", {
  tree <- hclust(dist(USArrests))
  expected <- gcutree(tree, 5)
  storage.mode(tree$merge) <- "double"
  expect_identical(gcutree(tree, 5), expected)
})

# An error of gcutree() that begins as that of stats::cutree() for the same mistake.
expect_refused_like_cutree <- function(tree, ..., more) {
  theirs <- conditionMessage(expect_error(cutree(tree, ...)))
  expect_refused(gcutree(tree, ...), paste0(theirs, "; ", more), by = "gcutree")
}

test_that("invalid arguments have the errors of stats::cutree(), with more detail", {
  tree <- hclust(dist(USArrests))
  expect_refused_like_cutree(tree, more = "both are NULL")
  expect_refused_like_cutree(tree, 0, more = "`k` has 0 at position 1")
  expect_refused_like_cutree(tree, c(2, 51), more = "`k` has 51 at position 2")
  expect_refused_like_cutree(inverted_tree(), h = 5, more = "use `k`, or see make_monotone()")
  expect_length(gcutree(make_monotone(inverted_tree()), h = 5), 50)
})

test_that("arguments that are no number of clusters, height or tree are refused", {
  tree <- hclust(dist(USArrests))
  refused <- function(object, message) expect_refused(object, message, by = "gcutree")
  for (bad in list("3", TRUE, numeric(0), list(2))) {
    refused(gcutree(tree, k = bad), "it must be numbers between 1 and 50")
    refused(gcutree(tree, h = bad), "it must be one or more heights")
  }
  refused(gcutree(tree, k = c(3, NA)), "`k` has NA at position 2")
  refused(gcutree(tree, k = 1e10), "`k` has 1e+10 at position 1")
  refused(gcutree(tree, h = c(NaN, 3)), "`h` has NaN at position 1")
  refused(gcutree(USArrests, 2), "`tree` is an object of class \"data.frame\"")
  tree$merge[3, 1] <- tree$merge[2, 1]
  refused(gcutree(tree, 2), "`tree` is not a valid tree: `merge` names clusters more than once")
})

test_that("more cuts than one job returns come in batches, in their order", {
  n <- 5000
  tree <- hclust(dist(1:2))
  # A chain, whose clusters are known.
  tree$merge <- cbind(-c(1L, 3:n), c(-2L, 1:(n - 2)))
  tree$height <- as.double(seq_len(n - 1))
  tree$order <- n:1
  k <- c(n, rep_len(1:40, values_per_job %/% n), 7)
  expected <- vapply(k, function(k) pmax(1L, seq_len(n) - as.integer(n - k)), integer(n))
  found <- gcutree(tree, k)
  expect_identical(colnames(found), as.character(k))
  expect_identical(unname(found), expected)
})
