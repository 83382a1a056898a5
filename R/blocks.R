# Neighbours block by block, for what is larger than memory or than one machine: the queries are cut
# into blocks of rows, and all references pass by each of them.
#
# In all of this, `search` is a list of what does not change from block to block: `x`, `query`, `k`,
# `metric`, `device` (see device_here()), `packages` to read rows with, `files` for the result or
# NULL, `progress` for a bar or NULL, and `kept`, an environment for what a process keeps from block
# to block.

# Without workers, so many queries at a time: they take a GPU much longer than it takes to prepare
# all references for them.
most_block_rows <- 250000

# For several workers, blocks are smaller, so that they end together, but not smaller than this.
fewest_block_rows <- 1000

# gknn() in blocks: of `block_rows` queries or, where that is NULL, as fits. With `output`, an
# object of class "gknn_files"; otherwise what gknn() returns.
gknn_in_blocks <- function(search, block_rows, output, workers, progress, call) {
  search$kept <- new.env(parent = emptyenv())
  on.exit(release_points(search))
  digests <- look_at_rows(search, call)
  # What is in another process's memory says nothing to workers.
  if (!is.null(workers)) release_points(search)
  queries <- if (is.null(search$query)) search$x else search$query
  job <- job_of(search, digests)
  if (is.null(output)) {
    if (is.null(block_rows)) block_rows <- fitting_block_rows(queries, workers)
    left <- cut_rows(nrow(queries), block_rows)
  } else {
    fitting <- function() fitting_block_rows(queries, workers)
    search$files <- open_files(output, job, block_rows, fitting, call)
    left <- unfinished_blocks(search$files, progress, call)
  }
  if (progress && is.null(workers)) {
    search$progress <- progress_of_all(sum(vapply(left, count_rows, 0)) * nrow(search$x))
  }
  found <- spread(
    left, "search_block", search, workers,
    name = function(rows) name_rows(rows, if (is.null(search$query)) "X" else "query"),
    what = "Finding neighbours", call = call,
    hint = if (is.null(output)) "" else hint_to_resume(search$files),
    is_done = function(rows) !is.null(output) && is_finished(search$files, rows)
  )
  if (!is.null(output)) return(search$files)
  list(
    index = do.call(rbind, lapply(found, `[[`, "index")),
    distance = do.call(rbind, lapply(found, `[[`, "distance"))
  )
}

# One progress bar for several jobs, of `total` work in all: a list of step(work), a function for
# run_job() with a job of so much work, and done(work), to be called after it.
progress_of_all <- function(total, envir = parent.frame()) {
  bar <- progress_bar("Finding neighbours", envir)
  before <- 0
  list(
    step = function(work) {
      function(progress) {
        share <- progress_share(progress[1], progress[2], furthest = 0)
        bar$show(c(before + work * share, total))
      }
    },
    done = function(work) before <<- before + work
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
  count <- ceiling(n / most_block_rows)
  if (!is.null(workers)) {
    shares <- count_workers(workers)
    count <- max(count, shares, min(4 * shares, n %/% fewest_block_rows))
  }
  rows <- ceiling(n / count)
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
  found <- if (is_in_memory(search)) {
    points <- points_in_memory(search)$points
    among <- if (is.null(search$query)) rows else rows + nrow(search$x)
    update_block(NULL, rows, search, points, nrow(search$x), 1L, among)
  } else {
    queries <- read_rows(if (is.null(search$query)) search$x else search$query, rows)
    pass_rows(search$x, function(block, first, found) {
      points <- prepare_points(block, queries, "", search)$points
      on.exit(gknn_release(points))
      among <- nrow(block) + c(1, nrow(queries))
      update_block(found, rows, search, points, nrow(block), first, among)
    }, NULL)
  }
  if (is.null(search$files)) found else write_block(search$files, rows, found)
}

# Adds to what was found for a block of queries, or NULL, the neighbours in a block of references:
# the first `references` of the points, which begin with reference number `first`. `among` are the
# first and the last of the points that are queries.
update_block <- function(found, rows, search, points, references, first, among) {
  block <- list(
    references = references, first = first, queries = as.integer(among),
    own = if (is.null(search$query)) as.integer(rows[1])
  )
  pairs <- count_rows(rows) * references
  found <- run_job(
    job_gknn_block(points, block, search$k, found, device_here(search$device)),
    if (is.null(search$progress)) FALSE else search$progress$step(pairs), "Finding neighbours"
  )
  if (!is.null(search$progress)) search$progress$done(pairs)
  found
}

# A block of references, and queries after them, for update_block(), which gknn_release() frees;
# with the numbers of suspicious rows, and digests of both.
prepare_points <- function(x, query, digest, search, call = NULL) {
  run_job(
    job_gknn_points(x, query, digest, search$metric, device_here(search$device)),
    FALSE, "Finding neighbours", call
  )
}

is_in_memory <- function(search) !is_delayed(search$x) && !is_delayed(search$query)

# All points, which this process prepares once.
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

# Stops where values are not finite, or where rows have no distance, naming their place in the
# whole. Returns a digest of X and one of `query`.
look_at_rows <- function(search, call) {
  if (is_in_memory(search)) {
    look <- points_in_memory(search, call)
    in_x <- look$rows <= nrow(search$x)
    x <- list(rows = look$rows[in_x], digest = look$digests[1])
    query <- list(rows = look$rows[!in_x] - nrow(search$x), digest = look$digests[2])
  } else {
    x <- look_at(search$x, "X", search, call)
    query <- if (!is.null(search$query)) look_at(search$query, "query", search, call)
  }
  problem <- gknn_refusal(x$rows, as.integer(query$rows), search$metric)
  if (!is.null(problem)) stop(gmhclust_error_input(problem, call))
  c(X = x$digest, query = if (!is.null(search$query)) query$digest)
}

look_at <- function(x, arg, search, call) {
  pass_rows(x, function(block, first, before) {
    check_finite(block, arg, call, rows_before = first - 1L)
    look <- prepare_points(block, NULL, before$digest, search, call)
    gknn_release(look$points)
    list(rows = c(before$rows, look$rows + first - 1L), digest = look$digests[1])
  }, list(rows = integer(0), digest = ""))
}
