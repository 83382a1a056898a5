# Observations in blocks: of functions, files and DelayedMatrix.

# Rows of a matrix as a function gives them; `blocks` of few values, so that there are many.
as_blocks <- function(x) observations(function(first, last) x[first:last, , drop = FALSE], nrow(x))

with_small_blocks <- function(code, values = 2000) {
  old <- options(gmhclust.block_values = values)
  on.exit(options(old))
  force(code)
}

# Without what differs between data with and without row names, and calls.
plain <- function(result) {
  result$call <- NULL
  result$labels <- NULL
  if (!is.null(result$cluster)) result$cluster <- unname(result$cluster)
  result
}

test_that("k-means of blocks has the bits of k-means of a matrix", {
  x <- some_cells(3000)
  fit <- function(x, ...) {
    set.seed(1)
    plain(suppressWarnings(gkmeans(x, 40, iter.max = 8, threads = 2, ...)))
  }
  expected <- fit(x)
  with_small_blocks({
    expect_identical(fit(as_blocks(x)), expected)
    # With this budget, the values are in a scratch file.
    expect_identical(fit(as_blocks(x), memory = 3000 * 100), expected)
    expect_identical(fit(as_blocks(x), memory = "1 GB"), expected)
  })
  expect_identical(fit(as_blocks(x)), expected)
  set.seed(1)
  centers <- x[sample(nrow(x), 5), ]
  expect_identical(plain(gkmeans(as_blocks(x), centers, memory = 3e5)), plain(gkmeans(x, centers)))
})

test_that("trees of blocks have the bits of trees of a matrix, also scaled and far from 0", {
  x <- some_cells(1500)
  tree <- function(x, ...) {
    set.seed(1)
    plain(gmhclust(x, 30, apriori = 60, warn = FALSE, ...))
  }
  far <- x
  far[, 2] <- far[, 2] / 1e6 + 1e8
  least <- 1500 * tree_bytes("full", TRUE)(14)
  for (scale in c(FALSE, TRUE)) {
    expect_identical(tree(as_blocks(x), scale = scale), tree(x, scale = scale))
    expect_identical(tree(as_blocks(far), scale = scale, memory = least), tree(far, scale = scale))
  }
  labels <- rep(1:50, 30)
  expect_identical(plain(gmhclust(as_blocks(x), 30, labels, distance = "centroid", warn = FALSE)),
                   plain(gmhclust(x, 30, labels, distance = "centroid", warn = FALSE)))
})

test_that("redundant columns of blocks are left out", {
  x <- cbind(some_cells(400)[, 1:4], 7)
  colnames(x)[5] <- "same"
  expected <- suppressMessages(gmhclust(x, 30))
  for (memory in list(NULL, 400 * tree_bytes("full", FALSE)(5))) {
    expect_message(tree <- gmhclust(as_blocks(x), 30, memory = memory), "same",
                   class = "gmhclust_message_redundant")
    expect_identical(tree$height, expected$height)
    expect_identical(tree$settings$left_out, "same")
  }
})

test_that("neighbours and populations of blocks are those of a matrix", {
  x <- some_cells(600)
  nn <- gknn(x, 4)
  with_small_blocks({
    found <- gknn(as_blocks(x), 4)
    expect_identical(unname(found$index), unname(nn$index))
    expect_identical(unname(found$distance), unname(nn$distance))
    tree <- gmhclust(x, 30, warn = FALSE)
    populations <- cut_populations(tree, k = 3, min_members = 20, x = x)
    expect_identical(as.integer(predict(populations, as_blocks(x))),
                     as.integer(predict(populations, x)))
    expect_identical(cut_populations(tree, k = 3, min_members = 20, x = as_blocks(x))[1:600],
                     populations[1:600])
  })
  subset <- gknn(as_blocks(x), 4, subset = c(5, 100))
  expect_identical(unname(subset$index), unname(nn$index[c(5, 100), ]))
})

test_that("blocks are read like a matrix", {
  x <- some_cells(500)
  blocks <- as_blocks(x)
  expect_identical(dim(blocks), c(500L, 14L))
  expect_identical(colnames(blocks), colnames(x))
  with_small_blocks({
    expect_identical(unname(blocks[c(400, 3, 3), c("CD4", "CD8")]),
                     unname(x[c(400, 3, 3), c("CD4", "CD8")]))
    expect_identical(unname(as.matrix(blocks)), unname(x))
  })
  expect_error(blocks[501, ], "has no row 501", class = "gmhclust_error_input")
  expect_error(blocks[c(1, NA), ], "has no row NA", class = "gmhclust_error_input")
  expect_error(blocks[, "none"], "has no column \"none\"; it has", class = "gmhclust_error_input")
  expect_error(blocks[, 99], "lacks some of these columns", class = "gmhclust_error_input")
  expect_error(blocks[c("a", "b"), ], "has no row \"a\"; it has 500 rows without",
               class = "gmhclust_error_input")
  expect_error(blocks[5], "give rows and columns", class = "gmhclust_error_input")
  expect_identical(unname(blocks[2.7, ]), unname(x[2, ]))
  expect_identical(unname(blocks[-(1:498), 1]), unname(x[499:500, 1]))
  expect_identical(unname(t(blocks)), unname(t(x)))
  expect_output(print(blocks), "500 observations in 14 columns, read in blocks")
  # Functions that do not read in blocks read all.
  expect_identical(gdist(blocks[1:50, ]), gdist(unname(x[1:50, ])), ignore_attr = TRUE)
  expect_identical(ghclust(blocks, "single")$height, ghclust(x, "single")$height)
})

test_that("a DelayedMatrix is read once, and not as a whole", {
  skip_if_not_installed("DelayedArray")
  x <- some_cells(2000)
  fit <- function(x, ...) {
    set.seed(1)
    plain(suppressWarnings(gkmeans(x, 30, iter.max = 5, ...)))
  }
  delayed <- DelayedArray::DelayedArray(x)
  with_small_blocks(expect_identical(fit(delayed, memory = 2000 * 100), fit(x)))
  expect_identical(names(gkmeans(delayed, 3)$cluster), names(gkmeans(x, 3)$cluster))
})

test_that("what is wrong with blocks and budgets is said", {
  expect_error(observations(function(a, b) 1), "`x` is a function", class = "gmhclust_error_input")
  expect_error(observations(function(a, b) 1, 10), "gave 1 for row 1",
               class = "gmhclust_error_input")
  expect_error(observations(function(a, b) stop("no disk"), 10), "failed for row 1: no disk",
               class = "gmhclust_error_input")
  short <- observations(function(a, b) matrix(0, 1, 2), 10)
  expect_error(gkmeans(short, 2), "gave 1 x 2 values for rows 1 to 10",
               class = "gmhclust_error_input")
  breaking <- observations(function(a, b) if (b > 1) stop("no disk") else matrix(0, 1, 2), 10)
  expect_error(gkmeans(breaking, 2), "`x` stopped with the error \"no disk\"",
               class = "gmhclust_error_input")
  named <- function(a, b) {
    matrix(0, b - a + 1, 2, dimnames = list(NULL, c("u", if (b > 1) "w" else "v")))
  }
  expect_error(gkmeans(observations(named, 10), 2), "`x` gave \"w\" as column 2 of rows 1 to 10",
               class = "gmhclust_error_input")
  x <- some_cells(3000)
  bad <- x
  bad[2500, 3] <- NA
  with_small_blocks(
    expect_error(gkmeans(as_blocks(bad), 2), "has NA in row 2500, column \"CD16\"",
                 class = "gmhclust_error_input")
  )
  error <- expect_error(gkmeans(x, 2, memory = 1000), "`memory` is .* needs at least",
                        class = "gmhclust_error_input")
  least <- sub(".* needs at least (.*)", "\\1", conditionMessage(error))
  expect_silent(check_budget(x, kmeans_bytes(14), check_budget_size(least, NULL), NULL))
  for (memory in list("much", -1, NA, c(1, 2), "1 XB", "\xff", "1.2.3 GB")) {
    expect_error(gkmeans(x, 2, memory = memory), "`memory` ", class = "gmhclust_error_input")
  }
  old <- options(gmhclust.scratch = "/nowhere")
  on.exit(options(old))
  expect_error(gkmeans(as_blocks(x), 2, memory = 3000 * 90), "gmhclust.scratch",
               class = "gmhclust_error_input")
})

test_that("the budget decides where the values are", {
  x <- some_cells(3000)
  options <- list(threads = 1, progress = FALSE)
  folder_with <- function(memory, copies = NULL) {
    stored <- gmhclust:::as_stored_observations(
      as_blocks(x), "x", function(p) 80, c(options, memory = memory, copies = copies), NULL
    )
    on.exit(gmhclust:::release_rows(stored))
    expect_identical(unname(stored[, ]), unname(x))
    expect_identical(unname(stored[c(9, 2), 3]), unname(x[c(9, 2), 3]))
    is.null(stored$folder)
  }
  expect_true(folder_with(NULL))
  expect_true(folder_with(3000 * (8 * 14 + 80)))
  expect_false(folder_with(3000 * (8 * 14 + 80) - 1))
  expect_false(folder_with(3000 * (8 * 14 + 80), copies = 2))
  for (memory in list(Inf, "1 gb", "2000000", "1.5MB")) {
    expect_true(folder_with(gmhclust:::check_budget_size(memory, NULL)))
  }
})

test_that("all ways of k-means and workers take blocks", {
  x <- round(some_cells(400))
  fit <- function(x, ...) {
    set.seed(1)
    plain(suppressWarnings(gkmeans(x, 6, iter.max = 4, ...)))
  }
  for (memory in list(NULL, 400 * 100)) {
    expect_identical(fit(as_blocks(x), nstart = 3, memory = memory), fit(x, nstart = 3))
    expect_identical(fit(as_blocks(x), init = "random", nstart = 3, memory = memory),
                     fit(x, init = "random", nstart = 3))
  }
  skip_if_not_installed("BiocParallel")
  groups <- rep(1:20, 20)
  tree <- function(x) {
    plain(gmhclust(x, 10, groups, warn = FALSE, BPPARAM = BiocParallel::SerialParam()))
  }
  expect_identical(tree(as_blocks(x)), tree(x))
})

test_that("more rows than R's integers count are refused before they are read", {
  never <- observations(function(first, last) {
    if (last > 1) stop("it is read")
    matrix(0, 1, 2)
  }, 3e9)
  expect_identical(dim(never), c(3e9, 2))
  for (f in list(function(x) gkmeans(x, 2), function(x) gmhclust(x), function(x) gknn(x, 1))) {
    expect_error(f(never), "has 3,000,000,000 rows", class = "gmhclust_error_input")
  }
  # More values than R's integers count are read where they are wanted.
  far <- observations(function(first, last) cbind(first:last, 1, 2), 1e9)
  expect_identical(far[c(1e9, 5), ], rbind(c(1e9, 1, 2), c(5, 1, 2)))
})

test_that("scratch files are gone when a call ends, also after an error", {
  folder <- tempfile("scratch")
  dir.create(folder)
  old <- options(gmhclust.scratch = folder)
  on.exit({
    options(old)
    unlink(folder, recursive = TRUE)
  })
  x <- some_cells(3000)
  seen <- character(0)
  blocks <- observations(function(first, last) {
    # Where a file without a name is possible, there is none.
    seen <<- union(seen, list.files(folder, all.files = TRUE, no.. = TRUE))
    if (first > 2000) stop("the disk is gone")
    x[first:last, , drop = FALSE]
  }, 3000)
  with_small_blocks(
    expect_error(gkmeans(blocks, 5, memory = 3000 * 100), "the disk is gone")
  )
  if (.Platform$OS.type == "unix") expect_identical(seen, character(0))
  expect_identical(list.files(folder, all.files = TRUE, no.. = TRUE), character(0))
  skip_if_not(dir.exists("/proc/self/fd"))
  # The room of a file without a name is free when it is closed and not mapped.
  open <- Sys.readlink(list.files("/proc/self/fd", full.names = TRUE))
  expect_false(any(grepl(".gmhclust-", open, fixed = TRUE)))
  expect_false(any(grepl(".gmhclust-", readLines("/proc/self/maps"), fixed = TRUE)))
})
