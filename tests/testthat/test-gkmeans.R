as_in_stats <- c("cluster", "centers", "withinss", "tot.withinss", "size")

# The result of kmeans(algorithm = "Lloyd") without its warnings.
peer <- function(x, centers, ...) {
  suppressWarnings(stats::kmeans(x, centers, algorithm = "Lloyd", ...))
}

quiet_gkmeans <- function(...) {
  suppressWarnings(gkmeans(...), classes = c("gmhclust_warning_convergence",
                                             "gmhclust_warning_empty"))
}

expect_as_peer <- function(x, centers, ...) {
  fit <- quiet_gkmeans(x, centers, ...)
  expected <- peer(x, centers, ...)
  expect_identical(names(fit), names(expected))
  expect_identical(fit[as_in_stats[c(1, 5)]], expected[as_in_stats[c(1, 5)]])
  # Equal to the last bit, unless R's compiler fused operations.
  expect_equal(fit[as_in_stats], expected[as_in_stats], tolerance = 1e-12)
  expect_identical(fit$totss, expected$totss)
  if (identical(fit$withinss, expected$withinss)) {
    expect_identical(fit$betweenss, expected$betweenss)
  }
  expect_identical(fit$iter, expected$iter)
  expect_identical(fit$ifault, if (fit$iter > list(...)$iter.max) 2L else 0L)
}

test_that("the sum of squares is right where R has no long double", {
  x <- blobs(500, 5)
  device <- check_device("cpu", 2, NULL, NULL)
  job <- job_gkmeans(x, NULL, c(0.2, 0.7), 5L, FALSE, device)
  found <- run_job(job, FALSE, "Clustering", NULL)$squares
  expect_equal(found, sum(scale(x, scale = FALSE)^2), tolerance = 1e-14)
})

test_that("the result is that of stats::kmeans() from the same centers, on random data", {
  for (p in c(1, 2, 5, 40)) {
    x <- blobs(200, p, seed = p)
    for (k in c(2, 7, 30)) {
      for (iterations in c(1, 3, 100)) {
        expect_as_peer(x, x[seq_len(k), , drop = FALSE], iter.max = iterations)
      }
    }
  }
  expect_as_peer(blobs(50, 3), t(c(1, 2, 3)), iter.max = 5)
})

test_that("real cells are clustered as stats::kmeans() does", {
  cells <- some_cells(1500)
  for (k in c(10, 200)) expect_as_peer(cells, cells[seq_len(k), ], iter.max = 20)
})

test_that("ties and duplicates are clustered as stats::kmeans() does", {
  grid <- as.matrix(expand.grid(1:12, 1:12))
  expect_as_peer(grid, grid[c(1, 5, 9, 60, 100, 144), ], iter.max = 50)
  expect_as_peer(grid, rbind(c(3, 3), c(3, 5), c(5, 3), c(5, 5)), iter.max = 1)
  x <- blobs(40, 3)
  expect_as_peer(rbind(x, x, x), x[1:9, ], iter.max = 50)
})

test_that("with n clusters the centers are the observations", {
  x <- blobs(25, 3)
  fit <- gkmeans(x, x)
  expect_identical(fit$cluster, 1:25)
  expect_identical(unname(fit$centers), x)
  expect_identical(fit$withinss, numeric(25))
  expect_setequal(gkmeans(x, 25)$cluster, 1:25)
})

test_that("one cluster has all observations", {
  x <- blobs(30, 3)
  fit <- gkmeans(x, 1)
  expect_identical(fit$cluster, rep(1L, 30))
  expect_equal(fit$centers, rbind("1" = colMeans(x)))
  expect_equal(fit$tot.withinss, fit$totss)
  expect_equal(gkmeans(matrix(rep(0:1, 4)), 1)$totss, 2)
})

test_that("one cluster takes one iteration, as in stats::kmeans()", {
  x <- blobs(30, 3)
  for (most in c(1, 2, 10)) {
    expect_silent(fit <- gkmeans(x, 1, most))
    expect_identical(fit[c("iter", "ifault")], list(iter = 1L, ifault = 0L))
    expect_as_peer(x, t(c(1, 2, 3)), iter.max = most)
    expect_as_peer(x[rep(4, 5), ], x[1, , drop = FALSE], iter.max = most)
  }
})

# By the job for the result of workers, which always adds up parts.
expect_total_of_sum <- function(x) {
  storage.mode(x) <- "double"
  job <- job_gkmeans_result(x, rep(1L, nrow(x)), x[1, , drop = FALSE], 1L, TRUE, 4L)
  found <- run_job(job, FALSE, "Clustering", NULL)
  expect_identical(found$squares, sum(scale(x, scale = FALSE)^2))
}

test_that("sums of squares that threads add up in parts have the bits of sum()", {
  set.seed(12)
  n <- 150000
  kinds <- list(
    matrix(rnorm(2 * n), n), matrix(rpois(2 * n, 3), n), cbind(0, rnorm(n)),
    matrix(exp(rnorm(2 * n, sd = 20)), n), 1e9 + matrix(rnorm(2 * n), n)
  )
  for (x in kinds) expect_total_of_sum(x)
})

test_that("squares halfway between two long doubles are rounded as in sum()", {
  n <- 150000
  # The first column makes a sum of 2^64. The last bit of a long double then is 2, and most squares
  # of the second column are halfway between two numbers.
  signs <- rep(c(1, -1), n / 2)
  x <- cbind(c(2^31 * signs[1:4], numeric(n - 4)), 0, 0)
  for (seed in 1:6) {
    set.seed(seed)
    values <- sample(c(1, 1.5, 3), n / 2, replace = TRUE)
    x[, 2] <- c(values, -sample(values))
    # So many values of 1.5, whose squares add one last bit each, that a bit changes the double.
    with_more <- function(count) {
      x[, 3] <- c(rep(1.5, 2 * count), numeric(n - 2 * count)) * signs
      x
    }
    total <- function(count) sum(with_more(count)^2)
    range <- c(0, 2048)
    while (diff(range) > 1) {
      middle <- sum(range) %/% 2
      range[if (total(middle) == total(0)) 1 else 2] <- middle
    }
    for (count in range) expect_total_of_sum(with_more(count))
  }
})

test_that("sums of squares have the bits of stats::kmeans(), whatever the data", {
  set.seed(6)
  data <- list(
    matrix(rnorm(5000, 1e6), 1000), matrix(rexp(3000) * 10^(-1:1), 1000),
    matrix(sample(4, 300, replace = TRUE), 100), blobs(17, 1), cbind(0, blobs(40, 2)),
    rbind(blobs(10, 3), blobs(10, 3)), data.frame(a = c(0.1, 0.2, 0.7), row.names = letters[1:3])
  )
  for (x in data) {
    centers <- unique(as.matrix(x))[1:3, , drop = FALSE]
    for (most in c(1, 50)) expect_as_peer(x, centers, iter.max = most)
    # A matrix of one value would be the number of clusters.
    if (ncol(x) > 1) expect_as_peer(x, centers[1, , drop = FALSE], iter.max = 1)
  }
})

test_that("a matrix of one center in one column is no number of clusters", {
  x <- matrix(c(1, 2, 6))
  found <- gkmeans(x, matrix(0.5))
  expect_identical(found$size, 3L)
  expect_equal(as.vector(found$centers), 3)
})

test_that("one column is accepted, with its centers as a vector", {
  x <- matrix(c(1, 2, 10, 11, 12))
  fit <- gkmeans(x, c(2, 11))
  expect_identical(fit$cluster, c(1L, 1L, 2L, 2L, 2L))
  expect_identical(fit$centers, matrix(c(1.5, 11), dimnames = list(1:2, NULL)))
  expect_identical(fit$iter, 2L)
})

test_that("the result is an object of class kmeans with names where X has them", {
  x <- as.matrix(iris[1:4])
  rownames(x) <- paste0("flower", seq_len(150))
  set.seed(1)
  fit <- gkmeans(x, 3, nstart = 5)
  expect_s3_class(fit, "kmeans", exact = TRUE)
  expect_identical(names(fit$cluster), rownames(x))
  expect_identical(dimnames(fit$centers), list(as.character(1:3), colnames(x)))
  expect_output(print(fit), "K-means clustering with 3 clusters of sizes")
  expect_identical(dim(fitted(fit)), dim(x))
  expect_equal(fit$totss, fit$tot.withinss + fit$betweenss)
  types <- vapply(fit, typeof, "")
  expected <- vapply(stats::kmeans(x, 3), typeof, "")
  expect_identical(types, expected)
  expect_null(names(gkmeans(as.data.frame(iris[1:4]), 3)$cluster))
})

test_that("set.seed() makes results repeatable, and random centers are those of stats::kmeans()", {
  x <- blobs(100, 3)
  drawn <- function(...) {
    set.seed(7)
    quiet_gkmeans(x, 5, ...)
  }
  expect_identical(drawn(), drawn())
  expect_identical(drawn(init = "random", nstart = 3), drawn(init = "r", nstart = 3))
  for (nstart in c(1, 4)) {
    set.seed(7)
    expected <- peer(x, 5, nstart = nstart)
    expect_equal(drawn(init = "random", nstart = nstart)[as_in_stats], expected[as_in_stats])
  }
  # With duplicates, stats::kmeans() draws again.
  x <- rbind(x[1:6, ], x[1:3, ], x[1:3, ])
  set.seed(7)
  expected <- peer(x, 5)
  expect_equal(drawn(init = "random")[as_in_stats], expected[as_in_stats])
})

test_that("more starts give no worse clusters", {
  x <- blobs(150, 2)
  set.seed(3)
  single <- vapply(1:4, function(i) quiet_gkmeans(x, 12)$tot.withinss, 0)
  expect_gt(length(unique(single)), 1)
  set.seed(3)
  expect_identical(quiet_gkmeans(x, 12, nstart = 4)$tot.withinss, min(single))
})

test_that("k-means++ spreads its centers", {
  # Six far islands, one of them tiny: every one gets a center.
  set.seed(4)
  x <- matrix(rnorm(600), 300) + 1000 * rep(c(1:5, 9), c(60, 60, 60, 60, 59, 1))
  for (seed in 1:10) {
    set.seed(seed)
    expect_identical(sort(gkmeans(x, 6)$size), c(1L, 59L, 60L, 60L, 60L, 60L))
  }
})

test_that("the number of threads changes nothing", {
  cells <- some_cells(3000)
  fits <- lapply(1:2, function(threads) {
    set.seed(5)
    quiet_gkmeans(cells, 100, 15, threads = threads)
  })
  expect_identical(fits[[1]], fits[[2]])
})

test_that("too few iterations are reported", {
  x <- blobs(200, 2)
  warned <- expect_warning(fit <- gkmeans(x, x[1:20, ], iter.max = 1),
                           "did not converge in 1 iteration$",
                           class = "gmhclust_warning_convergence")
  expect_identical(as.character(conditionCall(warned)[[1]]), "gkmeans")
  expect_identical(fit[c("iter", "ifault")], list(iter = 2L, ifault = 2L))
  expect_warning(gkmeans(x, x[1:20, ], 2), "in 2 iterations$")
  expect_silent(fit <- gkmeans(x, x[1:20, ], 200))
  expect_identical(fit$ifault, 0L)
  again <- gkmeans(x, fit$centers)
  expect_identical(again$iter, 2L)
  expect_identical(again$centers, fit$centers)
})

test_that("empty clusters keep their center and are reported", {
  x <- matrix(c(0, 1, 10, 11))
  expect_warning(fit <- gkmeans(x, c(0, 100, 10)), "^1 cluster is empty",
                 class = "gmhclust_warning_empty")
  expect_identical(as.vector(fit$centers), c(0.5, 100, 10.5))
  expect_identical(fit$size, c(2L, 0L, 2L))
  expect_identical(fit$withinss, c(0.5, 0, 0.5))
  expect_warning(gkmeans(x, c(0, 100, 101)), "^2 clusters are empty")
})

test_that("wrong input is refused by name", {
  refused <- function(object, message) expect_refused(object, message, by = "gkmeans")
  x <- blobs(10, 3)
  for (k in list(0, 11, 2.5, NA, Inf, "3")) {
    refused(gkmeans(x, k), "it must be a whole number of at least 1 and at most 10")
  }
  refused(gkmeans(x, NULL), "`centers` is NULL")
  refused(gkmeans(x, x[1:2, 1:2]), "`centers` has 2 columns; it must have as many as `x`, 3")
  refused(gkmeans(x, c(1, 2)), "`centers` has 1 column;")
  refused(gkmeans(iris[1:4], iris[1:2, 4:1]), "`centers` has the columns of `x` in another order")
  refused(gkmeans(x, rbind(x, 1)), "`centers` has 11 rows; it must have at most as many as `x`, 10")
  refused(gkmeans(x, x[0, ]), "`centers` has no rows")
  refused(gkmeans(x, x[c(1, 2, 1), ]), "`centers` has row 3 twice; initial centers must be")
  refused(gkmeans(x, rbind(x[1, ], NA)), "`centers` has NA in row 2")
  for (count in list(0, 1.5, NA, "a", c(1, 2))) {
    refused(gkmeans(x, 2, count), "`iter.max` is")
    refused(gkmeans(x, 2, nstart = count), "`nstart` is")
  }
  refused(gkmeans(x, 2, init = "furthest"), "`init` is \"furthest\"")
  refused(gkmeans(x[1, , drop = FALSE], 1), "`x` has 1 row")
  refused(gkmeans(1:5, 1), "`x` is a vector of length 5")
  refused(gkmeans(x, 2, threads = 0), "`threads` is 0")
  refused(gkmeans(x, 2, backend = "gpu"), "`backend` is \"gpu\"")
  refused(gkmeans(x * 1e200, 2), "overflow")
  x <- x[c(1, 2, 3, 1, 2, 3), ]
  for (init in c("kmeans++", "random")) {
    refused(gkmeans(x, 4, init = init),
            "`x` has 3 distinct rows; there are more cluster centers than distinct data points, 4")
    expect_identical(sort(gkmeans(x, 3, init = init)$size), c(2L, 2L, 2L))
  }
})

test_that("cells converge in the default number of iterations", {
  cells <- some_cells(4000)
  for (k in c(2, 10, 50)) {
    set.seed(k)
    expect_no_warning(fit <- gkmeans(cells, k))
    expect_identical(fit$ifault, 0L)
  }
})

test_that("differences whose squares underflow are refused if centers are drawn", {
  x <- matrix(c(1, 2, 10, 11) * 1e-170)
  for (init in c("kmeans++", "random")) {
    expect_error(gkmeans(x, 2, init = init), "`x` has values that differ by at most 1e-169",
                 class = "gmhclust_error_input")
  }
  set.seed(1)
  expect_identical(sort(gkmeans(x * 1e20, 2)$size), c(2L, 2L))
})
