#' Minimum spanning tree of observations
#'
#' Finds the edges that connect all observations with the smallest total distance, without a matrix
#' of distances. Single linkage merges clusters along these edges.
#'
#' @param x Numeric, integer or logical matrix or data frame, at least 2 observations in rows, all
#'   values finite.
#' @inheritParams gknn
#' @param min_points The number of points that the core distance of an observation reaches, the
#'   observation itself included. With more than 1, weights are *mutual reachability distances*: the
#'   largest of the distance and the core distances of both ends; see *HDBSCAN* in [ghclust()].
#' @param BPPARAM `NULL`, or workers, as in [gknn()], that share the first search, for the nearest
#'   neighbours of each row. This search is most of the work, unless many rows are equal. `threads`
#'   is the number of threads of each worker, and of this process. The result is the same, bit for
#'   bit.
#'
#' @details
#' Distances are defined as in [gdist()]. Edges of equal weight are ordered by distance, by
#' `source`, then by `target`. So the minimum spanning tree is unique, and the same for any number
#' of threads.
#'
#' Borůvka's algorithm builds the tree: each round joins every connected component to its nearest
#' other component. Neighbours are found as in [gknn()].
#'
#' @section Time and memory:
#' `gmst()` takes as long as [gknn()] with 8 neighbours, or up to a few times longer. Memory is at
#' most 30 bytes for each value of `x` and 400 for each row, and up to 64 MB more with `min_points`
#' above 1. With `BPPARAM`, it is 40 bytes more for each of the neighbours that workers find, 8 or
#' `min_points` - 1 for each row. An interrupt (Ctrl-C) stops the work within a second.
#'
#' @inheritSection gmhclust Workers
#'
#' @inheritSection gmhclust Errors
#'
#' @return A data frame with a row for each of the n - 1 edges, sorted by weight, then by distance,
#'   `source` and `target`, and columns
#'   \describe{
#'     \item{`source`}{integer: the end with the lower row number.}
#'     \item{`target`}{integer: the other end.}
#'     \item{`weight`}{double: the distance between the two ends, or their mutual reachability
#'       distance. The weights are the heights of single linkage: with the defaults, of
#'       `hclust(dist(x), "single")`.}
#'   }
#'
#' @references
#' Borůvka O (1926). O jistém problému minimálním. *Práce Moravské přírodovědecké společnosti* 3(3),
#' 37-58.
#'
#' Gower JC, Ross GJS (1969). Minimum spanning trees and single linkage cluster analysis. *Journal
#' of the Royal Statistical Society C* 18(1), 54-64. \doi{10.2307/2346439}
#'
#' Campello RJGB, Moulavi D, Sander J (2013). Density-based clustering based on hierarchical
#' density estimates. *Advances in Knowledge Discovery and Data Mining*, 160-172.
#' \doi{10.1007/978-3-642-37456-2_14}
#'
#' @seealso [gknn()], [ghclust()], [stats::hclust()].
#'
#' @examples
#' edges <- gmst(as.matrix(iris[1:4]))
#' head(edges)
#' all.equal(edges$weight, hclust(dist(iris[1:4]), "single")$height)
#'
#' # The tree on the first two principal components:
#' pc <- prcomp(iris[1:4])$x
#' plot(pc, asp = 1, col = iris$Species)
#' segments(pc[edges$source, 1], pc[edges$source, 2], pc[edges$target, 1], pc[edges$target, 2])
#' @export
gmst <- function(x,
                 metric = "euclidean",
                 absolute = FALSE,
                 p = 2,
                 zero_over_zero = c("omit", "0", "1"),
                 min_points = 1,
                 backend = getOption("gmhclust.backend", "auto"),
                 threads = getOption("gmhclust.threads"),
                 devices = getOption("gmhclust.devices"),
                 progress = getOption("gmhclust.progress", interactive()),
                 BPPARAM = NULL, # nolint: object_name_linter.
                 ...) {
  call <- match.call()
  workers <- check_workers(BPPARAM, "BPPARAM", call)
  source <- as_data(x, "x", call, ...)
  x <- with_threads(threads, check_observations(read_all(source, "x", call), "x", call))
  metric <- check_metric_options(metric, p, absolute, zero_over_zero, "metric", call)
  check_squares(x, metric, "x", call)
  min_points <- check_min_points(min_points, call)
  check_point_count(min_points, nrow(x), call)
  device <- check_device(backend, threads, devices, call)
  progress <- check_progress(progress, call)
  spanning <- list(
    min_points = min_points,
    known = precomputed_neighbours(source, x, metric, min_points, workers,
                                   check_device(backend, threads, devices, call, workers), call)
  )
  job <- quote(job_gmst(x, metric, spanning, device))
  edges <- run_job(eval(job), progress, "Building the spanning tree", call)
  data.frame(edges)
}
