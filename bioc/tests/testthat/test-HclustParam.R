test_that("ghclust() takes the place of hclust() in HclustParam()", {
  skip_if(!"clust.fun" %in% names(formals(bluster::HclustParam)),
          "this bluster has no HclustParam(clust.fun =)")
  x <- some_cells(300)
  theirs <- bluster::HclustParam(method = "ward.D2", cut.params = list(k = 5))
  expected <- bluster::clusterRows(x, theirs, full = TRUE)
  for (distances in list(identity, gdist)) {
    ours <- bluster::HclustParam(clust.fun = ghclust, dist.fun = distances, method = "ward.D2",
                                 cut.params = list(k = 5))
    result <- bluster::clusterRows(x, ours, full = TRUE)
    expect_identical(result$clusters, expected$clusters)
    expect_equal(result$objects$hclust$height, expected$objects$hclust$height)
  }
  faster <- bluster::HclustParam(clust.fun = ghclust, dist.fun = identity, method = "ward.D2",
                                 cut.fun = gcutree, cut.params = list(k = 5))
  expect_identical(bluster::clusterRows(x, faster), expected$clusters)
})
