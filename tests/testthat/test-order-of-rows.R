# What ?gmhclust says in its section "Order of rows".

# The leaves of each merge of a tree of x[order, ], one text for each: numbers of rows of x.
merged_rows <- function(tree, order) {
  leaves <- list()
  for (j in seq_len(nrow(tree$merge))) {
    sides <- lapply(tree$merge[j, ], function(side) if (side < 0) order[-side] else leaves[[side]])
    leaves[[j]] <- sort(unlist(sides))
  }
  vapply(leaves, paste, "", collapse = " ")
}

quiet_tree <- function(x, ...) gmhclust(x, warn = FALSE, progress = FALSE, ...)

# The rows in an order that does not depend on that of x; leaves the seed set.
in_own_order <- function(x) {
  x <- x[do.call(order, unname(as.data.frame(x))), ]
  set.seed(1)
  x[sample(nrow(x)), ]
}

test_that("rows without ties have the same merges in any order", {
  x <- blobs(400, 3)
  order <- sample(nrow(x))
  apriori <- gkmeans(x, 20)$cluster
  for (distance in c("full", "centroid")) {
    for (labels in list(NULL, apriori)) {
      once <- quiet_tree(x, distance = distance, apriori = labels)
      again <- quiet_tree(x[order, ], distance = distance, apriori = labels[order])
      expect_identical(merged_rows(once, seq_along(order)), merged_rows(again, order))
      expect_equal(once$height, again$height, tolerance = 1e-9)
    }
  }
})

test_that("sorting the rows first gives the same tree in any order, with ties and k-means, too", {
  x <- round(blobs(400, 3))
  expect_gt(anyDuplicated(x), 0)
  shuffled <- x[sample(nrow(x)), ]
  for (distance in c("full", "centroid")) {
    for (apriori in list(NULL, 20)) {
      once <- quiet_tree(in_own_order(x), distance = distance, apriori = apriori)
      again <- quiet_tree(in_own_order(shuffled), distance = distance, apriori = apriori)
      expect_same_tree(once, again)
    }
  }
  # The order matters otherwise, or this test could not fail.
  expect_false(identical(quiet_tree(x)$height, quiet_tree(shuffled)$height))
})
