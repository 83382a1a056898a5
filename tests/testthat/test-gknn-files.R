x <- blobs(50, 3)

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
  expect_output(print(nn), "4 nearest neighbours of 50 rows (euclidean), in 4 blocks", fixed = TRUE)
  for (rows in list(0, 51, 1.5, NA, "a", -1, TRUE)) {
    expect_error(nn[rows], "whole numbers from 1 to 50", class = "gmhclust_error_input")
  }
})

test_that("str() shows the components of the object, and reads no file", {
  folder <- tempfile()
  nn <- gknn(x, 4, output = folder)
  unlink(folder, recursive = TRUE)
  expect_output(str(nn), "^Class 'gknn_files' List of 9\n \\$ rows +: int 50\n.* \\$ folder +: chr")
  expect_output(str(list(a = nn)), " $ a:Class 'gknn_files' List of 9\n  ..$ rows ", fixed = TRUE)
})

test_that("files have the format of the help page", {
  folder <- tempfile()
  gknn(x, 4, x[1:7, ], "canberra", output = folder, block_rows = 5)
  blocks <- c("0000000001-0000000005", "0000000006-0000000007")
  expect_setequal(list.files(folder, all.files = TRUE, no.. = TRUE), c(
    "manifest.json", paste0("index-", blocks, ".npy"), paste0("distance-", blocks, ".npy"),
    paste0("rows-", blocks, ".sha256")
  ))
  whole <- lapply(gknn(x, 4, x[1:7, ], "canberra"), function(part) part[6:7, ])
  read_npy <- function(part, type, bytes) {
    file <- file_in(folder, part, 6:7)
    expect_identical(file.size(file), 128 + bytes * 2 * 4)
    header <- rawToChar(read_bytes(file)[11:128])
    expect_match(header, "'fortran_order': False, 'shape': (2, 4), }  ", fixed = TRUE)
    values <- readBin(tail(read_bytes(file), -128), type, 8, bytes, endian = "little")
    matrix(values, 2, byrow = TRUE)
  }
  expect_identical(read_npy("index", "integer", 4), whole$index)
  expect_identical(read_npy("distance", "double", 8), whole$distance)
  skip_if_not_installed("jsonlite")
  manifest <- jsonlite::fromJSON(file.path(folder, "manifest.json"))
  expect_identical(manifest[c("format", "version", "first_row", "block_rows")], list(
    format = "gmhclust neighbours", version = 2L, first_row = 1L, block_rows = 5L
  ))
  search <- manifest$search
  expect_identical(search[c("rows", "columns", "among", "k")],
                   list(rows = 7L, columns = 3L, among = 50L, k = 4L))
  expect_identical(search$metric$name, "canberra")
  expect_named(search$digests, c("x", "query"))
  expect_match(unlist(search$digests), "^[0-9a-f]{16}$")
})

# The Python code of the help page.
lines_of_python <- function() {
  page <- tools::Rd_db("gmhclust")[["read_gknn.Rd"]]
  skip_if(is.null(page), "no help pages are installed")
  text <- utils::capture.output(tools::Rd2txt(page))
  trimws(text[grep("import glob", text) + 0:2])
}

test_that("three lines of Python read them", {
  numpy <- python("numpy")
  folder <- tempfile()
  nn <- as.list(gknn(x, 4, output = folder, block_rows = 15))
  out <- c(tempfile(), tempfile())
  code <- c(
    sprintf("folder = r'%s'", folder), lines_of_python(),
    "assert index.shape == distance.shape == (50, 4)",
    sprintf("index.tofile(r'%s')", out[1]), sprintf("distance.tofile(r'%s')", out[2])
  )
  expect_null(run_python(numpy, code))
  index <- readBin(out[1], "integer", 201, 4)
  distance <- readBin(out[2], "double", 201)
  expect_identical(matrix(index, ncol = 4, byrow = TRUE) + 1L, nn$index)
  expect_identical(matrix(distance, ncol = 4, byrow = TRUE), nn$distance)
})

test_that("sha256sum confirms the checksums", {
  skip_if_not(nzchar(Sys.which("sha256sum")), "sha256sum")
  folder <- tempfile()
  gknn(x, 4, output = folder, block_rows = 25)
  check <- function() {
    system(paste("cd", shQuote(folder), "&& sha256sum -c rows-*.sha256"), ignore.stdout = TRUE,
           ignore.stderr = TRUE)
  }
  expect_identical(check(), 0L)
  flip_bit(file_in(folder, "index", c(26, 50)), 2000)
  expect_identical(check(), 1L)
})

test_that("graphs of files are those of lists, as a whole and in parts", {
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
  expect_equal(igraph::ecount(as_igraph(nn, undirected = FALSE)), 200)
})

test_that("neighbours of delayed data go to files, and digests are those of data in memory", {
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

test_that("an error names the block and keeps finished blocks, and the next call continues", {
  for (workers in list(NULL, forks(), snow())) {
    if (!is.null(workers)) BiocParallel::bpstart(workers)
    folder <- tempfile()
    whole <- gknn(x, 4)
    # A folder with the name of a block, so the block cannot be written.
    gknn(x, 4, output = folder, block_rows = 10)
    files <- blocks_in(folder)
    unlink(files[c(2, 4, 5)])
    in_place <- file_in(folder, "index", c(31, 40))
    unlink(in_place)
    dir.create(in_place)
    old <- as.POSIXct("2020-01-01")
    Sys.setFileTime(files[c(1, 3)], old)
    error <- expect_error(gknn(x, 4, output = folder, BPPARAM = workers), class = "gmhclust_error")
    expect_match(conditionMessage(error), "^rows 31 to 40 of `x`: cannot write ")
    expect_match(conditionMessage(error), "the same call resumes from them", fixed = TRUE)
    expect_identical(conditionCall(error)[[1]], quote(gknn))
    expect_true(file.exists(files[2]))
    expect_length(list.files(folder, "writing"), 0)
    expect_error(read_gknn(folder), "lacks rows 31 to [45]0;", class = "gmhclust_error_input")
    unlink(in_place, recursive = TRUE)
    Sys.setFileTime(files[2], old)
    nn <- gknn(x, 4, output = folder, BPPARAM = workers)
    expect_identical(as.list(nn), whole)
    expect_identical((file.mtime(files) == old)[1:4], c(TRUE, TRUE, TRUE, FALSE))
    if (!is.null(workers)) BiocParallel::bpstop(workers)
  }
})

test_that("incomplete files of an interrupted call are no blocks, and are deleted", {
  folder <- tempfile()
  gknn(x, 4, output = folder, block_rows = 25)
  file <- file_in(folder, "index", c(26, 50))
  half <- file.path(folder, paste0("writing-1234-5-", basename(file)))
  writeBin(readBin(file, "raw", 100), half)
  unlink(blocks_in(folder)[2])
  expect_error(read_gknn(folder), "lacks rows 26 to 50")
  expect_identical(as.list(gknn(x, 4, output = folder)), gknn(x, 4))
  expect_false(file.exists(half))
  # The interrupt may have come while the manifest was written.
  folder <- tempfile()
  dir.create(folder)
  writeLines("{", file.path(folder, "writing-1234-6-manifest.json"))
  expect_identical(as.list(gknn(x, 4, output = folder)), gknn(x, 4))
  expect_length(list.files(folder, "^writing-"), 0)
})

test_that("blocks that are damaged, truncated or missing are named, and computed again", {
  folder <- tempfile()
  whole <- gknn(x, 4)
  nn <- gknn(x, 4, output = folder, block_rows = 10)
  intact <- lapply(c(list.files(folder, full.names = TRUE)), read_bytes)
  flip_bit(file_in(folder, "distance", c(11, 20)), 8 * 200)
  truncated <- file_in(folder, "index", c(21, 30))
  writeBin(head(read_bytes(truncated), 100), truncated)
  unlink(file_in(folder, "distance", c(31, 40)))
  flip_bit(file_in(folder, "rows", c(41, 50), "sha256"), 100)
  Sys.setFileTime(blocks_in(folder)[1], as.POSIXct("2020-01-01"))
  expect_error(read_gknn(folder), "lacks rows 21 to 40;",
               class = "gmhclust_error_input")
  expect_identical(nn[10], lapply(whole, function(part) part[10, , drop = FALSE]))
  for (row in c(11, 21, 31, 41)) {
    first <- sprintf("-%010.0f-", row)
    error <- expect_error(nn[row], first, class = "gmhclust_error_input")
    expect_match(conditionMessage(error),
                 sprintf("`x` has no sound block of rows %d to %d: ", row, row + 9), fixed = TRUE)
    expect_identical(conditionCall(error)[[1]], quote(`[.gknn_files`))
  }
  expect_error(as.list(nn), "computes it anew", class = "gmhclust_error_input")
  again <- gknn(x, 4, output = folder)
  expect_identical(as.list(again), whole)
  expect_identical(lapply(list.files(folder, full.names = TRUE), read_bytes), intact)
  expect_lt(file.mtime(blocks_in(folder)[1]), as.POSIXct("2020-01-02"))
})

test_that("no flipped bit in any file goes unnoticed", {
  folder <- tempfile()
  whole <- gknn(x, 4)
  gknn(x, 4, output = folder, block_rows = 30)
  files <- list.files(folder, full.names = TRUE)
  expect_length(files, 7)
  set.seed(1)
  for (file in files) {
    intact <- read_bytes(file)
    for (bit in sample(8 * length(intact), 60) - 1) {
      flip_bit(file, bit)
      result <- tryCatch(as.list(read_gknn(folder)), gmhclust_error_input = identity)
      expect_s3_class(result, "gmhclust_error_input")
      writeBin(intact, file)
    }
  }
  expect_identical(as.list(read_gknn(folder)), whole)
  # Random bytes: the whole file, its end or its beginning.
  for (file in rep(files, 10)) {
    intact <- read_bytes(file)
    noise <- as.raw(sample(0:255, length(intact), replace = TRUE))
    keep <- seq_along(intact) %in% sample(list(0, 1:100, 100 + seq_along(intact)), 1)[[1]]
    noise[keep] <- intact[keep]
    writeBin(noise, file)
    result <- tryCatch(as.list(read_gknn(folder)), gmhclust_error_input = identity)
    expect_s3_class(result, "gmhclust_error_input")
    writeBin(intact, file)
  }
})

test_that("a flipped bit in a block changes no result of the next call", {
  folder <- tempfile()
  whole <- gknn(x, 4)
  gknn(x, 4, output = folder, block_rows = 30)
  files <- setdiff(list.files(folder, full.names = TRUE), file.path(folder, "manifest.json"))
  set.seed(1)
  for (file in rep(files, 5)) {
    flip_bit(file, sample(8 * file.size(file), 1) - 1)
    expect_identical(as.list(gknn(x, 4, output = folder)), whole)
  }
})

test_that("a damaged or forged manifest is refused by every function", {
  folder <- tempfile()
  whole <- gknn(x, 4)
  nn <- gknn(x, 4, output = folder, block_rows = 30)
  file <- file.path(folder, "manifest.json")
  intact <- read_bytes(file)
  refused <- function(message) {
    expect_refused(read_gknn(folder), message, by = "read_gknn")
    expect_refused(gknn(x, 4, output = folder), message, by = "gknn")
    expect_error(nn[1], message, fixed = TRUE, class = "gmhclust_error_input")
    writeBin(intact, file)
  }
  flip_bit(file, 300)
  refused("has a manifest.json that is damaged: it does not have its checksum")
  for (text in c("", "{}", strrep("[", 10000), "\u00e9", "NULL")) {
    writeLines(text, file)
    refused("has a manifest.json that ")
  }
  forged <- list(
    c("\"rows\": 50", "\"rows\": -50", "invalid value"),
    c("\"rows\": 50", "\"rows\": \"50\"", "invalid type"),
    c("\"rows\": 50", "\"rows\": NaN", "did not write"),
    c("\"among\": 50", "\"among\": 1e300", "invalid type"),
    c("\"k\": 4", "\"k\": 2147483648", "counts must be from 1 to 2147483647"),
    c("\"k\": 4", "\"k\": 50", "k exceeds the number of neighbours"),
    c("\"name\": \"eu", "\"name\": \"../../eu", "it must be \"euclidean\""),
    c("\"version\": 2", "\"version\": 3", "has version 3 of the format"),
    c("\"version\": 2", "\"version\": 2, \"file\": \"../a\"", "unknown field `file`")
  )
  for (words in forged) {
    forge_manifest(folder, words[1], words[2])
    refused(words[3])
  }
  # A valid manifest of another search does not match these blocks.
  forge_manifest(folder, "\"k\": 4", "\"k\": 5")
  expect_error(nn[1], "has another manifest.json since it was opened")
  expect_error(read_gknn(folder), "lacks rows 1 to 50;")
  forge_manifest(folder, "\"k\": 5", "\"k\": 2147483646")
  forge_manifest(folder, "\"rows\": 50", "\"rows\": 2147483647")
  forge_manifest(folder, "\"among\": 50", "\"among\": 2147483647")
  forge_manifest(folder, "\"block_rows\": 30", "\"block_rows\": 1")
  refused_blocks <- "lacks rows 1 to 2147483647;"
  expect_refused(read_gknn(folder), refused_blocks, by = "read_gknn")
  writeBin(intact, file)
  forge_manifest(folder, "\"p\": 2.0", "\"p\": 3.0")
  files <- read_gknn(folder)
  expect_error(files[1], "do not have the checksums in", class = "gmhclust_error_input")
  writeBin(intact, file)
  expect_identical(as.list(nn), whole)
})

test_that("links, and folders with names of files, are not read", {
  skip_on_os("windows")
  folder <- tempfile()
  nn <- gknn(x, 4, output = folder)
  for (file in list.files(folder, full.names = TRUE)) {
    elsewhere <- tempfile()
    file.rename(file, elsewhere)
    file.symlink(elsewhere, file)
    expect_error(as.list(read_gknn(folder)), class = "gmhclust_error_input")
    unlink(file)
    dir.create(file)
    expect_error(as.list(read_gknn(folder)), class = "gmhclust_error_input")
    unlink(file, recursive = TRUE)
    file.rename(elsewhere, file)
  }
  expect_identical(as.list(read_gknn(folder)), as.list(nn))
})

test_that("folders of earlier versions are refused and not read", {
  folder <- tempfile()
  dir.create(folder)
  # Reading this in R's format would run code.
  saveRDS(list(format = 1L), file.path(folder, "manifest.rds"))
  message <- "was written by an earlier version of gmhclust; its neighbours must be computed anew"
  expect_refused(read_gknn(folder), message, by = "read_gknn")
  expect_refused(gknn(x, 4, output = folder), message, by = "gknn")
  writeLines("no R object", file.path(folder, "manifest.rds"))
  expect_refused(read_gknn(folder), message, by = "read_gknn")
})

test_that("folders may have any name", {
  folder <- file.path(tempfile(), "a b", "\u00e9'$(x)")
  skip_if_not(dir.create(folder, recursive = TRUE, showWarnings = FALSE), "such names")
  expect_identical(as.list(gknn(x, 4, output = folder)), gknn(x, 4))
  expect_identical(as.list(read_gknn(folder)), gknn(x, 4))
})

test_that("the folder of another call is refused, and the error names the differences", {
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
  refused(gknn(x, 4, x, output = folder), "the values of `query` differ")
  refused(gknn(x[50:1, ], 4, output = folder), "the values of `x` differ")
  refused(gknn(x, 4, output = folder, block_rows = 24), "`block_rows` was 25 and is 24")
  other <- tempfile()
  dir.create(other)
  expect_identical(as.list(gknn(x, 4, output = other)), gknn(x, 4))
  unlink(file.path(other, "manifest.json"))
  refused(gknn(x, 4, output = other), "`output` is a folder of other files")
})

test_that("an argument that is no folder is refused", {
  for (output in list(1, NA_character_, "", c("a", "b"))) {
    expect_refused(gknn(x, 4, output = output), "it must be the name of a folder", by = "gknn")
    expect_refused(read_gknn(output), "it must be the name of a folder", by = "read_gknn")
  }
  file <- tempfile()
  writeLines("a", file)
  expect_refused(gknn(x, 4, output = file), "it must be the name of a folder", by = "gknn")
  expect_refused(gknn(x, 4, output = file.path(file, "below")), "the folder cannot be created",
                 by = "gknn")
  expect_refused(read_gknn(tempdir()), "it must be a folder that gknn() has filled",
                 by = "read_gknn")
})

# Starts another R process that finds neighbours of x in blocks. It stops before it writes its
# second block: then it has written the file `ready`, and waits for the file `go`. Returns its
# process number.
start_other <- function(folder, ready, go) {
  skip_on_os("windows")
  skip_if_not(nzchar(system.file("Meta", package = "gmhclust")), "installed gmhclust")
  script <- tempfile(fileext = ".R")
  data <- tempfile()
  saveRDS(x, data)
  writeLines(c(
    "arguments <- commandArgs(TRUE)",
    "library(gmhclust, lib.loc = arguments[1])",
    "write <- gmhclust:::write_block",
    "assignInNamespace(\"write_block\", function(files, rows, found) {",
    "  if (rows[1] > 1 && !file.exists(arguments[4])) {",
    "    cat(Sys.getpid(), file = paste0(arguments[3], \"-\"))",
    "    file.rename(paste0(arguments[3], \"-\"), arguments[3])",
    "    while (!file.exists(arguments[4])) Sys.sleep(0.02)",
    "  }",
    "  write(files, rows, found)",
    "}, \"gmhclust\")",
    "gknn(readRDS(arguments[5]), 4, output = arguments[2], block_rows = 10)"
  ), script)
  system2(
    file.path(R.home("bin"), "Rscript"),
    shQuote(c("--vanilla", script, dirname(system.file(package = "gmhclust")), folder, ready, go,
              data)),
    wait = FALSE, stdout = FALSE, stderr = FALSE
  )
  wait_for(file.exists(ready))
  as.integer(readLines(ready, warn = FALSE))
}

wait_for <- function(condition) {
  condition <- substitute(condition)
  for (i in 1:6000) {
    if (eval(condition, parent.frame())) return(invisible())
    Sys.sleep(0.02)
  }
  stop("this takes too long: ", deparse(condition))
}

test_that("a folder that another process writes is locked, and keeps all of its files", {
  folder <- tempfile()
  ready <- tempfile()
  go <- tempfile()
  on.exit(file.create(go))
  process <- start_other(folder, ready, go)
  unfinished <- sprintf("writing-%d-7-index-0000000011-0000000020.npy", process)
  for (name in c(unfinished, "writing-my-notes.txt")) writeLines("mine", file.path(folder, name))
  before <- list.files(folder)
  expect_true("gmhclust.lock" %in% before)
  error <- expect_error(gknn(x, 4, output = folder, block_rows = 10), "`output` is in use by",
                        class = "gmhclust_error_input")
  expect_match(conditionMessage(error), sprintf("in process %d on machine ", process))
  expect_identical(conditionCall(error)[[1]], quote(gknn))
  expect_error(gknn(x, 3, output = folder), "`output` is in use by")
  expect_identical(list.files(folder), before)
  file.create(go)
  wait_for(!file.exists(file.path(folder, "gmhclust.lock")))
  expect_identical(as.list(read_gknn(folder)), gknn(x, 4))
  # Now the folder is free, and the incomplete file has no owner.
  expect_identical(as.list(gknn(x, 4, output = folder)), gknn(x, 4))
  expect_identical(list.files(folder, "^writing"), "writing-my-notes.txt")
})

test_that("the lock of a process that was killed does not block the next call", {
  folder <- tempfile()
  ready <- tempfile()
  process <- start_other(folder, ready, tempfile())
  expect_error(gknn(x, 4, output = folder), "`output` is in use by")
  tools::pskill(process, tools::SIGKILL)
  lock <- file.path(folder, "gmhclust.lock")
  nn <- NULL
  wait_for({
    nn <- tryCatch(gknn(x, 4, output = folder), gmhclust_error_input = function(e) NULL)
    !is.null(nn)
  })
  expect_identical(as.list(nn), gknn(x, 4))
  expect_false(file.exists(lock))
})

test_that("locks that earlier calls left are taken over, and other files of that name are not", {
  folder <- tempfile()
  gknn(x, 4, output = folder)
  lock <- file.path(folder, "gmhclust.lock")
  left <- c(
    "", paste0("lock of gmhclust::gknn()\nprocess 1\nmachine ", Sys.info()[["nodename"]],
               "\nstart another\n")
  )
  for (text in left) {
    cat(text, file = lock)
    expect_identical(as.list(gknn(x, 4, output = folder)), gknn(x, 4))
    expect_false(file.exists(lock))
  }
  writeLines("my notes", lock)
  expect_refused_lock <- function() {
    expect_error(gknn(x, 4, output = folder), "is no lock that gknn() wrote", fixed = TRUE,
                 class = "gmhclust_error_input")
  }
  expect_refused_lock()
  expect_identical(readLines(lock), "my notes")
  skip_on_os("windows")
  elsewhere <- tempfile()
  writeLines("", elsewhere)
  unlink(lock)
  file.symlink(elsewhere, lock)
  expect_refused_lock()
  expect_identical(readLines(elsewhere), "")
})

test_that("an error releases the lock, and a folder of other files gets none", {
  folder <- tempfile()
  gknn(x, 4, output = folder)
  expect_error(gknn(x, 5, output = folder), "is the folder of another call")
  expect_false(file.exists(file.path(folder, "gmhclust.lock")))
  other <- tempfile()
  dir.create(other)
  writeLines("mine", file.path(other, "writing-my-notes.txt"))
  expect_refused(gknn(x, 4, output = other), "`output` is a folder of other files", by = "gknn")
  expect_identical(list.files(other), "writing-my-notes.txt")
})

default_blocks()
