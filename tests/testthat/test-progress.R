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
    "options(cli.dynamic = TRUE)",
    "for (name in c(\"cli_progress_update\", \"cli_progress_done\", \"cli_progress_bar\")) {",
    "  utils::assignInNamespace(name, fails, \"cli\")",
    "  x <- matrix(sin(1:40000), 10000)",
    "  nn <- gknn(x, 2, threads = 1, progress = TRUE)",
    "  cat(identical(gknn(x, 2, block_rows = 5000, threads = 1, progress = TRUE), nn), \"\\n\")",
    "}"
  ), env = character())
  expect_identical(trimws(said), rep("TRUE", 3))
})

test_that("a log gets few lines, which say what time is left", {
  clock <- 0
  lines <- lines_of_log("Clustering", function() clock)
  said <- capture.output(type = "message", {
    for (at in list(c(5, .1), c(9.9, .2), c(10, .25), c(19, .4), c(20, .5), c(300, .6), c(310, .7),
                    c(7200, .75), c(8900, 1))) {
      clock <- at[1]
      lines$show(at[2], if (at[2] == .6) " (6 of 10 rows)" else "")
    }
    clock <- 9000
    lines$close()
  })
  expect_identical(said, c(
    "Clustering: 25% after 10 s, about 30 s left",
    "Clustering: 50% after 20 s, about 20 s left",
    "Clustering: 60% (6 of 10 rows) after 5 min, about 3 min left",
    "Clustering: 75% after 2.0 h, about 40 min left",
    "Clustering: 100% after 2.5 h",
    "Clustering: ended after 2.5 h"
  ))
})

test_that("a log gets no line of short work, and no time before anything is done", {
  clock <- 0
  lines <- lines_of_log("Clustering", function() clock)
  expect_silent({
    clock <- 9
    lines$show(.5, "")
    lines$close()
  })
  clock <- 11
  said <- capture.output(lines$show(0, ""), type = "message")
  expect_identical(said, "Clustering: 0% after 11 s")
})

test_that("the finished part of the rows is counted", {
  units <- list(total = 1e8, name = "rows")
  expect_identical(finished_units(0.125, units), " (12,500,000 of 100,000,000 rows)")
  expect_identical(finished_units(0.125, NULL), "")
})

test_that("progressr's handlers get all steps of all work", {
  skip_if_not_installed("progressr")
  # progressr's own default is interactive().
  before <- options(progressr.enable = TRUE)
  on.exit(options(before))
  steps <- function(code) {
    amount <- 0
    withCallingHandlers(code, progression = function(condition) {
      if (condition$type == "update") amount <<- amount + condition$amount
    })
    amount
  }
  display <- progress_display("Clustering", "progressr", list(total = 4, name = "rows"))
  expect_identical(steps(display$show(c(1, 4))), 250)
  expect_identical(steps(display$show(c(1, 8))), 0)
  expect_identical(steps(display$show(c(4, 4))), 750)
  display$close()

  joint <- joint_progress(20, "Clustering", "progressr")
  expect_identical(steps({
    joint$step(5)(c(1, 1))
    joint$done(5)
  }), 250)
  joint$close()
  x <- matrix(sin(1:4000), 1000)
  expect_gt(steps(expect_identical(gknn(x, 3, block_rows = 100, progress = "progressr"),
                                   gknn(x, 3))), 900)
})

test_that("an unknown kind of progress is refused", {
  x <- matrix(sin(1:40), 10)
  needs <- "it must be TRUE, FALSE or \"progressr\""
  expect_error(gdist(x, progress = "bar"), paste("`progress` is \"bar\";", needs), fixed = TRUE,
               class = "gmhclust_error_input")
})

test_that("every verb shows progress in a log, also of data in blocks", {
  skip_if_not(nzchar(system.file("Meta", package = "gmhclust")), "installed gmhclust")
  said <- in_new_session(c(
    "library(gmhclust, lib.loc = commandArgs(TRUE))",
    # Lines at once, whatever the time.
    "utils::assignInNamespace(\"lines_of_log\", function(what) {",
    "  show <- function(share, done) cat(floor(100 * share), \"%\", done, \" \", sep = \"\")",
    "  list(show = show, close = function() cat(what, \"closed \"))",
    "}, \"gmhclust\")",
    "options(gmhclust.progress = TRUE)",
    "set.seed(1)",
    "x <- matrix(rnorm(4000), 1000)",
    "blocks <- observations(function(first, last) x[first:last, , drop = FALSE], rows = 1000)",
    "groups <- rep(1:10, 100)",
    "tree <- gmhclust(x, 20, warn = FALSE)",
    "populations <- cut_populations(tree, x = x)",
    "works <- alist(",
    "  gdist(x), ghclust(x, \"ward.D2\"), gmst(x), gknn(x, 3), gneighbours(x, 1), gkmeans(x, 5),",
    "  gmhclust(x, 20, warn = FALSE), cut_populations(tree, x = x),",
    "  gkmeans(blocks, 5), gmhclust(blocks, 20, groups, warn = FALSE),",
    "  gmhclust(blocks, 20, groups, warn = FALSE, output = tempfile()),",
    "  predict(populations, blocks), gknn(blocks, 3)",
    ")",
    "for (work in works) {",
    "  cat(\"\\n\")",
    "  invisible(suppressWarnings(eval(work)))",
    "}"
  ), env = character())
  said <- said[-1]
  expect_length(said, 13)
  expect_match(said, "closed $")
  # Each display is closed once.
  expect_length(unlist(regmatches(said, gregexpr("closed", said))), 13 + 4)
  expect_match(said[9:12], "(1,000 of 1,000 rows)", fixed = TRUE)
})
