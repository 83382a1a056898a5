# Searches in blocks, of data in memory, delayed or on disk, and on workers. All give the result of
# one search in memory.

every_metric <- c(dist_metrics, correlations)

# A grid with duplicates: nearly all distances are tied, also across block boundaries.
ties <- unname(as.matrix(expand.grid(1:5, 1:5, 1:3)))[rep(1:75, length.out = 97), ]

test_that("blocks of any size change nothing", {
  x <- blobs(61, 4)
  query <- blobs(23, 4, seed = 2)
  for (metric in every_metric) {
    whole <- gknn(x, 5, metric = metric)
    of_query <- gknn(x, 5, query, metric)
    for (rows in c(1, 7, 60, 61, 1000)) {
      expect_identical(gknn(x, 5, metric = metric, block_rows = rows), whole)
      expect_identical(gknn(x, 5, query, metric, block_rows = rows), of_query)
    }
  }
  expect_identical(gknn(x, 5, block_rows = 9, progress = TRUE), gknn(x, 5))
  for (k in c(1, 8, 96)) {
    expect_identical(gknn(ties, k, block_rows = 10), gknn(ties, k))
    expect_identical(gknn(ties, k, block_rows = 10, metric = "manhattan"),
                     gknn(ties, k, metric = "manhattan"))
  }
})

test_that("delayed matrices are read in blocks, with the same result", {
  x <- blobs(61, 4)
  query <- blobs(23, 4, seed = 2)
  for (metric in every_metric) {
    whole <- gknn(x, 5, metric = metric)
    of_query <- gknn(x, 5, query, metric)
    d <- delayed(x, 22)
    expect_length(DelayedArray::rowAutoGrid(d), 3)
    expect_identical(gknn(d, 5, metric = metric), whole)
    expect_identical(gknn(d, 5, metric = metric, block_rows = 33), whole)
    expect_identical(gknn(d, 5, query, metric), of_query)
  }
  # X, query or both are delayed, and k exceeds the number of rows in a block.
  expect_identical(gknn(delayed(x, 9), 15, DelayedArray::DelayedArray(query)), gknn(x, 15, query))
  expect_identical(gknn(x, 5, DelayedArray::DelayedArray(query)), gknn(x, 5, query))
  expect_identical(gknn(delayed(x, 100), 5), gknn(x, 5))
  # Ties across block boundaries.
  for (k in c(8, 96)) expect_identical(gknn(delayed(ties, 20), k), gknn(ties, k))
  # Delayed operations: a transposition, a product and integers.
  whole <- round(t(x))
  storage.mode(whole) <- "integer"
  expect_identical(gknn(2L * DelayedArray::t(delayed(whole, 10)), 3), gknn(2 * t(whole), 3))
})

test_that("a subset of delayed rows has the neighbours that these rows have", {
  x <- round(blobs(61, 4))
  rows <- c(61L, 3L, 3L, 17L, 41L, 20L)
  # A row of zeros has no Canberra distance from itself.
  x[17, ] <- 0
  for (metric in c("euclidean", "canberra", "spearman")) {
    if (metric == "spearman") x[17, ] <- 1:4
    whole <- gknn(x, 5, metric = metric)
    for (data in list(x, delayed(x, 22))) {
      for (block_rows in list(NULL, 2)) {
        found <- gknn(data, 5, metric = metric, subset = rows, block_rows = block_rows)
        expect_identical(found$index, whole$index[rows, ])
        expect_identical(found$distance, whole$distance[rows, ])
      }
    }
  }
  found <- gknn(delayed(x, 22), 5, delayed(x, 9), subset = rows, get.distance = FALSE)
  expect_identical(found$index, gknn(x, 5, x)$index[rows, ])
  expect_null(found$distance)
  bad <- x
  bad[33, 2] <- NA
  expect_refused(gknn(delayed(bad, 6), 1, subset = 33), "`x` has NA in row 33, column 2", "gknn")
})

test_that("data may be on disk", {
  x <- some_cells(300)
  h <- on_disk(x, 70)
  expect_identical(gknn(h, 12), gknn(x, 12))
  expect_identical(gknn(h, 12, h[1:5, ], "pearson"), gknn(x, 12, x[1:5, ], "pearson"))
})

test_that("workers share the blocks, with the same result", {
  x <- some_cells(300)
  query <- some_cells(90) + 0.5
  workers <- snow()
  BiocParallel::bpstart(workers)
  on.exit(BiocParallel::bpstop(workers))
  for (metric in c("euclidean", "spearman")) {
    expect_identical(gknn(x, 6, metric = metric, BPPARAM = workers), gknn(x, 6, metric = metric))
  }
  expect_identical(gknn(x, 6, query, block_rows = 17, BPPARAM = workers), gknn(x, 6, query))
  expect_identical(gknn(x, 6, subset = 250:100, BPPARAM = workers), gknn(x, 6, subset = 250:100))
  expect_identical(gknn(x, 6, query[1, , drop = FALSE], BPPARAM = workers),
                   gknn(x, 6, query[1, , drop = FALSE]))
  skip_if_not_installed("HDF5Array")
  h <- on_disk(x, 70)
  expect_identical(gknn(h, 6, block_rows = 50, BPPARAM = workers), gknn(x, 6))
})

test_that("workers may be forks of a process that has searched before", {
  x <- some_cells(300)
  whole <- gknn(x, 6)
  expect_identical(gknn(x, 6, block_rows = 50, BPPARAM = forks()), whole)
  expect_identical(gknn(x, 6, BPPARAM = BiocParallel::SerialParam()), whole)
  # Data in blocks, too: a fork that uses threads of the first process waits for ever.
  in_blocks <- observations(function(first, last) x[first:last, , drop = FALSE], 300)
  expect_identical(gknn(in_blocks, 6)$index, unname(whole$index))
  expect_identical(gknn(in_blocks, 6, block_rows = 50, BPPARAM = forks())$index,
                   unname(whole$index))
})

test_that("threads are shared by workers that are here", {
  workers <- forks()
  threads <- function(threads, workers) worker_threads(threads, workers, NULL)
  before <- options(mc.cores = 7)
  on.exit(options(before))
  # Fewer than 7 if the environment has a limit.
  all <- default_threads()
  half <- max(1L, all %/% 2L)
  expect_identical(threads(NULL, NULL), all)
  expect_identical(threads(NULL, workers), half)
  expect_identical(threads(NULL, BiocParallel::MulticoreParam(9)), 1L)
  expect_identical(threads(4, workers), 4L)
  expect_identical(threads(NULL, BiocParallel::SnowParam(2)), half)
  expect_identical(threads(NULL, BiocParallel::SnowParam(c("localhost", "localhost"))), half)
  expect_null(threads(NULL, BiocParallel::SnowParam(c("localhost", "far.example"))))
  expect_refused(gknn(blobs(9, 2), 1, threads = 0, BPPARAM = workers), "`threads` is 0",
                 by = "gknn")
})

test_that("errors name the row in the whole data for invalid values and rows", {
  refused <- function(object, message) expect_refused(object, message, by = "gknn")
  x <- blobs(40, 3)
  bad <- x
  bad[33, 2] <- NA
  refused(gknn(delayed(bad, 6), 1), "`x` has NA in row 33, column 2")
  refused(gknn(x, 1, delayed(bad, 6)), "`query` has NA in row 33, column 2")
  bad <- x
  bad[c(5, 33), ] <- 3
  for (data in list(bad, delayed(bad, 6))) {
    refused(gknn(data, 1, metric = "pearson", block_rows = 10), "constant in rows 5 and 33;")
    refused(gknn(x, 1, data, "pearson", block_rows = 10), "`query` is constant in rows 5 and 33;")
    refused(gknn(data, 1, bad[5, , drop = FALSE], "spearman", block_rows = 10),
            "`x` is constant in rows 5 and 33 and `query` in row 1;")
  }
  zeros <- x
  zeros[8, ] <- 0
  expect_identical(gknn(delayed(zeros, 6), 3, metric = "canberra"),
                   gknn(zeros, 3, metric = "canberra"))
  refused(gknn(delayed(zeros, 6), 3, zeros[8, , drop = FALSE], "canberra"),
          "`x` is zero in row 8 and `query` in row 1;")
  refused(gknn(zeros, 3, zeros[8, , drop = FALSE], "canberra"),
          "`x` is zero in row 8 and `query` in row 1;")
  zeros[30, ] <- 0
  refused(gknn(delayed(zeros, 6), 3, metric = "canberra"), "zero in rows 8 and 30;")
  refused(gknn(delayed(x[, 1, drop = FALSE], 6), 3, metric = "pearson"), "needs at least 2")
})

test_that("wrong input is refused by name", {
  refused <- function(object, message) expect_refused(object, message, by = "gknn")
  x <- blobs(10, 3)
  refused(gknn(x, 1, BPPARAM = 2), "`BPPARAM` is 2; it must be what BiocParallel's")
  refused(gknn(x, 1, BPPARAM = list()), "`BPPARAM` is a list")
  for (rows in list(0, 1.5, NA, "a", 1:2)) {
    refused(gknn(x, 1, block_rows = rows), "`block_rows` is")
  }
  refused(gknn(x, 1, x[0, ]), "`query` has no rows")
  d <- delayed(x, 4)
  refused(gknn(d, 0), "a whole number of at least 1 and at most 9")
  refused(gknn(d, 1, x[, 1:2]), "`query` has 2 columns; it must have as many as `x`, 3")
  refused(gknn(x, 1, d[, 1:2]), "`query` has 2 columns")
  refused(gknn(d[, 0], 1), "`x` has no columns")
  refused(gknn(d[0, ], 1), "`x` has no rows")
  refused(gknn(delayed(array(letters[1:6], 3:2), 4), 1), "of type character")
})

default_blocks()
