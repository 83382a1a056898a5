# The documents are beside the tests only in the source repository.
document <- function(...) test_path("..", "..", ...)

# The lines between `begin`, a regular expression, and the end of the block, of the block of code
# that has the line `within`.
code_block <- function(file, begin, within) {
  lines <- readLines(file, encoding = "UTF-8")
  ends <- which(lines == "```")
  blocks <- lapply(grep(begin, lines), function(from) {
    to <- ends[ends > from][1]
    lines[seq_len(to - from - 1L) + from]
  })
  Find(function(block) any(grepl(within, block, fixed = TRUE)), blocks)
}

test_that("README has the lines from an FCS file to a picture that the vignette runs", {
  skip_if_not(file.exists(document("README.md")), "the source repository is not here")
  lines <- code_block(document("README.md"), "^```r$", "read.FCS")
  expect_lt(length(lines), 15)
  shown <- code_block(document("vignettes", "fcs.Rmd"), "^```\\{r short,", "read.FCS")
  expect_identical(lines, c("library(flowCore)", shown))
})

test_that("the vignette's FCS file has the values, markers and spillover that were written", {
  helpers <- document("vignettes", "flow-files.R")
  skip_if_not(file.exists(helpers), "the source repository is not here")
  written <- new.env()
  sys.source(helpers, written)
  values <- cbind("FSC-A" = 1:9 * 1000, "PE-A" = 1:9 / 8, "FITC-A" = -(1:9), Time = 1:9)
  spill <- matrix(c(1, 0.2, 0.05, 1), 2, dimnames = rep(list(c("PE-A", "FITC-A")), 2))
  file <- tempfile(fileext = ".fcs")
  on.exit(unlink(file))
  written$write_fcs(values, c(NA, "CD3", "CD4", NA), spill, file)
  expect_identical(
    written$read_fcs(file),
    list(values = values, markers = c(NA, "CD3", "CD4", NA), spill = spill)
  )
  skip_if_not_installed("flowCore")
  frame <- flowCore::read.FCS(file, transformation = FALSE, truncate_max_range = FALSE)
  expect_identical(observations(frame, c("CD3", "CD4"), use = "channel"), values[, 2:3])
  expect_equal(unname(flowCore::spillover(frame)$SPILL), unname(spill))
})
