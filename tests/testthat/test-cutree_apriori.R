x <- blobs(24, 2)
labels <- rep(c(10L, 0L, 2L), c(9, 3, 12))

test_that("leaves are the apriori clusters by label, then the loose observations", {
  tree <- gmhclust(x, 6, labels)
  top <- cutree_apriori(tree)
  expect_s3_class(top, "hclust", exact = TRUE)
  expect_true(check_hclust(top))
  expect_identical(top$labels, c("2", "10", "obs 10", "obs 11", "obs 12"))
  expect_identical(top$members, c(12L, 9L, 1L, 1L, 1L))
  expect_identical(top$leaf, rep(c(2L, 3L, 4L, 5L, 1L), c(9, 1, 1, 1, 12)))
  expect_identical(top$height, tree$height[-(1:19)])
  expect_identical(top$method, tree$method)
  expect_identical(top$call, tree$call)
  expect_null(top$n.height.apriori)
})

test_that("row names label the loose observations, levels order the clusters", {
  rownames(x) <- letters[1:24]
  apriori <- factor(c("big", "none", "small")[match(labels, c(10, 0, 2))],
                    levels = c("big", "small"))
  top <- cutree_apriori(gmhclust(x, 6, apriori))
  expect_identical(top$labels, c("big", "small", "j", "k", "l"))
})

test_that("no loose observation, or a single cluster with loose ones, is fine", {
  top <- cutree_apriori(gmhclust(x, 6, rep(1:2, 12)))
  expect_identical(top$labels, c("1", "2"))
  expect_identical(top$merge, rbind(c(-1L, -2L)))
  top <- cutree_apriori(gmhclust(x, 6, rep(1:0, c(22, 2))))
  expect_identical(top$members, c(22L, 1L, 1L))
})

# Labels of 40 observations, some with one member, with 0 and NA among them.
mixed_labels <- function(seed) {
  set.seed(seed)
  sample(c(0:12, NA), 40, replace = TRUE, prob = c(1:2, 1:5, rep(0.3, 6), 1))
}

test_that("labels with one member are leaves like others, in the order of the labels", {
  apriori <- c(rep(7L, 5), 3L, rep(10L, 8), 0L, 1L, rep(7L, 3), NA, 12L, 0L, 10L, 10L)
  tree <- gmhclust(x, 6, apriori)
  top <- cutree_apriori(tree)
  expect_true(check_hclust(top))
  expect_identical(top$labels, c("1", "3", "7", "10", "12", "obs 15", "obs 20", "obs 22"))
  expect_identical(top$members, c(1L, 1L, 8L, 10L, 1L, 1L, 1L, 1L))
  expect_identical(top$leaf, rep(c(3:2, 4L, 6L, 1L, 3L, 7L, 5L, 8L, 4L),
                                 c(5, 1, 8, 1, 1, 3, 1, 1, 1, 2)))
})

test_that("leaves come in the order of numbers, of levels in use, and of strings in the C locale", {
  labelled <- function(apriori) cutree_apriori(gmhclust(x, 6, apriori))$labels
  expect_identical(labelled(c(rep(10, 11), rep(9, 11), -1, 100)), c("-1", "9", "10", "100"))
  strings <- c(rep("b", 11), rep("B", 11), "a", "10")
  expect_identical(labelled(strings), c("10", "B", "a", "b"))
  levels <- c("none", "a", "10", "unused", "b", "B", "0")
  expect_identical(labelled(factor(strings, levels)), c("a", "10", "b", "B"))
  expect_identical(labelled(addNA(factor(replace(strings, 1:2, NA), levels))),
                   c("a", "10", "b", "B", "obs 1", "obs 2"))
})

test_that("a row for each label, made by rowsum(), goes with the leaves", {
  apriori <- c(rep(c(30L, 20L, 10L), 7), 25L, 5L, 15L)
  top <- cutree_apriori(gmhclust(x, 6, apriori))
  centres <- rowsum(x, apriori) / as.vector(table(apriori))
  expect_identical(rownames(centres[top$labels, ]), rownames(centres))
  by_leaf <- rowsum(x, top$leaf) / top$members
  expect_equal(unname(centres[top$labels, ]), unname(by_leaf))
})

test_that("cutting the top part is cutting the whole tree, for every number of leaves", {
  x <- blobs(40, 2)
  kinds <- list(identity, as.double, as.character, function(labels) factor(labels, c(12:0, 99)))
  for (seed in 1:5) {
    for (kind in kinds) {
      apriori <- kind(mixed_labels(seed))
      tree <- gmhclust(x, 6, apriori)
      top <- cutree_apriori(tree)
      expect_true(check_hclust(top))
      expect_identical(top$members, tabulate(top$leaf, length(top$labels)))
      alone <- is.na(apriori) | apriori == "0"
      expect_identical(top$labels[top$leaf[!alone]], as.character(apriori[!alone]))
      expect_identical(top$labels[top$leaf[alone]], paste("obs", which(alone)))
      for (k in seq_along(top$labels)) {
        whole <- cutree(tree, k)
        upper <- unname(cutree(top, k)[top$leaf])
        # Equal up to the numbering of clusters.
        expect_identical(match(upper, unique(upper)), whole)
      }
    }
  }
})

test_that("leaf is named as the observations are; mhclust()'s trees have it, too", {
  rownames(x) <- letters[1:24]
  top <- cutree_apriori(gmhclust(x, 6, labels))
  expect_identical(names(top$leaf), letters[1:24])
  theirs <- cutree_apriori(mhclust(x, 6, g = labels, warn = FALSE))
  expect_identical(theirs$leaf, top$leaf)
})

test_that("the top part of a worked case is a valid tree", {
  case <- read_fixture("apriori-mahal-cmd")
  tree <- gmhclust(case$x, case$threshold, case$apriori, distance = "centroid")
  top <- cutree_apriori(tree)
  expect_true(check_hclust(top))
  expect_identical(sum(top$members), nrow(case$x))
  grDevices::pdf(NULL)
  expect_no_error(plot(top))
  grDevices::dev.off()
})

test_that("a tree without apriori part is refused", {
  error <- expect_error(cutree_apriori(gmhclust(x)), class = "gmhclust_error_input")
  expect_match(conditionMessage(error), "`tree` has no part within apriori clusters", fixed = TRUE)
  expect_error(cutree_apriori(1), class = "gmhclust_error_input")
})

test_that("labels that do not fit the tree are refused", {
  expect_refusal <- function(component, value) {
    tree <- gmhclust(x, 6, labels)
    tree[component] <- list(value)
    expect_refused(cutree_apriori(tree), "that do not fit", by = "cutree_apriori")
  }
  tree <- gmhclust(x, 6, labels)
  expect_refusal("g.labels", tree$g.labels[-1])
  expect_refusal("g.labels", rev(tree$g.labels))
  expect_refusal("g.labels", replace(tree$g.labels, 3, 77L))
  expect_refusal("apriori", NULL)
  expect_refusal("apriori", labels[-1])
  expect_refusal("apriori", as.list(labels))
  expect_refusal("apriori", rev(labels))
  expect_refusal("apriori", replace(labels, 10, 2L))
  expect_refusal("apriori", replace(labels, 1, 2L))
  expect_refusal("apriori", replace(labels, 1:9, NA))
})
