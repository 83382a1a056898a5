test_that("the top has the clusters of gcutree() as leaves, and its last merges", {
  for (h in some_trees()) {
    n <- length(h$order)
    for (k in unique(pmin(c(2, 3, 7, n), n))) {
      top <- cutree_top(h, k)
      expect_s3_class(top, "hclust", exact = TRUE)
      expect_true(check_hclust(top))
      expect_identical(top$leaf, gcutree(h, k))
      expect_identical(top$members, tabulate(top$leaf, k))
      expect_identical(top$height, h$height[seq(n - k + 1, n - 1)])
      expect_identical(top$labels, as.character(seq_len(k)))
      if (!is.null(h$settings)) {
        expect_identical(top$settings$inversions, sum(top$height < cummax(top$height)))
      }
      for (fewer in seq_len(k)) {
        expect_identical(unname(gcutree(top, fewer)[top$leaf]), unname(gcutree(h, fewer)))
      }
    }
  }
})

test_that("the top of a top refers to the observations of the whole tree", {
  x <- blobs(100, 3)
  rownames(x) <- paste0("cell", 1:100)
  h <- gmhclust(x, 10, rep(1:20, 5))
  for (top in list(cutree_top(h, 15), cutree_apriori(h))) {
    again <- cutree_top(top, 6)
    expect_identical(again$leaf, cutree_top(h, 6)$leaf)
    expect_identical(again$members, cutree_top(h, 6)$members)
    expect_named(again$leaf, rownames(x))
  }
})

test_that("settings and the call of the tree are kept", {
  h <- gmhclust(blobs(50, 3), 10)
  top <- cutree_top(h, 5)
  for (name in c("settings", "call", "method", "dist.method")) {
    expect_identical(top[[name]], h[[name]])
  }
  expect_null(cutree_top(hclust(dist(USArrests)), 5)$settings)
})

test_that("numbers of leaves that cannot be are refused", {
  h <- hclust(dist(USArrests))
  for (bad in list(1, 51, 2.5, NA, "3", 2:3)) {
    expect_refused(cutree_top(h, bad), "it must be one whole number from 2 to 50",
                   by = "cutree_top")
  }
  expect_refused(cutree_top(USArrests, 2), "`tree` is an object of class", by = "cutree_top")
})
