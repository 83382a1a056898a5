# gknn() in blocks, for data larger than memory or several processes. The queries are split into
# blocks of rows, and each block of queries is compared with all references.
#
# `search` is a list of the values that all blocks share: `x`, `query`, `own` (the row numbers of
# the queries in x, if the queries are a subset of x; else NULL), `k`, `metric`, `device` (see
# check_device()), `get_distance`, `packages` (needed to read the rows), `files` (for the result, or
# NULL), `progress` (a display, or NULL), and `kept` (an environment in which a process keeps
# prepared points for its next block).

# Maximum number of queries per block. A GPU takes much longer to search for this number of queries
# than to prepare all references, which is repeated for each block.
max_block_rows <- 250000

# Minimum number of queries per block. Several workers get smaller blocks, so that they finish
# together, but each block repeats the preparation of all references.
min_block_rows <- 1000

# gknn() in blocks of `block_rows` queries; NULL means the default number. If `output` is given,
# computes only the blocks of `part`, see check_block_part(), and returns an object of class
# "gknn_files". Otherwise returns the list that gknn() returns.
gknn_in_blocks <- function(search, block_rows, output, part, workers, progress, call) {
  search$kept <- new.env(parent = emptyenv())
  lock <- NULL
  on.exit(suspendInterrupts({
    release_points(search)
    if (!is.null(lock)) folder_unlock(lock)
    if (!is.null(search$progress)) search$progress$close()
  }))
  digests <- inspect_rows(search, call)
  # Workers cannot use points in this process's memory.
  if (!is.null(workers)) release_points(search)
  queries <- if (is.null(search$query)) search$x else search$query
  parameters <- search_parameters(search, digests)
  if (is.null(output)) {
    if (is.null(block_rows)) block_rows <- default_block_rows(queries, count_workers(workers))
    left <- split_rows(nrow(queries), block_rows)
  } else {
    fitting <- function() default_block_rows(queries, as.numeric(count_workers(workers)) * part[2])
    make_output(output, call)
    # Parts are written at the same time.
    if (part[2] == 1) lock <- lock_output(output, call)
    search$files <- open_files(output, parameters, block_rows, fitting, call)
    blocks <- blocks_of_part(search$files, part)
    delete_incomplete(search$files, blocks)
    left <- unfinished_blocks(search$files, blocks, progress, call)
  }
  # Workers get a copy of `search`, so this process cannot show their progress.
  if (is.null(workers) && !isFALSE(progress)) {
    rows <- sum(vapply(left, count_rows, 0))
    # If the references are read in blocks, no row is finished before the last block.
    units <- if (is_in_memory(search)) list(total = rows, name = "rows")
    search$progress <- joint_progress(rows * nrow(search$x), "Finding neighbours", progress, units)
  }
  found <- run_tasks(
    left, "search_block", search, workers,
    name = function(rows) describe_rows(rows, name_of_queries(search)),
    what = "Finding neighbours", call = call,
    hint = if (is.null(output)) "" else hint_to_resume(search$files),
    is_done = function(rows) !is.null(output) && is_finished(search$files, rows)
  )
  if (!is.null(output)) return(search$files)
  join_blocks(found, c("index", if (search$get_distance) "distance"), nrow(queries), call)
}

# Binds the neighbours of all blocks by rows: a list of `parts`. The blocks of a part are freed when
# the part is bound.
join_blocks <- function(found, parts, n, call) {
  if (length(found) == 1) return(found[[1]][parts])
  nn <- list()
  for (part in parts) {
    blocks <- lapply(found, `[[`, part)
    bytes <- if (is.double(blocks[[1]])) 8 else 4
    check_memory("the neighbours of all blocks need", bytes * n * ncol(blocks[[1]]), call)
    nn[[part]] <- do.call(rbind, blocks)
    found <- lapply(found, function(block) block[setdiff(names(block), part)])
  }
  nn
}

name_of_queries <- function(search) {
  if (is.null(search$query)) "x" else if (is.null(search$own)) "query" else "subset"
}

# The parameters of a search. A call may resume an earlier search if their parameters are equal.
search_parameters <- function(search, digests) {
  queries <- if (is.null(search$query)) search$x else search$query
  list(
    rows = nrow(queries), columns = ncol(search$x), among = nrow(search$x), k = search$k,
    metric = search$metric, digests = digests
  )
}

# The number of rows per block if the user does not choose it. `shares` processes share the blocks.
default_block_rows <- function(queries, shares) {
  n <- nrow(queries)
  count <- ceiling(n / max_block_rows)
  if (shares > 1) count <- max(count, shares, min(4 * shares, n %/% min_block_rows))
  rows <- ceiling(n / count)
  if (is_in_blocks(queries)) rows <- min(rows, rows_per_block(queries))
  as.integer(rows)
}

# The first and the last row of each block of rows 1 to n.
split_rows <- function(n, block_rows) {
  first <- seq(1, n, by = block_rows)
  lapply(first, function(first) c(first, min(n, first + block_rows - 1)))
}

count_rows <- function(rows) rows[2] - rows[1] + 1

describe_rows <- function(rows, arg) {
  paste0("rows ", format_number(rows[1]), " to ", format_number(rows[2]), " of `", arg, "`")
}

format_number <- function(x) format(x, scientific = FALSE, trim = TRUE)

# ---- one block, on a worker ---------------------------------------------------------------------

# Finds the neighbours of the queries rows[1] to rows[2], and returns them or writes them to files.
search_block <- function(rows, search) {
  for (package in search$packages) loadNamespace(package)
  found <- if (is_in_memory(search)) {
    points <- points_in_memory(search)$points
    among <- if (is.null(search$query)) rows else rows + nrow(search$x)
    update_block(NULL, rows, search, points, nrow(search$x), 1L, among)
  } else {
    queries <- read_rows(if (is.null(search$query)) search$x else search$query, rows)
    with_threads(search$device$threads, reduce_row_blocks(search$x, function(block, first, found) {
      points <- prepare_points(block, queries, "", search)$points
      on.exit(gknn_release(points))
      among <- nrow(block) + c(1, nrow(queries))
      update_block(found, rows, search, points, nrow(block), first, among)
    }, NULL))
  }
  if (!is.null(search$files)) return(write_block(search$files, rows, found))
  if (search$get_distance) found else found["index"]
}

# Updates the neighbours `found` of a block of queries (NULL at first) with the neighbours in a
# block of references. The references are the first `references` points; their row numbers begin at
# `first`. The queries are the points among[1] to among[2].
update_block <- function(found, rows, search, points, references, first, among) {
  queries <- seq.int(rows[1], rows[2])
  block <- list(
    references = references, first = first, queries = as.integer(among),
    own = if (is.null(search$query)) as.integer(queries) else search$own[queries]
  )
  pairs <- count_rows(rows) * references
  found <- run_job(
    job_gknn_block(points, block, search$k, found, with_local_threads(search$device)),
    if (is.null(search$progress)) FALSE else search$progress$step(pairs), "Finding neighbours"
  )
  if (!is.null(search$progress)) search$progress$done(pairs)
  found
}

# Prepares a block of references, followed by queries, for update_block(). Returns the value of
# job_gknn_points(): the points, which gknn_release() frees, the numbers of rows that may have no
# distance, and digests.
prepare_points <- function(x, query, digest, search, call = NULL) {
  run_job(
    job_gknn_points(x, query, digest, search$metric, with_local_threads(search$device)),
    FALSE, "Finding neighbours", call
  )
}

is_in_memory <- function(search) !is_in_blocks(search$x) && !is_in_blocks(search$query)

# All points, prepared. A process prepares them once.
points_in_memory <- function(search, call = NULL) {
  if (is.null(search$kept$points)) {
    search$kept$points <- prepare_points(search$x, search$query, "", search, call)
  }
  search$kept$points
}

release_points <- function(search) {
  if (!is.null(search$kept$points)) gknn_release(search$kept$points$points)
  search$kept$points <- NULL
}

# ---- before the search --------------------------------------------------------------------------

# Stops if values are not finite, or if rows have no distance; the error names their rows in the
# whole data. Returns a digest of `x` and one of `query`.
inspect_rows <- function(search, call) {
  # Rows of `x` that are queries are inspected with `x`.
  has_query <- !is.null(search$query) && is.null(search$own)
  query <- NULL
  if (is_in_memory(search)) {
    prepared <- points_in_memory(search, call)
    in_x <- prepared$rows <= nrow(search$x)
    x <- list(rows = prepared$rows[in_x], digest = prepared$digests[1])
    if (has_query) {
      query <- list(rows = prepared$rows[!in_x] - nrow(search$x), digest = prepared$digests[2])
    }
  } else {
    x <- inspect_matrix(search$x, "x", search, call)
    if (has_query) query <- inspect_matrix(search$query, "query", search, call)
  }
  problem <- gknn_refusal(x$rows, as.integer(query$rows), search$metric)
  if (!is.null(problem)) stop(gmhclust_error_input(problem, call))
  c(x = x$digest, query = query$digest)
}

# The digest of a matrix, and the numbers of its rows that may have no distance.
inspect_matrix <- function(x, arg, search, call) {
  with_threads(search$device$threads, reduce_row_blocks(x, function(block, first, before) {
    check_finite(block, arg, call, rows_before = first - 1L)
    prepared <- prepare_points(block, NULL, before$digest, search, call)
    gknn_release(prepared$points)
    list(rows = c(before$rows, prepared$rows + first - 1L), digest = prepared$digests[1])
  }, list(rows = integer(0), digest = "")))
}
