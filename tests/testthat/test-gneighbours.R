# All rows within the radius, by the distances `d` of queries (rows) from rows of X (columns).
exhaustive_within <- function(d, radius) {
  radius <- rep_len(radius, nrow(d))
  index <- lapply(seq_len(nrow(d)), function(i) {
    near <- unname(which(d[i, ] <= radius[i]))
    near[order(d[i, near])]
  })
  list(index = index, distance = lapply(seq_along(index), function(i) unname(d[i, index[[i]]])))
}

# Distances of the rows of x, none of a row from itself.
among_themselves <- function(x, metric, ...) {
  d <- gdist(x, metric, y = x, ...)
  diag(d) <- NA
  d
}

every_metric <- c(dist_metrics, correlations)

test_that("the result is a list of lists of vectors, nearest first, the radius included", {
  expect_identical(gneighbours(matrix(c(0, 1, 3, 7)), 3), list(
    index = list(c(2L, 3L), c(1L, 3L), c(2L, 1L), integer(0)),
    distance = list(c(1, 3), c(1, 2), c(2, 3), double(0))
  ))
})

test_that("all metrics give the result of comparing all pairs", {
  for (metric in every_metric) {
    for (x in list(blobs(80, 5), round(blobs(80, 9)), blobs(60, 40))) {
      d <- among_themselves(x, metric)
      # Radii that are distances of pairs, so that rows are on the border.
      for (radius in c(0, quantile(d, c(0.02, 0.3), type = 1, na.rm = TRUE), Inf)) {
        expect_identical(gneighbours(x, radius, metric = metric), exhaustive_within(d, radius))
      }
      each <- d[cbind(seq_len(nrow(x)), rev(seq_len(nrow(x))))]
      expect_identical(gneighbours(x, each, metric = metric), exhaustive_within(d, each))
    }
  }
})

test_that("options of the metric are those of gdist()", {
  x <- round(blobs(50, 6))
  same <- function(metric, ...) {
    d <- among_themselves(x, metric, ...)
    radius <- median(d, na.rm = TRUE)
    expect_identical(gneighbours(x, radius, metric = metric, ...), exhaustive_within(d, radius))
  }
  for (metric in correlations) same(metric, absolute = TRUE)
  for (zeros in c("0", "1")) same("canberra", zero_over_zero = zeros)
  for (p in c(0.5, 3)) same("minkowski", p = p)
})

test_that("queries and subsets find their neighbours among the rows of X", {
  x <- blobs(90, 4)
  query <- blobs(23, 4, seed = 2)
  rownames(query) <- letters[1:23]
  whole <- gneighbours(x, 3)
  d <- gdist(query, y = x)
  expect_identical(gneighbours(x, 3, query), exhaustive_within(d, 3))
  rows <- c(90L, 2L, 2L, 41L)
  some <- gneighbours(x, 3, subset = rows)
  expect_identical(some$index, whole$index[rows])
  expect_identical(some$distance, whole$distance[rows])
  expect_identical(attr(some, "rows"), rows)
  expect_identical(gneighbours(x, 3, query, subset = c("w", "a"))$index,
                   gneighbours(x, 3, query)$index[c(23, 1)])
  expect_identical(gneighbours(x, c(1, 5), subset = 7:8)$index,
                   list(gneighbours(x, 1)$index[[7]], gneighbours(x, 5)$index[[8]]))
  expect_identical(gneighbours(x, 3, get.distance = FALSE), whole["index"])
})

test_that("hundreds of neighbours of each cell are all found, with any number of threads", {
  cells <- unname(some_cells(1500))
  d <- among_themselves(cells, "euclidean")
  radius <- quantile(d, 0.4, type = 1, na.rm = TRUE)
  near <- gneighbours(cells, radius, threads = 1)
  expect_gt(mean(lengths(near$index)), 512)
  expect_identical(near, exhaustive_within(d, radius))
  expect_identical(gneighbours(cells, radius, threads = 2, progress = TRUE), near)
})

test_that("duplicates are neighbours at radius 0, none of itself", {
  x <- blobs(12, 3)
  near <- gneighbours(rbind(x, x, x), 0)
  expect_identical(near$index[[1]], c(13L, 25L))
  expect_identical(near$index[[20]], c(8L, 32L))
  expect_identical(gneighbours(x, 0)$index, rep(list(integer(0)), 12))
  same <- gneighbours(matrix(2.5, 300, 3), 0)
  expect_identical(lengths(same$index), rep(299L, 300))
  expect_identical(same$index[[5]], (1:300)[-5])
})

test_that("rows without any neighbour, a single row, and names work", {
  x <- blobs(1, 3)
  expect_identical(gneighbours(x, 5), list(index = list(integer(0)), distance = list(double(0))))
  expect_identical(gneighbours(x, 5, x)$index, list(1L))
  named <- blobs(5, 2)
  rownames(named) <- letters[1:5]
  expect_identical(attr(gneighbours(named, 1), "labels"), letters[1:5])
  expect_identical(gneighbours(as.data.frame(named), 2)$index, gneighbours(unname(named), 2)$index)
})

test_that("package BiocNeighbors finds the same", {
  skip_if_not_installed("BiocNeighbors")
  cells <- some_cells(800)
  radius <- unname(quantile(dist(cells), 0.05))
  peer <- BiocNeighbors::findNeighbors(cells, radius)
  # Version 1 also lists the observation itself.
  others <- lapply(seq_along(peer$index), function(i) sort(setdiff(peer$index[[i]], i)))
  expect_identical(lapply(gneighbours(cells, radius)$index, sort), others)
})

test_that("delayed matrices are read into memory", {
  skip_if_not_installed("DelayedArray")
  x <- blobs(30, 3)
  expect_identical(gneighbours(DelayedArray::DelayedArray(x), 2), gneighbours(x, 2))
})

test_that("workers share the queries, with the same result", {
  workers <- cluster_of(2)
  on.exit(parallel::stopCluster(workers))
  cells <- some_cells(300)
  radius <- seq(20, 80, length.out = 300)
  subset <- c(290, 3, 17:90)
  for (get_distance in c(TRUE, FALSE)) {
    for (metric in c("euclidean", "pearson")) {
      near <- if (metric == "pearson") radius / 1000 else radius
      expect_identical(
        gneighbours(cells, near, metric = metric, get.distance = get_distance, BPPARAM = workers),
        gneighbours(cells, near, metric = metric, get.distance = get_distance)
      )
    }
  }
  expect_identical(gneighbours(cells, 40, subset = subset, BPPARAM = workers),
                   gneighbours(cells, 40, subset = subset))
  expect_identical(gneighbours(cells, radius[subset], cells, subset = subset, BPPARAM = workers),
                   gneighbours(cells, radius[subset], cells, subset = subset))
  expect_identical(gneighbours(cells[1:3, ], 100, BPPARAM = workers),
                   gneighbours(cells[1:3, ], 100))
  # No row has neighbours.
  expect_identical(gneighbours(cells, 0, BPPARAM = workers), gneighbours(cells, 0))
  values <- unname(as.matrix(cells))
  expect_identical(gneighbours(on_disk(values, 70), 40, BPPARAM = workers), gneighbours(values, 40))
  default_blocks()
  expect_identical(gneighbours(cells, 40, BPPARAM = snow()), gneighbours(cells, 40))
})

test_that("wrong input is refused by name", {
  refused <- function(object, message) expect_refused(object, message, by = "gneighbours")
  x <- blobs(10, 3)
  for (radius in list(NULL, "1", c(1, 2), list(1), numeric(0))) {
    refused(gneighbours(x, radius), "`radius` is")
  }
  for (radius in list(-1, NA_real_, NaN)) refused(gneighbours(x, radius), "`radius` has")
  refused(gneighbours(x, 1, subset = 11), "`subset` has 11")
  refused(gneighbours(x, 1, x[, 1:2]), "`query` has 2 columns; it must have as many as `x`, 3")
  refused(gneighbours(iris[1:4], 1, iris[4:1]), "`query` has the columns of `x` in another order")
  refused(gneighbours(x, 1, x[0, ]), "`query` has no rows")
  refused(gneighbours(1:5, 1), "`x` is a vector of length 5")
  refused(gneighbours(x, 1, metric = "hamming"), "`metric` is \"hamming\"")
  x[c(2, 5), ] <- 3
  expect_error(gneighbours(x, 1, metric = "pearson"), "constant in rows 2 and 5;",
               class = "gmhclust_error_input")
  x[4, 2] <- NA
  refused(gneighbours(x, 1), "`x` has NA in row 4, column 2")
})
