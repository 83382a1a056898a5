#' Says what is wrong with a tree
#'
#' Checks that an object of class `hclust`, of whatever origin, is sound: every observation and
#' every cluster but the last is merged exactly once and only after it came to be; heights are
#' finite; `order` is a permutation of the leaves without crossing branches; lengths agree.
#'
#' Heights that decrease are no defect: some linkages have inversions. See [make_monotone()].
#' The check takes time proportional to the number of observations.
#'
#' @param h An object of class [`hclust`][stats::hclust].
#'
#' @return As [all.equal()] does: `TRUE`, or a character vector that says what is wrong, one problem
#'   an element. Use `isTRUE(check_hclust(h))` for a yes or no.
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
