# Usage: Rscript tools/test.R COUNT
#
# Runs the tests of the installed gmhclust and writes the number of passed tests into the file
# COUNT. Stops with an error if a test fails.

results <- as.data.frame(testthat::test_dir(
  "tests/testthat",
  package = "gmhclust", load_package = "installed", reporter = "summary", stop_on_failure = TRUE
))
passed <- sum(!results$skipped & !results$error & results$failed == 0)
cat(passed, "tests passed,", sum(results$skipped), "skipped\n")
writeLines(as.character(passed), commandArgs(trailingOnly = TRUE)[[1L]])

# Processes that the tests forked may have moved R's place in this file: read no further.
quit(save = "no")
