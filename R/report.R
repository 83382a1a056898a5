#' A page to choose, name and merge populations
#'
#' Writes one HTML file with the tree, the medians and sizes of its branches, and a sample of the
#' cells. A person opens it in a browser, opens and closes branches, names and merges populations,
#' and copies the R calls that make the very same populations. The page works without a server, a
#' network or R.
#'
#' @inheritParams plot_populations
#' @param file The name of the file to write. An existing file is replaced, unless it is a folder or
#'   a special file, such as a device.
#' @param populations The populations at the beginning: a result of [cut_populations()], also after
#'   [name_populations()]; a single number `k` means `cut_populations(tree, k)`, and `NULL` means
#'   `cut_populations(tree, x = x)`. Branches of the page have at least the `min_members` members of
#'   these populations.
#' @param gates `NULL`, or a label for each observation, such as its gate: at most 500 labels.
#' @param samples `NULL`, or a label for each observation: its sample or donor, at most 500. For a
#'   `flowSet` or `cytoset`, `NULL` means its samples.
#' @param support `NULL`, or the result of [stability()] for `tree`, or for the tree of which `tree`
#'   is the top: branches show their mean agreement.
#' @param most The greatest number of branches to which the tree can be opened, at most 1,000. It is
#'   smaller for many columns (about 6,000 divided by their number) and for many labels of gates and
#'   samples (about 125,000 divided by their number), so that the file stays below 5 MB.
#' @param title The title of the page.
#' @param ... Arguments of [observations()] for `x`.
#'
#' @details
#' **The page.** Each row of the tree is a branch: one side of a split of [cut_populations()]. A
#' branch that is not open is a population, unless it was left out. Beside it are its number of
#' members, the median of each column, the depth of the valley of its split, and its `support`. For
#' the selected branches, the page shows the density of each column against all cells, any two
#' columns as a picture, quantiles, and shares of gates and samples. It also has the picture of
#' `plot(populations)` for up to 30 populations, see [plot.populations()]. All steps can be undone.
#' The address of the page keeps the state: a bookmark or a reload restores it.
#'
#' Keys in the tree: arrows move, open and close; Space selects or deselects, also several branches;
#' `n` names, `m` merges, `u` separates merged branches, `x` leaves a branch out; Ctrl-Z undoes.
#'
#' **The R calls.** "Copy as R" gives a call of [cut_populations()], with `k` or with `branches`,
#' and a call of [name_populations()] if there are names. The result has the populations of the
#' page, cell by cell, with the same numbers and names. A last call stops if the populations have
#' other sizes, as they would in another tree. The calls have the expressions for `tree` and `x`
#' with which `report()` was called.
#'
#' **Cells in no population.** If a branch is opened, cells that fall off above its split are in no
#' population, as with argument `k` of [cut_populations()]. The page shows their number for each
#' open branch and for the whole tree. `rest = "nearest"` of `populations` has no effect on the page
#' and its calls.
#'
#' **What the file has.** The splits from the top of the tree; for each branch the number of
#' members, quantiles (5%, 25%, 50%, 75%, 95%), a density for each column in 100 steps, and the
#' counts of gates and samples; and a sample of at most 6,000 cells, evenly spaced in the leaf order
#' of the tree, and up to 60 cells of each of the smallest branches. Values of the sample are
#' rounded to 1/255 of the range of the column. The density of a branch is estimated with a normal
#' kernel and about the bandwidth of [stats::bw.nrd0()]. Nothing is random: the same arguments write
#' the same bytes. **Values of cells are in the file**, so share it only with people who may see
#' them.
#'
#' Quantiles of merged branches are computed from their densities, so they are approximate, and the
#' page says so.
#'
#' The page contains the library D3 (Bostock et al. 2011), and has a content security policy: it
#' loads and sends nothing.
#'
#' @section Time and memory:
#' Time is proportional to the size of `x`, and to the depth of the tree that the page shows. Memory
#' is a few integers for each row, besides `x`.
#'
#' @return The name of the file, invisibly.
#' @section Errors:
#' A condition of class `gmhclust_error_input` if an argument is invalid, if `populations` are no
#' branches of `tree`, if `x` has more than 1,000 columns, if package \pkg{jsonlite} is not
#' installed, or if the file cannot be written or is a special file, such as a device. After an
#' error, an existing file is unchanged.
#' @references
#' Bostock M, Ogievetsky V, Heer J (2011). D3: data-driven documents. *IEEE Transactions on
#' Visualization and Computer Graphics* 17(12), 2301-2309. \doi{10.1109/TVCG.2011.185}
#' @seealso [cut_populations()], [name_populations()], [plot_populations()], [stability()]
#' @examples
#' if (requireNamespace("jsonlite", quietly = TRUE)) {
#'   cells <- lymphocytes()[seq(1, 20000, by = 10), ]
#'   x <- as.matrix(cells[1:14])
#'   tree <- gmhclust(x, threshold = 50)
#'   page <- report(tree, x, tempfile(fileext = ".html"), samples = cells$ids)
#'   file.size(page)
#'   if (interactive()) utils::browseURL(page)
#' }
#' @export
report <- function(tree,
                   x,
                   file = "populations.html",
                   populations = NULL,
                   gates = NULL,
                   samples = NULL,
                   support = NULL,
                   most = 100,
                   title = NULL,
                   ...) {
  call <- match.call()
  check_tree(tree, "tree", call)
  if (missing(x)) refuse_missing("x", needs_observations, call)
  need_package("jsonlite", call, install = "install.packages")
  file <- check_file_name(file, call)
  support <- check_support(support, tree, call)
  most <- check_count(most, most_branches, "most", call)
  title <- check_title(title, call)
  leaf <- if (is.null(tree$leaf)) seq_along(tree$order) else as_integers(tree$leaf)
  x <- points_of_leaves(x, tree, "x", call, ...)
  if (ncol(x) > most_columns) {
    refuse("x", paste("has", shown_count(ncol(x)), "columns"),
           paste("a page has at most", shown_count(most_columns)), call)
  }
  if (is.null(samples)) samples <- attr(x, "sample")
  labels <- list(
    samples = check_page_labels(samples, length(leaf), "samples", call),
    gates = check_page_labels(gates, length(leaf), "gates", call)
  )
  room <- branch_room(most, ncol(x), nlevels(labels$samples) + nlevels(labels$gates))
  shown <- page_tree(tree, page_populations(tree, populations, x, call), room, call)
  shown$support <- support$mean[match(shown$id, support$merge)]
  cells <- cells_by_place(shown, leaf)
  values <- page_values(x, shown, cells)
  content <- list(
    title = title,
    code = code_parts(call),
    columns = page_columns(x),
    shown = shown,
    first = first_leaf_of_branches(shown),
    cells = length(leaf),
    values = values,
    sample = page_sample(x, values$range, shown, cells),
    samples = page_counts(labels$samples, shown, cells),
    gates = page_counts(labels$gates, shown, cells)
  )
  write_page(content, file, call)
  invisible(file)
}

# The greatest value of `most`, the greatest number of columns, and the greatest number of labels of
# gates or samples: with all of them, a page has less than 5 MB.
most_branches <- 1000L
most_columns <- 1000L
most_labels <- 500L

check_file_name <- function(file, call) {
  if (!is.character(file) || length(file) != 1 || is.na(file) || !nzchar(file)) {
    refuse("file", paste("is", describe(file)), "it must be the name of the file to write", call)
  }
  file <- path.expand(as.vector(file))
  if (!dir.exists(dirname(file))) {
    refuse("file", paste("is", quoted(file)), "its folder does not exist", call)
  }
  if (file.exists(file) && !is_regular_file(file)) {
    refuse("file", paste0("is ", quoted(file), ", which is a folder, a device or a pipe"),
           "it must be the name of a new file, or of a file to replace", call)
  }
  file
}

# Whether an existing file is neither a folder nor a device, a pipe or a socket. R's own functions
# recognize only folders, and opening a pipe would wait for its other end. The command `test` exists
# on all systems but Windows, which has no such files; its status is 1 for "no".
is_regular_file <- function(file) {
  if (dir.exists(file)) return(FALSE)
  .Platform$OS.type != "unix" || !identical(system2("test", c("-f", shQuote(file))), 1L)
}

check_title <- function(title, call) {
  if (is.null(title)) return("Populations")
  if (!is.character(title) || length(title) != 1 || is.na(title) || !nzchar(trimws(title))) {
    refuse("title", paste("is", describe(title)), "it must be one text", call)
  }
  check_encoding(title, "title", call)
  enc2utf8(as.vector(title))
}

check_page_labels <- function(labels, n, arg, call) {
  labels <- check_groups(labels, n, arg, call)
  if (nlevels(labels) > most_labels) {
    refuse(arg, paste("has", shown_count(nlevels(labels)), "labels"),
           paste("a page shows at most", most_labels), call)
  }
  labels
}

# The populations with which the page begins.
page_populations <- function(tree, populations, x, call) {
  if (is.null(populations) || is_single_number(populations)) {
    return(populations_of_number(tree, populations, x, "populations", call))
  }
  needs <- "it must be the value of cut_populations() or name_populations() for this tree"
  if (!inherits(populations, "populations")) {
    refuse("populations", paste("is", describe(populations)), needs, call)
  }
  check_populations(populations, "populations", call)
  n <- length(tree$order)
  if (length(populations) != n) {
    refuse("populations", paste("has length", length(populations)),
           paste("the tree has", n, "leaves"), call)
  }
  if (is.null(attr(populations, "roots")) || is.null(attr(populations, "min_members"))) {
    refuse("populations", "was not found in a tree", needs, call)
  }
  shown_populations(tree, populations, "populations", call) # checks that they fit the tree
  populations
}

# The expressions for the R calls of the page: `tree`, and `x` with further arguments of
# observations(); `x` is "" if they are too long.
code_parts <- function(call) {
  more <- call[!names(call) %in% c("", "tree", "x", "file", "populations", "gates", "samples",
                                   "support", "most", "title")]
  x <- c(expression_text(call$x), vapply(as.list(more), expression_text, ""))
  names(x) <- c("x", vapply(lapply(names(more), as.name), expression_text, ""))
  x <- if (all(nzchar(x))) paste(names(x), "=", x, collapse = ", ") else ""
  tree <- expression_text(call$tree)
  list(tree = if (nzchar(tree)) tree else "tree", x = x)
}

# The text of an expression of a call; "" if it is a long one, an object itself, or an argument
# `...` of the caller.
expression_text <- function(expression) {
  is_short <- is.symbol(expression) || is.call(expression) ||
    is.atomic(expression) && length(expression) == 1 && is.null(attributes(expression))
  if (!is_short || any(grepl("^[.][.]", all.names(expression)))) return("")
  text <- deparse(expression, width.cutoff = 500L, backtick = TRUE, nlines = 2L)
  if (length(text) > 1 || nchar(text) > 100) return("")
  enc2utf8(text)
}
