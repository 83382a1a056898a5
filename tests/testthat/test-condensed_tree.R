# A tree of n leaves that are joined at random, with ties, inversions and heights of 0.
random_merges <- function(n) {
  active <- -seq_len(n)
  merge <- matrix(0L, n - 1, 2)
  for (j in seq_len(n - 1)) {
    two <- sample(length(active), 2)
    merge[j, ] <- sort_merge_rows(matrix(active[two], 1))
    active <- c(active[-two], j)
  }
  list(merge = merge, height = sample(0:9, n - 1, replace = TRUE) / 2)
}

test_that("the condensed tree is that of the definition", {
  set.seed(11)
  for (round in 1:60) {
    n <- 2 + sample.int(40, 1)
    tree <- random_merges(n)
    members <- if (round %% 2 == 0) rep(1, n) else sample.int(6, n, replace = TRUE)
    for (least in c(1, 2.5, 4, sum(members))) {
      found <- condense(tree, members, least, NULL)
      expected <- plain_condense(tree, members, least)
      expect_null(found$outlier)
      for (what in names(expected)) expect_equal(found[[what]], expected[[what]])
    }
  }
})

test_that("nodes have the members, places and leaves of the definition", {
  set.seed(12)
  for (round in 1:30) {
    n <- 1 + sample.int(30, 1)
    tree <- random_merges(n)
    members <- sample.int(6, n, replace = TRUE)
    nodes <- plain_nodes(tree$merge, members)
    expect_identical(node_sizes(tree$merge, members, NULL), nodes$size)
    order <- leaf_order(tree$merge, NULL)
    places <- lapply(plain_leaves(nodes), match, order)
    found <- node_places(tree$merge, order, NULL)
    expect_identical(found$first, vapply(places, min, 0L))
    expect_identical(found$last, vapply(places, max, 0L))
    # Larger nodes first: none comes before a node that contains it.
    some <- rev(sort(sample.int(2 * n - 1, sample.int(2 * n - 1, 1))))
    expect_identical(leaves_inside(tree$merge, some, NULL), plain_leaves_inside(nodes, some))
  }
})

test_that("what does not fit the tree is an error", {
  merge <- matrix(c(-1L, -2L), 1)
  expect_error(node_sizes(merge, 1, NULL), class = "gmhclust_error_input")
  expect_error(node_places(merge, c(1L, 3L), NULL), class = "gmhclust_error_input")
  expect_error(leaves_inside(merge, 4, NULL), class = "gmhclust_error_input")
  expect_error(leaves_inside(merge, 0, NULL), class = "gmhclust_error_input")
})
