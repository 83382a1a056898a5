x <- blobs(1500, 3)
large <- gmhclust(x, 30, rep(1:30, 50))
small <- cutree_top(large, 40)

# The calls by which `code` draws: names of primitive functions of graphics.
drawn_by <- function(code) {
  on_no_screen({
    grDevices::dev.control("enable")
    code
    calls <- grDevices::recordPlot()[[1]]
  })
  vapply(calls, function(call) call[[2]][[1]]$name, "")
}

test_that("a small tree is drawn by the method of hclust, with its arguments", {
  expect_identical(
    drawn_by(plot_tree(small, hang = -1, labels = FALSE, main = "top", xlab = "x", sub = "")),
    drawn_by(plot(small, hang = -1, labels = FALSE, main = "top", xlab = "x", sub = ""))
  )
  expect_identical(drawn_by(plot_tree(small, populations = FALSE)), drawn_by(plot(small)))
  expect_identical(drawn_by(plot_tree(large, leaves = 1500)), drawn_by(plot(large)))
})

test_that("of a small tree, the top is drawn if fewer leaves are asked for", {
  expect_true("C_dend" %in% drawn_by(plot_tree(small, leaves = 40)))
  for (populations in list(NULL, FALSE)) {
    drawn <- drawn_by(plot_tree(small, leaves = 5, populations = populations))
    expect_false("C_dend" %in% drawn)
    expect_true("C_polygon" %in% drawn)
  }
})

test_that("a tree of two leaves is drawn, which the method of hclust does not draw", {
  two <- cutree_top(small, 2)
  expect_true("C_segments" %in% drawn_by(plot_tree(two)))
  expect_true("C_segments" %in% drawn_by(plot_tree(two, hang = -1, main = "two", labels = FALSE)))
  expect_true("C_segments" %in% drawn_by(plot_tree(hclust(dist(c(1, 1))))))
})

test_that("of a large tree the top is drawn, with arguments of plot.hclust()", {
  expect_true("C_polygon" %in% drawn_by(plot_tree(large)))
  expect_false("C_dend" %in% drawn_by(plot_tree(large)))
  expect_silent(on_no_screen(plot_tree(
    large, labels = FALSE, hang = -1, check = FALSE, axes = FALSE, frame.plot = TRUE, ann = FALSE
  )))
  expect_silent(on_no_screen(plot_tree(large, main = "cells", sub = "", xlab = "", ylab = "d",
                                       cex.main = 2)))
  expect_identical(on_no_screen(plot_tree(large)), large)
})

test_that("leaves are as wide as their members, and have the population of most of them", {
  picture <- top_picture(large, 50L, shown_populations(large, 3, "populations", NULL), NULL)
  top <- cutree_top(large, 50)
  population <- cut_populations(large, 3)
  expect_identical(picture$width, as.double(top$members))
  for (leaf in 1:50) {
    inside <- population[top$leaf == leaf]
    inside <- inside[inside > 0]
    most <- if (length(inside) == 0) 0L else as.integer(names(which.max(table(inside))))
    expect_identical(as.integer(picture$population[leaf]), most)
  }
  # The last merge of several observations, and nothing for one.
  below <- leaves_of_merges(large)
  for (leaf in 1:50) {
    members <- which(top$leaf == leaf)
    merge <- Position(function(leaves) setequal(leaves, members), below)
    expect_identical(picture$inside[leaf], if (is.na(merge)) 0 else large$height[merge])
  }
})

test_that("contents() says which populations each node contains", {
  set.seed(4)
  for (h in some_trees()) {
    n <- length(h$order)
    population <- sample(0:3, n, replace = TRUE, prob = c(6, 2, 1, 1))
    found <- contents(h$merge, population)
    expect_identical(found[seq_len(n)], population)
    expected <- vapply(leaves_of_merges(h), function(leaves) {
      inside <- setdiff(population[leaves], 0L)
      if (length(inside) > 1) -1L else sum(inside)
    }, 0L)
    expect_identical(found[-seq_len(n)], expected)
  }
})

test_that("as many leaves are drawn as it takes to show each population", {
  expect_identical(leaves_to_draw(NULL, large, integer(1500)), default_leaves)
  by_pair <- integer(1500)
  first <- which(large$merge[, 1] < 0 & large$merge[, 2] < 0)[3]
  by_pair[-large$merge[first, ]] <- 1:2
  expect_identical(leaves_to_draw(NULL, large, by_pair), as.integer(1500 - first + 1))
})

test_that("drawn merges are above their parts, and unchanged without inversions", {
  for (h in some_trees()) {
    n <- length(h$order)
    height <- raised_for_drawing(h, numeric(n))
    for (j in seq_len(n - 1)) {
      parts <- h$merge[j, ][h$merge[j, ] > 0]
      expect_true(all(height[parts] <= height[j]))
    }
    if (!is.unsorted(h$height)) expect_identical(height, h$height)
  }
})

test_that("numbers below the tree do not overlap, and stay below it", {
  expect_equal(spread(c(1, 5, 9), c(1, 1, 1), 10), c(1, 5, 9))
  expect_equal(spread(c(2, 2.1, 2.2, 9), rep(1, 4), 10), c(1.1, 2.1, 3.1, 9))
  expect_equal(spread(c(3, 3), c(1, 3), 10), c(2, 4))
  expect_equal(spread(c(0, 0, 0), rep(1, 3), 10), c(0.5, 1.5, 2.5))
  expect_equal(spread(c(10, 10, 10), rep(1, 3), 10), c(7.5, 8.5, 9.5))
  expect_identical(spread(numeric(0), numeric(0), 1), numeric(0))
})

test_that("colours are distinct, and do not depend on the number of populations", {
  expect_identical(anyDuplicated(population_colours(40)), 0L)
  expect_identical(population_colours(40)[1:9], population_colours(9))
  expect_identical(population_colours(0), character(0))
})

test_that("wrong populations, leaves and trees are refused", {
  refused <- function(object, message) {
    error <- expect_error(on_no_screen(object), class = "gmhclust_error_input")
    expect_match(conditionMessage(error), message, fixed = TRUE)
  }
  refused(plot_tree(small, populations = 1:3), "`populations` has length 3")
  refused(plot_tree(small, populations = "a"), "`populations` is \"a\"")
  refused(plot_tree(small, populations = rep(c(1, 3), 20)), "`populations` leaves out numbers")
  refused(plot_tree(small, populations = rep(0, 40)), "`populations` leaves out numbers")
  refused(plot_tree(small, populations = 40), "populations of at least")
  refused(plot_tree(large, leaves = 1), "`leaves` is 1")
  refused(plot_tree(small, leaves = "zz"), "`leaves` is \"zz\"")
  broken <- small
  broken$merge[1, 1] <- 99L
  refused(plot_tree(broken), "`tree` is not a valid tree")
})

test_that("names below a tree stay on their lines, near their populations, without overlaps", {
  on_no_screen({
    graphics::plot.new()
    graphics::plot.window(c(0, 1000), c(0, 1), xaxs = "i")
    width <- function(layout) {
      graphics::strwidth(layout$text, font = 2, cex = layout$cex)
    }
    few <- label_layout(as.character(1:5), 1:5 * 200 - 100, 1000)
    expect_identical(few$line, rep(1L, 5))
    expect_equal(few$at, 1:5 * 200 - 100)
    expect_identical(few$cex, 1)
    long <- paste("Monocytes CD14++CD16-", letters[1:9])
    for (names in list(long, rep(long, 4), strrep(long, 10), as.character(1:60))) {
      middle <- sort(seq_along(names) * 7919 %% 1000)
      layout <- label_layout(names, middle, 1000)
      for (line in unique(layout$line)) {
        here <- layout$line == line
        ends <- rbind(layout$at[here] - width(layout)[here] / 2,
                      layout$at[here] + width(layout)[here] / 2)
        expect_false(is.unsorted(as.vector(ends)))
        if (layout$cex > least_label) expect_true(all(ends > -1e-6 & ends < 1000 + 1e-6))
      }
    }
    expect_lte(max(nchar(label_layout(strrep(long, 10), 1:9 * 100, 1000)$text)), 60)
  })
  expect_identical(cut_middle(c("abc", "abcdefghij"), 6), c("abc", "ab..ij"))
})

test_that("the support of branches is written at their merges", {
  x <- blobs(300, 3)
  tree <- gmhclust(x, 12, apriori = rep(1:60, 5), warn = FALSE)
  set.seed(1)
  s <- stability(tree, x, 5, 3, min_members = 20)
  percent <- sprintf("%.0f", 100 * s$branches$mean)
  all <- support_of_top(check_support(s, tree, NULL), tree, 300)
  expect_equal(all$merge, s$branches$merge)
  expect_identical(all$text, percent)
  # In a top, the last merges, by their numbers there.
  below <- leaves_of_merges(tree)[s$branches$merge]
  for (top in list(cutree_apriori(tree), cutree_top(tree, 20))) {
    found <- support_of_top(check_support(s, top, NULL), top, length(top$order))
    inside <- lapply(leaves_of_merges(top)[found$merge], function(leaves) {
      which(top$leaf %in% leaves)
    })
    is_there <- s$branches$merge > 300 - length(top$order)
    expect_identical(inside, lapply(below[is_there], sort))
    expect_identical(found$text, percent[is_there])
    expect_gt(nrow(found), 1)
  }
  few <- support_of_top(check_support(s, tree, NULL), tree, 20)
  expect_equal(few, found)
  on_no_screen({
    expect_identical(plot_tree(tree, populations = 3, leaves = 20, support = s), tree)
    plot_tree(tree, support = s)
    plot_tree(cutree_top(tree, 2), support = s, populations = FALSE)
  })
  expect_refused(plot_tree(tree, support = 1), "`support` is 1; it must be NULL", "plot_tree")
  other <- gmhclust(x[1:40, ], 12, warn = FALSE)
  expect_refused(plot_tree(other, support = s), "`support` has merges that the tree does not have",
                 "plot_tree")
  s$times <- NULL
  expect_refused(plot_tree(tree, support = s), "`support` has components that do not fit",
                 "plot_tree")
})

test_that("the support of another tree is refused, also for tops", {
  x <- blobs(300, 3)
  tree <- gmhclust(x, 12, warn = FALSE)
  other <- gmhclust(blobs(300, 3, seed = 2), 12, warn = FALSE)
  set.seed(1)
  s <- stability(other, blobs(300, 3, seed = 2), 3, FALSE, min_members = 20)
  expect_refused(plot_tree(tree, support = s), "`support` is of another tree: merge ", "plot_tree")
  expect_refused(plot_tree(cutree_top(tree, 20), support = s), "`support` is of another tree",
                 "plot_tree")
  on_no_screen({
    expect_identical(plot_tree(other, support = s), other)
    expect_s3_class(plot_tree(cutree_top(other, 20), support = s), "hclust")
  })
  # The message names the first branch of another size, and both sizes.
  s$branches$members[2] <- 25
  size <- lengths(leaves_of_merges(other))[s$branches$merge[2]]
  expect_refused(
    plot_tree(other, support = s),
    paste0("merge ", s$branches$merge[2], " has 25 members there, and ", size, " in `tree`; it ",
           "must be NULL, or the value of stability() for this tree"), "plot_tree"
  )
})
