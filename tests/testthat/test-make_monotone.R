with_heights <- function(height) {
  tree <- hclust(dist(seq_len(length(height) + 1)^2), method = "single")
  tree$height <- height
  tree
}

test_that("eps raises just above the highest before", {
  expect_identical(make_monotone(with_heights(c(1, 5, 3, 3, 9, 8)), eps = 0.5)$height,
                   c(1, 5, 5.5, 6, 9, 9.5))
})

test_that("the default eps stays below the next greater height", {
  tree <- make_monotone(with_heights(c(1, 5, 3, 2, 3, 4, 5.001, 9)))
  expect_false(is.unsorted(tree$height, strictly = TRUE))
  expect_identical(tree$height[c(1, 2, 7, 8)], c(1, 5, 5.001, 9))
})

test_that("halfway raises to the middle of the highest before and the next greater height", {
  expect_identical(make_monotone(with_heights(c(1, 5, 3, 3, 9, 10)), "halfway")$height,
                   c(1, 5, 7, 8, 9, 10))
  expect_identical(make_monotone(with_heights(c(5, 3, 4, 9, 1, 11)), "halfway")$height,
                   c(5, 7, 8, 9, 10, 11))
})

test_that("halfway falls back to eps where nothing greater follows", {
  expect_identical(make_monotone(with_heights(c(1, 5, 3, 2)), "halfway", eps = 0.25)$height,
                   c(1, 5, 5.25, 5.5))
})

test_that("equal and increasing heights stay as they are", {
  tree <- with_heights(c(0, 0, 1, 1, 2))
  expect_identical(make_monotone(tree), tree)
  expect_identical(make_monotone(tree, "halfway"), tree)
})

test_that("trees with inversions become monotone and change nothing else", {
  for (method in c("eps", "halfway")) {
    tree <- inverted_tree()
    monotone <- make_monotone(tree, method)
    expect_true(is.unsorted(tree$height))
    expect_false(is.unsorted(monotone$height))
    expect_identical(monotone$height[tree$height == cummax(tree$height)],
                     tree$height[tree$height == cummax(tree$height)])
    tree$height <- monotone$height <- NULL
    expect_identical(monotone, tree)
  }
})

test_that("arguments that are no tree, method or eps are refused", {
  tree <- inverted_tree()
  expect_error(make_monotone(1:3), "`tree` is", class = "gmhclust_error_input")
  tree$height[3] <- NA
  expect_error(make_monotone(tree), "`tree` is not a valid tree", class = "gmhclust_error_input")
  tree <- inverted_tree()
  expect_error(make_monotone(tree, "up"), "\"eps\", \"halfway\"", class = "gmhclust_error_input")
  for (eps in list(0, -1, NA, "a", 1:2, Inf)) {
    expect_error(make_monotone(tree, eps = eps), "`eps` is", class = "gmhclust_error_input")
  }
})

test_that("a tree with raised heights has no inversions left in its settings", {
  tree <- gmhclust(as.matrix(iris[1:4]), 50, warn = FALSE)
  expect_gt(tree$settings$inversions, 0)
  for (raised in list(make_monotone(tree), make_monotone(tree, "halfway"), fixNonMonotHca(tree))) {
    expect_identical(raised$settings$inversions, sum(diff(raised$height) < 0))
  }
  expect_null(make_monotone(inverted_tree())$settings)
})
