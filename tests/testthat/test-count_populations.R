x <- some_cells(500)[, c("CD3", "CD4", "CD8")]
h <- ghclust(x, "average")
population <- cut_populations(h, 4, 40)
set.seed(1)
samples <- sample(c("patient10", "patient2", "patient1"), 500, replace = TRUE)
refused <- function(object, message) expect_refused(object, message, by = "count_populations")

test_that("cells are counted by population and sample", {
  expect_gt(sum(population == 0), 0)
  counts <- count_populations(population, samples)
  expect_type(counts, "integer")
  expect_identical(dimnames(counts), list(as.character(1:4), paste0("patient", c(1, 2, 10))))
  for (p in 1:4) {
    for (s in colnames(counts)) {
      expect_identical(counts[p, s], sum(population == p & samples == s))
    }
  }
  all <- count_populations(population, samples, rest = TRUE)
  expect_identical(all[1:4, ], counts)
  expect_identical(rownames(all)[5], "none")
  expect_identical(colSums(all), c(table(samples))[colnames(counts)] + 0)
})

test_that("rows have the names of populations", {
  named <- name_populations(population, c("T" = 2))
  counts <- count_populations(named, samples)
  expect_identical(rownames(counts), levels(named))
  expect_identical(unname(counts), unname(count_populations(population, samples)))
  merged <- name_populations(population, list("T" = 3:4))
  expect_identical(count_populations(merged, samples)["T", ],
                   count_populations(population, samples)[3, ] +
                     count_populations(population, samples)[4, ])
})

test_that("levels stay in their order, also those without cells", {
  by <- factor(samples, c("patient10", "nobody", "patient1", "patient2"))
  counts <- count_populations(population, by)
  expect_identical(colnames(counts), levels(by))
  expect_identical(unname(counts[, "nobody"]), integer(4))
  expect_identical(counts[, colnames(counts) != "nobody"],
                   count_populations(population, samples)[, levels(by)[-2]])
  ordered <- factor(samples, rev(unique(samples)), ordered = TRUE)
  expect_identical(colnames(count_populations(population, ordered)), levels(ordered))
})

test_that("numbers are samples in increasing order, populations without cells rows of zeros", {
  counts <- count_populations(c(1L, 3L, 3L, 0L), c(100000, 7, 7, 20))
  expect_identical(counts, matrix(
    c(0L, 0L, 2L, 0L, 0L, 0L, 1L, 0L, 0L), 3, dimnames = list(1:3, c("7", "20", "100000"))
  ))
  classes <- structure(c(1L, 0L), class = "populations", levels = c("a", "b"))
  expect_identical(count_populations(classes, c("s", "s"), TRUE),
                   matrix(c(1L, 0L, 1L), dimnames = list(c("a", "b", "none"), "s")))
})

test_that("edgeR takes the matrix", {
  skip_if_not_installed("edgeR")
  counts <- count_populations(population, samples)
  data <- edgeR::DGEList(counts)
  expect_identical(unname(data$samples$lib.size), unname(colSums(counts)))
  expect_identical(rownames(data), rownames(counts))
})

test_that("wrong arguments are refused", {
  refused(count_populations("a", "s"),
          "`populations` is \"a\"; it must be the value of cut_populations()")
  refused(count_populations(c(1, NA), 1:2), "`populations` has NA")
  refused(count_populations(c(1, -1), 1:2), "`populations` is a numeric vector of length 2")
  refused(count_populations(c(1, 1.5), 1:2), "`populations` is a numeric vector of length 2")
  refused(count_populations(c(1, 1e7), 1:2), "`populations` has 1e+07")
  refused(count_populations(sum, "s"), "`populations` is a function")
  refused(count_populations(integer(0), character(0)), "`populations` has length 0")
  refused(count_populations(population, samples[-1]), "`samples` has length 499")
  refused(count_populations(population, NULL), "`samples` is NULL")
  refused(count_populations(population, list(1)), "`samples` is a list")
  gap <- replace(samples, 7, NA)
  refused(count_populations(population, gap), "`samples` has NA at position 7")
  refused(count_populations(population, factor(gap)), "`samples` has NA at position 7")
  refused(count_populations(population, addNA(factor(gap))), "`samples` has NA at position 7")
  broken <- structure(rep(9L, 500), levels = "a", class = "factor")
  refused(count_populations(population, broken), "`samples` is a factor with codes of no level")
  refused(count_populations(population, samples, rest = NA), "`rest` is NA")
  top <- cutree_top(h, 50)
  refused(count_populations(cut_populations(top, 3, 20), samples[1:50]),
          "`populations` is of 50 leaves that stand for 500 cells")
  # Rows of a data.table keep the attributes of all cells.
  part <- as.integer(population)[1:100]
  attributes(part) <- within(attributes(population), rm(names))
  refused(count_populations(part, samples[1:100]),
          "if these are a part of the cells, use as.integer(populations)")
})

test_that("samples in another order are refused if their names show it", {
  tree <- hclust(dist(USArrests), "average")
  population <- cut_populations(tree, 3, 5)
  samples <- setNames(rep(c("a", "b"), 25), rownames(USArrests))
  expect_error(count_populations(population, rev(samples)),
               "`samples` has `populations`'s observations in another order", fixed = TRUE,
               class = "gmhclust_error_input")
  expect_identical(count_populations(population, samples),
                   count_populations(population, unname(samples)))
})
