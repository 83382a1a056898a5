# Part of populations.R, for its option --clouds: simulated clouds that are one population, and rare
# populations beside large ones. Rows; all run by default:
#   small    100 to 1,000 cells, 2 to 40 markers, 25 or 100 seeds
#   medium   3,000 and 10,000 cells, 2 to 40 markers, 5 to 50 seeds
#   large    100,000 cells, 2 to 40 markers, 1 or 2 seeds, above 1,000 apriori clusters
#   rare     20 of 20,000 cells, 4, 6 and 8 standard deviations away from two populations, 6 and 14
#            markers, 5 seeds, min_members = 10
# --quick takes a tenth of the seeds, and leaves out "large".
#
# Columns: the shape; n, p; the tree; the number of seeds; `found`, how many clouds stay one
# population, or in how many data sets a population has F1 >= 0.8 with the rare cells; `in_tree`, in
# how many any cluster of the tree has; `largest_k`, the largest number of populations.

# n points of p columns, one population of this shape.
cloud <- function(shape, n, p, seed) {
  set.seed(1000 * seed + p)
  z <- matrix(stats::rnorm(n * p), n)
  switch(
    shape,
    "Gaussian" = z,
    "correlated" = {
      rotation <- qr.Q(qr(matrix(stats::rnorm(p * p), p)))
      z %*% (exp(stats::rnorm(p, sd = 0.8)) * t(rotation))
    },
    "t, 3 df" = z / sqrt(stats::rchisq(n, 3) / 3),
    "t, 5 df" = z / sqrt(stats::rchisq(n, 5) / 5),
    "uniform" = matrix(stats::runif(n * p), n),
    "lognormal" = exp(0.7 * z),
    "gamma" = matrix(stats::rgamma(n * p, 2), n),
    "counts" = asinh(matrix(stats::rnbinom(n * p, mu = 3, size = 1), n) / 5),
    "banana" = {
      z[, 2] <- 0.5 * z[, 2] + 0.7 * z[, 1]^2
      z
    },
    # Half a circle of radius 1.
    "arc" = {
      angle <- stats::runif(n, 0, pi)
      z <- 0.12 * z
      z[, 1:2] <- z[, 1:2] + cbind(cos(angle), sin(angle))
      z
    }
  )
}

cloud_shapes <- c("Gaussian", "correlated", "t, 3 df", "t, 5 df", "uniform", "lognormal", "gamma",
                  "counts", "banana", "arc")

# Sizes of clouds and their numbers of seeds.
cloud_sizes <- utils::read.csv(strip.white = TRUE, text = "
  row,         n,  p, seeds
  small,     100,  2,   100
  small,     100, 10,    25
  small,     300,  3,   100
  small,     300, 20,    25
  small,    1000,  2,    25
  small,    1000,  6,   100
  small,    1000, 40,    25
  medium,   3000,  6,    50
  medium,   3000, 40,    10
  medium,  10000,  2,    10
  medium,  10000, 14,     5
  large,  100000,  2,     2
  large,  100000, 14,     2
  large,  100000, 40,     1
")

# The trees of a row: apriori clusters from 10,000 cells, and always with 100,000.
trees_for <- function(n) {
  has_apriori <- !vapply(trees, function(tree) is.null(tree[[2]]), NA)
  trees[if (n >= 1e5) has_apriori else if (n >= 1e4) TRUE else !has_apriori]
}

# measure(x, tree) for each tree of the data x(seed), as a matrix: one row for each value, columns
# trees, seeds.
over_seeds <- function(seeds, chosen, options, x, measure) {
  simplify2array(repeated(seq_len(seeds), options, function(seed) {
    task <- new_task(x(seed), NA, seed, options$threads)
    vapply(chosen, function(tree) {
      measure(mahalanobis_tree(task, tree[[1]], tree[[2]]), task$x)
    }, c(value = 0, in_tree = 0, k = 0))
  }))
}

cloud_row <- function(row, options) {
  sizes <- cloud_sizes[cloud_sizes$row == row, ]
  cases <- merge(data.frame(shape = cloud_shapes), sizes, by = NULL)
  # Two columns of counts have fewer distinct rows than there are apriori clusters.
  cases <- cases[!(cases$shape == "counts" & cases$p == 2 & cases$n >= 1e4), ]
  rows_of(row, cases, options, function(case, seed) cloud(case$shape, case$n, case$p, seed),
          function(h, x) {
    k <- max(our_cut(h, x))
    c(value = as.numeric(k == 1), in_tree = NA, k = k)
  })
}

rare_row <- function(row, options) {
  cases <- merge(data.frame(shape = paste(c(4, 6, 8), "sd"), n = 20000, seeds = 5),
                 data.frame(p = c(6, 14)))
  is_rare <- seq_len(20000) <= 20
  data <- function(case, seed) {
    set.seed(seed)
    x <- matrix(stats::rnorm(case$n * case$p), case$n)
    half <- seq_len(case$n / 2)
    x[half, case$p] <- x[half, case$p] + 7
    x[is_rare, ] <- 0.7 * stats::rnorm(sum(is_rare) * case$p)
    distance <- as.numeric(sub(" sd", "", case$shape))
    x[is_rare, 1:3] <- x[is_rare, 1:3] + distance / sqrt(3)
    x
  }
  rows_of(row, cases, options, data, function(h, x) {
    found <- our_cut(h, x, min_members = 10)
    hits <- tabulate(found[is_rare], max(found))
    f1 <- 2 * hits / (tabulate(found) + sum(is_rare))
    c(value = as.numeric(max(f1) >= 0.8), in_tree = as.numeric(best_f1_in_tree(h, is_rare) >= 0.8),
      k = max(found))
  })
}

# The highest F1 of any cluster of the tree with these leaves.
best_f1_in_tree <- function(h, is_member) {
  size <- members <- numeric(nrow(h$merge))
  for (j in seq_along(size)) {
    for (side in h$merge[j, ]) {
      size[j] <- size[j] + if (side < 0) 1 else size[side]
      members[j] <- members[j] + if (side < 0) is_member[-side] else members[side]
    }
  }
  max(2 * members / (size + sum(is_member)))
}

# A line for each case (shape, n, p, seeds) and tree.
rows_of <- function(row, cases, options, data, measure) {
  lines <- lapply(seq_len(nrow(cases)), function(i) {
    case <- cases[i, ]
    seeds <- if (options$quick) ceiling(case$seeds / 10) else case$seeds
    chosen <- trees_for(case$n)
    measured <- over_seeds(seeds, chosen, options, function(seed) data(case, seed), measure)
    sums <- rowSums(measured, dims = 2)
    data.frame(
      row, case[c("shape", "n", "p")], tree = names(chosen), seeds, found = sums["value", ],
      in_tree = sums["in_tree", ], largest_k = apply(measured["k", , , drop = FALSE], 2, max),
      row.names = NULL
    )
  })
  do.call(rbind, lines)
}

cloud_rows <- list(small = cloud_row, medium = cloud_row, large = cloud_row, rare = rare_row)

count_clouds <- function(options) {
  machine <- machine_columns(options)
  print_machine(machine)
  if (options$quick) options$rows <- setdiff(options$rows, "large")
  table <- do.call(rbind, lapply(options$rows, function(row) cloud_rows[[row]](row, options)))
  named <- cbind(table, data = mapply(named_size, table$n, table$p, table$shape), call = table$tree)
  print_rows(table, "row")
  cat("\nfound: clouds that stay one population, or data sets in which the rare one is found\n")
  write_results(named, machine, options)
  sums <- stats::aggregate(cbind(found, seeds) ~ row + shape, table, sum)
  cat("\nfound in all:\n")
  print(sums[order(match(sums$row, options$rows)), ], row.names = FALSE, right = FALSE)
}
