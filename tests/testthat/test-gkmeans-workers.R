# gkmeans() with workers, beside one process.

same_fit <- function(x, workers, ..., seed = 1) {
  fit <- function(...) {
    set.seed(seed)
    suppressWarnings(gkmeans(x, ...))
  }
  expect_identical(fit(..., BPPARAM = workers), fit(...))
}

test_that("workers of a cluster find the clusters of one process, bit for bit", {
  workers <- cluster_of(2)
  on.exit(parallel::stopCluster(workers))
  cells <- some_cells(600)
  same_fit(cells, workers, 20)
  same_fit(cells, workers, 20, iter.max = 2)
  same_fit(cells, workers, 5, nstart = 3)
  same_fit(cells, workers, 5, nstart = 3, init = "random")
  same_fit(cells, workers, cells[1:9, ], iter.max = 1)
  same_fit(cells, workers, 1)
  # Fewer rows for each worker than centers, empty clusters, two rows, ties.
  same_fit(cells, workers, 400)
  same_fit(cells, workers, rbind(cells[1:3, ], cells[1, ] + 1e6))
  same_fit(cells[1:2, ], workers, 2)
  same_fit(round(cells / 30), workers, 12)
  same_fit(cells, workers[1], 20)
})

test_that("workers read their own rows of files", {
  workers <- cluster_of(2)
  on.exit(parallel::stopCluster(workers))
  values <- unname(as.matrix(some_cells(500)))
  same_fit(on_disk(values, 70), workers, 20)
  default_blocks()
  set.seed(1)
  fit <- gkmeans(values, 20)
  of_function <- observations(function(first, last) values[first:last, , drop = FALSE], rows = 500)
  set.seed(1)
  expect_identical(gkmeans(of_function, 20, BPPARAM = workers)[names(fit)], unclass(fit))
})

test_that("workers keep their rows until the call ends", {
  workers <- cluster_of(2)
  on.exit(parallel::stopCluster(workers))
  cells <- as.matrix(some_cells(600))
  kept <- function() {
    unlist(parallel::clusterCall(workers, function() length(names(gmhclust:::kept_rows))))
  }
  share <- distribute_rows(cells, cells, workers, check_device("cpu", NULL, NULL, NULL, workers),
                           NULL)
  expect_identical(share$assign(cells[1:3, ], NULL), share$assign(cells[1:3, ], NULL))
  expect_identical(kept(), c(3L, 3L))
  # A worker that has lost its rows gets them again.
  parallel::clusterCall(workers[2], function() gmhclust:::forget_rows())
  found <- share$assign(cells[1:3, ], NULL)
  expect_identical(found, share$assign(cells[1:3, ], NULL))
  share$end()
  expect_identical(kept(), c(0L, 0L))
})

test_that("workers of BiocParallel find the same clusters, started or not, and so do forks", {
  cells <- some_cells(300)
  workers <- snow()
  same_fit(cells, workers, 10)
  expect_false(BiocParallel::bpisup(workers))
  BiocParallel::bpstart(workers)
  on.exit(BiocParallel::bpstop(workers))
  same_fit(cells, workers, 10)
  expect_true(BiocParallel::bpisup(workers))
  same_fit(cells, forks(), 10)
})

test_that("an error on a worker names its rows", {
  workers <- cluster_of(2)
  on.exit(parallel::stopCluster(workers))
  values <- unname(as.matrix(some_cells(200)))
  count <- tempfile()
  # Cells that can be read here, and once more by nobody.
  cells <- observations(function(first, last) {
    if (file.exists(count)) stop("the disk is gone")
    if (last == 200) file.create(count)
    values[first:last, , drop = FALSE]
  }, rows = 200)
  error <- expect_error(gkmeans(cells, 5, BPPARAM = workers), class = "gmhclust_error")
  expect_match(conditionMessage(error), "rows 1 to 100 of `x`: .*the disk is gone")
  expect_refused(gkmeans(values, 3, BPPARAM = "2"), "`BPPARAM` is \"2\"", by = "gkmeans")
})

test_that("a lost worker is an error of its class, and workers are stopped", {
  for (workers in list(forks(), snow())) {
    me <- Sys.getpid()
    values <- unname(as.matrix(some_cells(200)))
    rows <- local({
      me <- me
      values <- values
      function(first, last) {
        if (Sys.getpid() != me) tools::pskill(Sys.getpid(), 9)
        values[first:last, , drop = FALSE]
      }
    })
    error <- expect_error(
      suppressWarnings(gkmeans(observations(rows, rows = 200), 5, BPPARAM = workers)),
      class = "gmhclust_error_worker"
    )
    expect_match(conditionMessage(error), "unfinished work: rows 1 to 100")
    expect_false(BiocParallel::bpisup(workers))
    expect_true(dir.exists(tempdir()))
  }
})
