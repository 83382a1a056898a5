# Neighbours block by block, for what is larger than memory or than one machine: the queries are cut
# into blocks of rows, and all references pass by each of them.
#
# In all of this, `search` is a list of what does not change from block to block: `x`, `query`, `k`,
# `metric`, `backend`, `threads` (NULL for what the process has), `devices`, `packages` to read rows
# with, and `files`, the result's folder or NULL.

# Results with more queries than this are cut into so many at a time.
most_block_rows <- 50000

# Each block prepares all references anew, which is little beside the search for so many queries.
fewest_block_rows <- 1000

# gknn() in blocks: of `block_rows` queries or, where that is NULL, as fits. With `output`, an object
# of class "gknn_files"; otherwise what gknn() returns.
gknn_in_blocks <- function(search, block_rows, output, workers, progress, call) {
  digests <- look_at_rows(search, call)
  queries <- if (is.null(search$query)) search$x else search$query
  job <- job_of(search, digests)
  if (is.null(output)) {
    if (is.null(block_rows)) block_rows <- fitting_block_rows(queries, workers)
    blocks <- cut_rows(nrow(queries), block_rows)
    left <- blocks
  } else {
    fitting <- function() fitting_block_rows(queries, workers)
    search$files <- open_files(output, job, block_rows, fitting, call)
    blocks <- blocks_of(search$files)
    left <- Filter(function(rows) !is_written(search$files, rows), blocks)
  }
  if (progress && is.null(workers)) {
    bar <- progress_bar("Finding neighbours")
    done <- 0
    pairs <- sum(vapply(left, count_rows, 0)) * nrow(search$x)
    search$report <- function(more) {
      done <<- done + more
      bar$show(c(done, pairs))
    }
  }
  found <- spread(
    left, "search_block", search, workers,
    name = function(rows) name_rows(rows, if (is.null(search$query)) "X" else "query"),
    what = "Finding neighbours", call = call,
    hint = if (is.null(output)) "" else hint_to_resume(search$files),
    is_done = function(rows) !is.null(output) && is_written(search$files, rows)
  )
  if (!is.null(output)) return(search$files)
  list(
    index = do.call(rbind, lapply(found, `[[`, "index")),
    distance = do.call(rbind, lapply(found, `[[`, "distance"))
  )
}

# What makes two searches the same, so that one can go on where the other ended.
job_of <- function(search, digests) {
  queries <- if (is.null(search$query)) search$x else search$query
  list(
    rows = nrow(queries), columns = ncol(search$x), among = nrow(search$x), k = search$k,
    metric = search$metric, digests = digests
  )
}

fitting_block_rows <- function(queries, workers) {
  n <- nrow(queries)
  several <- if (is.null(workers)) 1 else 4 * count_workers(workers)
  count <- max(ceiling(n / most_block_rows), min(several, floor(n / fewest_block_rows)))
  rows <- ceiling(n / max(1, count))
  if (is_delayed(queries)) {
    # As many as its automatic blocks have fit into memory.
    rows <- min(rows, nrow(DelayedArray::rowAutoGrid(queries)[[1L]]))
  }
  as.integer(rows)
}

# The first and the last row of each block of rows 1 to n.
cut_rows <- function(n, block_rows) {
  first <- seq(1, n, by = block_rows)
  lapply(first, function(first) c(first, min(n, first + block_rows - 1)))
}

count_rows <- function(rows) rows[2] - rows[1] + 1

name_rows <- function(rows, arg) {
  paste0("rows ", number(rows[1]), " to ", number(rows[2]), " of `", arg, "`")
}

number <- function(x) format(x, scientific = FALSE, trim = TRUE)

# ---- what a worker does -------------------------------------------------------------------------

# The neighbours of a block of queries, rows[1] to rows[2]: returned or, with files, written.
search_block <- function(rows, search) {
  for (package in search$packages) loadNamespace(package)
  x <- search$x
  metric <- search$metric
  own <- if (is.null(search$query)) as.integer(rows)
  # Queries that are among the references in memory are looked up there.
  queries <- if (is.null(search$query)) {
    if (is_delayed(x)) read_rows(x, rows)
  } else {
    read_rows(search$query, rows)
  }
  found <- pass_rows(x, function(block, first, found) {
    found <- run_job(
      job_gknn_block(
        block, first, queries, own, search$k, found$index, found$distance,
        metric$name, metric$p, metric$absolute, metric$zero_over_zero,
        search$backend, threads_here(search$threads), search$devices
      ),
      FALSE, "Finding neighbours"
    )
    if (!is.null(search$report)) search$report(count_rows(rows) * nrow(block))
    found
  }, list())
  if (is.null(search$files)) found else write_block(search$files, rows, found)
}

# ---- before the search --------------------------------------------------------------------------

# Stops where values are not finite, or where rows have no distance, naming their place in the
# whole. Returns a digest of X and one of `query`.
look_at_rows <- function(search, call) {
  metric <- search$metric
  look <- function(x, arg) {
    pass_rows(x, function(block, first, before) {
      if (is_delayed(x)) check_finite(block, arg, call, rows_before = first - 1L)
      seen <- run_job(
        job_gknn_look(
          block, before$digest, metric$name, metric$p, metric$absolute, metric$zero_over_zero,
          threads_here(search$threads)
        ),
        FALSE, "Finding neighbours", call
      )
      list(rows = c(before$rows, seen$rows + first - 1L), digest = seen$digest)
    }, list(rows = integer(0), digest = ""))
  }
  x <- look(search$x, "X")
  query <- if (!is.null(search$query)) look(search$query, "query")
  problem <- gknn_refusal(
    x$rows, as.integer(query$rows), metric$name, metric$p, metric$absolute, metric$zero_over_zero
  )
  if (!is.null(problem)) stop(gmhclust_error_input(problem, call))
  c(X = x$digest, query = query$digest)
}
