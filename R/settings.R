# Component `settings` of a tree: a list of the settings and counts of a clustering, which prints as
# a table. NULL means that a setting does not apply.
new_settings <- function(...) {
  structure(class = "gmhclust_settings", Filter(Negate(is.null), list(...)))
}

#' Print the settings of a tree
#'
#' Shows component `settings` of a tree of [gmhclust()], [mhclust()] or [ghclust()]: distance,
#' threshold, normalisation, the numbers of observations, columns, apriori clusters and inversions,
#' and the columns that were left out.
#'
#' @param x Component `settings` of a tree.
#' @param ... Not used.
#' @return `x`, invisibly.
#' @examples
#' tree <- gmhclust(lymphocytes()[1:500, 1:14], threshold = 50)
#' tree$settings
#' @export
print.gmhclust_settings <- function(x, ...) {
  if (!is.list(x) || !is_single_number(x$observations)) {
    refuse("x", paste("is", describe(unclass(x))), "it must be component `settings` of a tree",
           match.call())
  }
  lines <- shown_settings(unclass(x))
  cat(paste0(format(names(lines)), ": ", lines, "\n"), sep = "")
  invisible(x)
}

# The lines to print, named by their titles. ghclust() sets only a few of them.
shown_settings <- function(settings) {
  columns <- settings$columns
  c(
    "Observations" = paste0(
      shown_count(settings$observations),
      if (!is.null(columns)) paste0(", ", columns, ngettext(columns, " column", " columns"))
    ),
    if (length(settings$left_out) > 0) {
      c("Columns left out" = paste(settings$left_out, collapse = ", "))
    },
    if (!is.null(settings$threshold)) shown_mahalanobis(settings),
    if (is_single_number(settings$min_points)) {
      c("Core distances" = paste("of", shown_count(settings$min_points), "points"))
    },
    if (isTRUE(settings$apriori_clusters > 0)) {
      c("Apriori clusters" = shown_count(settings$apriori_clusters))
    },
    if (isTRUE(settings$singular > 0)) {
      c("Singular" = paste(shown_count(settings$singular), "of", shown_count(settings$full_size),
                           "merges to full-size clusters, whose metric is Euclidean"))
    },
    if (isTRUE(settings$inversions > 0)) {
      c("Inversions" = paste(
        shown_count(settings$inversions),
        ngettext(settings$inversions, "height is below an earlier one",
                 "heights are below an earlier one")
      ))
    }
  )
}

# The lines for the settings that only gmhclust() and mhclust() have.
shown_mahalanobis <- function(settings) {
  c(
    "Distance" = switch(settings$distance,
      full = "Mahalanobis, averaged over all members",
      centroid = "Mahalanobis, between centroids"
    ),
    "Threshold" = paste0(
      shown_count(settings$threshold), " members, below \"", settings$subthreshold, "\""
    ),
    "Normalised" = if (isTRUE(settings$normalize)) {
      "always"
    } else {
      "until all clusters are full-size"
    },
    if (isTRUE(settings$scale)) c("Scaled" = "columns to standard deviation 1")
  )
}

# A count for a reader: 20,000. Thresholds may be any number: one whose digits would be more than 12
# characters longer than its scientific notation is shown as 1.5e-298.
# With `decimal.mark`, because option OutDec may also be ",".
shown_count <- function(count) {
  format(count, big.mark = ",", decimal.mark = ".", scientific = 12L, trim = TRUE)
}
