without_call <- function(d) {
  attr(d, "call") <- NULL
  d
}

# gdist() and dist() with the same arguments: everything but the call is the same.
expect_as_dist <- function(...) {
  expect_identical(
    without_call(suppressWarnings(gdist(...))), without_call(suppressWarnings(dist(...)))
  )
}

# n x p values of one of several kinds. An eighth of them is replaced by each of the `special`
# values.
awkward <- function(n, p, kind, special = NULL) {
  x <- switch(kind,
    normal = rnorm(n * p),
    ties = sample(-2:2, n * p, TRUE),
    zeros = rbinom(n * p, 1, 0.4) * rnorm(n * p),
    scales = 10^runif(n * p, -300, 300) * sample(c(-1, 1), n * p, TRUE)
  )
  for (value in special) x[sample(n * p, ceiling(n * p / 8))] <- value
  matrix(x, n)
}

kinds <- c("normal", "ties", "zeros", "scales")
all_methods <- c(dist_metrics, correlations)

test_that("the distances of dist() are the same to the last bit", {
  set.seed(1)
  extreme <- c(NA, NaN, Inf, -Inf, .Machine$double.xmax, -.Machine$double.xmax, 1e-310)
  for (kind in kinds) {
    for (special in list(NULL, NA, c(NA, NaN), c(NA, Inf, -Inf), extreme)) {
      x <- awkward(sample(2:70, 1), sample(1:40, 1), kind, special)
      for (method in dist_metrics[1:5]) expect_as_dist(x, method)
      for (p in c(0.5, 1, 2, 3.7)) expect_as_dist(x, "minkowski", p = p)
    }
  }
})

test_that("small and degenerate shapes are as in dist()", {
  for (method in dist_metrics) {
    expect_as_dist(cbind(c(1, 4)), method)
    expect_as_dist(matrix(c(0, 1, 2, 0), 2), method)
    expect_as_dist(matrix(0, 3, 4), method)
    expect_as_dist(matrix(c(1, 2, 5), 1), method)
    expect_as_dist(matrix(0, 3, 0), method)
    expect_as_dist(matrix(0, 0, 3), method)
    expect_as_dist(matrix(NA_real_, 3, 2), method)
  }
})

test_that("gdist() accepts every input of dist()", {
  set.seed(2)
  x <- matrix(sample(9, 40, TRUE), 8)
  expect_as_dist(x)
  expect_as_dist(x > 4, "binary")
  expect_as_dist(x > 4, "manhattan")
  x[3, 2] <- NA
  expect_as_dist(x, "canberra")
  expect_as_dist(c(a = 1, b = 5, c = 2))
  expect_as_dist(as.data.frame(x))
  expect_as_dist(USArrests, "maximum", diag = TRUE)
  expect_as_dist(data.frame(a = 1:4, b = c(TRUE, FALSE, TRUE, NA), row.names = letters[1:4]))
  rownames(x) <- LETTERS[1:8]
  expect_as_dist(x, "minkowski", upper = TRUE, p = 3L)
})

test_that("methods are abbreviated as in dist(), and the correlations beside them", {
  x <- blobs(6, 3)
  for (short in c("e", "eucl", "euclidian", "max", "man", "c", "can", "b", "mi")) {
    expect_as_dist(x, short)
  }
  expect_error(dist(x, "ma"))
  expect_refused(gdist(x, "ma"), "`method` is \"ma\"", by = "gdist")
  expect_identical(attr(gdist(x, "p"), "method"), "pearson")
  expect_identical(attr(gdist(x, "s"), "method"), "spearman")
  expect_identical(attr(gdist(x, "cos"), "method"), "cosine")
})

test_that("the call is the user's, and the attributes are in dist()'s order", {
  d <- gdist(USArrests, "mink", p = 3)
  expect_identical(attr(d, "call"), quote(gdist(x = USArrests, method = "mink", p = 3)))
  expect_identical(names(attributes(d)), names(attributes(dist(USArrests, "mink", p = 3))))
  expect_identical(names(attributes(gdist(1:3))), names(attributes(dist(1:3))))
})

one_minus_cor <- function(x, ...) c(as.dist(1 - suppressWarnings(cor(t(x), ...))))

test_that("pearson and spearman are 1 - cor(), missing values pair by pair", {
  set.seed(3)
  for (kind in setdiff(kinds, "scales")) {
    for (hole in list(NULL, NA, NaN)) {
      x <- awkward(sample(3:40, 1), sample(3:30, 1), kind, hole)
      for (method in c("pearson", "spearman")) {
        expected <- one_minus_cor(x, method = method, use = "pairwise")
        got <- suppressWarnings(gdist(x, method), classes = "gmhclust_warning_constant")
        expect_equal(c(got), expected, tolerance = 1e-12)
        absolute <- suppressWarnings(gdist(x, method, absolute = TRUE))
        expect_equal(c(absolute), 1 - abs(1 - expected), tolerance = 1e-12)
        expect_identical(attr(got, "method"), method)
        attr(got, "method") <- "euclidean"
        expect_identical(attributes(without_call(got)), attributes(without_call(dist(x))))
      }
    }
  }
})

test_that("correlations need two common columns, as in cor()", {
  x <- rbind(c(1, NA, 2, 5), c(NA, 4, 3, NA), c(2, 1, 0, 7))
  d <- as.matrix(gdist(x, "pearson"))
  expect_identical(is.na(d), is.na(cor(t(x), use = "pairwise")) & diag(3) == 0,
                   ignore_attr = TRUE)
  expect_false(is.nan(d[2, 1]))
})

test_that("cosine is 1 - the cosine of the angle", {
  set.seed(4)
  x <- awkward(20, 7, "normal", NA)
  cosine <- function(i, j) {
    both <- !is.na(x[i, ]) & !is.na(x[j, ])
    a <- x[i, both]
    b <- x[j, both]
    sum(a * b) / sqrt(sum(a^2) * sum(b^2))
  }
  pairs <- combn(20, 2)
  expected <- mapply(cosine, pairs[1, ], pairs[2, ])
  expect_equal(c(gdist(x, "cosine")), 1 - expected, tolerance = 1e-12)
  expect_equal(c(gdist(x, "cosine", absolute = TRUE)), 1 - abs(expected), tolerance = 1e-12)
})

test_that("correlations far from zero keep their digits", {
  set.seed(5)
  x <- matrix(sample(100, 60, TRUE), 6)
  expect_equal(c(gdist(x + 2^40, "pearson")), c(gdist(x, "pearson")), tolerance = 1e-14)
  expect_equal(c(gdist(x * 2^1000, "pearson")), c(gdist(x, "pearson")), tolerance = 1e-14)
})

test_that("constant rows have NaN distances and one warning that names them", {
  x <- blobs(5, 4)
  x[c(2, 4), ] <- c(0.1, 7)
  for (method in c("pearson", "spearman")) {
    warning <- expect_warning(d <- gdist(x, method), class = "gmhclust_warning_constant")
    expect_match(conditionMessage(warning), "`x` has constant rows, .*: 2, 4$")
    expect_identical(conditionCall(warning)[[1]], quote(gdist))
    constant <- row(diag(5)) %in% c(2, 4) | col(diag(5)) %in% c(2, 4)
    expect_identical(c(is.nan(d)), constant[lower.tri(diag(5))])
  }
  expect_no_warning(gdist(x, "cosine"))
  x[2, ] <- 0
  expect_warning(gdist(x, "cosine"), "`x` has rows of zeros, .*: 2$")
  many <- matrix(1, 9, 3, dimnames = list(letters[1:9], NULL))
  expect_warning(gdist(many, "pearson"), "\"a\", \"b\", \"c\", \"d\", \"e\", 4 more$")
  expect_warning(gdist(blobs(3, 3), "pearson", y = many[1:2, ]), "`y` has .*: \"a\", \"b\"$")
  many[1, 1] <- NA
  expect_warning(gdist(many[1:2, ], "pearson"), "\"a\", \"b\"$")
})

test_that("binary warns of infinite values once, as dist() does for every pair", {
  x <- matrix(c(1, 0, Inf, 1, 1, 0), 3)
  expect_warning(gdist(x, "binary"), "treating non-finite values as NA")
  expect_no_warning(gdist(x, "euclidean"))
})

test_that("canberra's zeros count as the argument says", {
  x <- rbind(c(0, 1, 0, 2), c(0, 3, 0, 2))
  expect_identical(c(gdist(x, "canberra")), (1 / 2 + 0) / (2 / 4))
  expect_identical(c(gdist(x, "canberra", zero_over_zero = "0")), 1 / 2)
  expect_identical(c(gdist(x, "canberra", zero_over_zero = "1")), 2 + 1 / 2)
  expect_identical(c(gdist(x, "canberra", zero_over_zero = 1)), 2 + 1 / 2)
  expect_identical(c(gdist(0 * x, "canberra")), NA_real_)
  expect_identical(c(gdist(0 * x, "canberra", zero_over_zero = "0")), 0)
})

test_that("Y gives the distances across", {
  set.seed(6)
  for (special in list(NULL, NA)) {
    x <- awkward(37, 5, "ties", special)
    y <- awkward(18, 5, "zeros")
    rownames(x) <- paste0("x", 1:37)
    rownames(y) <- paste0("y", 1:18)
    for (method in all_methods) {
      across <- suppressWarnings(gdist(x, method, y = y))
      together <- as.matrix(suppressWarnings(gdist(rbind(x, y), method)))
      expect_identical(across, together[1:37, 38:55])
    }
  }
  expect_null(dimnames(gdist(unname(x), y = unname(y))))
  expect_identical(dimnames(gdist(unname(x), y = y)), list(NULL, rownames(y)))
  expect_identical(gdist(x, y = y[1, , drop = FALSE]), gdist(x, y = y)[, 1, drop = FALSE])
  expect_identical(dim(gdist(x, y = y[0, ])), c(37L, 0L))
  expect_equal(diag(gdist(x[1:5, ], "manhattan", y = x[1:5, ])), numeric(5), ignore_attr = TRUE)
})

test_that("the result does not depend on threads", {
  set.seed(7)
  for (special in list(NULL, NA)) {
    x <- awkward(150, 20, "normal", special)
    for (method in all_methods) {
      on <- function(threads) gdist(x, method, threads = threads)
      expect_identical(without_call(on(1)), without_call(on(2)))
      expect_identical(without_call(on(1)), without_call(on(7)))
    }
  }
})

test_that("functions for dist objects accept the result", {
  d <- gdist(USArrests, "manhattan")
  expect_same_tree(hclust(d, "average"), hclust(dist(USArrests, "manhattan"), "average"))
  expect_identical(hclust(d)$dist.method, "manhattan")
  expect_identical(hclust(d)$labels, rownames(USArrests))
  expect_identical(cmdscale(d), cmdscale(dist(USArrests, "manhattan")))
  expect_identical(as.matrix(d), as.matrix(dist(USArrests, "manhattan")))
  expect_identical(capture.output(print(gdist(1:3, diag = TRUE))),
                   capture.output(print(dist(1:3, diag = TRUE))))
  expect_identical(labels(d), rownames(USArrests))
})

test_that("changing the result changes no other object", {
  x <- blobs(4, 2)
  d <- gdist(x)
  e <- d
  e[1] <- -1
  expect_identical(without_call(d), without_call(dist(x)))
})

test_that("probes of a microarray have the distances of dist() and cor()", {
  x <- some_probes(1000)
  for (method in dist_metrics[1:5]) expect_as_dist(x, method)
  for (method in c("pearson", "spearman")) {
    expect_equal(c(gdist(x, method)), one_minus_cor(x, method = method), tolerance = 1e-12)
  }
  x[sample(length(x), 2000)] <- NA
  for (method in dist_metrics[1:5]) expect_as_dist(x, method)
})

test_that("columns of `y` in another order than those of `x` are refused if names show it", {
  x <- as.matrix(iris[1:9, 1:4])
  expect_refused(gdist(x, y = x[, c(1, 3, 2, 4)]), paste0(
    "`y` has the columns of `x` in another order; column 2 is \"Petal.Length\", and that of `x` ",
    "is \"Sepal.Width\": give the columns in the order of `x`"
  ), by = "gdist")
  # Other names, or none, say nothing about the order.
  y <- x
  for (names in list(c("a", "b", "c", "d"), colnames(x)[c(2, 1, 1, 4)], NULL)) {
    colnames(y) <- names
    expect_identical(gdist(x, y = y), gdist(x, y = x))
    expect_identical(gdist(y, y = x), gdist(x, y = x))
  }
})

test_that("wrong input is refused by name", {
  x <- blobs(4, 3)
  refused <- function(object, message) expect_refused(object, message, by = "gdist")
  refused(gdist(NULL), "`x` is NULL")
  refused(gdist(letters), "`x` is a character vector of length 26")
  refused(gdist(mean), "`x` is a function")
  refused(gdist(list(1, 2)), "`x` is a list")
  refused(gdist(matrix("a", 2, 2)), "`x` is a character matrix")
  refused(gdist(matrix(1i, 2, 2)), "`x` is a complex matrix")
  refused(gdist(array(0, c(2, 2, 2))), "`x` is a numeric array of 2 x 2 x 2")
  refused(gdist(iris), "`x` has a non-numeric column: \"Species\" (factor)")
  refused(gdist(x, y = "a"), "`y` is \"a\"")
  refused(gdist(x, y = x[, 1]), "`y` has 1 column; it must have as many as `x`, 3")
  refused(gdist(x, "hamming"), "`method` is \"hamming\"; it must be one of \"euclidean\"")
  refused(gdist(x, NA), "`method` is NA")
  refused(gdist(x, c("euclidean", "maximum")), "`method` is a character vector of length 2")
  for (bad in list(0, -1, NA, Inf, "2", 1:2)) refused(gdist(x, "mink", p = bad), "`p` is ")
  refused(gdist(x, diag = NA), "`diag` is NA")
  refused(gdist(x, upper = 1), "`upper` is 1")
  refused(gdist(x, "pearson", absolute = NA), "`absolute` is NA")
  refused(gdist(x, absolute = TRUE), "`absolute` is TRUE; that is for correlations")
  refused(gdist(x, "canberra", zero_over_zero = 2), "`zero_over_zero` is 2")
  refused(gdist(x, zero_over_zero = "1"), "`zero_over_zero` is given; that is for \"canberra\"")
  refused(gdist(x, backend = "opencl"), "`backend` is \"opencl\"")
  refused(gdist(x, threads = 0), "`threads` is 0")
  refused(gdist(x, progress = NA), "`progress` is NA")
  refused(gdist(x, devices = -1), "`devices` has -1")
})

test_that("a result larger than any memory is refused with its size, before the work", {
  many <- matrix(0, 1e7, 1)
  error <- expect_error(gdist(many), class = "gmhclust_error_memory")
  expect_match(conditionMessage(error), "all pairs of 10000000 observations need 400000.1 GB")
  expect_identical(conditionCall(error)[[1]], quote(gdist))
})

test_that("a result for which R has no memory is an error of the same kind", {
  skip_on_os("windows")
  skip_if_not(nzchar(system.file("Meta", package = "gmhclust")), "installed gmhclust")
  # The distances take 0.6 GB.
  code <- paste0(
    "library(gmhclust, lib.loc = '", dirname(system.file(package = "gmhclust")), "'); ",
    "x <- matrix(rnorm(12000), 12000); ",
    "error <- tryCatch(gdist(x), gmhclust_error_memory = identity); ",
    "cat(conditionMessage(error), '\\n'); ",
    "cat(length(gdist(x[1:100, , drop = FALSE])))"
  )
  said <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", "-e", shQuote(code)),
                  env = "R_MAX_VSIZE=400M", stdout = TRUE)
  expect_identical(trimws(said), c("R has no memory for a result of 576.0 MB", "4950"))
})
