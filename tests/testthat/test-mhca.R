# Functions with mhca's names. The expected values are those of mhca 0.2.
x <- cbind(c(1, 2, 4, 10, 13, 20, 24), c(1, 2, 4, 10, 13, 20, 24) %% 3)
h <- mhclust(x, thresh = 0.5, g = c(1, 1, 1, 2, 2, 0, NA), warn = FALSE)

test_that("the tree has mhca's name for the labels", {
  expect_identical(h$g, h$apriori)
  expect_null(mhclust(x, 3, warn = FALSE)$g)
})

test_that("cutreeApriori() numbers leaves by the clusters that they are", {
  top <- cutreeApriori(h)
  # Observations 7 and 6, then clusters in the order in which they were made.
  expect_identical(top$labels, c("NA", "0", "1", "2"))
  expect_identical(sort(-top$merge[top$merge < 0]), 1:4)
  expect_identical(top$height, h$height[4:6])
  expect_true(check_hclust(top))
  expect_null(top$g.labels)
  expect_null(top$n.height.apriori)
  expect_identical(cutreeApriori(top), top)
  # The same clusters as the top with this package's numbers.
  ours <- cutree_apriori(h)
  by_label <- function(tree) cophenetic(make_monotone(tree))
  expect_identical(sort(as.vector(by_label(top))), sort(as.vector(by_label(ours))))
})

test_that("fixNonMonotHca() raises heights as mhca does", {
  merge <- cbind(c(-7L, -2:-6), c(-1L, 1:5))
  tree <- structure(class = "hclust", list(
    merge = merge, height = c(1, 3, 2, 2.5, 5, 4), order = leaf_order(merge, NULL)
  ))
  expect_identical(fixNonMonotHca(tree)$height, c(1, 3, 3.25, 3.5, 5, 5.25))
  expect_identical(fixNonMonotHca(tree, eps = 1)$height, c(1, 3, 4, 5, 5, 6))
  expect_equal(fixNonMonotHca(tree, "halfway")$height, c(1, 3, 3 + 2 / 3, 3 + 4 / 3, 5, 5 + 2 / 3))
  expect_false(is.unsorted(fixNonMonotHca(inverted_tree())$height))
})

test_that("checkHca() and computeLeafOrder() tell of trees", {
  expect_true(checkHca(h, verb = FALSE))
  expect_output(expect_true(checkHca(h)), "the tree is valid")
  broken <- h
  broken$merge[1, 1] <- 99L
  expect_output(expect_false(checkHca(broken)), "clusters that do not exist: 99")
  expect_identical(order(computeLeafOrder(h$merge)), h$order)
  expect_error(computeLeafOrder(broken$merge), class = "gmhclust_error_input")
  expect_error(cutreeApriori(broken), class = "gmhclust_error_input")
  expect_error(checkHca(), "`h` is missing", class = "gmhclust_error_input")
  expect_error(computeLeafOrder(), "`merge` is missing", class = "gmhclust_error_input")
  for (eps in list("a", -1, 0, NA, Inf, 1:2)) {
    expect_error(fixNonMonotHca(h, eps = eps), "`eps` is", class = "gmhclust_error_input")
  }
})

test_that("an apriori cluster above the threshold is no reason to warn", {
  expect_no_warning(mhclust(blobs(60, 2), 5, g = rep(1:2, 30), warn = TRUE))
})
