# A tree with five populations and cells in none.
x <- some_cells(600)[, c("CD3", "CD4", "CD8", "CD56", "TCRgd")]
h <- ghclust(x, "ward.D2")
population <- cut_populations(h, 5, 20)

# Populations as cut_populations() returns them, with separations and a model.
complete <- function(population) {
  k <- attr(population, "k")
  attr(population, "levels") <- as.character(seq_len(k))
  attr(population, "roots") <- as.list(attr(population, "roots"))
  attr(population, "separation") <- data.frame(
    population = seq_len(k), nearest = c(2L, 1L, 4L, 3L, 1L), valley = c(0.1, 0.1, 0.2, 0.2, 0.3)
  )
  attr(population, "model") <- structure(class = "population_model", list(
    means = matrix(1, k, 5), sizes = attr(population, "sizes"), population = seq_len(k),
    levels = as.character(seq_len(k)), columns = colnames(x), width = 5L, used = 1:5
  ))
  population
}
full <- complete(population)

named <- function(...) name_populations(full, ...)
refused <- function(object, message) expect_refused(object, message, by = "name_populations")

# The names of cells.
cell_names <- function(p) c("none", levels(p))[p + 1L]

test_that("names are given by number, by present name, or to all in their order", {
  p <- named(c("CD4 T" = 1, "B" = 3))
  expect_identical(levels(p), c("CD4 T", "2", "B", "4", "5"))
  expect_identical(attr(p, "model")$levels, levels(p))
  again <- name_populations(p, c("T helper" = "CD4 T", "NK" = "2"))
  expect_identical(levels(again), c("T helper", "NK", "B", "4", "5"))
  expect_identical(levels(named(letters[1:5])), letters[1:5])
  expect_identical(levels(named(list("a" = 2, "b" = "4"))), c("1", "a", "3", "b", "5"))
  # Names are exchanged at once.
  expect_identical(levels(name_populations(p, c("B" = "CD4 T", "CD4 T" = "B")))[c(1, 3)],
                   c("B", "CD4 T"))
  # Without a merge nothing else changes.
  for (part in setdiff(names(attributes(full)), c("levels", "model"))) {
    expect_identical(attr(p, part), attr(full, part))
  }
  expect_identical(as.integer(p), as.integer(full))
  expect_identical(named(levels(full)), full)
})

test_that("populations without attribute `levels` are called by their numbers", {
  p <- name_populations(population, c("CD4 T" = "1"))
  expect_identical(levels(p), c("CD4 T", "2", "3", "4", "5"))
  expect_null(attr(p, "model"))
})

test_that("the same name merges, whatever the form", {
  sizes <- attr(population, "sizes")
  expect_true(all(diff(sizes) < 0))
  merged <- named(list("T" = c(2, 4, 5)))
  expect_identical(merged, named(c("T" = 2, "T" = 4, "T" = 5)))
  expect_identical(merged, named(list("T" = 4, "T" = c("5", "2"))))
  expect_identical(merged, named(c("1", "T", "3", "T", "T")))
  # One was mentioned, and the other has the name.
  expect_identical(merged, name_populations(named(c("T" = 2)), c("T" = 4, "T" = 5)))
  before <- as.integer(population)
  expect_identical(cell_names(merged) == "T", before %in% c(2L, 4L, 5L))
  expect_identical(attr(merged, "k"), 3L)
  expect_identical(attr(merged, "sizes"), as.double(tabulate(merged, 3)))
  expect_identical(sort(attr(merged, "sizes")), sort(c(sizes[1], sum(sizes[c(2, 4, 5)]), sizes[3])))
  expect_identical(names(merged), names(population))
  expect_identical(attr(merged, "rest"), attr(population, "rest"))
})

test_that("after a merge populations are numbered by size, and names that are numbers follow", {
  small <- structure(
    c(1L, 1L, 1L, 1L, 2L, 2L, 2L, 3L, 3L, 0L, 4L, 4L), class = "populations",
    sizes = c(4, 3, 2, 2), rest = 1, k = 4L, min_members = 1, nearest = FALSE,
    roots = list(1L, 2L, 3L, 4L)
  )
  p <- name_populations(small, list("B" = c(2, 4)))
  expect_identical(as.integer(p), c(2L, 2L, 2L, 2L, 1L, 1L, 1L, 3L, 3L, 0L, 1L, 1L))
  expect_identical(levels(p), c("B", "2", "3"))
  expect_identical(attr(p, "sizes"), c(5, 4, 2))
  expect_identical(attr(p, "roots"), list(c(2L, 4L), 1L, 3L))
  # Of equal size: the first leaf decides.
  p <- name_populations(small, list("B" = c(3, 4)))
  expect_identical(levels(p), c("1", "B", "3"))
  expect_identical(as.integer(p), c(1L, 1L, 1L, 1L, 3L, 3L, 3L, 2L, 2L, 0L, 2L, 2L)[c(
    1:4, 5:7, 8:12
  )])
  one <- name_populations(small, list("all" = 1:4))
  expect_identical(attr(one, "k"), 1L)
  expect_identical(as.integer(one), as.integer(small > 0))
})

test_that("a merge keeps the components of the model, and drops separations that are unknown", {
  merged <- named(list("T" = c(1, 4)))
  model <- attr(merged, "model")
  expect_identical(model$means, attr(full, "model")$means)
  expect_identical(model$levels, levels(merged))
  # The component of each former population belongs to the population with its cells.
  before <- as.integer(full)
  for (p in 1:5) expect_identical(unique(as.integer(merged)[before == p]), model$population[p])
  separation <- attr(merged, "separation")
  expect_identical(separation$population, seq_len(attr(merged, "k")))
  # 3 was nearest to 4, and 2 and 5 to 1, which are merged.
  expect_true(all(is.na(separation$valley)))
  # Merging 1 and 5 leaves 3 and 4 apart from each other as before.
  merged <- named(list("T" = c(1, 5)))
  separation <- attr(merged, "separation")
  to <- function(old) unique(as.integer(merged)[before == old])
  expect_identical(separation$valley[to(3)], 0.2)
  expect_identical(separation$nearest[to(3)], to(4))
  expect_identical(separation$nearest[to(2)], NA_integer_)
  expect_identical(separation$valley[to(1)], NA_real_)
})

test_that("the picture of 1 to 30 populations shows merged ones", {
  merged <- named(list("T" = c(1, 4)))
  to <- c(0L, attr(merged, "model")$population)
  expect_identical(attr(merged, "clusters"), to[attr(population, "clusters") + 1L])
  on_no_screen(expect_identical(plot(merged), merged))
})

test_that("a population model, and populations without roots, are named and merged", {
  model <- attr(full, "model")
  expect_identical(name_populations(model, c("CD4 T" = 1))$levels, c("CD4 T", "2", "3", "4", "5"))
  merged <- name_populations(model, list("T" = c(2, 3)))
  expect_s3_class(merged, "population_model", exact = TRUE)
  expect_identical(merged$levels, attr(named(list("T" = c(2, 3))), "model")$levels)
  expect_identical(merged$population, attr(named(list("T" = c(2, 3))), "model")$population)
  classes <- structure(c(3L, 3L, 0L, 1L), class = "populations", levels = c("a", "b", "c"))
  p <- name_populations(classes, c("b" = "a"))
  expect_identical(levels(p), c("c", "b"))
  expect_identical(as.integer(p), c(1L, 1L, 0L, 2L))
  refused(name_populations(structure(list(levels = "a"), class = "population_model"), "b"),
          "`populations` has components that do not fit")
})

test_that("names in any encoding are kept as UTF-8", {
  latin <- iconv("T\u00e4", "UTF-8", "latin1")
  p <- named(stats::setNames(1, latin))
  expect_identical(levels(p)[1], "T\u00e4")
  expect_identical(levels(name_populations(p, stats::setNames("T\u00e4", "B")))[1], "B")
  bytes <- "T\xff"
  Encoding(bytes) <- "bytes"
  refused(named(c(bytes, letters[2:5])), "`names` has the text")
})

test_that("wrong names are refused", {
  refused(name_populations(1:3, c("a" = 1)),
          "`populations` is a numeric vector of length 3; it must be")
  refused(named(c("a" = 6)), "`names` has 6; there are 5 populations: \"1\", \"2\"")
  refused(named(c("a" = 0)), "`names` has 0")
  refused(named(c("a" = 1.5)), "`names` has 1.5")
  refused(named(c("a" = NA_real_)), "`names` has NA")
  refused(named(c("a" = NA_character_)), "`names` has NA")
  refused(named(c("a" = "CD4 T")), "`names` has \"CD4 T\"; there are 5 populations")
  refused(named(c("a" = 1, "b" = 1)), "`names` mentions population \"1\" twice")
  refused(named(list("a" = c(1, 1))), "`names` mentions population \"1\" twice")
  refused(named(c(1, 2)), "`names` has no names")
  refused(named(c("a" = 1, 2)), "`names` has an empty new name for population 2")
  refused(named(c(" " = 1)), "`names` has an empty new name")
  refused(named(stats::setNames(1, NA)), "`names` has the new name NA")
  refused(named(c("a", NA, "c", "d", "e")), "`names` has the new name NA")
  refused(named(c("a", "b")), "`names` has length 2; without names of its own")
  refused(named(c("none" = 1)), "`names` has the new name \"none\"")
  refused(named(c("2" = 1)), "`names` has the new name \"2\" for population 1")
  refused(named(list("a" = integer(0))), "`names` has no population for \"a\"")
  refused(named(list("a" = list(1))), "`names` is a list")
  refused(named(list()), "`names` is a list")
  refused(named(NULL), "`names` is NULL")
  refused(named(factor(c("a", "b"))), "`names` is an object of class \"factor\"")
  refused(named(c("a" = TRUE)), "`names` is TRUE")
  broken <- full
  attr(broken, "levels") <- c("a", "a", "b", "c", "d")
  refused(name_populations(broken, c("a" = 1)),
          "`populations` has an attribute `levels` that does not fit")
})

test_that("pictures show the names", {
  p <- named(c("CD4 T" = 1, "gamma-delta" = 5))
  for (engine in c("base", if (has_complex_heatmap()) "ComplexHeatmap")) {
    drawn <- on_no_screen(plot_populations(h, x, p, gates = x[, 1] > 50, engine = engine))
    expect_identical(drawn$tree$labels, levels(p))
    expect_identical(rownames(drawn$medians), levels(p))
    expect_identical(rownames(drawn$gates), levels(p))
    without <- on_no_screen(plot_populations(h, x, population, gates = x[, 1] > 50,
                                             engine = engine))
    expect_identical(unname(drawn$medians), unname(without$medians))
    expect_identical(drawn$tree[1:3], without$tree[1:3])
  }
})

test_that("a population of several clusters stands where the largest of them is", {
  # All pairs: some are one cluster of the tree, others are not.
  below <- leaves_of_merges(h)
  roots <- attr(population, "roots")
  apart <- 0
  for (pair in utils::combn(5, 2, simplify = FALSE)) {
    p <- named(list("union" = pair))
    drawn <- on_no_screen(plot_populations(h, x, p, engine = "base"))
    expect_true(check_hclust(drawn$tree))
    expect_setequal(drawn$tree$labels, levels(p))
    union <- which(levels(p) == "union")
    members <- as.integer(p) == union
    expect_identical(drawn$medians["union", ], apply(x[members, ], 2, median))
    expect_identical(drawn$sizes, tabulate(p, 4))
    # The merges of all others are those of the tree without the smaller part.
    kept <- plain_populations(p)
    is_one <- any(vapply(below, function(leaves) {
      setequal(leaves[population[leaves] > 0], which(members))
    }, NA))
    apart <- apart + !is_one
    if (!is_one) kept[population == max(pair)] <- 0L
    expected <- on_no_screen(plot_populations(h, x, kept, engine = "base"))
    expect_identical(drawn$tree[1:3], expected$tree[1:3])
    on_no_screen(plot_tree(h, populations = p, leaves = 50))
  }
  expect_gt(apart, 3)
})

test_that("the rest of a union is not part of its clusters", {
  nearest <- cut_populations(h, 5, 20, rest = "nearest", x = x)
  p <- name_populations(nearest, list("union" = c(1, 5)))
  core <- shown_populations(h, p, "populations", NULL)$core
  expected <- as.integer(p)
  expected[population == 0] <- 0L
  expect_identical(core, expected)
})

test_that("populations whose attributes do not fit are refused", {
  h <- gmhclust(some_cells(300), threshold = 30, warn = FALSE)
  found <- cut_populations(h, 4, x = some_cells(300))
  for (name in c("clusters", "roots", "separation")) {
    forged <- found
    attr(forged, name) <- if (name == "separation") data.frame(nearest = 1:9) else c("a", "b")
    expect_refused(name_populations(forged, c("T" = 1, "T" = 2)), "has attributes that do not fit",
                   by = "name_populations")
  }
})
