#' Cut a tree into populations of a minimum size
#'
#' Finds `k` clusters of at least `min_members` members each, and leaves out the outliers between
#' them. [gcutree()] counts every cell far from all others as one of its `k` clusters, so `k` must
#' be found by trial; `cut_populations()` does not count them.
#'
#' @param h An object of class [`hclust`][stats::hclust], with or without inversions. In the result
#'   of [cutree_top()] or [cutree_apriori()], component `members` counts.
#' @param k The number of populations. `NULL` chooses the most stable ones, see *Definition*.
#' @param min_members The least number of members of a population: a count if >= 1, a fraction of
#'   all members if below 1. `NULL` means 1% of all members, but at least 5. For rare populations
#'   choose a count somewhat below the size of the smallest one expected.
#' @param rest The cells outside of all populations: `"none"` gives them 0; `"nearest"` gives them
#'   the nearest population, which needs `X`.
#' @param X The observations of the tree: a numeric matrix or data frame with a row for each leaf,
#'   or another object that [observations()] takes. With it, the populations keep their means and
#'   covariances, by which [`predict()`][predict.populations] maps other cells to them.
#' @param ... Arguments of [observations()] for X.
#'
#' @section Definition:
#' Follow the tree from its top. A merge of two clusters is a *split* if both have at least
#' `min_members` members. Otherwise the smaller side falls off, and the larger side goes on as the
#' same population. This is the condensed tree of HDBSCAN (Campello et al. 2013).
#'
#' With `k`, the first `k` - 1 splits from the top, in the order of merges, are applied. A
#' population is everything on its side of its last split. So populations are clusters of the tree,
#' are nested for increasing `k`, and need no heights; inversions do not matter. If no cluster falls
#' apart into two small ones above the last split, they are the clusters of at least `min_members`
#' members of some `gcutree(h, K)`, together with their own outliers. Cells that fall off above a
#' population's last split are in no population.
#'
#' Without `k`, the populations are those of greatest total *mass*, the excess of mass of HDBSCAN:
#' the mass of a cluster is the sum, over its members, of log(b / l), where the cluster begins at
#' height b and the member leaves it at height l. HDBSCAN uses -1 / height in place of log(height),
#' which fits densities; the logarithm makes the result independent of the unit of X. A merge below
#' one of its own parts counts as high as this part, and heights of 0 as the lowest positive height.
#' This chooses at least two populations if there is a split. It is a suggestion: look at
#' [plot_populations()] and choose `k`. In particular, heights of [gmhclust()] change their unit
#' near the top unless `normalize = TRUE`.
#'
#' Dynamic tree cut (Langfelder et al. 2008) also has a minimum size, and assigns outliers to the
#' nearest cluster, but decides by heights, which must increase.
#'
#' With `rest = "nearest"`, a cell outside of all populations gets the population of least
#' Mahalanobis distance: that of the population's mean and covariance, without the outliers. See
#' [population_model()] for redundant columns and singular covariances.
#'
#' @section Time and memory:
#' Time and memory are proportional to the number of leaves: about 700 bytes for each. With `rest =
#' "nearest"`, each leaf that is in no population takes 8 bytes more for each column of X.
#'
#' @return An object of class `populations`: an integer vector with the number of the population of
#'   each leaf, 0 for none, named by the tree's labels if it has any. Populations are numbered by
#'   decreasing size. Attributes:
#'   \describe{
#'     \item{`sizes`, `rest`}{the number of members of each population, and of none.}
#'     \item{`k`, `min_members`}{the number of populations, and the minimum, as a count.}
#'     \item{`nearest`}{whether the rest was given the nearest population.}
#'     \item{`levels`}{the names of the populations: their numbers.}
#'     \item{`model`}{with `X`, what [population_model()] returns.}
#'     \item{`roots`}{the merge, a row of `h$merge`, that completes each population; for a single
#'       leaf its negative number.}
#'   }
#'   `print()` shows the sizes; `summary()` gives them, and the shares, as a data frame. Subsets,
#'   comparisons and `as.integer()` give plain vectors; `as.data.frame()` has a column `population`.
#' @section Errors:
#' A condition of class `gmhclust_error_input` if `h` is not a valid tree, if it has fewer than `k`
#' such populations, or if another argument is invalid.
#'
#' @references
#' Campello RJGB, Moulavi D, Sander J (2013). Density-based clustering based on hierarchical density
#' estimates. *Advances in Knowledge Discovery and Data Mining*, LNCS 7819, 160-172.
#' \doi{10.1007/978-3-642-37456-2_14}
#'
#' Langfelder P, Zhang B, Horvath S (2008). Defining clusters from a hierarchical cluster tree: the
#' Dynamic Tree Cut package for R. *Bioinformatics* 24(5), 719-720.
#' \doi{10.1093/bioinformatics/btm563}
#' @seealso [population_model()] for new cells; [plot_populations()] and [plot_tree()] for pictures;
#'   [gcutree()], [cutree_top()].
#'
#' @examples
#' X <- as.matrix(lymphocytes()[seq(1, 20000, by = 20), 1:14])
#' h <- gmhclust(X, threshold = 50)
#' sort(table(gcutree(h, k = 7)), decreasing = TRUE)
#'
#' population <- cut_populations(h, k = 7, min_members = 20)
#' population
#' aggregate(X, list(population = population), median)
#'
#' table(cut_populations(h, k = 7, min_members = 20, rest = "nearest", X = X))
#' @export
cut_populations <- function(h, k = NULL, min_members = NULL, rest = c("none", "nearest"),
                            X = NULL, # nolint: object_name_linter.
                            ...) {
  call <- match.call()
  if (is_tree(h)) {
    check_memory("finding populations in a tree needs", bytes_per_leaf * NROW(h$merge), call)
  }
  check_tree(h, "h", call)
  members <- leaf_members(h)
  least <- check_min_members(min_members, sum(members), call)
  rest <- check_choice(rest, c("none", "nearest"), "rest", call)
  x <- if (rest == "nearest" || !is.null(X)) {
    points_of_leaves(X, length(members), "X", call, ...)
  } else {
    check_no_more(h, ..., call = call)
  }
  nodes <- tree_nodes(h$merge, members)
  condensed <- condense(h, nodes, least)
  chosen <- if (is.null(k)) {
    stable_clusters(condensed)
  } else {
    top_clusters(condensed, check_population_count(k, condensed, least, call))
  }
  roots <- condensed$node[chosen]
  population <- leaves_below(nodes, roots)
  # By decreasing size, then by first leaf.
  by_size <- order(-nodes$size[roots], match(seq_along(roots), population))
  population <- match(population, by_size, nomatch = 0L)
  roots <- roots[by_size]
  levels <- as.character(seq_along(roots))
  model <- if (!is.null(x)) fit_populations(x, population, length(roots), levels, call)
  if (rest == "nearest") population <- with_nearest(x, population, model, call)
  new_populations(population, roots, members, least, rest == "nearest", h$labels, levels, model)
}

# Memory of cut_populations() for each leaf, measured by inst/benchmarks/memory.R.
bytes_per_leaf <- 700

new_populations <- function(population, roots, members, least, nearest, labels, levels, model) {
  n <- length(population)
  sums <- rowsum(as.double(members), population)
  sizes <- numeric(length(roots) + 1)
  sizes[as.integer(rownames(sums)) + 1L] <- sums
  structure(
    class = "populations", population, names = labels, sizes = sizes[-1], k = length(roots),
    min_members = least, rest = sizes[1],
    nearest = nearest, roots = ifelse(roots > n, roots - n, -roots), levels = levels, model = model
  )
}

check_min_members <- function(min_members, total, call) {
  if (is.null(min_members)) return(min(max(5, total / 100), total))
  least <- threshold_members(min_members, total, "min_members", call)
  if (least > total) {
    refuse("min_members", paste("is", format(min_members)),
           paste("the tree has only", total, "members"), call)
  }
  least
}

check_population_count <- function(k, condensed, least, call) {
  count <- (length(condensed$node) + 1L) %/% 2L
  if (!is_single_number(k) || k < 1 || k != round(k)) {
    refuse("k", paste("is", describe(k)), "it must be one whole number, or NULL", call)
  }
  if (k > count) {
    needs <- paste0(
      "the tree has only ", count, ngettext(count, " population", " populations"), " of at least ",
      shown_count(least), " members (see `min_members`)"
    )
    refuse("k", paste("is", k), needs, call)
  }
  as.integer(k)
}

# The data matrix of a tree of n leaves.
points_of_leaves <- function(x, n, arg, call, ...) {
  x <- as_observations(x, arg, call, ...)
  if (nrow(x) != n) {
    refuse(arg, paste("has", nrow(x), "rows"), paste("the tree has", n, "leaves"), call)
  }
  x
}

#' @export
print.populations <- function(x, ...) {
  sizes <- attr(x, "sizes")
  k <- attr(x, "k")
  is_number <- function(value) is_single_number(value) && !is.object(value)
  least <- attr(x, "min_members")
  is_sound <- is.numeric(sizes) && !is.object(sizes) && all(is.finite(sizes)) && is_number(k) &&
    length(sizes) == k && is_number(attr(x, "rest")) && (is.null(least) || is_number(least))
  if (!is_sound) {
    refuse("x", "has attributes that do not fit", "it must be the value of cut_populations()",
           match.call())
  }
  cat(
    k, ngettext(k, " population", " populations"),
    if (!is.null(least)) paste(" of at least", shown_count(ceiling(least)), "members"),
    ":\n", sep = ""
  )
  sizes <- summary(x)
  print(data.frame(
    members = shown_count(sizes$members), share = sprintf("%.1f%%", 100 * sizes$share),
    row.names = sizes$population
  ))
  invisible(x)
}

#' @export
summary.populations <- function(object, ...) {
  members <- c(attr(object, "sizes"), attr(object, "rest"))
  data.frame(
    population = c(seq_len(attr(object, "k")), "none"), members = members,
    share = members / sum(members)
  )
}

# Populations without the attributes that only print() uses.
plain_populations <- function(x) {
  if (inherits(x, "populations")) attributes(x) <- list(names = names(x))
  x
}

#' @export
Ops.populations <- function(e1, e2) {
  operation <- get(.Generic, mode = "function")
  if (missing(e2)) return(operation(plain_populations(e1)))
  operation(plain_populations(e1), plain_populations(e2))
}

#' @export
as.data.frame.populations <- function(x, row.names = NULL, optional = FALSE, # nolint
                                      ..., nm = "population") {
  as.data.frame(plain_populations(x), row.names = row.names, optional = optional, ..., nm = nm)
}
