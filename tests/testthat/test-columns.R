# Columns that would spoil a clustering without a word.

# Two parallel ellipses, of which no metric for all clusters finds both.
set.seed(3)
n <- 400
ellipses <- cbind(
  c(rnorm(n, 0, 10), rnorm(n, 0, 10)), c(rnorm(n, 0, 0.5), rnorm(n, 4, 0.5))
)
colnames(ellipses) <- c("long", "short")
truth <- rep(1:2, each = n)

# The adjusted Rand index (Hubert and Arabie 1985).
rand_index <- function(a, b) {
  pairs <- function(counts) sum(counts * (counts - 1) / 2)
  both <- table(a, b)
  expected <- pairs(rowSums(both)) * pairs(colSums(both)) / pairs(length(a))
  (pairs(both) - expected) / ((pairs(rowSums(both)) + pairs(colSums(both))) / 2 - expected)
}

found_in <- function(x, ...) {
  tree <- suppressMessages(gmhclust(x, threshold = 30, ...))
  rand_index(gcutree(tree, k = 2), truth)
}

as_single <- function(x) {
  bytes <- writeBin(as.vector(x), raw(), size = 4)
  array(readBin(bytes, "double", length(x), size = 4), dim(x))
}

redundant <- list(
  constant = cbind(ellipses, same = 5), first = cbind(same = 0, ellipses),
  copy = cbind(ellipses, copy = ellipses[, 1]),
  sum = cbind(ellipses, sum = ellipses[, 1] + ellipses[, 2]),
  single = as_single(cbind(ellipses, ellipses[, 1] + ellipses[, 2])),
  negative = cbind(ellipses, -ellipses[, 1]),
  difference = cbind(ellipses, ellipses[, 1] - ellipses[, 2]),
  scaled = cbind(ellipses, copy = 1e-9 * ellipses[, 2]),
  shifted = cbind(ellipses, copy = 1e6 - 3 * ellipses[, 2]),
  "one value" = cbind(ellipses, flag = c(7, rep(0, 2 * n - 1))),
  "one value in the middle" = cbind(ellipses, flag = c(rep(0, n), 7, rep(0, n - 1))),
  "sum with an error" = cbind(ellipses, sum = replace(ellipses[, 1] + ellipses[, 2], 17, 99)),
  "two constants" = cbind(1, ellipses, 2)
)

test_that("a redundant column changes nothing: it is left out, with a message that names it", {
  plain <- gmhclust(ellipses, 30)
  expect_gt(found_in(ellipses), 0.9)
  expect_null(plain$settings$left_out)
  for (name in names(redundant)) {
    x <- redundant[[name]]
    expect_message(tree <- gmhclust(x, 30), class = "gmhclust_message_redundant")
    expect_gt(found_in(x), 0.9, label = name)
    expect_gt(found_in(x, scale = TRUE), 0.9, label = paste(name, "scaled"))
    expect_length(tree$settings$left_out, ncol(x) - 2L)
    expect_identical(tree$settings$columns, 2L)
    # With it, every metric is Euclidean.
    expect_lt(found_in(x, redundant = "keep"), 0.5, label = name)
  }
  expect_same_tree(suppressMessages(gmhclust(redundant$sum, 30)), plain)
  expect_message(gmhclust(redundant$sum, 30), "\"sum\" (depends on other columns)", fixed = TRUE)
  expect_message(gmhclust(redundant$constant, 30), "column \"same\" (constant) was left out",
                 fixed = TRUE)
})

test_that("of rows that sum to 1, a column is left out", {
  shares <- cbind(exp(ellipses / 10), 1)
  shares <- shares / rowSums(shares)
  expect_identical(redundant_columns(shares), list(columns = 3L, constant = FALSE))
})

test_that("columns that only look redundant in places stay", {
  set.seed(1)
  kept <- list(
    ellipses,
    # A marker of a population of 5%, and of one of 2 p cells.
    cbind(ellipses, ifelse(truth == 1 & runif(2 * n) < 0.1, 1, 0)),
    cbind(ellipses, c(rnorm(6), rep(0, 2 * n - 6))),
    # Far values, also in one row of two columns.
    replace(ellipses, 5, 1e10), replace(ellipses, c(5, 2 * n + 5), 1e12),
    # Nearly a copy.
    cbind(ellipses, ellipses[, 1] + rnorm(2 * n, 0, 0.01)),
    1e150 * ellipses, 1e9 + ellipses, as.matrix(iris[1:4]), some_cells(1000),
    # Too few rows for any covariance, and all rows equal.
    matrix(rnorm(20), 4), matrix(1, 30, 3), cbind(ellipses[1:3, ], 1)
  )
  for (x in kept) expect_identical(redundant_columns(x)$columns, integer(0))
  expect_no_message(gmhclust(ellipses, 30, warn = FALSE))
})

test_that("mhclust() keeps redundant columns as mhca does, and tells", {
  expect_message(tree <- mhclust(redundant$sum, 30, warn = FALSE),
                 class = "gmhclust_message_redundant")
  expect_same_tree(tree, gmhclust(redundant$sum, 30, redundant = "keep", warn = FALSE))
})

test_that("apriori clusters and workers get the columns that are left", {
  groups <- rep(1:8, each = 100)
  expect_same_tree(suppressMessages(gmhclust(redundant$sum, 30, groups)),
                   gmhclust(ellipses, 30, groups))
  set.seed(1)
  first <- suppressMessages(gmhclust(redundant$constant, 30, 20))
  set.seed(1)
  expect_same_tree(first, gmhclust(ellipses, 30, 20))
})

test_that("the merges without an inverse of a covariance are counted and told of", {
  settings <- gmhclust(ellipses, 30)$settings
  expect_identical(settings$singular, 0L)
  expect_gt(settings$full_size, 0L)
  # Most values of a column are equal.
  x <- cbind(ellipses, ifelse(runif(2 * n) < 0.06, 1, 0))
  expect_message(tree <- gmhclust(x, 30), class = "gmhclust_message_singular")
  sizes <- lengths(leaves_of_merges(tree))
  expect_identical(tree$settings$full_size, sum(sizes >= 30))
  singular <- vapply(leaves_of_merges(tree)[sizes >= 30], function(leaves) {
    stats::var(x[leaves, 3]) == 0
  }, NA)
  expect_identical(tree$settings$singular, sum(singular))
  expect_output(print(tree$settings), "Singular")
  expect_no_message(gmhclust(x, 30, warn = FALSE))
})

test_that("cells outside of populations are given away by Mahalanobis distance all the same", {
  h <- gmhclust(ellipses, 30)
  nearest <- function(x) cut_populations(h, 2, rest = "nearest", x = x)
  expected <- nearest(ellipses)
  for (x in redundant) {
    found <- nearest(x)
    expect_identical(as.integer(found), as.integer(expected))
    expect_equal(attr(found, "separation"), attr(expected, "separation"), tolerance = 1e-6)
  }
})

test_that("results do not depend on an offset", {
  whole <- round(ellipses * 1e6)
  for (scale in c(FALSE, TRUE)) {
    for (offset in c(2^30, 2^40, 2^51, -2^51)) {
      tree <- gmhclust(whole, 30, scale = scale, warn = FALSE)
      moved <- gmhclust(whole + offset, 30, scale = scale, warn = FALSE)
      expect_identical(moved$merge, tree$merge)
      expect_equal(moved$height, tree$height, tolerance = 1e-9)
    }
  }
  # The shift is exact.
  expect_identical(diff(shift_to_zero(whole + 2^51)), diff(whole))
  expect_identical(shift_to_zero(whole), whole)
  expect_identical(shift_to_zero(cbind(5, 2^40)[c(1, 1), ]), matrix(0, 2, 2))
})

test_that("values whose differences overflow are refused, with advice", {
  # In rows of the sample, and in others.
  for (rows in list(c(1, 3), c(2, nrow(ellipses)))) {
    far <- cbind(ellipses[, 1:2], far = cos(seq_len(nrow(ellipses))^2))
    far[rows, "far"] <- c(1.5e308, -1.5e308)
    too_far <- "`x` has values of magnitude 1.5e308"
    expect_refused(gmhclust(far, 30), too_far)
    expect_refused(mhclust(far, 30), too_far, "mhclust")
    tree <- gmhclust(ellipses, 30)
    squares <- "`x` has values whose squares are too large"
    expect_refused(cut_populations(tree, x = far), squares, "cut_populations")
    nearest <- quote(cut_populations(tree, x = far, rest = "nearest"))
    expect_refused(eval(nearest), squares, "cut_populations")
  }
})

test_that("values whose powers underflow are refused, with advice", {
  for (factor in c(1e-165, 1e-160, 1e-125)) {
    expect_refused(gmhclust(ellipses * factor, 30), "squares of such differences underflow")
  }
  one <- cbind(ellipses, tiny = ellipses[, 1]^2 * 1e-130)
  expect_refused(gmhclust(one, 30), "`x` has values in column \"tiny\"")
  expect_refused(mhclust(ellipses * 1e-130, 30), "`x` has values in column \"long\"", "mhclust")
  tiny <- ellipses[1:40, ] * 1e-160
  expect_refused(ghclust(tiny, "average"), "squares of such differences underflow", "ghclust")
  expect_refused(gknn(tiny, 2), "squares of such differences underflow", "gknn")
  expect_refused(gneighbours(tiny, 1), "squares of such differences underflow", "gneighbours")
  expect_refused(gmst(tiny), "squares of such differences underflow", "gmst")
  expect_identical(as.vector(gdist(tiny)), as.vector(dist(tiny)))
  expect_identical(gknn(cbind(tiny, 1:40), 2)$index, gknn(cbind(0, 1:40), 2)$index)
  expect_identical(gknn(tiny, 2, metric = "maximum")$index,
                   gknn(ellipses[1:40, ], 2, metric = "maximum")$index)
  expect_identical(gknn(matrix(0, 5, 2), 1)$distance, matrix(0, 5, 1))
  plain <- gmhclust(ellipses, 30)
  for (exponent in c(-100, -390)) {
    expect_identical(gmhclust(ellipses * 2^exponent, 30)$merge, plain$merge)
  }
  scaled <- gmhclust(ellipses * 2^-600, 30, scale = TRUE)
  expect_identical(scaled$height, gmhclust(ellipses, 30, scale = TRUE)$height)
})
