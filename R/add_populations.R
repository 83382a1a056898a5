#' Add populations to objects of other packages
#'
#' Writes the population of each cell into the object that holds the cells, in the form that other
#' packages read: as a clustering of a `SingleCellExperiment`, for CATALYST; or as a channel of flow
#' cytometry data, for programs that read FCS files.
#'
#' @param x A `SingleCellExperiment`; a `flowFrame` or `flowSet` of package \pkg{flowCore}; or the
#'   value of [observations()] for names of FCS files.
#' @param populations Populations, from [cut_populations()], [name_populations()] or `predict()`; or
#'   population numbers from 1, 0 for none. They have an element for each cell, in the order of
#'   [observations()]; or, for a `SingleCellExperiment`, an element for each leaf of `tree`.
#' @param tree `NULL`, or the tree of the populations, to add nested cuts of it.
#' @param k The numbers of populations of the nested cuts. `NULL` means 2 to 20, or up to the number
#'   of populations in the tree if it has fewer than 20. The minimum size of their populations is
#'   the `min_members` of `populations`.
#' @param rest What to do with cells in no population of a nested cut: `"none"` makes them an
#'   additional cluster; `"nearest"` assigns them to the nearest population, which requires that the
#'   columns of `x` are the observations of the tree, see `...`. `populations` themselves do not
#'   change.
#' @param ... Arguments of methods; for a `SingleCellExperiment` and `rest = "nearest"`, the
#'   arguments of [observations()] with which the tree was made, for example `assay = "exprs"`.
#'
#' @section CATALYST:
#' Functions of \pkg{CATALYST} take a clustering by name: `plotExprHeatmap(x, by = "cluster_id", k =
#' "meta8")`. They look up the clustering in the data frame `metadata(x)$cluster_codes`, in the row
#' of the cell's `colData(x)$cluster_id`. All columns of this data frame are factors:
#' \describe{
#'   \item{`base`}{only with `tree`; it replaces the codes of the self-organizing map. Cells with
#'     the same population in all other columns have the same number.}
#'   \item{`meta2`, `meta3`, ...}{only with `tree`: the populations of `cut_populations(tree, k)`,
#'     by number. With `rest = "nearest"`, cells in no population are assigned to the nearest
#'     population of the finest cut, and to the populations of coarser cuts that contain it.}
#'   \item{`population`}{`populations`, by name.}
#' }
#'
#' Cells in no population have the last level, `"none"`, because functions of CATALYST fail with
#' missing values. These cells count as one more cluster: `filterSCE(x, cluster_id != "none", k =
#' "population")` leaves them out. Clusterings of an earlier call, or of `CATALYST::cluster()`, are
#' replaced, and `SOM_codes` and `delta_area` are removed, since they belong to the replaced
#' clusterings.
#'
#' If `rowData(x)$marker_class` is missing and the populations have a model, the columns of the
#' model get the class `"type"` and all other rows of `x` the class `"state"`, as
#' `CATALYST::cluster()` does. The plots also need the sample of each cell as `x$sample_id`, and
#' transformed values as assay `"exprs"`; `CATALYST::prepData()` provides both.
#'
#' `diffcyt::diffcyt(x, clustering_to_use = "population", ...)` takes the same object.
#'
#' @section Flow cytometry:
#' A channel `population` with the number of each cell, 0 for none, is appended by flowCore's
#' `fr_append_cols()`. Names of populations are stored as keywords `POPULATION1`, `POPULATION2`, ...
#' For a `flowSet`, `populations` has the cells of all samples, one sample after the other, as in
#' [observations()]. `write.FCS()` writes the channel and the keywords; [observations()] leaves out
#' the channel by default. Convert a `cytoframe` or `cytoset` first.
#'
#' For FCS files, each new file in folder `output` has the events of the old file, byte for byte,
#' and the channel; and the keywords of the old file, and those with the names of the populations.
#' An analysis stored in the old file (segment ANALYSIS) is left out. Files are written one after
#' the other, in blocks, and get their names when they are complete. After an error, none of the new
#' files is left.
#'
#' @return `x` with the populations; for files, the names of the new files, invisibly.
#' @section Errors:
#' A condition of class `gmhclust_error_input` if `x` is of another class, if `populations` do not
#' fit `x`, if `tree` has fewer populations than `k`, if `x` already has a channel `population`, or
#' if a package is not installed.
#' @seealso [cut_populations()], [name_populations()], [count_populations()]
#' @references
#' Nowicka M, Krieg C, Crowell HL, et al. (2017). CyTOF workflow: differential discovery in
#' high-throughput high-dimensional cytometry datasets. *F1000Research* 6, 748.
#' \doi{10.12688/f1000research.11622.1}
#' @examples
#' cells <- lymphocytes()[seq(1, 20000, by = 20), ]
#' if (requireNamespace("SingleCellExperiment", quietly = TRUE)) {
#'   sce <- SingleCellExperiment::SingleCellExperiment(
#'     list(exprs = t(as.matrix(cells[1:14]))), colData = data.frame(sample_id = factor(cells$ids))
#'   )
#'   tree <- gmhclust(sce, threshold = 50, assay = "exprs")
#'   population <- name_populations(cut_populations(tree, 6, min_members = 20), c("CD4 T" = 1))
#'   sce <- add_populations(sce, population, tree = tree, k = 2:8)
#'
#'   codes <- S4Vectors::metadata(sce)$cluster_codes
#'   head(codes[c("base", "meta2", "meta4", "meta8", "population")])
#'   # As CATALYST::cluster_ids(sce, "population"):
#'   table(codes$population[match(sce$cluster_id, codes$base)])
#' }
#' @export
add_populations <- function(x, populations, ...) {
  if (missing(x)) refuse_missing("x", needs_cells, match.call())
  UseMethod("add_populations")
}

#' @rdname add_populations
#' @export
add_populations.default <- function(x, populations, ...) {
  refuse("x", paste("is", describe(x)), needs_cells, sys.call())
}

needs_cells <- paste(
  "it must be a SingleCellExperiment, a flowFrame, a flowSet or observations() of files; a data",
  "frame takes as.integer(populations) as a column"
)

# ---- SingleCellExperiment -----------------------------------------------------------------------

# nolint start: object_name_linter, object_length_linter. The classes' names.

#' @rdname add_populations
#' @export
add_populations.SingleCellExperiment <- function(x, populations, tree = NULL, k = NULL,
                                                 rest = c("none", "nearest"), ...) {
  call <- sys.call()
  need_package("SingleCellExperiment", call)
  rest <- check_choice(rest, c("none", "nearest"), "rest", call)
  if (is.null(tree) || rest == "none") check_no_more(x, ..., call = call)
  if (is.null(tree) && !is.null(k)) refuse("k", "is given", "it needs `tree`", call)
  of <- population_numbers(populations, "populations", call)
  n <- tryCatch(ncol(x), error = function(e) NULL)
  if (!is_single_number(n)) refuse("x", "has no number of cells", needs_experiment, call)
  of$number <- numbers_of_cells(of$number, populations, tree, n, call)
  cells <- tryCatch(colnames(x), error = function(e) NULL)
  if (is.null(tree)) {
    check_row_order(cells, names(populations), "x", call, "`populations`")
  } else {
    check_row_order(cells, labels_of_observations(tree), "x", call)
  }
  cuts <- if (!is.null(tree)) {
    options <- list(threads = NULL, progress = FALSE, memory = NULL)
    data <- if (rest == "nearest") data_of_leaves(x, tree, "x", options, call, ...)
    on.exit(release_rows(data$x))
    nested_cuts(tree, k, attr(populations, "min_members"), data, call)
  }
  codes <- cluster_codes(c(cuts, list(population = with_none(of$number, of$names))))
  model <- attr(populations, "model")
  tryCatch(with_codes(x, codes, model), error = function(e) {
    got <- paste0("is ", describe(x), ", which cannot be changed: ", conditionMessage(e)[1])
    refuse("x", got, needs_experiment, call)
  })
}

needs_experiment <- "it must be a valid SingleCellExperiment: see validObject()"

# nolint end

# The population of each of n cells. If `tree` is the top of a tree, each of its leaves stands for
# several cells.
numbers_of_cells <- function(number, populations, tree, n, call) {
  if (!is.null(tree)) {
    check_tree(tree, "tree", call)
    leaves <- length(tree$order)
    cells <- if (is.null(tree$leaf)) leaves else length(tree$leaf)
    if (cells != n) {
      refuse("tree", paste("is of", cells, "observations"), paste("`x` has", n, "cells"), call)
    }
    if (length(number) == leaves && !is.null(tree$leaf)) return(number[tree$leaf])
  } else {
    check_one_per_cell(populations, list(number = number), "populations", call)
  }
  if (length(number) != n) {
    refuse("populations", paste("has length", length(number)), paste("`x` has", n, "cells"), call)
  }
  number
}

# A factor of the populations of cells, with a last level "none" if some cells are in no population.
with_none <- function(number, names) {
  levels <- c(names, if (any(number == 0L)) "none")
  codes <- ifelse(number == 0L, length(names) + 1L, number)
  structure(codes, levels = levels, class = "factor")
}

# Codes of cells for CATALYST. `clusterings` is a list of factors, each with the cluster of each
# cell. Returns a list: the `table` has a row for each combination of clusters that occurs, and the
# code of the row in its first column; `cell` has the code of each cell. A single clustering is its
# own code.
cluster_codes <- function(clusterings) {
  if (length(clusterings) == 1) {
    levels <- levels(clusterings[[1]])
    table <- data.frame(factor(levels, levels))
    names(table) <- names(clusterings)
    return(list(table = table, cell = clusterings[[1]]))
  }
  # Rows in the order of the first clustering, then of the second one, and so on.
  base <- rep(1L, length(clusterings[[1]]))
  for (clusters in clusterings) {
    pair <- (base - 1) * nlevels(clusters) + as.integer(clusters)
    base <- match(pair, sort(unique(pair)))
  }
  first <- match(seq_len(max(base)), base)
  levels <- as.character(seq_along(first))
  table <- c(list(base = factor(levels, levels)), lapply(clusterings, `[`, first))
  list(
    table = data.frame(table, check.names = FALSE),
    cell = structure(base, levels = levels, class = "factor")
  )
}

# The cuts of a tree into k populations, for each k, as factors of cells named "meta2", "meta3", ...
# `data` is the value of data_of_leaves() to assign the rest to the nearest populations, else NULL.
nested_cuts <- function(tree, k, min_members, data, call) {
  members <- leaf_members(tree)
  check_memory("finding populations in a tree needs", bytes_per_leaf * length(members), call)
  min_size <- check_min_members(min_members, sum(members), call)
  condensed <- condense(tree, members, min_size, call)
  count <- (length(condensed$node) + 1L) %/% 2L
  if (is.null(k)) {
    if (count == 1) {
      got <- paste("has one population of at least", shown_count(ceiling(min_size)), "members")
      refuse("tree", got,
             "nested cuts need two; leave out `tree`, or cut it with smaller `min_members`", call)
    }
    k <- 2:min(count, most_nested_cuts)
  }
  k <- check_nested_counts(k, condensed, min_size, call)
  last <- seq_len(2L * max(k) - 1L)
  # For each leaf, the last cluster of the condensed tree that contains it, before it falls off.
  inside <- leaves_inside(tree$merge, condensed$node[last], call)
  first <- first_leaves(inside, condensed$parent[last])
  if (!is.null(data)) inside <- nearest_inside(inside, condensed, max(k), data, call)
  leaf <- if (is.null(tree$leaf)) seq_along(inside) else tree$leaf
  cuts <- lapply(k, function(k) {
    chosen <- top_clusters(condensed, k)
    chosen <- chosen[order(-condensed$size[chosen], first[chosen])]
    number <- match(last, chosen, nomatch = 0L)
    # Parents come before their children.
    for (cluster in last[-1]) {
      if (number[cluster] == 0L) number[cluster] <- number[condensed$parent[cluster]]
    }
    with_none(number[inside][leaf], as.character(seq_len(k)))
  })
  names(cuts) <- paste0("meta", k)
  cuts
}

# Maximum k of the nested cuts by default: the default number of metaclusters of CATALYST.
most_nested_cuts <- 20L

check_nested_counts <- function(k, condensed, min_size, call) {
  if (!is.numeric(k) || is.object(k) || length(k) == 0 || anyNA(k) || any(k < 2 | k != round(k))) {
    refuse("k", paste("is", describe(k)), "it must be whole numbers >= 2", call)
  }
  check_population_count(max(k), condensed, min_size, call)
  sort(unique(as.integer(k)))
}

# The first leaf in each cluster of the condensed tree, including the clusters below it.
first_leaves <- function(inside, parent) {
  first <- match(seq_along(parent), inside, nomatch = length(inside) + 1L)
  for (cluster in rev(seq_along(parent)[-1])) {
    up <- parent[cluster]
    first[up] <- min(first[up], first[cluster])
  }
  first
}

# Like `inside`, but a leaf in none of the k populations gets the cluster of the nearest population.
nearest_inside <- function(inside, condensed, k, data, call) {
  chosen <- top_clusters(condensed, k)
  population <- match(inside, chosen, nomatch = 0L)
  model <- fit_to_leaves(data, population, as.character(seq_len(k)), call)
  chosen[with_nearest(leaf_means(data), population, model, call)]
}

# x with the codes of cells, their table, and classes of markers by the model.
with_codes <- function(x, codes, model) {
  x$cluster_id <- codes$cell
  S4Vectors::metadata(x)$cluster_codes <- codes$table
  S4Vectors::metadata(x)[c("SOM_codes", "delta_area")] <- NULL
  with_marker_classes(x, model)
}

# x with classes of markers by the columns of the model, unless it has classes.
with_marker_classes <- function(x, model) {
  columns <- if (inherits(model, "population_model")) model$columns
  is_type <- rownames(x) %in% columns
  data <- SummarizedExperiment::rowData(x)
  if (!any(is_type) || !is.null(data$marker_class)) return(x)
  classes <- c("type", "state", "none")
  data$marker_class <- factor(ifelse(is_type, "type", "state"), classes)
  SummarizedExperiment::rowData(x) <- data
  x
}

# ---- flow cytometry -----------------------------------------------------------------------------

# nolint start: object_name_linter, object_length_linter. The classes' names.

#' @rdname add_populations
#' @export
add_populations.flowFrame <- function(x, populations, ...) {
  call <- sys.call()
  check_no_more(x, ..., call = call)
  need_package("flowCore", call)
  of <- populations_of_events(populations, nrow(flow_expressions(x, call)), call)
  with_channel(x, of$number, of$names, call)
}

#' @rdname add_populations
#' @export
add_populations.flowSet <- function(x, populations, ...) {
  call <- sys.call()
  check_no_more(x, ..., call = call)
  need_package("flowCore", call)
  frames <- frames_of_set(x, call)
  sizes <- vapply(frames, function(frame) nrow(flow_expressions(frame, call)), 0L)
  of <- populations_of_events(populations, sum(sizes), call)
  number <- split(of$number, rep(factor(seq_along(sizes)), sizes))
  marked <- lapply(seq_along(frames), function(i) {
    with_channel(frames[[i]], number[[i]], of$names, call)
  })
  names(marked) <- names(frames)
  flowCore::flowSet(marked, phenoData = read_slot(x, "phenoData", call))
}

#' @rdname add_populations
#' @export
add_populations.cytoframe <- function(x, populations, ...) {
  refuse("x", "is a cytoframe",
         "convert it by flowWorkspace::cytoframe_to_flowFrame(), which copies its events",
         sys.call())
}

#' @rdname add_populations
#' @export
add_populations.cytoset <- function(x, populations, ...) {
  refuse("x", "is a cytoset",
         "convert it by flowWorkspace::cytoset_to_flowSet(), which copies its events", sys.call())
}

# nolint end

populations_of_events <- function(populations, n, call) {
  of <- population_numbers(populations, "populations", call)
  check_one_per_cell(populations, of, "populations", call)
  if (length(of$number) != n) {
    refuse("populations", paste("has length", length(of$number)), paste("`x` has", n, "events"),
           call)
  }
  of
}

# The name of the channel; observations() leaves it out, see result_names.
population_channel <- "population"

# A flowFrame with the population of each event as a channel, and the names as keywords.
with_channel <- function(frame, number, names, call) {
  channels <- colnames(flow_expressions(frame, call))
  if (population_channel %in% channels) {
    refuse("x", paste("has a channel", quoted(population_channel)),
           "remove or rename it first", call)
  }
  marked <- flowCore::fr_append_cols(frame, matrix(
    as.double(number), dimnames = list(NULL, population_channel)
  ))
  if (!identical(names, as.character(seq_along(names)))) {
    flowCore::keyword(marked)[paste0("POPULATION", seq_along(names))] <- as.list(names)
  }
  marked
}
