#' Check that a tree is valid
#'
#' Checks an object of class `hclust` from any source. In a valid tree, every observation and every
#' cluster but the last is merged exactly once, after it was formed; heights are finite; `order` is
#' a permutation of the leaves without crossing branches; and the lengths of all components agree.
#'
#' Decreasing heights are valid, because some linkages have inversions; see [make_monotone()]. The
#' time is proportional to the number of observations.
#'
#' @param h An object of class [`hclust`][stats::hclust].
#'
#' @return `TRUE`, or a character vector with one element per problem, as from [all.equal()]. Use
#'   `isTRUE(check_hclust(h))` in conditions.
#' @seealso [gmhclust()], [stats::hclust()]
#'
#' @examples
#' h <- hclust(dist(USArrests))
#' check_hclust(h)
#'
#' h$order <- rev(h$order)
#' check_hclust(h) # mirrored is fine
#'
#' h$order <- sort(h$order)
#' check_hclust(h)
#' @export
check_hclust <- function(h) {
  if (!is_tree(h)) return(paste("not an object of class \"hclust\" but", describe(h)))
  problems <- hclust_problems(h)
  if (length(problems) == 0) TRUE else problems
}
