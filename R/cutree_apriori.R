#' Cuts off what lies within apriori clusters
#'
#' The part of a tree above its apriori clusters: a tree whose leaves are the apriori clusters and
#' the observations that are in none. It is small enough to plot, whatever the number of
#' observations.
#'
#' @param h Result of [gmhclust()] with apriori clusters.
#'
#' @return An object of class [`hclust`][stats::hclust]. Its leaves are the apriori clusters in
#'   increasing label order, those with one member among them, then the loose observations, those
#'   labelled 0 or `NA`, in increasing index.
#'   \describe{
#'     \item{`labels`}{for apriori clusters, their label, as text; for loose observations their row
#'       name or, where there are none, `"obs "` and the row number.}
#'     \item{`leaf`}{integer vector: for each observation, the number of the leaf that holds it;
#'       named by row names where there are some. `gcutree(top, k)[top$leaf]` is a cluster for every
#'       observation.}
#'     \item{`members`}{integer vector: how many observations each leaf holds.}
#'   }
#'   The other components are as in `h`, without `apriori`, `n.height.apriori`, `g.labels` and
#'   `backend`.
#' @section Errors:
#' A condition of class `gmhclust_error_input` when `h` is not a tree, or has no apriori part, as
#' where the labels given to [gmhclust()] amounted to no apriori clusters. Also when its components
#' `apriori`, `n.height.apriori` and `g.labels` were changed so that they do not fit the merges.
#' @seealso [gmhclust()], [gcutree()]
#'
#' @examples
#' X <- as.matrix(lymphocytes()[seq(1, 20000, by = 20), 1:14])
#' h <- suppressWarnings(gmhclust(X, threshold = 50, apriori = kmeans(X, 25)$cluster))
#' top <- cutree_apriori(h)
#' plot(top)
#' population <- gcutree(top, k = 5)[top$leaf]
#' table(population)
#'
#' # A row for each leaf, in the order of the leaves:
#' centres <- rowsum(X, h$apriori) / as.vector(table(h$apriori))
#' heatmap(centres[top$labels, ], Rowv = as.dendrogram(top), scale = "none")
#' @export
cutree_apriori <- function(h) {
  call <- match.call()
  check_tree(h, "h", call)
  leaves <- apriori_leaves(h, call)
  n <- nrow(h$merge) + 1L
  inner <- seq_along(h$g.labels)
  above <- h$merge[-inner, , drop = FALSE]

  leaf <- leaves$of_id[above + n + 1L]
  merge <- ifelse(above > length(inner), above - length(inner), -leaf)
  merge <- sort_merge_rows(matrix(as.integer(merge), ncol = 2))
  top <- new_hclust(
    merge, h$height[-inner], leaf_order(merge, call), labels = leaves$labels, method = h$method,
    call = h$call
  )
  top$leaf <- stats::setNames(leaves$of_observation, h$labels)
  top$members <- tabulate(leaves$of_observation, length(leaves$labels))
  top
}

# The leaves of the part above the apriori clusters: their labels, the leaf of each observation, and
# the leaf of each id in `h$merge` up to the last merge within apriori clusters, at id + n + 1.
apriori_leaves <- function(h, call) {
  check_apriori_part(h, call)
  labels <- label_values(h$apriori)
  leaf <- match(h$apriori, labels)
  loose <- which(is.na(leaf))
  leaf[loose] <- length(labels) + seq_along(loose)
  leaf_of_merge <- match(h$g.labels, labels)

  n <- length(leaf)
  of_id <- c(rev(leaf), NA, leaf_of_merge)
  joined <- of_id[h$merge[seq_along(leaf_of_merge), ] + n + 1L]
  # Where merges join only what has their own label, and as many clusters are left as there are
  # leaves, every leaf is one cluster.
  joins_own <- all(joined == leaf_of_merge)
  count <- length(labels) + length(loose)
  if (!isTRUE(joins_own) || n - length(leaf_of_merge) != count) refuse_apriori_part(call)
  list(
    labels = c(as.character(labels), loose_labels(h$labels, loose)), of_observation = leaf,
    of_id = of_id
  )
}

check_apriori_part <- function(h, call) {
  inner <- h$n.height.apriori
  if (is.null(inner)) {
    needs <- "it must be a result of gmhclust() with apriori clusters"
    refuse("h", "has no part within apriori clusters", needs, call)
  }
  fits <- is_single_number(inner) && inner >= 1 && inner < length(h$height) &&
    length(h$g.labels) == inner && is.atomic(h$apriori) &&
    length(h$apriori) == length(h$height) + 1
  if (!fits) refuse_apriori_part(call)
}

refuse_apriori_part <- function(call) {
  got <- "has components `apriori`, `n.height.apriori` and `g.labels` that do not fit"
  needs <- "they must label the observations, and count and label the merges within these labels"
  refuse("h", got, needs, call)
}

loose_labels <- function(labels, loose) {
  if (is.null(labels)) paste("obs", loose)[seq_along(loose)] else labels[loose]
}
