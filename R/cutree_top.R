#' Top of a tree
#'
#' Returns the last k - 1 merges of any tree as a tree of k leaves. These leaves are the clusters of
#' `gcutree(tree, k)`. The top is small enough to plot, even for millions of observations.
#'
#' @param tree An object of class [`hclust`][stats::hclust], with or without inversions.
#' @param k The number of leaves, from 2 to n.
#'
#' @return An object of class `"hclust"` with k leaves, labelled by their numbers in
#'   `gcutree(tree, k)`, and with the further components
#'   \describe{
#'     \item{`leaf`}{integer vector: the number of the leaf of each observation, which is
#'       `gcutree(tree, k)`. `gcutree(top, 5)[top$leaf]` is the cluster of every observation.}
#'     \item{`members`}{the number of observations in each leaf.}
#'   }
#'   If `tree` is itself the top of a tree, from this function or [cutree_apriori()], `leaf` and
#'   `members` refer to the observations of the whole tree. The time is proportional to n.
#' @section Errors:
#' A condition of class `gmhclust_error_input` if `tree` is not a valid tree, or `k` is not one
#' number from 2 to n.
#' @seealso [cut_populations()], [cutree_apriori()], [gcutree()], [plot_tree()]
#'
#' @examples
#' cells <- as.matrix(lymphocytes()[1:14])
#' tree <- ghclust(cells, "ward.D2")
#' top <- cutree_top(tree, 20)
#' plot(top, labels = top$members)
#' @export
cutree_top <- function(tree, k) {
  call <- match.call()
  check_tree(tree, "tree", call)
  n <- nrow(tree$merge) + 1L
  needs <- paste("it must be one whole number from 2 to", n)
  if (missing(k)) refuse_missing("k", needs, call)
  if (!is_single_number(k) || k < 2 || k > n || k != round(k)) {
    refuse("k", paste("is", describe(k)), needs, call)
  }
  k <- as.integer(k)
  top_of(tree, cut_once(tree$merge, k, call), k, call)
}

# The cluster of each leaf, of k clusters.
cut_once <- function(merge, k, call) {
  run_job(job_cut_tree(as_integers(merge), k), FALSE, "Cutting the tree", call)
}

# The top of k leaves. `cluster` has the cluster of each leaf of `tree`, as cut_once() returns them.
top_of <- function(tree, cluster, k, call) {
  inner <- length(cluster) - k
  top_tree(tree, inner, list(
    labels = as.character(seq_len(k)),
    of_observation = cluster,
    of_merge = cluster[some_leaf(tree$merge, inner)]
  ), call)
}

# One leaf below each of the first `inner` merges that a later merge joins; NA for the other merges.
some_leaf <- function(merge, inner) {
  leaf <- rep(NA_integer_, inner)
  cut_off <- merge[seq(inner + 1, nrow(merge)), ]
  cut_off <- cut_off[cut_off > 0 & cut_off <= inner]
  below <- cut_off
  repeat {
    inside <- which(below > 0)
    if (length(inside) == 0) break
    below[inside] <- merge[below[inside], 1]
  }
  leaf[cut_off] <- -below
  leaf
}

# The tree `tree` without its first `inner` merges. `leaves` is a list: the `labels` of the leaves
# of the result; `of_observation`, the leaf of each observation; and `of_merge`, the leaf of each of
# the first merges to which a remaining merge refers.
top_tree <- function(tree, inner, leaves, call) {
  n <- nrow(tree$merge) + 1L
  kept <- seq(inner + 1, n - 1)
  merge <- tree$merge[kept, , drop = FALSE]
  is_observation <- merge < 0
  is_kept <- merge > inner
  is_leaf <- !is_observation & !is_kept
  merge[is_observation] <- -leaves$of_observation[-merge[is_observation]]
  merge[is_leaf] <- -leaves$of_merge[merge[is_leaf]]
  merge[is_kept] <- merge[is_kept] - inner
  merge <- sort_merge_rows(matrix(as.integer(merge), ncol = 2))
  top <- new_hclust(
    merge, tree$height[kept], leaf_order(merge, call), labels = leaves$labels, method = tree$method,
    call = tree$call, dist_method = tree$dist.method, settings = tree$settings
  )
  if (is.list(top$settings)) top$settings$inversions <- count_inversions(top$height)
  of_observation <- leaves$of_observation
  top$members <- members_of(tree, of_observation, length(leaves$labels))
  top$leaf <- if (is.null(tree$leaf)) {
    stats::setNames(of_observation, tree$labels)
  } else {
    stats::setNames(of_observation[tree$leaf], names(tree$leaf))
  }
  top
}

# The number of observations in each of `count` leaves of a top. `leaf` has, for each leaf of
# `tree`, the number of its leaf in the top.
members_of <- function(tree, leaf, count) {
  if (is.null(tree$members)) return(tabulate(leaf, count))
  as.vector(rowsum(leaf_members(tree), leaf))
}
