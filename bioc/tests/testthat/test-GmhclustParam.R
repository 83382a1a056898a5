library(bluster)

test_that("clusters are those of gmhclust() and cut_populations()", {
  x <- some_cells()
  tree <- gmhclust(x, 50, warn = FALSE)
  populations <- cut_populations(tree, k = 4, min_members = 20)
  param <- GmhclustParam(50, k = 4, min_members = 20, rest = "none", warn = FALSE)
  clusters <- clusterRows(x, param)
  expect_s3_class(clusters, "factor")
  expect_identical(levels(clusters), as.character(1:4))
  expected <- as.integer(populations)
  expect_identical(as.integer(clusters), replace(expected, expected == 0, NA))
  expect_identical(names(clusters), rownames(x))
  expect_true(anyNA(clusters))

  full <- clusterRows(x, param, full = TRUE)
  expect_identical(full$clusters, clusters)
  expect_identical(names(full), c("clusters", "objects"))
  expect_s3_class(full$objects$hclust, "hclust", exact = TRUE)
  expect_identical(full$objects$hclust$merge, tree$merge)
  expect_lt(length(serialize(full$objects$hclust$call, NULL)), 5000)
})

test_that("the default finds two parallel ellipses, as gmhclust() does", {
  set.seed(3)
  n <- 400
  x <- cbind(rnorm(2 * n, 0, 10), c(rnorm(n, 0, 0.5), rnorm(n, 4, 0.5)))
  clusters <- clusterRows(x, GmhclustParam(k = 2, warn = FALSE))
  tree <- gmhclust(x, warn = FALSE)
  expected <- cut_populations(tree, k = 2, rest = "nearest", x = x)
  expect_identical(as.integer(clusters), as.integer(expected))
  found <- table(clusters, rep(1:2, each = n))
  expect_gt(sum(apply(found, 1, max)), 0.97 * 2 * n)
  full <- clusterRows(x, GmhclustParam(k = 2, warn = FALSE), full = TRUE)
  expect_identical(full$objects$hclust$settings$threshold, tree$settings$threshold)
  expect_identical(eval(formals(GmhclustParam)$threshold), eval(formals(gmhclust)$threshold))
})

test_that("without k, populations are those with valleys between them", {
  x <- some_cells()
  param <- GmhclustParam(threshold = 50, rest = "none", warn = FALSE)
  expected <- cut_populations(gmhclust(x, 50, warn = FALSE), x = x)
  expect_gt(attr(expected, "k"), 2)
  numbers <- replace(as.integer(expected), expected == 0, NA)
  expect_identical(as.integer(clusterRows(x, param)), numbers)
})

test_that("by default each row has a cluster, so that a pipeline goes on", {
  x <- some_cells()
  clusters <- clusterRows(x, GmhclustParam(warn = FALSE))
  expect_false(anyNA(clusters))
  expect_gt(nlevels(clusters), 1)
  expect_false(anyNA(approxSilhouette(x, clusters)$width))
  expect_false(anyNA(neighborPurity(x, clusters, BNPARAM = GknnParam())$purity))
  swept <- clusterSweep(x, GmhclustParam(warn = FALSE), threshold = c(30, 50), k = 3L)
  for (each in as.list(swept$clusters)) expect_length(approxSilhouette(x, each)$width, nrow(x))
})

test_that("the rest goes to the nearest population", {
  x <- some_cells()
  tree <- gmhclust(x, 50, warn = FALSE)
  param <- GmhclustParam(50, k = 4, min_members = 20, warn = FALSE)
  expect_identical(
    as.integer(clusterRows(x, param)),
    as.integer(cut_populations(tree, k = 4, min_members = 20, rest = "nearest", x = x))
  )
})

test_that("trees are cut by number or by a function", {
  x <- some_cells(300)
  tree <- gmhclust(x, 20, warn = FALSE)
  clusters <- clusterRows(x, GmhclustParam(20, k = 6, cut = "tree", warn = FALSE))
  expect_identical(clusters, factor(gcutree(tree, 6)))

  first_outlier <- function(h) replace(rep("rest", 300), 1, NA)
  clusters <- clusterRows(x, GmhclustParam(20, cut = first_outlier, warn = FALSE))
  expect_identical(clusters, factor(c(NA, rep("rest", 299))))
  expect_identical(levels(clusterRows(x, GmhclustParam(20, cut = function(h) 0:299, warn = FALSE))),
                   as.character(1:299))
  expect_error(clusterRows(x, GmhclustParam(20, cut = function(h) 1:3, warn = FALSE)),
               "`cut` returned a vector of length 3; it must return the cluster of each of 300",
               fixed = TRUE)
})

test_that("all settings reach gmhclust()", {
  x <- some_cells(300)
  groups <- rep(1:10, 30)
  param <- GmhclustParam(20, k = 2, apriori = groups, subthreshold = "euclid",
                         distance = "centroid", scale = TRUE, normalize = TRUE, warn = FALSE)
  tree <- clusterRows(x, param, full = TRUE)$objects$hclust
  expected <- gmhclust(x, 20, apriori = groups, subthreshold = "euclid", distance = "centroid",
                       scale = TRUE, normalize = TRUE, warn = FALSE)
  parts <- setdiff(names(expected), c("call", "settings"))
  expect_identical(unclass(tree)[parts], unclass(expected)[parts])
  expect_identical(tree$settings, expected$settings)
})

test_that("slots are set by name, and clusterSweep() varies them", {
  x <- some_cells(300)
  param <- GmhclustParam(20, k = 2, min_members = 10, warn = FALSE)
  param[["k"]] <- 3
  expect_identical(nlevels(clusterRows(x, param)), 3L)
  param[["threshold"]] <- NULL
  expect_identical(
    clusterRows(x, param, full = TRUE)$objects$hclust$settings$threshold,
    gmhclust(x, warn = FALSE)$settings$threshold
  )
  swept <- clusterSweep(x, param, k = 2:3)
  expect_identical(vapply(as.list(swept$clusters), nlevels, 0L, USE.NAMES = FALSE), 2:3)
})

test_that("wrong settings are named", {
  expect_error(GmhclustParam(-1), "`threshold` is -1; it must", fixed = TRUE)
  expect_error(GmhclustParam(k = 1.5), "`k` is 1.5; it must be one whole number", fixed = TRUE)
  expect_error(GmhclustParam(min_members = 1:2), "`min_members` is 1, 2; it must", fixed = TRUE)
  expect_error(GmhclustParam(cut = "height"), "`cut` is height; it must be one of \"populations\"",
               fixed = TRUE)
  expect_error(GmhclustParam(cut = "tree"), "needs the number of clusters", fixed = TRUE)
  expect_error(GmhclustParam(cut = "tree", k = 2, min_members = 3),
               "`min_members` is given; only `cut = \"populations\"` uses it", fixed = TRUE)
  expect_error(GmhclustParam(cut = "tree", k = 2, rest = "none"),
               "`rest` is given; only `cut = \"populations\"` uses it", fixed = TRUE)
  expect_error(GmhclustParam(distance = "short"), "`distance` is short; it must", fixed = TRUE)
  expect_error(GmhclustParam(rest = "far"), "`rest` is far; it must", fixed = TRUE)
  expect_error(GmhclustParam(thread = 2), "`...` has \"thread\"; it takes", fixed = TRUE)
  expect_error(clusterRows(as.matrix(letters), GmhclustParam()), class = "gmhclust_error_input")
  expect_output(show(GmhclustParam(30, k = 3, scale = TRUE)),
                "class: GmhclustParam.*threshold: 30.*k: 3.*more: scale = TRUE")
})

test_that("sparse matrices and data frames are clustered like matrices", {
  skip_if_not_installed("Matrix")
  x <- round(some_cells(200))
  param <- GmhclustParam(20, k = 2, min_members = 10, warn = FALSE)
  expected <- clusterRows(x, param)
  expect_identical(clusterRows(Matrix::Matrix(x, sparse = TRUE), param), expected)
  expect_identical(clusterRows(S4Vectors::DataFrame(x), param), expected)
})
