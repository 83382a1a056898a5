#' k-means clustering by Lloyd's algorithm
#'
#' Lloyd's algorithm on all cores or an NVIDIA GPU. From the same initial centers, the result equals
#' the result of `kmeans(algorithm = "Lloyd")`, bit for bit. By default, k-means++ draws the initial
#' centers; `init = "random"` draws them as [stats::kmeans()] does. The result is a local minimum of
#' the sum of squares; `nstart` compares several starts.
#'
#' @param x Numeric, integer or logical matrix or data frame, n observations in rows (n >= 2), all
#'   values finite; or another object that [observations()] takes, such as files. Row names become
#'   the names of `cluster`.
#' @param centers The number of clusters k, or a matrix of k initial centers in rows, all distinct,
#'   with its columns in the order of the columns of `x`.
#' @param iter.max The maximum number of iterations. The default is the same as in scikit-learn, and
#'   is enough for most data; the default of [stats::kmeans()], 10, is hardly ever enough to
#'   converge.
#' @param nstart The number of starts from different initial centers, if `centers` is a number. The
#'   start with the smallest `tot.withinss` is returned.
#' @param init The method to draw initial centers, if `centers` is a number. `"kmeans++"` draws each
#'   row with a probability proportional to its squared distance from the centers drawn before;
#'   `"random"` draws all rows with equal probability, as [stats::kmeans()] does.
#' @inheritParams gdist
#' @param memory `NULL`, or a limit: a number of bytes, or a text such as `"8 GB"`. For a matrix, it
#'   limits the memory of the work besides `x`. For data that are read in blocks, it limits the
#'   memory of their values and of the work together: if it is too small for both, the values go
#'   into a scratch file, see *Data larger than memory* in [gkmeans()]. If it is too small for the
#'   work alone, the call stops with an error.
#' @param BPPARAM `NULL`, or workers that share the comparisons with centers, here or on other
#'   machines, as in [gknn()]; see *Over several processes or machines*. The result is the same, bit
#'   for bit.
#'
#' @details
#' An iteration assigns every observation to its nearest center; ties go to the center with the
#' smallest number. Then it moves every center to the mean of its members. The algorithm ends with
#' the first iteration that changes no assignment.
#'
#' R's random number generator draws the initial centers, so [set.seed()] makes results repeatable.
#' With `init = "random"`, the initial centers are the same as in [stats::kmeans()].
#'
#' A cluster that loses all members keeps its last center, and may get members in a later iteration.
#' A warning reports clusters that are empty in the end.
#'
#' @section How it works:
#' All decisions are computed in double precision, in the order of operations of
#' `kmeans(algorithm = "Lloyd")`. So the result is the same for any number of threads and on a GPU.
#'
#' The CPU compares observations with all centers in single precision. If the rounding error leaves
#' more than one center that may be nearest, the observation is compared with all centers in double
#' precision. Each observation has an upper bound on the distance from its own center, and a lower
#' bound on the distances from all other centers. Both bounds are updated as the centers move. If
#' they prove that its assignment does not change, the observation is skipped (Hamerly 2010). The
#' slower the centers move, the more observations are skipped. The draws of initial centers skip
#' observations by lower bounds on distances, computed along the first principal axes. In up to 24
#' columns, whole groups of observations are skipped, the leaves of a k-d tree (Bentley 1975); in
#' more columns, the triangle inequality skips further observations.
#'
#' A GPU draws the initial centers, compares all observations with all centers in the same two
#' steps, without skipping any, and moves the centers. With many centers, a GPU with the tensor
#' cores and the shared memory of an A100 or H100 first looks in half precision for centers that may
#' be nearer to an observation than its own center, and computes the distances to these few centers.
#' With 4,096 centers or more in at most 32 columns, a GPU compares each observation only with the
#' centers that are less than twice as far from its own center as the observation is (Elkan 2003),
#' if these are few. If a GPU's memory cannot hold the observations, the CPU does all of the work.
#'
#' @section Time and memory:
#' For p columns, the time per iteration grows with n k p and falls as the centers converge. In
#' addition to `x`, memory is about 8 bytes for each value and 80 bytes for each observation. A GPU
#' reads a matrix without a copy of it on the CPU. The CPU copies it, 8 bytes for each value, if one
#' cluster has more than an eighth of the observations, if the GPU fails, or if `x` is read in
#' blocks. On the GPU, memory is 12 bytes for each value and 32 bytes for each observation;
#' comparing in half precision takes about 2 bytes more for each value and 140 MB, or is left out.
#' An interrupt (Ctrl-C) stops the work within a second.
#'
#' An additional thread computes `totss`, bit for bit as [stats::kmeans()], once the values were
#' read.
#'
#' @section Data larger than memory:
#' Files, functions (see [observations()]) and a `DelayedMatrix` are read once, in blocks of 32 MB,
#' and are never a matrix of R. The values stay in memory if `memory` is enough for them and for the
#' work on them (8 bytes for each value and the bytes for each observation under *Time and memory*).
#' If `memory` is `NULL`, they stay in memory if twice as much is free. Otherwise they go into a
#' scratch file of the same size. The system reads pages of this file as they are needed, and
#' removes pages from memory when memory is short. The result is the same, bit for bit, in either
#' case. If `memory` is not enough for the work without the values, that is an error. The blocks
#' that are being read, and R itself, take further memory.
#'
#' Scratch files are in the folder of option `gmhclust.scratch`, by default [tempdir()]. Choose a
#' folder on a fast disk of this machine: some systems keep `/tmp` in memory, and if the disk fails
#' while the system reads a page, R crashes. No file is left when a call ends, even if R is killed.
#'
#' With `init = "random"` and `nstart` above 1, R reads all values to find distinct rows.
#'
#' @section Over several processes or machines:
#' In each iteration, every worker of `BPPARAM` compares an equal share of the rows with all
#' centers. It keeps these rows until the call ends. A matrix is sent to the workers; for files and
#' an `HDF5Array`, each worker gets only their names, and reads its rows itself. This process draws
#' the initial centers, holds a copy of the values, in memory or in a scratch file, and moves the
#' centers to their means. So workers are worth their cost on other machines, with many centers and
#' iterations; one process already has threads for all cores. Jobs of `BatchtoolsParam()` start anew
#' for each iteration. No progress is shown for the work of workers. Workers of \pkg{mirai} may keep
#' rows until their next call.
#'
#' @inheritSection gmhclust Workers
#'
#' @section Warnings:
#' A condition of class `gmhclust_warning_convergence` if the algorithm did not converge in
#' `iter.max` iterations, and of class `gmhclust_warning_empty` if clusters are empty.
#'
#' @inheritSection gmhclust Errors
#'
#' @return An object of class `"kmeans"`, as [stats::kmeans()] returns it; the methods `print()` and
#'   `fitted()` apply:
#' \describe{
#'   \item{`cluster`}{integer vector, n: the cluster number of each observation.}
#'   \item{`centers`}{matrix, k by p: the centers of the clusters.}
#'   \item{`totss`}{the sum of squares of all observations about their mean.}
#'   \item{`withinss`}{vector, k: the sum of squares of each cluster's members about its center.}
#'   \item{`tot.withinss`}{the sum of `withinss`.}
#'   \item{`betweenss`}{`totss - tot.withinss`.}
#'   \item{`size`}{integer vector, k: the number of members of each cluster.}
#'   \item{`iter`}{the number of the iteration that changed no assignment; `iter.max + 1` if every
#'     iteration changed one. With one cluster, `iter` is 1, as in [stats::kmeans()].}
#'   \item{`ifault`}{0, or 2 if the algorithm did not converge in `iter.max` iterations.}
#' }
#'
#' @references
#' Bentley JL (1975). Multidimensional binary search trees used for associative searching.
#' *Communications of the ACM* 18(9), 509-517. \doi{10.1145/361002.361007}
#'
#' Lloyd SP (1982). Least squares quantization in PCM. *IEEE Transactions on Information Theory*
#' 28(2), 129-137. \doi{10.1109/TIT.1982.1056489}
#'
#' Arthur D, Vassilvitskii S (2007). k-means++: the advantages of careful seeding. *Proceedings of
#' the 18th ACM-SIAM Symposium on Discrete Algorithms*, 1027-1035.
#'
#' Elkan C (2003). Using the triangle inequality to accelerate k-means. *Proceedings of the 20th
#' International Conference on Machine Learning*, 147-153.
#'
#' Hamerly G (2010). Making k-means even faster. *Proceedings of the 2010 SIAM International
#' Conference on Data Mining*, 130-140. \doi{10.1137/1.9781611972801.12}
#'
#' @seealso [gmhclust()], whose `apriori` takes `cluster`; [stats::kmeans()].
#'
#' @examples
#' x <- as.matrix(iris[1:4])
#' set.seed(1)
#' fit <- gkmeans(x, 3, nstart = 5)
#' fit$centers
#' table(fit$cluster, iris$Species)
#' @export
gkmeans <- function(x,
                    centers,
                    iter.max = 300, # nolint: object_name_linter.
                    nstart = 1,
                    init = c("kmeans++", "random"),
                    backend = getOption("gmhclust.backend", "auto"),
                    threads = getOption("gmhclust.threads"),
                    devices = getOption("gmhclust.devices"),
                    memory = getOption("gmhclust.memory"),
                    progress = getOption("gmhclust.progress", interactive()),
                    BPPARAM = NULL, # nolint: object_name_linter.
                    ...) {
  call <- match.call()
  workers <- check_workers(BPPARAM, "BPPARAM", call)
  options <- list(
    iterations = check_count(iter.max, .Machine$integer.max - 1, "iter.max", call),
    device = check_device(backend, threads, devices, call),
    progress = check_progress(progress, call),
    memory = check_budget_size(memory, call)
  )
  reading <- c(options["memory"], options["progress"], threads = options$device$threads)
  source <- as_data(x, "x", call, ...)
  if (missing(centers)) {
    refuse_missing("centers", "it must be a number of clusters, or their initial centers", call)
  }
  x <- store_observations(source, "x", kmeans_bytes, reading, call)
  on.exit(release_rows(x))
  if (!is.null(workers)) {
    device <- check_device(backend, threads, devices, call, workers)
    if (!is_stored(x)) x <- store_matrix(x, with_local_threads(options$device)$threads, call)
    options$share <- distribute_rows(source, x, workers, device, call)
    on.exit(options$share$end(), add = TRUE)
  }
  nstart <- check_count(nstart, .Machine$integer.max, "nstart", call)
  init <- check_choice(init, c("kmeans++", "random"), "init", call)
  if (length(centers) == 1 && is.null(dim(centers))) {
    k <- check_count(centers, nrow(x), "centers", call)
    # Otherwise, all rows would count as equal.
    if (!is_stored(x)) check_squares(x, list(name = "euclidean"), "x", call)
    best <- best_start(x, k, nstart, init, options, call, squares = TRUE)
  } else {
    centers <- check_centers(centers, x, "centers", call)
    best <- lloyd(x, centers, NULL, options, call, squares = TRUE)
  }
  warn_convergence(best, options$iterations, call)
  warn_empty(best, call)
  new_kmeans(best, x, options$iterations)
}

# Bytes that k-means takes for each observation, besides its values; inst/benchmarks/memory.R
# measures them.
kmeans_bytes <- function(p) 80

# The result with the smallest sum of squares among `nstart` starts.
best_start <- function(x, k, nstart, init, options, call, squares = FALSE) {
  if (init == "random") start <- random_centers(x, k, nstart, call)
  best <- NULL
  for (i in seq_len(nstart)) {
    # These squares are the same for all starts.
    squares_now <- squares && i == 1
    value <- if (init == "random") {
      lloyd(x, start(), NULL, options, call, squares_now)
    } else {
      lloyd(x, NULL, stats::runif(k), options, call, squares_now)
    }
    if (i > 1) value$squares <- best$squares
    if (is.null(best) || sum(value$within) < sum(best$within)) best <- value
  }
  best
}

# A function that draws k distinct rows at each call, with the same random numbers as
# stats::kmeans().
random_centers <- function(x, k, nstart, call) {
  first <- if (nstart == 1) x[sample.int(nrow(x), k), , drop = FALSE]
  if (!is.null(first) && anyDuplicated(first) == 0) return(function() first)
  x <- unique(if (is_stored(x)) x[, , drop = FALSE] else x)
  if (nrow(x) < k) {
    needs <- paste("there are more cluster centers than distinct data points,", k)
    refuse("x", paste("has", nrow(x), "distinct rows"), needs, call)
  }
  function() x[sample.int(nrow(x), k), , drop = FALSE]
}

# The k-means labels that gmhclust() uses as apriori clusters. x is its data, in range and scaled if
# `scale`; `options` are its checked options.
kmeans_labels <- function(x, k, options, arg, call) {
  k <- check_count(k, nrow(x), arg, call)
  options$iterations <- 10L
  best_start(x, k, 1, "kmeans++", options, call)$cluster
}

# Lloyd's algorithm from `centers`, or, if NULL, from centers drawn with the random numbers
# `uniforms`. `squares` says whether to add up the squares of x about the means of its columns, too:
# bit for bit as stats::kmeans(), whose formula is sum(scale(x, scale = FALSE)^2).
lloyd <- function(x, centers, uniforms, options, call, squares = FALSE) {
  extended <- if (squares) capabilities("long.double")[[1]]
  if (!is.null(options$share)) {
    return(lloyd_by_workers(x, centers, uniforms, extended, options, call))
  }
  run_job(
    job_gkmeans(
      job_data(x), centers, as.double(uniforms), options$iterations, extended, options$device
    ),
    options$progress, "Clustering", call
  )
}

# Initial centers as a double matrix with the columns of x.
check_centers <- function(centers, x, arg, call) {
  centers <- as_other_points(centers, x, arg, call)
  if (nrow(centers) == 0) refuse(arg, "has no rows", "it must have at least 1", call)
  check_finite(centers, arg, call)
  if (nrow(centers) > nrow(x)) {
    needs <- paste("it must have at most as many as `x`,", nrow(x))
    refuse(arg, paste("has", nrow(centers), "rows"), needs, call)
  }
  repeated <- anyDuplicated(centers)
  if (repeated > 0) {
    refuse(arg, paste("has row", repeated, "twice"), "initial centers must be distinct", call)
  }
  centers
}

# A whole number from 1 to `max`.
check_count <- function(count, max, arg, call) {
  if (!is_single_number(count) || count != round(count) || count < 1 || count > max) {
    needs <- paste("it must be a whole number of at least 1 and at most", format(max, digits = 15))
    refuse(arg, paste("is", describe(count)), needs, call)
  }
  as.integer(count)
}

warn_convergence <- function(value, max_iterations, call) {
  if (value$iterations <= max_iterations) return(invisible())
  text <- paste("did not converge in", max_iterations,
                ngettext(max_iterations, "iteration", "iterations"))
  warn_user("convergence", text, call)
}

warn_empty <- function(value, call) {
  empty <- sum(value$sizes == 0)
  if (empty == 0) return(invisible())
  text <- paste0(empty, ngettext(empty, " cluster is", " clusters are"),
                 " empty: try a better set of initial centers")
  warn_user("empty", text, call)
}

# The object of class "kmeans" from the value of the job, which had at most `max_iterations`
# iterations.
new_kmeans <- function(value, x, max_iterations) {
  cluster <- value$cluster
  # After an assignment of NULL, functions of R would copy the labels before they read them.
  if (!is.null(rownames(x))) names(cluster) <- rownames(x)
  total <- value$squares
  within <- sum(value$within)
  structure(
    list(
      cluster = cluster,
      centers = structure(value$centers, dimnames = list(seq_along(value$sizes), colnames(x))),
      totss = total,
      withinss = value$within,
      tot.withinss = within,
      betweenss = total - within,
      size = value$sizes,
      iter = value$iterations,
      ifault = if (value$iterations > max_iterations) 2L else 0L
    ),
    class = "kmeans"
  )
}
