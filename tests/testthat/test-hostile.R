# Arguments that are not what their class says: each is an error that names it, as tools/fuzz found.

x <- blobs(30, 4)
tree <- gmhclust(x, threshold = 5, apriori = rep(1:3, 10), progress = FALSE, warn = FALSE)
top <- cutree_top(tree, 6)
populations <- cut_populations(tree, k = 2, min_members = 3)
nn <- gknn(x, 3)
files <- gknn(x, 3, output = tempfile(), block_rows = 8)

# A list with another value of a part, and the same class.
with_part <- function(object, part, value) {
  class <- class(object)
  object <- unclass(object)
  object[part] <- list(value)
  structure(object, class = class)
}

# A vector with another value at its first place.
with_first <- function(vector, value) {
  vector[1] <- value
  vector
}

test_that("neighbours are checked", {
  wrong <- list(
    with_part(nn, "index", with_first(nn$index, NA)), with_part(nn, "index", nn$index - 30L),
    with_part(nn, "index", nn$index + 0.5), with_part(nn, "distance", with_first(nn$distance, NaN)),
    # In R 4.2, lengths() of such a matrix ends R.
    with_part(nn, "distance", asS4(nn$distance)), structure(nn, rows = 1:3)
  )
  for (nn in wrong) {
    expect_refused(as_edges(nn), "`nn`", "as_edges")
    expect_refused(as_uwot(nn), "`nn`", "as_uwot")
  }
})

test_that("files are those of a folder", {
  wrong <- list(
    structure(list(), class = "gknn_files"), structure(1, class = "gknn_files"),
    with_part(files, "rows", NULL), with_part(files, "rows", c(30L, 30L)),
    with_part(files, "k", -1L), with_part(files, "block_rows", "a"),
    with_part(files, "checksum", NA_character_),
    with_part(files, "folder", 1i), with_part(files, "metric", "euclidean")
  )
  for (files in wrong) {
    expect_refused(as_edges(files), "`nn` has components that do not fit", "as_edges")
    expect_refused(as_uwot(files), "`nn` has components that do not fit", "as_uwot")
    expect_refused(files[1], "`x` has components that do not fit", "[.gknn_files")
    expect_refused(print(files), "`x` has components that do not fit", "print.gknn_files")
  }
})

test_that("files agree with their manifest", {
  for (part in c("rows", "k", "block_rows")) {
    changed <- with_part(files, part, files[[part]] - 1L)
    expect_refused(changed[1], "`x` has components that differ from its manifest.json",
                   "[.gknn_files")
  }
})

test_that("heights may have no class of their own", {
  classed <- with_part(tree, "height", structure(tree$height, class = "data.frame"))
  expect_identical(check_hclust(classed), "`height` is not numeric")
})

test_that("the top of a tree is checked", {
  wrong_leaf <- with_part(top, "leaf", with_first(top$leaf, -1))
  expect_refused(cutree_top(wrong_leaf, 2), "`leaf`", "cutree_top")
  wrong_members <- with_part(top, "members", rep(NaN, 6))
  expect_refused(cut_populations(wrong_members), "`members`", "cut_populations")
  for (settings in list(1, "a")) {
    expect_s3_class(cutree_top(with_part(top, "settings", settings), 2), "hclust")
  }
  expect_refused(print(structure(1, class = "gmhclust_settings")), "`x` is",
                 "print.gmhclust_settings")
})

test_that("a tree is drawn whatever its call is", {
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  for (call in list(NULL, 3, quote(f()))) {
    drawn <- with_part(tree, "call", call)
    expect_identical(plot_tree(drawn), drawn)
  }
})

test_that("populations are checked", {
  for (value in list(-Inf, NaN, NA, 2^40, .Machine$integer.max, 0.5, -1)) {
    expect_refused(plot_tree(tree, populations = with_first(populations, value)), "`populations`",
                   "plot_tree")
  }
  nearest <- structure(populations, nearest = TRUE, roots = 1:3)
  expect_refused(plot_tree(tree, populations = nearest), "`populations` has an attribute `roots`",
                 "plot_tree")
  expect_refused(print(structure(1L, class = "populations")), "`x` has attributes",
                 "print.populations")
})

test_that("numbers and names may have no class of their own", {
  expect_refused(gcutree(tree, k = structure(4, class = "data.frame")), "`k` is", "gcutree")
  expect_refused(gcutree(tree, h = structure(4, class = "data.frame")), "`h` is", "gcutree")
  metric <- structure("manhattan", class = "Date")
  expect_identical(gknn(x, 3, metric = metric), gknn(x, 3, metric = "manhattan"))
})

test_that("factors have a level for each code", {
  broken <- structure(rep(7L, 30), levels = c("a", "b"), class = "factor")
  expect_refused(gmhclust(x, apriori = broken), "`apriori` is", "gmhclust")
  for (gates in list(broken, rep(NA, 30))) {
    expect_refused(plot_populations(tree, x, populations, gates = gates), "`gates` ",
                   "plot_populations")
  }
})

test_that("data of other classes that cannot be read is refused", {
  uneven <- structure(list(a = 1:3, b = 1:2), class = "data.frame", row.names = 1:3)
  expect_refused(gdist(uneven), "`x` has columns of different lengths", "gdist")
  expect_refused(gmst(structure(list(), class = "flowFrame")), "`x` has no slot `exprs`", "gmst")
  expect_refused(gmst(structure(list(), class = "flowSet")), "`x` has no slot `frames`", "gmst")
  # A matrix and a vector, whatever their class.
  classed <- structure(x, class = "populations")
  expect_identical(as_computed(gmhclust(classed, 5)), as_computed(gmhclust(x, 5)))
  expect_equal(as.vector(gdist(structure(1:3, class = "hclust"))), c(1, 2, 1))
  skip_if_not_installed("DelayedArray")
  delayed <- structure(list(), class = "DelayedMatrix")
  expect_refused(gmst(delayed), "`x` is an object of class \"DelayedMatrix\", which cannot", "gmst")
})

test_that("errors show the beginning of long text, and bytes of no text", {
  long <- strrep("a", 1e5)
  error <- expect_error(gknn(x, 3, metric = long), class = "gmhclust_error_input")
  expect_lt(nchar(conditionMessage(error)), 300)
  expect_refused(gknn(x, 3, metric = "\xff"), "`metric` is \"<ff>\"", "gknn")
  bytes <- "\xff"
  Encoding(bytes) <- "bytes"
  expect_refused(read_gknn(bytes), "`output` is \"<ff>\"", "read_gknn")
})

test_that("what overflows is refused", {
  x <- matrix(c(1, 2, 5, 1e200, -1e200))
  expect_refused(ghclust(x, "single"), "`x` has values so far apart", "ghclust")
  members <- c(1, 1, 1e300)
  expect_refused(ghclust(dist(x[1:3, ]), "centroid", members = members), "`members`", "ghclust")
  close <- matrix(c(2, 2, 1e-154, 0, 0, 0, 0, 0.5, 2, -1.6e23, 0, 2, 2))
  expect_refused(gmhclust(close, 1e-9, distance = "centroid"), "`x` has values so far apart")
  inverted <- ghclust(dist(blobs(30, 4))^2, "centroid")
  skip_if(!is.unsorted(inverted$height))
  expect_refused(make_monotone(inverted, eps = 1e308), "`eps` is 1e+308", "make_monotone")
})

test_that("the scale of tiny data does not matter", {
  # Fourth powers of 1e-80 lose digits to underflow, and bounds with them may exceed distances.
  set.seed(1)
  x <- matrix(rnorm(60), 30)
  tree <- gmhclust(x, 100, subthreshold = "euclid", warn = FALSE)
  for (exponent in c(-55, -80, -82, -90)) {
    tiny <- gmhclust(x * 10^exponent, 100, subthreshold = "euclid", warn = FALSE)
    expect_identical(tiny$merge, tree$merge)
    expect_equal(tiny$height / max(tiny$height), tree$height / max(tree$height), tolerance = 1e-12)
  }
})

test_that("texts that are none in their encoding are refused, or shown by their bytes", {
  bad <- "a\xff"
  expect_refused(gmhclust(x, 6, rep(c(bad, "b"), 15)), "`apriori` has the text \"a<ff>\"")
  expect_refused(mhclust(x, 6, g = factor(rep(c(bad, "b"), 15))), "`g` has the text", "mhclust")
  named <- x
  dimnames(named) <- list(rep(bad, 30), rep(bad, ncol(x)))
  expect_identical(gmhclust(named, 6)$labels, rownames(named))
  named[1, 1] <- NA
  expect_refused(gmhclust(named, 6), "`x` has NA in row 1, column \"a<ff>\"")
  expect_refused(gknn(x, 2, subset = bad), "`subset` has \"a<ff>\"", "gknn")
})

test_that("a dist object has as many labels as observations", {
  with_labels <- function(labels) structure(dist(x), Labels = labels) # nolint: object_name_linter.
  for (labels in list(letters[1:5], list(1), sum)) {
    expect_refused(ghclust(with_labels(labels)), "`x` has", "ghclust")
  }
  expect_identical(ghclust(with_labels(1:30))$labels, 1:30)
})
