#' All neighbours within a radius
#'
#' Finds all rows of `x` within a radius of each observation, under any metric of [gdist()]. The
#' result is exact: it equals the result of comparing all pairs.
#'
#' @param x Numeric, integer or logical matrix or data frame, observations in rows, all values
#'   finite.
#' @param radius The maximum distance of a neighbour, at least 0: one number, or a number for each
#'   query, that is, for each row of `query` (of `x` without `query`) or of the `subset`.
#' @param query `NULL`, to find the neighbours of each row of `x` among the other rows of `x`; or a
#'   second matrix with the same number of columns, to find the neighbours of its rows among the
#'   rows of `x`. Columns are matched by number; the same column names in another order are an
#'   error.
#' @param subset `NULL`, or the rows of `query` (or of `x` without `query`) whose neighbours to
#'   find: row numbers, row names, or a logical value for each row.
#' @param get.distance Whether to return the distances.
#' @param BPPARAM `NULL`, or workers that share the queries, here or on other machines, as in
#'   [gknn()]. The result is the same, bit for bit.
#' @inheritParams gknn
#'
#' @details
#' Distances equal the result of [gdist()], bit for bit. A row at exactly the radius is a neighbour.
#' A row is not its own neighbour, but its duplicates are its neighbours.
#'
#' If a row has no defined distances, an error names it, as in [gknn()].
#'
#' @section Time and memory:
#' The time grows like the time of [gknn()], and with the number of neighbours. If an observation
#' has more than 64 neighbours, its search may be repeated, each time for 8 times as many
#' neighbours.
#'
#' The number of neighbours is unknown before the search, and may reach the number of all pairs:
#' start with a small radius, or with a `subset` of the rows. Memory is about 20 bytes for each
#' neighbour, including 12 bytes for the result (4 without distances); up to 200 MB for the current
#' batch of queries; 20 bytes for each value of `x` and `query`; and 300 bytes for each observation.
#' If memory becomes too small for the result during the search, the call stops with an error of
#' class `gmhclust_error_memory`. An interrupt (Ctrl-C) stops the work within a second.
#'
#' @section Over several processes or machines:
#' The workers of `BPPARAM` share the queries. Each worker gets one copy of `x` and `query`. If `x`
#' is files or an `HDF5Array`, a worker gets only their description, and must be able to read them.
#' No progress is shown for workers. An error names the range of rows whose search failed.
#'
#' @inheritSection gmhclust Workers
#'
#' @inheritSection gmhclust Errors
#'
#' @return A list, as `findNeighbors()` of package \pkg{BiocNeighbors} returns it, with a vector for
#'   each row of `query` or, without it, of `x`. In each vector the nearest neighbour comes first;
#'   neighbours at the same distance are in the order of their row numbers.
#'   \describe{
#'     \item{`index`}{a list of integer vectors: the row numbers of the neighbours in `x`.}
#'     \item{`distance`}{a list of double vectors: the distances of the neighbours; only if
#'       `get.distance`.}
#'   }
#'   `findNeighbors()` of \pkg{BiocNeighbors} 1 also lists the observation itself.
#'
#'   The list has attributes `labels` and `rows`, as the result of [gknn()].
#'
#' @seealso [gknn()] for a number of neighbours; [as_edges()], [as_igraph()] and [as_hits()] to
#'   convert the result.
#'
#' @examples
#' x <- as.matrix(iris[1:4])
#' near <- gneighbours(x, 0.3)
#' near$index[[1]]
#' near$distance[[1]]
#'
#' # The density around each observation:
#' summary(lengths(near$index))
#' @export
gneighbours <- function(x,
                        radius,
                        query = NULL,
                        metric = "euclidean",
                        absolute = FALSE,
                        p = 2,
                        zero_over_zero = c("omit", "0", "1"),
                        subset = NULL,
                        get.distance = TRUE, # nolint: object_name_linter.
                        backend = getOption("gmhclust.backend", "auto"),
                        threads = getOption("gmhclust.threads"),
                        devices = getOption("gmhclust.devices"),
                        progress = getOption("gmhclust.progress", interactive()),
                        BPPARAM = NULL, # nolint: object_name_linter.
                        ...) {
  call <- match.call()
  source <- as_data(x, "x", call, ...)
  if (missing(radius)) refuse_missing("radius", "it must be a number, or one for each query", call)
  x <- with_threads(threads, check_rows_of(read_all(source, "x", call), "x", call))
  message_if_doubtful(x, "x", call)
  if (!is.null(query)) {
    query <- check_rows_of(as_other_points(query, x, "query", call, ...), "query", call)
  }
  rows <- check_subset(subset, if (is.null(query)) x else query, "subset", call)
  searches <- if (is.null(rows)) nrow(if (is.null(query)) x else query) else length(rows)
  radius <- check_radius(radius, searches, "radius", call)
  get_distance <- check_flag(get.distance, "get.distance", call)
  metric <- check_metric_options(metric, p, absolute, zero_over_zero, "metric", call)
  check_squares(x, metric, "x", call)
  workers <- check_workers(BPPARAM, "BPPARAM", call)
  device <- check_device(backend, threads, devices, call, workers)
  progress <- check_progress(progress, call)
  if (is.null(workers)) {
    found <- run_job(
      job_gneighbours(x, query, rows, radius, metric, device), progress, "Finding neighbours", call
    )
    if (!get_distance) found$distance <- NULL
  } else {
    search <- list(
      # Files are read by each worker.
      x = if (is_in_blocks(source)) source else x, query = query, metric = metric, device = device,
      get_distance = get_distance, packages = packages_of_rows(source),
      # Each process keeps the rows that it has read.
      kept = new.env(parent = emptyenv())
    )
    found <- neighbours_by_workers(search, rows, searches, radius, workers, call)
  }
  describe_result(found, if (is.null(query)) rownames(x), rows)
}

# The neighbours of `searches` rows, or of the chosen `rows`, found by workers; each gets several
# shares, since rows in dense places take longer.
neighbours_by_workers <- function(search, rows, searches, radius, workers, call) {
  tasks <- lapply(
    parallel::splitIndices(searches, min(searches, 4L * count_workers(workers))),
    function(share) {
      list(rows = if (is.null(rows)) share else rows[share],
           radius = if (length(radius) == 1) radius else radius[share])
    }
  )
  # Deals the shares to the workers in turn, so that shares of one worker lie far apart.
  dealt <- order((seq_along(tasks) - 1L) %% count_workers(workers))
  arg <- if (is.null(search$query)) "x" else "query"
  found <- run_tasks(
    tasks[dealt], "search_radius", search, workers,
    name = function(task) describe_rows(range(task$rows), arg), what = "Finding neighbours",
    call = call
  )
  found <- found[order(dealt)]
  parts <- c("index", if (search$get_distance) "distance")
  nn <- lapply(parts, function(part) unlist(lapply(found, `[[`, part), recursive = FALSE))
  structure(nn, names = parts)
}

# A worker's share of the neighbours.
search_radius <- function(task, search) {
  for (package in search$packages) loadNamespace(package)
  x <- search$x
  if (is_in_blocks(x)) {
    if (is.null(search$kept$x)) search$kept$x <- read_rows(x, c(1, nrow(x)))
    x <- search$kept$x
  }
  found <- run_job(
    job_gneighbours(
      x, search$query, as.integer(task$rows), task$radius, search$metric,
      with_local_threads(search$device)
    ),
    FALSE, "Finding neighbours"
  )
  if (search$get_distance) found else found["index"]
}

# The checked search radius: one number for each of `n` searches, or one for all.
check_radius <- function(radius, n, arg, call) {
  needs <- paste("it must be a number of at least 0, or one for each of", format_number(n), "rows")
  if (!is.numeric(radius) || is.object(radius) || !length(radius) %in% c(1, n)) {
    refuse(arg, paste("is", describe(radius)), needs, call)
  }
  bad <- which(is.na(radius) | radius < 0)
  if (length(bad) > 0) refuse(arg, paste("has", format(radius[bad[1]])), needs, call)
  as.double(radius)
}
