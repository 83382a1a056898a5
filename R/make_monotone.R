#' Remove inversions from a tree
#'
#' Raises every height that is below an earlier one, so that heights never decrease. Functions that
#' need increasing heights, such as `gcutree(tree, h = )`, accept the result. Merges, their order
#' and all other heights stay the same.
#'
#' In a tree with apriori clusters, the merges within apriori clusters come first, and may be higher
#' than the first merges above. To see the upper part only, call [cutree_apriori()] before
#' `make_monotone()`.
#'
#' @param tree An object of class [`hclust`][stats::hclust].
#' @param method The new value of a height that is below an earlier one: `"eps"`, the highest
#'   earlier height plus `eps`; `"halfway"`, the mean of the highest earlier height and the next
#'   greater height (if no greater height follows, as with `"eps"`).
#' @param eps A positive number, in units of height. `NULL` means a number that is small enough to
#'   keep raised heights below the next greater height, as far as double precision allows.
#'
#' @return `tree` with non-decreasing heights.
#' @section Errors:
#' A condition of class `gmhclust_error_input` if `tree` is not a valid tree, `method` is unknown,
#' or `eps` is not one positive number.
#' @seealso [gmhclust()], [gcutree()], [check_hclust()]
#'
#' @examples
#' tree <- hclust(dist(USArrests), method = "centroid")
#' is.unsorted(tree$height)
#' m <- make_monotone(tree)
#' table(gcutree(m, h = 40))
#' plot(make_monotone(tree, "halfway"))
#' @export
make_monotone <- function(tree, method = c("eps", "halfway"), eps = NULL) {
  call <- match.call()
  check_tree(tree, "tree", call)
  method <- check_choice(method, c("eps", "halfway"), "method", call)
  if (is.null(eps)) {
    eps <- default_step(tree$height)
  } else if (!is_single_number(eps) || eps <= 0) {
    refuse("eps", paste("is", describe(eps)), "it must be one positive number, or NULL", call)
  }
  raised <- raise_heights(tree$height, eps, method == "halfway")
  if (!all(is.finite(raised))) {
    got <- paste("is", format(eps), "for heights up to", format(max(tree$height)))
    refuse("eps", got, "the sum overflows: use a smaller one, or rescale the heights", call)
  }
  replace_heights(tree, raised)
}

# A tree with other heights, and the number of heights below an earlier one in its settings, if it
# has settings.
replace_heights <- function(tree, height) {
  tree$height <- height
  if (!is.null(tree$settings$inversions)) tree$settings$inversions <- count_inversions(height)
  tree
}

# The default of `eps`: smaller than every gap between two heights divided by the number of heights,
# but large enough to change a height.
default_step <- function(height) {
  resolution <- 4 * .Machine$double.eps * max(abs(height))
  gaps <- diff(sort(unique(height)))
  max(resolution, min(gaps, Inf)[length(gaps) > 0] / (length(height) + 1))
}

raise_heights <- function(height, eps, halfway) {
  highest <- height[1]
  ceiling_at <- 1L
  for (i in seq_along(height)) {
    if (height[i] < highest) {
      # All heights before the next greater one are lower, so one search serves all of them.
      if (halfway && ceiling_at <= i) ceiling_at <- next_greater(height, i, highest)
      ceiling <- if (halfway) height[ceiling_at] else NA
      height[i] <- if (is.na(ceiling)) highest + eps else (highest + ceiling) / 2
    }
    highest <- height[i]
  }
  height
}

# The first position after `i` with a height above `level`; one past the end if there is none.
next_greater <- function(height, i, level) {
  j <- i + 1L
  while (j <= length(height) && height[j] <= level) j <- j + 1L
  j
}
