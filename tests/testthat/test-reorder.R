# The sum of the distances between neighbouring leaves.
path_length <- function(order, d) {
  sum(as.matrix(d)[cbind(order[-length(order)], order[-1])])
}

# The least sum of all 2^(n - 1) flips of the branches of a tree.
least_path <- function(tree, d) {
  merges <- nrow(tree$merge)
  lengths <- vapply(seq_len(2^merges) - 1, function(flips) {
    rows <- bitwAnd(flips, 2^(seq_len(merges) - 1)) > 0
    path_length(leaf_order(flipped(tree$merge, rows), NULL), d)
  }, 0)
  min(lengths)
}

# Only `order`, and the sides of branches, may differ.
expect_flips <- function(tree, before) {
  expect_s3_class(tree, "hclust", exact = TRUE)
  expect_true(check_hclust(tree))
  expect_identical(leaf_order(tree$merge, NULL), as.integer(tree$order))
  expect_identical(sort_merge_rows(tree$merge), sort_merge_rows(before$merge))
  kept <- setdiff(names(before), c("merge", "order"))
  expect_identical(unclass(tree)[kept], unclass(before)[kept])
  n <- length(tree$order)
  expect_identical(gcutree(tree, seq_len(n)), gcutree(before, seq_len(n)))
}

test_that("no flips of branches have a lower sum of distances between neighbours", {
  set.seed(3)
  for (n in c(2:9, 9, 9)) {
    for (values in list(matrix(rnorm(2 * n), n), matrix(sample(3, 2 * n, TRUE), n))) {
      d <- dist(values)
      for (tree in list(hclust(d, "average"), hclust(d^2, "centroid"), random_tree(n))) {
        ordered <- reorder(tree, d)
        expect_flips(ordered, tree)
        expect_equal(path_length(ordered$order, d), least_path(tree, d))
      }
    }
  }
})

test_that("distances may be a matrix, and those of another tree", {
  tree <- hclust(dist(USArrests), "single")
  d <- gdist(scale(USArrests), "manhattan")
  ordered <- reorder(tree, d)
  expect_flips(ordered, tree)
  expect_lt(path_length(ordered$order, d), path_length(tree$order, d))
  expect_identical(reorder(tree, as.matrix(d)), ordered)
  expect_identical(reorder(tree, noquote(as.matrix(d))), ordered)
  expect_identical(reorder(tree, round(as.matrix(d)) + 0L), reorder(tree, round(d)))
  # Again, nothing is to gain.
  expect_identical(reorder(ordered, d), ordered)
})

test_that("trees of gmhclust(), with inversions, and their tops are ordered", {
  x <- blobs(300, 4)
  tree <- gmhclust(x, 12, apriori = rep(1:30, 10), warn = FALSE)
  expect_gt(sum(diff(tree$height) < 0), 0)
  ordered <- reorder(tree, gdist(x))
  expect_flips(ordered, tree)
  expect_lt(path_length(ordered$order, dist(x)), path_length(tree$order, dist(x)))
  expect_identical(cutree_apriori(ordered)$height, cutree_apriori(tree)$height)
  top <- cutree_apriori(tree)
  expect_flips(reorder(top, gdist(rowsum(x, top$leaf))), top)
  population <- cut_populations(tree, 3, x = x)
  expect_identical(as.integer(cut_populations(ordered, 3, x = x)), as.integer(population))
})

test_that("the order does not depend on the number of threads, and ties keep the order", {
  x <- blobs(400, 3)
  tree <- ghclust(x, "average")
  d <- round(gdist(x))
  expect_identical(reorder(tree, d, threads = 1), reorder(tree, d, threads = 3))
  flat <- reorder(tree, 0 * d)
  expect_flips(flat, tree)
  expect_identical(flat$order[1], tree$order[1])
  for (small in some_trees()) {
    n <- length(small$order)
    expect_identical(reorder(small, numeric(n), "max")$order, as.integer(small$order))
    turned <- small
    turned$order <- rev(small$order)
    expect_identical(reorder(turned, numeric(n), "max")$order, as.integer(turned$order))
  }
})

test_that("a tree like a chain of 3,000 leaves is ordered", {
  x <- cumsum(seq(1, 2, length.out = 3000))
  tree <- ghclust(matrix(x), "single")
  set.seed(4)
  shuffled <- tree
  shuffled$merge <- flipped(tree$merge, runif(2999) < 0.5)
  shuffled$order <- leaf_order(shuffled$merge, NULL)
  d <- dist(x)
  ordered <- reorder(shuffled, d)
  expect_flips(ordered, shuffled)
  expect_identical(abs(diff(ordered$order)), rep(1L, 2999))
  weighted <- reorder(shuffled, x, "mean")
  expect_flips(weighted, shuffled)
})

test_that("weights give the order of reorder.dendrogram()", {
  set.seed(5)
  for (tree in some_trees()) {
    n <- length(tree$order)
    tree$height <- cummax(tree$height)
    dendrogram <- as.dendrogram(tree)
    for (weights in list(rnorm(n), sample(3, n, replace = TRUE), -seq_len(n))) {
      for (combine in list(sum, mean, max, min)) {
        expected <- order.dendrogram(reorder(dendrogram, weights, combine))
        expect_identical(reorder(tree, weights, combine)$order, expected)
        expect_identical(order.dendrogram(as.dendrogram(reorder(tree, weights, combine))), expected)
      }
      for (name in c("sum", "min", "max")) {
        expect_identical(reorder(tree, weights, name), reorder(tree, weights, match.fun(name)))
      }
      expect_identical(reorder(tree, weights, "uwmean"), reorder(tree, weights, mean))
      expect_identical(reorder(tree, weights), reorder(tree, weights, sum))
    }
  }
})

test_that("\"mean\" is the mean of all leaves of a cluster", {
  tree <- hclust(dist(c(0, 1, 3, 10)))
  # The cluster of the first three leaves has mean 2, both of its parts together mean 1.5.
  weights <- c(3, 3, 0, 1.8)
  expect_identical(reorder(tree, weights, "mean")$order[1], 4L)
  expect_identical(reorder(tree, weights, "uwmean")$order[4], 4L)
})

test_that("two leaves stay as they are, or are exchanged by weight", {
  tree <- hclust(dist(c(5, 1)))
  expect_identical(reorder(tree, dist(c(5, 1)))$order, tree$order)
  expect_identical(reorder(tree, c(2, 1))$order, 2:1)
  expect_identical(reorder(tree, c(1, 2))$order, 1:2)
})

test_that("invalid arguments are refused", {
  tree <- hclust(dist(USArrests))
  refused <- function(object, message) expect_refused(object, message, "reorder.hclust")
  refused(reorder(tree), "`wts` is missing; it must be the distances of the 50 leaves, or a number")
  refused(reorder(tree, dist(1:49)), "`wts` has the distances of 49 observations")
  refused(reorder(tree, as.matrix(USArrests)), "`wts` is a numeric matrix of 50 x 4")
  refused(reorder(tree, matrix(seq_len(2500), 50)), "`wts` is not symmetric")
  refused(reorder(tree, matrix("a", 50, 50)), "`wts` is a character matrix of 50 x 50")
  refused(reorder(tree, replace(dist(USArrests), 7, NA)), "`wts` has NA; distances must be finite")
  refused(reorder(tree, 1:49), "`wts` has length 49")
  refused(reorder(tree, letters[rep(1:25, 2)]), "`wts` is a character vector")
  refused(reorder(tree, replace(1:50, 3, NA)), "`wts` has NA; weights must be finite")
  refused(reorder(tree, 1:50, "median"), "`agglo.FUN` is \"median\"; it must be a function, or one")
  refused(reorder(tree, 1:50, function(w) w), "`agglo.FUN` returned a numeric vector of length 2")
  refused(reorder(tree, 1:50, threads = 0), "`threads` is 0")
  refused(reorder(tree, 1:50, metod = 1), "`...` has arguments")
  broken <- tree
  broken$order[1] <- broken$order[2]
  refused(reorder(broken, 1:50), "`x` is not a valid tree")
  invalid <- structure(dist(1:50), Size = "a")
  refused(reorder(tree, invalid), "`wts` is no valid \"dist\" object")
})

test_that("weights and distances in another order are refused if their names show it", {
  u <- as.matrix(USArrests)
  tree <- ghclust(u)
  wrong <- "`wts` has the tree's observations in another order; row 1 is \"Wyoming\""
  distances <- dist(u[50:1, ])
  weights <- setNames(50:1, rownames(u)[50:1])
  for (wts in list(distances, as.matrix(distances), weights)) {
    expect_error(reorder(tree, wts), wrong, fixed = TRUE, class = "gmhclust_error_input")
  }
  by_column <- structure(as.matrix(distances), dimnames = list(NULL, rownames(u)[50:1]))
  expect_error(reorder(tree, by_column), wrong, fixed = TRUE, class = "gmhclust_error_input")
  expect_error(reorder(tree, 1:50, function(weights) stop("no")), "`agglo.FUN` stopped with",
               class = "gmhclust_error_input")
  expect_identical(reorder(tree, unname(dist(u))), reorder(tree, dist(u)))
})
