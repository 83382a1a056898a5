valid <- hclust(dist(USArrests[1:8, ]))

expect_problem <- function(tree, message) {
  found <- check_hclust(tree)
  expect_type(found, "character")
  expect_true(any(grepl(message, found, fixed = TRUE)), info = paste(found, collapse = "\n"))
}

changed <- function(component, value) {
  valid[component] <- list(value)
  valid
}

test_that("trees of other packages and with inversions are valid", {
  for (method in c("single", "complete", "average", "ward.D2", "centroid", "median")) {
    expect_true(check_hclust(hclust(dist(USArrests), method)))
  }
  expect_true(check_hclust(as.hclust(as.dendrogram(valid))))
  expect_true(check_hclust(hclust(dist(1:2))))
})

test_that("mirrored trees are valid", {
  expect_true(check_hclust(changed("order", rev(valid$order))))
})

test_that("an object of another class is reported", {
  expect_problem(1:3, "not an object of class \"hclust\" but a numeric vector of length 3")
  expect_problem(NULL, "but NULL")
  expect_problem(unclass(valid), "but a list")
  expect_problem(as.dendrogram(valid), "but an object of class \"dendrogram\"")
})

test_that("an invalid merge is reported", {
  expect_problem(changed("merge", NULL), "`merge` is not a numeric matrix")
  expect_problem(changed("merge", valid$merge[, 1]), "`merge` is not a numeric matrix")
  expect_problem(changed("merge", valid$merge[0, ]), "at least 1 row")
  expect_problem(changed("merge", valid$merge + 0.5), "not whole numbers")
  expect_problem(changed("merge", replace(valid$merge, 1, NA)), "not whole numbers")
  twice <- replace(valid$merge, 1, valid$merge[2, 1])
  expect_problem(changed("merge", twice), "more than once")
  expect_problem(changed("merge", twice), "leaves clusters out")
  expect_problem(changed("merge", replace(valid$merge, 1, -99)), "do not exist: -99")
  expect_problem(changed("merge", replace(valid$merge, 1, 0)), "do not exist: 0")
  expect_problem(changed("merge", valid$merge[7:1, ]), "not there yet, in rows")
})

test_that("invalid heights are reported", {
  expect_problem(changed("height", NULL), "`height` is not numeric")
  expect_problem(changed("height", valid$height[-1]), "`height` has length 6, not 7")
  expect_problem(changed("height", replace(valid$height, c(2, 5), c(NA, Inf))),
                 "`height` is not finite at 2, 5")
})

test_that("an invalid order is reported", {
  expect_problem(changed("order", NULL), "`order` is not a permutation of 1 to 8")
  expect_problem(changed("order", c(1, 1:7)), "`order` is not a permutation")
  expect_problem(changed("order", 1:8), "`order` makes branches cross at merges")
})

test_that("labels of a wrong length are reported", {
  expect_problem(changed("labels", letters), "`labels` has length 26, not 8")
  expect_true(check_hclust(changed("labels", NULL)))
})

test_that("all problems are reported at once", {
  broken <- valid
  broken$height[1] <- NaN
  broken$labels <- "a"
  expect_length(check_hclust(broken), 2)
})

test_that("all problems are told together, by columns, for integers and doubles", {
  tree <- hclust(dist(c(1, 2, 4, 8, 16)))
  tree$merge <- rbind(c(-1L, 99L), c(98L, 1L), c(-1L, 2L), c(0L, 3L))
  expected <- c(
    "`merge` names clusters that do not exist: 98, 0, 99",
    "`merge` names clusters more than once: -1",
    "`merge` leaves clusters out: -5, -4, -3, -2",
    "`merge` refers to clusters that are not there yet, in rows 1, 2"
  )
  expect_identical(check_hclust(tree), expected)
  tree$merge <- tree$merge + 0
  expect_identical(check_hclust(tree), expected)
  tree$merge[1, 2] <- 1e10
  expect_identical(check_hclust(tree), c(sub("99", "1e+10", expected[1], fixed = TRUE),
                                         expected[-1]))
})

test_that("a class of `order` and an empty `leaf` do not matter", {
  tree <- hclust(dist(c(1, 2, 4, 8, 16)))
  tree$leaf <- integer(0)
  tree$order <- structure(tree$order, class = "mine")
  expect_identical(check_hclust(tree), TRUE)
  tree$order <- structure(tree$order + 0, class = "mine")
  expect_identical(check_hclust(tree), TRUE)
  tree$order <- factor(1:5)
  expect_identical(check_hclust(tree), "`order` is not a permutation of 1 to 5")
  tree$order <- c(1, 2, 3, 4, 1e10)
  expect_identical(check_hclust(tree), "`order` is not a permutation of 1 to 5")
})

test_that("members are a vector of numbers that can be counted", {
  tree <- hclust(dist(c(1, 2, 4, 8)))
  tree$members <- matrix(1:4, 2)
  expect_match(check_hclust(tree), "`members` are not a vector of positive numbers")
  tree$members <- rep(1e250, 4)
  expect_match(check_hclust(tree), "`members` are more than 9.0072e\\+15 together")
  expect_error(plot_tree(tree, populations = 2), class = "gmhclust_error_input")
  tree$members <- c(1, 2.5, 3, 4)
  expect_true(check_hclust(tree))
})
