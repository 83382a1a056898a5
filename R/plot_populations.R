#' Picture of populations: tree, medians, sizes and gates
#'
#' Draws the tree above the populations beside a heat map of the median of every marker in each of
#' them, with their sizes and, if given, gates and samples.
#'
#' @param h A tree, an object of class [`hclust`][stats::hclust].
#' @param X The observations: a numeric matrix or data frame with a row for each observation of the
#'   tree, or another object that [observations()] takes. If `h` is the top of a tree, from
#'   [cutree_top()] or [cutree_apriori()], the observations of the whole tree.
#' @param populations The populations: a result of [cut_populations()], or other cluster numbers,
#'   from 1, of the leaves of `h`, such as those of [gcutree()], with 0 for none; a single number
#'   `k` means `cut_populations(h, k)`, and `NULL` means `cut_populations(h)`.
#' @param gates `NULL`, or a label for each observation, such as the gate that it is in. Bars show
#'   the shares of the labels in each population.
#' @param samples `NULL`, or a label for each observation: the sample or donor that it is from; the
#'   samples of a `flowSet` are known. A second heat map shows the share of each population in each
#'   sample.
#' @param scale If `TRUE`, colours show medians on a scale from 0 to 1 for each marker, from its 1st
#'   to its 99th percentile over all observations. If `FALSE`, one scale for all markers.
#' @param engine What draws: package \pkg{ComplexHeatmap} or base graphics. `"auto"` is
#'   ComplexHeatmap if it is installed.
#' @param main The title.
#' @param ... Arguments of [observations()] for X.
#'
#' @details
#' Heights of the tree are those of the merges that join two populations; outliers that merge in
#' between are left out. A merge that is lower than one of its parts (an inversion) is drawn a
#' little above it. The time is proportional to the size of X.
#'
#' @return Invisibly, a list of what is drawn:
#'   \describe{
#'     \item{`tree`}{the tree above the populations, of class `hclust`; `NULL` for one population.}
#'     \item{`medians`}{matrix: the median of each marker (column) in each population (row), in
#'       units of X.}
#'     \item{`sizes`}{the number of observations in each population.}
#'     \item{`gates`, `samples`}{`NULL`, or matrices with a row for each population: the shares of
#'       gates in the population, and the shares of the population in each sample.}
#'   }
#' @section Errors:
#' A condition of class `gmhclust_error_input` if an argument is invalid, or if `populations` are
#' not clusters of `h`.
#' @seealso [cut_populations()], [plot_tree()]
#' @examples
#' cells <- lymphocytes()[seq(1, 20000, by = 5), ]
#' X <- as.matrix(cells[1:14])
#' h <- gmhclust(X, threshold = 50, apriori = 300)
#' gate <- with(cells, ifelse(CD3 < 50, "no T cell", ifelse(CD4 > CD8, "CD4 T", "CD8 T")))
#' plot_populations(h, X, 7, gates = gate, engine = "base")
#' plot_populations(h, X, 7, samples = cells$ids, engine = "base")
#' @export
plot_populations <- function(h,
                             X, # nolint: object_name_linter.
                             populations = NULL,
                             gates = NULL,
                             samples = NULL,
                             scale = TRUE,
                             engine = c("auto", "ComplexHeatmap", "base"),
                             main = NULL,
                             ...) {
  call <- match.call()
  check_tree(h, "h", call)
  scale <- check_flag(scale, "scale", call)
  draw <- heatmap_engine(check_choice(engine, c("auto", "ComplexHeatmap", "base"), "engine", call),
                         call)
  shown <- shown_populations(h, populations, "populations", call)
  tree <- population_tree(h, shown, "populations", call)
  leaf <- if (is.null(h$leaf)) seq_along(h$order) else h$leaf
  x <- points_of_leaves(X, length(leaf), "X", call, ...)
  if (is.null(samples)) samples <- attr(x, "sample")
  population <- shown$population[leaf]
  content <- list(
    tree = tree,
    medians = population_medians(x, population, shown$k),
    sizes = tabulate(population, shown$k),
    gates = shares(population, check_groups(gates, length(leaf), "gates", call), shown$k, 1),
    samples = shares(population, check_groups(samples, length(leaf), "samples", call), shown$k, 2)
  )
  if (is.null(main)) main <- populations_title(population, shown$k)
  colours <- if (scale) unit_scaled(content$medians, x) else content$medians
  draw(content, colours, scale, main)
  invisible(content)
}

# The tree above the populations: an hclust tree of k leaves, NULL for k = 1.
population_tree <- function(h, shown, arg, call) {
  n <- length(h$order)
  k <- shown$k
  child <- ifelse(h$merge < 0, -h$merge, h$merge + n)
  first <- child[, 1]
  second <- child[, 2]
  # By node: 0 for no population, p > 0 for population p, -j for merge j of the result.
  content <- c(shown$core, integer(n - 1L))
  joins <- logical(n - 1L)
  merges <- 0L
  for (j in seq_len(n - 1L)) {
    a <- content[first[j]]
    b <- content[second[j]]
    joins[j] <- a != 0L && b != 0L && a != b
    merges <- merges + joins[j]
    content[n + j] <- if (joins[j]) -merges else if (a == 0L) b else a
  }
  if (merges != k - 1L) {
    refuse(arg, "are no clusters of `h`", "use cut_populations() or gcutree()", call)
  }
  if (k == 1) return(NULL)
  merge <- sort_merge_rows(-cbind(content[first[joins]], content[second[joins]]))
  new_hclust(
    merge, h$height[joins], leaf_order(merge, call), as.character(seq_len(k)), h$method, h$call,
    h$dist.method
  )
}

population_medians <- function(x, population, k) {
  members <- split(seq_along(population), factor(population, seq_len(k)))
  medians <- vapply(seq_len(ncol(x)), function(j) {
    column <- x[, j]
    vapply(members, function(rows) stats::median(column[rows]), 0)
  }, numeric(k))
  names <- colnames(x)
  if (is.null(names)) names <- seq_len(ncol(x))
  matrix(medians, k, dimnames = list(seq_len(k), names))
}

# Medians from 0 to 1 between the 1st and the 99th percentile of each marker.
unit_scaled <- function(medians, x) {
  for (j in seq_len(ncol(x))) {
    ends <- stats::quantile(x[, j], c(0.01, 0.99), names = FALSE)
    width <- if (ends[2] > ends[1]) ends[2] - ends[1] else 1
    medians[, j] <- pmin(pmax((medians[, j] - ends[1]) / width, 0), 1)
  }
  medians
}

check_groups <- function(labels, n, arg, call) {
  if (is.null(labels)) return(NULL)
  if (!is.atomic(labels) || !is.null(dim(labels)) || length(labels) != n) {
    got <- if (is.atomic(labels) && is.null(dim(labels))) {
      paste("has length", length(labels))
    } else {
      paste("is", describe(labels))
    }
    refuse(arg, got, paste("it must be one label for each of the", n, "observations"), call)
  }
  if (is.factor(labels) && !is_sound_factor(labels)) {
    refuse(arg, "is a factor with codes of no level", "its levels must name all codes", call)
  }
  if (all(is.na(labels))) {
    refuse(arg, "has no label but NA", "it must be NULL, or label some observations", call)
  }
  labels <- as.factor(labels)
  labels[, drop = TRUE]
}

# The counts of `groups` in populations as shares of each population (margin 1), or of each group,
# its members of no population included (margin 2).
shares <- function(population, groups, k, margin) {
  if (is.null(groups)) return(NULL)
  counts <- unclass(table(factor(population, 0:k), groups))
  names(dimnames(counts)) <- NULL
  if (margin == 2) return(sweep(counts, 2, colSums(counts), "/")[-1, , drop = FALSE])
  counts <- counts[-1, , drop = FALSE]
  counts / pmax(rowSums(counts), 1)
}

populations_title <- function(population, k) {
  rest <- sum(population == 0)
  paste0(
    k, ngettext(k, " population", " populations"), " of ", shown_count(length(population)),
    " observations", if (rest > 0) paste0(", ", shown_count(rest), " in none")
  )
}

heatmap_engine <- function(engine, call) {
  is_there <- requireNamespace("ComplexHeatmap", quietly = TRUE) &&
    requireNamespace("circlize", quietly = TRUE)
  if (engine == "ComplexHeatmap" && !is_there) {
    refuse("engine", "is \"ComplexHeatmap\"", "that package is not installed", call)
  }
  if (engine == "base" || !is_there) draw_populations_base else draw_populations_complex
}

# The ends of a colour scale.
range_of <- function(values, is_unit) if (is_unit) c(0, 1) else range(values)

# Colours of medians, dark for low values, and of shares, white for 0.
median_palette <- function(count) grDevices::hcl.colors(count, "Viridis")
share_palette <- function(count) grDevices::hcl.colors(count, "Blues 3", rev = TRUE)
gate_colours <- function(count) grDevices::hcl.colors(count, "Set 2")

# ---- ComplexHeatmap -----------------------------------------------------------------------------

draw_populations_complex <- function(content, colours, scale, main) {
  parts <- complex_medians(content, colours, scale)
  legends <- list()
  if (!is.null(content$gates)) {
    parts <- parts + complex_gates(content$gates)
    gates <- colnames(content$gates)
    legends <- list(ComplexHeatmap::Legend(
      labels = gates, title = "gate", legend_gp = grid::gpar(fill = gate_colours(length(gates)))
    ))
  }
  if (!is.null(content$samples)) parts <- parts + complex_samples(content$samples)
  ComplexHeatmap::draw(
    parts, column_title = main, annotation_legend_list = legends, merge_legend = TRUE,
    padding = grid::unit(c(2, 2, 2, 8), "mm")
  )
}

# The tree, the medians as `colours`, and the sizes.
complex_medians <- function(content, colours, scale) {
  tree <- content$tree
  sizes <- ComplexHeatmap::rowAnnotation(
    members = ComplexHeatmap::anno_barplot(
      content$sizes, which = "row", gp = bar_colours(population_colours(length(content$sizes))),
      border = FALSE, add_numbers = TRUE, axis = FALSE, width = grid::unit(2.6, "cm")
    ),
    annotation_name_rot = 0
  )
  ComplexHeatmap::Heatmap(
    colours, name = if (scale) "scaled\nmedian" else "median",
    col = colour_scale(median_palette(100), range_of(colours, scale)), cluster_columns = FALSE,
    cluster_rows = if (is.null(tree)) FALSE else stats::as.dendrogram(drawn_tree(tree)),
    row_dend_reorder = FALSE, row_dend_width = grid::unit(2.5, "cm"), row_names_side = "left",
    rect_gp = grid::gpar(col = "white"), column_title = "medians", right_annotation = sizes
  )
}

complex_gates <- function(shares) {
  bars <- ComplexHeatmap::anno_barplot(
    shares, which = "row", gp = bar_colours(gate_colours(ncol(shares))), bar_width = 0.9,
    border = FALSE, width = grid::unit(4, "cm")
  )
  ComplexHeatmap::rowAnnotation("share of gates" = bars, annotation_name_rot = 0)
}

complex_samples <- function(shares) {
  ComplexHeatmap::Heatmap(
    shares, name = "share of\nsample", cluster_columns = FALSE, cluster_rows = FALSE,
    col = colour_scale(share_palette(100), range_of(shares, FALSE)),
    rect_gp = grid::gpar(col = "white"), column_title = "samples", show_row_names = FALSE,
    column_names_gp = grid::gpar(fontsize = 9)
  )
}

bar_colours <- function(colours) grid::gpar(fill = colours, col = NA)

colour_scale <- function(palette, limits) {
  if (limits[1] == limits[2]) limits[2] <- limits[1] + 1
  circlize::colorRamp2(seq(limits[1], limits[2], length.out = length(palette)), palette)
}

# The tree with heights at which no branch leads down.
drawn_tree <- function(tree) {
  tree$height <- raised_for_drawing(tree, numeric(length(tree$order)), step = 0.03)
  tree
}
