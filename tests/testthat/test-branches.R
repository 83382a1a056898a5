# Argument `branches` of cut_populations().

x <- some_cells(1000)
tree <- gmhclust(x, threshold = 50, warn = FALSE)
refused <- function(object, message) expect_refused(object, message, by = "cut_populations")

# The leaves below a merge or leaf of a tree.
below <- function(merge, id) {
  if (id < 0) return(-id)
  unlist(lapply(merge[id, ], below, merge = merge))
}

# All but how the populations were chosen.
plain <- function(populations) {
  attr(populations, "chosen_by") <- attr(populations, "finer") <- NULL
  populations
}

test_that("the roots of populations make the same populations", {
  for (k in c(1, 2, 5, 9)) {
    found <- cut_populations(tree, k, x = x)
    roots <- attr(found, "roots")
    expect_identical(plain(cut_populations(tree, branches = roots, x = x)), plain(found))
    expect_identical(plain(cut_populations(tree, branches = rev(unlist(roots)), x = x)),
                     plain(found))
  }
  valleys <- cut_populations(tree, x = x, min_members = 20)
  again <- cut_populations(tree, x = x, min_members = 20, branches = attr(valleys, "roots"))
  expect_identical(plain(again), plain(valleys))
  expect_identical(attr(again, "chosen_by"), "branches")
})

test_that("any branches that do not overlap are populations, and may be united", {
  fine <- cut_populations(tree, 9)
  roots <- unlist(attr(fine, "roots"))
  deep <- attr(cut_populations(tree, 5), "roots")
  set.seed(1)
  for (turn in 1:20) {
    # Some of the clusters of 9 populations, in groups.
    some <- sample(roots, sample(2:9, 1))
    groups <- unname(split(some, sample(3, length(some), TRUE)))
    found <- cut_populations(tree, branches = groups)
    rows <- lapply(groups, function(ids) sort(unlist(lapply(ids, below, merge = tree$merge))))
    sizes <- lengths(rows)
    order <- order(-sizes, vapply(rows, `[`, 0L, 1L))
    expected <- integer(1000)
    for (i in seq_along(order)) expected[rows[[order[i]]]] <- i
    expect_identical(as.integer(found), expected)
    expect_identical(attr(found, "sizes"), as.double(sizes[order]))
    expect_identical(attr(found, "rest"), 1000 - sum(sizes))
    expect_identical(lapply(attr(found, "roots"), sort), lapply(groups[order], sort))
  }
  expect_length(deep, 5)
})

test_that("populations of branches go on as others do", {
  roots <- unlist(attr(cut_populations(tree, 6), "roots"))
  found <- cut_populations(tree, branches = list(roots[c(1, 5)], roots[3]), x = x)
  expect_output(print(found), "2 populations")
  named <- name_populations(found, c("a" = 1))
  expect_identical(levels(named), c("a", "2"))
  expect_identical(sum(count_populations(named, rep(1, 1000), rest = TRUE)), 1000L)
  expect_setequal(unique(as.integer(predict(found, x))), 1:2)
  picture <- function(code) {
    grDevices::pdf(NULL)
    on.exit(grDevices::dev.off())
    expect_no_error(code)
  }
  picture(plot(found))
  picture(plot_populations(tree, x, found, engine = "base"))
  picture(plot_tree(tree, populations = found))
  near <- cut_populations(tree, branches = roots[2:3], rest = "nearest", x = x)
  expect_identical(attr(near, "rest"), 0)
})

test_that("single leaves, and leaves with members, are branches", {
  two <- stats::hclust(stats::dist(c(1, 2, 10)))
  expect_identical(as.integer(cut_populations(two, branches = -3, min_members = 1)), c(0L, 0L, 1L))
  all <- cut_populations(two, branches = list(c(1, -3)), min_members = 1)
  expect_identical(as.integer(all), c(1L, 1L, 1L))
  top <- cutree_top(tree, 50)
  roots <- attr(cut_populations(top, 4), "roots")
  expect_identical(plain(cut_populations(top, branches = roots)), plain(cut_populations(top, 4)))
})

test_that("branches that are none are refused", {
  roots <- unlist(attr(cut_populations(tree, 4), "roots"))
  needs <- "a branch is the whole tree, or one side of a split with at least 10 members on both"
  for (id in c(0, 1, -1, 1000, 1e9, -1e9)) {
    refused(cut_populations(tree, branches = id), needs)
  }
  refused(cut_populations(tree, branches = c(roots, roots[2])), paste(roots[2], "twice"))
  refused(cut_populations(tree, branches = c(roots, 999)), "and a branch that contains it")
  plain_text <- "it must be row numbers of `tree$merge` and negative numbers of leaves, or a list"
  for (bad in list("a", list(), integer(0), list(roots, integer(0)), NA, 1.5, factor("a"),
                   list("a"), matrix(roots), list(list(1)), TRUE)) {
    refused(cut_populations(tree, branches = bad), plain_text)
  }
  refused(cut_populations(tree, 3, branches = roots), "`k` is given, too")
  refused(cut_populations(tree, branches = roots, level = "finer", x = x), "`level` is \"finer\"")
})
