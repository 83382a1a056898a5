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
  found <- cut_populations(h, 6, 20, rest = "nearest", X = x)
  expect_identical(found[core > 0], core[core > 0])
  distances <- vapply(1:6, function(p) {
    members <- x[core == p, ]
    mahalanobis(x[core == 0, , drop = FALSE], colMeans(members), cov(members))
  }, numeric(sum(core == 0)))
  expect_identical(unname(found[core == 0]), max.col(-matrix(distances, ncol = 6)))
  expect_identical(attr(found, "sizes"), as.double(tabulate(found, 6)))
  expect_identical(attr(found, "roots"), attr(core, "roots"))
})

test_that("with a singular covariance, the rest goes to the nearest mean", {
  x <- cbind(c(1:20, 101:120, 70, 500, -300), c(rep(7, 20), rep(c(6, 9), 10), 7, 7, 7))
  h <- ghclust(x, "average")
  core <- cut_populations(h, 2, 5)
  expect_message(found <- cut_populations(h, 2, 5, rest = "nearest", X = x),
                 class = "gmhclust_message_singular")
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

test_that("wrong arguments are refused", {
  h <- hclust(dist(USArrests), "average")
  refused <- function(object, message) expect_refused(object, message, by = "cut_populations")
  refused(cut_populations(USArrests), "`h` is an object of class \"data.frame\"")
  refused(cut_populations(h, 0), "`k` is 0; it must be one whole number, or NULL")
  refused(cut_populations(h, 2.5), "`k` is 2.5")
  refused(cut_populations(h, 1:2), "`k` is a numeric vector of length 2")
  refused(cut_populations(h, 9, 10), "populations of at least 10 members (see `min_members`)")
  refused(cut_populations(h, min_members = 51), "`min_members` is 51; the tree has only 50 members")
  refused(cut_populations(h, min_members = 0), "`min_members` is 0")
  refused(cut_populations(h, rest = "all"), "`rest` is \"all\"")
  refused(cut_populations(h, rest = "nearest"), "`X` is NULL")
  refused(cut_populations(h, rest = "nearest", X = USArrests[1:9, ]),
          "`X` has 9 rows; the tree has 50 leaves")
  refused(cut_populations(h, size = 3), "unused argument: `size`")
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
