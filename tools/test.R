# Usage: Rscript tools/test.R COUNT
#
# Runs the tests of the installed gmhclust and writes into the file COUNT how many passed; stops
# with an error when one did not.

results <- as.data.frame(testthat::test_dir(
  "tests/testthat",
  package = "gmhclust", load_package = "installed", reporter = "summary", stop_on_failure = TRUE
))
passed <- sum(!results$skipped & !results$error & results$failed == 0)
cat(passed, "tests passed,", sum(results$skipped), "skipped\n")
writeLines(as.character(passed), commandArgs(trailingOnly = TRUE)[[1L]])
