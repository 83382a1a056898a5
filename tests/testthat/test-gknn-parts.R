# gknn() with `part`: calls that share a folder.

x <- blobs(50, 3)

test_that("calls that compute one part each fill a folder, in any order", {
  folder <- tempfile()
  whole <- gknn(x, 4)
  nn <- gknn(x, 4, output = folder, part = c(3, 4), block_rows = 6)
  expect_s3_class(nn, "gknn_files")
  # Blocks of 6 rows: 2 for each part, and 3 for the last.
  expect_setequal(basename(blocks_in(folder)), basename(c(
    file_in(folder, "rows", c(25, 30), "sha256"), file_in(folder, "rows", c(31, 36), "sha256")
  )))
  expect_identical(nn[30], lapply(whole, function(values) values[30, , drop = FALSE]))
  expect_error(nn[1], "no sound block of rows 1 to 6")
  expect_error(read_gknn(folder), "lacks rows 1 to 24, 37 to 50; repeat", class = "gmhclust_error")
  expect_output(print(nn), "Missing: rows 1 to 24, 37 to 50", fixed = TRUE)
  gknn(x, 4, output = folder, part = c(4, 4), threads = 1)
  gknn(x, 4, output = folder, part = c(1, 4))
  expect_error(read_gknn(folder), "lacks rows 13 to 24; repeat")
  # Another division into parts is possible, too.
  gknn(x, 4, output = folder, part = c(1, 2))
  expect_identical(as.list(read_gknn(folder)), whole)
  expect_false(any(grepl("Missing", capture.output(print(nn)))))
  # A part computes what is missing or damaged of its own blocks.
  flip_bit(file_in(folder, "index", c(1, 6)), 8 * 200)
  unlink(file_in(folder, "index", c(43, 48)))
  gknn(x, 4, output = folder, part = c(1, 4))
  expect_identical(nn[1:6], lapply(whole, function(values) values[1:6, ]))
  expect_error(read_gknn(folder), "lacks rows 43 to 48;")
  expect_identical(as.list(gknn(x, 4, output = folder)), whole)
})

test_that("parts have about equal numbers of blocks, and may have none", {
  files <- list(rows = 50, block_rows = 6)
  for (n in c(1, 2, 4, 9, 20)) {
    parts <- lapply(seq_len(n), function(i) blocks_of_part(files, c(i, n)))
    blocks <- unlist(lapply(parts, function(part) if (part[1] <= part[2]) part[1]:part[2]))
    expect_identical(blocks, 1:9)
    expect_lte(diff(range(vapply(parts, diff, 0L))), 1)
  }
  folder <- tempfile()
  for (i in 1:3) gknn(x[1:2, ], 1, output = folder, part = c(i, 3), block_rows = 1)
  expect_identical(as.list(read_gknn(folder)), gknn(x[1:2, ], 1))
  # By default there are at least as many blocks as parts.
  folder <- tempfile()
  expect_length(blocks_in(gknn(x, 4, output = folder, part = c(2, 5))$folder), 1)
})

test_that("many missing rows are counted, and another search is refused by a part", {
  folder <- tempfile()
  gknn(x, 4, output = folder, block_rows = 1)
  unlink(blocks_in(folder)[seq(2, 50, by = 2)])
  expect_error(
    read_gknn(folder), "lacks rows 2, 4, 6, 8, 10 and of 20 more blocks;"
  )
  expect_error(gknn(x, 5, output = folder, part = c(1, 2)), "`k` was 4 and is 5")
  expect_error(gknn(x + 1, 4, output = folder, part = c(1, 2)), "the values of `x` differ")
  expect_error(gknn(x, 4, output = folder, part = c(1, 2), block_rows = 2),
               "`block_rows` was 1 and is 2")
})

test_that("incomplete files of other parts stay", {
  folder <- tempfile()
  gknn(x, 4, output = folder, block_rows = 10, part = c(1, 2))
  rows <- c("0000000001-0000000010", "0000000031-0000000040")
  half <- file.path(folder, paste0("writing-1-2-index-", rows, ".npy"))
  for (file in half) writeLines("half", file)
  gknn(x, 4, output = folder, part = c(2, 2))
  expect_identical(file.exists(half), c(TRUE, FALSE))
  gknn(x, 4, output = folder)
  expect_false(any(file.exists(half)))
})

test_that("parts that begin a folder at the same time agree on it", {
  skip_on_os("windows")
  whole <- gknn(x, 4)
  for (round in 1:5) {
    folder <- tempfile()
    # Two jobs have the same part.
    jobs <- lapply(c(1, 2, 3, 4, 4), function(i) {
      parallel::mcparallel(gknn(x, 4, output = folder, part = c(i, 4), threads = 1))
    })
    for (value in parallel::mccollect(jobs)) expect_s3_class(value, "gknn_files")
    expect_identical(as.list(read_gknn(folder)), whole)
    expect_length(list.files(folder, "^writing-"), 0)
  }
})

test_that("wrong parts are refused", {
  refused <- function(part, message, output = tempfile()) {
    expect_refused(gknn(x, 4, output = output, part = part), message, by = "gknn")
  }
  refused("a", "`part` is \"a\"; it must be c(i, n)")
  refused(1, "`part` is 1;")
  refused(c(1, NA), "`part` is c(1, NA);")
  refused(c(1.5, 2), "`part` is c(1.5, 2.0);")
  refused(1:3, "`part` is a numeric vector of length 3")
  refused(c(0, 2), "`part` is c(0, 2);")
  refused(c(3, 2), "`part` is c(3, 2);")
  refused(c(1, 1e10), "`part` is c(1, 10000000000);")
  refused(1:2, "`part` is given without `output`", output = NULL)
})
