shown <- function(tree) paste(capture.output(print(tree$settings)), collapse = "\n")

test_that("settings print what was done", {
  text <- shown(gmhclust(some_cells(1200), 0.1, rep(1:40, 30), distance = "centroid", scale = TRUE))
  for (line in c(
    "Observations    : 1,200, 14 columns", "Distance        : Mahalanobis, between centroids",
    "Threshold       : 120 members, below \"mahal\"",
    "Normalised      : until all clusters are full-size",
    "Scaled          : columns to standard deviation 1", "Apriori clusters: 40",
    "Inversions      : "
  )) expect_match(text, line, fixed = TRUE)
  expect_match(shown(gmhclust(blobs(20, 2), 5, normalize = TRUE)), "Normalised  : always")
})

test_that("settings of ghclust() print what applies to them", {
  expect_identical(shown(ghclust(dist(USArrests), "average")), "Observations: 50")
  expect_match(shown(ghclust(USArrests, "centroid")), "Observations: 50, 4 columns\nInversions")
})

test_that("the top of a tree keeps the settings of the tree", {
  h <- gmhclust(blobs(90, 3), 10, rep(1:9, 10))
  for (top in list(cutree_top(h, 9), cutree_apriori(h))) {
    expect_match(shown(top), "Observations    : 90, 3 columns")
  }
  expect_output(expect_identical(print(h$settings), h$settings))
})

test_that("counts have all digits, and thresholds of hundreds of digits have an exponent", {
  expect_identical(shown_count(c(1e5, 123456, 0)), c("100,000", "123,456", "0"))
  expect_identical(shown_count(c(2^53, 2.5e6)), c("9,007,199,254,740,992", "2,500,000"))
  expect_identical(shown_count(2.5), "2.5")
  x <- as.matrix(iris[1:4])
  expect_message(
    tree <- gmhclust(x, 1e-300), "merges to clusters of at least 1.5e-298 members, so",
    class = "gmhclust_message_singular", fixed = TRUE
  )
  expect_match(shown(tree), "Threshold   : 1.5e-298 members", fixed = TRUE)
  expect_match(shown(gmhclust(x, 1e300)), "Threshold   : 1e+300 members", fixed = TRUE)
})
