test_that("the signature is the published one", {
  expect_named(formals(gmhclust), c(
    "x", "threshold", "apriori", "subthreshold", "distance", "normalize", "scale", "apriori_intra",
    "redundant", "warn", "output", "part", "backend", "threads", "devices", "memory", "progress",
    "BPPARAM", "..."
  ))
})

test_that("the result is an hclust object with its components", {
  x <- blobs(20, 3)
  rownames(x) <- letters[1:20]
  tree <- gmhclust(x, threshold = 6)
  expect_s3_class(tree, "hclust", exact = TRUE)
  expect_named(tree, c("merge", "height", "order", "labels", "method", "call", "dist.method",
                       "settings", "backend"), ignore.order = TRUE)
  expect_type(tree$merge, "integer")
  expect_identical(dim(tree$merge), c(19L, 2L))
  expect_type(tree$height, "double")
  expect_type(tree$order, "integer")
  expect_identical(tree$method, "mahalanobis-average")
  expect_identical(tree$dist.method, "euclidean")
  expect_identical(as.list(gmhclust(x, 6, distance = "centroid")$call)[-1],
                   list(x = quote(x), threshold = 6, distance = "centroid"))
})

test_that("settings keep what was done", {
  x <- blobs(60, 3)
  settings <- gmhclust(x, 0.1, subthreshold = "mahal0")$settings
  expect_identical(settings[c("threshold", "subthreshold", "distance", "normalize", "scale")], list(
    threshold = 6, subthreshold = "mahal0", distance = "full", normalize = FALSE, scale = FALSE
  ))
  tree <- gmhclust(x, 7, rep(0:3, 15), distance = "centroid", normalize = TRUE, scale = TRUE)
  settings <- tree$settings
  expect_identical(unclass(settings), list(
    threshold = 7, subthreshold = "mahal", distance = "centroid", normalize = TRUE, scale = TRUE,
    observations = 60L, columns = 3L, apriori_clusters = 3L,
    full_size = sum(lengths(leaves_of_merges(tree)) >= 7), singular = 0L,
    inversions = sum(tree$height < cummax(tree$height))
  ))
})

test_that("the threshold without a value follows from the numbers of columns and rows", {
  threshold <- function(n, p) gmhclust(blobs(n, p))$settings$threshold
  # 5 p from 50 p observations on, n / 10 below that, but at least 2 p, and at most n / 2.
  expect_identical(threshold(400, 3), 15)
  expect_identical(threshold(1000, 3), 15)
  expect_identical(threshold(90, 3), 9)
  expect_identical(threshold(40, 3), 6)
  expect_identical(threshold(9, 3), 4.5)
  x <- blobs(400, 3)
  for (how in list(list(), list(apriori = rep(1:8, 50)), list(distance = "centroid"))) {
    tree <- do.call(gmhclust, c(list(x), how))
    expect_identical(tree$settings$threshold, 15)
    expect_same_tree(tree, do.call(gmhclust, c(list(x, 15), how)))
  }
  expect_identical(mhclust(x)$settings$threshold, 200)
})

test_that("the threshold without a value separates two long parallel populations", {
  set.seed(1)
  x <- cbind(rnorm(1000, sd = 10), rnorm(1000, sd = 0.5) + rep(c(0, 5), each = 500))
  # The share of observations that are in the majority of their cluster.
  purity <- function(h) {
    sum(apply(table(cut_populations(h, 2, 50), rep(1:2, each = 500)), 1, max)) / 1000
  }
  expect_gt(purity(gmhclust(x)), 0.95)
  expect_lt(purity(gmhclust(x, 0.5)), 0.75)
})

test_that("in each row observations come before clusters, each in increasing number", {
  tree <- gmhclust(blobs(80, 3), threshold = 10)
  expect_identical(sort_merge_rows(tree$merge), tree$merge)
})

test_that("leaves are ordered depth first, first column first", {
  tree <- gmhclust(blobs(80, 3), threshold = 10, apriori = rep(0:3, 20))
  expect_identical(leaf_order(tree$merge), tree$order)
})

test_that("two observations make a tree", {
  tree <- gmhclust(rbind(c(0, 0), c(3, 4)))
  expect_identical(tree$merge, rbind(c(-1L, -2L)))
  expect_identical(tree$height, 5)
  expect_identical(tree$order, 1:2)
  expect_true(check_hclust(tree))
})

test_that("one column is enough", {
  x <- matrix(c(0, 1, 10, 12, 100))
  tree <- gmhclust(x)
  expect_true(check_hclust(tree))
  expect_identical(tree$merge[1, ], c(-1L, -2L))
  expect_identical(tree$height[1], 1)
})

test_that("ties go to the lower slots", {
  grid <- as.matrix(expand.grid(1:4, 1:4))
  tree <- gmhclust(grid, threshold = 100, subthreshold = "euclid")
  expect_identical(tree$merge[1, ], c(-1L, -2L))
  expect_identical(tree$merge[2, ], c(-3L, -4L))
  expect_same_tree(tree, gmhclust(grid, threshold = 100, subthreshold = "euclid",
                                        threads = 1))
})

test_that("duplicates merge at height 0 and leave the tree valid", {
  x <- blobs(15, 3)
  tree <- gmhclust(rbind(x, x, x), threshold = 8)
  expect_true(check_hclust(tree))
  expect_identical(tree$height[1:30], numeric(30))
  same <- gmhclust(matrix(1, 12, 3))
  expect_identical(same$height, numeric(11))
  expect_true(check_hclust(same))
})

test_that("a constant or repeated column leaves the tree valid", {
  x <- blobs(40, 3)
  for (y in list(cbind(x, 7), cbind(x, x[, 1]), cbind(x, x[, 1] + x[, 2]))) {
    for (kind in c("mahal", "mahal0", "euclid", "euclidMahal")) {
      tree <- gmhclust(y, threshold = 10, subthreshold = kind)
      expect_true(check_hclust(tree))
      expect_true(all(tree$height >= 0))
    }
  }
})

test_that("a big offset changes nothing", {
  x <- round(blobs(50, 3) * 1024) / 1024
  tree <- gmhclust(x, threshold = 12)
  moved <- gmhclust(x + 2^20, threshold = 12)
  expect_identical(moved$merge, tree$merge)
  expect_equal(moved$height, tree$height, tolerance = 1e-6)
})

test_that("tiny and huge values keep the merges where the shape is scale-free", {
  x <- blobs(50, 3)
  # mahal scales with the data as long as the distances are not real Mahalanobis distances.
  tree <- gmhclust(x, threshold = 100, subthreshold = "euclid")
  for (factor in c(2^-27, 2^27)) {
    scaled <- gmhclust(x * factor, threshold = 100, subthreshold = "euclid")
    expect_identical(scaled$merge, tree$merge)
    expect_equal(scaled$height, tree$height * factor)
    for (kind in c("mahal", "mahal0", "euclidMahal")) {
      expect_true(check_hclust(gmhclust(x * factor, 12, subthreshold = kind)))
    }
  }
})

# Evaluates `code` as the first call of a session.
as_first_call <- function(code) {
  was <- shown_messages$inversions
  on.exit(shown_messages$inversions <- was)
  shown_messages$inversions <- FALSE
  code
}

test_that("inversions give a message of their own class, once a session, and keep the heights", {
  x <- some_cells(300)
  as_first_call({
    expect_message(tree <- gmhclust(x, threshold = 30), class = "gmhclust_message_inversions")
    expect_no_message(gmhclust(x, threshold = 30))
  })
  as_first_call(expect_message(
    gmhclust(x, threshold = 30),
    "^[0-9]+ of 299 heights are below .* This is normal for this linkage; cutting by k works\\."
  ))
  expect_true(is.unsorted(tree$height))
  expect_gt(tree$settings$inversions, 0)
})

test_that("warn = FALSE leaves the message to the next call", {
  x <- some_cells(300)
  as_first_call({
    expect_no_message(gmhclust(x, threshold = 30, warn = FALSE))
    expect_message(gmhclust(x, threshold = 30), class = "gmhclust_message_inversions")
  })
})

test_that("monotone heights give no message", {
  x <- matrix(c(0, 1, 10, 12, 100))
  as_first_call(expect_silent(
    tree <- gmhclust(x, 100, subthreshold = "euclid", distance = "centroid", progress = FALSE)
  ))
  expect_identical(tree$settings$inversions, 0L)
})

test_that("a progress bar changes nothing", {
  x <- blobs(60, 3)
  expect_same_tree(gmhclust(x, progress = TRUE), gmhclust(x, progress = FALSE))
})

test_that("2,000 cells make a valid tree that separates helper from cytotoxic T cells", {
  x <- some_cells(2000)
  tree <- gmhclust(x, threshold = 50)
  expect_true(check_hclust(tree))
  helper <- x[, "CD4"] > 60 & x[, "CD8"] < 50 & x[, "CD3"] > 50
  cytotoxic <- x[, "CD4"] < 40 & x[, "CD8"] > 60 & x[, "CD3"] > 50
  clusters <- cutree(tree, k = 30)
  mostly <- function(gate) as.integer(names(which.max(table(clusters[gate]))))
  expect_false(mostly(helper) == mostly(cytotoxic))
})

test_that("a transposed matrix is refused at once, and many columns give a message", {
  wide <- matrix(sin(seq_len(128 * 12625)), 128)
  for (distance in c("full", "centroid")) {
    expect_error(
      gmhclust(wide, distance = distance, progress = FALSE),
      "128 rows and 12625 columns.*observations go in rows",
      class = "gmhclust_error_input"
    )
  }
  # With fewer rows than columns all covariances are singular, so none is computed.
  x <- matrix(sin(seq_len(20 * 4000)^1.5), 20)
  messages <- capture_messages(
    h <- gmhclust(x, subthreshold = "euclidMahal", progress = FALSE, warn = FALSE)
  )
  expect_match(messages, "^`x` has 20 rows and 4000 columns; observations go in rows: use t\\(x\\)")
  expect_true(check_hclust(h))
  expect_message(
    message_if_slow(x, "mahal", NULL),
    "20 rows and 4000 columns.*observations go in rows"
  )
  expect_silent(message_if_slow(x[, 1:300], "mahal", NULL))
})

test_that("equal observations merge first, in their order, whatever the options", {
  x <- rbind(c(1, 2), c(0, 3), c(1, 2), c(-0, 3), c(5, 5), c(1, 2))
  for (kind in c("mahal", "mahal0", "euclid", "euclidMahal")) {
    for (distance in c("full", "centroid")) {
      h <- gmhclust(x, 2, subthreshold = kind, distance = distance, progress = FALSE)
      expect_identical(h$merge[1:3, ], rbind(c(-1L, -3L), c(-6L, 1L), c(-2L, -4L)))
      expect_identical(h$height[1:3], c(0, 0, 0))
      expect_true(all(h$height[4:5] > 0))
    }
  }
})
