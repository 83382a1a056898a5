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
  problems <- merge_problems(tree$merge)
  if (length(problems) > 0) return(problems)
  merges <- nrow(tree$merge)
  c(
    height_problems(tree$height, merges),
    order_problems(tree$order, tree$merge),
    if (!is.null(tree$labels) && length(tree$labels) != merges + 1) {
      sprintf("`labels` has length %d, not %d", length(tree$labels), merges + 1L)
    },
    top_problems(tree, merges + 1L)
  )
}

# The problems of the components that only the top of a tree has.
top_problems <- function(tree, n) {
  has_members <- is.numeric(tree$members) && length(tree$members) == n
  leaf <- tree$leaf
  is_leaf <- is.null(leaf) ||
    (is.numeric(leaf) && !is.object(leaf) && all(is.finite(leaf)) &&
       all(leaf == round(leaf) & leaf >= 1 & leaf <= n))
  c(
    if (has_members && !all(is.finite(tree$members) & tree$members > 0)) {
      "`members` are not all positive numbers"
    },
    if (!is_leaf) sprintf("`leaf` has values that are not from 1 to %d", n)
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
  n <- merges + 1L
  ids <- c(seq(-n, -1L), seq_len(merges - 1L))
  exists <- merge >= -n & merge <= merges & merge != 0
  times <- tabulate(merge[exists] + n + 1L, n + merges + 1L)
  of_id <- function(test) ids[test(times[ids + n + 1L])]
  ahead <- which(pmax(merge[, 1], merge[, 2]) >= seq_len(merges))
  c(
    id_problem(unique(merge[!exists]), "`merge` names clusters that do not exist: "),
    id_problem(of_id(function(times) times > 1), "`merge` names clusters more than once: "),
    id_problem(of_id(function(times) times == 0), "`merge` leaves clusters out: "),
    id_problem(ahead, "`merge` refers to clusters that are not there yet, in rows ")
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

order_problems <- function(order, merge) {
  n <- nrow(merge) + 1L
  if (!is_permutation(order, n)) return(sprintf("`order` is not a permutation of 1 to %d", n))
  # Branches cross if the leaves of a cluster are not contiguous in `order`.
  crossing <- run_job(
    job_crossings(as_integers(merge), as.integer(order)), FALSE, "Checking the tree"
  )
  id_problem(crossing, "`order` makes branches cross at merges ")
}

is_permutation <- function(order, n) {
  is.numeric(order) && length(order) == n && all(is.finite(order)) &&
    all(order == round(order) & order >= 1 & order <= n) && all(tabulate(order, n) == 1L)
}

# A matrix of whole numbers with storage mode integer, for compiled code.
as_integers <- function(matrix) {
  storage.mode(matrix) <- "integer"
  matrix
}

# hclust's row convention: observations before clusters, each in increasing number.
sort_merge_rows <- function(merge) {
  rank <- ifelse(merge < 0, -merge, nrow(merge) + 1L + merge)
  swap <- rank[, 1] > rank[, 2]
  merge[swap, ] <- merge[swap, 2:1]
  merge
}

# The leaves from left to right: depth first, from the first column of `merge`.
leaf_order <- function(merge, call) {
  run_job(job_leaf_order(as_integers(merge)), FALSE, "Ordering the leaves", call)
}
