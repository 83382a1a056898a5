#' k-means clustering, exactly and fast
#'
#' Lloyd's algorithm on all cores or an NVIDIA GPU, with the result of
#' `kmeans(algorithm = "Lloyd")`: every assignment is exact.
#'
#' @param X Numeric, integer or logical matrix or data frame, n observations in rows (n >= 2), all
#'   values finite. Row names become the names of `cluster`.
#' @param centers The number of clusters k, or a matrix of k initial centers in rows, all distinct.
#' @param iter.max How many iterations at most.
#' @param nstart Where `centers` is a number, how many times to start from other centers; the
#'   result with the least `tot.withinss` is kept.
#' @param init How initial centers are drawn where `centers` is a number: `"kmeans++"`, each row
#'   with chances proportional to its squared distance from the centers drawn before; or
#'   `"random"`, all with equal chances, as [stats::kmeans()] does.
#' @inheritParams gmhclust
#'
#' @details
#' An iteration assigns every observation to its nearest center, of several to the one with the
#' smallest number, and then moves every center to the mean of its members. It ends with the first
#' iteration that assigns nothing anew.
#'
#' R's random numbers draw the initial centers, so that [set.seed()] makes results repeatable. With
#' `init = "random"` they are those that [stats::kmeans()] draws.
#'
#' A cluster that loses all of its members keeps its last center, which may win members again later.
#' Clusters that are empty in the end are reported by a warning.
#'
#' @section How it works:
#' Whatever decides is computed in double precision and in the order of operations of
#' `kmeans(algorithm = "Lloyd")`, with the same result for any number of threads and on a GPU. On
#' the CPU observations are compared with all centers in single precision; bounds on rounding errors
#' prove which few centers may be nearest, and these are compared in double precision, as in
#' [gknn()]. Upper bounds on an observation's distance from its own center and lower bounds on those
#' from all others, which follow the centers as they move, spare it the comparison where they prove
#' that it stays (Hamerly 2010): the more observations, the nearer the centers are to rest. A GPU
#' draws the initial centers, compares all observations with all centers in double precision and
#' moves the centers itself; where the observations do not fit in its memory, it compares in single
#' precision and the CPU does the rest.
#'
#' @section Time and memory:
#' Time grows with n k p for each iteration, p being the number of columns, and falls as centers
#' come to rest. Beside X, memory is about 24 bytes for each of its values and 400 bytes for each
#' observation; with a GPU 8 bytes for each value and 20 bytes for each observation, on the device
#' the same again. An interrupt (Ctrl-C) stops the work within a second.
#'
#' @section Warnings:
#' Conditions of class `gmhclust_warning_convergence`, where `iter.max` iterations do not do, and
#' `gmhclust_warning_empty`, where clusters are empty.
#'
#' @inheritSection gmhclust Errors
#'
#' @return An object of class `"kmeans"` as [stats::kmeans()] returns it, for which there are
#'   `print()` and `fitted()`:
#' \describe{
#'   \item{`cluster`}{integer vector, n: the number of each observation's cluster.}
#'   \item{`centers`}{matrix, k by p: the clusters' centers.}
#'   \item{`totss`}{the sum of squares of all observations about their mean.}
#'   \item{`withinss`}{vector, k: the sum of squares of each cluster's members about its center.}
#'   \item{`tot.withinss`}{the sum of these.}
#'   \item{`betweenss`}{`totss - tot.withinss`.}
#'   \item{`size`}{integer vector, k: how many members each cluster has.}
#'   \item{`iter`}{the iteration that changed nothing; `iter.max + 1` where there was none.}
#'   \item{`ifault`}{0, or 2 where `iter.max` iterations did not do.}
#' }
#'
#' @references
#' Lloyd SP (1982). Least squares quantization in PCM. *IEEE Transactions on Information Theory*
#' 28(2), 129-137. \doi{10.1109/TIT.1982.1056489}
#'
#' Arthur D, Vassilvitskii S (2007). k-means++: the advantages of careful seeding. *Proceedings of
#' the 18th ACM-SIAM Symposium on Discrete Algorithms*, 1027-1035.
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
gkmeans <- function(X, # nolint: object_name_linter.
                    centers,
                    iter.max = 10, # nolint: object_name_linter.
                    nstart = 1,
                    init = c("kmeans++", "random"),
                    backend = c("auto", "cpu", "cuda"),
                    threads = NULL,
                    progress = interactive(),
                    devices = NULL) {
  call <- match.call()
  x <- as_observations(X, "X", call)
  options <- list(
    iterations = check_count(iter.max, .Machine$integer.max - 1, "iter.max", call),
    device = check_device(backend, threads, devices, call),
    progress = check_flag(progress, "progress", call)
  )
  nstart <- check_count(nstart, .Machine$integer.max, "nstart", call)
  init <- check_choice(init, c("kmeans++", "random"), "init", call)
  if (length(centers) == 1) {
    k <- check_count(centers, nrow(x), "centers", call)
    best <- best_start(x, k, nstart, init, options, call)
  } else {
    best <- lloyd(x, check_centers(centers, x, "centers", call), NULL, options, call)
  }
  warn_convergence(best, options$iterations, call)
  warn_empty(best, call)
  new_kmeans(best, x, options$iterations)
}

# The result with the least sum of squares of `nstart` starts.
best_start <- function(x, k, nstart, init, options, call) {
  if (init == "random") start <- random_centers(x, k, nstart, call)
  best <- NULL
  for (i in seq_len(nstart)) {
    value <- if (init == "random") {
      lloyd(x, start(), NULL, options, call)
    } else {
      lloyd(x, NULL, stats::runif(k), options, call)
    }
    if (is.null(best) || sum(value$within) < sum(best$within)) best <- value
  }
  best
}

# A function that draws k distinct rows at each call, by the random numbers of stats::kmeans().
random_centers <- function(x, k, nstart, call) {
  first <- if (nstart == 1) x[sample.int(nrow(x), k), , drop = FALSE]
  if (!is.null(first) && anyDuplicated(first) == 0) return(function() first)
  x <- unique(x)
  if (nrow(x) < k) {
    needs <- paste("there are more cluster centers than distinct data points,", k)
    refuse("X", paste("has", nrow(x), "distinct rows"), needs, call)
  }
  function() x[sample.int(nrow(x), k), , drop = FALSE]
}

# The labels of k clusters to start a gmhclust() with, whose checked `options` these are.
kmeans_labels <- function(x, k, options, arg, call) {
  k <- check_count(k, nrow(x), arg, call)
  if (options$scale) x <- standardise(x)
  options$iterations <- 10L
  best_start(x, k, 1, "kmeans++", options, call)$cluster
}

# Lloyd's algorithm from `centers` or, where that is NULL, from centers drawn with `uniforms`.
lloyd <- function(x, centers, uniforms, options, call) {
  run_job(
    job_gkmeans(x, centers, as.double(uniforms), options$iterations, options$device),
    options$progress, "Clustering", call
  )
}

# Initial centers as a double matrix with the columns of x.
check_centers <- function(centers, x, arg, call) {
  centers <- as_other_points(centers, x, arg, call)
  if (nrow(centers) == 0) refuse(arg, "has no rows", "it must have at least 1", call)
  check_finite(centers, arg, call)
  if (nrow(centers) > nrow(x)) {
    needs <- paste("it must have at most as many as `X`,", nrow(x))
    refuse(arg, paste("has", nrow(centers), "rows"), needs, call)
  }
  repeated <- anyDuplicated(centers)
  if (repeated > 0) {
    refuse(arg, paste("has row", repeated, "twice"), "initial centers must be distinct", call)
  }
  centers
}

# A whole number from 1 to `most`.
check_count <- function(count, most, arg, call) {
  if (!is_single_number(count) || count != round(count) || count < 1 || count > most) {
    needs <- paste("it must be a whole number of at least 1 and at most", format(most, digits = 15))
    refuse(arg, paste("is", describe(count)), needs, call)
  }
  as.integer(count)
}

warn_convergence <- function(value, most, call) {
  if (value$iterations <= most) return(invisible())
  warning(gmhclust_condition(
    c("gmhclust_warning_convergence", "warning"),
    paste("did not converge in", most, ngettext(most, "iteration", "iterations")),
    call
  ))
}

warn_empty <- function(value, call) {
  empty <- sum(value$sizes == 0)
  if (empty == 0) return(invisible())
  warning(gmhclust_condition(
    c("gmhclust_warning_empty", "warning"),
    paste0(empty, ngettext(empty, " cluster is", " clusters are"),
           " empty: try a better set of initial centers"),
    call
  ))
}

# The object of class "kmeans" for what the job returned after at most `most` iterations.
new_kmeans <- function(value, x, most) {
  within <- sum(value$within)
  structure(
    list(
      cluster = structure(value$cluster, names = rownames(x)),
      centers = structure(value$centers, dimnames = list(seq_along(value$sizes), colnames(x))),
      totss = value$total,
      withinss = value$within,
      tot.withinss = within,
      betweenss = value$total - within,
      size = value$sizes,
      iter = value$iterations,
      ifault = if (value$iterations > most) 2L else 0L
    ),
    class = "kmeans"
  )
}
