tree <- hclust(dist(USArrests), "average")
found <- cut_populations(tree, 3, 5)
number <- stats::setNames(as.integer(found), names(found))

test_that("an assignment makes populations a plain vector, without sizes that no longer fit", {
  changed <- found
  changed[1:2] <- 0L
  expect_identical(changed, replace(number, 1:2, 0L))
  changed <- found
  changed["Texas"] <- 2
  expect_identical(changed, replace(number, "Texas", 2))
  changed <- found
  changed[found == 1] <- found[found == 1]
  expect_identical(changed, number)
  changed <- found
  changed[] <- found
  expect_identical(changed, number)
  changed <- found
  changed[["Texas"]] <- 0L
  expect_identical(changed, replace(number, "Texas", 0L))
  changed <- found
  is.na(changed) <- 4
  expect_identical(changed, replace(number, 4, NA))
  expect_s3_class(found, "populations", exact = TRUE)
})

test_that("rows of a tibble have plain numbers, which can be counted", {
  skip_if_not_installed("tibble")
  cells <- tibble::tibble(p = found, state = rownames(USArrests))
  expect_identical(cells$p, found)
  expect_identical(cells[11:20, ]$p, number[11:20])
  expect_identical(cells[cells$p == 2, ]$p, number[number == 2])
  expect_identical(unname(tibble::add_row(cells, p = 0L)$p), c(unname(number), 0L))
  some <- cells[1:25, ]
  expect_identical(count_populations(some$p, some$state, rest = TRUE),
                   count_populations(as.integer(found)[1:25], some$state, rest = TRUE))
})

test_that("vctrs combines populations to a plain vector", {
  skip_if_not_installed("vctrs")
  expect_identical(vctrs::vec_c(found, found), c(number, number))
  expect_identical(unname(vctrs::vec_c(found, 0L)), c(unname(number), 0L))
})

test_that("populations of no cells are printed without shares", {
  x <- as.matrix(USArrests)
  none <- predict(cut_populations(tree, 3, 5, x = x), x[0, ])
  lines <- capture.output(print(none))
  expect_identical(lines[1], "3 populations:")
  expect_match(lines[3:6], "^(1|2|3|none) +0 *$")
})

test_that("functions of numbers give plain numbers", {
  for (f in list(sqrt, round, cumsum, diff)) expect_identical(f(found), f(number))
})

test_that("numbers are compared with names, too", {
  named <- name_populations(found, c("A", "B", "C"))
  expect_identical(named == "A", number == 1L)
  expect_identical("B" != named, number != 2L)
  expect_identical(found == "1", number == 1L)
  expect_identical(named == "0", number == 0L)
})

test_that("a column of populations leaves the other columns of a data frame as they are", {
  values <- data.frame(a = seq_along(number) / 3, population = number)
  with_names <- values
  with_names$population <- found
  before <- options(digits = 2, OutDec = ",")
  on.exit(options(before))
  expect_identical(observations(with_names), observations(values))
})

test_that("populations of another tree are refused if their clusters do not fit", {
  x <- as.matrix(iris[1:4])
  tree <- gmhclust(x, 10, warn = FALSE)
  others <- cut_populations(gmhclust(x, 30, warn = FALSE), k = 3, x = x)
  expect_error(stability(tree, x, 2, populations = others),
               "`populations` has an attribute `roots` that does not fit",
               class = "gmhclust_error_input")
  expect_s3_class(stability(tree, x, 2, populations = as.integer(others)), "stability")
})

test_that("numbers that a function of R changed beside the attributes are refused", {
  for (changed in list(pmin(found, 2L), pmax(found, 2L))) {
    expect_s3_class(changed, "populations")
    expect_error(print(changed), "`x` has attributes that do not fit",
                 class = "gmhclust_error_input")
  }
  x <- as.matrix(iris[1:4])
  tree <- gmhclust(x, 10, warn = FALSE)
  merged <- pmin(cut_populations(tree, x = x, k = 3), 2L)
  expect_error(report(tree, x, merged, file = tempfile()), "has attributes that do not fit",
               class = "gmhclust_error_input")
  # Leaves of other weights than 1 are not counted one by one.
  weighted <- tree
  weighted$members <- rep(c(0.5, 1.5), 25)
  expect_output(print(cut_populations(weighted, 3, 5)), "3 populations")
  expect_output(print(cut_populations(cutree_top(tree, 30), 3, 5)), "3 populations")
})

test_that("populations are compared by name, also with cells in none", {
  named <- name_populations(cut_populations(tree, 6, 3), c("large" = 1))
  expect_identical(unname(named == "large"), as.integer(named) == 1)
  expect_identical(unname(named == "none"), as.integer(named) == 0)
  expect_true(any(named == "none"))
  expect_identical(unname(named != "none"), as.integer(named) != 0)
})

test_that("observations in another order than the tree are refused, and transformed ones are not", {
  x <- blobs(300, 3)
  trees <- list(gmhclust(x, warn = FALSE), ghclust(x, "average"),
                ghclust(x, "single", metric = "manhattan"))
  for (tree in trees) {
    expect_error(cut_populations(tree, x = x[sample(300), ]),
                 "`x` has other observations than the tree", class = "gmhclust_error_input")
    transformed <- cbind(scale(x), asinh(x), x[, 1] * 1e9)
    for (other in list(x, x[, 3:1], transformed, x * 1e-310)) {
      expect_s3_class(suppressMessages(cut_populations(tree, k = 2, x = other)), "populations")
    }
  }
})

test_that("sparse columns and trees of correlations do not look like another order", {
  n <- 1000
  group <- sample(10, n, TRUE)
  sparse <- sapply(1:10, function(j) {
    ifelse(group == j | stats::runif(n) < 0.1, abs(stats::rnorm(n, 4)), 0)
  })
  sparse <- cbind(sparse, stats::rnorm(n, sd = 0.1))
  rows <- matrix(stats::rnorm(n * 8), n)
  gains <- rows * stats::rlnorm(n, sdlog = 2)
  cases <- list(
    list(ghclust(sparse, "ward.D2"), sparse), list(gmhclust(sparse, warn = FALSE), sparse),
    list(ghclust(rows, "average", metric = "pearson", absolute = TRUE), rows),
    list(hclust(stats::as.dist(1 - abs(stats::cor(t(rows[1:300, ])))), "average"), rows[1:300, ]),
    list(ghclust(gains, "average", metric = "cosine"), gains)
  )
  for (case in cases) {
    population <- suppressMessages(cut_populations(case[[1]], k = 2, x = case[[2]]))
    expect_s3_class(population, "populations")
  }
})
