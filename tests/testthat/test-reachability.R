# The definition in plain R: core distances, and mutual reachability distances.
core_distances <- function(d, k) apply(unname(d), 1, function(row) sort(row)[k])

mutual_reachability <- function(d, k) {
  core <- core_distances(d, k)
  pmax(unname(d), outer(core, core, pmax))
}

# Kruskal's algorithm. Edges of equal weight are ordered by distance, then by their ends.
kruskal <- function(d, k) {
  ends <- which(upper.tri(d), arr.ind = TRUE)
  edges <- data.frame(
    source = ends[, 1], target = ends[, 2], weight = mutual_reachability(d, k)[ends]
  )
  edges <- edges[order(edges$weight, d[ends], edges$source, edges$target), ]
  component <- seq_len(nrow(d))
  is_taken <- vapply(seq_len(nrow(edges)), function(i) {
    of_ends <- component[unlist(edges[i, 1:2])]
    component[component == of_ends[2]] <<- of_ends[1]
    of_ends[1] != of_ends[2]
  }, NA)
  edges <- edges[is_taken, ]
  rownames(edges) <- NULL
  edges
}

expect_reachability <- function(x, k, metric = "euclidean") {
  d <- unname(as.matrix(gdist(x, metric)))
  expect_identical(gmst(x, metric, min_points = k), kruskal(d, k))
  tree <- ghclust(x, "single", metric = metric, min_points = k)
  expect_identical(tree$core, core_distances(d, k))
  expected <- hclust(as.dist(mutual_reachability(d, k)), "single")
  expect_identical(tree$height, expected$height)
  expect_true(check_hclust(tree))
  expect_identical(tree$settings$min_points, as.integer(k))
}

# Two clouds and a few cells between them.
clouds <- function(n = 150, seed = 1) {
  set.seed(seed)
  rbind(
    matrix(rnorm(2 * n), n), matrix(rnorm(2 * n, 12), n), matrix(runif(n %/% 5, -10, 25), ncol = 2)
  )
}

test_that("trees are those of mutual reachability distances, under all metrics", {
  for (metric in c(dist_metrics, correlations)) expect_reachability(blobs(40, 5), 4, metric)
  for (k in c(2, 3, 10, 39, 40)) expect_reachability(blobs(40, 3), k)
})

test_that("ties, duplicates and small shapes have one tree", {
  expect_reachability(as.matrix(expand.grid(1:6, 1:6)), 5)
  x <- blobs(12, 3)
  expect_reachability(rbind(x, x, x), 3)
  expect_reachability(rbind(x, x, x), 5)
  expect_reachability(matrix(1, 20, 2), 4)
  expect_reachability(matrix(c(1, 2)), 2)
})

test_that("one point is plain single linkage", {
  x <- blobs(30, 3)
  plain <- ghclust(x, "single")
  one <- ghclust(x, "single", min_points = 1)
  expect_identical(one[c("merge", "height", "order")], plain[c("merge", "height", "order")])
  expect_null(one$core)
  expect_null(one$settings$min_points)
  expect_identical(gmst(x, min_points = 1), gmst(x))
})

test_that("the number of threads does not matter", {
  x <- blobs(3000, 4)
  one <- ghclust(x, "single", min_points = 12, threads = 1)
  two <- ghclust(x, "single", min_points = 12, threads = 2)
  shown <- c("merge", "height", "order", "core")
  expect_identical(one[shown], two[shown])
})

test_that("populations, strengths and outlier scores are those of dbscan's hdbscan()", {
  skip_if_not_installed("dbscan")
  for (seed in 1:4) {
    k <- c(5, 8, 12, 20)[seed]
    x <- clouds(seed = seed)
    expected <- dbscan::hdbscan(x, k)
    tree <- ghclust(x, "single", min_points = k)
    if (k >= 8) {
      own <- as.integer(cut_populations(tree))
      expect_identical(max(own), max(as.integer(expected$cluster)))
      common <- sum(apply(table(own, expected$cluster), 1, max))
      expect_gt(common / nrow(x), 0.98)
    }
    expect_equal(tree$height, expected$hc$height)
    expect_equal(tree$core, expected$coredist)
    # Merges at equal heights have another order there, which may move cells at a split.
    tree[c("merge", "order")] <- expected$hc[c("merge", "order")]
    found <- cut_populations(tree)
    expect_gt(max(expected$cluster), 1)
    pairs <- unique(cbind(expected$cluster, as.integer(found)))
    expect_identical(nrow(pairs), length(unique(expected$cluster)))
    expect_identical(expected$cluster == 0, as.integer(found) == 0L)
    expect_equal(attr(found, "strength"), expected$membership_prob)
    # Where a small branch falls off, dbscan takes another density for the greatest one.
    differs <- abs(attr(found, "outlier") - expected$outlier_scores) > 1e-12
    expect_lt(mean(differs), 0.05)
    expect_identical(attr(found, "min_members"), as.double(k))
  }
})

test_that("a tree without a split is one population", {
  set.seed(1)
  tree <- ghclust(matrix(rnorm(60), ncol = 2), "single", min_points = 20)
  found <- suppressMessages(cut_populations(tree))
  expect_identical(unique(as.integer(found)), 1L)
  expect_true(all(attr(found, "outlier") >= 0 & attr(found, "outlier") < 1))
})

test_that("members leave where their branch has too few members", {
  tree <- ghclust(clouds(40), "single", min_points = 4)
  n <- length(tree$order)
  nodes <- plain_nodes(tree$merge, rep(1, n))
  # For each leaf, the lowest height at which its cluster has enough members.
  enough_at <- function(least) {
    found <- rep(NA_real_, n)
    for (height in unique(tree$height)) {
      cluster <- gcutree(tree, h = height)
      is_new <- is.na(found) & tabulate(cluster)[cluster] >= least
      found[is_new] <- height
    }
    found
  }
  for (least in c(5, 12, 30)) {
    found <- condense(tree, rep(1, n), least, NULL, min_points = 4)
    density <- 1 / enough_at(least)
    inside <- plain_leaves_inside(nodes, found$node)
    greatest <- vapply(plain_leaves(nodes)[found$node], function(leaves) max(density[leaves]), 0)
    expect_equal(found$outlier, 1 - density / greatest[inside])
  }
  # Of clusters of at least 30 members, cells between them are not one.
  expect_identical(attr(cut_populations(tree, min_members = 30), "k"), 2L)
})

test_that("strengths are those of the members found by density", {
  x <- clouds()
  tree <- ghclust(x, "single", min_points = 5)
  found <- cut_populations(tree)
  all <- cut_populations(tree, rest = "nearest", x = x, k = attr(found, "k"))
  same <- cut_populations(tree, k = attr(found, "k"))
  expect_identical(attr(all, "strength"), attr(same, "strength"))
  expect_true(all(attr(all, "strength")[same == 0] == 0))
  # A merged population has another largest core distance.
  expect_null(attr(name_populations(found, c(one = 1, one = 2)), "strength"))
  expect_identical(attr(name_populations(found, c(one = 1)), "strength"), attr(found, "strength"))
})

test_that("heights of any size have densities", {
  x <- clouds(60)
  plain <- cut_populations(ghclust(x, "single", metric = "manhattan", min_points = 6))
  for (scale in c(2^-1020, 2^200)) {
    tree <- ghclust(scale * x, "single", metric = "manhattan", min_points = 6)
    found <- cut_populations(tree)
    expect_identical(as.integer(found), as.integer(plain))
  }
})

test_that("equal rows are the densest, and get no impossible scores", {
  x <- rbind(clouds(60), matrix(0, 20, 2))
  found <- cut_populations(ghclust(x, "single", min_points = 5))
  expect_true(all(is.finite(attr(found, "outlier"))))
  expect_true(all(attr(found, "strength") >= 0 & attr(found, "strength") <= 1))
})

test_that("equal rows do not divide the cluster around them", {
  set.seed(2)
  x <- rbind(matrix(rnorm(200), 100), matrix(rnorm(100, 8), 50))
  x <- rbind(x, x[rep(1, 6), ])
  for (least in c(6, 10)) {
    found <- cut_populations(ghclust(x, "single", min_points = 6), min_members = least)
    expect_identical(attr(found, "k"), 2L)
    expect_identical(unique(found[c(1, 151:156)]), found[1])
    expect_true(found[1] > 0)
  }
})

test_that("other trees have no strengths, nor has the top of a tree", {
  x <- clouds()
  expect_null(attr(cut_populations(ghclust(x, "single")), "strength"))
  top <- cutree_top(ghclust(x, "single", min_points = 5), 100)
  expect_null(attr(suppressMessages(cut_populations(top)), "strength"))
})

test_that("what cannot be used is refused", {
  x <- blobs(20, 2)
  expect_error(ghclust(x, min_points = 2), "needs `method = \"single\"`",
               class = "gmhclust_error_input")
  expect_error(ghclust(dist(x), "single", min_points = 2), "not a dist object",
               class = "gmhclust_error_input")
  expect_error(ghclust(x, "single", members = rep(1, 20), min_points = 2), "without `members`",
               class = "gmhclust_error_input")
  y <- x
  y[3, 1] <- NA
  expect_error(ghclust(y, "single", min_points = 2, missing = "pairwise"), "missing values",
               class = "gmhclust_error_input")
  for (min_points in list(0, 1.5, NA, "5", 1:2, -1)) {
    expect_error(ghclust(x, "single", min_points = min_points), "`min_points`",
                 class = "gmhclust_error_input")
    expect_error(gmst(x, min_points = min_points), "`min_points`", class = "gmhclust_error_input")
  }
  calls <- list(quote(ghclust(x, "single", min_points = 21)), quote(gmst(x, min_points = 21)))
  for (call in calls) {
    expect_error(eval(call), "there are only 20 observations", class = "gmhclust_error_input")
  }
})

test_that("print() shows the number of points", {
  tree <- ghclust(blobs(20, 2), "single", min_points = 3)
  expect_output(print(tree$settings), "Core distances: of 3 points")
  expect_output(print(cut_populations(tree)), "as HDBSCAN does")
})

test_that("a tree without a possible `min_points` is like any other", {
  tree <- ghclust(clouds(40), "single", min_points = 4)
  plain <- tree
  plain$core <- plain$settings$min_points <- NULL
  for (min_points in c(-3, 0, 1e6)) {
    tree$settings$min_points <- min_points
    expect_identical(as.integer(cut_populations(tree)), as.integer(cut_populations(plain)))
  }
})
