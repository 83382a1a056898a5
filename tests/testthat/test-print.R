shown <- function(tree) paste(capture.output(print(tree)), collapse = "\n")

test_that("print() shows what was done", {
  text <- shown(gmhclust(some_cells(1200), 0.1, rep(1:40, 30), quick = TRUE, scale = TRUE))
  for (line in c(
    "Call:\ngmhclust(X = some_cells(1200)", "Cluster method   : mahalanobis-average",
    "Distance         : Mahalanobis, between centroids", "Number of objects: 1,200, 14 columns",
    "Threshold        : 120 members, below \"mahal\"",
    "Normalised       : until all clusters are full-size",
    "Scaled           : columns to standard deviation 1", "Apriori clusters : 40",
    "Inversions       : ", " s, backend \"cpu\""
  )) expect_match(text, line, fixed = TRUE)
  expect_match(shown(gmhclust(blobs(20, 2), 5, normalize = TRUE)), "Normalised       : always")
})

test_that("print() of a top counts its leaves and their members", {
  h <- gmhclust(blobs(90, 3), 10, rep(1:9, 10))
  for (top in list(cutree_top(h, 9), cutree_apriori(h))) {
    expect_match(shown(top), "Number of objects: 9 clusters of 90 observations, 3 columns")
  }
  expect_output(expect_identical(print(top), top))
})
