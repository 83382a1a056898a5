# The scores of inst/benchmarks/agreement.R.

scores <- new.env()
sys.source(system.file("benchmarks", "agreement.R", package = "gmhclust"), scores)

test_that("scores are 1 for the gates themselves, whatever the names and the ungated cells", {
  gate <- c(0, 1, 1, 2, 2, 2, 3)
  found <- c(9, 7, 7, 5, 5, 5, 8)
  expect_equal(scores$agreement(found, gate), c(f = 1, mean_f1 = 1, ari = 1))
})

test_that("scores are those worked out by hand", {
  gate <- c(1, 1, 1, 1, 2, 2)
  found <- c(1, 1, 1, 2, 2, 2)
  # F1: gate 1 has 6/7 with cluster 1, gate 2 has 4/5 with cluster 2.
  expect_equal(scores$agreement(found, gate)[c("f", "mean_f1")],
               c(f = (4 * 6 / 7 + 2 * 4 / 5) / 6, mean_f1 = (6 / 7 + 4 / 5) / 2))
  # One cluster for all: each gate's F1 with it is 2 n / (n + 6), and only one gate is matched.
  expect_equal(scores$agreement(rep(1, 6), gate),
               c(f = (4 * 8 / 10 + 2 * 4 / 8) / 6, mean_f1 = 0.8 / 2, ari = 0))
})

test_that("the adjusted Rand index is that of all pairs", {
  set.seed(1)
  for (i in 1:20) {
    a <- sample(4, 30, replace = TRUE)
    b <- ifelse(runif(30) < 0.5, a, sample(3, 30, replace = TRUE))
    same_a <- as.vector(dist(a)) == 0
    same_b <- as.vector(dist(b)) == 0
    expected <- sum(same_a) * sum(same_b) / length(same_a)
    expect_equal(scores$adjusted_rand(a, b),
                 (sum(same_a & same_b) - expected) / ((sum(same_a) + sum(same_b)) / 2 - expected))
  }
  expect_identical(scores$adjusted_rand(rep(1, 5), rep(2, 5)), 1)
})

test_that("an assignment has the greatest sum of all, with ties, too", {
  best_sum <- function(value) {
    if (nrow(value) == 0) return(0)
    rest <- function(j) value[1, j] + best_sum(value[-1, -j, drop = FALSE])
    max(vapply(seq_len(ncol(value)), rest, 0))
  }
  set.seed(1)
  for (i in 1:60) {
    rows <- sample(4, 1)
    columns <- sample(rows:6, 1)
    draw <- if (i %% 2) runif(rows * columns) else sample(0:2, rows * columns, replace = TRUE)
    value <- matrix(draw, rows)
    column <- scores$assignment(value)
    expect_identical(anyDuplicated(column), 0L)
    expect_equal(sum(value[cbind(seq_len(rows), column)]), best_sum(value))
    expect_equal(sum(scores$matched(t(value))), best_sum(value))
  }
})
