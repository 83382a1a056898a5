# The k nearest columns of each row of the distances `d`, by sorting; ties are broken by index.
exhaustive <- function(d, k) {
  index <- t(apply(d, 1, function(row) order(row)[seq_len(k)]))
  if (k == 1) index <- t(index)
  distance <- matrix(d[cbind(as.vector(row(index)), as.vector(index))], nrow(d))
  list(index = unname(index), distance = distance)
}

# Distances of the rows of x, none of a row from itself.
among_themselves <- function(x, metric, ...) {
  d <- gdist(x, metric, y = x, progress = FALSE, ...)
  diag(d) <- NA
  unname(d)
}

expect_nearest <- function(x, k, metric = "euclidean", ...) {
  expected <- exhaustive(among_themselves(x, metric, ...), k)
  # Without the attribute `labels`.
  expect_identical(gknn(x, k, metric = metric, ...)[c("index", "distance")], expected)
}

every_metric <- c(dist_metrics, correlations)

test_that("the result is a list of two matrices, nearest first", {
  nn <- gknn(matrix(c(0, 1, 3, 7)), 2)
  expect_identical(nn, list(
    index = rbind(c(2L, 3L), c(1L, 3L), c(2L, 1L), c(3L, 2L)),
    distance = rbind(c(1, 3), c(1, 2), c(2, 3), c(4, 6))
  ))
})

test_that("all metrics give the result of sorting all distances, on random data", {
  for (metric in every_metric) {
    for (p in c(5, 9, 40)) {
      x <- blobs(60, p, seed = p)
      expect_nearest(x, 5, metric)
      expect_nearest(round(x), 7, metric)
    }
  }
})

test_that("options of the metric are those of gdist()", {
  x <- round(blobs(50, 6))
  for (metric in correlations) expect_nearest(x, 4, metric, absolute = TRUE)
  for (zeros in c("0", "1")) expect_nearest(x, 4, "canberra", zero_over_zero = zeros)
  for (p in c(0.5, 3)) expect_nearest(x, 4, "minkowski", p = p)
  expect_identical(gknn(x, 3, metric = "manh"), gknn(x, 3, metric = "manhattan"))
})

test_that("real cells have their exact neighbours", {
  cells <- some_cells(600)
  for (metric in every_metric) expect_nearest(cells, 20, metric)
})

test_that("ties go to the smaller index", {
  grid <- as.matrix(expand.grid(1:7, 1:7))
  for (metric in c("euclidean", "manhattan", "maximum")) {
    for (k in c(1, 4, 13)) expect_nearest(grid, k, metric)
  }
})

test_that("duplicates are each other's neighbours, none its own", {
  x <- blobs(12, 3)
  expect_nearest(rbind(x, x, x), 4)
  same <- gknn(matrix(2.5, 30, 3), 3)
  expect_identical(same$distance, matrix(0, 30, 3))
  expect_identical(same$index[1:5, ], rbind(2:4, c(1L, 3L, 4L), c(1L, 2L, 4L), 1:3, 1:3))
})

test_that("small and degenerate shapes work", {
  expect_identical(gknn(rbind(c(0, 0), c(3, 4)), 1),
                   list(index = cbind(2:1), distance = cbind(c(5, 5))))
  expect_nearest(matrix(rnorm(40)), 3)
  x <- blobs(30, 3)
  expect_nearest(x, 29)
  expect_nearest(cbind(x, 7), 4)
  expect_nearest(x + 1e6, 4)
  expect_nearest(x * 1e200, 4)
  expect_nearest(x * 1e-140, 4)
})

test_that("queries find their neighbours among the rows of X", {
  x <- blobs(50, 4)
  query <- blobs(9, 4, seed = 2)
  for (metric in every_metric) {
    d <- unname(gdist(query, metric, y = x))
    for (k in c(1, 3, 50)) expect_identical(gknn(x, k, query, metric), exhaustive(d, k))
  }
  expect_identical(gknn(x, 1, x)$index, cbind(1:50))
  expect_identical(dim(gknn(x, 2, x[1, , drop = FALSE])$index), 1:2)
  expect_identical(gknn(x[1, , drop = FALSE], 1, x)$index, matrix(1L, 50, 1))
})

test_that("the number of threads changes nothing", {
  cells <- some_cells(2000)
  for (metric in c("euclidean", "pearson", "canberra", "minkowski")) {
    expect_identical(gknn(cells, 10, metric = metric, threads = 1),
                     gknn(cells, 10, metric = metric, threads = 2))
  }
})

test_that("package FNN finds the same", {
  skip_if_not_installed("FNN")
  cells <- some_cells(1500)
  peer <- FNN::get.knn(cells, 12)
  nn <- gknn(cells, 12)
  expect_equal(nn$distance, peer$nn.dist)
  # FNN may break ties differently.
  untied <- apply(cbind(0, nn$distance), 1, function(d) all(diff(d) > 1e-9 * max(d)))
  expect_gt(sum(untied), 1000)
  expect_identical(nn$index[untied, ], peer$nn.index[untied, ])
})

test_that("all numeric inputs are accepted, and row names change no neighbour", {
  x <- round(blobs(20, 3))
  expected <- gknn(x, 2)
  expect_identical(gknn(as.data.frame(x), 2), expected)
  whole <- x
  storage.mode(whole) <- "integer"
  rownames(whole) <- letters[1:20]
  named <- gknn(whole, 2L)
  expect_identical(attr(named, "labels"), letters[1:20])
  attr(named, "labels") <- NULL
  expect_identical(named, expected)
  expect_identical(gknn(x > 0, 2, metric = "binary"), gknn((x > 0) + 0, 2, metric = "binary"))
  expect_identical(gknn(x, 2, progress = TRUE), expected)
})

test_that("wrong input is refused by name", {
  refused <- function(object, message) expect_refused(object, message, by = "gknn")
  x <- blobs(10, 3)
  for (k in list(0, 2.5, NA, Inf, c(1, 2), "3", NULL)) {
    refused(gknn(x, k), "it must be a whole number of at least 1 and at most 9")
  }
  refused(gknn(x, 0, x), "`k` is 0; it must be a whole number of at least 1 and at most 10")
  refused(gknn(x[1, , drop = FALSE], 1), "`x` has 1 row; a neighbour needs a second one")
  refused(gknn(x[0, ], 1), "`x` has no rows")
  refused(gknn(x[, 0], 1), "`x` has no columns")
  refused(gknn(1:5, 1), "`x` is a vector of length 5; use matrix(x)")
  refused(gknn(letters, 1), "`x` is a character vector of length 26")
  refused(gknn(NULL, 1), "`x` is NULL")
  refused(gknn(x, 1, x[, 1:2]), "`query` has 2 columns; it must have as many as `x`, 3")
  refused(gknn(iris[1:4], 1, iris[4:1]), "`query` has the columns of `x` in another order")
  x[4, 2] <- NA
  refused(gknn(x, 1), "`x` has NA in row 4, column 2; every value must be finite")
  refused(gknn(blobs(10, 3), 1, x), "`query` has NA in row 4, column 2")
  x[4, 2] <- Inf
  refused(gknn(x, 1), "`x` has Inf in row 4")
  refused(gknn(blobs(10, 3), 1, metric = "hamming"), "`metric` is \"hamming\"")
  expect_error(gknn(blobs(10, 3), 1, absolute = TRUE), class = "gmhclust_error_input")
  expect_error(gknn(blobs(10, 3), 1, metric = "minkowski", p = -1), class = "gmhclust_error_input")
  refused(gknn(blobs(10, 3), 1, threads = 0), "`threads` is 0")
  refused(gknn(blobs(10, 3), 1, backend = "gpu"), "`backend` is \"gpu\"")
})

test_that("k is capped at the number of neighbours there are, with a warning", {
  x <- blobs(10, 3)
  for (k in c(10, 1e12)) {
    warning <- expect_warning(nn <- gknn(x, k), class = "gmhclust_warning")
    expect_match(conditionMessage(warning), "was capped at 9, the number of neighbours there are")
    expect_identical(as.character(conditionCall(warning)[[1]]), "gknn")
    expect_identical(nn, gknn(x, 9))
  }
  expect_warning(nn <- gknn(x, 11, x), "`k` is 11 and was capped at 10")
  expect_identical(nn, gknn(x, 10, x))
  expect_warning(gknn(x, 12, block_rows = 4), "capped at 9")
})

# The neighbours of some rows of a result.
of_rows <- function(nn, rows) {
  list(index = nn$index[rows, , drop = FALSE], distance = nn$distance[rows, , drop = FALSE])
}

test_that("a subset of the rows has the neighbours that these rows have", {
  x <- round(blobs(60, 4))
  query <- blobs(15, 4, seed = 2)
  rownames(query) <- letters[1:15]
  rows <- c(60L, 3L, 3L, 17L, 41L)
  for (metric in every_metric) {
    found <- gknn(x, 5, metric = metric, subset = rows)
    expect_identical(attr(found, "rows"), rows)
    expect_identical(found[1:2], of_rows(gknn(x, 5, metric = metric), rows))
  }
  for (k in c(1, 59)) {
    expect_identical(gknn(x, k, subset = rows)[1:2], of_rows(gknn(x, k), rows))
    expect_identical(gknn(x, k, subset = rows, block_rows = 2)[1:2], of_rows(gknn(x, k), rows))
  }
  whole <- gknn(x, 7, query)
  expect_identical(gknn(x, 7, query, subset = c(9, 2))[1:2], of_rows(whole, c(9, 2)))
  expect_identical(gknn(x, 7, query, subset = c("i", "b")), gknn(x, 7, query, subset = c(9, 2)))
  chosen <- rep(c(TRUE, FALSE), length.out = 60)
  expect_identical(gknn(x, 2, subset = chosen), gknn(x, 2, subset = which(chosen)))
  # A row of zeros has no Canberra distance from itself, but from all others.
  x[8, ] <- 0
  expect_identical(gknn(x, 3, metric = "canberra", subset = 7:9)[1:2],
                   of_rows(gknn(x, 3, metric = "canberra"), 7:9))
  refused <- function(object, message) expect_refused(object, message, by = "gknn")
  refused(gknn(x, 1, subset = 61), "`subset` has 61; they must be whole numbers from 1 to 60")
  refused(gknn(x, 1, query, subset = 16), "`subset` has 16")
  refused(gknn(x, 1, subset = "a"), "`subset` has \"a\"; that is not the name of a row")
  refused(gknn(x, 1, subset = c(TRUE, NA)), "a logical one must have TRUE or FALSE for each of 60")
  refused(gknn(x, 1, subset = integer(0)), "`subset` selects no rows")
  refused(gknn(x, 1, subset = 3, output = tempfile()), "`subset` is given with `output`")
  x[c(2, 5), ] <- 3
  refused(gknn(x, 1, metric = "pearson", subset = 5:6), "constant in rows 2, 5 and 8;")
})

test_that("distances can be left out", {
  x <- blobs(40, 3)
  expect_identical(gknn(x, 3, get.distance = FALSE), gknn(x, 3)["index"])
  expect_identical(gknn(x, 3, block_rows = 7, get.distance = FALSE), gknn(x, 3)["index"])
  expect_identical(gknn(x, 3, x, subset = 1:4, get.distance = FALSE)$index,
                   gknn(x, 3, x)$index[1:4, ])
  refused <- function(object, message) expect_refused(object, message, by = "gknn")
  refused(gknn(x, 3, get.distance = NA), "`get.distance` is NA; it must be TRUE or FALSE")
  refused(gknn(x, 3, get.distance = FALSE, output = tempfile()), "`get.distance` is FALSE with")
})

test_that("package BiocNeighbors finds the same", {
  skip_if_not_installed("BiocNeighbors")
  x <- blobs(500, 6)
  for (subset in list(NULL, c(7, 400, 33))) {
    peer <- BiocNeighbors::findKNN(x, 9, subset = subset)
    nn <- gknn(x, 9, subset = subset)
    expect_identical(nn$index, peer$index)
    expect_equal(nn$distance, peer$distance)
    expect_identical(names(nn), names(peer))
  }
})

test_that("rows without a distance are refused by number", {
  x <- blobs(30, 3)
  x[c(2, 5), ] <- 3
  expect_error(gknn(x, 1, metric = "pearson"), "constant in rows 2 and 5;",
               class = "gmhclust_error_input")
  x[8:20, ] <- 1
  expect_error(gknn(x, 1, metric = "spearman"), "rows 2, 5, 8, 9, 10 and 10 more")
  expect_error(gknn(cbind(x[, 1]), 1, metric = "pearson"), "needs at least 2")
  x[7, ] <- 0
  expect_error(gknn(x, 1, metric = "cosine"), "zero in row 7;")
  expect_nearest(x, 1, "canberra")
  x[3, ] <- 0
  expect_error(gknn(x, 1, metric = "canberra"), "zero in rows 3 and 7;")
  expect_nearest(x, 1, "canberra", zero_over_zero = "0")
})

test_that("a name that several rows have does not choose a row", {
  x <- structure(blobs(30, 3), dimnames = list(c("a", "a", 3:30), NULL))
  expect_refused(gknn(x, 2, subset = c("5", "a")),
                 "`subset` has \"a\", the name of several rows; choose them by number", "gknn")
  expect_identical(attr(gknn(x, 2, subset = "5"), "rows"), 5L)
})
