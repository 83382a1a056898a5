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

test_that("a job without memory in R is an error of its kind", {
  expect_error(run_job(NULL, FALSE, "Clustering", quote(f(x))),
               "^Clustering: R has no memory", class = "gmhclust_error_memory")
})
