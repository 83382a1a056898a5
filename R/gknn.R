#' Exact nearest neighbours
#'
#' Finds the k nearest neighbours of every observation under one of several metrics. The result is
#' exact: it equals the result of comparing all pairs. Lower bounds in single precision rule out
#' nearly all pairs early.
#'
#' @param x Numeric, integer or logical matrix or data frame, observations in rows, all values
#'   finite; or files, a function (see [observations()]) or a `DelayedMatrix`, such as an
#'   `HDF5Array`, which are read in blocks and need not fit into memory.
#' @param k The number of neighbours, at least 1. The greatest possible number is the number of rows
#'   of `x` or, without `query`, one less. A greater `k` is reduced to this number, with a warning
#'   of class `gmhclust_warning_k`.
#' @param query `NULL`, to find the neighbours of each row of `x` among the other rows of `x`; or a
#'   second matrix with the same number of columns, to find the neighbours of its rows among the
#'   rows of `x`. Columns are matched by number; the same column names in another order are an
#'   error.
#' @param metric The distance: `"euclidean"`, `"maximum"`, `"manhattan"`, `"canberra"`, `"binary"`,
#'   `"minkowski"`, `"pearson"`, `"spearman"` or `"cosine"`, as defined on the help page of
#'   [gdist()]. It may be abbreviated.
#' @param absolute,p,zero_over_zero Options of the metric, as in [gdist()].
#' @param output `NULL`, or a folder for the result. Each block of rows is written there as soon as
#'   it is finished. The folder must be new, empty, or from an earlier call for the same search. In
#'   a folder of an earlier call, only missing or damaged blocks are computed. See [read_gknn()] for
#'   the format of the files, which other programs can read.
#' @param part `NULL`, or two numbers, `c(i, n)`: compute only part i of n equal parts of the
#'   blocks, and leave the others to other calls, such as the jobs of a job array. See *Over several
#'   processes or machines*. `part` needs `output`.
#' @param block_rows The number of rows of `query` (or of `x` without `query`) in a block. `NULL`
#'   means blocks that fit into memory and are large enough to be efficient; several workers or
#'   parts get smaller blocks. The result is the same, bit for bit.
#' @param BPPARAM `NULL`, or workers that share the blocks, here or on other machines: the value of
#'   `SnowParam()`, `MulticoreParam()` or `BatchtoolsParam()` of package \pkg{BiocParallel}, or a
#'   cluster of package \pkg{parallel} or \pkg{mirai}, see [parallel::makeCluster()].
#' @param subset `NULL`, or the rows of `query` (or of `x` without `query`) whose neighbours to
#'   find: row numbers, row names, or a logical value for each row. Any row of `x` may be a
#'   neighbour. `subset` cannot be combined with `output`.
#' @param get.distance Whether to return the distances. With `output`, it must be `TRUE`, because
#'   the files have the distances, too.
#' @inheritParams gdist
#'
#' @details
#' Distances are defined as in [gdist()], without missing values: the distances of [stats::dist()],
#' bit for bit, or one minus the correlation. Ties go to the smaller row number, also for the kth
#' neighbour. A row is not its own neighbour, but its duplicates are its neighbours.
#'
#' @section How it works:
#' A screen first computes lower bounds on the distances in single precision; the bounds allow for
#' rounding errors, and rule out most pairs. The distances of the remaining candidates are computed
#' in double precision, in a fixed order of operations. If the candidates of a row are not proven to
#' contain its neighbours, the row is screened again with more candidates. GPUs may first screen in
#' half precision, see [gpu_devices()]. So the result is exact, and the same for any number of
#' threads. `"binary"` and `"minkowski"` have no screen and take longer.
#'
#' @section Time and memory:
#' Time grows with the product of the number of rows of `x`, the number of queries and the number of
#' columns. A query is a row of `query` (or of `x` without `query`). In addition to `x`, memory is
#' at most 20 bytes for each value of `x` and `query`; 24 k + 200 bytes for each query, including 12
#' k bytes for the result; and up to 67 MB for the current batch of queries. An interrupt (Ctrl-C)
#' stops the work within a second.
#'
#' If there are several GPUs, the devices that `devices` names, or all devices, share the queries.
#' The memory of a GPU need not hold all rows of `x`: if the rows do not fit, they pass through its
#' memory in chunks, with the same result. See [gpu_devices()].
#'
#' @section Larger than memory:
#' If `x` or `query` is a `DelayedMatrix`, files or a function, each block of queries is compared
#' with all rows of `x`, which are read in blocks. `DelayedArray::setAutoBlockSize()` sets the size
#' of the blocks of a `DelayedMatrix`. So `x` is read once in advance, and once for each block of
#' queries; larger blocks need less reading. Memory is about 50 bytes for each value of a block of
#' `x` and of a block of queries. The result takes memory, too, unless `output` keeps it on disk.
#'
#' @section Over several processes or machines:
#' Each worker of `BPPARAM` gets an equal share of the blocks, and one copy of `x` and `query`. For
#' files and an `HDF5Array`, the worker gets only the names of the files, and must be able to read
#' them. With `output`, the workers write the files, so they must have access to the folder under
#' the same name. No progress is shown for workers.
#'
#' An error names the rows whose search failed; if a worker was lost, the error names all unfinished
#' rows. Finished blocks stay in `output`, and repeating the call continues from them, with the same
#' or other workers. A call repeats an earlier call if the values of the data, `k`, the metric and
#' its options, and `block_rows`, if given, are the same.
#'
#' Without `BPPARAM`, any number of processes on any machines can fill one folder, if each computes
#' a `part` of it: `gknn(x, k, output = folder, part = c(i, n))` with the same n and i from 1 to n,
#' in any order or at the same time. The first of them makes the folder. The processes need not know
#' each other: if two of them compute the same part, both write the same files. When all have ended,
#' [read_gknn()] opens the folder, or says which rows are missing, as after a job was killed; then
#' repeat the missing parts, or all: a call computes only missing or damaged blocks of its part. The
#' folder `system.file("recipes", package = "gmhclust")` has a SLURM array and a pipeline of package
#' \pkg{targets} to copy.
#'
#' @inheritSection gmhclust Workers
#'
#' @inheritSection gmhclust Errors
#'
#' @return A list of two matrices, like the result of packages \pkg{FNN} and \pkg{BiocNeighbors}.
#'   The matrices have a row for each query and k columns, nearest neighbours first. With `subset`,
#'   the queries are the rows of the subset, in its order.
#'   \describe{
#'     \item{`index`}{integer: the row numbers of the neighbours in `x`.}
#'     \item{`distance`}{double: the distances of the neighbours; only if `get.distance`.}
#'   }
#'
#'   The list has the attribute `labels`, the row names of `x`, if `x` has row names and there is no
#'   `query`; and the attribute `rows`, the row numbers, if there is a `subset`. [as_igraph()] and
#'   [as_edges()] use these attributes.
#'
#'   With `output`, an object of class `gknn_files`, see [read_gknn()]. With `part`, blocks of other
#'   parts may be missing.
#'
#'   If a row has no defined distances, an error names it: constant rows under `"pearson"` and
#'   `"spearman"`, rows of zeros under `"cosine"`, and more than one row of zeros under `"canberra"`
#'   with `zero_over_zero = "omit"`.
#'
#' @seealso [gneighbours()] for all neighbours within a radius; [as_igraph()], [as_uwot()],
#'   [as_hits()] and [as_edges()] for other packages, [read_gknn()] for neighbours in files,
#'   [gmst()] for the minimum spanning tree, [gdist()] for all distances.
#'
#' @examples
#' x <- as.matrix(iris[1:4])
#' nn <- gknn(x, 3)
#' nn$index[1, ]
#' nn$distance[1, ]
#'
#' # Neighbours of new observations, by the angle between them:
#' gknn(x, 1, query = rbind(c(5, 3.5, 1.5, 0.2), c(6, 3, 5, 2)), metric = "cosine")
#'
#' # Two processes that share the rows:
#' if (requireNamespace("BiocParallel", quietly = TRUE)) {
#'   identical(gknn(x, 3, BPPARAM = BiocParallel::SnowParam(2)), nn)
#' }
#' @export
gknn <- function(x,
                 k,
                 query = NULL,
                 metric = "euclidean",
                 absolute = FALSE,
                 p = 2,
                 zero_over_zero = c("omit", "0", "1"),
                 subset = NULL,
                 get.distance = TRUE, # nolint: object_name_linter.
                 output = NULL,
                 part = NULL,
                 block_rows = NULL,
                 backend = getOption("gmhclust.backend", "auto"),
                 threads = getOption("gmhclust.threads"),
                 devices = getOption("gmhclust.devices"),
                 progress = getOption("gmhclust.progress", interactive()),
                 BPPARAM = NULL, # nolint: object_name_linter.
                 ...) {
  call <- match.call()
  x <- as_rows(x, "x", call, ...)
  if (missing(k)) refuse_missing("k", "it must be a number of neighbours", call)
  if (!is_in_blocks(x)) message_if_doubtful(x, "x", call)
  if (!is.null(query)) query <- as_other_rows(query, x, "query", call, ...)
  rows <- check_subset(subset, if (is.null(query)) x else query, "subset", call)
  k <- check_k(k, nrow(x) - is.null(query), "k", call)
  metric <- check_metric_options(metric, p, absolute, zero_over_zero, "metric", call)
  check_squares(x, metric, "x", call)
  workers <- check_workers(BPPARAM, "BPPARAM", call)
  device <- check_device(backend, threads, devices, call, workers)
  progress <- check_progress(progress, call)
  get_distance <- check_flag(get.distance, "get.distance", call)
  if (!is.null(output)) check_output(output, rows, get_distance, call)
  part <- check_block_part(part, output, call)
  if (!is.null(block_rows)) {
    block_rows <- check_count(block_rows, .Machine$integer.max, "block_rows", call)
  }
  labels <- if (is.null(query)) rownames(x)
  # The row numbers of the queries in `x`, if the queries are rows of `x`.
  own <- if (is.null(query)) rows
  if (!is.null(rows)) query <- (if (is.null(query)) x else query)[rows, , drop = FALSE]
  whole <- is.null(output) && is.null(block_rows) && is.null(workers) && is.null(own)
  if (whole && !is_in_blocks(x) && !is_in_blocks(query)) {
    nn <- run_job(job_gknn(x, query, k, metric, device), progress, "Finding neighbours", call)
    if (!get_distance) nn$distance <- NULL
  } else {
    search <- list(
      x = x, query = query, own = own, k = k, metric = metric, device = device,
      get_distance = get_distance,
      packages = unique(c(packages_of_rows(x), packages_of_rows(query)))
    )
    nn <- gknn_in_blocks(search, block_rows, output, part, workers, progress, call)
  }
  if (!is.null(output)) return(nn)
  describe_result(nn, labels, rows)
}

# The checked number of neighbours, from 1 to `max_k`. A greater number is reduced to `max_k`, with
# a warning.
check_k <- function(k, max_k, arg, call) {
  if (max_k < 1) refuse("x", "has 1 row", "a neighbour needs a second one", call)
  if (!is_single_number(k) || k != round(k) || k < 1) {
    needs <- "it must be a whole number of at least 1 and at most"
    refuse(arg, paste("is", describe(k)),
           paste0(needs, " ", max_k, ", the number of neighbours there are"), call)
  }
  if (k > max_k) {
    warn_user(
      "k",
      paste0("`", arg, "` is ", format_number(k), " and was capped at ", format_number(max_k),
             ", the number of neighbours there are"),
      call
    )
  }
  as.integer(min(k, max_k))
}

# The numbers of the rows of x that the user's `subset` selects; NULL for all rows.
check_subset <- function(subset, x, arg, call) {
  if (is.null(subset)) return(NULL)
  n <- nrow(x)
  if (is.logical(subset) && !is.object(subset)) {
    if (length(subset) != n || anyNA(subset)) {
      needs <- paste("a logical one must have TRUE or FALSE for each of", format_number(n), "rows")
      refuse(arg, paste("is", describe(subset)), needs, call)
    }
    subset <- which(subset)
  } else if (is.character(subset)) {
    check_unique_names(subset, rownames(x), "rows", arg, call)
    rows <- match(subset, rownames(x))
    unknown <- subset[is.na(rows)]
    if (length(unknown) > 0) {
      refuse(arg, paste("has", quoted(unknown[1])), "that is not the name of a row", call)
    }
    subset <- rows
  }
  rows <- as.integer(check_rows(subset, n, arg, call))
  if (length(rows) == 0) refuse(arg, "selects no rows", "it must select at least 1", call)
  rows
}

check_output <- function(output, rows, get_distance, call) {
  check_folder(output, "output", call)
  if (!is.null(rows)) {
    refuse("subset", "is given with `output`", "files hold the neighbours of all rows", call)
  }
  if (!get_distance) {
    refuse("get.distance", "is FALSE with `output`", "files hold distances, too", call)
  }
}

# The checked part c(i, n) of the blocks that a call computes; c(1, 1) for all.
check_block_part <- function(part, output, call) {
  if (is.null(part)) return(c(1L, 1L))
  needs <- "it must be c(i, n), two whole numbers: part i of n parts, with i from 1 to n"
  is_pair <- is.numeric(part) && !is.object(part) && length(part) == 2
  if (!is_pair) refuse("part", paste("is", describe(part)), needs, call)
  is_sound <- !anyNA(part) && all(part == round(part)) && part[1] >= 1 && part[2] >= part[1] &&
    part[2] <= .Machine$integer.max
  if (!is_sound) {
    refuse("part", paste0("is c(", paste(format_number(part), collapse = ", "), ")"), needs, call)
  }
  if (is.null(output)) {
    refuse("part", "is given without `output`", "the parts are written into one folder", call)
  }
  as.integer(part)
}

# Adds the attributes that other functions read: `labels`, the row names of `x`, and `rows`, the row
# numbers of a subset.
describe_result <- function(nn, labels, rows) {
  attr(nn, "labels") <- labels
  attr(nn, "rows") <- rows
  nn
}
