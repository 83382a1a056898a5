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
  expect_s3_class(
    condition, c("gmhclust_error_internal", "gmhclust_error", "error", "condition"), exact = TRUE
  )
  expect_match(conditionMessage(condition), "internal error, please report it: index 3")
})

test_that("handlers for errors and for interrupts catch interrupts", {
  fail <- function() stop(failure_condition("interrupt", "stopped", NULL))
  expect_identical(tryCatch(fail(), interrupt = function(c) "seen"), "seen")
  expect_identical(tryCatch(fail(), error = function(c) "seen"), "seen")
})

test_that("every condition has the class of its kind and of its type", {
  seen <- function(code) tryCatch(code, condition = class)
  expect_identical(seen(warn_user("k", "text", NULL)),
                   c("gmhclust_warning_k", "gmhclust_warning", "warning", "condition"))
  expect_identical(seen(inform_user("slow", "text", NULL)),
                   c("gmhclust_message_slow", "gmhclust_message", "message", "condition"))
  expect_identical(seen(refuse("x", "is bad", "be good", NULL)),
                   c("gmhclust_error_input", "gmhclust_error", "error", "condition"))
  # Every warning and message is from one place.
  called <- function(e) {
    if (!is.call(e)) return(character(0))
    c(if (is.name(e[[1]])) as.character(e[[1]]), unlist(lapply(as.list(e), called)))
  }
  calls <- function(f) called(body(f))
  functions <- mget(ls(asNamespace("gmhclust"), all.names = TRUE), asNamespace("gmhclust"))
  functions <- Filter(function(f) is.function(f) && !is.primitive(f), functions)
  raise <- Filter(function(f) any(c("warning", "message") %in% calls(f)), functions)
  expect_setequal(names(raise), c("warn_user", "inform_user"))
})
