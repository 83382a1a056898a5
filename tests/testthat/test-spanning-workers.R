# gmst() and single linkage with workers, beside one process.

same_tree <- function(x, workers, ...) {
  expect_identical(gmst(x, ..., BPPARAM = workers), gmst(x, ...))
  expect_same_tree(ghclust(x, "single", ..., BPPARAM = workers), ghclust(x, "single", ...))
}

test_that("workers find the spanning tree of one process, bit for bit", {
  workers <- cluster_of(2)
  on.exit(parallel::stopCluster(workers))
  cells <- some_cells(700)
  same_tree(cells, workers)
  same_tree(cells, workers, min_points = 5)
  same_tree(cells, workers, min_points = 20)
  same_tree(cells, workers, metric = "manhattan", min_points = 2)
  same_tree(cells, workers, metric = "pearson")
  same_tree(cells, workers[1])
  # Ties, many equal rows, two rows, and as many points as rows.
  rounded <- round(cells / 50)
  same_tree(rounded, workers)
  same_tree(rounded, workers, min_points = 6)
  same_tree(rbind(cells[1:30, ], cells[rep(1:3, 20), ]), workers, min_points = 4)
  same_tree(cells[1:2, ], workers)
  same_tree(cells[1:12, ], workers, min_points = 12)
  core <- function(...) ghclust(cells, "single", min_points = 4, ...)$core
  expect_identical(core(BPPARAM = workers), core())
})

test_that("workers of BiocParallel read the rows of files", {
  values <- unname(as.matrix(some_cells(300)))
  on.exit(default_blocks())
  workers <- snow()
  expect_identical(gmst(on_disk(values, 70), BPPARAM = workers), gmst(values))
  expect_identical(gmst(on_disk(round(values / 50), 70), min_points = 4, BPPARAM = workers),
                   gmst(round(values / 50), min_points = 4))
  expect_same_tree(ghclust(on_disk(values, 70), "single", BPPARAM = workers),
                   ghclust(values, "single"))
})

test_that("the loss of a worker is an error of its class", {
  workers <- cluster_of(2)
  on.exit(try(parallel::stopCluster(workers), silent = TRUE))
  parallel::clusterCall(workers[1], function() tools::pskill(Sys.getpid(), tools::SIGKILL)) |>
    try(silent = TRUE)
  expect_error(gmst(some_cells(300), BPPARAM = workers), class = "gmhclust_error_worker")
})

test_that("what workers do not share is refused", {
  skip_if_not_installed("BiocParallel")
  workers <- BiocParallel::SerialParam()
  refused <- function(code) {
    expect_error(code, "`BPPARAM` is given; workers share only \"single\" linkage",
                 class = "gmhclust_error_input")
  }
  x <- matrix(sin(1:40), 10)
  refused(ghclust(x, "average", BPPARAM = workers))
  refused(ghclust(dist(x), "single", BPPARAM = workers))
  x[2, 2] <- NA
  expect_error(ghclust(x, "single", BPPARAM = workers), "has NA in row 2",
               class = "gmhclust_error_input")
  refused(ghclust(x, "single", missing = "pairwise", BPPARAM = workers))
})

test_that("an error of a worker names its rows", {
  skip_if_not_installed("BiocParallel")
  x <- rbind(matrix(sin(1:40), 10), 1)
  message <- conditionMessage(expect_error(
    gmst(x, metric = "pearson", BPPARAM = BiocParallel::SerialParam()),
    class = "gmhclust_error_input"
  ))
  expect_match(message, "11", fixed = TRUE)
})
