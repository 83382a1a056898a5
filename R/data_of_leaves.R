# The observations of the leaves of a tree, which the user gives as `x` beside the tree.

# The data of a tree: a list of the observations `x`, a matrix or stored rows; the numbers of the
# `used` columns, which are the columns that are not redundant; and the `leaf` of each observation,
# NULL if the observations are the leaves. `options` are those of as_stored_observations(). The
# caller frees `x`.
data_of_leaves <- function(x, tree, arg, options, call, ...) {
  x <- as_stored_observations(x, arg, function(p) population_bytes, options, call, ...,
                              wide = FALSE)
  tryCatch(
    {
      n <- nrow(tree$merge) + 1L
      whole <- length(tree$leaf)
      leaf <- if (nrow(x) != n) as_integers(tree$leaf)
      if (nrow(x) != n && (whole == 0 || nrow(x) != whole)) {
        needs <- paste("the tree has", n, "leaves",
                       if (whole > 0) paste("of", whole, "observations"))
        refuse(arg, paste("has", nrow(x), "rows"), trimws(needs), call)
      }
      labels <- if (nrow(x) == whole) labels_of_observations(tree) else tree$labels
      check_row_order(rownames(x), labels, arg, call)
      used <- used_columns(x)
      if (is.null(leaf)) check_rows_of_tree(x, used, tree, arg, call)
    },
    error = function(e) {
      release_rows(x)
      stop(e)
    }
  )
  list(x = x, used = used, leaf = leaf, count = n)
}

# Stops if rows of x that the tree joins first are no nearer to each other than to rows that the
# tree joins to others, as if the rows were in another order. x may be scaled or transformed
# otherwise than the observations that were clustered, and may have more columns. So it suffices
# that the rows are near as they are, in units of the spread of each of the `used` columns, or in
# one column. Only of trees whose first merges join rows that are near in this sense.
check_rows_of_tree <- function(x, used, tree, arg, call) {
  pairs <- which(tree$merge[, 1] < 0 & tree$merge[, 2] < 0)
  if (length(pairs) < least_pairs || !joins_near_rows(tree)) return(invisible())
  pairs <- unique(pairs[round(seq(1, length(pairs), length.out = most_pairs))])
  of_pairs <- function(side) {
    rows <- x[-tree$merge[pairs, side], , drop = FALSE]
    rows[, used, drop = FALSE]
  }
  first <- of_pairs(1)
  second <- of_pairs(2)
  # Each pair beside one that joins at a rather different height.
  other <- second[(seq_along(pairs) + length(pairs) %/% 2 - 1) %% length(pairs) + 1, , drop = FALSE]
  # The median deviation of a marker that most cells lack is 0.
  both <- rbind(first, second)
  spread <- apply(both, 2, stats::mad)
  spread <- ifelse(spread > 0, spread, apply(both, 2, stats::sd))
  unit <- rep(ifelse(spread > 0, spread, 1), each = nrow(first))
  near <- abs(first - second)
  apart <- abs(first - other)
  shares <- c(
    mean(rowSums(near^2) <= rowSums(apart^2)),
    mean(rowSums((near / unit)^2) <= rowSums((apart / unit)^2)),
    colMeans(near <= apart)[spread > 0]
  )
  # Differences may overflow.
  if (isTRUE(max(shares) < least_share_near)) {
    needs <- paste("rows that the tree joins first are no nearer to each other than to other rows:",
                   "give the observations of the tree, in its order")
    refuse(arg, "has other observations than the tree", needs, call)
  }
}

# Whether the first merges of a tree join rows with small differences: in trees of gmhclust(), and
# of distances that are sums or maxima of differences.
joins_near_rows <- function(tree) {
  isTRUE(tree$dist.method %in% c("euclidean", "manhattan", "maximum", "minkowski"))
}

# Numbers of pairs of rows to compare. With rows in another order, half of the pairs are near; that
# `least_share_near` of at least `least_pairs` are near by chance has a probability of 0.1%.
least_pairs <- 60L
most_pairs <- 200L
least_share_near <- 0.7

# The labels of all observations of a tree, which may be the top of another tree.
labels_of_observations <- function(tree) {
  if (is.null(tree$leaf)) tree$labels else names(tree$leaf)
}

# Stops if the row names of the data are the labels of the tree's observations in another order, or
# those `of` something else. Other names say nothing about the order.
check_row_order <- function(names, labels, arg, call, of = "the tree") {
  labels <- as.character(labels)
  first <- first_out_of_order(names, labels)
  if (is.null(first)) return(invisible())
  needs <- paste0("row ", first, " is ", quoted(names[first]), ", and observation ", first, " of ",
                  of, " is ", quoted(labels[first]), ": give the rows in ", of, "'s order")
  refuse(arg, paste0("has ", of, "'s observations in another order"), needs, call)
}

# Bytes that finding populations takes for each observation, besides its values.
population_bytes <- 16

# A row for each leaf: its observation, or the mean of its observations.
leaf_means <- function(data) {
  x <- if (is_stored(data$x)) data$x[, , drop = FALSE] else data$x
  if (is.null(data$leaf)) return(x)
  rowsum(x, data$leaf) / tabulate(data$leaf, data$count)
}
