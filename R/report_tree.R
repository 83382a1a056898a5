# What a page of report() shows: the top of the condensed tree, and numbers for each branch.

# The budget of a page: numbers of branches times columns, of branches times labels of gates and
# samples, and of cells of the sample times columns. With the greatest of all, a page has less than
# 5 MB.
most_branch_values <- 12000L
most_branch_counts <- 250000L
most_sample_values <- 600000L
most_sample_cells <- 6000L

# Cells of the sample in each of the smallest branches, if it has that many.
least_sample_cells <- 60L

# Steps of a density, the kernel's least bandwidth in steps, and the number of steps that make its
# bandwidth twice as wide.
density_steps <- 100L
least_bandwidth <- 0.7
bandwidths_an_octave <- 4

quantile_levels <- c(0.05, 0.25, 0.5, 0.75, 0.95)

# The top of the condensed tree, with at most `max_branches` branches that are not divided further,
# and all branches of `populations`. A list of: for each branch, the `node` at which it begins, the
# number of the `split` that divides it (0 for none; split s makes branches 2 s and 2 s + 1), its
# `parent`, `size` in members, and `id` in the `merge` of the tree; the places of its leaves, from
# `start` + 1 to `end`, and the `place` of each leaf. For each split, its `number` in the whole
# tree, `height` and `valley`. And the branches of `populations`, `begin`, and the minimum number of
# members, `least`.
page_tree <- function(tree, populations, max_branches, call) {
  members <- leaf_members(tree)
  leaves <- length(members)
  min_size <- check_min_members(max(1, attr(populations, "min_members")), sum(members), call)
  condensed <- condense(tree, members, min_size, call)
  chosen <- lapply(attr(populations, "roots"), clusters_of_ids, condensed$node, leaves)
  if (anyNA(unlist(chosen))) {
    refuse("populations", "are no branches of `tree`", "use cut_populations() for this tree", call)
  }
  splits <- shown_splits(condensed, unlist(chosen), max_branches, call)
  divided <- match(splits, condensed$split)
  # The clusters of the condensed tree that are branches of the page, and their numbers there.
  old <- c(1L, rbind(2L * splits, 2L * splits + 1L))
  new <- integer(length(condensed$node))
  new[old] <- seq_along(old)
  node <- condensed$node[old]
  places <- node_places(tree$merge, leaf_order(tree$merge, call), call)
  valley <- attr(populations, "splits")$valley
  list(
    node = node, split = match(condensed$split[old], splits, nomatch = 0L),
    parent = c(0L, new[condensed$parent[old[-1]]]), size = condensed$size[old],
    id = ids_of_nodes(node, leaves),
    start = places$first[node] - 1L, end = places$last[node],
    place = places$first[seq_len(leaves)],
    number = splits, height = tree$height[condensed$merge[divided]],
    valley = if (is.numeric(valley)) valley[splits] else rep(NA_real_, length(splits)),
    begin = list(
      groups = lapply(chosen, function(clusters) new[clusters]),
      names = given_names(populations)
    ),
    least = ceiling(min_size)
  )
}

# The greatest number of undivided branches of a page with this number of columns and of labels. A
# page with u undivided branches has 2 u - 1 branches.
branch_room <- function(max_branches, columns, labels) {
  branches <- min(most_branch_values %/% columns, most_branch_counts %/% max(labels, 1L))
  min(max_branches, (branches + 1L) %/% 2L)
}

# Names of populations, "" for those that have a number only.
given_names <- function(populations) {
  levels <- enc2utf8(valid_text(attr(populations, "levels")))
  ifelse(levels == as.character(seq_along(levels)), "", levels)
}

# The numbers of the splits to show: the splits above the `chosen` clusters, and the first splits
# from the top, for at most `max_branches` undivided branches.
shown_splits <- function(condensed, chosen, max_branches, call) {
  parent <- condensed$parent
  is_above <- logical(length(parent))
  is_chosen <- replace(is_above, chosen, TRUE)
  for (cluster in rev(seq_along(parent)[-1])) {
    if (is_above[cluster] || is_chosen[cluster]) is_above[parent[cluster]] <- TRUE
  }
  needed <- condensed$split[is_above]
  if (length(needed) + 1L > max_branches) {
    refuse("populations", paste("need a tree of", shown_count(length(needed) + 1L), "branches"),
           paste("this page has at most", shown_count(max_branches), "branches, see `most`"), call)
  }
  others <- setdiff(seq_len((length(parent) - 1L) %/% 2L), needed)
  sort(c(needed, utils::head(others, max_branches - 1L - length(needed))))
}

# The cells in the order of their leaves: their `place`; their numbers in this `order`; and, for
# each branch, the first and the last one in this order, `from` and `to`.
cells_by_place <- function(shown, leaf) {
  place <- shown$place[leaf]
  order <- order(place, method = "radix")
  sorted <- place[order]
  list(place = place, order = order, from = findInterval(shown$start, sorted) + 1L,
       to = findInterval(shown$end, sorted))
}

# The first leaf of each branch, which decides the order of populations of equal size.
first_leaf_of_branches <- function(shown) {
  leaf_at <- order(shown$place)
  vapply(seq_along(shown$node), function(branch) {
    min(leaf_at[seq.int(shown$start[branch] + 1L, shown$end[branch])])
  }, 0L)
}

# ---- columns ------------------------------------------------------------------------------------

page_columns <- function(x) {
  names <- colnames(x)
  if (is.null(names)) names <- as.character(seq_len(ncol(x)))
  enc2utf8(valid_text(names))
}

# For each column: the `range` of pictures, the ends of the `scale` of colours, and for each branch
# the quantiles and the density as bytes. Values of a branch follow each other by column.
page_values <- function(x, shown, cells) {
  branches <- length(shown$node)
  p <- ncol(x)
  quantiles <- array(0, c(length(quantile_levels), p, branches))
  densities <- array(raw(1), c(density_steps, p, branches))
  range <- scale <- matrix(0, 2, p)
  for (j in seq_len(p)) {
    column <- x[, j]
    order <- order(column, method = "radix")
    sorted <- column[order]
    inside <- rows_of_branches(cells$place[order], shown)
    of_branch <- function(rows) quantiles_of_sorted(sorted[rows], c(0.01, quantile_levels, 0.99))
    found <- vapply(inside, of_branch, numeric(length(quantile_levels) + 2L))
    last <- nrow(found)
    scale[, j] <- found[c(1, last), 1]
    range[, j] <- padded(c(min(found[1, ]), max(found[last, ])))
    quantiles[, j, ] <- found[-c(1, last), ]
    for (b in seq_len(branches)) {
      densities[, j, b] <- density_bytes(sorted[inside[[b]]], range[, j])
    }
  }
  list(range = range, scale = scale, quantiles = quantiles, densities = densities)
}

# For each branch, the positions in `place`, the places of cells in some order, of its cells.
rows_of_branches <- function(place, shown) {
  inside <- list(seq_along(place))
  for (b in which(shown$split > 0)) {
    rows <- inside[[b]]
    at <- place[rows]
    for (part in 2L * shown$split[b] + 0:1) {
      inside[[part]] <- rows[at > shown$start[part] & at <= shown$end[part]]
    }
  }
  inside
}

# As stats::quantile() of increasing values.
quantiles_of_sorted <- function(sorted, levels) {
  at <- 1 + (length(sorted) - 1) * levels
  low <- floor(at + 4 * .Machine$double.eps)
  share <- at - low
  share[abs(share) < 4 * .Machine$double.eps] <- 0
  high <- pmin(low + 1, length(sorted))
  sorted[low] + ifelse(share > 0, share * (sorted[high] - sorted[low]), 0)
}

# A range with 2% more at both ends, and of positive width.
padded <- function(range) {
  width <- range[2] - range[1]
  if (!is.finite(width) || width <= abs(range[1]) * 1e-12) {
    width <- max(abs(range[1]), 1) / 2
    return(c(range[1] - width, range[1] + width))
  }
  range + c(-0.02, 0.02) * width
}

# The density of increasing values in steps of `range`, as bytes: 255 at its mode. Values beyond the
# range count in the first or the last step.
density_bytes <- function(sorted, range) {
  width <- (range[2] - range[1]) / density_steps
  ends <- range[1] + width * seq_len(density_steps - 1L)
  counts <- diff(c(0, findInterval(ends, sorted, left.open = TRUE), length(sorted)))
  smooth <- as.vector(kernel_matrix(bandwidth(sorted) / width) %*% counts)
  as.raw(round(255 * smooth / max(smooth)))
}

# stats::bw.nrd0() of increasing values, 0 if they are equal.
bandwidth <- function(sorted) {
  if (length(sorted) < 2) return(0)
  spread <- stats::sd(sorted)
  quartiles <- quantiles_of_sorted(sorted, c(0.25, 0.75))
  middle <- (quartiles[2] - quartiles[1]) / 1.34
  0.9 * (if (middle > 0) min(spread, middle) else spread) * length(sorted)^-0.2
}

# The matrix that smooths counts by a normal kernel, whose bandwidth in steps is rounded. Counts
# near an end stay inside.
kernel_matrix <- function(bandwidth) {
  level <- round(bandwidths_an_octave * log2(max(bandwidth, least_bandwidth)))
  level <- min(level, bandwidths_an_octave * log2(density_steps))
  name <- as.character(level)
  if (is.null(kernels[[name]])) {
    steps <- seq_len(density_steps)
    kernel <- stats::dnorm(outer(steps, steps, "-"), sd = 2^(level / bandwidths_an_octave))
    kernels[[name]] <- sweep(kernel, 2, colSums(kernel), "/")
  }
  kernels[[name]]
}

# The kernels that this session has used.
kernels <- new.env(parent = emptyenv())

# ---- cells --------------------------------------------------------------------------------------

# A sample of the cells in the order of the tree: for each branch, the numbers of its first and last
# cell in the sample, `from` and `to`; whether a cell is `even`, one of those that are evenly spaced
# in the tree; and the values as bytes, by column: 0 and 255 are the ends of the column's `range`.
page_sample <- function(x, range, shown, cells) {
  most <- min(most_sample_cells, max(500L, most_sample_values %/% ncol(x)))
  even <- spaced(1L, nrow(x), most)
  smallest <- which(shown$split == 0)
  least <- min(least_sample_cells, most %/% length(smallest))
  more <- lapply(smallest, function(b) spaced(cells$from[b], cells$to[b], least))
  at <- sort(unique(c(even, unlist(more))))
  rows <- cells$order[at]
  values <- vapply(seq_len(ncol(x)), function(j) {
    share <- (x[rows, j] - range[1, j]) / (range[2, j] - range[1, j])
    as.raw(round(255 * pmin(pmax(share, 0), 1)))
  }, raw(length(rows)))
  list(
    count = length(at), from = findInterval(cells$from - 0.5, at) + 1L,
    to = findInterval(cells$to, at), even = as.raw(at %in% even), values = values
  )
}

# At most `max_count` whole numbers from `from` to `to`, evenly spaced.
spaced <- function(from, to, max_count) {
  count <- min(max_count, to - from + 1L)
  if (count < 1L) return(integer(0))
  as.integer(from + floor((seq_len(count) - 0.5) * (to - from + 1) / count))
}

# The number of cells of each label in each branch: a list of the `labels`, and the `counts`, a
# matrix with a row for each label. NULL without labels.
page_counts <- function(labels, shown, cells) {
  if (is.null(labels)) return(NULL)
  codes <- as.integer(labels)[cells$order]
  counts <- vapply(seq_along(shown$node), function(b) {
    tabulate(codes[seq.int(cells$from[b], cells$to[b])], nlevels(labels))
  }, integer(nlevels(labels)))
  list(labels = enc2utf8(valid_text(levels(labels))), counts = matrix(counts, nlevels(labels)))
}
