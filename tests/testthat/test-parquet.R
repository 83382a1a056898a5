# observations() of Parquet files.

write_tables <- function(folder, tables) {
  skip_if_not_installed("nanoparquet")
  dir.create(folder)
  files <- file.path(folder, paste0(names(tables), ".parquet"))
  for (i in seq_along(tables)) nanoparquet::write_parquet(tables[[i]], files[i])
  files
}

cells_in_tables <- function() {
  cells <- data.frame(some_cells(300), check.names = FALSE)
  names(cells) <- paste0("CD", seq_along(cells))
  cells$name <- "text"
  list(a = cells[1:200, ], b = cells[201:300, rev(names(cells))])
}

test_that("tables are read like a matrix of their columns", {
  tables <- cells_in_tables()
  folder <- withr::local_tempfile()
  files <- write_tables(folder, tables)
  expected <- as.matrix(rbind(tables$a, tables$b[names(tables$a)])[paste0("CD", 1:14)])
  rownames(expected) <- NULL
  x <- observations(files)
  expect_identical(dim(x), c(300L, 14L))
  expect_identical(as.matrix(x), expected)
  expect_identical(as.matrix(observations(folder)), expected)
  expect_identical(x[c(3, 201, 300), "CD2"], expected[c(3, 201, 300), 2])
  chosen <- observations(files, channels = c("CD7", "CD1"), cofactor = c(CD1 = 5, CD7 = 150))
  expect_identical(as.matrix(chosen),
                   cbind(CD7 = asinh(expected[, 7] / 150), CD1 = asinh(expected[, 1] / 5)))
  rounded <- observations(files, transform = round)
  expect_identical(as.matrix(rounded), round(expected))
  expect_output(print(x), "300 observations in 14 columns, read in blocks from 2 files")
})

test_that("cells of tables are clustered, and counted by file", {
  tables <- cells_in_tables()
  files <- write_tables(withr::local_tempfile(), tables)
  x <- observations(files)
  plain <- function(tree) unclass(tree)[c("merge", "height", "order")]
  values <- as.matrix(x)
  labels <- rep(1:10, 30)
  before <- options(gmhclust.block_values = 14 * 70)
  on.exit(options(before))
  tree <- gmhclust(x, 30, labels, warn = FALSE)
  expect_identical(plain(tree), plain(gmhclust(values, 30, labels, warn = FALSE)))
  set.seed(1)
  fit <- gkmeans(x, 5)
  set.seed(1)
  expect_identical(fit$cluster, gkmeans(values, 5)$cluster)
  expect_identical(gknn(x, 3), gknn(values, 3))
  populations <- cut_populations(tree, k = 2, x = x)
  counts <- count_populations(populations, x)
  expect_identical(unname(colSums(counts)), c(200, 100))
})

test_that("tables that cannot be used are named in one error", {
  tables <- cells_in_tables()
  other <- tables$a
  names(other)[2] <- "CD99"
  files <- write_tables(withr::local_tempfile(), c(tables, list(
    other = other, text = data.frame(a = letters), lists = data.frame(a = I(list(1, c(2, 3))))
  )))
  damaged <- sub("a.parquet", "damaged.parquet", files[1])
  writeBin(readBin(files[1], "raw", 500), damaged)
  missing <- sub("a.parquet", "missing.parquet", files[1])
  message <- conditionMessage(expect_error(observations(c(files[c(1, 2, 4:5)], damaged, missing)),
                                           class = "gmhclust_error_input"))
  expect_match(message, "names 4 of 6 files")
  expect_match(message, "text.parquet: it has no columns of numbers")
  expect_match(message, "lists.parquet: it has no columns of numbers")
  expect_match(message, "damaged.parquet: it is no Parquet file that package nanoparquet reads")
  expect_match(message, "missing.parquet: it does not exist")
  expect_error(observations(files[c(1, 3)]), "lacks \"CD2\" and has \"CD99\"")
  expect_error(observations(files[1], channels = "CD99"), "`channels` has \"CD99\"")
  expect_error(add_populations(observations(files[1]), rep(1, 200)), "FCS")
})

test_that("missing values and changed files are errors", {
  tables <- cells_in_tables()
  tables$b$CD3[5] <- NA
  files <- write_tables(withr::local_tempfile(), tables)
  x <- observations(files)
  expect_error(gkmeans(x, 3), "row 205", class = "gmhclust_error_input")
  Sys.setFileTime(files[1], "2020-01-01")
  expect_error(as.matrix(x), "written after it was described", class = "gmhclust_error_input")
})

test_that("without nanoparquet an error names it", {
  skip_if(requireNamespace("nanoparquet", quietly = TRUE), "nanoparquet is there")
  expect_error(observations("a.parquet"), "this needs package nanoparquet",
               class = "gmhclust_error_input")
})
