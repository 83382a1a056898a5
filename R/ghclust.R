#' Hierarchical clustering by linkage
#'
#' A faster [stats::hclust()], on all cores or a GPU. It clusters dissimilarities, or data without a
#' matrix of their distances in R.
#'
#' @param x Dissimilarities of n >= 2 observations, from [stats::dist()] or [gdist()], of at most
#'   1e150; or the observations themselves: a numeric, integer or logical matrix or data frame with
#'   observations in rows, all values finite. Values may be `NA` with `missing = "pairwise"`.
#' @param method The linkage, which may be abbreviated: `"ward.D"`, `"ward.D2"`, `"single"`,
#'   `"complete"`, `"average"` (UPGMA), `"mcquitty"` (WPGMA), `"median"` (WPGMC) or `"centroid"`
#'   (UPGMC).
#' @param members `NULL`, or a positive number for each observation: the number of members that it
#'   represents, as in [stats::hclust()]. Median linkage of data does not depend on it.
#' @param metric,absolute,p,zero_over_zero The distance between rows of data: `method` and the other
#'   arguments of [gdist()].
#' @param min_points `minPts` of HDBSCAN: the core distance of an observation is the distance to its
#'   `min_points`-th nearest observation, where the observation itself is the first. With more than
#'   1, `"single"` linkage of data merges clusters by *mutual reachability distances*, as HDBSCAN\*
#'   does; see *HDBSCAN*.
#' @param precision `"single"` stores dissimilarities, also the values of a dist object, in 4 bytes
#'   instead of 8, rounded to about 7 digits. Dissimilarities must then be at most 1e30. The
#'   argument has an effect only if a matrix is needed, see *Memory*.
#' @param missing What to do if data have missing values: `"refuse"` stops with an error;
#'   `"pairwise"` computes each distance from the columns in which both rows have values, see
#'   *Missing values*.
#' @param BPPARAM `NULL`, or workers that share the first search of `"single"` linkage of data, as
#'   in [gmst()]: `threads` is the number of threads of each worker, and of this process. The result
#'   is the same, bit for bit. With other linkages, workers are an error.
#' @param ... Arguments of [observations()] for `x`.
#' @inheritParams gdist
#'
#' @section Relation to `hclust()`:
#' From dissimilarities: if no two candidates are tied, merges and order equal the result of
#' [stats::hclust()], and heights agree to 1e-12. With ties, several trees are valid. The result is
#' one of these trees, the same for any number of threads and any backend: for `"complete"`, the
#' tree of [stats::hclust()]; for `"single"`, a tree with the same heights.
#'
#' From data: the result equals `ghclust(gdist(x, metric), method)`, except for four linkages.
#' * With Euclidean distances, `"centroid"` and `"median"` are geometric: heights are distances
#'   between centres. They are the square roots of the heights of `hclust(dist(x)^2, method,
#'   members)`, and equal the heights of `hclust.vector()` of package \pkg{fastcluster}. (The
#'   heights of [stats::hclust()] on plain distances are not distances between centres; to get that
#'   tree, call `gdist()` first.)
#' * With correlations and the cosine, `"average"` and `"mcquitty"` use the means of clusters
#'   instead of a matrix, see *Algorithms*. Without ties, merges and order are equal; heights differ
#'   by about 1e-15.
#'
#' @section HDBSCAN:
#' The core distance of an observation is the distance to its (`min_points` - 1)-th nearest other
#' observation. The mutual reachability distance of two observations is the largest of their
#' distance and their core distances (Campello et al. 2013). With `min_points` > 1, `"single"`
#' linkage uses these distances: outliers, whose core distances are large, no longer chain clusters.
#' Heights equal those of `dbscan::hdbscan(x, min_points)$hc`. Component `core` of the tree has the
#' core distances. Call [cut_populations()] with this tree alone: without `x` and `k`, it finds
#' HDBSCAN's clusters, membership strengths and outlier scores; with `x`, it finds populations by
#' valleys of density instead. No matrix is needed, with any metric. Missing values are an error.
#'
#' @section Missing values:
#' With `missing = "pairwise"`, the result for data with missing values equals `ghclust(gdist(x,
#' metric), method)`. [gdist()] leaves out the columns in which either row has no value, and scales
#' up the sum over the other columns, as [stats::dist()] does. If a pair of rows has no distance,
#' for example because the rows share too few columns, an error names the pair. With missing values,
#' R holds the distances: 8 bytes for each pair, in addition to the memory that a dist object needs
#' (see *Memory*). `"centroid"` and `"median"` linkage of Euclidean distances need the coordinates
#' of centres, so missing values are an error.
#'
#' @section Memory:
#' From data, without `members`, no matrix is needed for
#' * `"single"` with any metric;
#' * `"ward.D2"`, `"centroid"` and `"median"` with Euclidean distances;
#' * `"average"` and `"mcquitty"` with `"pearson"`, `"spearman"` and `"cosine"`, unless `absolute`.
#'
#' Memory then is proportional to the data: at most 50 p + 500 bytes for each observation of p
#' columns. Millions of observations are possible.
#'
#' All other calls need a matrix of n (n - 1) / 2 values of 8 bytes, or 4 with `precision =
#' "single"`: 40 or 20 GB for 100,000 observations.
#' * On the CPU, clustering data takes 1.8 times the memory of the matrix in all, or 2.3 times with
#'   `precision = "single"`. `"centroid"` and `"median"` take one matrix, plus up to 134 MB in
#'   single precision. A dist object is read in place; the work takes 0.8 times the memory of the
#'   matrix in addition, or 1.5 times in single precision (`"centroid"` and `"median"` one matrix,
#'   `"single"` nothing). Each observation takes about 2 kB more. If few pairs of observations are
#'   reciprocal nearest neighbours, the work needs up to 2 matrices, or 3 in single precision: then
#'   the call may stop with a `gmhclust_error_memory` after it has begun.
#' * On the GPU, device memory holds the matrix, and a copy of a sixteenth of its values in 8 bytes:
#'   for each pair of observations 8.5 bytes, or 4.5 in single precision. CPU memory holds only the
#'   data or the dist object. A device with 24 GB has room for about 74,000 observations (100,000 in
#'   single precision), a device with 141 GB for 180,000 (248,000).
#'
#' n may exceed 65,536, the limit of [stats::hclust()]. If the machine, or the device with `backend
#' = "cuda"`, has too little memory, the call normally stops at once, with a condition of class
#' `gmhclust_error_memory` that states the memory needed.
#'
#' @section GPU:
#' | call | work on the GPU |
#' |---|---|
#' | data, no matrix needed (see *Memory*) | the searches for neighbours |
#' | the same, `"ward.D2"`, `"average"`, `"mcquitty"` | all merges, or the last ones |
#' | data, `"complete"`, `"average"`, `"mcquitty"`, `"ward.D"`, `"ward.D2"` | distances, linkage |
#' | data, `"centroid"`, `"median"` | distances |
#' | dist object, `"complete"`, `"average"`, `"mcquitty"`, `"ward.D"`, `"ward.D2"` | linkage |
#' | dist object, `"single"`, `"centroid"`, `"median"` | nothing |
#'
#' The GPU makes all merges if the number of pairs of observations, n^2, times the number of columns
#' is at most 2^40: up to 280,000 observations of 14 columns, or 131,000 of 64. Of more
#' observations, it makes the last merges, once so few clusters remain.
#'
#' The CPU does all other work, and all linkage of fewer than 4,096 observations with a matrix. The
#' matrix stays in device memory. The device sends only the nearest neighbours of some clusters, and
#' single values, to the CPU, which decides the merges. See [gpu_devices()].
#'
#' @section Algorithms:
#' Complete, average, mcquitty and Ward's linkage merge all pairs of reciprocal nearest neighbours
#' at once. The tree is the same as with one merge at a time, because these linkages are reducible.
#' With a matrix, the nearest-neighbour chain algorithm continues if few pairs are reciprocal
#' (Murtagh 1983). Single linkage builds a minimum spanning tree, from data by Borůvka's algorithm
#' ([gmst()]).
#'
#' For the cosine and correlations, rows are scaled to unit length, for correlations after centring,
#' so that the distance of two rows is 1 minus their dot product. The mean distance of the members
#' of two clusters then is 1 minus the dot product of the clusters' means, so average linkage needs
#' the means only. In the means of `"mcquitty"`, both parts of a cluster have the same weight. As
#' for Ward's linkage of data, nearest neighbours are found by searches among the means.
#'
#' Centroid and median linkage use Müllner's generic algorithm. Time grows with n^2. With a matrix,
#' this is also the worst case, except for these two linkages; without a matrix, many tied or nearly
#' equal distances take longer.
#'
#' @inheritSection gmhclust Workers
#'
#' @inheritSection gmhclust Errors
#'
#' @return An object of class [`hclust`][stats::hclust] with all components of the value of
#'   [stats::hclust()]. Additional components are `backend`, the backend that was used, and
#'   `settings`, a list: the numbers of `observations`, of `columns` (from data without missing
#'   values) and of `inversions`, and `min_points` if it is more than 1. Then component `core` has
#'   the core distances. [plot_tree()] shows the top of a large tree.
#'
#' @references
#' Campello RJGB, Moulavi D, Sander J (2013). Density-based clustering based on hierarchical density
#' estimates. *Advances in Knowledge Discovery and Data Mining*, 160-172.
#' \doi{10.1007/978-3-642-37456-2_14}
#'
#' Lance GN, Williams WT (1967). A general theory of classificatory sorting strategies: 1.
#' Hierarchical systems. *The Computer Journal* 9(4), 373-380. \doi{10.1093/comjnl/9.4.373}
#'
#' Müllner D (2011). Modern hierarchical, agglomerative clustering algorithms. arXiv:1109.2378.
#'
#' Murtagh F (1983). A survey of recent advances in hierarchical clustering algorithms. *The
#' Computer Journal* 26(4), 354-359. \doi{10.1093/comjnl/26.4.354}
#'
#' Chang DJ, Desoky AH, Ouyang M, Rouchka EC (2009). Compute pairwise Manhattan distance and
#' Pearson correlation coefficient of data points with GPU. *10th ACIS International Conference on
#' Software Engineering, Artificial Intelligences, Networking and Parallel/Distributed Computing*,
#' 501-506.
#'
#' @seealso [gcutree()], [gdist()], [gmst()], [gmhclust()]; [stats::hclust()].
#'
#' @examples
#' tree <- ghclust(dist(USArrests), "average")
#' identical(tree$merge, hclust(dist(USArrests), "average")$merge)
#' plot(tree, hang = -1)
#'
#' # From data, with no matrix in R:
#' cells <- as.matrix(lymphocytes()[1:5000, 1:14])
#' tree <- ghclust(cells, "ward.D2")
#' table(gcutree(tree, k = 6))
#'
#' # HDBSCAN: clusters of high density, 0 for noise.
#' tree <- ghclust(faithful, "single", min_points = 10)
#' table(cut_populations(tree))
#' @export
ghclust <- function(x,
                    method = "complete",
                    members = NULL,
                    metric = "euclidean",
                    absolute = FALSE,
                    p = 2,
                    zero_over_zero = c("omit", "0", "1"),
                    min_points = 1,
                    precision = c("double", "single"),
                    missing = c("refuse", "pairwise"),
                    backend = getOption("gmhclust.backend", "auto"),
                    threads = getOption("gmhclust.threads"),
                    devices = getOption("gmhclust.devices"),
                    progress = getOption("gmhclust.progress", interactive()),
                    BPPARAM = NULL, # nolint: object_name_linter.
                    ...) {
  call <- match.call()
  # `missing` is an argument here.
  if (base::missing(x)) refuse_missing("x", needs_observations, call)
  method <- check_linkage(method, call)
  single <- check_choice(precision, c("double", "single"), "precision", call) == "single"
  workers <- check_workers(BPPARAM, "BPPARAM", call)
  device <- check_device(backend, threads, devices, call)
  progress <- check_progress(progress, call)
  min_points <- check_min_points(min_points, call)
  if (min_points > 1) check_reachability(x, method, members, min_points, call)
  missing <- check_choice(missing, c("refuse", "pairwise"), "missing", call)
  if (inherits(x, "dist")) {
    check_no_more(x, ..., call = call)
    refuse_metric(metric, absolute, p, zero_over_zero, call)
  } else {
    source <- as_data(x, "x", call, ...)
    x <- with_threads(threads, read_all(source, "x", call))
  }
  of_squares <- FALSE
  is_shared <- method == "single" && !inherits(x, "dist") && !(missing == "pairwise" && anyNA(x))
  if (!is.null(workers) && !is_shared) {
    refuse("BPPARAM", "is given",
           "workers share only \"single\" linkage of data without missing values", call)
  }
  if (missing == "pairwise" && !inherits(x, "dist") && anyNA(x)) {
    if (min_points > 1) {
      refuse("min_points", paste("is", min_points),
             "more than 1 needs observations without missing values", call)
    }
    options <- check_metric_options(metric, p, absolute, zero_over_zero, "metric", call)
    x <- pairwise_distances(x, method, options, device, progress, call)
  }
  if (inherits(x, "dist")) {
    refuse_similarities(x, "x", call)
    n <- dist_size(x)
    columns <- NULL
    labels <- dist_labels(x, n, call)
    dist_method <- attr(x, "method")
    x <- dist_values(x, n, call)
    members <- check_members(members, n, labels, call)
    job <- quote(job_ghclust_dist(x, n, method, members, single, device))
  } else {
    x <- check_observations(x, "x", call)
    members <- check_members(members, nrow(x), rownames(x), call)
    metric <- check_metric_options(metric, p, absolute, zero_over_zero, "metric", call)
    check_squares(x, metric, "x", call)
    if (min_points > 1) check_point_count(min_points, nrow(x), call)
    # The mean of two centers does not depend on numbers of members.
    if (method == "median" && metric$name == "euclidean") members <- NULL
    of_squares <- method == "centroid" && metric$name == "euclidean" && !is.null(members)
    spanning <- list(
      min_points = min_points,
      known = precomputed_neighbours(source, x, metric, min_points, workers,
                                     check_device(backend, threads, devices, call, workers), call)
    )
    job <- quote(job_ghclust_points(x, method, members, single, metric, spanning, device))
    columns <- ncol(x)
    labels <- rownames(x)
    dist_method <- metric$name
    if (of_squares) {
      squares <- squared_distances(x, metric, device, progress, call)
      job <- quote(job_ghclust_dist(squares, nrow(x), method, members, single, device))
    }
  }
  value <- run_job(eval(job), progress, "Clustering", call)
  core <- value$core
  if (of_squares) {
    value$height <- sqrt(pmax(value$height, 0))
  } else if (!is.null(columns)) {
    value <- value$tree
  }
  settings <- new_settings(
    observations = length(value$order), columns = columns,
    min_points = if (min_points > 1) min_points,
    inversions = count_inversions(value$height)
  )
  tree <- new_hclust(
    value$merge, value$height, value$order, labels, method, call, dist_method, settings
  )
  tree$backend <- value$backend
  tree$core <- core
  tree
}

# Stops if an argument says how distances are made of data, since `x` has the distances.
refuse_metric <- function(metric, absolute, p, zero_over_zero, call) {
  given <- c(
    metric = !identical(metric, "euclidean"), absolute = !identical(absolute, FALSE),
    p = !identical(as.numeric(p), 2), zero_over_zero = !identical(zero_over_zero[1], "omit")
  )
  if (!any(given)) return(invisible())
  refuse(names(which(given))[1], "is given", "`x` is a dist object, which has its distances", call)
}

# The squares of the Euclidean distances of the rows of x, in the order of a dist object.
squared_distances <- function(x, metric, device, progress, call) {
  value <- run_job(job_gdist(x, NULL, metric, device), progress, "Computing distances", call)
  value$distances^2
}

# The pairwise distances of the rows of x, which have missing values: an object of class "dist"
# without missing values. `metric` is the value of check_metric_options().
pairwise_distances <- function(x, method, metric, device, progress, call) {
  if (nrow(x) < 2) refuse("x", "has 1 row", "clustering needs at least 2 observations", call)
  infinite <- which(is.infinite(x), arr.ind = TRUE)
  if (length(infinite) > 0) {
    refuse("x", paste("has", x[infinite[1, , drop = FALSE]], "in row", infinite[1, 1]),
           "every value must be finite or missing", call)
  }
  if (metric$name == "euclidean" && method %in% c("centroid", "median")) {
    refuse("x", "has missing values", paste0("linkage \"", method, "\" needs the coordinates of ",
                                             "centres; use another linkage, or impute"), call)
  }
  value <- run_job(job_gdist(x, NULL, metric, device), progress, "Computing distances", call)
  distances <- value$distances
  if (anyNA(distances)) refuse_pair_without_distance(distances, x, call)
  attributes <- list(
    Size = nrow(x), Labels = rownames(x), method = metric$name, class = "dist"
  )
  with_attributes(distances, attributes, call)
}

# Stops with the names of the first pair of rows of x whose distance is missing.
refuse_pair_without_distance <- function(distances, x, call) {
  bad <- which(is.na(distances))
  n <- nrow(x)
  # The number of pairs before those whose first row is i.
  before <- function(i) (i - 1) * n - i * (i - 1) / 2
  first <- findInterval(bad[1] - 1, before(seq_len(n - 1)))
  pair <- c(first, bad[1] - before(first) + first)
  names <- if (is.null(rownames(x))) pair else quoted(rownames(x)[pair])
  got <- paste("has no distance between rows", names[1], "and", names[2])
  if (length(bad) > 1) {
    more <- length(bad) - 1
    got <- paste0(got, " (and ", format_number(more), ngettext(more, " more pair)", " more pairs)"))
  }
  refuse("x", got, "leave out rows with few values, or impute", call)
}

linkages <- c(
  "ward.D", "single", "complete", "average", "mcquitty", "median", "centroid", "ward.D2"
)

# The full name of a linkage, matched as in hclust().
check_linkage <- function(method, call) {
  method <- plain_text(method)
  if (identical(method, "ward")) {
    text <- "The \"ward\" method has been renamed to \"ward.D\"; note new \"ward.D2\""
    inform_user("ward", text, call)
    return("ward.D")
  }
  chosen <- if (is.character(method) && length(method) == 1) pmatch(method, linkages) else NA
  if (is.na(chosen)) {
    is_one <- is.character(method) && length(method) == 1
    got <- if (is_one) shortened(method) else describe(method)
    refuse_like_stats(
      paste("invalid clustering method", got),
      paste("`method` must be one of", paste(dQuote(linkages, FALSE), collapse = ", ")), call
    )
  }
  linkages[chosen]
}

# The values of a dist object as doubles; `n` is its number of observations.
dist_values <- function(x, n, call) {
  if (is.na(n)) refuse_like_stats("invalid dissimilarities", "see dist() and gdist()", call)
  if (n < 2) refuse_few(n, call)
  count <- n * (n - 1) / 2
  if (length(x) != count) {
    improper <- "dissimilarities of improper length"
    needs <- paste(n, "observations have", count, "but `x` has", length(x))
    if (length(x) < count) refuse_like_stats(improper, needs, call)
    warn_user("length", paste0(improper, "; ", needs), call)
    x <- x[seq_len(count)]
  }
  as_doubles(x)
}

# The labels of n observations, NULL if they have none.
dist_labels <- function(x, n, call) {
  labels <- attr(x, "Labels")
  if (!is.null(labels) && !(is.atomic(labels) && length(labels) %in% c(n, NA))) {
    needs <- paste("it needs one for each of its", n, "observations")
    got <- paste("has", length(labels), ngettext(length(labels), "label", "labels"))
    refuse("x", got, needs, call)
  }
  labels
}

# Refuses a dist object that holds similarities, such as the value of proxy::simil().
refuse_similarities <- function(x, arg, call) {
  diagonal <- attr(x, "diag")
  if (!inherits(x, "simil") && !(is.numeric(diagonal) && any(diagonal != 0))) return(invisible())
  needs <- paste(
    "linkage needs distances: for similarities s of at most 1, as.dist(1 - as.matrix(s)) or",
    "proxy::pr_simil2dist()"
  )
  refuse(arg, "holds similarities (class \"simil\")", needs, call)
}

# The number of observations of a dist object; NA if the object is invalid.
dist_size <- function(x) {
  n <- attr(x, "Size")
  valid <- is_single_number(n) && n == round(n) && n >= 0 && n <= .Machine$integer.max &&
    (is.numeric(x) || is.logical(x))
  if (valid) as.integer(n) else NA_integer_
}

refuse_few <- function(n, call) {
  refuse_like_stats("must have n >= 2 objects to cluster", paste("`x` has", n), call)
}

check_members <- function(members, n, labels, call) {
  if (is.null(members)) return(NULL)
  if (length(members) != n) {
    refuse_like_stats("invalid length of members",
                      paste("it is", length(members), "for", n, "observations"), call)
  }
  needs <- "they must be positive numbers, one for each observation, or NULL"
  # R takes the bits of integer64 for those of doubles.
  if (!is.numeric(members) || inherits(members, "integer64")) {
    refuse("members", paste("are", describe(members)), needs, call)
  }
  bad <- which(!is.finite(members) | members <= 0)
  if (length(bad) > 0) {
    refuse("members", paste("have", members[bad[1]], "at position", bad[1]), needs, call)
  }
  check_row_order(names(members), labels, "members", call, "`x`")
  as.double(members)
}
