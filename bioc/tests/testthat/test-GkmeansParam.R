library(bluster)

test_that("clusters are those of gkmeans()", {
  x <- some_cells(500)
  set.seed(1)
  fit <- gkmeans(x, 5, iter.max = 100, nstart = 2)
  set.seed(1)
  result <- clusterRows(x, GkmeansParam(5, iter.max = 100, nstart = 2), full = TRUE)
  expect_identical(result$objects$kmeans, fit)
  expect_identical(result$clusters, factor(fit$cluster))
})

test_that("random starts give the clusters of KmeansParam()", {
  x <- some_cells(500)
  set.seed(1)
  ours <- clusterRows(x, GkmeansParam(5, iter.max = 100, init = "random"))
  set.seed(1)
  theirs <- clusterRows(x, KmeansParam(5, iter.max = 100, algorithm = "Lloyd"))
  expect_identical(ours, theirs)
})

test_that("the number may depend on the number of rows", {
  x <- some_cells(100)
  param <- GkmeansParam(sqrt, iter.max = 100)
  expect_identical(nlevels(clusterRows(x, param)), 10L)
})

test_that("it is a first step for other clusterings", {
  x <- some_cells(500)
  set.seed(1)
  steps <- TwoStepParam(
    first = GkmeansParam(50, iter.max = 100),
    second = GmhclustParam(20, k = 3, cut = "tree", warn = FALSE)
  )
  clusters <- clusterRows(x, steps)
  expect_length(clusters, 500)
  expect_identical(nlevels(clusters), 3L)
})

test_that("wrong settings are named", {
  expect_error(GkmeansParam(0), "`centers` is 0; it must be one whole number", fixed = TRUE)
  expect_error(GkmeansParam(matrix(0, 2, 2)), "`centers` is", fixed = TRUE)
  expect_error(GkmeansParam(2, iter.max = 0), "`iter.max` is 0; it must", fixed = TRUE)
  expect_error(GkmeansParam(2, init = "best"), "`init` is best; it must", fixed = TRUE)
  expect_error(GkmeansParam(2, algorithm = "Lloyd"), "`...` has \"algorithm\"", fixed = TRUE)
  expect_output(show(GkmeansParam(7)), "centers: 7.*iter.max: 300.*init: kmeans\\+\\+")
})
