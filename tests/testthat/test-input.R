x <- blobs(10, 3)

test_that("observations come as numeric, integer and logical matrices and data frames", {
  tree <- gmhclust(x, 4, distance = "centroid")
  expect_same_tree(gmhclust(as.data.frame(x), 4, distance = "centroid"), tree)
  whole <- round(x)
  storage.mode(whole) <- "integer"
  expect_same_tree(gmhclust(whole), gmhclust(whole + 0))
  expect_same_tree(gmhclust(x > 0), gmhclust((x > 0) + 0))
  mixed <- data.frame(a = 1:4, b = c(TRUE, FALSE, TRUE, TRUE), c = c(0.5, 1, 3, 9))
  expect_same_tree(gmhclust(mixed), gmhclust(as.matrix(mixed) + 0))
})

test_that("row names become labels, automatic ones do not", {
  expect_null(gmhclust(x)$labels)
  expect_null(gmhclust(as.data.frame(x))$labels)
  named <- x
  rownames(named) <- letters[1:10]
  expect_identical(gmhclust(named)$labels, letters[1:10])
  expect_identical(gmhclust(as.data.frame(named))$labels, letters[1:10])
})

test_that("arguments other than a matrix or data frame are refused", {
  expect_refused(gmhclust(NULL), "`x` is NULL")
  expect_refused(gmhclust(list(1, 2)), "`x` is a list")
  expect_refused(gmhclust(mean), "`x` is a function")
  expect_refused(gmhclust(array(0, c(2, 2, 2))), "`x` is a numeric array of 2 x 2 x 2")
  expect_refused(gmhclust(matrix("a", 2, 2)), "`x` is a character matrix")
  expect_refused(gmhclust(matrix(list(1, 2, 3, 4), 2)), "`x` is a list with dimensions")
  expect_refused(gmhclust(matrix(1i, 2, 2)), "`x` is a complex matrix")
})

test_that("all functions of observations refuse distances", {
  d <- dist(x)
  message <- paste(
    "is distances (\"dist\") of 10 observations; it needs the observations themselves;",
    "for linkage of distances use ghclust()"
  )
  refused <- function(object, arg, by) expect_refused(object, paste0("`", arg, "` ", message), by)
  refused(gmhclust(d), "x", "gmhclust")
  refused(mhclust(d), "x", "mhclust")
  refused(gdist(d), "x", "gdist")
  refused(gdist(x, y = d), "y", "gdist")
  refused(gknn(d, 2), "x", "gknn")
  refused(gknn(x, 2, query = d), "query", "gknn")
  refused(gmst(d), "x", "gmst")
  refused(gkmeans(d, 2), "x", "gkmeans")
  refused(gkmeans(x, d), "centers", "gkmeans")
  refused(gmhclust(structure(d, class = c("dissimilarity", "dist"))), "x", "gmhclust")
  expect_refused(gmhclust(structure(1:3, class = "dist")), "`x` is distances (\"dist\"); it needs")
})

test_that("a vector is refused with advice", {
  expect_refused(gmhclust(1:5), "use matrix(x) for 5 observations of one variable, or cbind()")
  expect_refused(gmhclust(letters), "`x` is a character vector of length 26")
})

test_that("columns that are not numeric are refused by name", {
  expect_refused(gmhclust(iris), "`x` has a non-numeric column: \"Species\" (factor)")
  dated <- data.frame(a = 1:3, when = Sys.Date() + 0:2, who = letters[1:3])
  expect_refused(gmhclust(dated), "non-numeric columns: \"when\" (Date), \"who\" (character)")
  expect_refused(gmhclust(as.data.frame(matrix("a", 3, 9))), "\"V5\" (character), 4 more")
})

test_that("too few rows or columns are refused", {
  expect_refused(gmhclust(matrix(0, 3, 0)), "`x` has no columns")
  expect_refused(gmhclust(data.frame()), "`x` has no columns")
  expect_refused(gmhclust(data.frame(row.names = 1:3)), "`x` has no columns")
  expect_refused(gmhclust(matrix(0, 1, 3)), "`x` has 1 row")
  expect_refused(gmhclust(matrix(0, 0, 3)), "`x` has no rows")
})

test_that("values that are not finite are refused by row and column", {
  for (value in c(NA, NaN, Inf, -Inf)) {
    bad <- x
    bad[7, 2] <- value
    expect_refused(gmhclust(bad), paste0("`x` has ", value, " in row 7, column 2"))
    bad <- as.data.frame(bad)
    expect_refused(gmhclust(bad), paste0("`x` has ", value, " in row 7, column \"V2\""))
  }
  bad <- x
  bad[3, 3] <- NA
  bad[8, 1] <- Inf
  expect_refused(gmhclust(bad), "`x` has NA in row 3, column 3 (and 1 more)")
  expect_refused(gmhclust(matrix(c(1L, NA, 3L, 4L), 2)), "`x` has NA in row 2, column 1")
})

test_that("values so large that their powers overflow are refused", {
  expect_refused(gmhclust(x * 1e200), "`x` has values of magnitude")
})

test_that("a threshold that is not one positive number is refused", {
  for (bad in list(0, -1, NA, NA_real_, NaN, Inf, c(1, 2), numeric(0), "5", NULL, TRUE, list(1))) {
    expect_refused(mhclust(x, thresh = bad), "`thresh` is ", by = "mhclust")
    # NULL is the default of gmhclust().
    if (!is.null(bad)) expect_refused(gmhclust(x, threshold = bad), "`threshold` is ")
  }
})

test_that("unknown choices are refused with the list of choices", {
  expect_refused(
    gmhclust(x, subthreshold = "manhattan"),
    "\"manhattan\"; it must be one of \"mahal\", \"mahal0\", \"euclid\", \"euclidMahal\""
  )
  expect_refused(gmhclust(x, backend = "opencl"), "one of \"auto\", \"cpu\", \"cuda\"")
  for (bad in list(NULL, 1, NA, NA_character_, c("mahal", "euclid"), character(0))) {
    expect_refused(gmhclust(x, subthreshold = bad), "`subthreshold` is ")
  }
  expect_same_tree(gmhclust(x, backend = "cp"), gmhclust(x, backend = "cpu"))
})

test_that("flags that are not TRUE or FALSE are refused", {
  no_flags <- list(NA, 1, "TRUE", c(TRUE, FALSE), logical(0), NULL)
  for (flag in c("normalize", "scale", "apriori_intra", "progress")) {
    for (bad in no_flags) {
      call <- c(list(x), structure(list(bad), names = flag))
      error <- expect_error(do.call(gmhclust, call), class = "gmhclust_error_input")
      expect_match(conditionMessage(error), paste0("`", flag, "` is "), fixed = TRUE)
    }
  }
})

test_that("apriori labels of a wrong length or kind are refused", {
  expect_refused(gmhclust(x, apriori = 1:3), "`apriori` has length 3; it must be")
  expect_refused(gmhclust(x, apriori = integer(0)), "`apriori` has length 0")
  expect_refused(gmhclust(x, apriori = matrix(1, 10, 1)), "`apriori` is a numeric matrix")
  expect_refused(gmhclust(x, apriori = as.list(1:10)), "`apriori` is a list")
  expect_refused(gmhclust(x, apriori = data.frame(1:10)), "\"data.frame\"")
  expect_refused(gmhclust(x, apriori = rep(TRUE, 10)), "`apriori` is a logical vector")
  expect_refused(gmhclust(x, apriori = mean), "`apriori` is a function")
  expect_refused(gmhclust(x, apriori = c(1.5, 1:9)), "`apriori` has 1.5 at position 1")
  expect_refused(gmhclust(x, apriori = c(1:9, Inf)), "`apriori` has Inf at position 10")
  # The bits of the 64-bit integers 1 to 10.
  long <- structure(1:10 * 2^-1074, class = "integer64")
  expect_refused(gmhclust(x, apriori = long), paste0(
    "`apriori` has labels of class \"integer64\"; turn them into numbers, by as.numeric() with ",
    "package bit64 loaded"
  ))
})

test_that("the number of threads is a whole number of at least 1", {
  for (bad in list(0, -1, 1.5, NA, Inf, "two", 1:2)) {
    expect_refused(gmhclust(x, threads = bad), "`threads` is ")
  }
})

test_that("scale = TRUE standardises columns and only centres constant ones", {
  y <- cbind(x, 5)
  expected <- scale(y)
  expected[, 4] <- 0
  attributes(expected) <- list(dim = dim(y))
  expect_equal(standardise(y), expected)
  expect_equal(gmhclust(y, scale = TRUE)$height, gmhclust(expected)$height)
  tiny_and_huge <- cbind(x[, 1] * 1e-200, x[, 2] * 1e200)
  expect_equal(standardise(tiny_and_huge), standardise(x[, 1:2]))
})
