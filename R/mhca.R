#' Functions with the names of package mhca
#'
#' For code written for package \pkg{mhca}, after `library(mhca)` is changed to `library(gmhclust)`:
#' functions with mhca's names, arguments and results. For new code, prefer [cutree_apriori()],
#' [make_monotone()] and [check_hclust()].
#'
#' @param h,hca An object of class [`hclust`][stats::hclust].
#' @param verb `checkHca()`: whether to print the problems. Otherwise not used.
#' @param dbg Not used.
#' @param method The new values of heights below an earlier one: `"eps"`, the highest earlier height
#'   plus `eps`; `"halfway"`, evenly spaced values between the highest earlier height and the next
#'   height that is not below it; if there is none, steps of the size of the last increase, or of 1
#'   if only one height comes before.
#' @param eps The step of method `"eps"`. `NULL` means half of the smallest positive difference of
#'   successive heights, or 1 if no difference is positive.
#' @param merge Component `merge` of a tree.
#'
#' @return
#' * `cutreeApriori()`: the tree above the apriori clusters. Its labels are the labels of the
#'   apriori clusters, and it has no components that describe the merges within them. Without
#'   apriori clusters, `h` itself. Observations in no apriori cluster have label `"0"` or `"NA"`, as
#'   given.
#' * `fixNonMonotHca()`: the tree with heights that never decrease.
#' * `checkHca()`: `TRUE` or `FALSE`.
#' * `computeLeafOrder()`: the position of each leaf from left to right, as in mhca: element i is
#'   the position of leaf i, so component `order` of a tree is `order(computeLeafOrder(merge))`.
#' @section Errors:
#' A condition of class `gmhclust_error_input` if `hca`, `merge`, or `h` of `cutreeApriori()` is not
#' a valid tree. `checkHca()` returns `FALSE` for an invalid tree.
#' @seealso [mhclust()]
#' @name mhca
#' @examples
#' x <- as.matrix(lymphocytes()[seq(1, 20000, by = 100), 1:6])
#' tree <- mhclust(x, thresh = 0.1, g = kmeans(x, 10)$cluster, warn = FALSE)
#' top <- fixNonMonotHca(cutreeApriori(tree))
#' checkHca(top, verb = FALSE)
#' plot(top)
NULL

# nolint start: object_name_linter. The names are mhca's.

#' @rdname mhca
#' @export
cutreeApriori <- function(h, verb = 0) {
  call <- match.call()
  check_tree(h, "h", call)
  inner <- h$n.height.apriori
  if (is.null(inner) || isTRUE(inner == 0)) return(h)
  check_apriori_part(h, "h", call)
  above <- h$merge[-seq_len(inner), , drop = FALSE]
  # The leaves are the clusters that these merges refer to, by increasing number.
  leaves <- sort(above[above <= inner])
  h$labels <- as.character(ifelse(
    leaves > 0, label_text(h$g.labels)[pmax(leaves, 1)], label_text(h$apriori)[pmax(-leaves, 1)]
  ))
  h$labels[is.na(h$labels)] <- "NA"
  merge <- ifelse(above > inner, above - inner, -match(above, leaves))
  h$merge <- matrix(as.integer(merge), ncol = 2)
  h$height <- h$height[-seq_len(inner)]
  h$order <- leaf_order(h$merge, call)
  h$n.height.apriori <- h$g.labels <- NULL
  h
}

#' @rdname mhca
#' @export
fixNonMonotHca <- function(hca, method = c("eps", "halfway"), eps = NULL) {
  call <- match.call()
  check_tree(hca, "hca", call)
  method <- check_choice(method, c("eps", "halfway"), "method", call)
  if (!is.null(eps) && !(is_single_number(eps) && eps > 0)) {
    refuse("eps", paste("is", describe(eps)), "it must be a positive number, or NULL", call)
  }
  height <- if (method == "eps") {
    steps <- diff(hca$height)
    if (is.null(eps)) eps <- if (any(steps > 0)) min(steps[steps > 0]) / 2 else 1
    raise_heights(hca$height, eps, FALSE)
  } else {
    spaced_heights(hca$height)
  }
  replace_heights(hca, height)
}

# Heights in which each run below an earlier height is replaced by even steps up to the next height
# that is not below it.
spaced_heights <- function(height) {
  n <- length(height)
  i <- 2L
  while (i <= n) {
    if (height[i] < height[i - 1]) {
      highest <- height[i - 1]
      end <- i + 1L
      while (end <= n && height[end] < highest) end <- end + 1L
      step <- if (end <= n) {
        (height[end] - highest) / (end - i + 1)
      } else if (i > 2) {
        highest - height[i - 2]
      } else {
        1
      }
      run <- seq.int(i, end - 1L)
      height[run] <- highest + step * seq_along(run)
      i <- end
    }
    i <- i + 1L
  }
  height
}

#' @rdname mhca
#' @export
checkHca <- function(h, verb = TRUE, dbg = 0) {
  if (missing(h)) refuse_missing("h", needs_tree, match.call())
  problems <- check_hclust(h)
  is_valid <- isTRUE(problems)
  if (isTRUE(as.logical(verb))) cat(if (is_valid) "the tree is valid" else problems, sep = "\n")
  is_valid
}

#' @rdname mhca
#' @export
computeLeafOrder <- function(merge, verb = 0) {
  call <- match.call()
  if (missing(merge)) refuse_missing("merge", "it must be component `merge` of a tree", call)
  problems <- matrix_problem(merge)
  if (is.null(problems)) problems <- merge_problems(tree_faults(merge, integer(0)))
  if (length(problems) > 0) {
    refuse("merge", paste("is not the merge matrix of a tree:", problems[1]), "see check_hclust()",
           call)
  }
  order(leaf_order(merge, call))
}
# nolint end
