linkages <- c(
  "ward.D", "single", "complete", "average", "mcquitty", "median", "centroid", "ward.D2"
)

# Expects the result of hclust(), except for the call, the additions, and heights within 1e-12.
expect_tree_of_hclust <- function(tree, expected) {
  expect_identical(tree$merge, expected$merge)
  expect_identical(tree$order, expected$order)
  expect_equal(tree$height, expected$height, tolerance = 1e-12)
  for (name in c("labels", "method", "dist.method")) {
    expect_identical(tree[[name]], expected[[name]])
  }
  expect_identical(names(tree), c(names(expected), "settings", "backend"))
  expect_s3_class(tree, "hclust", exact = TRUE)
}

test_that("trees of dissimilarities are those of hclust()", {
  set.seed(1)
  for (n in c(2:9, 26, 61, 130, 200, 300)) {
    x <- matrix(rnorm(4 * n), n, dimnames = list(paste0("row", seq_len(n)), NULL))
    d <- dist(x, "manhattan")
    members <- sample(5, n, replace = TRUE) + if (n > 100) 0.25 else 0
    for (method in linkages) {
      expect_tree_of_hclust(ghclust(d, method), hclust(d, method))
      expect_tree_of_hclust(ghclust(d, method, members), hclust(d, method, members))
    }
  }
})

test_that("the object is built as hclust() builds it", {
  expect_same_structure <- function(d) {
    tree <- unclass(ghclust(d, "average"))
    expected <- unclass(hclust(d, "average"))
    expect_identical(names(tree), c(names(expected), "settings", "backend"))
    expect_identical(tree$backend, "cpu")
    for (name in setdiff(names(expected), c("call", "height"))) {
      expect_identical(tree[[name]], expected[[name]])
    }
    expect_identical(lapply(tree, typeof)[1:7], lapply(expected, typeof)[1:7])
  }
  x <- as.matrix(USArrests)
  expect_same_structure(dist(x))
  expect_same_structure(dist(unname(x)))
  expect_same_structure(as.dist(1 - cor(t(x)))) # has no method
  whole <- round(10 * dist(x))
  storage.mode(whole) <- "integer"
  expect_tree_of_hclust(ghclust(whole, "single"), hclust(whole, "single"))
  d <- dist(x)
  expect_identical(ghclust(d, "av")$call, quote(ghclust(x = d, method = "av")))
})

test_that("functions for trees accept the result", {
  h <- ghclust(dist(USArrests), "average")
  expect_true(check_hclust(h))
  expect_identical(cutree(h, k = 5), cutree(hclust(dist(USArrests), "average"), k = 5))
  expect_identical(order.dendrogram(as.dendrogram(h)), h$order)
  expect_equal(cophenetic(h), cophenetic(hclust(dist(USArrests), "average")))
})

test_that("trees of data are those of their distances", {
  set.seed(2)
  x <- matrix(rnorm(600), 100, 6)
  for (method in setdiff(linkages, c("centroid", "median"))) {
    expect_tree_of_hclust(ghclust(x, method), hclust(dist(x), method))
    expect_tree_of_hclust(ghclust(x, method, metric = "maximum"),
                          hclust(dist(x, "maximum"), method))
    members <- sample(4, 100, replace = TRUE)
    expect_tree_of_hclust(ghclust(x, method, members), hclust(dist(x), method, members))
  }
  for (method in c("centroid", "median")) {
    tree <- ghclust(as.data.frame(x), method)
    expected <- hclust(dist(x)^2, method)
    expect_identical(tree$merge, expected$merge)
    expect_equal(tree$height, sqrt(expected$height), tolerance = 1e-12)
    expect_tree_of_hclust(ghclust(x, method, metric = "canberra"),
                          hclust(dist(x, "canberra"), method))
    members <- sample(4, 100, replace = TRUE) / 3
    tree <- ghclust(x, method, members)
    expected <- hclust(dist(x)^2, method, members)
    expect_identical(tree$merge, expected$merge)
    expect_equal(tree$height, sqrt(expected$height), tolerance = 1e-12)
    expect_identical(tree$settings$columns, 6L)
  }
  r <- as.dist(1 - cor(t(x)))
  tree <- ghclust(x, "average", metric = "pearson")
  expect_identical(tree$merge, hclust(r, "average")$merge)
  expect_identical(tree$dist.method, "pearson")
})

test_that("trees of mean correlations are those of hclust()", {
  set.seed(12)
  x <- matrix(rnorm(3000), 150, 20) + 2 * matrix(rnorm(100), 5)[sample(5, 150, TRUE), ]
  x[7, ] <- 3 * x[5, ] # no distance
  for (method in c("average", "mcquitty")) {
    for (metric in c("pearson", "cosine")) {
      tree <- ghclust(x, method, metric = metric)
      expect_tree_of_hclust(tree, hclust(gdist(x, metric), method))
      again <- ghclust(x, method, metric = metric, threads = 1)
      expect_identical(as_computed(again), as_computed(tree))
      # The magnitude of a correlation, or members, need the matrix.
      expect_tree_of_hclust(
        ghclust(x, method, metric = metric, absolute = TRUE),
        hclust(gdist(x, metric, absolute = TRUE), method)
      )
      members <- sample(4, 150, replace = TRUE)
      expect_tree_of_hclust(
        ghclust(x, method, members, metric = metric), hclust(gdist(x, metric), method, members)
      )
    }
    # Ranks of a few columns have many ties.
    tree <- ghclust(x[, 1:6], method, metric = "spearman")
    expect_true(check_hclust(tree))
    fewer <- ghclust(x[, 1:6], method, metric = "spearman", threads = 1)
    expect_identical(as_computed(fewer), as_computed(tree))
    # Equal rows merge first, at 0.
    twice <- ghclust(x[c(1:150, 21:60), ], method, metric = "pearson")
    expect_identical(sum(twice$height == 0), 40L)
    expect_equal(twice$height, hclust(gdist(x[c(1:150, 21:60), ], "pearson"), method)$height,
                 tolerance = 1e-12)
  }
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

test_that("trees of cells are those of hclust()", {
  x <- some_cells(1500)
  for (method in setdiff(linkages, c("centroid", "median"))) {
    expect_tree_of_hclust(ghclust(x, method, metric = "manhattan"),
                          hclust(dist(x, "manhattan"), method))
  }
})

test_that("trees of genes are those of hclust()", {
  skip_if_not_installed("ALL")
  skip_if_not_installed("Biobase")
  data <- new.env()
  utils::data("ALL", package = "ALL", envir = data)
  x <- Biobase::exprs(data$ALL)[seq(1, 12625, by = 10), ]
  for (method in c("average", "complete", "ward.D2")) {
    expect_tree_of_hclust(ghclust(x, method), hclust(dist(x), method))
  }
})

test_that("with ties the tree is valid and the same for any number of threads", {
  set.seed(3)
  x <- matrix(sample(3, 600, replace = TRUE), 200, 3)
  for (method in linkages) {
    for (input in list(x, dist(x))) {
      tree <- ghclust(input, method, threads = 1)
      again <- ghclust(input, method, threads = 3)
      expect_identical(as_computed(tree), as_computed(again))
      if (!method %in% c("centroid", "median")) expect_no_error(check_hclust(tree))
    }
  }
})

test_that("with ties single and complete linkage have the heights of hclust()", {
  set.seed(5)
  grid <- matrix(sample(4, 500, replace = TRUE), 250, 2)
  few <- matrix(rnorm(24), 12)
  for (d in list(
    dist(grid), dist(grid, "manhattan"), dist(grid, "maximum"), # a grid with duplicates
    dist(rbind(few, few, few, few[1:3, ])), # duplicates only
    dist(matrix(7, 60, 2)), # one place
    dist(diag(80)), # all equally far
    round(dist(matrix(rnorm(600), 300)))
  )) {
    expect_identical(ghclust(d, "single")$height, hclust(d, "single")$height)
    expect_identical(
      unclass(ghclust(d, "complete"))[c("merge", "height", "order")],
      unclass(hclust(d, "complete"))[c("merge", "height", "order")]
    )
    for (method in linkages) {
      expect_true(check_hclust(ghclust(d, method)))
    }
  }
})

test_that("the number of threads changes no bit", {
  x <- some_cells(1200)
  d <- dist(x)
  same <- c("merge", "height", "order")
  for (method in linkages) {
    for (precision in c("double", "single")) {
      on <- function(threads) {
        unclass(ghclust(d, method, precision = precision, threads = threads))[same]
      }
      expect_identical(on(1), on(2))
    }
  }
})

test_that("methods are matched as in hclust()", {
  d <- dist(matrix(c(1, 2, 4, 8, 16), 5))
  expect_identical(ghclust(d, "av")$method, "average")
  expect_identical(ghclust(d)$method, "complete")
  expect_message(tree <- ghclust(d, "ward"), "renamed to \"ward.D\"")
  expect_identical(tree$method, "ward.D")
  for (bad in list("ward.X", "c", "ward.", NA, NA_character_, NULL, 1, c("single", "average"))) {
    expect_error(ghclust(d, bad), "^invalid clustering method", class = "gmhclust_error_input")
  }
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
  refused(ghclust(dist(1)), "^must have n >= 2 objects to cluster")
  refused(ghclust(structure(1:2, Size = 3L, class = "dist")), "of improper length; 3 observations")
  for (size in list(NULL, NA, "3", 2.5, -1, 3:4)) {
    refused(ghclust(structure(1:3, Size = size, class = "dist")), "^invalid dissimilarities")
  }
  for (method in linkages) {
    for (value in c(NA, NaN, Inf, -Inf)) {
      missing <- replace(d, 3, value)
      refused(ghclust(missing, method), "`x` has NA/NaN/Inf between observations 1 and 4")
    }
    refused(ghclust(replace(d, 5, 1e200), method), "between observations 2 and 3")
  }
  refused(ghclust(d, members = 1:4), "^invalid length of members")
  refused(ghclust(matrix(1:6, 3), members = 1:2), "^invalid length of members")
  refused(ghclust(d, members = letters[1:5]), "`members` are a character vector of length 5")
  long <- structure(1:5 * 2^-1074, class = "integer64")
  refused(ghclust(d, members = long), "`members` are an object of class \"integer64\"")
  refused(ghclust(d, members = c(1, 1, NA, 1, 0)), "`members` have NA at position 3; they must be")
  refused(ghclust(d, members = c(1, 1, 1, -2.5, 0)), "`members` have -2.5 at position 4")
  refused(ghclust(matrix(1:6, 3), members = c(Inf, 1, 1)), "`members` have Inf at position 1")
  refused(ghclust(matrix(c(1, NA, 3), 3)), "`x`")
  refused(ghclust("a"), "`x`")
  refused(ghclust(matrix(1:6, 3), metric = "foo"), "`metric`")
  refused(ghclust(rbind(1:3, 2:4, c(1, 1, 1)), metric = "pearson"), "NaN|constant")
  refused(ghclust(d, precision = "half"), "`precision`")
})

test_that("dissimilarities beyond the last pair are left out with a warning", {
  d <- dist(matrix(c(1, 2, 4, 8, 16), 5))
  longer <- structure(c(d, 1, 2), Size = 5L, class = "dist")
  expect_warning(tree <- ghclust(longer), "of improper length", class = "gmhclust_warning")
  expect_identical(tree$merge, ghclust(d)$merge)
})

test_that("a progress bar changes nothing", {
  d <- dist(USArrests)
  expect_identical(
    ghclust(d, progress = TRUE)[c("merge", "height")],
    ghclust(d, progress = FALSE)[c("merge", "height")]
  )
})

# The same merges at the same heights, bit for bit.
expect_same_merges <- function(tree, other) {
  same <- c("merge", "height", "order")
  expect_identical(unclass(tree)[same], unclass(other)[same])
}

test_that("missing values are left out pair by pair when asked, as in hclust(dist(x))", {
  x <- blobs(40, 5)
  rownames(x) <- paste0("r", 1:40)
  set.seed(2)
  holes <- x
  holes[cbind(sample(40, 20), rep(1:5, 4))] <- NA
  for (method in c("complete", "average", "single", "ward.D2")) {
    for (metric in c("euclidean", "manhattan", "canberra")) {
      h <- ghclust(holes, method, metric = metric, missing = "pairwise")
      expected <- hclust(dist(holes, metric), method)
      expect_identical(h$merge, expected$merge)
      expect_equal(h$height, expected$height)
      expect_identical(h$labels, rownames(x))
      expect_identical(h$dist.method, metric)
      expect_same_merges(h, ghclust(gdist(holes, metric), method))
    }
    expect_same_merges(ghclust(holes, method, metric = "spearman", missing = "pairwise"),
                     ghclust(gdist(holes, "spearman"), method))
    # Without missing values, and from distances, it changes nothing.
    expect_same_merges(ghclust(x, method, missing = "pairwise"), ghclust(x, method))
    expect_same_merges(ghclust(dist(x), method, missing = "pairwise"), ghclust(dist(x), method))
  }
  expect_same_merges(ghclust(as.data.frame(holes), missing = "pairwise", members = 1:40),
                   ghclust(gdist(holes), members = 1:40))
  expect_same_merges(ghclust(holes, "centroid", metric = "manhattan", missing = "pairwise"),
                   ghclust(gdist(holes, "manhattan"), "centroid"))
})

test_that("missing values are refused unless asked, and where a pair has no distance", {
  refused <- function(object, message) expect_refused(object, message, by = "ghclust")
  x <- blobs(9, 3)
  x[2, 1] <- NA
  refused(ghclust(x), "`x` has NA in row 2, column 1; every value must be finite")
  refused(ghclust(x, missing = "omit"), "`missing` is \"omit\"")
  for (method in c("centroid", "median")) {
    refused(ghclust(x, method, missing = "pairwise"), "needs the coordinates of centres")
  }
  x[5, 2:3] <- NA
  refused(ghclust(x, missing = "pairwise"), "`x` has no distance between rows 2 and 5; leave out")
  rownames(x) <- letters[1:9]
  x[8, 2:3] <- NA
  refused(ghclust(x, missing = "pairwise"),
          "`x` has no distance between rows \"b\" and \"e\" (and 1 more pair)")
  # Every pair of rows with one column each, which differ.
  for (i in 1:8) {
    for (j in (i + 1):9) {
      y <- blobs(9, 2)
      y[i, 1] <- y[j, 2] <- NA
      refused(ghclust(y, missing = "pairwise"), paste0("between rows ", i, " and ", j, ";"))
    }
  }
  x[1, 1] <- Inf
  refused(ghclust(x, missing = "pairwise"), "`x` has Inf in row 1; every value must be finite or")
  refused(ghclust(x[2, , drop = FALSE], missing = "pairwise"), "`x` has 1 row")
  refused(ghclust(data.frame(a = c(NA, 1), b = "c"), missing = "pairwise"), "non-numeric column")
})

test_that("every linkage names the rows without a distance", {
  set.seed(8)
  x <- matrix(rnorm(60), 12)
  x[c(6, 9), ] <- 0
  methods <- c("ward.D", "ward.D2", "single", "complete", "average", "mcquitty", "median",
               "centroid")
  for (method in methods) {
    for (metric in c("pearson", "spearman")) {
      expect_refused(ghclust(x, method, metric = metric), "`x` is constant in rows 6 and 9;",
                     by = "ghclust")
    }
    expect_refused(ghclust(x, method, metric = "cosine"), "`x` is zero in rows 6 and 9;",
                   by = "ghclust")
    expect_refused(ghclust(x, method, metric = "canberra"), "`x` is zero in rows 6 and 9;",
                   by = "ghclust")
    # One row of zeros has a Canberra distance from all others.
    expect_length(ghclust(x[-9, ], method, metric = "canberra")$height, 10)
  }
})

test_that("arguments for distances of data are refused with a dist object", {
  d <- dist(matrix(1:20, 10))
  expect_refused(ghclust(d, metric = "pearson"), "`metric` is given; `x` is a dist object",
                 by = "ghclust")
  expect_refused(ghclust(d, zero_over_zero = "0"), "`zero_over_zero` is given;", by = "ghclust")
  expect_refused(ghclust(d, absolute = TRUE), "`absolute` is given;", by = "ghclust")
  expect_refused(ghclust(d, p = 3), "`p` is given;", by = "ghclust")
  expect_refused(ghclust(d, mebmers = 1), "unused argument: `mebmers`;", by = "ghclust")
  expect_identical(ghclust(d, metric = "euclidean", p = 2L)$merge, ghclust(d)$merge)
})

test_that("members in another order are refused if their names show it", {
  u <- as.matrix(USArrests)
  members <- setNames(1:50, rownames(u))
  for (x in list(u, dist(u))) {
    expect_error(ghclust(x, "average", members = rev(members)),
                 "`members` has `x`'s observations in another order", fixed = TRUE,
                 class = "gmhclust_error_input")
    expect_identical(ghclust(x, "average", members = members)$height,
                     ghclust(x, "average", members = unname(members))$height)
  }
})
