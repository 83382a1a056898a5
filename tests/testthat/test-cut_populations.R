# The definition written down: from the last merge to the first, the population whose present
# cluster is this merge either splits, or goes on with its large side.
slow_populations <- function(h, k, least) {
  below <- leaves_of_merges(h)
  leaves <- function(id) if (id < 0) -id else below[[id]]
  all <- length(below)
  populations <- list(list(begun = all, now = all))
  for (j in rev(seq_len(all))) {
    if (length(populations) == k) break
    here <- Position(function(p) p$now == j, populations)
    if (is.na(here)) next
    sides <- h$merge[j, ]
    is_large <- vapply(sides, function(id) length(leaves(id)) >= least, NA)
    if (all(is_large)) {
      populations <- c(populations[-here], lapply(sides, function(id) list(begun = id, now = id)))
    } else if (any(is_large)) {
      populations[[here]]$now <- sides[is_large]
    }
  }
  if (length(populations) < k) return(NULL)
  as_numbers(lapply(populations, function(p) leaves(p$begun)), all + 1)
}

# Sets of leaves as population numbers by decreasing size, then first leaf.
as_numbers <- function(sets, n) {
  sets <- sets[order(-lengths(sets), vapply(sets, min, 0))]
  population <- integer(n)
  for (p in seq_along(sets)) population[sets[[p]]] <- p
  population
}

plain <- function(population) as.integer(population)

test_that("with k, populations are those of the definition, whatever the tree", {
  compared <- 0
  for (h in some_trees()) {
    for (least in c(1, 2, 3, 5, 10)) {
      if (least > length(h$order)) next
      for (k in 1:12) {
        expected <- slow_populations(h, k, least)
        if (is.null(expected)) {
          expect_refused(cut_populations(h, k, least), "the tree has only", by = "cut_populations")
          break
        }
        found <- cut_populations(h, k, least)
        expect_identical(plain(found), expected)
        expect_identical(attr(found, "sizes"), as.double(tabulate(expected, k)))
        compared <- compared + 1
      }
    }
  }
  expect_gt(compared, 500)
})

# The clusters of greatest mass, by the definition of the mass.
slow_stable <- function(h, least) {
  below <- leaves_of_merges(h)
  leaves <- function(id) if (id < 0) -id else below[[id]]
  height <- h$height
  for (j in seq_along(height)) {
    parts <- h$merge[j, ][h$merge[j, ] > 0]
    height[j] <- max(height[j], height[parts])
  }
  lowest <- min(height[height > 0], Inf)
  if (is.infinite(lowest)) lowest <- 1
  height <- log(pmax(height, lowest))
  # The mass of the cluster `id` that begins at height `from`, and its best choice of clusters.
  choose <- function(id, from, is_root = FALSE) {
    whole <- list(mass = 0, sets = list(leaves(id)))
    repeat {
      if (id < 0) {
        whole$mass <- whole$mass + from - log(lowest)
        return(whole)
      }
      sides <- h$merge[id, ]
      is_large <- vapply(sides, function(side) length(leaves(side)) >= least, NA)
      fallen <- if (sum(is_large) == 1) sides[!is_large] else id
      whole$mass <- whole$mass + length(leaves(fallen)) * (from - height[id])
      if (!any(is_large)) return(whole)
      if (all(is_large)) break
      id <- sides[is_large]
    }
    parts <- lapply(sides, choose, from = height[id])
    sum <- parts[[1]]$mass + parts[[2]]$mass
    if (!is_root && sum <= whole$mass + 1e-9) return(whole)
    list(mass = sum, sets = c(parts[[1]]$sets, parts[[2]]$sets))
  }
  root <- nrow(h$merge)
  choose(root, height[root], TRUE)
}

test_that("without k, no other choice of clusters has a greater mass", {
  for (h in some_trees()) {
    for (least in c(1, 2, 4)) {
      if (least > length(h$order)) next
      expected <- slow_stable(h, least)
      found <- cut_populations(h, min_members = least)
      expect_identical(plain(found), as_numbers(expected$sets, length(h$order)))
    }
  }
})

test_that("populations are nested, and each is a cluster of the tree", {
  h <- gmhclust(some_cells(1000), threshold = 50)
  below <- leaves_of_merges(h)
  coarse <- cut_populations(h, 1, 10)
  expect_true(all(coarse == 1))
  for (k in 2:10) {
    fine <- cut_populations(h, k, 10)
    expect_identical(attr(fine, "k"), k)
    expect_true(all(attr(fine, "sizes") >= 10))
    expect_true(all(rowSums(table(fine[fine > 0], coarse[fine > 0]) > 0) == 1))
    for (p in seq_len(k)) {
      expect_setequal(which(fine == p), below[[attr(fine, "roots")[[p]]]])
    }
    coarse <- fine
  }
})

test_that("outliers do not count as populations", {
  set.seed(2)
  x <- rbind(matrix(rnorm(200), 100), matrix(rnorm(200, 20), 100), c(200, 0), c(0, 300))
  h <- ghclust(x, "average")
  expect_identical(sum(tabulate(gcutree(h, 2)) >= 50), 1L)
  found <- cut_populations(h, 2, 50)
  expect_identical(plain(found), rep(c(1:2, 0L), c(100, 100, 2)))
  expect_identical(attr(found, "rest"), 2)
  expect_identical(plain(cut_populations(h)), plain(found))
})

test_that("the rest goes to the population of least Mahalanobis distance", {
  x <- some_cells(800)[, c("CD4", "CD8", "CD3")]
  h <- ghclust(x, "average")
  core <- cut_populations(h, 6, 20)
  expect_gt(sum(core == 0), 0)
  found <- cut_populations(h, 6, 20, rest = "nearest", x = x)
  expect_identical(found[core > 0], core[core > 0])
  distances <- vapply(1:6, function(p) {
    members <- x[core == p, ]
    mahalanobis(x[core == 0, , drop = FALSE], colMeans(members), cov(members))
  }, numeric(sum(core == 0)))
  expect_identical(unname(found[core == 0]), max.col(-matrix(distances, ncol = 6)))
  expect_identical(attr(found, "sizes"), as.double(tabulate(found, 6)))
  expect_identical(attr(found, "roots"), attr(core, "roots"))
})

test_that("a population with a singular covariance has the pooled one for the rest", {
  # Column 2 is constant in population 1.
  x <- cbind(c(1:20, 101:120, 70, 500, -300), c(rep(7, 20), rep(c(6, 9), 10), 9, 7, 7))
  h <- ghclust(x, "average")
  core <- cut_populations(h, 2, 5)
  expect_message(found <- cut_populations(h, 2, 5, rest = "nearest", x = x),
                 class = "gmhclust_message_singular")
  own <- lapply(1:2, function(i) x[core == i, ])
  pooled <- Reduce(`+`, lapply(own, function(y) (nrow(y) - 1) * cov(y))) / (sum(core > 0) - 2)
  singular <- vapply(own, function(y) qr(cov(y))$rank < 2, NA)
  expect_identical(sum(singular), 1L)
  from <- vapply(1:2, function(i) {
    mahalanobis(x, colMeans(own[[i]]), if (singular[i]) pooled else cov(own[[i]]))
  }, numeric(nrow(x)))
  loose <- core == 0
  expect_gt(sum(loose), 0)
  expect_identical(plain(found)[loose], max.col(-from)[loose])
})

test_that("without an inverse of any covariance, the rest goes to the nearest mean", {
  x <- cbind(c(1:20, 101:120, 70, 500, -300), c(rep(7, 20), rep(9, 20), 9, 7, 7))
  h <- ghclust(x, "average")
  core <- cut_populations(h, 2, 5)
  expect_message(found <- cut_populations(h, 2, 5, rest = "nearest", x = x),
                 class = "gmhclust_message_singular", "Euclidean")
  from <- function(population) colSums((t(x) - colMeans(x[core == population, ]))^2)
  nearest <- ifelse(from(1) <= from(2), 1L, 2L)
  loose <- core == 0
  expect_gt(sum(loose), 0)
  expect_identical(plain(found)[loose], unname(nearest[loose]))
})

test_that("leaves of a top count with their members", {
  h <- gmhclust(some_cells(1000), threshold = 50, apriori = 60)
  for (top in list(cutree_apriori(h), cutree_top(h, 80))) {
    found <- cut_populations(top, 4, 30)
    expect_identical(plain(found)[top$leaf], plain(cut_populations(h, 4, 30)))
    expect_identical(sum(attr(found, "sizes")) + attr(found, "rest"), 1000)
  }
})

test_that("min_members is a count, a fraction, or 1% but at least 5", {
  h <- hclust(dist(USArrests), "average")
  expect_identical(attr(cut_populations(h), "min_members"), 5)
  expect_identical(plain(cut_populations(h, 3, 0.1)), plain(cut_populations(h, 3, 5)))
  big <- ghclust(some_cells(1000), "ward.D2")
  expect_identical(attr(cut_populations(big), "min_members"), 10)
  few <- hclust(dist(c(1, 2, 9)))
  expect_true(all(cut_populations(few) == 1))
})

test_that("the result is named by labels, and behaves as an integer vector", {
  h <- hclust(dist(USArrests), "average")
  found <- cut_populations(h, 3, 5)
  expect_s3_class(found, "populations", exact = TRUE)
  expect_type(found, "integer")
  expect_named(found, rownames(USArrests))
  number <- stats::setNames(plain(found), names(found))
  expect_identical(found[1:3], number[1:3])
  expect_identical(found == 2, number == 2)
  expect_identical(2L * found, 2L * number)
  expect_identical(-found, -number)
  expect_identical(unname(c(table(found))), unname(c(table(number))))
  expect_identical(data.frame(p = found)$p, plain(found))
  expect_identical(USArrests[found == 2, ], USArrests[number == 2, ])
})

test_that("print() shows the sizes and the rest", {
  set.seed(2)
  x <- rbind(matrix(rnorm(2400), 1200), matrix(rnorm(200, 20), 100), c(200, 0), c(0, 300))
  found <- cut_populations(ghclust(x, "average"), 2, 50)
  expect_output(print(found), paste0(
    "^2 populations of at least 50 members:.*",
    "\\n1 +1,200 +92\\.2%\\n2 +100 +7\\.7%\\nnone +2 +0\\.2%"
  ))
  expect_output(expect_identical(print(found), found))
})

# Trees of observations, and these: a list of lists.
trees_with_data <- function() {
  cells <- some_cells(1500)
  set.seed(7)
  counts <- matrix(stats::rpois(1800, rep(c(1, 9), each = 900)), 600)
  curve <- stats::rnorm(700)
  curve <- cbind(curve, curve^2 + stats::rnorm(700, sd = 0.3), 3)
  small <- rbind(matrix(stats::rnorm(4000), ncol = 4), matrix(stats::rnorm(80, 7), ncol = 4))
  with_tree <- function(x, ...) list(x = x, h = gmhclust(x, ..., warn = FALSE))
  suppressMessages(list(
    with_tree(cells), with_tree(cells, distance = "centroid"),
    with_tree(cells, apriori = rep_len(1:150, 1500)), with_tree(blobs(900, 5)),
    with_tree(counts), with_tree(curve), with_tree(small),
    list(x = blobs(500, 3, 2), h = ghclust(blobs(500, 3, 2), "average")),
    list(x = cells[1:300, ], h = ghclust(cells[1:300, ], "single"))
  ))
}

test_that("without k, populations are those that valleys keep apart, by the slow version", {
  several <- 0
  for (case in trees_with_data()) {
    for (least in list(NULL, 12)) {
      expected <- slow_valleys(case$h, unname(case$x), least)
      found <- suppressMessages(cut_populations(case$h, NULL, least, x = case$x))
      finer <- suppressMessages(cut_populations(case$h, NULL, least, x = case$x, level = "finer"))
      expect_identical(plain(found), expected$clear)
      expect_identical(plain(finer), expected$finer)
      expect_identical(attr(found, "finer"), attr(finer, "k"))
      expect_identical(attr(found, "chosen_by"), "valleys")
      several <- several + (attr(found, "k") > 1)
    }
  }
  expect_gt(several, 5)
})

test_that("valleys depend neither on threads, nor on units, nor on an offset", {
  x <- some_cells(1500)
  h <- gmhclust(x, warn = FALSE)
  found <- cut_populations(h, x = x, threads = 1)
  expect_gt(attr(found, "k"), 2)
  expect_identical(cut_populations(h, x = x, threads = 8), found)
  scaled <- x * rep(2^(1:14 * 3), each = nrow(x)) + 1000
  expect_identical(plain(cut_populations(h, x = scaled)), plain(found))
})

test_that("valleys do not depend on the order of the rows", {
  x <- some_cells(1500)
  h <- gmhclust(x, warn = FALSE)
  set.seed(3)
  order <- sample(nrow(x))
  mixed <- h
  id <- match(seq_along(order), order)
  mixed$merge[] <- ifelse(h$merge < 0, -id[abs(h$merge)], h$merge)
  mixed$merge <- sort_merge_rows(mixed$merge)
  mixed$order <- id[h$order]
  mixed$labels <- h$labels[order]
  for (level in c("clear", "finer")) {
    found <- cut_populations(h, x = x, level = level)
    again <- cut_populations(mixed, x = x[order, ], level = level)
    expect_identical(plain(again), plain(found)[order])
    expect_identical(attr(again, "separation"), attr(found, "separation"))
  }
})

test_that("each population says which one is the most alike, and each split how deep it is", {
  for (case in trees_with_data()[c(1, 4)]) {
    found <- suppressMessages(cut_populations(case$h, x = case$x))
    k <- attr(found, "k")
    separation <- attr(found, "separation")
    expect_identical(separation$population, seq_len(k))
    expect_true(all(separation$nearest %in% seq_len(k) & separation$nearest != seq_len(k)))
    expect_true(all(separation$valley >= 0 & separation$valley < 0.3))
    splits <- attr(found, "splits")
    expect_true(all(splits$valley >= 0))
    for (s in seq_len(min(6, nrow(splits)))) {
      expect_true(all(c(splits$first[s], splits$second[s]) %in%
        attr(cut_populations(case$h, s + 1), "sizes")))
    }
    given <- cut_populations(case$h, k, x = case$x)
    expect_identical(attr(given, "splits"), splits)
    expect_identical(attr(given, "chosen_by"), "k")
    expect_identical(nrow(attr(given, "separation")), k)
    without <- cut_populations(case$h, k)
    expect_identical(plain(without), plain(given))
    expect_true(all(is.na(attr(without, "splits")$valley)))
    expect_true(all(is.na(attr(without, "separation")$valley)))
  }
})

test_that("two blobs stay two with a marker of noise, a constant and a copy beside them", {
  set.seed(4)
  x <- matrix(stats::rnorm(600 * 12), 600)
  x[1:200, 1] <- x[1:200, 1] + 8
  h <- ghclust(x[, 1, drop = FALSE], "average")
  expected <- rep(c(2L, 1L), c(200, 400))
  for (data in list(x, cbind(x, 5), cbind(x, x[, 1]), cbind(x, rowSums(x)))) {
    expect_identical(plain(cut_populations(h, x = data, rest = "nearest")), expected)
  }
})

test_that("a population that the tree has in two places is one, and can be drawn", {
  set.seed(5)
  x <- rbind(matrix(stats::rnorm(1200), ncol = 2), matrix(stats::rnorm(400, 9), ncol = 2))
  # The blob of 600 is cut in halves, and one of them joins the other blob first.
  side <- ifelse(seq_len(800) > 600, 3, ifelse(x[, 1] > 0, 1, 2))
  above <- ghclust(rbind(c(0, 0), c(9, 0), c(1, 0)), "average")
  h <- joined_trees(lapply(1:3, function(s) which(side == s)), above)
  found <- cut_populations(h, x = x)
  expect_identical(attr(found, "k"), 2L)
  expect_identical(plain(found), rep(1:2, c(600, 200)))
  expect_identical(lengths(attr(found, "roots")), 2:1)
  on_no_screen({
    content <- plot_populations(h, x, found, engine = "base")
    expect_identical(content$sizes, c(600L, 200L))
    expect_identical(plot_tree(h, populations = found), h)
    expect_identical(plot(found), found)
  })
})

test_that("a cloud without a valley is one population, with a message that advises", {
  set.seed(6)
  x <- matrix(stats::rt(6000, 5), ncol = 3)
  h <- gmhclust(x, warn = FALSE)
  expect_message(
    found <- cut_populations(h, x = x),
    "one population has 100% of all members.*`k`", class = "gmhclust_message_populations"
  )
  expect_true(all(found == 1))
  expect_identical(attr(found, "separation")$nearest, NA_integer_)
  expect_output(print(found), "^1 population of at least 20 members")
  expect_no_message(cut_populations(h, 1, x = x))
})

test_that("the observations of a top are those of its leaves or of the whole tree", {
  x <- some_cells(2000)
  h <- gmhclust(x, apriori = rep_len(1:250, 2000), warn = FALSE)
  top <- cutree_apriori(h)
  whole <- cut_populations(top, x = x, rest = "nearest")
  expect_identical(attr(whole, "k"), attr(cut_populations(h, x = x), "k"))
  means <- rowsum(x, top$leaf) / top$members
  of_leaves <- suppressMessages(cut_populations(top, x = means, rest = "nearest"))
  expect_length(of_leaves, 250)
  expect_refused(cut_populations(top, x = x[1:9, ]),
                 "`x` has 9 rows; the tree has 250 leaves of 2000 observations",
                 by = "cut_populations")
})

test_that("observations in another order are refused if their names are the tree's labels", {
  x <- scale(USArrests)
  h <- ghclust(x, "average")
  refused <- function(object, message) expect_refused(object, message, by = "cut_populations")
  refused(
    cut_populations(h, 3, 5, x = x[50:1, ]),
    paste0("`x` has the tree's observations in another order; row 1 is \"Wyoming\", and ",
           "observation 1 of the tree is \"Alabama\": give the rows in the tree's order")
  )
  refused(cut_populations(h, x = x[c(1:3, 5, 4, 6:50), ]), "row 4 is \"California\"")
  # The top of a tree has the labels of all observations, and of its leaves.
  top <- cutree_top(h, 20)
  expect_identical(names(top$leaf), rownames(x))
  refused(cut_populations(top, 3, 5, x = x[50:1, ]), "`x` has the tree's observations in another")
  means <- rowsum(x, top$leaf)
  refused(cut_populations(top, 3, 5, x = means[20:1, ]), "row 1 is \"20\"")
  expect_s3_class(suppressMessages(cut_populations(top, 3, 5, x = means)), "populations")
  # Other names, or none, say nothing about the order.
  found <- cut_populations(h, 3, 5, x = x)
  rownames(x) <- paste("state", 50:1)
  expect_identical(cut_populations(h, 3, 5, x = x), found)
  rownames(x) <- NULL
  expect_identical(cut_populations(h, 3, 5, x = x), found)
})

test_that("print() says how clear populations are, and how they were chosen", {
  set.seed(2)
  x <- rbind(matrix(stats::rnorm(2400), 1200), matrix(stats::rnorm(200, 20), 100), c(200, 0))
  h <- ghclust(x, "average")
  found <- suppressMessages(cut_populations(h, x = x))
  expect_output(print(found), "members share nearest valley\n1 +1,200 +92.2% +2 +0.0[0-4]\n")
  expect_output(print(found), "0 \\(a gap\\) to 1 \\(no valley\\)")
  expect_output(print(cut_populations(h)), "by the heights of the tree alone")
  expect_identical(summary(found)$nearest, c("2", "1", NA))
})

test_that("wrong arguments are refused", {
  h <- hclust(dist(USArrests), "average")
  refused <- function(object, message) expect_refused(object, message, by = "cut_populations")
  refused(cut_populations(USArrests), "`tree` is an object of class \"data.frame\"")
  refused(cut_populations(h, 0), "`k` is 0; it must be one whole number, or NULL")
  refused(cut_populations(h, 2.5), "`k` is 2.5")
  refused(cut_populations(h, 1:2), "`k` is a numeric vector of length 2")
  refused(cut_populations(h, 9, 10), "populations of at least 10 members (see `min_members`)")
  refused(cut_populations(h, min_members = 51), "`min_members` is 51; the tree has only 50 members")
  refused(cut_populations(h, min_members = 0), "`min_members` is 0")
  refused(cut_populations(h, rest = "all"), "`rest` is \"all\"")
  refused(cut_populations(h, rest = "nearest"), "`x` is NULL")
  refused(cut_populations(h, rest = "nearest", x = USArrests[1:9, ]),
          "`x` has 9 rows; the tree has 50 leaves")
  refused(cut_populations(h, size = 3), "unused argument: `size`")
  refused(cut_populations(h, level = "fine", x = USArrests, k = 3), "`k` already sets the number")
  refused(cut_populations(h, level = "finer"), "levels need the observations, `x`")
  refused(cut_populations(h, level = "x"), "`level` is \"x\"")
  refused(cut_populations(h, x = USArrests, threads = 0), "`threads` is 0")
})

test_that("populations become data frames with names of their own, and a summary of sizes", {
  h <- gmhclust(some_cells(250), threshold = 30, apriori = rep(1:25, 10), warn = FALSE)
  found <- cut_populations(h, 2)
  expect_named(as.data.frame(found), "population")
  expect_identical(as.data.frame(found)$population, as.integer(found))
  sizes <- summary(found)
  expect_identical(sizes$population, c("1", "2", "none"))
  expect_identical(sizes$members, c(attr(found, "sizes"), attr(found, "rest")))
  expect_identical(sum(sizes$share), 1)
  # 1% of 250 is 2.5, and the least is 5; 1% of 1,230 is 12.3.
  expect_output(print(found), "2 populations of at least 5 members")
  large <- gmhclust(some_cells(1230), 30, apriori = rep(1:41, 30), warn = FALSE)
  expect_output(print(cut_populations(large, 2)), "of at least 13 members")
})

test_that("the leaves of observations may be stored as doubles", {
  x <- matrix(rnorm(60), 30)
  tree <- hclust(dist(x))
  tree$leaf <- rep(1:30, 2)
  expected <- cut_populations(tree, 2, x = rbind(x, x), min_members = 3)
  tree$leaf <- tree$leaf + 0
  expect_identical(cut_populations(tree, 2, x = rbind(x, x), min_members = 3), expected)
})

test_that("thousands of populations have the roots of their clusters", {
  n <- 5000
  tree <- hclust(dist(seq_len(n)^1.5), "single")
  populations <- cut_populations(tree, n, min_members = 1)
  expect_identical(attr(populations, "roots"), as.list(-match(seq_len(n), populations)))
})
