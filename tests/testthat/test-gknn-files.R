x <- blobs(50, 3)

blocks_in <- function(folder) list.files(folder, "^rows-", full.names = TRUE)

test_that("the result in files is read in parts and as a whole", {
  folder <- tempfile()
  whole <- gknn(x, 4)
  nn <- gknn(x, 4, output = folder, block_rows = 15)
  expect_s3_class(nn, "gknn_files")
  expect_identical(as.list(nn), whole)
  expect_identical(nn[], whole)
  for (rows in list(1, 15:16, c(50, 2, 2, 31), integer(0))) {
    expect_identical(nn[rows], lapply(whole, function(part) part[rows, , drop = FALSE]))
  }
  expect_identical(read_gknn(folder), nn)
  expect_output(print(nn), "4 nearest neighbours of 50 rows (euclidean), in 4 files", fixed = TRUE)
  for (rows in list(0, 51, 1.5, NA, "a", -1, TRUE)) {
    expect_error(nn[rows], "whole numbers from 1 to 50", class = "gmhclust_error_input")
  }
})

test_that("files are what the help page says", {
  folder <- tempfile()
  gknn(x, 4, x[1:7, ], "canberra", output = folder, block_rows = 5)
  expect_setequal(list.files(folder, all.files = TRUE, no.. = TRUE), c(
    "manifest.rds", "rows-0000000001-0000000005.rds", "rows-0000000006-0000000007.rds"
  ))
  whole <- gknn(x, 4, x[1:7, ], "canberra")
  block <- readRDS(file.path(folder, "rows-0000000006-0000000007.rds"))
  expect_identical(block, lapply(whole, function(part) part[6:7, ]))
  manifest <- readRDS(file.path(folder, "manifest.rds"))
  expect_identical(manifest[c("format", "rows", "columns", "among", "k", "block_rows")],
                   list(format = 1L, rows = 7L, columns = 3L, among = 50L, k = 4L, block_rows = 5L))
  expect_identical(manifest$metric$name, "canberra")
  expect_named(manifest$digests, c("X", "query"))
})

test_that("graphs are made of files as of lists, in parts where wanted", {
  folder <- tempfile()
  nn <- gknn(x, 4, output = folder, block_rows = 15)
  edges <- as_edges(gknn(x, 4))
  expect_identical(as_edges(nn), edges)
  rows <- c(40L, 3L)
  of_rows <- edges[c(157:160, 9:12), ]
  rownames(of_rows) <- NULL
  expect_identical(as_edges(nn, rows), of_rows)
  expect_identical(as_edges(gknn(x, 4), rows), of_rows)
  expect_refused(as_edges(nn, 51), "`rows` has 51; they must be whole numbers from 1 to 50",
                 by = "as_edges")
  skip_if_not_installed("igraph")
  expect_equal(igraph::ecount(as_igraph(nn)), 200)
})

test_that("delayed data go to files, and digests do not depend on where data are", {
  folder <- tempfile()
  nn <- gknn(delayed(x, 8), 4, output = folder, block_rows = 15)
  expect_identical(as.list(nn), gknn(x, 4))
  before <- file.mtime(blocks_in(folder))
  expect_identical(gknn(x, 4, output = folder), nn)
  expect_identical(gknn(delayed(x, 50), 4, output = folder), nn)
  expect_identical(file.mtime(blocks_in(folder)), before)
  both <- tempfile()
  nn <- gknn(x, 4, x[9:12, ], output = both)
  expect_identical(gknn(delayed(x, 8), 4, delayed(x[9:12, ], 2), output = both), nn)
})

test_that("an error names the block, keeps what is finished, and the next call goes on", {
  for (workers in list(NULL, forks(), snow())) {
    if (!is.null(workers)) BiocParallel::bpstart(workers)
    folder <- tempfile()
    whole <- gknn(x, 4)
    # A folder in the place of a block: it cannot be written.
    gknn(x, 4, output = folder, block_rows = 10)
    files <- blocks_in(folder)
    unlink(files[c(2, 4, 5)])
    dir.create(files[4])
    old <- as.POSIXct("2020-01-01")
    Sys.setFileTime(files[c(1, 3)], old)
    error <- expect_error(gknn(x, 4, output = folder, BPPARAM = workers), class = "gmhclust_error")
    expect_match(conditionMessage(error), "^rows 31 to 40 of `X`: cannot write ")
    expect_match(conditionMessage(error), "the same call goes on from it", fixed = TRUE)
    expect_identical(conditionCall(error)[[1]], quote(gknn))
    expect_true(file.exists(files[2]))
    expect_length(list.files(folder, "writing"), 0)
    expect_error(read_gknn(folder), "lacks rows 31 to 40", class = "gmhclust_error_input")
    unlink(files[4], recursive = TRUE)
    Sys.setFileTime(files[2], old)
    nn <- gknn(x, 4, output = folder, BPPARAM = workers)
    expect_identical(as.list(nn), whole)
    expect_identical((file.mtime(files) == old)[1:4], c(TRUE, TRUE, TRUE, FALSE))
    if (!is.null(workers)) BiocParallel::bpstop(workers)
  }
})

test_that("what an interrupted call was writing is no block, and goes away", {
  folder <- tempfile()
  gknn(x, 4, output = folder, block_rows = 25)
  file <- blocks_in(folder)[2]
  half <- file.path(folder, "writing-1234")
  writeBin(readBin(file, "raw", 100), half)
  unlink(file)
  expect_error(read_gknn(folder), "lacks rows 26 to 50")
  expect_identical(as.list(gknn(x, 4, output = folder)), gknn(x, 4))
  expect_false(file.exists(half))
  # A file that cannot be written leaves nothing behind.
  expect_error(suppressWarnings(write_whole(1, file.path(folder, "no", "such"))))
  expect_error(suppressWarnings(write_whole(1, folder)), "cannot write")
  expect_length(list.files(dirname(folder), "^writing-"), 0)
})

test_that("a damaged block is named", {
  folder <- tempfile()
  nn <- gknn(x, 4, output = folder, block_rows = 25)
  file <- blocks_in(folder)[2]
  writeBin(readBin(file, "raw", 100), file)
  expect_identical(dim(nn[25]$index), c(1L, 4L))
  expect_error(nn[26], basename(file), class = "gmhclust_error_input")
  saveRDS(list(index = 1, distance = 2), file)
  expect_error(as.list(nn), "has no block of neighbours in ")
})

test_that("the folder of another call is refused, and what differs is said", {
  folder <- tempfile()
  gknn(x, 4, output = folder, block_rows = 25)
  refused <- function(object, message) expect_refused(object, message, by = "gknn")
  refused(gknn(x, 5, output = folder),
          "`output` is the folder of another call: `k` was 4 and is 5; use another folder")
  refused(gknn(x, 4, metric = "manhattan", output = folder),
          "`metric` was \"euclidean\" and is \"manhattan\"")
  refused(gknn(x, 4, metric = "minkowski", p = 3, output = folder),
          "`metric` was \"euclidean\" and is \"minkowski\", `p` was 2 and is 3")
  refused(gknn(x[-1, ], 4, output = folder), "the number of rows was 50 and is 49")
  refused(gknn(x[, -1], 4, output = folder), "the number of columns was 3 and is 2")
  refused(gknn(x, 4, x, output = folder), "the values of `query` were others")
  refused(gknn(x[50:1, ], 4, output = folder), "the values of `X` were others")
  refused(gknn(x, 4, output = folder, block_rows = 24), "`block_rows` was 25 and is 24")
  other <- tempfile()
  dir.create(other)
  expect_identical(as.list(gknn(x, 4, output = other)), gknn(x, 4))
  unlink(file.path(other, "manifest.rds"))
  refused(gknn(x, 4, output = other), "`output` is a folder of other files")
  saveRDS(list(format = 2L), file.path(other, "manifest.rds"))
  refused(gknn(x, 4, output = other), "`output` has a manifest.rds that this version cannot read")
})

test_that("what is no folder is refused", {
  for (output in list(1, NA_character_, "", c("a", "b"))) {
    expect_refused(gknn(x, 4, output = output), "it must be the name of a folder", by = "gknn")
    expect_refused(read_gknn(output), "it must be the name of a folder", by = "read_gknn")
  }
  file <- tempfile()
  writeLines("a", file)
  expect_refused(gknn(x, 4, output = file), "it must be the name of a folder", by = "gknn")
  expect_refused(gknn(x, 4, output = file.path(file, "below")), "such a folder cannot be made",
                 by = "gknn")
  expect_refused(read_gknn(tempdir()), "it must be a folder that gknn() has filled",
                 by = "read_gknn")
})
