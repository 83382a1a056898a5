#' Nearest neighbours, exactly
#'
#' The k nearest neighbours of every observation under any of several metrics: those that comparing
#' all pairs finds, by a screen in single precision that rules out nearly all of them.
#'
#' @param X Numeric, integer or logical matrix or data frame, observations in rows, all values
#'   finite; or a `DelayedMatrix` of package \pkg{DelayedArray}, such as an `HDF5Array`, which is
#'   read in blocks and need not fit into memory.
#' @param k How many neighbours, at least 1 and less than the number of rows of X; with `query`, at
#'   most that number.
#' @param query `NULL`, for the neighbours of each row of X among the others; or a second matrix
#'   with as many columns, for the neighbours of its rows among those of X.
#' @param metric The distance: `"euclidean"`, `"maximum"`, `"manhattan"`, `"canberra"`, `"binary"`,
#'   `"minkowski"`, `"pearson"`, `"spearman"` or `"cosine"`, as the method of [gdist()], whose help
#'   page defines them. It may be abbreviated.
#' @param absolute,p,zero_over_zero Choices of the metric, as in [gdist()].
#' @param output `NULL`, or a folder for the result, which is written there in blocks of rows as
#'   they are finished. The folder must be new, empty, or that of an earlier call for the same: then
#'   it is gone on with, and only blocks that are missing or damaged are computed. See [read_gknn()]
#'   for the files, which other programs can read.
#' @param block_rows How many rows of `query`, or of X, a block has. `NULL` means as many as fit;
#'   the result does not depend on it, bit for bit.
#' @param BPPARAM `NULL`, or what `SnowParam()`, `MulticoreParam()` or `BatchtoolsParam()` of
#'   package \pkg{BiocParallel} return: the workers, here or on other machines, that share the
#'   blocks.
#' @inheritParams gdist
#'
#' @details
#' Distances are those of [gdist()] with missing values out of the question: bit for bit what
#' [stats::dist()] computes where it knows the metric, and otherwise one minus the correlation. Of
#' neighbours at the same distance the one with the smaller row number comes first, and is the one
#' that is kept. A row is no neighbour of its own, but may have neighbours that are equal to it.
#'
#' @section How it works:
#' Whatever decides is computed in double precision and in one order of operations. To rule out most
#' pairs beforehand, a screen computes lower bounds of their distances in single precision; bounds
#' on its rounding errors are part of them. Where the screen does not prove a row's neighbours, that
#' row is screened again for more candidates. GPUs may screen in half precision first, see
#' [gpu_devices()]. So the result is exact, and the same for any number of threads. `"binary"` and
#' `"minkowski"` have no screen and take longer.
#'
#' @section Time and memory:
#' Time grows with the number of rows of X, times that of `query` (or of X again), times the number
#' of columns. Beside X and the result, memory is about 12 bytes for each value of X and `query`,
#' and 20 k bytes for each row whose neighbours are looked for. An interrupt (Ctrl-C) stops the work
#' within a second.
#'
#' With several GPUs, the rows whose neighbours are looked for are dealt out to all of them, or to
#' those that `devices` names. The memory of a GPU need not hold all rows of X: what does not fit
#' passes through it in chunks. Neither changes the result. See [gpu_devices()].
#'
#' @section Larger than memory:
#' Where X or `query` is a `DelayedMatrix`, all rows of X pass by each block of queries, in blocks
#' of the size that `DelayedArray::setAutoBlockSize()` sets. So X is read as often as there are
#' blocks of queries, and once before that: the larger the blocks, the less reading. Memory is about
#' 50 bytes for each value of a block of X and a block of queries, and the result, which `output`
#' leaves on disk.
#'
#' @section Over several processes or machines:
#' Each worker of `BPPARAM` gets an equal share of the blocks, and a copy of X and `query`, once; of
#' an `HDF5Array`, only where its file is, which the worker must be able to read. With `output`, the
#' workers write, so they need to see that folder, too, under the same name. No progress bar is
#' drawn for workers.
#'
#' An error names the rows whose search failed; where a whole worker was lost, those that are not
#' done. What is in `output` by then stays there, and the same call, with the same or other workers,
#' goes on from it. The call is the same if the data have the same values, wherever they are, and
#' `k`, the metric and its choices, and `block_rows`, where it is given, are the same.
#'
#' @inheritSection gmhclust Workers
#'
#' @inheritSection gmhclust Errors
#'
#' @return `gknn()`: a list of two matrices with a row for each observation, or for each of `query`,
#'   and k columns, nearest first, as \pkg{FNN} and \pkg{BiocNeighbors} return them:
#'   \describe{
#'     \item{`index`}{integer, the neighbours' row numbers in X.}
#'     \item{`distance`}{double, their distances.}
#'   }
#'
#'   With `output`, an object of class `gknn_files`, see [read_gknn()].
#'
#'   Rows that have no distance, constant ones under `"pearson"` and `"spearman"`, zeros under
#'   `"cosine"` and more than one row of zeros under `"canberra"` (unless `zero_over_zero` says what
#'   their terms are), are an error that names them.
#'
#' @seealso [as_edges()] and [as_igraph()] for the result as a graph, [read_gknn()] for one in
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
                 BPPARAM = NULL) { # nolint: object_name_linter.
  call <- match.call()
  x <- as_rows(X, "X", call)
  if (!is.null(query)) query <- as_other_rows(query, x, "query", call)
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

# A number of neighbours, of which there are `most`.
check_k <- function(k, most, arg, call) {
  if (most < 1) refuse("X", "has 1 row", "a neighbour needs a second one", call)
  if (!is_single_number(k) || k != round(k) || k < 1 || k > most) {
    needs <- paste("it must be a whole number of at least 1 and at most", most)
    refuse(arg, paste("is", describe(k)), paste0(needs, ", the number of neighbours there are"),
           call)
  }
  as.integer(k)
}
