#' Tree above apriori clusters
#'
#' Cuts off the merges within apriori clusters. The remaining tree has a leaf for each apriori
#' cluster, and for each observation in no apriori cluster. It is small enough to plot, even for
#' millions of observations.
#'
#' @param tree A result of [gmhclust()] with apriori clusters.
#'
#' @return An object of class `"hclust"`. Its first leaves are the apriori clusters,
#'   including those with one member, in increasing order of labels. Then follow the loose
#'   observations, which have the label 0 or `NA`, in the order of their rows. Components:
#'   \describe{
#'     \item{`labels`}{the label of an apriori cluster, as text; the row name of a loose observation
#'       or, without row names, `"obs "` and the row number.}
#'     \item{`leaf`}{integer vector: the number of the leaf of each observation, with row names if
#'       `x` has them. `gcutree(top, k)[top$leaf]` is the cluster of every observation.}
#'     \item{`members`}{integer vector: the number of observations in each leaf.}
#'   }
#'   Components `merge`, `height` and `order` describe the remaining merges, and
#'   `settings$inversions` counts their inversions. The other components are as in `tree`, without
#'   `apriori`, `n.height.apriori`, `g.labels` and `backend`.
#' @section Errors:
#' A condition of class `gmhclust_error_input` if `tree` is not a tree; if it has no apriori
#' clusters, for example because no two observations shared a label; or if its components `apriori`,
#' `n.height.apriori` and `g.labels` were changed and do not fit the merges.
#' @seealso [cutree_top()] for the top of any tree; [gmhclust()], [gcutree()]
#'
#' @examples
#' x <- as.matrix(lymphocytes()[seq(1, 20000, by = 20), 1:14])
#' tree <- gmhclust(x, threshold = 50, apriori = kmeans(x, 25)$cluster)
#' top <- cutree_apriori(tree)
#' plot(top)
#' population <- gcutree(top, k = 5)[top$leaf]
#' table(population)
#'
#' # A row for each leaf, in the order of the leaves:
#' centres <- rowsum(x, tree$apriori) / as.vector(table(tree$apriori))
#' heatmap(centres[top$labels, ], Rowv = as.dendrogram(top), scale = "none")
#' @export
cutree_apriori <- function(tree) {
  call <- match.call()
  check_tree(tree, "tree", call)
  leaves <- apriori_leaves(tree, call)
  top_tree(tree, length(tree$g.labels), leaves, call)
}

# The leaves of the tree above the apriori clusters, a list for top_tree(): their `labels`;
# `of_observation`, the leaf of each observation; and `of_merge`, the leaf of each merge within
# apriori clusters.
apriori_leaves <- function(tree, call) {
  check_apriori_part(tree, "tree", call)
  coded <- label_codes(tree$apriori)
  labels <- coded$labels
  leaf <- coded$codes
  loose <- which(leaf == 0L)
  leaf[loose] <- length(labels) + seq_along(loose)
  of_merge <- codes_of(tree$g.labels, labels)

  # Every leaf is exactly one cluster if all merges join clusters of their own label, and the number
  # of remaining clusters is the number of leaves.
  count <- length(labels) + length(loose)
  fits <- length(leaf) - length(of_merge) == count && !any(of_merge == 0L) && run_job(
    job_joins_own(as_integers(tree$merge), leaf, of_merge), FALSE, "Cutting the tree", call
  )
  if (!fits) refuse_apriori_part("tree", call)
  list(
    labels = c(label_text(labels), loose_labels(tree$labels, loose)), of_observation = leaf,
    of_merge = of_merge
  )
}

check_apriori_part <- function(tree, arg, call) {
  inner <- tree$n.height.apriori
  if (is.null(inner)) {
    needs <- "it must be a result of gmhclust() with apriori clusters"
    refuse(arg, "has no part within apriori clusters", needs, call)
  }
  fits <- is_single_number(inner) && inner >= 1 && inner < length(tree$height) &&
    length(tree$g.labels) == inner && is.atomic(tree$apriori) &&
    length(tree$apriori) == length(tree$height) + 1
  if (!fits) refuse_apriori_part(arg, call)
}

refuse_apriori_part <- function(arg, call) {
  got <- "has components `apriori`, `n.height.apriori` and `g.labels` that do not fit"
  needs <- "they must label the observations, and count and label the merges within these labels"
  refuse(arg, got, needs, call)
}

loose_labels <- function(labels, loose) {
  if (is.null(labels)) paste("obs", loose)[seq_along(loose)] else labels[loose]
}
