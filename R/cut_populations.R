#' Cut a tree into populations of a minimum size
#'
#' Finds the populations in a tree, each of at least `min_members` members, and leaves out the
#' outliers between them. [gcutree()] counts every distant outlier as one of its `k` clusters, so
#' `k` must be found by trial. If `cut_populations()` gets the observations `x`, it finds the number
#' of populations itself, by the valleys of low density between populations.
#'
#' @param tree An object of class [`hclust`][stats::hclust], with or without inversions. In the
#'   result of [cutree_top()] or [cutree_apriori()], a leaf counts as its number of `members`.
#' @param k The number of populations. If `NULL`, the function finds it; see *Definition*. Then give
#'   `x`, too, except for a tree with `min_points`: without `x`, the result is much worse.
#' @param min_members The minimum number of members of a population: a count if >= 1, a fraction of
#'   all members if below 1. `NULL` means 1% of all members, but at least 5; for a tree of
#'   [ghclust()] with `min_points`, it means `min_points`. For rare populations, choose a count
#'   somewhat below the expected size of the smallest population.
#' @param rest What to do with cells outside all populations: `"none"` gives them the number 0;
#'   `"nearest"` assigns them to the nearest population, which needs `x`.
#' @param x The observations of the tree: a numeric matrix or data frame with a row for each leaf,
#'   or another object that [observations()] takes. If `tree` is the top of a tree, `x` has the
#'   observations of its leaves, or of the whole tree. Rows are in the order in which the tree was
#'   made; row names that are the labels of the tree in another order are an error. With `x`, the
#'   result keeps the mean and covariance of each population, which
#'   [`predict()`][predict.populations] uses to map other cells to the populations.
#' @param level How finely to divide the data, without `k`: `"clear"` finds the populations that
#'   clear valleys separate; `"finer"` divides them further, as long as the splits from the top of
#'   the tree show any valley. `"finer"` needs `x`.
#' @param branches `NULL`, or the branches of the tree that are the populations, for example as
#'   [report()] gives them: a vector of merges (row numbers of `tree$merge`; for a single leaf, its
#'   negative number), or a list of such vectors, each for a population that unites several
#'   branches. Attribute `roots` of a result has this form. See *Definition*.
#' @param threads The number of CPU threads. `NULL` means the default, see [gmhclust()]. The result
#'   does not depend on it.
#' @param memory A limit on the memory of the values of `x` that are read in blocks and of the work
#'   together, see [gkmeans()].
#' @param progress Whether to show progress and the time left: `TRUE` for a bar, or for lines on the
#'   error output if that is no terminal, such as the log of a batch job; `"progressr"` for the
#'   handlers of package \pkg{progressr}.
#' @param ... Arguments of [observations()] for `x`.
#'
#' @section Definition:
#' Follow the tree from its top. A merge of two clusters is a *split* if both have at least
#' `min_members` members. Otherwise the smaller side falls off, and the larger side goes on as the
#' same population; if both have fewer members, the population ends there. This is the condensed
#' tree of HDBSCAN (Campello et al. 2013).
#'
#' **With `k`**, the first `k` - 1 splits from the top, in the order of merges, are applied. A
#' population is one side of its last split, with all cells on that side. So populations are
#' clusters of the tree and are nested for increasing `k`. Heights are not used, so inversions do
#' not matter. If no cluster above the last split falls apart into two small clusters, the
#' populations are the clusters of at least `min_members` members of some `gcutree(tree, K)`,
#' together with their own outliers. Cells that fall off above the last split of a population are in
#' no population.
#'
#' **With `branches`**, the given branches are the populations. Each must be the whole tree, or one
#' side of a split for this `min_members`, and none may contain another. Cells outside all of them
#' are in no population.
#'
#' **Without `k`, with `x`**, populations are clusters with a *valley* between any two of them. To
#' compare two clusters, a normal distribution is fitted to each, and each cell goes to the cluster
#' of higher posterior probability. Then all cells are projected on the line that separates the two
#' clusters best (Fisher's discriminant, which is estimated for each cell without that cell). The
#' *valley depth* is the lowest density between the two medians, divided by the lower of the two
#' peaks: 0 means an empty valley, 1 means no valley. Both clusters have the same weight in this
#' density, whatever their sizes. In the *weighted* depth, the sizes are the weights. Two clusters
#' are separate if the depth is below 0.3 and the weighted depth is below 0.7. They are also
#' separate if the depth is below 0.5 and the weighted depth is below 0.1: this finds small distant
#' clusters, and for clusters that only this rule separates, the weighted depth is reported. The
#' depth counts as 1 if a cluster has fewer than 4 cells (5 once cells have changed sides) or fewer
#' than one cell for every two columns, or if both together have fewer than two cells for every
#' column. From the leaves of the condensed tree to its root, the clusters on one side of a split
#' are compared with the clusters on the other side. While any two clusters are not separate, the
#' two most similar clusters are united. So a population may be a union of clusters from several
#' parts of the tree. A cloud without a valley stays one population. Large clusters are represented
#' by 2,000 cells, evenly spaced in the leaf order of the tree; nothing is random.
#'
#' Many populations have no valleys between them: stages of activation, or levels of one marker.
#' Then several numbers of populations are reasonable. `level = "finer"` applies every split that
#' has several of the clear populations below it. Within the clear populations, it applies the
#' splits in order from the top of the tree, and ends, for all of them, at the first split with a
#' valley depth of 0.9 or more. A cluster stays whole if the two sides of its split together have
#' less than a quarter of its members, because most of its cells would then be in no population. To
#' choose `k`, [plot()][plot.populations] shows 1 to 30 populations and the valley depth of each
#' split.
#'
#' **Without `k` and `x`**, the populations are the clusters with the greatest total *excess of
#' mass*, as in HDBSCAN. The mass of a cluster is the sum, over its members, of log(b / l), where
#' the cluster begins at height b and the member leaves it at height l. HDBSCAN uses -1 / height,
#' which fits densities, instead of log(height); the logarithm makes the result independent of the
#' unit of `x`. A merge that is lower than one of its parts gets the height of that part, and a
#' height of 0 counts as the lowest positive height. This rule chooses at least two populations if
#' there is a split. Heights of Mahalanobis distances say little about populations, so the result is
#' much worse than with `x`.
#'
#' **Trees by mutual reachability distances**, from `ghclust(x, "single", min_points = k)`: without
#' `k` and `x`, the populations are the clusters of HDBSCAN, and cells in no population are its
#' noise. The mass of a cluster is then the sum, over its members, of 1 / l - 1 / b. The result also
#' has the strength of each cell's membership and the outlier score GLOSH (Campello et al. 2015).
#' With `min_members` equal to `min_points`, the default, all of this equals `dbscan::hdbscan(x,
#' k)`, with four exceptions. Many heights are equal, since an outlier's core distance is the
#' weight of all its edges; merges at equal heights may have another order, which can move cells at
#' a split and, for small k, change the number of populations. If the tree has no split, all cells
#' are one population here, but noise there. Where the cells of a small branch fall off together,
#' some outlier scores differ. `min_points` or more equal cells have an infinite density: they add
#' nothing to the mass of a cluster here, and no cluster with them is chosen there.
#'
#' Dynamic tree cut (Langfelder et al. 2008) also has a minimum size, and assigns outliers to the
#' nearest cluster, but decides by heights, which must increase.
#'
#' With `rest = "nearest"`, a cell outside all populations is assigned to the population of least
#' Mahalanobis distance. The mean and covariance of a population are estimated without these cells.
#' See [population_model()] for redundant columns and singular covariances.
#'
#' @section Time and memory:
#' Time and memory are proportional to the number of leaves; memory is about 250 bytes per leaf.
#' With `rest = "nearest"`, each leaf that is in no population takes 8 bytes more for each column of
#' `x`. With `x`, valleys take most of the time: one valley for each split, and one for each pair of
#' populations.
#'
#' @return An object of class `populations`: an integer vector with the number of the population of
#'   each leaf, 0 for none, named by the tree's labels if it has any. Populations are numbered by
#'   decreasing size, as it is before `rest = "nearest"` adds cells. Attributes:
#'   \describe{
#'     \item{`sizes`, `rest`}{the number of members of each population, and of the cells in no
#'       population.}
#'     \item{`k`, `min_members`}{the number of populations, and the minimum, as a count.}
#'     \item{`weighted`}{`TRUE` if some leaves count as other than one member.}
#'     \item{`nearest`}{whether the rest was assigned to the nearest populations.}
#'     \item{`levels`}{the names of the populations; initially their numbers.}
#'     \item{`chosen_by`}{how they were chosen: `"valleys"`, `"mass"`, `"k"` or `"branches"`.}
#'     \item{`separation`}{a data frame with a row for each population: the `nearest` other
#'       population, which is the most similar one, and the depth of the `valley` between both. `NA`
#'       without `x`.}
#'     \item{`splits`}{a data frame with a row for each split, from the top: the first s splits
#'       make the s + 1 populations of `cut_populations(tree, s + 1)`. Columns: the number of the
#'       `cluster` that the split divides, where 1 is the whole tree, and split s makes clusters 2s
#'       and 2s + 1; the numbers of members of the two clusters, `first` and `second`; the `height`
#'       of the merge; the depth of the `valley` between the two clusters, `NA` without `x`.}
#'     \item{`clusters`}{for each cluster of `splits`, the population of which it is one of the
#'       `roots`; 0 for all other clusters, also for those within a population.}
#'     \item{`roots`}{a list with an element for each population: the merges (row numbers of
#'       `tree$merge`) that complete its clusters; for a single leaf, the negative number of the
#'       leaf.}
#'     \item{`finer`}{the number of populations of the finer level; `NA` with `k`, with `branches`
#'       or without `x`.}
#'     \item{`strength`, `outlier`}{for a tree by mutual reachability distances: for each leaf, the
#'       strength of its membership, which is 1 minus the ratio of its core distance and the largest
#'       core distance of its population, 0 outside all populations and for the `rest`; and its
#'       outlier score from 0 to 1, see *Definition*.}
#'     \item{`model`}{with `x`, the model of the populations, see [population_model()].}
#'   }
#'   `print()` shows the sizes and the valley depths of the populations; `summary()` returns them,
#'   and the shares, as a data frame. Subsets, also rows of a tibble, comparisons and `as.integer()`
#'   give plain vectors, and an assignment such as `p[i] <- 0L` makes `p` a plain vector, because
#'   sizes and other attributes would no longer fit. `p == "CD4 T"` compares names, and
#'   `p == "none"` finds the cells in no population. Only the whole `p` knows names: write
#'   `(p == "CD4 T")[i]`, not `p[i] == "CD4 T"`; `c("none", levels(p))[p + 1]` is the name of each
#'   cell, for `%in%`. Rows of a `data.table` keep the attributes of all cells, and `rbind()` of
#'   data frames takes a column of populations for a factor: store `as.integer(p)` there.
#'   `as.data.frame()` has a column `population`.
#' @section Messages:
#' A message of class `gmhclust_message_populations` if valleys decide (with `x`, without `k` and
#' `branches`), and one population has more than 90% of all members.
#' @section Errors:
#' A condition of class `gmhclust_error_input` if `tree` is not a valid tree, if it has fewer than
#' `k` populations of `min_members` members, if `branches` are not branches of the tree, or if
#' another argument is invalid.
#'
#' @references
#' Campello RJGB, Moulavi D, Sander J (2013). Density-based clustering based on hierarchical density
#' estimates. *Advances in Knowledge Discovery and Data Mining*, LNCS 7819, 160-172.
#' \doi{10.1007/978-3-642-37456-2_14}
#'
#' Campello RJGB, Moulavi D, Zimek A, Sander J (2015). Hierarchical density estimates for data
#' clustering, visualization, and outlier detection. *ACM Transactions on Knowledge Discovery from
#' Data* 10(1), 5. \doi{10.1145/2733381}
#'
#' Fisher RA (1936). The use of multiple measurements in taxonomic problems. *Annals of Eugenics*
#' 7(2), 179-188. \doi{10.1111/j.1469-1809.1936.tb02137.x}
#'
#' Langfelder P, Zhang B, Horvath S (2008). Defining clusters from a hierarchical cluster tree: the
#' Dynamic Tree Cut package for R. *Bioinformatics* 24(5), 719-720.
#' \doi{10.1093/bioinformatics/btm563}
#' @seealso [report()] to choose populations by hand; [plot.populations()], [plot_populations()] and
#'   [plot_tree()] for pictures; [population_model()] for mapping new cells; [gcutree()],
#'   [cutree_top()].
#'
#' @examples
#' x <- as.matrix(lymphocytes()[seq(1, 20000, by = 10), 1:14])
#' tree <- gmhclust(x, threshold = 50)
#' sort(table(gcutree(tree, k = 7)), decreasing = TRUE)
#'
#' population <- cut_populations(tree, x = x)
#' population
#' aggregate(x, list(population = population), median)
#'
#' cut_populations(tree, k = 7, rest = "nearest", x = x)
#' @export
cut_populations <- function(tree,
                            k = NULL,
                            min_members = NULL,
                            rest = c("none", "nearest"),
                            x = NULL,
                            level = c("clear", "finer"),
                            branches = NULL,
                            threads = getOption("gmhclust.threads"),
                            memory = getOption("gmhclust.memory"),
                            progress = getOption("gmhclust.progress", interactive()),
                            ...) {
  call <- match.call()
  if (!missing(tree) && is_tree(tree)) {
    check_memory("finding populations in a tree needs", bytes_per_leaf * NROW(tree$merge), call)
  }
  check_tree(tree, "tree", call)
  members <- leaf_members(tree)
  by_density <- has_core_distances(tree)
  if (by_density && is.null(min_members)) min_members <- max(2, tree$settings$min_points)
  min_size <- check_min_members(min_members, sum(members), call)
  rest <- check_choice(rest, c("none", "nearest"), "rest", call)
  level <- check_level(level, k, branches, x, call)
  options <- list(
    finer = level == "finer",
    threads = check_threads(threads, call),
    memory = check_budget_size(memory, call),
    progress = check_progress(progress, call)
  )
  data <- NULL
  if (is.null(x)) check_no_more(x, ..., call = call)
  if (!is.null(x) || rest == "nearest") data <- data_of_leaves(x, tree, "x", options, call, ...)
  on.exit(release_rows(data$x))
  min_points <- if (by_density) tree$settings$min_points else 0
  condensed <- condense(tree, members, min_size, call, min_points)
  chosen <- if (!is.null(k)) {
    top_clusters(condensed, check_population_count(k, condensed, min_size, call))
  } else if (is.null(data) && is.null(branches)) {
    clusters_of_greatest_mass(condensed)
  }
  # For each cluster of the condensed tree, the number of its population.
  group <- if (!is.null(branches)) {
    branch_groups(branches, condensed, length(members), min_size, call)
  } else if (!is.null(chosen)) {
    replace(integer(length(condensed$node)), chosen, seq_along(chosen))
  }
  found <- if (!is.null(data)) {
    find_populations(tree, condensed, members, data, group, options, call)
  }
  if (is.null(group)) group <- if (options$finer) found$finer else found$groups
  chosen <- which(group > 0L)
  population <- leaves_inside(tree$merge, condensed$node[chosen], call)
  population <- c(0L, group[chosen])[population + 1L]
  sizes <- population_sizes(population, members, max(group))
  # By decreasing size, then by first leaf.
  by_size <- order(-sizes, match(seq_along(sizes), population))
  population <- match(population, by_size, nomatch = 0L)
  levels <- as.character(seq_along(by_size))
  strength <- if (by_density) membership_strengths(tree$core, population)
  model <- if (!is.null(data)) fit_to_leaves(data, population, levels, call, options$threads)
  if (rest == "nearest") {
    population <- with_nearest(leaf_means(data), population, model, call, options$threads)
  }
  chosen_by <- if (!is.null(branches)) {
    "branches"
  } else if (!is.null(k)) {
    "k"
  } else if (is.null(data)) {
    "mass"
  } else {
    "valleys"
  }
  result <- new_populations(
    population, members, levels,
    min_members = min_size, nearest = rest == "nearest", chosen_by = chosen_by,
    separation = separation_of(found, by_size),
    splits = splits_of(condensed, tree$height, found),
    clusters = match(group, by_size, nomatch = 0L),
    roots = roots_of(condensed$node, group, by_size, length(members)),
    finer = if (chosen_by == "valleys") max(found$finer) else NA_integer_,
    model = model, names = tree$labels,
    strength = strength, outlier = condensed$outlier
  )
  if (chosen_by == "valleys") inform_of_large_population(result, options$finer, call)
  result
}

# Memory of cut_populations() for each leaf, measured by inst/benchmarks/memory.R.
bytes_per_leaf <- 250

# Checks the arguments that choose the populations; returns `level`.
check_level <- function(level, k, branches, x, call) {
  level <- check_choice(level, c("clear", "finer"), "level", call)
  if (!is.null(branches) && !is.null(k)) {
    refuse("branches", "is given", "`k` is given, too: give either `k` or `branches`", call)
  }
  if (level == "finer" && !is.null(k)) {
    refuse("level", "is \"finer\"", "`k` already sets the number: give either `k` or `level`", call)
  }
  if (level == "finer" && !is.null(branches)) {
    refuse("level", "is \"finer\"", "`branches` are the populations: give one of both", call)
  }
  if (level == "finer" && is.null(x)) {
    refuse("level", "is \"finer\"", "levels need the observations, `x`", call)
  }
  level
}

# The value of job_populations(). `group` is the number of the population of each cluster of the
# condensed tree, or NULL to find the populations that valleys separate.
find_populations <- function(tree, condensed, members, data, group, options, call) {
  run_job(
    job_populations(
      job_data(data$x), data$used, as_integers(tree$merge), as.double(members), data$leaf,
      condensed$node, condensed$split, group, options$finer, options$threads
    ),
    options$progress, "Finding populations", call
  )
}

# For each population, in the order `by_size`, the most similar other population and the depth of
# the valley between both.
separation_of <- function(found, by_size) {
  k <- length(by_size)
  nearest <- rep(NA_integer_, k)
  valley <- rep(NA_real_, k)
  if (length(found$nearest) == k) {
    nearest <- match(found$nearest, by_size)[by_size]
    valley <- found$separation[by_size]
  }
  data.frame(population = seq_len(k), nearest = nearest, valley = valley)
}

# A row for each split of the condensed tree, from the top.
splits_of <- function(condensed, height, found) {
  count <- (length(condensed$node) - 1L) %/% 2L
  cluster <- match(seq_len(count), condensed$split)
  size <- condensed$size
  data.frame(
    cluster = cluster, first = size[2L * seq_len(count)], second = size[2L * seq_len(count) + 1L],
    height = height[condensed$merge[cluster]],
    valley = if (is.null(found)) rep(NA_real_, count) else found$valleys
  )
}

# For each population, in the order `by_size`, the roots of its clusters, as ids in the `merge` of
# an hclust tree of n leaves.
roots_of <- function(node, group, by_size, n) {
  inside <- group > 0L
  id <- ids_of_nodes(node, n)[inside]
  unname(split(id, factor(group[inside], by_size)))
}

population_sizes <- function(population, members, k) {
  sum_by(members, population + 1L, k + 1L)[-1]
}

# An object of class "populations" of leaves with these members; `levels` are the names of the
# populations, and `...` further attributes.
new_populations <- function(population, members, levels, ..., names = NULL) {
  k <- length(levels)
  sizes <- population_sizes(population, members, k)
  structure(
    class = "populations", population, names = names, sizes = sizes, k = k,
    rest = sum(members) - sum(sizes), levels = levels, weighted = if (any(members != 1)) TRUE, ...
  )
}

# The share of all members in one population above which a message suggests other settings.
large_share <- 0.9

inform_of_large_population <- function(populations, finer, call) {
  sizes <- attr(populations, "sizes")
  share <- sizes[1] / (sum(sizes) + attr(populations, "rest"))
  if (share <= large_share) return(invisible())
  more <- attr(populations, "finer")
  advice <- if (!finer && more > 1) {
    paste0("level = \"finer\" finds ", more, " populations without clear valleys, and ")
  }
  inform_user(
    "populations",
    paste0(
      "one population has ", sprintf("%.0f%%", 100 * share), " of all members. Look at `scale` ",
      "and the transformation of the data, and at `min_members` for rare populations; ", advice,
      "plot() of the result helps to choose another number, `k`"
    ),
    call
  )
}

check_min_members <- function(min_members, total, call) {
  if (is.null(min_members)) return(min(max(5, total / 100), total))
  min_size <- threshold_members(min_members, total, "min_members", call)
  if (min_size > total) {
    refuse("min_members", paste("is", format(min_members)),
           paste("the tree has only", total, "members"), call)
  }
  min_size
}

check_population_count <- function(k, condensed, min_size, call) {
  count <- (length(condensed$node) + 1L) %/% 2L
  if (!is_single_number(k) || k < 1 || k != round(k)) {
    refuse("k", paste("is", describe(k)), "it must be one whole number, or NULL", call)
  }
  if (k > count) {
    needs <- paste0(
      "the tree has only ", count, ngettext(count, " population", " populations"), " of at least ",
      shown_count(ceiling(min_size)), " members (see `min_members`)"
    )
    refuse("k", paste("is", k), needs, call)
  }
  as.integer(k)
}

# The model of populations of leaves with these data.
fit_to_leaves <- function(data, population, levels, call, threads = session_option("threads")) {
  if (!is.null(data$leaf)) population <- population[data$leaf]
  fit_populations(data$x, data$used, population, levels, call, threads)
}
