# Usage: Rscript tools/test.R COUNT [PACKAGE [NAME...]]
#
# Runs the tests in tests/testthat of an installed package, gmhclust if no other is named: all, or
# those in the files test-NAME.R. Writes the number of passed tests into the first line of the file
# COUNT, and below it the number of skipped tests for each reason. Stops with an error if a test
# fails.

arguments <- commandArgs(trailingOnly = TRUE)
package <- if (length(arguments) > 1L) arguments[[2L]] else "gmhclust"
files <- arguments[-(1:2)]
filter <- if (length(files) > 0L) paste0("^(", paste(files, collapse = "|"), ")$")
# Tests that CRAN would not run, run here.
Sys.setenv(NOT_CRAN = "true")
results <- testthat::test_dir(
  "tests/testthat",
  package = package, load_package = "installed", filter = filter, reporter = "summary",
  stop_on_failure = TRUE
)

reason <- function(test) {
  skips <- Filter(function(part) inherits(part, "expectation_skip"), test$results)
  sub("^Reason: ", "", if (length(skips) > 0L) conditionMessage(skips[[1L]]) else "empty test")
}
rows <- as.data.frame(results)
passed <- sum(!rows$skipped & !rows$error & rows$failed == 0)
skipped <- table(vapply(results[rows$skipped], reason, ""))
# Files whose tests took more than 5 seconds of the processor, without those of other processes.
seconds <- rowsum(rows$user + rows$system, sub("^test-(.*)[.]R$", "\\1", rows$file))[, 1L]
slow <- sort(seconds[seconds > 5], decreasing = TRUE)
if (length(slow) > 0L) cat("seconds:", paste(names(slow), round(slow), collapse = ", "), "\n")
cat(passed, "tests passed,", sum(rows$skipped), "skipped\n")
writeLines(c(passed, paste(skipped, names(skipped), recycle0 = TRUE)), arguments[[1L]])

# Processes that the tests forked may have moved R's place in this file: read no further.
quit(save = "no")
