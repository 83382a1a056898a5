#' Exact nearest neighbours
#'
#' Finds the k nearest neighbours of every observation under one of several metrics. The result is
#' that of a comparison of all pairs. A screen in single precision rules out nearly all of them.
#'
#' @param X Numeric, integer or logical matrix or data frame, observations in rows, all values
#'   finite; or a `DelayedMatrix` of package \pkg{DelayedArray}, such as an `HDF5Array`, which is
#'   read in blocks and need not fit into memory.
#' @param k The number of neighbours: at least 1 and less than the number of rows of X; with
#'   `query`, at most that number.
#' @param query `NULL`, for the neighbours of each row of X among the others; or a second matrix
#'   with the same number of columns, for the neighbours of its rows among the rows of X.
#' @param metric The distance: `"euclidean"`, `"maximum"`, `"manhattan"`, `"canberra"`, `"binary"`,
#'   `"minkowski"`, `"pearson"`, `"spearman"` or `"cosine"`, as defined on the help page of
#'   [gdist()]. It may be abbreviated.
#' @param absolute,p,zero_over_zero Options of the metric, as in [gdist()].
#' @param output `NULL`, or a folder for the result. Each block of rows is written there as soon as
#'   it is finished. The folder must be new, empty, or from an earlier call for the same search;
#'   then only missing or damaged blocks are computed. See [read_gknn()] for the files, which other
#'   programs can read.
#' @param block_rows The number of rows of `query` or, without it, of X in a block. `NULL` means as
#'   many as fit into memory, or fewer for several workers. The result is the same, bit for bit.
#' @param BPPARAM `NULL`, or workers that share the blocks, here or on other machines: the value of
#'   `SnowParam()`, `MulticoreParam()` or `BatchtoolsParam()` of package \pkg{BiocParallel}.
#' @inheritParams gdist
#'
#' @details
#' Distances are those of [gdist()] without missing values: those of [stats::dist()], bit for bit,
#' or one minus the correlation. If neighbours are at the same distance, the one with the smaller
#' row number comes first; this also decides which is the kth. A row is not its own neighbour, but
#' its duplicates are its neighbours.
#'
#' @section How it works:
#' All decisions are computed in double precision, in one order of operations. A screen first
#' computes lower bounds on the distances in single precision, which include bounds on rounding
#' errors; these rule out most pairs. If the screen does not prove the neighbours of a row, the row
#' is screened again with more candidates. GPUs may first screen in half precision, see
#' [gpu_devices()]. So the result is exact, and the same for any number of threads. `"binary"` and
#' `"minkowski"` have no screen and take longer.
#'
#' @section Time and memory:
#' Time grows with the number of rows of X, times that of `query` (or of X again), times the number
#' of columns. In addition to X and the result, memory is about 12 bytes for each value of X and
#' `query`, and 20 k bytes for each query (each row of `query` or, without it, of X). An interrupt
#' (Ctrl-C) stops the work within a second.
#'
#' Several GPUs, all or those that `devices` names, share the queries. The memory of a GPU need not
#' hold all rows of X: if they do not fit, they pass through it in chunks. The result is the same.
#' See [gpu_devices()].
#'
#' @section Larger than memory:
#' If X or `query` is a `DelayedMatrix`, each block of queries is compared with all rows of X, which
#' are read in blocks of the size that `DelayedArray::setAutoBlockSize()` sets. So X is read once
#' for each block of queries, and once before: larger blocks need less reading. Memory is about 50
#' bytes for each value of a block of X and a block of queries. The result takes memory, too, unless
#' `output` keeps it on disk.
#'
#' @section Over several processes or machines:
#' Each worker of `BPPARAM` gets an equal share of the blocks, and one copy of X and `query`. For an
#' `HDF5Array`, it gets only the name of the file, which it must be able to read. With `output`, the
#' workers write the files, so they must have access to that folder under the same name. No progress
#' bar is drawn for workers.
#'
#' An error names the rows whose search failed; if a worker was lost, it names all rows that are not
#' finished. Finished blocks stay in `output`, and the same call continues from them, with the same
#' or other workers. Calls are the same if the values of the data, `k`, the metric and its options,
#' and `block_rows`, if given, are the same.
#'
#' @inheritSection gmhclust Workers
#'
#' @inheritSection gmhclust Errors
#'
#' @return A list of two matrices, like the result of packages \pkg{FNN} and \pkg{BiocNeighbors}.
#'   They have a row for each row of `query` or, without it, of X, and k columns, nearest neighbours
#'   first:
#'   \describe{
#'     \item{`index`}{integer: the row numbers of the neighbours in X.}
#'     \item{`distance`}{double: their distances.}
#'   }
#'
#'   With `output`, an object of class `gknn_files`, see [read_gknn()].
#'
#'   Rows without a distance are an error that names them: constant rows under `"pearson"` and
#'   `"spearman"`, rows of zeros under `"cosine"`, and more than one row of zeros under `"canberra"`
#'   with `zero_over_zero = "omit"`.
#'
#' @seealso [as_edges()] and [as_igraph()] for graphs of neighbours, [read_gknn()] for neighbours in
#'   files, [gmst()] for the minimum spanning tree, [gdist()] for all distances.
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
gknn <- function(X, # nolint: object_name_linter.
                 k,
                 query = NULL,
                 metric = "euclidean",
                 absolute = FALSE,
                 p = 2,
                 zero_over_zero = c("omit", "0", "1"),
                 backend = c("auto", "cpu", "cuda"),
                 threads = NULL,
                 progress = interactive(),
                 devices = NULL,
                 output = NULL,
                 block_rows = NULL,
                 BPPARAM = NULL, # nolint: object_name_linter.
                 ...) {
  call <- match.call()
  x <- as_rows(X, "X", call, ...)
  if (!is_delayed(x)) message_if_doubtful(x, "X", call)
  if (!is.null(query)) query <- as_other_rows(query, x, "query", call, ...)
  k <- check_k(k, nrow(x) - is.null(query), "k", call)
  metric <- check_metric_options(metric, p, absolute, zero_over_zero, "metric", call)
  workers <- check_workers(BPPARAM, "BPPARAM", call)
  device <- check_device(backend, threads, devices, call, workers)
  progress <- check_flag(progress, "progress", call)
  if (!is.null(output)) check_folder(output, "output", call)
  if (!is.null(block_rows)) {
    block_rows <- check_count(block_rows, .Machine$integer.max, "block_rows", call)
  }
  whole <- is.null(output) && is.null(block_rows) && is.null(workers)
  if (!whole || is_delayed(x) || is_delayed(query)) {
    search <- list(
      x = x, query = query, k = k, metric = metric, device = device,
      packages = unique(c(packages_of_rows(x), packages_of_rows(query)))
    )
    return(gknn_in_blocks(search, block_rows, output, workers, progress, call))
  }
  run_job(job_gknn(x, query, k, metric, device), progress, "Finding neighbours", call)
}

# The checked number of neighbours, from 1 to `most`.
check_k <- function(k, most, arg, call) {
  if (most < 1) refuse("X", "has 1 row", "a neighbour needs a second one", call)
  if (!is_single_number(k) || k != round(k) || k < 1 || k > most) {
    needs <- paste("it must be a whole number of at least 1 and at most", most)
    refuse(arg, paste("is", describe(k)), paste0(needs, ", the number of neighbours there are"),
           call)
  }
  as.integer(k)
}
