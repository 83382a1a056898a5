#' Cuts off what lies within apriori clusters
#'
#' The part of a tree above its apriori clusters: a tree whose leaves are the apriori clusters and
#' the observations that are in none. It is small enough to plot, whatever the number of
#' observations.
#'
#' @param h Result of [gmhclust()] with apriori clusters.
#'
#' @return An object of class [`hclust`][stats::hclust]. Its leaves are the apriori clusters in
#'   increasing label order, then the loose observations in increasing index.
#'   \describe{
#'     \item{`labels`}{for apriori clusters, their label; for loose observations their row name or,
#'       where there are none, `"obs "` and the row number.}
#'     \item{`members`}{integer vector: how many observations each leaf holds.}
#'   }
#'   The other components are as in `h`, without `apriori`, `n.height.apriori`, `g.labels` and
#'   `backend`.
#' @section Errors:
#' A condition of class `gmhclust_error_input` when `h` is not a tree, or has no apriori part: also
#' where the labels given to [gmhclust()] amounted to no apriori clusters.
#' @seealso [gmhclust()]
#'
#' @examples
#' X <- as.matrix(lymphocytes()[seq(1, 20000, by = 20), 1:14])
#' h <- suppressWarnings(gmhclust(X, threshold = 50, apriori = kmeans(X, 25)$cluster))
#' top <- cutree_apriori(h)
#' plot(top)
#' table(cutree(top, k = 5))
#' @export
cutree_apriori <- function(h) {
  call <- match.call()
  check_tree(h, "h", call)
  check_apriori_part(h, call)
  n <- nrow(h$merge) + 1L
  inner <- seq_len(h$n.height.apriori)
  within <- h$merge[inner, , drop = FALSE]
  above <- h$merge[-inner, , drop = FALSE]

  roots <- setdiff(inner, within)
  roots <- roots[order(h$g.labels[roots], method = "radix")]
  loose <- setdiff(seq_len(n), -within)

  # Leaf numbers of apriori roots and loose observations, then the ids of the merges above them.
  leaf <- c(roots, -loose)
  renamed <- match(above, leaf)
  merge <- ifelse(is.na(renamed), above - length(inner), -renamed)
  merge <- sort_merge_rows(matrix(as.integer(merge), ncol = 2))

  top <- new_hclust(
    merge, h$height[-inner], leaf_order(merge),
    labels = c(as.character(h$g.labels[roots]), loose_labels(h$labels, loose)),
    method = h$method, call = h$call
  )
  top$members <- c(merge_sizes(within)[roots], rep(1L, length(loose)))
  top
}

check_apriori_part <- function(h, call) {
  inner <- h$n.height.apriori
  if (is.null(inner)) {
    needs <- "it must be a result of gmhclust() with apriori clusters"
    refuse("h", "has no part within apriori clusters", needs, call)
  }
  if (!is_single_number(inner) || inner < 1 || inner >= length(h$height) ||
        length(h$g.labels) != inner) {
    needs <- "they must count and label the merges within apriori clusters"
    refuse("h", "has components `n.height.apriori` and `g.labels` that do not fit", needs, call)
  }
}

loose_labels <- function(labels, loose) {
  if (is.null(labels)) paste("obs", loose)[seq_along(loose)] else labels[loose]
}
