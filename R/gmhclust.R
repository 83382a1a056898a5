#' Mahalanobis-average hierarchical clustering
#'
#' Agglomerative hierarchical clustering in which every cluster has its own metric: once it has
#' enough members, the Mahalanobis distance of its covariance. It finds elongated populations of
#' different orientation, for example in flow and mass cytometry, which linkages with one fixed
#' metric cut to pieces.
#'
#' @param x The observations: a numeric matrix or data frame, n observations in rows (n >= 2) by p
#'   dimensions in columns (p >= 1), all values finite; or flow cytometry data, a Bioconductor
#'   experiment or another object that [observations()] takes. Row names become the labels of the
#'   leaves; the automatic row names of a data frame do not.
#' @param threshold The Mahalanobis threshold T, a number of members: a cluster of T members or more
#'   is *full-size*, and its covariance has full weight. A value of 1 or more is a count; a value
#'   below 1 is a fraction of n (T = threshold * n, not rounded), where n counts all observations,
#'   also within apriori clusters. `NULL`, the default, means five times the number of columns, and
#'   less for small data; see *Threshold* below.
#' @param apriori Known groups of observations: an integer, factor or character vector with one
#'   label for each observation, for example gates, sample ids or clusters; the result of
#'   [stats::kmeans()] or [gkmeans()]; or `NULL`. 0 and `NA` mean "in no group". A label with one
#'   member changes no merge. If no two observations share a label, or all have the same label, the
#'   result is the same as with `apriori = NULL`. Labels are ordered as numbers, as factor levels,
#'   or as strings in the C locale.
#'
#'   A whole number, such as 1000, is a number of clusters: [gkmeans()] finds that number of
#'   clusters in `x` (scaled if `scale`), in at most ten iterations, and they become the apriori
#'   clusters. [set.seed()] makes the labels repeatable.
#' @param subthreshold The metric of a cluster below the threshold, see *Shapes* below.
#' @param distance The distance between two clusters: `"full"`, the average distance of the members
#'   of each cluster from the other cluster (full Mahalanobis distance); or `"centroid"`, the
#'   distance between the two centroids (centroid Mahalanobis distance), which is faster.
#' @param normalize If `TRUE`, the metric of every cluster is scaled to unit volume (determinant 1)
#'   for all merges. If `FALSE`, metrics are scaled only until all clusters are full-size.
#' @param scale If `TRUE`, columns are first centred and divided by their standard deviation;
#'   constant columns are only centred.
#' @param apriori_intra If `FALSE`, observations within apriori clusters are not clustered, but
#'   joined in index order at height 0.
#' @param redundant What to do with columns that are constant or depend linearly on others, see
#'   *Redundant columns*: `"drop"` leaves them out, `"keep"` keeps them.
#' @param warn If `TRUE`, messages report inversions (once per session) and singular covariances;
#'   see *Heights* and *Redundant columns* below.
#' @param output `NULL`, or a folder for the merges within apriori clusters; `apriori` must then be
#'   labels. Each file of the folder has the merges of about a million observations, and is written
#'   as soon as they are computed. If a call is repeated, after an interrupt or on another machine,
#'   it computes only the missing files. If data, labels or options have changed, their merges are
#'   computed anew. The folder is not needed once the tree is made.
#' @param part `NULL`, or two numbers, `c(i, n)`: compute only part i of n parts of these files, and
#'   leave the others to other calls, such as the jobs of a job array. A call without `part` then
#'   makes the tree. `part` needs `output`. The folder
#'   `system.file("recipes", package = "gmhclust")` has a SLURM array to copy.
#' @param backend Where to compute: `"cpu"`; `"cuda"`, on the CPU and NVIDIA GPUs; or `"auto"`, with
#'   a GPU if there is one and the data are large enough to profit. The result is the same, bit for
#'   bit. See [gpu_devices()] for the work of a GPU, its requirements, and the reasons why a GPU may
#'   not be used.
#' @param devices The GPUs to use: their numbers, as [gpu_devices()] lists them, or `NULL` for all
#'   usable GPUs. Several GPUs share the apriori clusters; without apriori clusters, only one GPU is
#'   used.
#' @param progress Whether to show progress and the time left: `TRUE` for a bar, or for lines on the
#'   error output if that is no terminal, such as the log of a batch job; `"progressr"` for the
#'   handlers of package \pkg{progressr}. Progress is the finished share of the work of all merges,
#'   so it advances evenly.
#' @param BPPARAM `NULL`, or workers that share the clustering within apriori clusters, here or on
#'   other machines: the value of `SnowParam()`, `MulticoreParam()` or `BatchtoolsParam()` of
#'   package \pkg{BiocParallel}, or a cluster of package \pkg{parallel} or \pkg{mirai}, see
#'   [parallel::makeCluster()]. All other work is done in this process. See *Workers* below. The
#'   result is the same, bit for bit.
#' @param ... Arguments of [observations()] for `x`.
#' @inheritParams gdist
#' @inheritParams gkmeans
#'
#' @section Shapes:
#' Let a cluster have m members, centroid c and covariance S (divisor m - 1), and let w = min(1, m /
#' T). The distance of a point x from the cluster is sqrt((x - c)' M (x - c)). If m <= 2, M is the
#' identity I, also in one column, where S need not be singular. Otherwise M is the inverse of the
#' effective covariance, which depends on `subthreshold`:
#' * `"mahal"`: w S + (1 - w) f I, with f = det(S)^(1/p), or f = 1 if S is singular;
#' * `"mahal0"`: w S + (1 - w) I;
#' * `"euclidMahal"`: S for full-size clusters, I for smaller clusters;
#' * `"euclid"`: I for every cluster until all clusters are full-size, then S.
#'
#' While normalising, M is divided by det(M)^(1/p). A singular effective covariance is replaced by
#' I. The distance between two clusters is the average of the distances in both directions. When a
#' merge makes all clusters full-size for the first time, all distances are computed again without
#' normalising (unless `normalize = TRUE`).
#'
#' @section Threshold:
#' The threshold must be large enough to estimate a covariance, and smaller than the populations to
#' be found. Let p be the number of columns, and s the size of the smallest population that you
#' expect, in cells.
#'
#' | smallest population | threshold |
#' |---|---|
#' | s >= 5 p | 5 p, the default; 3 p to 10 p do as well, up to s |
#' | 2 p <= s < 5 p | s |
#' | s < 2 p | 2 p, with fewer columns if possible: s cells do not define a covariance |
#'
#' The rule 5 p gives a threshold of 10 for 2 columns, 30 for 6, 70 for 14 and 150 for 30. `NULL`
#' means 5 p if n >= 50 p. Smaller data have smaller populations, so for them `NULL` means n / 10,
#' but at least 2 p, and at most n / 2. `tree$settings` shows the value.
#'
#' The evidence is `inst/benchmarks/threshold.R`: 36 data sets with known populations, with and
#' without apriori clusters, each cut into the true number of populations. The data sets are two
#' parallel ellipses, elliptical populations with outliers in 3 to 30 columns, and gated
#' lymphocytes. For the 30 data sets of at least 2,000 observations, the adjusted Rand index (ARI)
#' was, on average, below the ARI of the best threshold by
#'
#' | p + 1 | 2 p | 3 p | 5 p | 10 p | 20 p | 50 p | n / 10 | n / 2 |
#' |---|---|---|---|---|---|---|---|---|
#' | 0.12 | 0.02 | 0.01 | 0.01 | 0.01 | 0.02 | 0.06 | 0.08 | 0.33 |
#'
#' and for the 6 data sets of 100 to 500 observations by 0.00 with the default, 0.03 at 5 p and 0.09
#' at n / 2.
#' * Too low: covariances of p + 1 members are almost singular. With 14 and 30 columns and a
#'   smallest population of 50 among 5,000, the ARI was below 0.2, and 0.98 at 2 p.
#' * Too high: populations below the threshold are missed. With 30 columns, the F1 score of that
#'   population was 0.89 at 5 p = 150, and 0.20 at 10 p = 300. Ellipses of standard deviations 10
#'   and 0.5 at a gap of 4, 1,000 points each, had an ARI of 0.98 to 0.99 at thresholds from 4 to
#'   50, of 0.94 at 100, and of 0.01 at n / 2.
#' * The threshold hardly mattered for the lymphocytes: the ARI was 0.92 to 0.94 with 14 markers
#'   from 30 to n / 2, and 0.95 to 0.97 with 6 markers from 2 p to n / 2. With 3 columns, where
#'   populations overlapped, data sets differed by more (0.2) than thresholds did.
#'
#' @section Redundant columns:
#' A column that is constant, or a linear combination of others (a copy, a sum, the last of shares
#' that add up to 1), makes every covariance singular, and so every metric Euclidean. A Mahalanobis
#' distance does not depend on a redundant column. Therefore redundant columns are left out, and a
#' message of class `gmhclust_message_redundant` names them; `tree$settings$left_out` keeps their
#' names. Among columns that depend on each other, the last columns are left out. A column counts as
#' redundant if a linear combination of other columns predicts it to within a millionth of its
#' spread (the range of the middle four fifths of its values) in all rows, except at most 1% of the
#' rows (one row, if there are 20 to 99) and fewer than 2 p rows. [mhclust()] gives the same
#' message, but keeps redundant columns.
#'
#' A cluster of T members or more may have a singular covariance for other reasons: many equal
#' values, such as zeros, or a threshold of at most p members. `tree$settings$full_size` counts the
#' merges that make a full-size cluster, and `tree$settings$singular` counts the merges among them
#' whose cluster has a singular covariance. If `singular` is 1% of `full_size` or more, a message of
#' class `gmhclust_message_singular` says so, unless `warn` is `FALSE`.
#'
#' @section Heights:
#' Heights are the distances at which clusters merged, in the order of the merges. This linkage has
#' inversions: a merge can be lower than an earlier one. The result has the original heights, and
#' `tree$settings$inversions` counts the heights that are below an earlier one. The first tree of a
#' session that has inversions comes with a message of class `gmhclust_message_inversions`, unless
#' `warn` is `FALSE`. `gcutree(tree, k)`, [cut_populations()] and `plot()` accept inversions. For
#' functions that need increasing heights, such as `gcutree(tree, h = )`, [make_monotone()] removes
#' inversions.
#'
#' While metrics are normalised, heights have the unit of `x`; afterwards, their unit is the
#' standard deviation of the clusters. So heights drop at the merge where normalising ends.
#' `normalize = TRUE` keeps one unit.
#'
#' The merges within apriori clusters precede all other merges. They are interleaved: each apriori
#' cluster has its own sequence of merges, and the lowest of the next merges of all sequences always
#' comes first.
#'
#' Ties are broken by index, so the result is the same on every machine.
#'
#' @section Order of rows:
#' If the rows are reordered, the merges stay the same, and heights differ by rounding at most, with
#' three exceptions:
#' * `apriori = 1000` draws the initial centers of k-means by row number, so another order acts like
#'   another seed. With labels as `apriori`, the order does not matter.
#' * Ties are broken by index. Values measured on a coarse scale, such as whole numbers, have ties.
#' * A cluster below the threshold may have more than p members and a singular covariance
#'   nevertheless, because some of its rows are equal. Rounding may hide the singularity, and
#'   rounding depends on the order.
#'
#' To avoid all three exceptions, first sort the rows by their values, and then shuffle them with a
#' fixed seed: `x <- x[do.call(order, unname(as.data.frame(x))), ]`, then `set.seed(1)` and `x <-
#' x[sample(nrow(x)), ]`. Without shuffling, a message says that the first column looks like an
#' identifier, because it is sorted. `inst/benchmarks/populations.R` measures how much the
#' populations of cells change with the order of the rows and with the seed.
#'
#' @section Time and memory:
#' There is no matrix of all distances. In addition to `x`, memory is about
#' * 40 p + 460 bytes per observation, 56 p + 690 with full distances: copies of `x`, means in
#'   double and single precision, and a few candidates for the nearest neighbour;
#' * 12 p (p + 1) + 300 bytes per cluster of 2 members or more: its covariance and the matrices
#'   derived from it. At most n/2 such clusters exist at a time, and typically less than n/10.
#'
#' Measured in 14 columns: 0.9 kB per observation, 1.7 kB with full distances. With apriori
#' clusters, all observations take 8 p + 80 bytes, 32 p + 80 with full distances: a sorted copy of
#' `x`, merges and the tree. Only the apriori clusters that are being clustered, one per thread,
#' need the memory of the list above. With full distances, sums of distances are cached as long as
#' memory allows. For the memory of a GPU see [gpu_devices()].
#'
#' The memory for observations is requested before the work starts. If there is too little memory,
#' then or later, the call stops with a `gmhclust_error_memory`, and R continues. The limit is that
#' of the machine, of its container or job, or of `ulimit -v` (see *Memory* of [gdist()]). The call
#' also stops if other programs take the memory while it runs. If they take the memory within
#' milliseconds, however, the operating system may end R, because it grants more memory than it has.
#'
#' Time usually grows at most with n^2 p; for cells, `vignette("speed")` shows less. It grows faster
#' for values that divide many orders of magnitude evenly, such as successive powers of 1.1. With G
#' apriori clusters of about equal size, time grows with (n^2 / G + G^2) p. An interrupt (Ctrl-C)
#' stops the work within a second. Ties, outliers and columns of very different scales do not slow
#' it down. Equal observations merge first, at height 0.
#'
#' With hundreds of columns, the p x p covariances take most of the time (p^3 operations per merge)
#' and most of the memory. Reduce the dimensions first, for example with [stats::prcomp()]. Data
#' with more columns than rows are refused if clustering would take hours; observations must be in
#' rows.
#'
#' @section Data larger than memory:
#' Files, functions (see [observations()]) and a `DelayedMatrix` are read once, in blocks, as by
#' [gkmeans()], and never become a matrix of R. If `memory` is not enough for the values besides the
#' work, the values go into a scratch file, and a copy of them, sorted by apriori cluster, into a
#' second one; while the copy is written, a sixteenth of the values are in memory. With apriori
#' clusters, the work takes 80 bytes for each observation, 24 p + 80 with full distances,
#' because not all observations are clustered at a time. The tree is the same, bit for bit, in
#' either case.
#'
#' @section Workers:
#' With `BPPARAM`, `threads` is the number of threads of each worker. `NULL` means the default
#' number on the worker's machine; workers that are known to be on this machine share its default
#' number. The worker's machine must have the same version of \pkg{gmhclust}. Workers of
#' `MulticoreParam()` are forks of this process, and CUDA does not work in the forks of a process
#' that has used CUDA. So use `SnowParam()` with GPUs. After an interrupt, a cluster of package
#' \pkg{parallel} still sends the values of the interrupted call; the next call notices, and stops
#' with an error: stop the cluster, and make a new one.
#'
#' An error on a worker has the same class as without workers, and names the worker's part of the
#' work. If a worker was lost, the class is `gmhclust_error_worker`. Errors from outside this
#' package, for example from reading or writing a file, have only the class `gmhclust_error`.
#'
#' @section Errors:
#' Conditions of class `gmhclust_error` and of one of the classes `gmhclust_error_input` (an
#' argument is invalid), `gmhclust_error_device` (the chosen backend cannot be used, or it failed),
#' `gmhclust_error_memory` (too little memory) and `gmhclust_error_interrupt` (the user interrupted
#' the work). [gmhclust_conditions] lists all conditions.
#'
#' @return With `part = c(i, n)` and n > 1: `NULL`, invisibly. Otherwise an object of class
#'   [`hclust`][stats::hclust]. [plot_tree()] shows the top of a large tree. Its components are:
#' \describe{
#'   \item{`merge`}{integer matrix, n - 1 by 2: the clusters of each merge; negative numbers are
#'     observations, positive numbers earlier merges.}
#'   \item{`height`}{double vector, n - 1: the distance of each merge, see *Heights*.}
#'   \item{`order`}{integer vector, n: the leaves from left to right, without crossing branches.}
#'   \item{`labels`}{the row names of `x`, or `NULL`.}
#'   \item{`method`, `dist.method`}{`"mahalanobis-average"` and `"euclidean"`.}
#'   \item{`call`}{the call.}
#'   \item{`backend`}{`"cpu"` or `"cuda"`: the backend that was used.}
#'   \item{`settings`}{a list of the settings that were used and of counts, which prints as a table:
#'     `threshold` (in members), `subthreshold`, `distance` (`"full"` or `"centroid"`), `normalize`,
#'     `scale`, the numbers of `observations`, of `columns` that were used, of `apriori_clusters`
#'     and of `inversions`; `left_out`, `full_size` and `singular`, see *Redundant columns*.}
#' }
#' With apriori clusters, also
#' \describe{
#'   \item{`apriori`}{the labels as given, or from [gkmeans()].}
#'   \item{`n.height.apriori`}{the number of merges within apriori clusters, which come first.}
#'   \item{`g.labels`}{the label of the apriori cluster of each of these merges.}
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
#' @seealso [cut_populations()], [plot_populations()], [gcutree()], [cutree_apriori()], [gkmeans()],
#'   [make_monotone()], [check_hclust()];
#'   [gpu_devices()]; [mhclust()] for the arguments of package \pkg{mhca}; [stats::hclust()].
#'
#' @examples
#' cells <- lymphocytes()
#' x <- as.matrix(cells[seq(1, 20000, by = 20), 1:14])
#'
#' tree <- gmhclust(x, threshold = 50)
#' plot(tree, labels = FALSE, hang = 0)
#' table(gcutree(tree, k = 6))
#'
#' # Apriori clusters make large data fast.
#' tree <- gmhclust(x, threshold = 50, apriori = 30)
#' plot(cutree_apriori(tree))
#' @export
gmhclust <- function(x,
                     threshold = NULL,
                     apriori = NULL,
                     subthreshold = c("mahal", "mahal0", "euclid", "euclidMahal"),
                     distance = c("full", "centroid"),
                     normalize = FALSE,
                     scale = FALSE,
                     apriori_intra = TRUE,
                     redundant = c("drop", "keep"),
                     warn = TRUE,
                     output = NULL,
                     part = NULL,
                     backend = getOption("gmhclust.backend", "auto"),
                     threads = getOption("gmhclust.threads"),
                     devices = getOption("gmhclust.devices"),
                     memory = getOption("gmhclust.memory"),
                     progress = getOption("gmhclust.progress", interactive()),
                     BPPARAM = NULL, # nolint: object_name_linter.
                     ...) {
  call <- match.call()
  distance <- check_choice(distance, distances_of_clusters, "distance", call)
  device <- check_device(backend, threads, devices, call)
  progress <- check_progress(progress, call)
  part <- check_block_part(part, output, call)
  if (!is.null(output)) make_tree_folder(output, apriori, call)
  reading <- list(
    threads = device$threads, progress = progress, memory = check_budget_size(memory, call),
    copies = if (is.null(apriori)) 1 else 2
  )
  x <- as_stored_observations(x, "x", tree_bytes(distance, !is.null(apriori)), reading, call, ...)
  on.exit(release_rows(x))
  redundant <- check_choice(redundant, redundant_choices, "redundant", call)
  kept <- if (redundant == "drop") drop_redundant(x, "x", call) else list(x = x)
  x <- kept$x
  workers <- check_workers(BPPARAM, "BPPARAM", call)
  options <- list(
    threshold = if (is.null(threshold)) {
      default_threshold(nrow(x), ncol(x))
    } else {
      threshold_members(threshold, nrow(x), "threshold", call)
    },
    subthreshold = check_choice(subthreshold, subthreshold_kinds, "subthreshold", call),
    distance = distance,
    normalize = check_flag(normalize, "normalize", call),
    scale = check_flag(scale, "scale", call),
    apriori_intra = check_flag(apriori_intra, "apriori_intra", call),
    device = device,
    progress = progress,
    workers = workers,
    worker_device = if (!is.null(workers)) {
      check_device(backend, threads, devices, call, workers)
    },
    warn = check_flag(warn, "warn", call),
    left_out = kept$left_out,
    output = if (!is.null(output)) normalizePath(output),
    part = part
  )
  message_if_slow(x, options$subthreshold, call)
  x <- in_range(x, options$scale, "x", call)
  apriori <- if (is_single_number(apriori)) {
    kmeans_labels(x, apriori, options, "apriori", call)
  } else {
    labels_of(apriori, x, "apriori", call)
  }
  options$clusters <- apriori_clusters(apriori, nrow(x), "apriori", call)
  mahalanobis_average(x, apriori, options, call)
}

distances_of_clusters <- c("full", "centroid")

# A function of the number of columns p: the bytes that clustering takes at least for each
# observation, besides its values. In inst/benchmarks/memory.R, it took up to a fifth more.
tree_bytes <- function(distance, has_apriori) {
  is_full <- distance == "full"
  function(p) {
    if (has_apriori) return(if (is_full) 24 * p + 80 else 80)
    if (is_full) 48 * p + 640 else 24 * p + 460
  }
}

subthreshold_kinds <- c("mahal", "mahal0", "euclid", "euclidMahal")

# The options of gmhclust() that are passed to the library as one list.
clustering_options <- c("threshold", "subthreshold", "distance", "normalize", "apriori_intra")

# Clusters checked input. `options` has the other arguments of gmhclust(), checked. Its `threshold`
# is a number of members, and `clusters` is the value of apriori_clusters() for the labels
# `apriori`.
mahalanobis_average <- function(x, apriori, options, call) {
  labels <- rownames(x)
  by_tasks <- !is.null(options$clusters) && options$apriori_intra &&
    (!is.null(options$workers) || !is.null(options$output))
  is_part <- !is.null(options$output) && options$part[2] > 1
  # Without apriori clusters, or with apriori_intra = FALSE, there are no merges within apriori
  # clusters, and a part computes nothing.
  inner <- if (by_tasks) merges_by_tasks(x, options, call)
  if (is_part) return(invisible(NULL))
  value <- run_job(
    job_gmhclust(
      job_data(x), options[clustering_options], options$clusters$codes, inner, options$device
    ),
    options$progress, "Clustering", call
  )
  tree <- new_hclust(
    value$merge, value$height, value$order, labels, "mahalanobis-average", call,
    settings = clustering_settings(value, x, options)
  )
  tree$backend <- value$backend
  if (!is.null(options$clusters)) {
    tree$apriori <- apriori
    tree$n.height.apriori <- value$n_height_apriori
    tree$g.labels <- labels_at(value$g_labels, options$clusters$labels)
  }
  if (options$warn) {
    inform_of_singular(tree$settings, call)
    inform_of_inversions(tree, call)
  }
  tree
}

# Component `settings` of the tree that a job made of x with checked `options`.
clustering_settings <- function(value, x, options) {
  new_settings(
    threshold = options$threshold,
    subthreshold = options$subthreshold,
    distance = options$distance,
    normalize = options$normalize,
    scale = options$scale,
    observations = nrow(x),
    columns = ncol(x),
    left_out = options$left_out,
    apriori_clusters = length(options$clusters$labels),
    full_size = value$full_size,
    singular = value$singular,
    inversions = count_inversions(value$height)
  )
}

# Operations on p x p covariances (n p^3) from which a clustering takes minutes and gives a message.
slow_operations <- 1e12

# Gives a message if the number of columns makes the clustering slow, and the library accepts it.
message_if_slow <- function(x, subthreshold, call) {
  operations <- nrow(x) * ncol(x)^3
  is_wide <- nrow(x) <= ncol(x)
  # With no more rows than columns, the kinds "euclid" and "euclidMahal" compute no covariance.
  is_refused_or_fast <- operations > gmhclust_degenerate_limit() ||
    startsWith(subthreshold, "euclid")
  if (operations < slow_operations || is_wide && is_refused_or_fast) return(invisible())
  size <- paste(ncol(x), "x", ncol(x))
  inform_user(
    "slow",
    paste0(
      "`x` has ", nrow(x), " rows and ", ncol(x), " columns, and each merge may factorise a ", size,
      " covariance, which takes long; observations go in rows; fewer dimensions, for example ",
      "from prcomp(), are faster"
    ),
    call
  )
}
