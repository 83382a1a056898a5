# How far a division of cells agrees with gates drawn by hand. The benchmarks of this folder source
# this file. `found` and `gate` are whole numbers: the cluster and the gate of each cell, gate 0 for
# none. All scores are 1 if the division is that of the gates.

# cut(k), the populations of a tree, as whole numbers; or cut() of the highest number below k for
# which the tree has enough populations.
at_most <- function(k, cut) {
  for (fewer in k:1) {
    found <- tryCatch(cut(fewer), gmhclust_error_input = function(e) NULL)
    if (!is.null(found)) return(as.integer(found))
  }
}

# The adjusted Rand index of two divisions of the same observations (Hubert and Arabie 1985):
# 0 is chance.
adjusted_rand <- function(a, b) {
  pairs <- function(counts) sum(choose(counts, 2))
  counts <- table(a, b)
  of_a <- pairs(rowSums(counts))
  of_b <- pairs(colSums(counts))
  expected <- of_a * of_b / choose(length(a), 2)
  most <- (of_a + of_b) / 2
  if (most == expected) 1 else (pairs(counts) - expected) / (most - expected)
}

# The scores of the gated cells: `f`, the F of FlowCAP (Aghaeepour et al. 2013), is the best F1 that
# any cluster has with a gate, averaged over the gates with their sizes as weights; `mean_f1` (Weber
# and Robinson 2016) matches gates and clusters one to one by the Hungarian algorithm and gives all
# gates the same weight, 0 to those without a match; `ari` is the adjusted Rand index.
agreement <- function(found, gate) {
  gated <- gate > 0
  found <- found[gated]
  gate <- gate[gated]
  f1 <- f1_table(found, gate)
  sizes <- as.vector(table(gate))
  c(f = sum(sizes * apply(f1, 1, max)) / sum(sizes), mean_f1 = sum(matched(f1)) / nrow(f1),
    ari = adjusted_rand(found, gate))
}

# F1, the harmonic mean of precision and recall, of each gate (row) with each cluster (column).
f1_table <- function(found, gate) {
  both <- unclass(table(gate, found))
  2 * both / outer(rowSums(both), colSums(both), "+")
}

# The values of the pairs of a row and a column, each in at most one pair, with the greatest sum.
matched <- function(value) {
  if (nrow(value) > ncol(value)) value <- t(value)
  value[cbind(seq_len(nrow(value)), assignment(value))]
}

# The column of each row, all different, with the greatest sum of values. The Hungarian algorithm,
# one shortest augmenting path for each row, in time rows^2 x columns; no more rows than columns.
assignment <- function(value) {
  cost <- max(value) - value
  rows <- nrow(cost)
  columns <- ncol(cost)
  row_price <- numeric(rows)
  # Place 1 is no column: paths start there. Place j + 1 is column j.
  price <- numeric(columns + 1)
  owner <- integer(columns + 1)
  for (row in seq_len(rows)) {
    owner[1] <- row
    here <- 1
    length <- rep(Inf, columns + 1)
    before <- integer(columns + 1)
    is_reached <- logical(columns + 1)
    while (owner[here] > 0) {
      is_reached[here] <- TRUE
      open <- which(!is_reached)
      from <- owner[here]
      step <- cost[from, open - 1] - row_price[from] - price[open]
      shorter <- step < length[open]
      length[open[shorter]] <- step[shorter]
      before[open[shorter]] <- here
      here <- open[which.min(length[open])]
      nearest <- length[here]
      reached <- which(is_reached)
      row_price[owner[reached]] <- row_price[owner[reached]] + nearest
      price[reached] <- price[reached] - nearest
      length[open] <- length[open] - nearest
    }
    while (here > 1) {
      owner[here] <- owner[before[here]]
      here <- before[here]
    }
  }
  match(seq_len(rows), owner[-1])
}
