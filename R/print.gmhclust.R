#' Print a tree
#'
#' Shows the call and what was done: linkage, distance, threshold, normalisation, the numbers of
#' observations, apriori clusters and inversions, the backend and the time.
#'
#' @param x A tree, from [gmhclust()], [mhclust()], [ghclust()], [cutree_top()] or
#'   [cutree_apriori()].
#' @param ... Not used.
#' @return `x`, invisibly.
#' @examples
#' gmhclust(lymphocytes()[1:500, 1:14], threshold = 50)
#' @export
print.gmhclust <- function(x, ...) {
  if (!is_tree(x)) refuse("x", paste("is", describe(x)), needs_tree, match.call())
  if (!is.list(x$settings)) x$settings <- NULL
  if (!is.null(x$call)) cat("\nCall:\n", paste(deparse(x$call), collapse = "\n"), "\n\n", sep = "")
  lines <- c(
    "Cluster method" = x$method,
    "Distance" = shown_distance(x),
    "Number of objects" = shown_objects(x),
    shown_settings(x$settings),
    "Computed" = shown_work(x)
  )
  cat(paste0(format(names(lines)), ": ", lines, "\n"), "\n", sep = "")
  invisible(x)
}

shown_distance <- function(x) {
  switch(if (is.null(x$settings$distance)) "other" else x$settings$distance,
    full = "Mahalanobis, averaged over all members",
    centroid = "Mahalanobis, between centroids",
    x$dist.method
  )
}

shown_objects <- function(x) {
  columns <- x$settings$columns
  of_columns <- if (!is.null(columns)) {
    paste0(", ", columns, ngettext(columns, " column", " columns"))
  }
  leaves <- length(x$order)
  # Only the top of a tree has members.
  if (!is.numeric(x$members)) return(paste0(shown_count(leaves), of_columns))
  paste0(
    shown_count(leaves), " clusters of ", shown_count(sum(x$members)), " observations", of_columns
  )
}

# What gmhclust() did, one element for each line; for ghclust() only inversions.
shown_settings <- function(settings) {
  c(
    if (!is.null(settings$threshold)) {
      c(
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
    },
    if (isTRUE(settings$apriori_clusters > 0)) {
      c("Apriori clusters" = shown_count(settings$apriori_clusters))
    },
    if (isTRUE(settings$inversions > 0)) {
      c("Inversions" = paste(shown_count(settings$inversions), "heights are below an earlier one"))
    }
  )
}

shown_work <- function(x) {
  if (is.null(x$settings$seconds)) return(NULL)
  paste0(
    "in ", format(signif(x$settings$seconds, 2)), " s",
    if (is.character(x$backend)) paste0(", backend \"", x$backend, "\"")
  )
}

# A count for a reader: 20,000.
shown_count <- function(count) format(count, big.mark = ",", scientific = FALSE, trim = TRUE)
