# Objects of class "hclust": construction, checks, and conventions.

# A tree of this package: a plain hclust object, because many functions of other packages compare
# the whole of `class(tree)`. `settings` lists the settings and results of gmhclust() and ghclust(),
# see new_settings(); NULL for the top of another package's tree.
new_hclust <- function(merge, height, order, labels, method, call, dist_method = "euclidean",
                       settings = NULL) {
  tree <- structure(class = "hclust", list(
    merge = merge, height = height, order = order, labels = labels,
    method = method, call = call, dist.method = dist_method
  ))
  tree$settings <- settings
  tree
}

# The problems of the hclust object `tree`, one sentence each; character(0) for a valid object.
hclust_problems <- function(tree) {
  problem <- matrix_problem(tree$merge)
  if (!is.null(problem)) return(problem)
  merges <- nrow(tree$merge)
  order <- tree$order
  # `order` may have any class.
  if (is.numeric(order)) order <- unclass(order)
  order <- if (is_whole(order)) as.integer(order) else integer(0)
  faults <- tree_faults(tree$merge, order)
  problems <- merge_problems(faults)
  if (length(problems) > 0) return(problems)
  c(
    height_problems(tree$height, merges),
    if (!faults$has_all) sprintf("`order` is not a permutation of 1 to %d", merges + 1L),
    id_problem(faults$crossing, "`order` makes branches cross at merges "),
    if (!is.null(tree$labels) && length(tree$labels) != merges + 1) {
      sprintf("`labels` has length %d, not %d", length(tree$labels), merges + 1L)
    },
    top_problems(tree, merges + 1L)
  )
}

# Maximum number of members of a tree, up to which doubles count exactly.
most_members <- 2^53

# The problems of the components that only the top of a tree has.
top_problems <- function(tree, n) {
  members <- tree$members
  has_members <- is.numeric(members) && length(members) == n
  leaf <- tree$leaf
  is_leaf <- length(leaf) == 0 || (is_whole(leaf) && min(leaf) >= 1 && max(leaf) <= n)
  c(
    if (has_members && !(is.null(dim(members)) && all(is.finite(members) & members > 0))) {
      "`members` are not a vector of positive numbers"
    } else if (has_members && sum(as.double(members)) > most_members) {
      sprintf("`members` are more than %g together", most_members)
    },
    if (!is_leaf) sprintf("`leaf` has values that are not from 1 to %d", n)
  )
}

# The problem of `merge` as a matrix; NULL if it is a matrix of whole numbers with two columns.
matrix_problem <- function(merge) {
  if (!is.matrix(merge) || !is.numeric(merge) || ncol(merge) != 2 || nrow(merge) < 1) {
    return("`merge` is not a numeric matrix with 2 columns and at least 1 row")
  }
  if (is_whole(merge)) return(NULL)
  if (!all(is.finite(merge)) || any(merge != round(merge))) {
    return("`merge` has entries that are not whole numbers")
  }
  NULL
}

tree_faults <- function(merge, order) {
  # Numbers that no integer can hold become the largest integer, which names no cluster either.
  most <- .Machine$integer.max
  whole <- if (is.integer(merge)) merge else as_integers(pmax(pmin(merge, most), -most))
  faults <- run_job(job_tree_faults(whole, order), FALSE, "Checking the tree")
  # The numbers as they were given, column by column.
  if (length(faults$unknown) > 0) {
    merges <- nrow(merge)
    faults$unknown <- merge[merge < -merges - 1 | merge > merges | merge == 0]
  }
  faults
}

# The problems of `merge`, from the value of tree_faults().
merge_problems <- function(faults) {
  c(
    id_problem(unique(faults$unknown), "`merge` names clusters that do not exist: "),
    id_problem(faults$repeated, "`merge` names clusters more than once: "),
    id_problem(faults$missing, "`merge` leaves clusters out: "),
    id_problem(faults$early, "`merge` refers to clusters that are not there yet, in rows ")
  )
}

id_problem <- function(ids, text) {
  if (length(ids) == 0) return(NULL)
  shown <- paste(utils::head(ids, 5), collapse = ", ")
  paste0(text, shown, if (length(ids) > 5) paste0(" and ", length(ids) - 5, " more"))
}

height_problems <- function(height, merges) {
  if (!is.numeric(height) || is.object(height)) return("`height` is not numeric")
  if (length(height) != merges) {
    return(sprintf("`height` has length %d, not %d", length(height), merges))
  }
  id_problem(which(!is.finite(height)), "`height` is not finite at ")
}

# Whether x has whole numbers that integers can hold. Integers need only a check for NA.
is_whole <- function(x) {
  if (!is.numeric(x) || is.object(x)) return(FALSE)
  if (is.integer(x)) return(!anyNA(x))
  all(is.finite(x)) && all(x == round(x)) && all(abs(x) <= .Machine$integer.max)
}

# A matrix of whole numbers with storage mode integer, for compiled code.
as_integers <- function(matrix) {
  storage.mode(matrix) <- "integer"
  matrix
}

# hclust's row convention: observations before clusters, each in increasing number.
sort_merge_rows <- function(merge) {
  rank <- joined_nodes(merge)
  swap <- rank[, 1] > rank[, 2]
  merge[swap, ] <- merge[swap, 2:1]
  merge
}

# The leaves from left to right: depth first, from the first column of `merge`.
leaf_order <- function(merge, call) {
  run_job(job_leaf_order(as_integers(merge)), FALSE, "Ordering the leaves", call)
}
