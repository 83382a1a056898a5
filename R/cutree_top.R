#' Top of a tree
#'
#' The last k - 1 merges of any tree, as a tree of k leaves. Its leaves are the clusters of
#' `gcutree(h, k)`. It is small enough to plot, even for millions of observations.
#'
#' @param h An object of class [`hclust`][stats::hclust], with or without inversions.
#' @param k The number of leaves, from 2 to n.
#'
#' @return An object of class `"hclust"` with k leaves, labelled by their numbers in
#'   `gcutree(h, k)`, and with the further components
#'   \describe{
#'     \item{`leaf`}{integer vector: the number of the leaf of each observation, which is
#'       `gcutree(h, k)`. `gcutree(top, 5)[top$leaf]` is the cluster of every observation.}
#'     \item{`members`}{the number of observations in each leaf.}
#'   }
#'   If `h` is itself the top of a tree, from this function or [cutree_apriori()], `leaf` and
#'   `members` refer to the observations of the whole tree. The time is proportional to n.
#' @section Errors:
#' A condition of class `gmhclust_error_input` if `h` is not a valid tree, or `k` is not one number
#' from 2 to n.
#' @seealso [cut_populations()], [cutree_apriori()], [gcutree()], [plot_tree()]
#'
#' @examples
#' cells <- as.matrix(lymphocytes()[1:14])
#' h <- ghclust(cells, "ward.D2")
#' top <- cutree_top(h, 20)
#' plot(top, labels = top$members)
#' @export
cutree_top <- function(h, k) {
  call <- match.call()
  check_tree(h, "h", call)
  n <- nrow(h$merge) + 1L
  if (!is_single_number(k) || k < 2 || k > n || k != round(k)) {
    refuse("k", paste("is", describe(k)), paste("it must be one whole number from 2 to", n), call)
  }
  k <- as.integer(k)
  top_of(h, cut_once(h$merge, k, call), k, call)
}

# The cluster of each leaf, of k clusters.
cut_once <- function(merge, k, call) {
  run_job(job_cut_tree(as_integers(merge), k), FALSE, "Cutting the tree", call)
}

# The top of k leaves, given the `cluster` of each leaf of `h`, as of cut_once().
top_of <- function(h, cluster, k, call) {
  inner <- length(cluster) - k
  top_tree(h, inner, list(
    labels = as.character(seq_len(k)),
    of_observation = cluster,
    of_id = c(rev(cluster), NA, cluster[some_leaf(h$merge, inner)])
  ), call)
}

# Some observation in each of the first `inner` merges that a later merge joins; NA for the others.
some_leaf <- function(merge, inner) {
  leaf <- rep(NA_integer_, inner)
  cut_off <- merge[seq_len(nrow(merge)) > inner, ]
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

# The tree `h` without its first `inner` merges. `leaves` is a list of the `labels` of the leaves of
# the result, the leaf `of_observation`, and the leaf `of_id`: element id + n + 1 is the leaf of
# `id` in `h$merge`, as far as the other merges refer to it.
top_tree <- function(h, inner, leaves, call) {
  n <- nrow(h$merge) + 1L
  kept <- seq_len(n - 1L) > inner
  above <- h$merge[kept, , drop = FALSE]
  merge <- ifelse(above > inner, above - inner, -leaves$of_id[above + n + 1L])
  merge <- sort_merge_rows(matrix(as.integer(merge), ncol = 2))
  top <- new_hclust(
    merge, h$height[kept], leaf_order(merge, call), labels = leaves$labels, method = h$method,
    call = h$call, dist_method = h$dist.method, settings = h$settings
  )
  if (is.list(top$settings)) top$settings$inversions <- count_inversions(top$height)
  of_observation <- leaves$of_observation
  top$members <- as.vector(rowsum(leaf_members(h), of_observation))
  top$leaf <- if (is.null(h$leaf)) {
    stats::setNames(of_observation, h$labels)
  } else {
    stats::setNames(of_observation[h$leaf], names(h$leaf))
  }
  top
}
