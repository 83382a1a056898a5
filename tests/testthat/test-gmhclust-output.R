# gmhclust(output = , part = ): merges within apriori clusters in files.

x <- as.matrix(lymphocytes()[seq(1, 20000, by = 12), 1:5])
labels <- c(0L, rep(3:14, length.out = nrow(x) - 1))

# Small files.
local_files_of <- function(members, env = parent.frame()) {
  local_function("members_of_file", function() members, env)
}

tree_of <- function(...) {
  tree <- gmhclust(x, threshold = 30, apriori = labels, warn = FALSE, ...)
  tree[setdiff(names(tree), "call")]
}

test_that("a folder of merges changes no tree, and is used again", {
  local_files_of(300)
  expected <- tree_of(distance = "centroid")
  folder <- file.path(withr::local_tempdir(), "new", "folder")
  expect_identical(tree_of(distance = "centroid", output = folder), expected)
  files <- list.files(folder, full.names = TRUE)
  expect_gt(length(files), 3)
  expect_true(all(grepl("^merges-[0-9a-f]{16}[.]npy$", basename(files))))

  before <- file.mtime(files)
  Sys.setFileTime(files, "2020-01-01")
  expect_identical(tree_of(distance = "centroid", output = folder), expected)
  expect_true(all(file.mtime(files) < as.POSIXct("2020-01-02")))

  # A file that is lost, one that is cut off, one with another value.
  unlink(files[1])
  bytes <- readBin(files[2], "raw", 1e6)
  writeBin(bytes[1:200], files[2])
  damaged <- readBin(files[3], "raw", 1e6)
  damaged[length(damaged) - 100] <- xor(damaged[length(damaged) - 100], as.raw(1))
  writeBin(damaged, files[3])
  Sys.setFileTime(files[-1], "2020-01-01")
  expect_identical(tree_of(distance = "centroid", output = folder), expected)
  expect_identical(file.mtime(files) > as.POSIXct("2020-01-02"), seq_along(files) <= 3)
  expect_identical(readBin(files[2], "raw", 1e6), bytes)
  expect_length(list.files(folder), length(files))

  # Other data, labels and options have files of their own.
  full <- tree_of()
  expect_identical(tree_of(output = folder), full)
  expect_length(list.files(folder), 2 * length(files))
  other <- x
  other[700, 2] <- other[700, 2] + 1
  expected <- gmhclust(other, apriori = labels, warn = FALSE)$height
  found <- gmhclust(other, apriori = labels, warn = FALSE, output = folder)
  expect_identical(found$height, expected)
})

test_that("files are arrays of NumPy", {
  folder <- withr::local_tempdir()
  tree_of(output = folder)
  files <- list.files(folder, full.names = TRUE)
  expect_length(files, 1)
  merges <- as.matrix(observations(files))
  expect_identical(dim(merges), c(sum(labels > 0) - 12L + 1L, 3L))
  expect_true(all(merges[-nrow(merges), 1] < merges[-nrow(merges), 2]))
})

test_that("parts fill a folder together", {
  local_files_of(200)
  folder <- withr::local_tempdir()
  expected <- tree_of(distance = "centroid")
  part <- function(i, n) {
    withVisible(gmhclust(x, threshold = 30, apriori = labels, distance = "centroid", warn = FALSE,
                         output = folder, part = c(i, n)))
  }
  expect_identical(part(2, 3), list(value = NULL, visible = FALSE))
  some <- list.files(folder)
  expect_identical(part(1, 3)$value, NULL)
  expect_gt(length(list.files(folder)), length(some))
  expect_identical(part(3, 3)$value, NULL)
  files <- list.files(folder, full.names = TRUE)
  Sys.setFileTime(files, "2020-01-01")
  expect_identical(tree_of(distance = "centroid", output = folder), expected)
  expect_true(all(file.mtime(files) < as.POSIXct("2020-01-02")))
})

test_that("a part without merges within clusters makes no tree", {
  folder <- withr::local_tempdir()
  part <- function(...) gmhclust(x, 30, ..., warn = FALSE, output = folder, part = c(1, 3))
  expect_null(part(labels, apriori_intra = FALSE))
  expect_null(part(rep(1, nrow(x))))
})

test_that("workers write into the folder", {
  folder <- withr::local_tempdir()
  cluster <- parallel::makeCluster(2)
  withr::defer(parallel::stopCluster(cluster))
  expect_identical(tree_of(output = folder, BPPARAM = cluster), tree_of())
  expect_length(list.files(folder), 1)
})

test_that("a folder that cannot be written to is noticed before the work", {
  folder <- withr::local_tempdir()
  local_function("check_writable_folder", function(folder) {
    refuse("output", "is read-only", "no file can be written there", NULL)
  })
  local_function("cluster_share", function(...) stop("the work has begun"))
  expect_error(tree_of(output = folder), "no file can be written there",
               class = "gmhclust_error_input")
})

test_that("a folder is tried by a file that does not stay", {
  folder <- withr::local_tempdir()
  expect_silent(check_writable_folder(folder))
  expect_length(list.files(folder, all.files = TRUE, no.. = TRUE), 0)
  expect_error(check_writable_folder(file.path(folder, "none")), "no file can be written there",
               class = "gmhclust_error_input")
})

test_that("what does not fit `output` and `part` is an error", {
  folder <- withr::local_tempdir()
  expect_error(gmhclust(x, output = folder), "`output` is given without labels in `apriori`",
               class = "gmhclust_error_input")
  expect_error(gmhclust(x, apriori = 10, output = folder), "without labels",
               class = "gmhclust_error_input")
  expect_error(gmhclust(x, apriori = labels, output = 1), "`output` is 1",
               class = "gmhclust_error_input")
  expect_error(gmhclust(x, apriori = labels, part = c(1, 2)), "`part` is given without `output`",
               class = "gmhclust_error_input")
  expect_error(gmhclust(x, apriori = labels, part = c(3, 2), output = folder),
               "`part` is c\\(3, 2\\)",
               class = "gmhclust_error_input")
  expect_length(list.files(folder), 0)
  file <- tempfile()
  writeLines("", file)
  expect_error(gmhclust(x, apriori = labels, output = file), "`output` is the file",
               class = "gmhclust_error_input")
})
