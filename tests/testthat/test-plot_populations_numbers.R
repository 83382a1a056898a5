x <- some_cells(1500)
h <- gmhclust(x, warn = FALSE)
found <- cut_populations(h, x = x)

test_that("a column of the picture has the populations of that number", {
  bands <- nested_bands(found, 12L)
  expect_identical(bands$names, as.character(seq_len(attr(found, "k"))))
  for (k in 1:12) {
    column <- bands$rectangles[bands$rectangles$from <= k & k <= bands$rectangles$to, ]
    expected <- attr(cut_populations(h, k), "sizes")
    expect_equal(sort(column$high - column$low), sort(expected) / 1500)
    # They do not overlap.
    column <- column[order(column$low), ]
    expect_true(all(column$high[-k] <= column$low[-1] + 1e-12))
  }
})

test_that("a rectangle within a population has its colour", {
  bands <- nested_bands(found, 15L)
  last <- bands$rectangles[bands$rectangles$to == 15L, ]
  share <- rowsum(last$high - last$low, last$population)
  known <- as.integer(rownames(share)) > 0L
  # Some members fall off within a population.
  sizes <- attr(found, "sizes")[as.integer(rownames(share))[known]] / 1500
  expect_true(all(share[known, ] <= sizes + 1e-12))
  expect_gt(sum(share[known, ]), 0.7 * sum(sizes))
  expect_identical(bands$rectangles$population[1], 0L)
})

test_that("any populations of a tree can be drawn, and the device is left as it was", {
  on_no_screen({
    before <- graphics::par(c("mar", "mfrow"))
    expect_identical(plot(found), found)
    expect_identical(plot(cut_populations(h, 3), most = 5, main = "three"), cut_populations(h, 3))
    plot(cut_populations(h, 1), most = 1)
    # No population is a rectangle of its own, so there is no name.
    expect_identical(plot(cut_populations(h, 3), most = 1), cut_populations(h, 3))
    plot(suppressMessages(cut_populations(ghclust(x[1:9, ], "average"), min_members = 9)))
    expect_identical(graphics::par(c("mar", "mfrow")), before)
    # Also if pictures are side by side.
    graphics::par(mfrow = c(2, 2), mar = c(3, 3, 1, 1))
    before <- graphics::par("mfrow", "cex", "mar", "mfg")
    plot(found)
    expect_identical(graphics::par("mfrow", "cex", "mar", "mfg"), before)
    graphics::plot.new()
    expect_identical(graphics::par("mfg"), c(1L, 1L, 2L, 2L))
  })
})

test_that("what has no splits, and limits of the axes, are refused", {
  expect_refused(plot(found, most = 0), "`most` is 0", by = "plot.populations")
  expect_refused(plot(found, xlim = c(1, 3)), "`xlim` is given; the columns are 1 to `most`",
                 by = "plot.populations")
  expect_refused(plot(found, ylim = c(0, 0.5)), "`ylim` is given", by = "plot.populations")
  attr(found, "splits") <- NULL
  expect_refused(plot(found), "has no splits of a tree", by = "plot.populations")
})
