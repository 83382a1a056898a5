#' Stability of branches and populations under resampling
#'
#' Draws the observations again (bootstrap), clusters each draw with the settings of the tree, and
#' looks for every population and branch of the tree in the new trees. A population that appears in
#' almost every draw does not depend on a few cells; a population that appears in few draws is not
#' to be trusted.
#'
#' @param tree A whole tree of [gmhclust()] or [mhclust()].
#' @param x The observations of the tree, as given to [gmhclust()].
#' @param times The number of draws.
#' @param populations The populations to look for: a result of [cut_populations()], or other cluster
#'   numbers of the leaves, for example from [gcutree()], with 0 for none; a single number `k` means
#'   `cut_populations(tree, k)`, and `NULL` means `cut_populations(tree, x = x)`. `FALSE` means
#'   branches only.
#' @param min_members The minimum number of members of a branch: a count if >= 1, a fraction of all
#'   members if below 1. `NULL` means 1% of all members, but at least 5. It is also the minimum of
#'   populations that are found here.
#' @param devices The GPUs to use, which share the draws: their numbers, as [gpu_devices()] lists
#'   them, or `NULL` for all usable GPUs.
#' @param progress Whether to show progress and the time left, see [gmhclust()].
#' @param ... Arguments of [observations()] for `x`.
#' @inheritParams gmhclust
#'
#' @section Definition:
#' Without apriori clusters, each draw has n of the n observations, drawn with replacement; with
#' apriori clusters, it has G of the G apriori clusters and loose observations (those in no apriori
#' cluster), drawn with replacement, each with all its observations. An observation or cluster that
#' is drawn several times counts once, because copies would be clusters by themselves; so a draw has
#' about 63% of the observations. It is clustered by the settings of the tree; the threshold stays
#' the same number of members. The trees within apriori clusters do not change, so only the tree
#' above them is computed again, and only its branches are assessed.
#'
#' The agreement of a branch with a draw is the largest Jaccard coefficient between the drawn
#' members of the branch and any branch of the new tree: the number of members that are in both,
#' divided by the number of members that are in one or both (Hennig 2007). Here it is 1 if the same
#' members form a branch again. A draw that has fewer than two observations, or apriori clusters,
#' of a branch says nothing about it, and does not count. So a branch that is a single apriori
#' cluster is not assessed, nor is the last merge, which has all observations.
#'
#' A population that consists of several branches has the mean agreement of these branches, weighted
#' by their members. Cells that were assigned to their nearest population do not count. Column
#' `in_tree` is the agreement with the tree itself: it is below 1 for populations that are not
#' branches of the tree above the apriori clusters. Such a population reaches 1 only in a draw that
#' lacks the cells by which it differs from a branch.
#'
#' Hennig's guide, for the mean over all draws: *highly stable* from 0.85; *stable* from 0.75; from
#' 0.6, the members form a *pattern*, but which members belong to it is doubtful; below 0.6,
#' *doubtful*: do not trust it. Stability is necessary, but not sufficient: a division of one
#' round cloud may be stable if the cloud is long, and says nothing about a valley, see
#' [cut_populations()]. A tree has many branches, and the best of them counts, so even an arbitrary
#' set of members often has an agreement of 0.5.
#'
#' @section Random numbers:
#' The draws are `sample.int(n, replace = TRUE)`, or with G for n if there are apriori clusters, one
#' after the other, so [set.seed()] and [RNGkind()] make the result repeatable. It does not depend
#' on the backend, the devices and the number of threads. An invalid argument is noticed before
#' anything is drawn.
#'
#' @section Time and memory:
#' The time is about that of `times` trees of 63% of the observations, or of the tree above 63% of
#' the apriori clusters. `inst/benchmarks/stability.R` measures the latter. Several draws are
#' clustered at a time, one on each thread, or on the GPUs; if memory is short, fewer. A draw takes
#' the memory of its tree, see [gmhclust()]. Without apriori clusters, the time grows with n^2: for
#' large data, use apriori clusters.
#'
#' @return An object of class `stability`, a list of
#'   \describe{
#'     \item{`populations`}{a data frame with a row for each population: its name, `population`; its
#'       number of `members`; `in_tree`, see *Definition*; the number of `draws` that count; the
#'       `mean` and the standard deviation `sd` of its agreement; the numbers of draws in which it
#'       was `recovered` (agreement of at least 0.75) and `dissolved` (at most 0.5); and the
#'       `verdict`, a factor. `NULL` if `populations` is `FALSE`.}
#'     \item{`branches`}{a data frame with a row for each branch of at least `min_members` members
#'       that a split makes, as in [cut_populations()], from the top: the number `merge` of the
#'       merge that completes it, a row of `tree$merge`, and the columns of `populations` from
#'       `members` on, without `in_tree`.}
#'     \item{`agreement`}{list of two matrices, `populations` and `branches`: the agreement of each
#'       (row) with each draw (column), `NA` where the draw does not count.}
#'     \item{`times`, `drawn`, `count`}{the number of draws; whether `"observations"` or
#'       `"apriori clusters"` were drawn, and the number of these.}
#'     \item{`min_members`, `backend`}{the minimum, as a count; `"cpu"` or `"cuda"`.}
#'   }
#'   `print()` shows the populations and says which are stable. `plot()` draws their mean
#'   agreements, with lines from the first to the ninth decile of the draws, and Hennig's limits.
#' @section Errors:
#' A condition of class `gmhclust_error_input` if `tree` is not a whole tree with the settings of
#' [gmhclust()], if `x` does not have its observations, or if another argument is invalid; and the
#' other conditions of [gmhclust()].
#' @references
#' Hennig C (2007). Cluster-wise assessment of cluster stability. *Computational Statistics & Data
#' Analysis* 52(1), 258-271. \doi{10.1016/j.csda.2006.11.025}. Function `clusterboot()` of package
#' \pkg{fpc} has the same measure for other clusterings.
#' @seealso [plot_tree()] writes the agreements at the branches of a tree, and [report()] shows them
#'   on a page; [cut_populations()].
#' @examples
#' x <- as.matrix(lymphocytes()[seq(1, 20000, by = 10), 1:14])
#' tree <- gmhclust(x, threshold = 50, apriori = 200)
#' set.seed(1)
#' s <- stability(tree, x, times = 20, populations = 7)
#' s
#' plot(s)
#' head(s$branches)
#' @export
stability <- function(tree,
                      x,
                      times = 100,
                      populations = NULL,
                      min_members = NULL,
                      backend = getOption("gmhclust.backend", "auto"),
                      threads = getOption("gmhclust.threads"),
                      devices = getOption("gmhclust.devices"),
                      memory = getOption("gmhclust.memory"),
                      progress = getOption("gmhclust.progress", interactive()),
                      ...) {
  call <- match.call()
  check_tree(tree, "tree", call)
  check_repeatable(tree, "tree", call)
  if (missing(x)) refuse_missing("x", needs_observations, call)
  times <- check_count(times, most_draws, "times", call)
  n <- length(tree$order)
  min_size <- check_min_members(min_members, n, call)
  device <- check_device(backend, threads, devices, call)
  options <- list(
    progress = check_progress(progress, call), memory = check_budget_size(memory, call)
  )
  shown <- populations_to_find(tree, x, populations, min_size, device, options, call, ...)
  reading <- c(options, list(threads = device$threads, copies = 2))
  bytes <- tree_bytes(tree$settings$distance, !is.null(tree$n.height.apriori))
  x <- as_stored_observations(x, "x", bytes, reading, call, ...)
  on.exit(release_rows(x))
  x <- as_clustered(x, tree, "x", call)
  top <- if (is.null(tree$n.height.apriori)) {
    list(merge = tree$merge, order = tree$order, height = tree$height, members = rep(1L, n))
  } else {
    top_tree(tree, length(tree$g.labels), apriori_leaves(tree, call), call)
  }
  sets <- c(branch_sets(top, min_size, n, call), population_sets(tree, top, shown, call))
  agreement <- agreements_of_draws(x, tree$settings, top, sets, times, device, options, call)
  new_stability(agreement, sets, shown, top, times, min_size, call)
}

# Maximum number of draws: no result has a use for more.
most_draws <- 1e6

# Stops unless gmhclust() made `tree`, with settings by which other observations can be clustered.
check_repeatable <- function(tree, arg, call) {
  settings <- tree$settings
  has_settings <- is.list(settings) && is_single_number(settings$threshold) &&
    settings$threshold > 0 && is.character(settings$subthreshold) &&
    all(settings$subthreshold %in% subthreshold_kinds) && is.character(settings$distance) &&
    all(settings$distance %in% distances_of_clusters) && is_flag(settings$normalize) &&
    is_flag(settings$scale) && is_single_number(settings$columns)
  if (!has_settings) {
    needs <- paste("it must be a tree of gmhclust() or mhclust(), whose component `settings` says",
                   "how to cluster the draws")
    refuse(arg, "has no settings of a Mahalanobis-average clustering", needs, call)
  }
  if (!is.null(tree$leaf) || !is.null(tree$members)) {
    refuse(arg, "is the top of a tree", "it must be the whole tree, with all merges", call)
  }
}

# The populations to look for, as shown_populations() returns them; NULL for none.
populations_to_find <- function(tree, x, populations, min_size, device, options, call, ...) {
  if (identical(populations, FALSE)) return(NULL)
  if (is.null(populations)) {
    # The columns of x are looked at again later.
    populations <- tryCatch(
      suppressMessages(
        cut_populations(tree, NULL, min_size, x = x, threads = device$threads,
                        memory = options$memory, progress = options$progress, ...),
        classes = "gmhclust_message_columns"
      ),
      gmhclust_error = function(e) {
        e$call <- call
        stop(e)
      }
    )
  } else if (is_single_number(populations)) {
    populations <- tryCatch(
      cut_populations(tree, populations, min_size),
      gmhclust_error_input = function(e) {
        if (!identical(e$refused$arg, "k")) stop(e)
        refuse("populations", e$refused$got, e$refused$needs, call)
      }
    )
  }
  shown_populations(tree, populations, "populations", call)
}

# x as gmhclust() clustered it: without the columns that were left out, and scaled if so.
as_clustered <- function(x, tree, arg, call) {
  n <- length(tree$order)
  if (nrow(x) != n) {
    refuse(arg, paste("has", nrow(x), "rows"), paste("the tree has", n, "leaves"), call)
  }
  settings <- tree$settings
  if (length(settings$left_out) > 0) {
    names <- as.character(column_names(x, seq_len(ncol(x)), quote = FALSE))
    left_out <- redundant_columns(x)$columns
    # Another column may have the same name.
    if (!identical(names[left_out], settings$left_out)) left_out <- match(settings$left_out, names)
    if (anyNA(left_out)) {
      got <- paste("has no column", listed(settings$left_out[is.na(left_out)]))
      refuse(arg, got, "the tree was made without it: give the same `x` as to gmhclust()", call)
    }
    x <- without_columns(x, left_out)
  }
  if (ncol(x) != settings$columns) {
    needs <- paste0("the tree was made of ", settings$columns,
                    ": give the same `x` as to gmhclust()")
    refuse(arg, paste("has", ncol(x), "columns to cluster"), needs, call)
  }
  x <- in_range(x, settings$scale, arg, call)
  check_heights(x, tree, arg, call)
  x
}

# Stops if distances of rows of x are not the heights at which the tree joins them. The height of a
# merge of two observations is their Euclidean distance; make_monotone() may have raised some.
check_heights <- function(x, tree, arg, call) {
  pairs <- which(tree$merge[, 1] < 0 & tree$merge[, 2] < 0 & tree$height > 0)
  if (length(pairs) == 0) return(invisible())
  pairs <- unique(pairs[round(seq(1, length(pairs), length.out = 100))])
  rows <- -tree$merge[pairs, , drop = FALSE]
  differences <- x[rows[, 1], , drop = FALSE] - x[rows[, 2], , drop = FALSE]
  distance <- sqrt(rowSums(differences^2))
  fits <- abs(distance - tree$height[pairs]) <= 1e-6 * tree$height[pairs]
  if (2 * sum(fits) < length(pairs)) {
    needs <- paste("rows that the tree joins first have other distances: give the same `x` as to",
                   "gmhclust(), with its rows in the same order")
    refuse(arg, "has other observations than the tree", needs, call)
  }
}

# The branches of the top to look for: branches of several leaves that begin at its splits. A list
# of the `merge` of each branch, of its `first` and `last` place in `top$order`, and of its `size`.
branch_sets <- function(top, min_size, n, call) {
  count <- length(top$order)
  condensed <- condense(top, top$members, min_size, call)
  is_branch <- condensed$node > count & condensed$parent > 0
  node <- condensed$node[is_branch]
  places <- node_places(top$merge, top$order, call)
  list(merge = node + n - 2L * count, first = places$first[node], last = places$last[node],
       size = condensed$size[is_branch])
}

# The clusters of the populations to look for: a list of the `population` of each, and of `members`,
# a matrix of the numbers of their members (columns) in each leaf of the top (rows).
population_sets <- function(tree, top, shown, call) {
  leaves <- length(top$order)
  if (is.null(shown)) return(list(population = integer(0), members = matrix(0, leaves, 0)))
  part <- shown$core
  population <- seq_len(shown$k)
  if (!is.null(shown$roots)) {
    part <- roots_of_leaves(tree, shown$roots, call)
    population <- populations_of_roots(shown$roots)
  }
  leaf <- if (is.null(top$leaf)) seq_along(part) else as.vector(top$leaf)
  is_inside <- part > 0
  cell <- leaf[is_inside] + leaves * (part[is_inside] - 1)
  members <- matrix(tabulate(cell, leaves * length(population)), leaves)
  storage.mode(members) <- "double"
  list(population = population, members = members)
}

# The agreement of each set (row) with each draw (column): a list of matrices `branches` and
# `parts`, of the clusters of populations, and the `backend`.
agreements_of_draws <- function(x, settings, top, sets, times, device, options, call) {
  leaves <- length(top$order)
  check_memory("the draws need", 12 * leaves * times, call)
  draws <- lapply(seq_len(times), function(draw) {
    which(tabulate(sample.int(leaves, replace = TRUE), leaves) > 0)
  })
  choices <- settings[c("threshold", "subthreshold", "distance", "normalize")]
  leaf <- if (!is.null(top$leaf)) as.vector(top$leaf)
  display <- joint_progress(times, "Resampling", options$progress,
                            list(total = times, name = "draws"))
  on.exit(display$close())
  value <- run_job(
    job_stability(
      job_data(x), c(choices, apriori_intra = TRUE), leaf,
      list(leaves = unlist(draws), counts = lengths(draws)),
      list(sizes = as.double(top$members), order = as_integers(top$order), first = sets$first,
           last = sets$last, members = as.vector(sets$members)),
      device
    ),
    display$step(times), "Resampling", call
  )
  # NaN of a draw that does not count.
  value$agreement[is.nan(value$agreement)] <- NA
  all <- matrix(value$agreement, ncol = times)
  is_branch <- seq_len(nrow(all)) <= length(sets$first)
  list(branches = all[is_branch, , drop = FALSE], parts = all[!is_branch, , drop = FALSE],
       backend = value$backend)
}

# The means of `parts` (rows) of the same `population`, weighted by the parts' `size`; NA where all
# are.
joined_parts <- function(parts, population, size) {
  weights <- size * !is.na(parts)
  parts[is.na(parts)] <- 0
  joined <- rowsum(parts * weights, population) / rowsum(weights, population)
  joined[is.nan(joined)] <- NA
  joined
}

new_stability <- function(found, sets, shown, top, times, min_size, call) {
  branches <- cbind(
    data.frame(merge = sets$merge, members = sets$size),
    summary_of_draws(found$branches)
  )
  rownames(found$branches) <- if (nrow(branches) > 0) paste("merge", branches$merge)
  populations <- joined <- NULL
  if (!is.null(shown)) {
    size <- colSums(sets$members)
    joined <- joined_parts(found$parts, sets$population, size)
    rownames(joined) <- shown$names
    in_tree <- cbind(agreement_in_tree(top, sets$members, call))
    in_tree <- joined_parts(in_tree, sets$population, size)
    populations <- cbind(
      data.frame(population = shown$names, members = sum_by(size, sets$population, shown$k),
                 in_tree = as.vector(in_tree)),
      summary_of_draws(joined)
    )
  }
  is_apriori <- !is.null(top$leaf)
  structure(class = "stability", list(
    populations = populations, branches = branches,
    agreement = list(populations = joined, branches = found$branches), times = times,
    drawn = if (is_apriori) "apriori clusters" else "observations", count = length(top$order),
    min_members = min_size, backend = found$backend
  ))
}

# The largest Jaccard coefficient of each set of members (column of `members`, by leaf) with a
# branch of the tree itself; NA for members of a single leaf.
agreement_in_tree <- function(top, members, call) {
  joined <- joined_nodes(top$merge)
  size <- node_sizes(top$merge, top$members, call)
  leaves <- nrow(members)
  total <- colSums(members)
  best <- numeric(ncol(members))
  inside <- rbind(members, matrix(0, leaves - 1L, ncol(members)))
  for (node in seq_along(size)) {
    j <- node - leaves
    if (j > 0) inside[node, ] <- inside[joined[j, 1], ] + inside[joined[j, 2], ]
    best <- pmax(best, inside[node, ] / (total + size[node] - inside[node, ]))
  }
  best[colSums(members > 0) < 2] <- NA
  best
}

# Hennig's limits for the mean agreement.
stability_limits <- c(doubtful = 0, pattern = 0.6, stable = 0.75, "highly stable" = 0.85)

# The agreement from which a draw recovers a cluster, and up to which it dissolves it.
recovered_from <- 0.75
dissolved_to <- 0.5

# A row for each row of agreements.
summary_of_draws <- function(agreement) {
  draws <- rowSums(!is.na(agreement))
  mean <- rowMeans(agreement, na.rm = TRUE)
  mean[draws == 0] <- NA
  spread <- rowSums((agreement - mean)^2, na.rm = TRUE) / (draws - 1)
  spread[draws < 2] <- NA
  levels <- rev(names(stability_limits))
  verdict <- names(stability_limits)[findInterval(mean, stability_limits)]
  data.frame(
    draws = as.integer(draws), mean = as.vector(mean), sd = sqrt(as.vector(spread)),
    recovered = as.integer(rowSums(agreement >= recovered_from, na.rm = TRUE)),
    dissolved = as.integer(rowSums(agreement <= dissolved_to, na.rm = TRUE)),
    verdict = factor(verdict, levels), row.names = NULL
  )
}

#' @export
print.stability <- function(x, ...) {
  check_stability(x, match.call())
  cat("Agreement (Jaccard) with ", shown_count(x$times), ngettext(x$times, " draw", " draws"),
      " of ", shown_count(x$count), " ", x$drawn, ":\n", sep = "")
  if (!is.null(x$populations)) {
    table <- x$populations
    number <- function(value) ifelse(is.na(value), "", sprintf("%.2f", value))
    print(data.frame(
      members = shown_count(table$members), mean = number(table$mean), sd = number(table$sd),
      recovered = ifelse(table$draws == 0, "", paste(table$recovered, "of", table$draws)),
      row.names = shown_names(table$population, seq_along(table$population))
    ))
    cat(in_lines(stability_words(table)), sep = "\n")
  }
  branches <- x$branches[!is.na(x$branches$mean), ]
  if (nrow(branches) > 0) {
    good <- sum(branches$mean >= stability_limits[["stable"]])
    text <- paste0(
      "Of the ", shown_count(nrow(branches)), ngettext(nrow(branches), " branch", " branches"),
      " of at least ", shown_count(ceiling(x$min_members)), " members, ", shown_count(good),
      ngettext(good, " is", " are"), " stable (component `branches`)."
    )
    cat(in_lines(text), sep = "\n")
  } else if (is.null(x$populations)) {
    cat("No branch or population was assessed.\n")
  }
  invisible(x)
}

# Which populations are stable, a sentence for each verdict.
stability_words <- function(table) {
  sentences <- c(
    "highly stable" = "Highly stable (mean 0.85 or more): ",
    stable = "Stable (0.75 or more): ",
    pattern = "A pattern, but which cells belong to it is doubtful (0.6 or more): ",
    doubtful = "Doubtful (below 0.6), not to be trusted: "
  )
  names <- shown_names(table$population, seq_along(table$population))
  said <- function(sentence, which) {
    if (any(which)) paste0(sentence, paste(names[which], collapse = ", "), ".")
  }
  is_known <- !is.na(table$mean)
  c(
    unlist(lapply(names(sentences), function(verdict) {
      said(sentences[[verdict]], is_known & table$verdict == verdict)
    })),
    said("Not assessed, because fewer than two of its parts can be drawn: ", !is_known),
    said("Not a branch of the tree (`in_tree` below 1), so seldom 1 in a draw: ",
         is_known & table$in_tree < 1)
  )
}

in_lines <- function(text) unlist(lapply(text, strwrap, width = 80, exdent = 2))

# Stops unless `x`, argument `arg`, is a value of stability().
check_stability <- function(x, call, arg = "x") {
  columns <- c("members", "draws", "mean", "sd", "recovered", "dissolved", "verdict")
  is_table <- function(table) {
    is.data.frame(table) && all(columns %in% names(table)) && is.numeric(table$mean) &&
      is.numeric(table$members)
  }
  is_count <- function(value) {
    is_single_number(value) && !is.object(value) && value >= 0 && value <= .Machine$integer.max
  }
  is_sound <- is.list(x) && is_table(x$branches) && is_count(x$times) && is_count(x$count) &&
    is_count(x$min_members) && is.character(x$drawn) && length(x$drawn) == 1 &&
    is.list(x$agreement) &&
    (is.null(x$populations) ||
       is_table(x$populations) && is.character(x$populations$population) &&
         is.numeric(x$agreement$populations) &&
         NROW(x$agreement$populations) == nrow(x$populations))
  if (!is_sound) {
    refuse(arg, "has components that do not fit", "it must be the value of stability()", call)
  }
}
