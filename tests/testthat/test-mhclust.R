x <- blobs(40, 3)
apriori <- rep(0:3, 10)

test_that("the signature is mhca's", {
  expect_named(formals(mhclust), c(
    "x", "thresh", "scale", "quick", "g", "gIntra", "gParallel", "normalize",
    "subthreshHandling", "warn", "verb", "..."
  ))
})

test_that("every argument maps onto gmhclust's", {
  expect_same <- function(tree, other) {
    tree$g <- NULL
    expect_identical(as_computed(tree), as_computed(other))
  }
  expect_same(mhclust(x, warn = FALSE), gmhclust(x, 0.5))
  expect_same(mhclust(x, 10, TRUE, TRUE, warn = FALSE),
              gmhclust(x, 10, scale = TRUE, distance = "centroid"))
  expect_same(mhclust(x, 10, g = apriori, gIntra = FALSE, warn = FALSE),
              gmhclust(x, 10, apriori, apriori_intra = FALSE))
  expect_same(mhclust(x, 10, g = apriori, gParallel = FALSE, warn = FALSE),
              gmhclust(x, 10, apriori, threads = 1))
  expect_same(mhclust(x, 10, normalize = TRUE, subthreshHandling = "mahal0", warn = FALSE),
              gmhclust(x, 10, normalize = TRUE, subthreshold = "mahal0"))
  expect_same(mhclust(x, 10, warn = FALSE, verb = 1, threads = 2, backend = "cpu"),
              gmhclust(x, 10))
})

test_that("call is the call of mhclust", {
  expect_identical(mhclust(x, 10, warn = FALSE)$call, quote(mhclust(x = x, thresh = 10,
                                                                    warn = FALSE)))
})

test_that("warn is that of gmhclust()", {
  cells <- some_cells(300)
  was <- shown_messages$inversions
  on.exit(shown_messages$inversions <- was)
  shown_messages$inversions <- FALSE
  expect_no_message(mhclust(cells, 30, warn = FALSE))
  expect_message(mhclust(cells, 30), class = "gmhclust_message_inversions")
})

test_that("unknown arguments are ignored with a warning that names them", {
  expect_warning(mhclust(x, 10, warn = FALSE, useR = TRUE, nThreads = 2),
                 "ignored arguments: `useR`, `nThreads`", class = "gmhclust_warning")
})

test_that("mhclust() passes all arguments of observations() on", {
  # The package's own methods; users and other tests may have registered more.
  package <- asNamespace("gmhclust")
  methods <- ls(package, pattern = "^observations[.]")
  expect_gt(length(methods), 10)
  arguments <- lapply(methods, function(name) names(formals(get(name, package))))
  expect_setequal(gmhclust:::observation_options, setdiff(unlist(arguments), c("x", "...")))
  rows <- function(first, last) x[first:last, , drop = FALSE]
  expect_identical(mhclust(rows, 10, warn = FALSE, rows = nrow(x))$merge,
                   mhclust(x, 10, warn = FALSE)$merge)
})

test_that("errors name mhclust's own arguments", {
  expect_refused <- function(object, message) {
    error <- expect_error(object, class = "gmhclust_error_input")
    expect_match(conditionMessage(error), message, fixed = TRUE)
    expect_identical(conditionCall(error)[[1]], quote(mhclust))
  }
  expect_refused(mhclust(1:3), "matrix(x)")
  expect_refused(mhclust(x, thresh = 0), "`thresh` is 0")
  expect_refused(mhclust(x, g = 1:3), "`g` has length 3")
  expect_refused(mhclust(x, gIntra = NA), "`gIntra` is NA")
  expect_refused(mhclust(x, gParallel = "no"), "`gParallel` is \"no\"")
  expect_refused(mhclust(x, subthreshHandling = "x"), "`subthreshHandling` is \"x\"")
  expect_refused(mhclust(x, warn = 1), "`warn` is 1")
  expect_refused(mhclust(x, verb = "a"), "`verb` is \"a\"")
})
