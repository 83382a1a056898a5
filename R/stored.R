# Observations that the library holds, because R has no matrix of them: they are read in blocks and
# handed over one after the other. Class "stored_rows": a list of `handle`, which the library's jobs
# take in place of a matrix; `size`, the numbers of rows and columns; `names`, the row and column
# names; and `folder`, where the values are in a scratch file, as bytes; NULL in memory. The
# functions that check and change observations take it in place of a matrix.

# The observations of `x`, checked as as_observations() checks them: a matrix, or stored rows if
# `x` is read in blocks. need(p) is the memory in bytes that the caller's work needs for each
# observation of p columns, besides the values. `options` has its checked `memory`, `threads` (NULL
# for the default) and `progress`, and `copies`, the number of copies of the values that the work
# has if they are in memory (NULL for 1). The caller frees the result by release_rows(). `wide` as
# in message_if_doubtful().
as_stored_observations <- function(x, arg, need, options, call, ..., wide = TRUE) {
  store_observations(as_data(x, arg, call, ...), arg, need, options, call, wide)
}

# As as_stored_observations(), for a value of as_data().
store_observations <- function(x, arg, need, options, call, wide = TRUE) {
  need <- need(ncol(x))
  check_budget(x, need, options$memory, call)
  if (!is_in_blocks(x)) {
    x <- with_threads(options$threads, {
      check_observations(read_all(x, arg, call), arg, call, wide)
    })
    collect_garbage(x)
    return(x)
  }
  check_size(x, arg, call)
  x <- tryCatch(store_rows(x, arg, need, options, call), interrupt = function(condition) {
    stop(gmhclust_error_interrupt(paste(reading_rows, "was interrupted"), call))
  })
  message_if_doubtful(x, arg, call, wide)
  collect_garbage(x)
  x
}

# Frees what R no longer needs before work on observations of many bytes. R counts its own memory
# only: of a matrix of 11 GB that was read in blocks, the last blocks would stay during all work.
collect_garbage <- function(x, bytes = 2^30) {
  if (8 * nrow(x) * ncol(x) >= bytes) gc(verbose = FALSE)
  invisible()
}

# Stops if the work on x takes more memory than the user's `memory` allows, even without its values.
check_budget <- function(x, need, memory, call) {
  bytes <- nrow(x) * need
  if (is.null(memory) || bytes <= memory) return(invisible())
  needs <- paste0("the work on ", shown_count(nrow(x)), " observations needs at least ",
                  in_megabytes(rounded_up(bytes)))
  refuse("memory", paste("is", in_megabytes(memory)), needs, call)
}

# Hands x over, block by block.
store_rows <- function(x, arg, need, options, call) {
  folder <- if (!fits_in_memory(x, need, options)) scratch_folder(call)
  threads <- with_local_threads(list(threads = options$threads))$threads
  handle <- run_job(job_stored_begin(nrow(x), ncol(x), folder), FALSE, reading_rows, call)
  done <- FALSE
  units <- list(total = nrow(x), name = "rows")
  display <- joint_progress(nrow(x), reading_rows, options$progress, units)
  on.exit({
    display$close()
    if (!done) stored_release(handle)
  })
  with_threads(threads, reduce_row_blocks(x, function(block, first, state) {
    check_finite(block, arg, call, rows_before = first - 1)
    step <- display$step(nrow(block))
    run_job(job_stored_append(handle, block, threads), step, reading_rows, call)
    display$done(nrow(block))
  }, NULL, values = min(handed_values, block_values())))
  run_job(job_stored_end(handle), FALSE, reading_rows, call)
  done <- TRUE
  # R keeps the memory of the last blocks otherwise.
  if (!is.null(folder)) gc()
  new_stored_rows(handle, dim(x), dimnames(x), folder)
}

# A matrix as stored rows in memory, for several jobs, because each job would copy the matrix.
store_matrix <- function(x, threads, call = NULL) {
  handle <- run_job(job_stored_begin(nrow(x), ncol(x), NULL), FALSE, reading_rows, call)
  run_job(job_stored_append(handle, x, threads), FALSE, reading_rows, call)
  run_job(job_stored_end(handle), FALSE, reading_rows, call)
  new_stored_rows(handle, dim(x), dimnames(x), NULL)
}

reading_rows <- "Reading observations"

# Maximum number of values in a block that is handed over, 32 MB. Blocks are small, because reading
# takes a few times as much memory, and each block is read only once.
handed_values <- 4e6

new_stored_rows <- function(handle, size, names, folder) {
  if (is.null(names)) names <- list(NULL, NULL)
  structure(list(handle = handle, size = as_size(size), names = names, folder = folder),
            class = "stored_rows")
}

# Whether the values of x stay in memory. By the user's `memory`, they do if both the values and the
# work fit in it; without it, if twice as much is available.
fits_in_memory <- function(x, need, options) {
  copies <- if (is.null(options$copies)) 1 else options$copies
  bytes <- nrow(x) * (8 * ncol(x) * copies + need)
  if (!is.null(options$memory)) return(bytes <= options$memory)
  is.null(memory_refusal("the observations need", 2 * bytes))
}

# The folder for scratch files, as bytes.
scratch_folder <- function(call) {
  folder <- getOption("gmhclust.scratch", tempdir())
  if (!is.character(folder) || length(folder) != 1 || is.na(folder) || !dir.exists(folder)) {
    refuse("gmhclust.scratch", paste("is", describe(folder)), "it must be the name of a folder",
           call)
  }
  path_bytes(normalizePath(folder))
}

# NULL, or a number of bytes: the user's number, or a text such as "8 GB".
check_budget_size <- function(memory, call) {
  if (is.null(memory)) return(NULL)
  arg <- argument_name("memory", memory)
  needs <- "it must be a number of bytes, a text such as \"8 GB\", or NULL"
  bytes <- memory
  if (is.character(memory) && length(memory) == 1 && !is.na(memory)) {
    # By bytes, since the text may be invalid; what matches is ASCII.
    pattern <- "^[ ]*([0-9.]+)[ ]*([kKmMgGtT]?)[bB]?[ ]*$"
    if (!grepl(pattern, memory, useBytes = TRUE)) {
      refuse(arg, paste("is", describe(memory)), needs, call)
    }
    unit <- match(toupper(sub(pattern, "\\2", memory)), c("", "K", "M", "G", "T"))
    bytes <- suppressWarnings(as.numeric(sub(pattern, "\\1", memory))) * 1e3^(unit - 1)
  }
  if (identical(bytes, Inf)) return(bytes)
  if (!is_single_number(bytes) || bytes <= 0) {
    refuse(arg, paste("is", describe(memory)), needs, call)
  }
  as.double(bytes)
}

is_stored <- function(x) inherits(x, "stored_rows")

# The value of x that a job takes as its argument `x`.
job_data <- function(x) if (is_stored(x)) x$handle else x

# Frees stored rows; anything else stays as it is.
release_rows <- function(x) if (is_stored(x)) stored_release(x$handle)

#' @export
dim.stored_rows <- function(x) x$size

#' @export
dimnames.stored_rows <- function(x) if (!all(lengths(x$names) == 0)) x$names

# Reads rows and columns, like `[` of a matrix.
#' @export
`[.stored_rows` <- function(x, i, j, drop = TRUE) {
  rows <- if (!missing(i)) seq_len(nrow(x))[i]
  columns <- if (missing(j)) seq_len(ncol(x)) else seq_len(ncol(x))[j]
  count <- if (is.null(rows)) nrow(x) else length(rows)
  check_memory("the values need", 8 * count * length(columns), NULL)
  values <- run_job(job_stored_read(x$handle, rows, columns), FALSE, reading_rows)
  names <- dimnames(x)
  if (!is.null(names)) {
    labels <- if (is.null(rows)) names[[1]] else names[[1]][rows]
    dimnames(values) <- list(labels, names[[2]][columns])
  }
  if (drop) drop(values) else values
}

# Stored rows or a matrix, without some columns.
without_columns <- function(x, columns) {
  if (!is_stored(x)) return(x[, -columns, drop = FALSE])
  kept <- seq_len(ncol(x))[-columns]
  changed_rows(x, kept, 1, 0, 1)
}

# The stored rows (x / scale - shift) / unit, in the columns `kept`; `scale`, `shift` and `unit`
# have a single value, or a value for each of these columns. Frees x.
changed_rows <- function(x, kept, scale, shift, unit, call = NULL) {
  numbers <- lapply(list(scale, shift, unit), function(value) {
    rep_len(as.double(value), length(kept))
  })
  handle <- run_job(
    job_stored_changed(x$handle, kept, numbers[[1]], numbers[[2]], numbers[[3]], x$folder), FALSE,
    reading_rows, call
  )
  release_rows(x)
  new_stored_rows(handle, c(nrow(x), length(kept)), list(x$names[[1]], x$names[[2]][kept]),
                  x$folder)
}
