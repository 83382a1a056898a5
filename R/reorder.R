#' Order the leaves of a tree
#'
#' Flips the branches of a tree, so that neighbouring leaves are close to each other (optimal leaf
#' ordering), or so that leaves of low weight come first. The clusters and their heights stay the
#' same.
#'
#' @param x A tree, an object of class [`hclust`][stats::hclust], with or without inversions.
#' @param wts The distances of the leaves, as an object of class `dist` or a symmetric matrix, for
#'   optimal leaf ordering; or a weight for each leaf, by its number, not by its place in the order.
#'   All values must be finite.
#' @param agglo.FUN The weight of a cluster, from the weights of its two parts: `"sum"`, `"mean"`
#'   (of all leaves), `"uwmean"` (of both parts), `"min"`, `"max"`, or a function of a vector of two
#'   weights. Not used with distances.
#' @param threads The number of CPU threads. `NULL` means the default, see [gmhclust()]. The result
#'   does not depend on it.
#' @param progress Whether to show progress and the time left, see [gmhclust()].
#' @param ... Must be empty: further arguments are an error.
#'
#' @details
#' **With distances**, the sum of the distances between neighbouring leaves is the least that any
#' flips of branches give (Bar-Joseph, Gifford and Jaakkola 2001). The distances need not be those
#' of the tree: any distances of its leaves will do, for example between the medians of populations.
#' For a tree of n leaves, it takes time up to n^3, n^2 for a tree like a chain
#' (`inst/benchmarks/trees.R`), and 10 n^2 bytes of memory in addition to the distances. The best
#' order is not unique: its reverse has the same sum. The branches of the last merge keep their
#' sides. Where several orders have the least sum, leaves that come first in `x$order` are
#' preferred: at the ends of the last merge first, and then, from the last merge to the first, where
#' two branches meet.
#'
#' **With weights**, the branch of lower weight is on the left at each merge, and branches of equal
#' weight keep their sides. This is the order of [stats::reorder.dendrogram()], whose `agglo.FUN` is
#' a function. The names of functions are those of package \pkg{vegan}, whose default is `"mean"`.
#'
#' Packages \pkg{vegan} and \pkg{seriation} have methods for trees, too, and R calls the method of
#' the package that was loaded last. `gmhclust::reorder.hclust(tree, d)` always calls this one.
#'
#' @return The tree with another `order`. The two columns of `merge` are exchanged where branches
#'   are flipped, so that `as.dendrogram()` gives the same order. All other components are
#'   unchanged.
#' @section Errors:
#' A condition of class `gmhclust_error_input` if `x` is not a valid tree or another argument is
#' invalid, and of class `gmhclust_error_memory` if there is too little memory.
#' @references
#' Bar-Joseph Z, Gifford DK, Jaakkola TS (2001). Fast optimal leaf ordering for hierarchical
#' clustering. *Bioinformatics* 17(suppl. 1), S22-S29.
#' \doi{10.1093/bioinformatics/17.suppl_1.S22}
#' @seealso [plot_populations()] orders populations in this way; [cutree_top()],
#'   [stats::reorder.dendrogram()].
#' @examples
#' d <- dist(USArrests)
#' tree <- hclust(d, "average")
#' neighbours <- function(tree) {
#'   sum(as.matrix(d)[cbind(head(tree$order, -1), tail(tree$order, -1))])
#' }
#' c(before = neighbours(tree), after = neighbours(reorder(tree, d)))
#'
#' # States with fewer arrests for murder to the left:
#' plot(reorder(tree, USArrests$Murder, "mean"))
#' @importFrom stats reorder
#' @export
#' @export reorder.hclust
reorder.hclust <- function(x,
                           wts,
                           agglo.FUN = "sum", # nolint: object_name_linter.
                           threads = getOption("gmhclust.threads"),
                           progress = getOption("gmhclust.progress", interactive()),
                           ...) {
  call <- match.call()
  check_tree(x, "x", call)
  if (missing(wts)) refuse_missing("wts", needs_weights(length(x$order)), call)
  combine <- check_combination(agglo.FUN, "agglo.FUN", call)
  threads <- check_threads(threads, call)
  progress <- check_progress(progress, call)
  if (...length() > 0) {
    refuse("...", "has arguments", "this method has no more: see ?reorder.hclust", call)
  }
  x$merge <- merge_in_order(x$merge, x$order, call)
  if (inherits(wts, "dist") || is.matrix(wts)) {
    distances <- leaf_distances(wts, x$labels, length(x$order), "wts", call)
    x$order <- optimal_order(x$merge, distances, threads, progress, call)
    x$merge <- merge_in_order(x$merge, x$order, call)
  } else {
    weights <- leaf_weights(wts, x$labels, length(x$order), "wts", call)
    x$merge <- merge_by_weight(x$merge, weights, combine)
    x$order <- leaf_order(x$merge, call)
  }
  x
}

needs_weights <- function(n) {
  paste("it must be the distances of the", n, "leaves, or a number for each of them")
}

# The function that gives the weight of a cluster from c(weight, weight) and c(count, count) of its
# two parts.
check_combination <- function(combination, arg, call) {
  if (is.function(combination)) {
    return(function(weights, counts) {
      weight <- naming_argument(arg, combination(weights), call)
      if (!is.numeric(weight) || length(weight) != 1 || is.na(weight)) {
        refuse(arg, paste("returned", describe(weight)), "it must return one number", call)
      }
      weight
    })
  }
  combinations <- list(
    sum = function(weights, counts) sum(weights),
    mean = function(weights, counts) sum(weights * counts) / sum(counts),
    uwmean = function(weights, counts) sum(weights) / 2,
    min = function(weights, counts) min(weights),
    max = function(weights, counts) max(weights)
  )
  is_name <- is.character(combination) && length(combination) == 1 &&
    combination %in% names(combinations)
  if (!is_name) {
    needs <- paste("it must be a function, or one of",
                   paste(dQuote(names(combinations), FALSE), collapse = ", "))
    refuse(arg, paste("is", describe(combination)), needs, call)
  }
  combinations[[combination]]
}

# The distances of all pairs of n leaves with these labels, in the order of a dist object.
leaf_distances <- function(distances, labels, n, arg, call) {
  needs <- needs_weights(n)
  if (inherits(distances, "dist")) {
    check_row_order(attr(distances, "Labels"), labels, arg, call)
    size <- dist_size(distances)
    if (!identical(size, as.integer(n)) || length(distances) != n * (n - 1) / 2) {
      if (is.na(size)) refuse(arg, "is no valid \"dist\" object", needs, call)
      refuse(arg, paste("has the distances of", size, "observations"), needs, call)
    }
    values <- as.vector(as_doubles(unclass(distances)))
  } else {
    if (!is_numeric_type(distances) || any(dim(distances) != n)) {
      refuse(arg, paste("is", describe(distances)), needs, call)
    }
    check_row_order(rownames(distances), labels, arg, call)
    check_row_order(colnames(distances), labels, arg, call)
    distances <- matrix(as.double(distances), n)
    if (!isSymmetric(distances)) refuse(arg, "is not symmetric", needs, call)
    values <- distances[lower.tri(distances)]
  }
  if (!all(is.finite(values))) {
    refuse(arg, paste("has", values[!is.finite(values)][1]), "distances must be finite", call)
  }
  values
}

leaf_weights <- function(weights, labels, n, arg, call) {
  needs <- needs_weights(n)
  if (!is_number_vector(weights)) refuse(arg, paste("is", describe(weights)), needs, call)
  if (length(weights) != n) refuse(arg, paste("has length", length(weights)), needs, call)
  check_row_order(names(weights), labels, arg, call)
  weights <- as.double(weights)
  if (!all(is.finite(weights))) {
    refuse(arg, paste("has", weights[!is.finite(weights)][1]), "weights must be finite", call)
  }
  weights
}

# The leaves in the order of the least sum of distances between neighbours, given the `distances` of
# leaf_distances(). `merge` has the left branches in its first column.
optimal_order <- function(merge, distances, threads, progress, call) {
  run_job(
    job_optimal_order(as_integers(merge), distances, threads), progress, "Ordering the leaves",
    call
  )
}

# `merge` with the branch that is on the left in `order` in its first column.
merge_in_order <- function(merge, order, call) {
  joined <- joined_nodes(merge)
  place <- node_places(merge, order, call)$first
  flipped(merge, place[joined[, 1]] > place[joined[, 2]])
}

# `merge` with the branch of lower weight in its first column.
merge_by_weight <- function(merge, weights, combine) {
  n <- length(weights)
  weight <- c(weights, numeric(n - 1L))
  count <- c(rep(1, n), numeric(n - 1L))
  joined <- joined_nodes(merge)
  is_flipped <- logical(n - 1L)
  for (j in seq_len(n - 1L)) {
    parts <- joined[j, ]
    is_flipped[j] <- weight[parts[1]] > weight[parts[2]]
    if (is_flipped[j]) parts <- parts[2:1]
    weight[n + j] <- combine(weight[parts], count[parts])
    count[n + j] <- sum(count[parts])
  }
  flipped(merge, is_flipped)
}

flipped <- function(merge, rows) {
  merge[rows, ] <- merge[rows, 2:1]
  merge
}
