linkages <- c(
  "ward.D", "single", "complete", "average", "mcquitty", "median", "centroid", "ward.D2"
)

# As hclust() but for heights within 1e-12, the call and the backend.
expect_same_tree <- function(tree, expected) {
  expect_identical(tree$merge, expected$merge)
  expect_identical(tree$order, expected$order)
  expect_equal(tree$height, expected$height, tolerance = 1e-12)
  for (name in c("labels", "method", "dist.method")) {
    expect_identical(tree[[name]], expected[[name]])
  }
  expect_identical(names(tree), c(names(expected), "backend"))
  expect_s3_class(tree, "hclust", exact = TRUE)
}

test_that("trees of dissimilarities are those of hclust()", {
  set.seed(1)
  for (n in c(2, 3, 10, 61, 200)) {
    x <- matrix(rnorm(4 * n), n, dimnames = list(paste0("row", seq_len(n)), NULL))
    d <- dist(x, "manhattan")
    members <- sample(5, n, replace = TRUE)
    for (method in linkages) {
      expect_same_tree(ghclust(d, method), hclust(d, method))
      expect_same_tree(ghclust(d, method, members), hclust(d, method, members))
    }
  }
})

test_that("trees of data are those of their distances", {
  set.seed(2)
  x <- matrix(rnorm(600), 100, 6)
  for (method in setdiff(linkages, c("centroid", "median"))) {
    expect_same_tree(ghclust(x, method), hclust(dist(x), method))
    expect_same_tree(ghclust(x, method, metric = "maximum"), hclust(dist(x, "maximum"), method))
    members <- sample(4, 100, replace = TRUE)
    expect_same_tree(ghclust(x, method, members), hclust(dist(x), method, members))
  }
  for (method in c("centroid", "median")) {
    tree <- ghclust(as.data.frame(x), method)
    expected <- hclust(dist(x)^2, method)
    expect_identical(tree$merge, expected$merge)
    expect_equal(tree$height, sqrt(expected$height), tolerance = 1e-12)
    expect_same_tree(ghclust(x, method, metric = "canberra"), hclust(dist(x, "canberra"), method))
  }
  r <- as.dist(1 - cor(t(x)))
  tree <- ghclust(x, "average", metric = "pearson")
  expect_identical(tree$merge, hclust(r, "average")$merge)
  expect_identical(tree$dist.method, "pearson")
})

test_that("trees of cells are those of fastcluster", {
  skip_if_not_installed("fastcluster")
  x <- as.matrix(lymphocytes()[1:3000, 1:14])
  for (method in c("single", "ward", "centroid", "median")) {
    expected <- fastcluster::hclust.vector(x, method)
    tree <- ghclust(x, if (method == "ward") "ward.D2" else method)
    expect_identical(tree$merge, expected$merge)
    expect_equal(tree$height, expected$height, tolerance = 1e-12)
  }
})

test_that("trees of genes are those of hclust()", {
  skip_if_not_installed("ALL")
  skip_if_not_installed("Biobase")
  data <- new.env()
  utils::data("ALL", package = "ALL", envir = data)
  x <- Biobase::exprs(data$ALL)[seq(1, 12625, by = 10), ]
  for (method in c("average", "complete", "ward.D2")) {
    expect_same_tree(ghclust(x, method), hclust(dist(x), method))
  }
})

test_that("where distances tie the tree is sound and the same for any number of threads", {
  set.seed(3)
  x <- matrix(sample(3, 600, replace = TRUE), 200, 3)
  for (method in linkages) {
    for (input in list(x, dist(x))) {
      tree <- suppressWarnings(ghclust(input, method, threads = 1))
      tree$call <- NULL
      again <- ghclust(input, method, threads = 3)
      again$call <- NULL
      expect_identical(tree, again)
      if (!method %in% c("centroid", "median")) expect_no_error(check_hclust(tree))
    }
  }
  expect_identical(ghclust(dist(x), "single")$height, hclust(dist(x), "single")$height)
  same <- ghclust(matrix(1, 5, 2), "average")
  expect_identical(same$height, numeric(4))
})

test_that("methods are matched as in hclust()", {
  d <- dist(matrix(c(1, 2, 4, 8, 16), 5))
  expect_identical(ghclust(d, "av")$method, "average")
  expect_identical(ghclust(d)$method, "complete")
  expect_message(tree <- ghclust(d, "ward"), "renamed to \"ward.D\"")
  expect_identical(tree$method, "ward.D")
  expect_error(ghclust(d, "ward.X"), class = "gmhclust_error_input")
  expect_error(ghclust(d, "c"), "`method`", class = "gmhclust_error_input")
})

test_that("single precision keeps about 7 digits", {
  set.seed(4)
  d <- dist(matrix(rnorm(400), 100))
  single <- ghclust(d, "average", precision = "single")
  double <- ghclust(d, "average")
  expect_equal(single$height, double$height, tolerance = 1e-5)
  expect_false(identical(single$height, double$height))
})

test_that("wrong input is refused", {
  d <- dist(matrix(c(1, 2, 4, 8, 16), 5))
  refused <- function(call, message) {
    expect_error(call, message, class = "gmhclust_error_input")
  }
  refused(ghclust(dist(1)), "at least 2")
  refused(ghclust(structure(1:4, Size = 3L, class = "dist")), "`x` has 4 dissimilarities")
  refused(ghclust(replace(d, 3, NA)), "`x` has NaN between observations 1 and 4")
  refused(ghclust(replace(d, 3, Inf), "single"), "`x` has inf between observations 1 and 4")
  refused(ghclust(d, members = 1:4), "`members`")
  refused(ghclust(d, members = c(1, 1, 1, 1, 0)), "`members`")
  refused(ghclust(matrix(c(1, NA, 3), 3)), "`x`")
  refused(ghclust("a"), "`x`")
  refused(ghclust(matrix(1:6, 3), metric = "foo"), "`metric`")
  refused(ghclust(rbind(1:3, 2:4, c(1, 1, 1)), metric = "pearson"), "NaN|constant")
  refused(ghclust(d, precision = "half"), "`precision`")
})
