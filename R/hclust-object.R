# What the functions of this package know about objects of class "hclust".

new_hclust <- function(merge, height, order, labels, method, call, dist_method = "euclidean") {
  structure(class = "hclust", list(
    merge = merge, height = height, order = order, labels = labels,
    method = method, call = call, dist.method = dist_method
  ))
}

# Everything that is wrong with the hclust object `h`, one sentence each; character(0) if nothing.
hclust_problems <- function(h) {
  problems <- merge_problems(h$merge)
  if (length(problems) > 0) return(problems)
  merges <- nrow(h$merge)
  c(
    height_problems(h$height, merges),
    order_problems(h$order, h$merge),
    if (!is.null(h$labels) && length(h$labels) != merges + 1) {
      sprintf("`labels` has length %d, not %d", length(h$labels), merges + 1L)
    }
  )
}

merge_problems <- function(merge) {
  if (!is.matrix(merge) || !is.numeric(merge) || ncol(merge) != 2 || nrow(merge) < 1) {
    return("`merge` is not a numeric matrix with 2 columns and at least 1 row")
  }
  if (!all(is.finite(merge)) || any(merge != round(merge))) {
    return("`merge` has entries that are not whole numbers")
  }
  merges <- nrow(merge)
  ids <- c(-rev(seq_len(merges + 1)), seq_len(merges - 1))
  unknown <- setdiff(merge, c(ids, merges))
  ahead <- which(pmax(merge[, 1], merge[, 2]) >= seq_len(merges))
  c(
    id_problem(unknown, "`merge` names clusters that do not exist: "),
    id_problem(unique(merge[duplicated(as.vector(merge))]),
               "`merge` names clusters more than once: "),
    id_problem(setdiff(ids, merge), "`merge` leaves clusters out: "),
    id_problem(ahead, "`merge` refers to clusters that are not there yet, in rows ")
  )
}

id_problem <- function(ids, text) {
  if (length(ids) == 0) return(NULL)
  shown <- paste(utils::head(ids, 5), collapse = ", ")
  paste0(text, shown, if (length(ids) > 5) paste0(" and ", length(ids) - 5, " more"))
}

height_problems <- function(height, merges) {
  if (!is.numeric(height)) return("`height` is not numeric")
  if (length(height) != merges) {
    return(sprintf("`height` has length %d, not %d", length(height), merges))
  }
  id_problem(which(!is.finite(height)), "`height` is not finite at ")
}

order_problems <- function(order, merge) {
  n <- nrow(merge) + 1L
  if (!is.numeric(order) || length(order) != n || !setequal(order, seq_len(n))) {
    return(sprintf("`order` is not a permutation of 1 to %d", n))
  }
  # Branches cross where the leaves of a cluster are not side by side.
  position <- integer(n)
  position[order] <- seq_len(n)
  first <- last <- size <- integer(n - 1L)
  for (i in seq_len(n - 1L)) {
    a <- merge[i, 1]
    b <- merge[i, 2]
    sides <- c(
      if (a < 0) c(position[-a], position[-a], 1L) else c(first[a], last[a], size[a]),
      if (b < 0) c(position[-b], position[-b], 1L) else c(first[b], last[b], size[b])
    )
    first[i] <- min(sides[1], sides[4])
    last[i] <- max(sides[2], sides[5])
    size[i] <- sides[3] + sides[6]
  }
  id_problem(which(last - first + 1L != size), "`order` makes branches cross at merges ")
}

# hclust's row convention: observations before clusters, each in increasing number.
sort_merge_rows <- function(merge) {
  rank <- ifelse(merge < 0, -merge, nrow(merge) + 1L + merge)
  swap <- rank[, 1] > rank[, 2]
  merge[swap, ] <- merge[swap, 2:1]
  merge
}

# The leaves from left to right: depth first, first column first.
leaf_order <- function(merge) {
  merges <- nrow(merge)
  size <- merge_sizes(merge)
  order <- integer(merges + 1L)
  start <- integer(merges)
  start[merges] <- 1L
  # From the root down, every cluster tells its two parts where they start.
  for (i in rev(seq_len(merges))) {
    starts <- c(start[i], start[i] + if (merge[i, 1] < 0) 1L else size[merge[i, 1]])
    for (side in 1:2) {
      id <- merge[i, side]
      if (id < 0) order[starts[side]] <- -id else start[id] <- starts[side]
    }
  }
  order
}

# The number of observations in each of the merges.
merge_sizes <- function(merge) {
  size <- integer(nrow(merge))
  size_of <- function(id) if (id < 0) 1L else size[id]
  for (i in seq_along(size)) size[i] <- size_of(merge[i, 1]) + size_of(merge[i, 2])
  size
}
