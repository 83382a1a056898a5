#' Mahalanobis-average clustering with mhca's arguments
#'
#' [gmhclust()] with the name and the arguments of package \pkg{mhca}. Code written for \pkg{mhca}
#' runs after `library(mhca)` is changed to `library(gmhclust)`.
#'
#' @param x The data, as `x` of [gmhclust()].
#' @param thresh The Mahalanobis threshold, as `threshold` of [gmhclust()]: a fraction of the
#'   observations when below 1, else a count. The default, 0.5, is the default of \pkg{mhca};
#'   *Threshold* in [gmhclust()] recommends less.
#' @param scale,normalize As in [gmhclust()].
#' @param quick `TRUE` is `distance = "centroid"` of [gmhclust()], `FALSE` is `"full"`.
#' @param g Apriori clusters, as `apriori` of [gmhclust()], but not a number of clusters.
#' @param gIntra Whether to cluster within apriori clusters, as `apriori_intra` of [gmhclust()].
#' @param gParallel If `FALSE`, a single thread does all the work, unless `threads` or option
#'   `gmhclust.threads` gives the number of threads.
#' @param subthreshHandling As `subthreshold` of [gmhclust()].
#' @param warn As in [gmhclust()].
#' @param verb A number; if positive, progress is shown, see `progress` of [gmhclust()].
#' @param ... Arguments `backend`, `devices`, `threads`, `progress` and `BPPARAM` of [gmhclust()],
#'   and arguments of [observations()]; `threads` and `progress` override `gParallel` and `verb`.
#'   Other arguments are ignored with a warning that names them.
#'
#' @section Differences from mhca 0.2:
#' * The centroid distance (`quick = TRUE`) is the distance of mhca's R code and of the papers;
#'   mhca's C code, its default, gives other heights.
#' * With `"mahal"` in three dimensions or more, mhca's results for clusters with singular
#'   covariance depend on rounding; `mhclust()` uses f = 1 for these clusters, see *Shapes* in
#'   [gmhclust()].
#' * The covariance has the divisor m - 1, as in mhca, unlike in Šmelko's program.
#' * mhca warns of an apriori cluster with more members than the threshold. `mhclust()` does not:
#'   the threshold is the number of members that a reliable covariance needs, so a larger apriori
#'   cluster has a reliable covariance.
#' * Arguments that only concern mhca's implementation, such as `useR`, are ignored with a warning.
#'
#' In all other cases merges are identical and heights agree up to rounding. A constant or dependent
#' column makes all metrics Euclidean, as in mhca, with the message of *Redundant columns* in
#' [gmhclust()].
#'
#' @return The value of [gmhclust()]. With apriori clusters, component `g` has their labels, as in
#'   mhca.
#' @inheritSection gmhclust Errors
#' @inherit gmhclust references
#' @seealso [gmhclust()]; [cutreeApriori()] and other functions with mhca's names.
#'
#' @examples
#' x <- as.matrix(lymphocytes()[seq(1, 20000, by = 40), 1:14])
#' tree <- mhclust(x, thresh = 0.1, quick = TRUE, warn = FALSE)
#' plot(tree, labels = FALSE, hang = 0)
#' @export
# nolint start: object_name_linter. The names are mhca's.
mhclust <- function(x,
                    thresh = 0.5,
                    scale = FALSE,
                    quick = FALSE,
                    g = NULL,
                    gIntra = TRUE,
                    gParallel = TRUE,
                    normalize = FALSE,
                    subthreshHandling = c("mahal", "mahal0", "euclid", "euclidMahal"),
                    warn = TRUE,
                    verb = 0,
                    ...) {
  # nolint end
  call <- match.call()
  if (missing(x)) refuse_missing("x", needs_observations, call)
  extra <- backend_options(list(...), call)
  of_data <- extra[names(extra) %in% observation_options]
  x <- do.call(as_observations, c(list(x, "x", call, wide = TRUE), of_data), quote = TRUE)
  inform_of_redundant(x, "x", call)
  for (arg in c("backend", "threads", "devices")) {
    if (!arg %in% names(extra)) extra[arg] <- list(session_option(arg))
  }
  threads <- extra$threads
  if (!check_flag(gParallel, "gParallel", call) && is.null(threads)) threads <- 1L
  if (!is_single_number(verb)) {
    refuse("verb", paste("is", describe(verb)), "it must be one number", call)
  }
  progress <- if (is.null(extra$progress)) verb > 0 else extra$progress
  workers <- check_workers(extra$BPPARAM, "BPPARAM", call)
  g <- labels_of(g, x, "g", call)
  options <- list(
    threshold = threshold_members(thresh, nrow(x), "thresh", call),
    clusters = apriori_clusters(g, nrow(x), "g", call),
    subthreshold = check_choice(subthreshHandling, subthreshold_kinds, "subthreshHandling", call),
    distance = if (check_flag(quick, "quick", call)) "centroid" else "full",
    normalize = check_flag(normalize, "normalize", call),
    scale = check_flag(scale, "scale", call),
    apriori_intra = check_flag(gIntra, "gIntra", call),
    device = check_device(extra$backend, threads, extra$devices, call),
    progress = check_progress(progress, call),
    workers = workers,
    worker_device = if (!is.null(workers)) {
      check_device(extra$backend, threads, extra$devices, call, workers)
    },
    warn = check_flag(warn, "warn", call)
  )
  x <- in_range(x, options$scale, "x", call)
  tree <- mahalanobis_average(x, g, options, call)
  if (!is.null(tree$apriori)) tree$g <- tree$apriori
  tree
}

# Arguments of the methods of observations().
observation_options <- c(
  "channels", "use", "cofactor", "transform", "in_blocks", "of", "assay", "features", "dimred",
  "altexp", "rows", "rows_are_observations"
)

# The extra arguments that mhclust() passes on; warns of other arguments.
backend_options <- function(extra, call) {
  names <- if (is.null(names(extra))) rep("", length(extra)) else names(extra)
  known <- names %in% c(
    "backend", "threads", "progress", "devices", "BPPARAM", observation_options
  )
  if (!all(known)) {
    ignored <- ifelse(nzchar(names), paste0("`", names, "`"), "unnamed")[!known]
    text <- paste0(
      ngettext(length(ignored), "ignored argument: ", "ignored arguments: "),
      paste(ignored, collapse = ", ")
    )
    warn_user("ignored", text, call)
  }
  extra[known]
}
