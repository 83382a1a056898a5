x <- blobs(24, 2)
labels <- rep(c(10L, 2L, 0L), c(9, 12, 3))
as_given <- c("merge", "height", "order", "n.height.apriori")

test_that("integer, numeric, factor and character labels mean the same clusters", {
  tree <- gmhclust(x, 6, labels)
  expect_identical(tree$n.height.apriori, 19L)
  expect_identical(unclass(gmhclust(x, 6, labels + 0))[as_given], unclass(tree)[as_given])
  by_level <- factor(labels, levels = c(2, 10, 0))
  expect_identical(unclass(gmhclust(x, 6, by_level))[as_given], unclass(tree)[as_given])
  named <- c("b", "a", NA)[match(labels, c(10, 2, 0))]
  expect_identical(unclass(gmhclust(x, 6, named))[as_given], unclass(tree)[as_given])
})

test_that("g.labels are labels, of the type given", {
  counts <- c(11L, 8L)
  inner <- gmhclust(x, 6, labels)$g.labels
  expect_type(inner, "integer")
  expect_identical(as.vector(table(inner)), counts)
  by_level <- gmhclust(x, 6, factor(labels, levels = c(10, 2, 0)))$g.labels
  expect_s3_class(by_level, "factor")
  expect_identical(as.vector(table(by_level)), c(8L, 11L, 0L))
  expect_type(gmhclust(x, 6, as.character(labels))$g.labels, "character")
})

test_that("apriori is returned as given", {
  for (given in list(labels, labels + 0, factor(labels), as.character(labels))) {
    expect_identical(gmhclust(x, 6, given)$apriori, given)
  }
})

test_that("labels come in increasing order: numbers, levels, strings in the C locale", {
  ordered_labels <- function(apriori) {
    apriori_clusters(apriori, length(apriori), "apriori", NULL)$labels
  }
  expect_identical(ordered_labels(c(10, 10, 9, 9, -1, -1)), c(-1, 9, 10))
  expect_identical(ordered_labels(c("10", "10", "9", "9", "b", "b", "B", "B")),
                   c("10", "9", "B", "b"))
  levels <- c("z", "a", "m")
  expect_identical(ordered_labels(factor(rep(c("a", "z"), 2), levels = levels)),
                   factor(c("z", "a"), levels = levels))
})

test_that("0 and NA mean none, in every type", {
  expected <- c(1L, 1L, 0L, 0L)
  for (apriori in list(
    c(5L, 5L, 0L, NA), c(5, 5, 0, NaN), c("a", "a", "0", NA), factor(c("a", "a", "0", NA)),
    addNA(factor(c("a", "a", "0", NA)))
  )) {
    expect_identical(apriori_clusters(apriori, 4, "apriori", NULL)$codes, expected)
  }
})

test_that("labels with one member count as none", {
  alone <- labels
  alone[24] <- 99L
  tree <- gmhclust(x, 6, alone)
  expect_same_tree(tree, gmhclust(x, 6, labels))
  expect_identical(tree$g.labels, gmhclust(x, 6, labels)$g.labels)
})

test_that("labels that amount to no clusters are as if they were not given", {
  plain <- gmhclust(x, 6)
  for (apriori in list(NULL, 1:24, rep(1, 24), rep(0, 24), rep(NA, 24), factor(rep("a", 24)))) {
    tree <- gmhclust(x, 6, apriori)
    expect_same_tree(tree, plain)
    expect_null(tree$apriori)
    expect_null(tree$n.height.apriori)
    expect_null(tree$g.labels)
  }
})

test_that("one label with loose observations beside it is an apriori cluster", {
  tree <- gmhclust(x, 6, rep(1:0, c(23, 1)))
  expect_identical(tree$n.height.apriori, 22L)
  expect_true(24 %in% -tree$merge[23, ])
})

test_that("merges within apriori clusters stay within them and keep their order", {
  tree <- gmhclust(x, 6, labels)
  alone <- gmhclust(x[labels == 2, ], threshold = 6)
  expect_equal(tree$height[1:19][tree$g.labels == 2], alone$height)
  members <- cutree(tree, k = 24 - 19)
  expect_identical(nrow(unique(data.frame(labels, members))), 5L)
})

test_that("apriori_intra = FALSE joins in index order at height 0", {
  tree <- gmhclust(x, 6, labels, apriori_intra = FALSE)
  expect_identical(tree$height[1:19], numeric(19))
  expect_identical(tree$g.labels, rep(c(2L, 10L), c(11, 8)))
  expect_identical(tree$merge[1:3, ], rbind(c(-10L, -11L), c(-12L, 1L), c(-13L, 2L)))
})

test_that("a number of apriori clusters stands for those of gkmeans()", {
  cells <- some_cells(500)
  for (scale in c(FALSE, TRUE)) {
    set.seed(2)
    tree <- gmhclust(cells, 50, 20, scale = scale)
    set.seed(2)
    fit <- suppressWarnings(gkmeans(if (scale) standardise(cells) else cells, 20, iter.max = 10))
    expect_identical(tree$apriori, unname(fit$cluster))
    expect_same_tree(tree, gmhclust(cells, 50, fit$cluster, scale = scale))
  }
  expect_null(gmhclust(cells, 50, 1)$apriori)
  for (k in list(0, 501, 1.5, -1L)) {
    expect_refused(gmhclust(cells, 50, k), "a whole number of at least 1 and at most 500")
  }
  expect_refused(gmhclust(cells[rep(1:3, 4), ], 5, 4), "`x` has 3 distinct rows")
})

test_that("labels are coded by a table as match() codes them", {
  set.seed(3)
  kinds <- list(
    few = sample(0:9, 500, TRUE), gaps = sample(c(3L, 20L, 16384L), 500, TRUE),
    large = sample(c(3L, 16385L, 2000000000L), 500, TRUE), negative = sample(-3:3, 500, TRUE),
    missing = sample(c(NA, 1:4), 500, TRUE), double = as.double(sample(0:9, 500, TRUE)),
    none = integer(50), all_missing = rep(NA_integer_, 5), empty = integer(0),
    text = sample(letters, 500, TRUE), named = c(a = 2L, b = 1L, c = 2L)
  )
  for (kind in names(kinds)) {
    labels <- label_values(kinds[[kind]])
    codes <- match(kinds[[kind]], labels, nomatch = 0L)
    expect_identical(label_codes(kinds[[kind]]), list(labels = labels, codes = codes), label = kind)
    some <- labels[seq_len(length(labels) %/% 2)]
    expect_identical(codes_of(kinds[[kind]], some), match(kinds[[kind]], some, nomatch = 0L),
                     label = kind)
  }
  expect_silent(ordered_groups(integer(0)))
})

test_that("apriori clusters in another order are refused if their names show it", {
  u <- as.matrix(USArrests)
  groups <- setNames(rep(1:2, each = 25), rownames(u))
  wrong <- "`apriori` has `x`'s observations in another order; row 1 is \"Wyoming\""
  expect_error(gmhclust(u, apriori = groups[50:1], warn = FALSE), wrong, fixed = TRUE,
               class = "gmhclust_error_input")
  set.seed(1)
  fit <- kmeans(u[50:1, ], 2)
  expect_error(gmhclust(u, apriori = fit, warn = FALSE), wrong, fixed = TRUE,
               class = "gmhclust_error_input")
  expect_identical(gmhclust(u, apriori = groups, warn = FALSE)$merge,
                   gmhclust(u, apriori = unname(groups), warn = FALSE)$merge)
})
