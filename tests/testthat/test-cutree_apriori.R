x <- blobs(24, 2)
labels <- rep(c(10L, 0L, 2L), c(9, 3, 12))

test_that("leaves are the apriori clusters by label, then the loose observations", {
  tree <- quiet_gmhclust(x, 6, labels)
  top <- cutree_apriori(tree)
  expect_s3_class(top, "hclust", exact = TRUE)
  expect_true(check_hclust(top))
  expect_identical(top$labels, c("2", "10", "obs 10", "obs 11", "obs 12"))
  expect_identical(top$members, c(12L, 9L, 1L, 1L, 1L))
  expect_identical(top$height, tree$height[-(1:19)])
  expect_identical(top$method, tree$method)
  expect_identical(top$call, tree$call)
  expect_null(top$n.height.apriori)
})

test_that("row names label the loose observations, levels order the clusters", {
  rownames(x) <- letters[1:24]
  apriori <- factor(c("big", "none", "small")[match(labels, c(10, 0, 2))],
                    levels = c("big", "small"))
  top <- cutree_apriori(quiet_gmhclust(x, 6, apriori))
  expect_identical(top$labels, c("big", "small", "j", "k", "l"))
})

test_that("no loose observation, or a single cluster with loose ones, is fine", {
  top <- cutree_apriori(quiet_gmhclust(x, 6, rep(1:2, 12)))
  expect_identical(top$labels, c("1", "2"))
  expect_identical(top$merge, rbind(c(-1L, -2L)))
  top <- cutree_apriori(quiet_gmhclust(x, 6, rep(1:0, c(22, 2))))
  expect_identical(top$members, c(22L, 1L, 1L))
})

test_that("cutting the top part is cutting the whole tree", {
  set.seed(2)
  apriori <- sample(0:5, 24, replace = TRUE)
  tree <- quiet_gmhclust(x, 6, apriori)
  top <- cutree_apriori(tree)
  leaf_of <- match(as.character(apriori), top$labels)
  leaf_of[is.na(leaf_of)] <- match(paste("obs", which(is.na(leaf_of))), top$labels)
  for (k in 2:5) {
    whole <- cutree(tree, k = k)
    upper <- cutree(top, k = k)[leaf_of]
    expect_length(unique(paste(whole, upper)), k)
  }
})

test_that("the top part of a worked case is a sound tree", {
  case <- read_fixture("apriori-mahal-cmd")
  tree <- quiet_gmhclust(case$x, case$threshold, case$apriori, quick = TRUE)
  top <- cutree_apriori(tree)
  expect_true(check_hclust(top))
  expect_identical(sum(top$members), nrow(case$x))
  grDevices::pdf(NULL)
  expect_no_error(plot(top))
  grDevices::dev.off()
})

test_that("a tree without apriori part is refused", {
  error <- expect_error(cutree_apriori(quiet_gmhclust(x)), class = "gmhclust_error_input")
  expect_match(conditionMessage(error), "`h` has no part within apriori clusters", fixed = TRUE)
  expect_error(cutree_apriori(1), class = "gmhclust_error_input")
  tree <- quiet_gmhclust(x, 6, labels)
  tree$g.labels <- tree$g.labels[-1]
  expect_error(cutree_apriori(tree), "do not fit", class = "gmhclust_error_input")
})
