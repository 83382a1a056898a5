test_that("every kind of failure has its own condition class", {
  for (kind in c("input", "device", "memory", "interrupt")) {
    condition <- failure_condition(kind, "too bad", quote(gmhclust(x)))
    expect_s3_class(condition, paste0("gmhclust_error_", kind))
    expect_s3_class(condition, "gmhclust_error")
    expect_s3_class(condition, "error")
    expect_identical(conditionMessage(condition), "too bad")
    expect_identical(conditionCall(condition), quote(gmhclust(x)))
  }
})

test_that("an internal error asks for a report", {
  condition <- failure_condition("internal", "index 3", NULL)
  expect_s3_class(condition, c("gmhclust_error", "error", "condition"), exact = TRUE)
  expect_match(conditionMessage(condition), "internal error, please report it: index 3")
})

test_that("handlers for errors and for interrupts catch interrupts", {
  fail <- function() stop(failure_condition("interrupt", "stopped", NULL))
  expect_identical(tryCatch(fail(), interrupt = function(c) "seen"), "seen")
  expect_identical(tryCatch(fail(), error = function(c) "seen"), "seen")
})
