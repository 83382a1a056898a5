#' Cells of each population in each sample
#'
#' Counts the cells of each population in each sample, as a matrix for packages for differential
#' abundance.
#'
#' @param populations Populations, from [cut_populations()], [name_populations()] or `predict()`; or
#'   population numbers from 1, 0 for none.
#' @param samples The sample of each cell: a label for each cell, such as attribute `sample` of the
#'   [observations()] of a `flowSet`; or the [observations()] of files or of a `cytoset`, in which
#'   each file is a sample. Samples are in the order of the levels of a factor; numbers are in
#'   increasing order, and so are numbers within text: patient2 comes before patient10.
#' @param rest Whether to add a last row `"none"` with the counts of cells in no population.
#'
#' @return An integer matrix with a row for each population, named as the populations are, and a
#'   column for each sample. If a sample has no cell in a population, the count is 0. A factor level
#'   without cells is a column of zeros.
#'
#' @details
#' Packages \pkg{edgeR} and \pkg{diffcyt} expect clusters in rows and samples in columns. They use
#' column sums as library sizes. With `rest = TRUE`, the library size is the number of all cells of
#' the sample, and `"none"` is tested like a population.
#'
#' @section diffcyt:
#' The functions for differential abundance of \pkg{diffcyt}, such as `testDA_edgeR()`, take a
#' `SummarizedExperiment` whose row data have a factor `cluster_id`, with levels in the order of the
#' rows. The following code makes one; `samples` is a data frame with a row for each column of
#' `counts`:
#'
#' ```
#' d_counts <- SummarizedExperiment::SummarizedExperiment(
#'   list(counts = counts),
#'   rowData = data.frame(
#'     cluster_id = factor(rownames(counts), levels = rownames(counts)),
#'     n_cells = rowSums(counts)
#'   ),
#'   colData = samples
#' )
#' design <- diffcyt::createDesignMatrix(samples, "group")
#' result <- diffcyt::testDA_edgeR(d_counts, design, diffcyt::createContrast(c(0, 1)))
#' ```
#'
#' @section Errors:
#' A condition of class `gmhclust_error_input` if `populations` is invalid, or if `samples` has
#' another length or `NA`.
#' @seealso [name_populations()]; [plot_populations()] draws the share of each population in each
#'   sample.
#' @examples
#' cells <- lymphocytes()[seq(1, 20000, by = 5), ]
#' x <- as.matrix(cells[1:14])
#' tree <- gmhclust(x, threshold = 50, apriori = 300)
#' counts <- count_populations(cut_populations(tree, k = 7), cells$ids)
#' counts[, 1:5]
#'
#' # Which populations differ between the two groups of donors?
#' if (requireNamespace("edgeR", quietly = TRUE)) {
#'   group <- cells$label[match(colnames(counts), cells$ids)]
#'   design <- model.matrix(~group)
#'   data <- edgeR::estimateDisp(edgeR::DGEList(counts), design, trend.method = "none")
#'   fit <- edgeR::glmFit(data, design)
#'   edgeR::topTags(edgeR::glmLRT(fit))
#' }
#' @export
count_populations <- function(populations, samples, rest = FALSE) {
  call <- match.call()
  rest <- check_flag(rest, "rest", call)
  of <- population_numbers(populations, "populations", call)
  if (missing(samples)) refuse_missing("samples", "it must be one label for each cell", call)
  check_one_per_cell(populations, of, "populations", call)
  check_row_order(names(samples), names(populations), "samples", call, "`populations`")
  samples <- check_samples(samples, length(of$number), "samples", call)
  rows <- length(of$names) + 1L
  as_count <- if (rows * nlevels(samples) < .Machine$integer.max) as.integer else as.double
  cell <- as_count(of$number) + as_count(rows) * (as_count(samples) - 1L) + 1L
  counts <- matrix(tabulate(cell, rows * nlevels(samples)), rows)
  dimnames(counts) <- list(c("none", of$names), levels(samples))
  counts[c(seq_len(rows)[-1], if (rest) 1L), , drop = FALSE]
}

# Stops if a leaf of x stands for several cells, as in the top of a tree.
check_one_per_cell <- function(x, of, arg, call) {
  sizes <- c(attr(x, "sizes"), attr(x, "rest"))
  if (!inherits(x, "populations") || !is.numeric(sizes) || anyNA(sizes)) return(invisible())
  if (sum(sizes) > length(of$number)) {
    refuse(arg, paste("is of", length(of$number), "leaves that stand for", shown_count(sum(sizes)),
                      "cells"),
           paste0("where `tree` was cut, `populations[tree$leaf]` has the number of each cell; if ",
                  "these are a part of the cells, use as.integer(", arg, ")"), call)
  }
}

# A factor of the sample of each of n cells. Levels without cells stay.
check_samples <- function(samples, n, arg, call) {
  if (is_row_blocks(samples)) {
    if (nrow(samples) != n) {
      refuse(arg, paste("has", shown_count(nrow(samples)), "rows"),
             paste("there are", shown_count(n), "cells"), call)
    }
    samples <- parts_of_rows(samples)
  }
  if (is.null(samples)) {
    refuse(arg, "is NULL", paste("it must be one label for each of the", n, "cells"), call)
  }
  ordered <- check_groups(samples, n, arg, call)
  if (anyNA(samples) || anyNA(ordered) || anyNA(levels(ordered))) {
    bad <- which(is.na(as.character(ordered)))
    refuse(arg, paste("has NA at position", bad[1]), "each cell must have a sample", call)
  }
  if (!is.factor(samples)) return(ordered)
  factor(levels(samples)[samples], levels(samples))
}
