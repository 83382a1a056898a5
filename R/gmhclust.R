#' Mahalanobis-average hierarchical clustering
#'
#' Agglomerative hierarchical clustering in which every cluster measures distances in its own
#' shape: once it has enough members, by the Mahalanobis distance of its covariance. It finds
#' elongated and differently oriented populations, such as those of flow and mass cytometry, that
#' linkages with one fixed metric cut to pieces.
#'
#' @param X Numeric, integer or logical matrix or data frame, n observations in rows (n >= 2) by p
#'   dimensions in columns (p >= 1), all values finite. Row names become the labels of the leaves;
#'   the automatic row names of a data frame do not.
#' @param threshold The Mahalanobis threshold T, in members: a cluster of T members or more is
#'   *full-size* and its covariance is trusted entirely. A count when >= 1; a fraction of n when
#'   below 1 (T = threshold * n, not rounded). T refers to all of X, also inside apriori clusters.
#' @param apriori Clusters known beforehand: an integer, factor or character vector with one label
#'   for each observation, or `NULL`. 0 and `NA` mean "in none". A label with one member changes no
#'   merge. Where no two observations share a label, or one label holds everything, the result is as
#'   if `apriori` were not given. Labels are ordered as numbers, as factor levels, or as strings in
#'   the C locale.
#'
#'   One whole number, such as 1000, stands for the labels of so many clusters that [gkmeans()]
#'   finds in X, or in the scaled X where `scale`, in at most ten iterations. [set.seed()] makes
#'   them repeatable.
#' @param subthreshold How a cluster below the threshold measures distances; see *Shapes* below.
#' @param quick If `FALSE`, the distance of two clusters averages over all of their members (full
#'   Mahalanobis distance); if `TRUE`, it takes their centroids only (centroid Mahalanobis
#'   distance), which is faster.
#' @param normalize If `TRUE`, every cluster's metric is scaled to unit volume (determinant 1) to
#'   the end. If `FALSE`, only as long as not all clusters are full-size.
#' @param scale If `TRUE`, columns are centred and divided by their standard deviation first;
#'   constant columns are only centred.
#' @param apriori_intra If `FALSE`, observations within apriori clusters are joined in index order
#'   at height 0 instead of being clustered.
#' @param backend Where to compute: `"cpu"`; `"cuda"`, with the help of NVIDIA GPUs; or `"auto"`,
#'   with a GPU where there is one and the data are large enough to profit. The result does not
#'   depend on it, bit for bit. See [gpu_devices()] for what the GPU does, what it needs, and why it
#'   may be left out.
#' @param threads Number of CPU threads. `NULL` means `getOption("mc.cores")` if set, else the
#'   environment's `OMP_NUM_THREADS` if set, else all cores; never more than `OMP_THREAD_LIMIT`, nor
#'   more than two under `R CMD check`. The result does not depend on it, bit for bit.
#' @param progress Whether to draw a progress bar. Its estimate counts the work of all merges still
#'   to come, so it advances evenly.
#' @param BPPARAM `NULL`, or what `SnowParam()`, `MulticoreParam()` or `BatchtoolsParam()` of
#'   package \pkg{BiocParallel} return: workers, here or on other machines, that share the
#'   clustering within apriori clusters, of about equal work each. What is above them is clustered
#'   here, and without apriori clusters all is. See *Workers* below. The result does not depend on
#'   it, bit for bit.
#' @param devices Which GPUs to use: their numbers, as [gpu_devices()] lists them, or `NULL` for all
#'   that are usable. Several share apriori clusters; without apriori clusters one is used.
#'
#' @section Shapes:
#' Let a cluster have m members and covariance S (divisor m - 1), and let w = min(1, m / T), with
#' w = 0 when m <= 2. It measures the distance of a point x from its centroid c as
#' sqrt((x - c)' M (x - c)), where M is the inverse of its effective covariance, by `subthreshold`:
#' * `"mahal"`: w S + (1 - w) f I, with f = det(S)^(1/p), or f = 1 where S is singular;
#' * `"mahal0"`: w S + (1 - w) I;
#' * `"euclidMahal"`: S for full-size clusters, I for others;
#' * `"euclid"`: I for every cluster until all clusters are full-size, then S.
#'
#' While normalising, M is divided by det(M)^(1/p). A singular effective covariance is replaced by
#' I. The distance of two clusters averages the two directions. When a merge makes all clusters
#' full-size for the first time, all distances are computed anew without normalising (unless
#' `normalize = TRUE`).
#'
#' @section Heights:
#' Heights are the distances at which clusters merged, in the order in which they did. This linkage
#' has inversions: a merge can be lower than an earlier one. Heights are reported as they are, with
#' one warning of class `gmhclust_warning_inversions`; `gcutree(h, k)` and `plot()` work all the
#' same, and [make_monotone()] removes the inversions for functions that need increasing heights,
#' such as `gcutree(h, h = )`. Heights are in units of X while normalising, and in standard
#' deviations of the clusters from then on, so they drop where normalising ends; `normalize = TRUE`
#' keeps one unit. Within apriori clusters the merges of all of them come first, lowest next merge
#' first.
#'
#' Ties are broken by index, so that the result is the same on every machine.
#'
#' Cut large trees with [gcutree()]: it gives the clusters of [stats::cutree()], whose time grows
#' with the square of n.
#'
#' @section Time and memory:
#' No matrix of all distances is ever made. Beside X itself, memory is about
#' * 40 p + 400 bytes per observation, 56 p + 600 with full distances: copies of X, means in double
#'   and single precision, and a few candidates for the nearest neighbour;
#' * 12 p (p + 1) + 300 bytes per cluster of 2 members or more, for its covariance and what is made
#'   of it. At most n/2 such clusters exist at a time, and typically less than n/10.
#'
#' That makes 1.1 kB per observation with 14 columns, and 2 to 4 kB with 39. With apriori clusters,
#' only the copies of X count for all observations, and the rest for those apriori clusters that are
#' worked on at the time, one for each thread. What a GPU's memory needs to hold: [gpu_devices()].
#'
#' The memory for observations is asked for before the work starts. Where that or memory on the way
#' is refused, by the machine, a container or `ulimit -v`, the call ends with a
#' `gmhclust_error_memory`; R goes on. A kernel that promises more memory than there is, as Linux
#' does by default, may still end R.
#'
#' Time grows with n^2 p; with G apriori clusters of about equal size, with (n^2 / G + G^2) p. An
#' interrupt (Ctrl-C) stops the work within a second. Ties, outliers and columns of very different
#' scale cost nothing: equal observations are found beforehand, and merge first, at height 0.
#'
#' With hundreds of columns, the p x p covariances take most of the time, p^3 operations a merge,
#' and the memory. Reduce the dimensions first, for example with [stats::prcomp()]. Data with more
#' columns than rows are refused where they would take hours: observations go in rows.
#'
#' @section Workers:
#' With `BPPARAM`, `threads` is the number of threads of each worker. `NULL` means, for workers that
#' are known to be on this machine, their share of its default, and for others the default where
#' they are. The same version of \pkg{gmhclust} has to be installed there. Workers of
#' `MulticoreParam()` are forks of this process: CUDA does not work in them once this process has
#' used it, so with GPUs use `SnowParam()`.
#'
#' An error on a worker has the class that it has here, and names the worker's part of the work.
#' Where a worker was lost, the class is `gmhclust_error_worker`; what went wrong outside of this
#' package, such as in reading or writing a file, has the class `gmhclust_error` alone.
#'
#' @section Errors:
#' Conditions of class `gmhclust_error` and of one of `gmhclust_error_input` (an argument is not
#' what it needs to be), `gmhclust_error_device` (no such backend on this machine, or it failed),
#' `gmhclust_error_memory` (the data do not fit) and `gmhclust_error_interrupt` (interrupted).
#'
#' @return An object of class [`hclust`][stats::hclust]:
#' \describe{
#'   \item{`merge`}{integer matrix, n - 1 by 2: the clusters that each step merged; negative numbers
#'     are observations, positive ones earlier steps.}
#'   \item{`height`}{double vector, n - 1: the distances at which they merged, see *Heights*.}
#'   \item{`order`}{integer vector, n: the leaves from left to right, without crossing branches.}
#'   \item{`labels`}{row names of X, or `NULL`.}
#'   \item{`method`, `dist.method`}{`"mahalanobis-average"` and `"euclidean"`.}
#'   \item{`call`}{the call.}
#'   \item{`backend`}{`"cpu"` or `"cuda"`: the backend that was chosen.}
#' }
#' With apriori clusters in effect, also
#' \describe{
#'   \item{`apriori`}{the labels as given, or as found by [gkmeans()].}
#'   \item{`n.height.apriori`}{how many merges, the first ones, lie within apriori clusters.}
#'   \item{`g.labels`}{for each of those merges, the label of its apriori cluster.}
#' }
#'
#' @references
#' Fišer K, Sieger T, Schumich A, Wood B, Irving J, Mejstříková E, Dworzak MN (2012). Detection and
#' monitoring of normal and leukemic cell populations with hierarchical clustering of flow cytometry
#' data. *Cytometry Part A* 81A(1), 25-34. \doi{10.1002/cyto.a.21148}
#'
#' Šmelko A, Kratochvíl M, Kruliš M, Sieger T (2021). GPU-accelerated Mahalanobis-average
#' hierarchical clustering analysis. *Euro-Par 2021: Parallel Processing*, 580-595.
#' \doi{10.1007/978-3-030-85665-6_36}, which follows Šmelko's thesis (2020, Charles University,
#' Prague).
#'
#' Müllner D (2011). Modern hierarchical, agglomerative clustering algorithms. arXiv:1109.2378 (the
#' algorithm).
#'
#' @seealso [gkmeans()], [gcutree()], [cutree_apriori()], [make_monotone()], [check_hclust()];
#'   [gpu_devices()]; [mhclust()] for the arguments of package \pkg{mhca}; [stats::hclust()].
#'
#' @examples
#' cells <- lymphocytes()
#' X <- as.matrix(cells[seq(1, 20000, by = 20), 1:14])
#'
#' h <- gmhclust(X, threshold = 50)
#' plot(h, labels = FALSE, hang = 0)
#' table(gcutree(h, k = 6))
#'
#' # Clusters known beforehand make large data fast.
#' h <- suppressWarnings(gmhclust(X, threshold = 50, apriori = 30))
#' plot(cutree_apriori(h))
#' @export
gmhclust <- function(X, # nolint: object_name_linter.
                     threshold = 0.5,
                     apriori = NULL,
                     subthreshold = c("mahal", "mahal0", "euclid", "euclidMahal"),
                     quick = FALSE,
                     normalize = FALSE,
                     scale = FALSE,
                     apriori_intra = TRUE,
                     backend = c("auto", "cpu", "cuda"),
                     threads = NULL,
                     progress = interactive(),
                     devices = NULL,
                     BPPARAM = NULL) { # nolint: object_name_linter.
  call <- match.call()
  x <- as_observations(X, "X", call)
  workers <- check_workers(BPPARAM, "BPPARAM", call)
  options <- list(
    threshold = threshold_members(threshold, nrow(x), "threshold", call),
    subthreshold = check_choice(subthreshold, subthreshold_kinds, "subthreshold", call),
    quick = check_flag(quick, "quick", call),
    normalize = check_flag(normalize, "normalize", call),
    scale = check_flag(scale, "scale", call),
    apriori_intra = check_flag(apriori_intra, "apriori_intra", call),
    device = check_device(backend, threads, devices, call),
    progress = check_flag(progress, "progress", call),
    workers = workers,
    worker_device = check_device(backend, threads, devices, call, workers)
  )
  message_if_slow(x, options$subthreshold)
  if (is_single_number(apriori)) {
    apriori <- kmeans_labels(x, apriori, options, "apriori", call)
  }
  options$clusters <- apriori_clusters(apriori, nrow(x), "apriori", call)
  mahalanobis_average(x, apriori, options, call)
}

subthreshold_kinds <- c("mahal", "mahal0", "euclid", "euclidMahal")

# Those of gmhclust()'s options that the library takes as one list.
clustering_options <- c("threshold", "subthreshold", "quick", "normalize", "apriori_intra")

# Clusters checked input. `options` holds gmhclust()'s other arguments, checked; of them `threshold`
# is in members, and `clusters` is what apriori_clusters() made of the labels `apriori`.
mahalanobis_average <- function(x, apriori, options, call) {
  labels <- rownames(x)
  if (options$scale) x <- standardise(x)
  inner <- if (!is.null(options$workers) && !is.null(options$clusters) && options$apriori_intra) {
    merges_by_workers(x, options, call)
  }
  value <- run_job(
    job_gmhclust(x, options[clustering_options], options$clusters$codes, inner, options$device),
    options$progress, "Clustering", call
  )
  tree <- new_hclust(value$merge, value$height, value$order, labels, "mahalanobis-average", call)
  tree$backend <- value$backend
  if (!is.null(options$clusters)) {
    tree$apriori <- apriori
    tree$n.height.apriori <- value$n_height_apriori
    tree$g.labels <- options$clusters$labels[value$g_labels]
  }
  warn_inversions(tree$height, call)
  tree
}

# Operations in p x p covariances from which on a clustering takes minutes, and many columns are
# told of; and those from which on the library refuses data with more columns than rows.
slow_operations <- 1e12
too_many_operations <- 1e13

message_if_slow <- function(x, subthreshold) {
  operations <- nrow(x) * ncol(x)^3
  is_wide <- nrow(x) <= ncol(x)
  # Such kinds make no covariance of so few rows.
  is_refused_or_fast <- operations > too_many_operations || startsWith(subthreshold, "euclid")
  if (operations < slow_operations || is_wide && is_refused_or_fast) return(invisible())
  size <- paste(ncol(x), "x", ncol(x))
  message(
    "`X` has ", nrow(x), " rows and ", ncol(x), " columns, and each merge may factorise a ", size,
    " covariance, which takes long; observations go in rows, and fewer dimensions, for example of ",
    "prcomp(), are faster"
  )
}

# The merges within all apriori clusters, those of one after those of another, as workers find them.
merges_by_workers <- function(x, options, call) {
  codes <- options$clusters$codes
  members <- split(which(codes > 0), codes[codes > 0])
  shares <- balance_shares(lengths(members)^2, count_workers(options$workers))
  tasks <- lapply(shares, function(clusters) {
    rows <- sort(unlist(members[clusters], use.names = FALSE))
    list(x = x[rows, , drop = FALSE], codes = codes[rows], clusters = clusters)
  })
  shared <- list(options = options[clustering_options], device = options$worker_device)
  found <- run_tasks(
    tasks, "cluster_share", shared, options$workers,
    name = function(task) describe_clusters(options$clusters$labels[task$clusters]),
    what = "Clustering", call = call
  )
  # Each share has its clusters in increasing order of their codes.
  cluster <- unlist(lapply(shares, function(clusters) {
    rep(clusters, lengths(members)[clusters] - 1L)
  }))
  place <- order(cluster)
  merges <- function(part) unlist(lapply(found, `[[`, part))[place]
  list(lower = merges("lower"), higher = merges("higher"), height = merges("height"))
}

# What a worker does with its share of the apriori clusters.
cluster_share <- function(task, shared) {
  run_job(
    job_gmhclust_within(task$x, shared$options, task$codes, with_local_threads(shared$device)),
    FALSE, "Clustering"
  )
}

# Divides jobs of these costs into so many shares, or fewer, of about equal cost: the largest first,
# each to the share that has least. In each share the jobs' numbers increase.
balance_shares <- function(costs, count) {
  sums <- numeric(min(count, length(costs)))
  share <- integer(length(costs))
  for (job in order(costs, decreasing = TRUE)) {
    share[job] <- which.min(sums)
    sums[share[job]] <- sums[share[job]] + costs[job]
  }
  unname(split(seq_along(costs), share))
}

describe_clusters <- function(labels) {
  shown <- as.character(utils::head(labels, 5))
  if (length(labels) > 5) shown <- c(shown, paste(length(labels) - 5, "more"))
  paste0(ngettext(length(labels), "apriori cluster ", "apriori clusters "),
         paste(shown, collapse = ", "))
}
