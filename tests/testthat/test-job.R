test_that("warnings of a job become warnings of the user's call", {
  result <- list(ok = TRUE, value = 7, warnings = c("one is gone", "two is gone"))
  seen <- list()
  value <- withCallingHandlers(
    job_value(result, quote(gknn(x))),
    gmhclust_warning_device = function(condition) {
      seen <<- c(seen, list(condition))
      invokeRestart("muffleWarning")
    }
  )
  expect_identical(value, 7)
  expect_identical(vapply(seen, conditionMessage, ""), c("one is gone", "two is gone"))
  expect_identical(conditionCall(seen[[1]]), quote(gknn(x)))
})

test_that("the bar never passes the end and never goes backwards", {
  expect_identical(progress_share(0, 0, furthest = 0), 0)
  expect_identical(progress_share(5, 10, furthest = 0), 0.5)
  expect_identical(progress_share(6, 100, furthest = 0.5), 0.5)
  expect_identical(progress_share(60, 100, furthest = 0.5), 0.6)
  expect_identical(progress_share(110, 100, furthest = 0.6), 1)
})

test_that("a bar that cannot be drawn or closed costs no result", {
  said <- in_new_session(c(
    "library(gmhclust, lib.loc = commandArgs(TRUE))",
    "fails <- function(...) stop(\"del_from\")",
    "for (name in c(\"cli_progress_update\", \"cli_progress_done\", \"cli_progress_bar\")) {",
    "  utils::assignInNamespace(name, fails, \"cli\")",
    "  x <- matrix(sin(1:40000), 10000)",
    "  nn <- gknn(x, 2, threads = 1, progress = TRUE)",
    "  cat(identical(gknn(x, 2, block_rows = 5000, threads = 1, progress = TRUE), nn), \"\\n\")",
    "}"
  ), env = character())
  expect_identical(trimws(said), rep("TRUE", 3))
})

test_that("a job without memory in R is an error of its kind", {
  expect_error(run_job(NULL, FALSE, "Clustering", quote(f(x))),
               "^Clustering: R has no memory", class = "gmhclust_error_memory")
})
