# Clouds of normal points far from each other, n points in each.
far_clouds <- function(n, clouds = 3, p = 3, seed = 1) {
  set.seed(seed)
  x <- matrix(rnorm(n * clouds * p), n * clouds)
  x[, 1] <- x[, 1] + 40 * rep(seq_len(clouds), each = n)
  x
}

# The draws of stability() after set.seed(seed), as sets of leaves.
drawn_leaves <- function(leaves, times, seed) {
  set.seed(seed)
  lapply(seq_len(times), function(i) sort(unique(sample.int(leaves, replace = TRUE))))
}

# The largest Jaccard coefficient of members with a branch of the tree of some rows of x; `leaf` is
# the leaf of each row of x, and branches below these leaves do not count.
oracle_agreement <- function(members, x, leaf, drawn, ...) {
  rows <- which(leaf %in% drawn)
  members <- intersect(members, rows)
  if (length(unique(leaf[members])) < 2) return(NA_real_)
  single <- anyDuplicated(leaf) == 0
  tree <- gmhclust(x[rows, ], apriori = if (!single) leaf[rows], warn = FALSE, ...)
  above <- seq_along(tree$height)
  if (!is.null(tree$n.height.apriori)) above <- above[-seq_len(tree$n.height.apriori)]
  branches <- c(
    unname(split(rows, leaf[rows])),
    lapply(leaves_of_merges(tree)[above], function(leaves) rows[leaves])
  )
  jaccard <- function(branch) {
    both <- length(intersect(branch, members))
    both / (length(branch) + length(members) - both)
  }
  max(vapply(branches, jaccard, 0))
}

# The agreements of all branches and populations, by definition.
oracle_stability <- function(s, tree, x, leaf, populations, times, seed, ...) {
  below <- leaves_of_merges(tree)
  draws <- drawn_leaves(max(leaf), times, seed)
  each <- function(members) {
    vapply(draws, function(drawn) oracle_agreement(members, x, leaf, drawn, ...), 0)
  }
  list(
    branches = do.call(rbind, lapply(s$branches$merge, function(merge) each(below[[merge]]))),
    populations = do.call(rbind, lapply(seq_len(max(populations)), function(p) {
      each(which(populations == p))
    }))
  )
}

quiet_gmhclust <- function(...) gmhclust(..., warn = FALSE)

test_that("agreements are those of trees of the drawn observations", {
  x <- blobs(70, 3)
  for (distance in c("full", "centroid")) {
    tree <- quiet_gmhclust(x, threshold = 9, distance = distance, subthreshold = "mahal0")
    populations <- gcutree(tree, 4)
    set.seed(8)
    s <- stability(tree, x, 6, populations, min_members = 6)
    expected <- oracle_stability(s, tree, x, seq_len(70), populations, 6, 8, threshold = 9,
                                 distance = distance, subthreshold = "mahal0")
    expect_gt(nrow(s$branches), 2)
    expect_equal(unname(s$agreement$branches), expected$branches)
    expect_equal(unname(s$agreement$populations), expected$populations)
    expect_identical(s$drawn, "observations")
    expect_identical(s$count, 70L)
  }
})

test_that("with apriori clusters, they and loose observations are drawn", {
  x <- blobs(150, 3)
  set.seed(2)
  # Clusters of several sizes, some of one observation, and 10 loose observations.
  labels <- c(sample(5:30, 140, replace = TRUE), rep(0L, 9), NA)
  labels[1] <- 3L
  tree <- quiet_gmhclust(x, threshold = 8, apriori = labels, normalize = TRUE)
  leaf <- as.vector(cutree_apriori(tree)$leaf)
  populations <- as.integer(cut_populations(tree, 3, 10))
  set.seed(4)
  s <- stability(tree, x, 7, populations, min_members = 10)
  expect_identical(s$drawn, "apriori clusters")
  expect_identical(s$count, max(leaf))
  expected <- oracle_stability(s, tree, x, leaf, populations, 7, 4, threshold = 8,
                               normalize = TRUE)
  expect_equal(unname(s$agreement$branches), expected$branches)
  expect_equal(unname(s$agreement$populations), expected$populations)
  below <- leaves_of_merges(tree)
  expect_identical(s$branches$members, as.double(lengths(below)[s$branches$merge]))
  expect_true(all(s$branches$merge > tree$n.height.apriori))
})

test_that("summaries are those of the agreements", {
  x <- blobs(120, 3)
  tree <- quiet_gmhclust(x, threshold = 10)
  set.seed(1)
  s <- stability(tree, x, 15, 3)
  for (what in c("populations", "branches")) {
    values <- s$agreement[[what]]
    table <- s[[what]]
    expect_equal(table$mean, unname(rowMeans(values, na.rm = TRUE)))
    expect_equal(table$sd, unname(apply(values, 1, sd, na.rm = TRUE)))
    expect_identical(table$recovered, as.integer(unname(rowSums(values >= 0.75, na.rm = TRUE))))
    expect_identical(table$dissolved, as.integer(unname(rowSums(values <= 0.5, na.rm = TRUE))))
    expect_identical(table$draws, as.integer(unname(rowSums(!is.na(values)))))
  }
  verdict <- summary_of_draws(cbind(c(0.85, 0.84, 0.75, 0.74, 0.6, 0.59, 0, NA)))$verdict
  expect_identical(as.character(verdict), c("highly stable", "stable", "stable", "pattern",
                                            "pattern", "doubtful", "doubtful", NA))
})

test_that("far clouds are stable, and halves of one cloud are not", {
  x <- far_clouds(60)
  tree <- quiet_gmhclust(x, threshold = 12)
  set.seed(1)
  s <- stability(tree, x, 20, 3)
  expect_true(all(s$populations$mean > 0.97))
  expect_true(all(s$populations$verdict == "highly stable"))
  expect_identical(s$populations$in_tree, rep(1, 3))
  set.seed(2)
  cloud <- matrix(runif(400), 200)
  set.seed(1)
  s <- stability(quiet_gmhclust(cloud, threshold = 20), cloud, 20, 2, min_members = 50)
  expect_true(all(s$populations$mean < 0.75))
})

test_that("the result depends on the seed only, not on threads", {
  x <- blobs(200, 4)
  tree <- quiet_gmhclust(x, threshold = 12, apriori = rep(1:40, 5))
  draw <- function(seed, ...) {
    set.seed(seed)
    stability(tree, x, 8, 3, ...)
  }
  first <- draw(1, threads = 1)
  expect_identical(draw(1, threads = 3), first)
  expect_false(identical(draw(2, threads = 1)$agreement, first$agreement))
  before <- RNGkind("Wichmann-Hill", sample.kind = "Rejection")
  on.exit(RNGkind(before[1], before[2], before[3]))
  other <- draw(1)
  expect_identical(RNGkind()[1], "Wichmann-Hill")
  expect_false(identical(other$agreement, first$agreement))
})

test_that("random numbers are used as sample.int() does, and not by a refused call", {
  x <- blobs(60, 3)
  tree <- quiet_gmhclust(x, threshold = 8)
  set.seed(9)
  for (i in 1:5) sample.int(60, replace = TRUE)
  expected <- .Random.seed
  set.seed(9)
  before <- .Random.seed
  expect_error(stability(tree, x[1:59, ], 5, 2), class = "gmhclust_error_input")
  expect_error(stability(tree, x, 5, 2, threads = 0), class = "gmhclust_error_input")
  expect_identical(.Random.seed, before)
  stability(tree, x, 5, 2)
  expect_identical(.Random.seed, expected)
})

test_that("scaled trees and columns that were left out are clustered as before", {
  x <- cbind(blobs(80, 3) * rep(c(1, 100, 0.01), each = 80), 5)
  colnames(x) <- c("a", "b", "c", "constant")
  tree <- suppressMessages(gmhclust(x, threshold = 9, scale = TRUE))
  set.seed(1)
  s <- stability(tree, x, 4, 2)
  scaled <- scale(x[, 1:3])
  again <- gmhclust(scaled, threshold = 9, warn = FALSE)
  set.seed(1)
  expect_equal(stability(again, scaled, 4, 2)$agreement, s$agreement)
  expect_refused(stability(tree, x[, 1:3], 4, 2), "`x` has no column \"constant\"", "stability")
  expect_refused(stability(again, x, 4, 2), "`x` has 4 columns to cluster; the tree was made of 3",
                 "stability")
  x[, 2] <- rev(x[, 2])
  expect_refused(stability(tree, x, 4, 2), "`x` has other observations than the tree", "stability")
})

test_that("x may be in blocks or a data frame, and populations are found in it", {
  x <- blobs(90, 3)
  colnames(x) <- c("a", "b", "c")
  tree <- quiet_gmhclust(x, threshold = 9, apriori = rep(1:30, 3))
  draw <- function(x, ...) {
    set.seed(3)
    stability(tree, x, 4, ...)
  }
  expected <- draw(x, 3)
  expect_identical(draw(as.data.frame(x), 3), expected)
  blocks <- observations(function(first, last) x[first:last, , drop = FALSE], rows = 90)
  expect_identical(draw(blocks, 3), expected)
  expect_identical(suppressMessages(draw(blocks)), suppressMessages(draw(x)))
  found <- suppressMessages(cut_populations(tree, x = x))
  expect_identical(suppressMessages(draw(x)), draw(x, found))
  expect_error(suppressMessages(draw(x, nonsense = 1)), "nonsense")
})

test_that("populations of several branches have the mean of these, and names are shown", {
  x <- far_clouds(40, 4)
  tree <- quiet_gmhclust(x, threshold = 10)
  four <- cut_populations(tree, 4)
  set.seed(1)
  single <- stability(tree, x, 10, four)
  united <- name_populations(four, c("A", "B", "A", "B (2%)"))
  set.seed(1)
  s <- stability(tree, x, 10, united)
  expect_identical(s$populations$population, attr(united, "levels"))
  expect_identical(s$populations$in_tree, c(1, 1, 1))
  for (p in 1:3) {
    parts <- unlist(attr(united, "roots")[[p]])
    from <- match(parts, unlist(attr(four, "roots")))
    size <- as.double(attr(four, "sizes"))[from]
    expected <- colSums(single$agreement$populations[from, , drop = FALSE] * size) / sum(size)
    expect_equal(s$agreement$populations[p, ], expected)
  }
  # Without roots, a union is one set, which is no branch of the tree.
  set.seed(1)
  plain <- stability(tree, x, 10, c(1, 2, 1, 3)[four])
  expect_lt(min(plain$populations$in_tree), 1)
  expect_true(all(plain$agreement$populations <= 1))
})

test_that("one apriori cluster is not assessed, and few leaves are", {
  x <- far_clouds(30, 3)
  tree <- quiet_gmhclust(x, threshold = 10, apriori = rep(1:3, each = 30))
  s <- stability(tree, x, 20, gcutree(tree, 3))
  expect_identical(s$populations$draws, rep(0L, 3))
  expect_identical(s$populations$mean, rep(NA_real_, 3))
  expect_identical(nrow(s$branches), 1L)
  expect_output(print(s), "Not assessed, because fewer than two")
  two <- gmhclust(matrix(c(1, 2)), threshold = 1, warn = FALSE)
  s <- stability(two, matrix(c(1, 2)), 10, FALSE)
  expect_identical(nrow(s$branches), 0L)
  expect_output(print(s), "of 2 observations:\nNo branch or population was assessed.", fixed = TRUE)
  three <- matrix(c(1, 2, 10))
  tree <- quiet_gmhclust(three, threshold = 1)
  set.seed(1)
  s <- stability(tree, three, 30, c(1, 1, 2), min_members = 2)
  expect_true(all(s$populations$mean[1] == 1))
  expect_lt(s$populations$draws[1], 30)
  expect_identical(s$populations$draws[2], 0L)
})

test_that("the result is printed and plotted", {
  x <- blobs(150, 3)
  tree <- quiet_gmhclust(x, threshold = 10)
  set.seed(5)
  s <- stability(tree, x, 10, name_populations(cut_populations(tree, 2), c("T cells", "B (CD19+)")))
  expect_output(expect_identical(print(s), s), "with 10 draws of 150 observations:")
  expect_output(print(s), "T cells")
  expect_output(print(s), "stable")
  none <- stability(tree, x, 1, FALSE)
  expect_null(none$populations)
  expect_output(print(none), "with 1 draw of 150 observations")
  on_no_screen({
    margins <- par("mar")
    expect_identical(plot(s, main = "title", cex = 2), s)
    expect_identical(par("mar"), margins)
    expect_identical(plot(none), none)
    none$branches <- none$branches[0, ]
    plot(none)
  })
  parts <- list(list(times = -1), list(times = 2^31), list(drawn = quote(f(x))),
                list(agreement = 1))
  for (part in parts) {
    broken <- s
    broken[names(part)] <- part
    expect_refused(print(broken), "`x` has components that do not fit", "print.stability")
  }
  broken <- s
  broken$branches <- NULL
  expect_refused(print(broken), "`x` has components that do not fit", "print.stability")
  expect_refused(plot(broken), "`x` has components that do not fit", "plot.stability")
})

test_that("trees that cannot be made again are refused", {
  x <- blobs(60, 3)
  tree <- quiet_gmhclust(x, threshold = 8, apriori = rep(1:12, 5))
  refused <- function(object, message) expect_refused(object, message, "stability")
  no_settings <- "`tree` has no settings of a Mahalanobis-average clustering"
  refused(stability(ghclust(x, "average"), x), no_settings)
  refused(stability(hclust(dist(x)), x), no_settings)
  refused(stability(cutree_apriori(tree), x), "`tree` is the top of a tree")
  refused(stability(cutree_top(tree, 5), x), "`tree` is the top of a tree")
  refused(stability(tree), "`x` is missing")
  refused(stability(tree, x[1:50, ], populations = 2), "`x` has 50 rows; the tree has 60 leaves")
  refused(stability(tree, x[60:1, ], populations = 2), "`x` has other observations than the tree")
  refused(stability(tree, letters), "`x` is")
  refused(stability(tree, x, 0), "`times` is 0; it must be a whole number")
  refused(stability(tree, x, 2.5), "`times` is 2.5")
  refused(stability(tree, x, 5, 40), "`populations` is 40; the tree has only")
  refused(stability(tree, x, 5, 1:60 - 2), "`populations` is")
  odd <- structure(FALSE, class = "data.frame")
  refused(stability(tree, x, 5, odd), "`populations` is an object of class \"data.frame\"")
  refused(stability(tree, x, 5, 2, min_members = 61), "`min_members` is 61")
  refused(stability(tree, x, 5, 2, progress = 1), "`progress` is 1")
  refused(stability(tree, x, 5, 2, backend = "opencl"), "`backend` is")
  changed <- tree
  changed$g.labels <- rev(changed$g.labels)
  refused(stability(changed, x, 5, FALSE), "`tree` has components")
  # Trees of mhclust(), and with raised heights, are not.
  for (fine in list(make_monotone(tree), mhclust(x, 8, g = rep(1:12, 5), warn = FALSE))) {
    expect_s3_class(stability(fine, x, 2, 2), "stability")
  }
})

test_that("a column that was left out may have the name of another one", {
  x <- cbind(A = blobs(60, 3)[, 1], A = 1, B = blobs(60, 3)[, 2])
  tree <- suppressMessages(gmhclust(x, 8))
  expect_identical(tree$settings$left_out, "A")
  expect_s3_class(stability(tree, x, 2, 2), "stability")
})
