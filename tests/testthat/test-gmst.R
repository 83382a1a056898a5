# Prim's algorithm in plain R. Edges of equal weight are ordered by their ends.
prim <- function(d) {
  n <- nrow(d)
  edges <- which(upper.tri(d), arr.ind = TRUE)
  edges <- data.frame(source = edges[, 1], target = edges[, 2], weight = d[edges])
  edges <- edges[order(edges$weight, edges$source, edges$target), ]
  inside <- 1
  taken <- integer(0)
  while (length(inside) < n) {
    crossing <- which((edges$source %in% inside) != (edges$target %in% inside))
    taken <- c(taken, crossing[1])
    inside <- c(inside, setdiff(unlist(edges[crossing[1], 1:2]), inside))
  }
  tree <- edges[sort(taken), ]
  rownames(tree) <- NULL
  tree
}

expect_minimal <- function(x, metric = "euclidean", ...) {
  d <- unname(as.matrix(gdist(x, metric, ...)))
  expect_identical(gmst(x, metric, ...), prim(d))
}

test_that("the tree is that of Prim's algorithm, under all metrics", {
  for (metric in c(dist_metrics, correlations)) {
    expect_minimal(blobs(40, 5), metric)
    expect_minimal(round(blobs(40, 5, seed = 2)), metric)
    expect_minimal(blobs(25, 40, seed = 3), metric)
  }
  expect_minimal(blobs(40, 5), "pearson", absolute = TRUE)
  expect_minimal(round(blobs(40, 5)), "canberra", zero_over_zero = "1")
  expect_minimal(blobs(40, 5), "minkowski", p = 3)
})

test_that("ties, duplicates and small shapes have one tree", {
  grid <- as.matrix(expand.grid(1:6, 1:6))
  expect_minimal(grid)
  expect_minimal(grid, "maximum")
  x <- blobs(12, 3)
  expect_minimal(rbind(x, x, x))
  expect_minimal(matrix(1, 10, 2))
  expect_minimal(matrix(c(5, 1, 2, 9)))
  expect_minimal(cbind(blobs(20, 2), 4))
  expect_identical(gmst(rbind(c(0, 0), c(3, 4))), data.frame(source = 1L, target = 2L, weight = 5))
})

test_that("the weights are the heights of single linkage, bit for bit", {
  cells <- some_cells(1500)
  for (metric in c("euclidean", "manhattan", "maximum", "canberra")) {
    expect_identical(gmst(cells, metric)$weight, hclust(dist(cells, metric), "single")$height)
  }
})

test_that("package fastcluster finds the same tree", {
  skip_if_not_installed("fastcluster")
  x <- blobs(800, 6)
  expect_equal(gmst(x)$weight, fastcluster::hclust.vector(x, "single")$height)
})

test_that("the number of threads changes nothing", {
  cells <- some_cells(3000)
  expect_identical(gmst(cells, threads = 1), gmst(cells, threads = 2))
})

test_that("clusters far apart are joined by their nearest ends", {
  x <- blobs(300, 3)
  x[101:200, ] <- x[101:200, ] + 1e4
  x[201:300, ] <- x[201:300, ] - 1e5
  expect_minimal(x)
})

test_that("wrong input is refused by name", {
  refused <- function(object, message) expect_refused(object, message, by = "gmst")
  x <- blobs(10, 3)
  refused(gmst(x[1, , drop = FALSE]), "`x` has 1 row")
  refused(gmst(1:4), "`x` is a vector of length 4; use matrix(x)")
  refused(gmst(x, "average"), "`metric` is \"average\"")
  x[3, 1] <- NaN
  refused(gmst(x), "`x` has NaN in row 3, column 1; every value must be finite")
  x[3, ] <- 1
  expect_error(gmst(x, "pearson"), "constant in row 3;", class = "gmhclust_error_input")
})

test_that("forks find trees of equal observations after the process that they are forks of", {
  skip_on_os("windows")
  x <- some_cells(60)[rep(1:60, 3), ]
  whole <- gmst(x)
  # A fork that uses threads of the first process waits for ever.
  found <- parallel::mclapply(1:2, function(i) gmst(x), mc.cores = 2)
  expect_identical(found, list(whole, whole))
})
