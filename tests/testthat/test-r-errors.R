# Errors that R raises inside the library: they must neither end R nor jump over the library's code.

# The calls of all verbs that read a matrix.
verbs <- list(
  gmhclust = function(x) gmhclust(x, 3, progress = FALSE, warn = FALSE),
  gdist = function(x) gdist(x),
  gknn = function(x) gknn(x, 2),
  blocks = function(x) gknn(x, 2, block_rows = 5),
  gmst = function(x) gmst(x),
  gneighbours = function(x) gneighbours(x, 1),
  gkmeans = function(x) gkmeans(x, 2),
  ghclust = function(x) ghclust(x, "average"),
  ward = function(x) ghclust(x, "ward.D2")
)

# A matrix of an ALTREP class that gives its elements, but not the address of its values. R copies
# what two variables refer to, so it must not be a variable elsewhere before it has dimensions.
without_address <- function(values) {
  skip_on_os("windows")
  file <- tempfile()
  writeBin(values, file)
  x <- .Internal(mmap_file(file, "double", FALSE, FALSE, FALSE))
  dim(x) <- c(20L, 3L)
  x
}

test_that("objects that do not give their values are an error of the package in every verb", {
  set.seed(1)
  values <- rnorm(60)
  for (verb in verbs) {
    x <- without_address(values)
    expect_error(suppressMessages(verb(x)), "R cannot give the values of", class = "gmhclust_error")
  }
  y <- without_address(values)
  x <- matrix(values, 20)
  expect_error(gdist(x, y = y), "the values of `y`", class = "gmhclust_error")
  y <- without_address(values)
  expect_error(gknn(x, 2, y), "the values of `query`", class = "gmhclust_error")
})

test_that("compact sequences are read as other vectors", {
  compact <- function() {
    x <- as.double(1:60)
    dim(x) <- c(20L, 3L)
    x
  }
  plain <- compact() + 0
  for (verb in verbs[c("gdist", "gknn", "gmst", "gneighbours")]) {
    expect_identical(suppressMessages(verb(compact()))[[1]], suppressMessages(verb(plain))[[1]])
  }
})

# R ended in the first of these calls.
test_that("attributes that R refuses do not end R", {
  said <- in_new_session(c(
    "library(gmhclust, lib.loc = commandArgs(TRUE))",
    "refused <- list(",
    "  list(dim = c(2L, 2L)), list(dim = -1L), list(dimnames = list(1, 2)),",
    "  list(names = 1:9), list(class = 1), list(dim = \"a\"), list(class = \"factor\")",
    ")",
    "for (attributes in refused) {",
    "  cat(is.null(gmhclust:::set_attributes_in_place(c(1, 2, 3), attributes)), \"\")",
    "}",
    "kept <- gmhclust:::set_attributes_in_place(c(1, 2, 3), list(dim = c(1L, 3L), a = NULL))",
    "cat(identical(kept, matrix(c(1, 2, 3), 1)))"
  ), env = character())
  expect_identical(said, paste(rep("TRUE", 8), collapse = " "))
})

test_that("dimensions that lie do not end R", {
  said <- in_new_session(c(
    "library(gmhclust, lib.loc = commandArgs(TRUE))",
    "dim.liar <- function(x) c(20L, 3L)",
    "registerS3method(\"dim\", \"liar\", dim.liar)",
    "boxed <- function(x, ...) structure(x$m, class = \"liar\")",
    "registerS3method(\"observations\", \"boxed\", boxed)",
    "b <- structure(list(m = matrix(sin(1:15), 5)), class = \"boxed\")",
    "x <- matrix(cos(1:60), 20)",
    "try(gdist(b), silent = TRUE)",
    "try(gdist(b, y = x), silent = TRUE)",
    "try(gdist(x, y = b), silent = TRUE)",
    "try(gknn(x, 2, b), silent = TRUE)",
    "cat(\"alive\")"
  ), env = character())
  expect_identical(said[length(said)], "alive")
})

test_that("an object of another R session is an error", {
  file <- tempfile()
  points <- prepare_points(blobs(10, 2), NULL, "", list(
    metric = check_metric_options("euclidean", 2, FALSE, "omit", "metric", NULL),
    device = list(backend = "cpu", threads = 1L, devices = NULL)
  ))$points
  saveRDS(points, file)
  expect_error(gknn_release(readRDS(file)), "refers to nothing")
  expect_error(job_wait(points, 0), "refers to nothing")
  expect_error(job_wait(1, 0), "refers to nothing")
  gknn_release(points)
})

test_that("results are freed when R has dropped them", {
  used <- function() sum(gc()[, 1] * c(56, 8))
  x <- blobs(3000, 2)
  gdist(x[1:10, ])
  before <- used()
  d <- gdist(x)
  bytes <- 8 * length(d)
  rm(d)
  expect_lt(used() - before, bytes / 2)
})

test_that("a matrix that shares its values with another is not copied", {
  x <- matrix(runif(2e6), ncol = 2)
  named <- x
  dimnames(named) <- list(NULL, c("a", "b"))
  labels <- rep(1:200, 5000)
  unnamed <- structure(labels, names = NULL)
  used <- function() gc()[2, 1]
  cluster <- function(x) {
    set.seed(1)
    suppressWarnings(gkmeans(x, 10, iter.max = 1))$cluster
  }
  before <- used()
  of_named <- cluster(named)
  # The labels take half of this.
  expect_lt(used() - before, 1e6)
  expect_identical(of_named, cluster(x))
  before <- used()
  codes <- label_codes(unnamed)$codes
  expect_lt(used() - before, 1e5)
  expect_identical(codes, labels)
})
