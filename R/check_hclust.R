#' Check that a tree is valid
#'
#' Checks an object of class `hclust` from any source. In a valid tree, every observation, and every
#' cluster except the last, is merged exactly once, and a cluster is merged only after it was
#' formed; heights are finite; `order` is a permutation of the leaves without crossing branches; and
#' the lengths of all components agree.
#'
#' Decreasing heights are valid, because some linkages have inversions; see [make_monotone()]. The
#' time is proportional to the number of observations.
#'
#' @param tree An object of class [`hclust`][stats::hclust].
#'
#' @return `TRUE`, or a character vector with one element per problem, as from [all.equal()]. Use
#'   `isTRUE(check_hclust(tree))` in conditions.
#' @seealso [gmhclust()], [stats::hclust()]
#'
#' @examples
#' tree <- hclust(dist(USArrests))
#' check_hclust(tree)
#'
#' tree$order <- rev(tree$order)
#' check_hclust(tree) # mirrored is fine
#'
#' tree$order <- sort(tree$order)
#' check_hclust(tree)
#' @export
check_hclust <- function(tree) {
  if (missing(tree)) refuse_missing("tree", needs_tree, match.call())
  if (!is_tree(tree)) return(paste("not an object of class \"hclust\" but", describe(tree)))
  problems <- hclust_problems(tree)
  if (length(problems) == 0) TRUE else problems
}
