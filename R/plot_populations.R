#' Plot populations: tree, medians, sizes and gates
#'
#' Draws the tree above the populations beside a heat map of the median of every marker in each
#' population. Sizes of populations and, if given, gates and samples are shown beside it.
#'
#' @param tree A tree, an object of class [`hclust`][stats::hclust].
#' @param x The observations: a numeric matrix or data frame with a row for each observation of the
#'   tree, or another object that [observations()] takes. If `tree` is the top of a tree, from
#'   [cutree_top()] or [cutree_apriori()], `x` has the observations of the whole tree. Rows are in
#'   the order in which the tree was made; row names that are the labels of the tree in another
#'   order are an error.
#' @param populations The populations: a result of [cut_populations()], or other cluster numbers,
#'   from 1, of the leaves of `tree`, for example from [gcutree()], with 0 for none; a single number
#'   `k` means `cut_populations(tree, k)`, and `NULL` means `cut_populations(tree, x = x)`.
#' @param gates `NULL`, or a label for each observation, such as its gate. Bars show the shares of
#'   the labels in each population.
#' @param samples `NULL`, or a label for each observation: its sample or donor. For a `flowSet` or
#'   `cytoset`, `NULL` means its samples. A second heat map shows the share of each population in
#'   each sample. Gates and samples are in the order of the levels of a factor; numbers are in
#'   increasing order, and so are numbers within text: patient2 comes before patient10.
#' @param scale If `TRUE`, each marker has its own colour scale, from 0 at its 1st to 1 at its 99th
#'   percentile over all observations. If `FALSE`, all markers share one scale.
#' @param engine The package that draws: \pkg{ComplexHeatmap}, or base graphics. `"auto"` means
#'   ComplexHeatmap if it is installed, else base graphics.
#' @param main The title.
#' @param order The order of the populations. `"similar"` flips branches of the tree so that
#'   populations with similar medians are side by side, see [reorder.hclust()]; `"tree"` keeps the
#'   order of `tree`.
#' @param ... Arguments of [observations()] for `x`. If ComplexHeatmap draws, also arguments of its
#'   `Heatmap()`, for the heat map of the medians, such as `row_split` or `col`; and of its
#'   `draw()`, such as `heatmap_legend_side`.
#'
#' @details
#' Text is measured on the graphics device before anything is drawn. Long names of columns and gates
#' are shrunk, then wrapped; if there is still no room, only every second or third name is shown,
#' and the middle of a very long name is cut out. A line below the picture and a message list the
#' omissions. With base graphics the picture is one plot, so `par(mfrow = )` places pictures side by
#' side.
#'
#' With ComplexHeatmap, component `heatmap` of the result can be drawn again and extended:
#' `ComplexHeatmap::draw(p$heatmap + another, merge_legends = TRUE)`. Its heat maps have the names
#' `"median"` and `"share of sample"`. Widths and sizes of text fit the device of the first drawing.
#'
#' Populations that have names ([name_populations()]) are shown by name. The heights in the drawn
#' tree are the heights of the merges that join two populations; merges with outliers are left out.
#' A population may consist of several clusters from different parts of the tree: it is drawn at its
#' largest cluster. A merge that is lower than one of its parts (an inversion) is drawn a little
#' above this part. The time is proportional to the size of `x`.
#'
#' Populations are similar if the sum of squared differences of their medians, on the colour scale,
#' is small.
#'
#' @return Invisibly, a list of the parts of the picture:
#'   \describe{
#'     \item{`tree`}{the tree above the populations, of class `hclust`, with its leaves in the order
#'       of the picture; `NULL` for one population. Its labels, and the row names of the matrices,
#'       are the names or numbers of the populations.}
#'     \item{`medians`}{matrix: the median of each marker (column) in each population (row), in
#'       units of `x`.}
#'     \item{`sizes`}{the number of observations in each population.}
#'     \item{`gates`, `samples`}{`NULL`, or matrices with a row for each population: the shares of
#'       gates in the population, and the shares of the population in each sample.}
#'     \item{`heatmap`}{if ComplexHeatmap draws: the picture, an undrawn object of class
#'       `HeatmapList`.}
#'   }
#' @section Messages:
#' A message of class `gmhclust_message_picture` if the picture has no room for all text.
#' @section Errors:
#' A condition of class `gmhclust_error_input` if an argument is invalid, if `populations` are not
#' clusters of `tree`, or if the graphics device is too small for any picture.
#' @seealso [report()] for a page to choose populations; [cut_populations()], [name_populations()],
#'   [plot_tree()]
#' @examples
#' cells <- lymphocytes()[seq(1, 20000, by = 5), ]
#' x <- as.matrix(cells[1:14])
#' tree <- gmhclust(x, threshold = 50, apriori = 300)
#' gate <- with(cells, ifelse(CD3 < 50, "no T cell", ifelse(CD4 > CD8, "CD4 T", "CD8 T")))
#' plot_populations(tree, x, 7, gates = gate, engine = "base")
#' plot_populations(tree, x, 7, samples = cells$ids, engine = "base")
#' @export
plot_populations <- function(tree,
                             x,
                             populations = NULL,
                             gates = NULL,
                             samples = NULL,
                             scale = TRUE,
                             engine = c("auto", "ComplexHeatmap", "base"),
                             main = NULL,
                             order = c("similar", "tree"),
                             ...) {
  call <- match.call()
  check_tree(tree, "tree", call)
  if (missing(x)) refuse_missing("x", needs_observations, call)
  scale <- check_flag(scale, "scale", call)
  order <- check_choice(order, c("similar", "tree"), "order", call)
  engine <- check_choice(engine, c("auto", "ComplexHeatmap", "base"), "engine", call)
  engine <- heatmap_engine(engine, call)
  more <- arguments_of_engine(engine, ...)
  leaf <- if (is.null(tree$leaf)) seq_along(tree$order) else tree$leaf
  x <- do.call(points_of_leaves, c(list(x, tree, "x", call), more$observations), quote = TRUE)
  shown <- shown_populations(tree, populations, "populations", call, x)
  tree <- population_tree(tree, shown, "populations", call)
  if (is.null(samples)) samples <- attr(x, "sample")
  population <- shown$population[leaf]
  content <- list(
    tree = tree,
    medians = population_medians(x, population, shown$names),
    sizes = tabulate(population, shown$k),
    gates = shares(population, check_groups(gates, length(leaf), "gates", call), shown$names, 1),
    samples = shares(population, check_groups(samples, length(leaf), "samples", call),
                     shown$names, 2)
  )
  if (is.null(main)) main <- populations_title(population, shown$k)
  colours <- if (scale) unit_scaled(content$medians, x) else content$medians
  if (order == "similar") content$tree <- tree_in_order(content$tree, colours, call)
  if (engine == "base") {
    draw_populations_base(content, colours, scale, main, call)
  } else {
    content$heatmap <- draw_populations_complex(content, colours, scale, main, more$engine, call)
  }
  invisible(content)
}

# The value of cut_populations(tree, k, x = x) for another function, whose argument `arg` has the
# value `k`. That function has no argument `min_members`, so errors do not suggest one, and has
# already given the message about doubtful columns of `x`.
populations_of_number <- function(tree, k, x, arg, call) {
  tryCatch(
    suppressMessages(
      cut_populations(tree, k, x = if (is.null(k)) x), classes = "gmhclust_message_columns"
    ),
    gmhclust_error_input = function(e) {
      if (!identical(e$refused$arg, "k")) stop(e)
      needs <- sub(" (see `min_members`)", "", e$refused$needs, fixed = TRUE)
      if (needs != e$refused$needs) {
        needs <- paste0(needs, "; for smaller ones call cut_populations() with `min_members`, and ",
                        "give its value as `", arg, "`")
      }
      refuse(arg, e$refused$got, needs, call)
    }
  )
}

# The tree above the populations: an hclust tree of k leaves, NULL for k = 1.
population_tree <- function(tree, shown, arg, call) {
  n <- length(tree$order)
  k <- shown$k
  joined <- joined_nodes(tree$merge)
  first <- joined[, 1]
  second <- joined[, 2]
  # By node: 0 for no population, p > 0 for population p, -j for merge j of the result.
  content <- c(largest_parts(tree, shown, call), integer(n - 1L))
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
    refuse(arg, "are not clusters of `tree`", "use cut_populations() or gcutree()", call)
  }
  if (k == 1) return(NULL)
  merge <- sort_merge_rows(-cbind(content[first[joins]], content[second[joins]]))
  new_hclust(
    merge, tree$height[joins], leaf_order(merge, call), shown$names, tree$method, tree$call,
    tree$dist.method
  )
}

# The tree above populations, in an order in which populations with similar colours of medians are
# side by side.
tree_in_order <- function(tree, colours, call) {
  if (is.null(tree)) return(NULL)
  # Squares of large values would overflow.
  unit <- max(abs(colours), .Machine$double.xmin)
  tree$order <- optimal_order(
    tree$merge, as.vector(stats::dist(colours / unit)),
    check_threads(session_option("threads"), call), FALSE, call
  )
  tree$merge <- merge_in_order(tree$merge, tree$order, call)
  tree
}

# Like `shown$core`, but if a population is a union of several clusters, all of its clusters except
# the largest get 0.
largest_parts <- function(tree, shown, call) {
  core <- shown$core
  roots <- shown$roots
  if (all(lengths(roots) < 2)) return(core)
  size <- node_sizes(tree$merge, leaf_members(tree), call)
  size <- size[nodes_of_ids(unlist(roots), length(core))]
  # The indices in unlist(roots), by population.
  parts <- split(seq_along(size), populations_of_roots(roots))
  largest <- vapply(parts, function(parts) parts[which.max(size[parts])], 0L)
  core[!roots_of_leaves(tree, roots, call) %in% largest] <- 0L
  core
}

# The median of each column in each population: a matrix with the `names` of populations as row
# names.
population_medians <- function(x, population, names) {
  k <- length(names)
  members <- split(seq_along(population), factor(population, seq_len(k)))
  medians <- vapply(seq_len(ncol(x)), function(j) {
    column <- x[, j]
    vapply(members, function(rows) stats::median(column[rows]), 0)
  }, numeric(k))
  columns <- colnames(x)
  if (is.null(columns)) columns <- seq_len(ncol(x))
  matrix(medians, k, dimnames = list(names, columns))
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

# The data matrix of all observations of a tree.
points_of_leaves <- function(x, tree, arg, call, ...) {
  x <- as_observations(x, arg, call, ...)
  n <- if (is.null(tree$leaf)) length(tree$order) else length(tree$leaf)
  if (nrow(x) != n) {
    unit <- if (is.null(tree$leaf)) "leaves" else "observations"
    refuse(arg, paste("has", nrow(x), "rows"), paste("the tree has", n, unit), call)
  }
  check_row_order(rownames(x), labels_of_observations(tree), arg, call)
  x
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
  refuse_integer64(labels, arg, call)
  if (is.factor(labels) && !is_sound_factor(labels)) {
    refuse(arg, "is a factor with codes of no level", "its levels must name all codes", call)
  }
  if (all(is.na(labels))) {
    refuse(arg, "has only NA labels", "it must be NULL, or label some observations", call)
  }
  ordered_groups(labels)
}

# Labels as a factor. A factor keeps the order of its levels, numbers are ordered by value, and text
# is in natural order (patient2 before patient10). The order does not depend on the locale or on
# options of the session.
ordered_groups <- function(labels) {
  if (is.factor(labels)) return(droplevels(labels))
  if (is.raw(labels)) labels <- as.integer(labels)
  if (is.object(labels) || !(is.numeric(labels) || is.character(labels))) return(as.factor(labels))
  labels <- as.vector(labels)
  # label_codes() takes 0 for no label; here, 0 is a label.
  coded <- if (is.integer(labels) && length(labels) > 0 && isTRUE(min(labels) > 0)) {
    label_codes(labels)
  }
  values <- if (is.null(coded)) unique(labels[!is.na(labels)]) else coded$labels
  if (is.character(values)) {
    values <- natural_sort(values)
    names <- values
  } else {
    values <- sort(values)
    names <- vapply(values, format, "", digits = 15, scientific = 15, decimal.mark = ".")
  }
  codes <- if (is.null(coded)) match(labels, values) else coded$codes
  # factor() would match once more. Numbers that differ after 15 digits have one name.
  if (anyDuplicated(names) > 0) return(factor(codes, seq_along(values), names))
  structure(codes, levels = names, class = "factor")
}

natural_sort <- function(text) {
  valid <- enc2utf8(valid_text(text))
  key <- ascii_lower(valid)
  digits <- gregexpr("[0-9]+", key)
  regmatches(key, digits) <- lapply(regmatches(key, digits), function(numbers) {
    numbers <- sub("^0+(?=[0-9])", "", numbers, perl = TRUE)
    # The number of digits comes first.
    sprintf("%05d%s", nchar(numbers), numbers)
  })
  text[order(key, valid, method = "radix")]
}

# The counts of `groups` in populations, as shares of each population (margin 1) or of each group
# (margin 2). The members of a group in no population count in the size of the group.
shares <- function(population, groups, names, margin) {
  if (is.null(groups)) return(NULL)
  counts <- unclass(table(factor(population, 0:length(names)), groups))
  dimnames(counts) <- list(c("none", names), colnames(counts))
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
  if (engine == "base" || !is_there) "base" else "ComplexHeatmap"
}

# Splits the arguments in `...`: if ComplexHeatmap draws, arguments with names of its arguments are
# for the `engine`; all other arguments are for `observations`.
arguments_of_engine <- function(engine, ...) {
  given <- list(...)
  names <- names(given)
  if (engine == "base" || is.null(names)) return(list(observations = given, engine = list()))
  is_of_engine <- names %in% unlist(complex_arguments())
  list(observations = given[!is_of_engine], engine = given[is_of_engine])
}

# The ends of a colour scale.
range_of <- function(values, is_unit) if (is_unit) c(0, 1) else range(values)

share_limits <- function(shares) c(0, max(shares))

# Colours of medians, dark for low values, and of shares, white for 0.
median_palette <- function(count) grDevices::hcl.colors(count, "Viridis")
share_palette <- function(count) grDevices::hcl.colors(count, "Blues 3", rev = TRUE)

# Colours of gates, which do not depend on their number. The first ten are the palette "Tableau 10".
# Each of the next 14 is as far as possible from all colours before it, among colours of medium
# chroma; the least distance of two of these 24 colours in CIELAB is 26. The hues of further colours
# advance by the golden angle.
gate_colours <- function(count) {
  first <- c(
    unname(substr(grDevices::palette.colors(palette = "Tableau 10"), 1, 7)),
    "#641DA3", "#214F40", "#B02789", "#A699FC", "#81233E", "#636721", "#F1BD82", "#533B73",
    "#8F5611", "#B3CF98", "#51DDB5", "#E87FE3", "#C7C1F3", "#023FA5"
  )
  more <- seq_len(max(0, count - length(first)))
  c(first, grDevices::hcl(more * 137.5, 50, c(40, 60, 80)[more %% 3 + 1]))[seq_len(count)]
}

# The tree with raised heights, so that no branch leads down from a part to its merge.
drawn_tree <- function(tree) {
  tree$height <- raised_for_drawing(tree, numeric(length(tree$order)), step = 0.03)
  tree
}
