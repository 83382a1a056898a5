cells <- lymphocytes()[seq(1, 20000, by = 20), ]
x <- as.matrix(cells[c("CD4", "CD8", "CD3", "CD56")])
h <- gmhclust(x, 50, apriori = rep(1:100, 10))
population <- cut_populations(h, 5, 20)
gate <- ifelse(cells$CD4 > 60, "CD4", ifelse(cells$CD8 > 50, "CD8", NA))

# What plot_populations() draws, by each engine that is there.
drawn <- function(...) {
  found <- on_no_screen(plot_populations(..., engine = "base"))
  if (requireNamespace("ComplexHeatmap", quietly = TRUE)) {
    expect_identical(on_no_screen(plot_populations(..., engine = "ComplexHeatmap")), found)
  }
  found
}

test_that("medians, sizes and shares are those of the populations", {
  found <- drawn(h, x, population, gates = gate, samples = cells$ids)
  numbers <- as.integer(population)
  expect_identical(found$sizes, tabulate(numbers, 5))
  for (p in 1:5) {
    expect_identical(found$medians[p, ], apply(x[numbers == p, ], 2, median))
    counts <- table(factor(gate[numbers == p], c("CD4", "CD8")))
    expect_equal(found$gates[p, ], c(counts / sum(counts)))
    of_sample <- tapply(numbers == p, cells$ids, mean)
    expect_equal(found$samples[p, ], c(of_sample))
  }
})

test_that("the tree joins populations as the whole tree does", {
  found <- drawn(h, x, population)
  expect_true(check_hclust(found$tree))
  expect_identical(found$tree$labels, as.character(1:5))
  for (k in 1:5) {
    coarse <- cut_populations(h, k, 20)
    of_leaf <- gcutree(found$tree, k)[as.character(population)]
    inside <- population > 0
    expect_true(all(rowSums(table(coarse[inside], of_leaf[inside]) > 0) == 1))
  }
  last <- max(which(!is.na(match(h$height, found$tree$height))))
  expect_identical(found$tree$height[4], h$height[last])
})

test_that("populations may be a number, NULL, other clusters, or with the rest", {
  expect_identical(drawn(h, x, 4), drawn(h, x, cut_populations(h, 4)))
  expect_identical(drawn(h, x), drawn(h, x, cut_populations(h)))
  expect_identical(drawn(h, x, gcutree(h, 6))$sizes, tabulate(gcutree(h, 6)))
  nearest <- cut_populations(h, 5, 20, rest = "nearest", X = x)
  found <- drawn(h, x, nearest)
  expect_identical(found$sizes, tabulate(as.integer(nearest), 5))
  expect_identical(found$tree[1:3], drawn(h, x, population)$tree[1:3])
  one <- drawn(h, x, 1)
  expect_null(one$tree)
  expect_identical(one$medians[1, ], apply(x, 2, median))
})

test_that("the top of a tree takes the observations of the whole tree", {
  for (top in list(cutree_top(h, 60), cutree_apriori(h))) {
    found <- drawn(top, x, cut_populations(top, 4, 30), gates = gate)
    whole <- drawn(h, x, cut_populations(h, 4, 30), gates = gate)
    parts <- c("medians", "sizes", "gates")
    expect_identical(found[parts], whole[parts])
  }
})

test_that("trees of other packages, unnamed columns and unscaled medians are drawn", {
  u <- as.matrix(USArrests)
  tree <- hclust(dist(u), "average")
  found <- drawn(tree, u, 3, scale = FALSE, main = "Arrests")
  expect_identical(colnames(found$medians), colnames(u))
  expect_identical(colnames(drawn(tree, unname(u), 3)$medians), as.character(1:4))
  constant <- cbind(u, 7)
  expect_identical(drawn(tree, constant, 3)$medians[, 5], c("1" = 7, "2" = 7, "3" = 7))
})

test_that("scaled medians go from the 1st to the 99th percentile", {
  ends <- apply(x, 2, quantile, c(0.01, 0.99))
  medians <- rbind(ends[1, ], ends[2, ], colMeans(ends), ends[1, ] - 1)
  scaled <- unit_scaled(medians, x)
  expect_equal(unname(scaled), matrix(c(0, 1, 0.5, 0), 4, 4))
})

test_that("the settings of graphics are as before", {
  on_no_screen({
    before <- graphics::par(no.readonly = TRUE)
    plot_populations(h, x, population, engine = "base")
    after <- graphics::par(no.readonly = TRUE)
  })
  expect_identical(after[c("mar", "oma", "mfrow", "cex")], before[c("mar", "oma", "mfrow", "cex")])
})

test_that("wrong arguments are refused", {
  refused <- function(object, message) {
    expect_refused(on_no_screen(object), message, by = "plot_populations")
  }
  refused(plot_populations(x, x), "`h` is a numeric matrix")
  refused(plot_populations(h, x[1:9, ]), "`X` has 9 rows; the tree has 1000 leaves")
  refused(plot_populations(h, x, 1:3), "`populations` has length 3")
  refused(plot_populations(h, x, rep(1:2, 500)), "`populations` are no clusters of `h`")
  refused(plot_populations(h, x, gates = gate[-1]), "`gates` has length 999")
  refused(plot_populations(h, x, samples = list(1)), "`samples` is a list")
  refused(plot_populations(h, x, engine = "ggplot"), "`engine` is \"ggplot\"")
  refused(plot_populations(h, x, scale = 2), "`scale` is 2")
  refused(plot_populations(h, x, gate = gate, colour = 2), "unused argument: `colour`")
})

test_that("the samples of a flowSet are known", {
  cells <- flow_cells()
  set <- flow_set(list(a = cells$frame, b = flow_cells(100)$frame))
  h <- gmhclust(set, threshold = 30)
  population <- cut_populations(h, 3, 20)
  found <- on_no_screen(plot_populations(h, set, population, engine = "base"))
  expect_identical(colnames(found$samples), c("a", "b"))
  expect_identical(
    cut_populations(h, 3, 20, rest = "nearest", X = set, channels = c("CD3", "CD4"))[],
    cut_populations(h, 3, 20, rest = "nearest", X = observations(set)[, c("CD3", "CD4")])[]
  )
})
