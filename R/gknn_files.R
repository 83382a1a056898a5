#' Neighbours in files
#'
#' Reads the neighbours that [gknn()] wrote into the folder `output`, in parts or as a whole.
#'
#' @param output A folder that [gknn()] wrote.
#' @param x An object of class `gknn_files`: the value of `read_gknn()`, or of [gknn()] with
#'   `output`.
#' @param rows The numbers of the rows of `query` (of `x` without `query`) whose neighbours to read.
#' @param ... Ignored.
#'
#' @section Format:
#' The folder has a manifest, `manifest.json`, and three files for each block of rows:
#' `index-FIRST-LAST.npy`, `distance-FIRST-LAST.npy` and `rows-FIRST-LAST.sha256`. `FIRST` and
#' `LAST` are the numbers of the block's first and last row, in ten digits. Each block has
#' `block_rows` rows; the last block may have fewer. Rows are numbered from 1, in the files and in
#' their names. The files of all blocks take 12 bytes for each neighbour.
#'
#' The manifest is a JSON object of at most 4096 bytes with these fields:
#' * `format`, `"gmhclust neighbours"`; `version`, 2; `first_row`, 1, the number of the first row.
#' * `block_rows`.
#' * `search`, an object: `rows`, the number of rows of `query` (of `x` without `query`); `columns`;
#'   `among`, the number of rows of `x`; `k`; `metric`, an object with the arguments `name`, `p`,
#'   `absolute` and `zero_over_zero`; and `digests`, an object with digests of the values of `x` and
#'   of `query`, 16 hexadecimal digits each, or `null` without a `query`.
#' * `sha256`, the last field: the SHA-256 checksum, in hexadecimal digits, of all bytes of the file
#'   before the comma that precedes this field. The file ends with this field's line, `}` and a
#'   newline.
#'
#' The `.npy` files are matrices with a row for each row of the block and k columns, in version 1.0
#' of NumPy's format: a header of 128 bytes, then the values row after row, little-endian. `index`
#' has 32-bit integers (`'<i4'`), numbers of rows of `x`, and `distance` has doubles (`'<f8'`), both
#' nearest neighbours first.
#'
#' The `.sha256` file has the SHA-256 checksums of `manifest.json`, `index-FIRST-LAST.npy` and
#' `distance-FIRST-LAST.npy`, in this order, a line for each: 64 hexadecimal digits, two spaces and
#' the file's name. In the folder, `sha256sum -c rows-*.sha256` checks all files. This file is
#' written last: a block is finished if its checksums match.
#'
#' All files are written under names that begin with `writing-`, and renamed when they are complete
#' and the system has written them to the disk. So a file with its final name is always complete.
#' The next call of `gknn()` deletes incomplete files, with `part` those of its part.
#'
#' While a call of `gknn()` without `part` writes, the folder has a file `gmhclust.lock`, which
#' names the process and its machine. Another such call with this folder stops with an error that
#' names both. If the process was killed, the next call detects it, and continues. This cannot be
#' detected for a process on another machine: then the error says that the lock file must be
#' deleted.
#'
#' This Python code reads all neighbours, with rows numbered from 0:
#'
#' ```python
#' import glob, numpy as np
#' index = np.concatenate([np.load(f) for f in sorted(glob.glob(folder + "/index-*.npy"))]) - 1
#' distance = np.concatenate([np.load(f) for f in sorted(glob.glob(folder + "/distance-*.npy"))])
#' ```
#'
#' The code does not verify checksums. If blocks are missing, it returns fewer rows than field
#' `rows` of the manifest.
#'
#' @section Damage:
#' Reading never runs code from these files. The size of a file is checked before it is read, and
#' its checksum before it is decoded; links in the folder are not followed. A damaged folder, or a
#' folder of another program, is an error:
#' * `read_gknn()` checks the manifest, and the names and sizes of the other files.
#' * `x[rows]` checks the blocks that it reads.
#' * `gknn()` with the folder of an earlier call checks all files, and computes damaged blocks
#'   again. A damaged manifest is an error.
#'
#' Checksums detect damage, but not forgery: a forger can write matching checksums.
#'
#' @inheritSection gmhclust Errors
#'
#' @return `read_gknn()`: an object of class `gknn_files`, which refers to the folder and holds no
#'   neighbours itself. Missing blocks, as after an interrupt, are an error; repeating the call of
#'   [gknn()] computes them.
#'
#'   `x[rows]`: a list of `index` and `distance`, matrices as [gknn()] returns them, for these rows.
#'
#'   `as.list(x)`: the same for all rows.
#'
#' @seealso [gknn()]; [as_edges()] for a part of the graph.
#'
#' @examples
#' x <- as.matrix(iris[1:4])
#' folder <- tempfile()
#' nn <- gknn(x, 3, output = folder, block_rows = 50)
#' nn
#' list.files(folder)
#'
#' # In another R process, or later:
#' nn <- read_gknn(folder)
#' nn[c(1, 150)]
#' identical(as.list(nn), gknn(x, 3))
#' @export
read_gknn <- function(output) {
  call <- match.call()
  needs <- "it must be a folder that gknn() has filled"
  if (missing(output)) refuse_missing("output", needs, call)
  check_folder(output, "output", call)
  if (!file.exists(manifest_of(output))) {
    refuse_earlier_format(output, "output", call)
    refuse("output", paste("is", describe(output)), needs, call)
  }
  files <- open_folder(output, "output", call)
  missing <- missing_blocks(files, "output", call)
  if (missing$blocks > 0) {
    refuse("output", paste("lacks rows", describe_missing(files, missing)),
           "repeat the call of gknn() to compute them", call)
  }
  files
}

#' @rdname read_gknn
#' @export
print.gknn_files <- function(x, ...) {
  call <- match.call()
  check_files(x, "x", call)
  blocks <- ceiling(x$rows / x$block_rows)
  missing <- missing_blocks(x, "x", call)
  cat(
    "The ", x$k, ngettext(x$k, " nearest neighbour of ", " nearest neighbours of "),
    format_number(x$rows), ngettext(x$rows, " row", " rows"), " (", x$metric$name, "), in ", blocks,
    ngettext(blocks, " block", " blocks"), " in\n", x$folder, "\n",
    sep = ""
  )
  if (missing$blocks > 0) cat("Missing: rows ", describe_missing(x, missing), "\n", sep = "")
  invisible(x)
}

#' @rdname read_gknn
#' @export
`[.gknn_files` <- function(x, rows) {
  call <- match.call()
  x <- check_files(x, "x", call)
  check_fits_manifest(x, "x", call)
  rows <- if (missing(rows)) seq_len(x$rows) else check_rows(rows, x$rows, "rows", call)
  check_memory("the neighbours need", 12 * length(rows) * x$k, call)
  index <- matrix(0L, length(rows), x$k)
  distance <- matrix(0, length(rows), x$k)
  block <- block_of_row(x, rows)
  for (b in unique(block)) {
    here <- which(block == b)
    at <- as.integer(rows[here] - rows_of_block(x, b)[1] + 1)
    found <- read_block(x, b, at, call)
    index[here, ] <- found$index
    distance[here, ] <- found$distance
  }
  list(index = index, distance = distance)
}

#' @rdname read_gknn
#' @export
as.list.gknn_files <- function(x, ...) x[]

# str.default() would take the neighbours of single rows, which `[` reads, for components.
#' @importFrom utils str
#' @export
str.gknn_files <- function(object, ...) {
  cat("Class 'gknn_files' ")
  str(unclass(object), ...)
}

# The components of an object of class "gknn_files".
check_files <- function(x, arg, call) {
  x <- unclass(x)
  is_text <- function(part) is.character(part) && length(part) == 1 && !is.na(part)
  is_count <- function(part) is_thread_count(part) && is.integer(part)
  is_sound <- is.list(x) && all(vapply(counts_of_files, function(part) is_count(x[[part]]), NA)) &&
    is_text(x$folder) && is_text(x$checksum) && is.list(x$metric) && is_text(x$metric$name)
  if (!is_sound) refuse(arg, "has components that do not fit", needs_files, call)
  x
}

counts_of_files <- c("rows", "columns", "among", "k", "block_rows")

needs_files <- "it must be the value of read_gknn(), or of gknn() with `output`"

# Stops if checked components differ from the manifest that they come from. If the folder now has
# another manifest, the function that reads the folder stops.
check_fits_manifest <- function(x, arg, call) {
  files <- run_job(job_folder_open(path_bytes(x$folder), arg), FALSE, reading, call)
  is_same <- identical(files[counts_of_files], x[counts_of_files])
  if (files$checksum == x$checksum && !is_same) {
    refuse(arg, "has components that differ from its manifest.json", needs_files, call)
  }
}

# Row numbers from 1 to n.
check_rows <- function(rows, n, arg, call) {
  needs <- paste("they must be whole numbers from 1 to", format_number(n))
  if (!is.numeric(rows) || is.object(rows)) refuse(arg, paste("is", describe(rows)), needs, call)
  bad <- which(is.na(rows) | rows != round(rows) | rows < 1 | rows > n)
  if (length(bad) > 0) refuse(arg, paste("has", format(rows[bad[1]])), needs, call)
  rows
}

# ---- the folder ---------------------------------------------------------------------------------

# The library reads and writes the files. Each call passes the checksum of the manifest, so the
# library notices if the folder now belongs to another search.

reading <- "Reading neighbours"

manifest_of <- function(folder) file.path(folder, "manifest.json")

# The name of a folder for the library: bytes in the system's encoding.
path_bytes <- function(folder) {
  charToRaw(if (.Platform$OS.type == "windows") enc2utf8(folder) else enc2native(folder))
}

# An object of class "gknn_files" for a folder with a manifest.
open_folder <- function(folder, arg, call) {
  folder <- normalizePath(folder)
  files <- run_job(job_folder_open(path_bytes(folder), arg), FALSE, reading, call)
  structure(c(files, folder = folder), class = "gknn_files")
}

# The number of the block of each row.
block_of_row <- function(files, rows) (rows - 1) %/% files$block_rows + 1

rows_of_block <- function(files, block) {
  before <- (block - 1) * files$block_rows
  c(before + 1, min(files$rows, before + files$block_rows))
}

# The first and the last block of a part c(i, n) of the blocks; the last before the first for none.
blocks_of_part <- function(files, part) {
  count <- ceiling(files$rows / files$block_rows)
  as.integer(c(floor((part[1] - 1) * count / part[2]) + 1, floor(part[1] * count / part[2])))
}

# The missing blocks of a folder: their number, `blocks`, and the `first` and the `last` block of
# each run of missing blocks.
missing_blocks <- function(files, arg, call) {
  run_job(
    job_folder_missing(path_bytes(files$folder), arg, files$checksum), FALSE, reading, call
  )
}

# The rows of missing blocks for a message: "1 to 200, 401 to 600 and of 7 more blocks".
describe_missing <- function(files, missing) {
  shown <- seq_len(min(5, length(missing$first)))
  rows <- vapply(shown, function(run) {
    from <- rows_of_block(files, missing$first[run])[1]
    to <- rows_of_block(files, missing$last[run])[2]
    paste(format_number(unique(c(from, to))), collapse = " to ")
  }, "")
  text <- paste(rows, collapse = ", ")
  more <- missing$blocks - sum(missing$last[shown] - missing$first[shown] + 1)
  if (more == 0) return(text)
  paste(text, "and of", format_number(more), ngettext(more, "more block", "more blocks"))
}

# A list of the first and the last row of each block from blocks[1] to blocks[2] that is missing or
# damaged.
unfinished_blocks <- function(files, blocks, progress, call) {
  blocks <- run_job(
    job_folder_unfinished(
      path_bytes(files$folder), "output", files$checksum, blocks[1], blocks[2]
    ),
    progress, "Checking blocks", call
  )
  lapply(blocks, function(block) rows_of_block(files, block))
}

# Whether a block exists and is intact.
is_finished <- function(files, rows) {
  tryCatch(
    {
      read_block(files, block_of_row(files, rows[1]), integer(0), NULL)
      TRUE
    },
    gmhclust_error = function(condition) FALSE
  )
}

# The neighbours of rows `at` of a block; `at` counts from the first row of the block.
read_block <- function(files, block, at, call) {
  run_job(
    job_folder_read(path_bytes(files$folder), "x", files$checksum, as.integer(block), at), FALSE,
    reading, call
  )
}

write_block <- function(files, rows, found) {
  block <- as.integer(block_of_row(files, rows[1]))
  run_job(
    job_folder_write(
      path_bytes(files$folder), "output", files$checksum, block, found$index, found$distance
    ),
    FALSE, "Writing neighbours"
  )
}

check_folder <- function(output, arg, call) {
  if (!is.character(output) || length(output) != 1 || is.na(output) || !nzchar(output)) {
    refuse(arg, paste("is", describe(output)), "it must be the name of a folder", call)
  }
  if (!validEnc(output) || Encoding(output) == "bytes") {
    refuse(arg, paste("is", describe(output)), "its bytes must be valid in its encoding", call)
  }
  if (utils::file_test("-f", output)) {
    refuse(arg, paste("is the file", describe(output)), "it must be the name of a folder", call)
  }
}

# Creates the folder `output`, unless it is there.
create_folder <- function(output, call) {
  dir.create(output, showWarnings = FALSE, recursive = TRUE)
  if (!dir.exists(output)) {
    refuse("output", paste("is", describe(output)), "the folder cannot be created", call)
  }
}

# Stops if no file can be made in the folder `output`, before the work whose results go there.
check_writable_folder <- function(output) {
  file <- tempfile("writing-", output)
  made <- suppressWarnings(file.create(file))
  unlink(file)
  if (!made) {
    refuse("output", paste("is", quoted(output)), "no file can be written there", NULL)
  }
}

# Stops if an earlier version wrote the folder, in R's own format, which readRDS() cannot read
# safely.
refuse_earlier_format <- function(folder, arg, call) {
  if (file.exists(file.path(folder, "manifest.rds"))) {
    refuse(arg, "was written by an earlier version of gmhclust",
           "its neighbours must be computed anew, in another folder", call)
  }
}

# Creates the folder for the result of a search, or takes the folder of an earlier call.
make_output <- function(folder, call) {
  create_folder(folder, call)
  # A folder that has other files must not get a lock file.
  refuse_other_files(folder, call)
}

# Locks the folder for this process. Returns the lock, which folder_unlock() releases; NULL for a
# read-only folder, whose blocks may be complete.
lock_output <- function(folder, call) {
  run_job(job_folder_lock(path_bytes(normalizePath(folder)), "output"), FALSE,
          "Writing neighbours", call)
}

# Opens the folder for the result of a search with these `parameters`: a new folder, or the folder
# of another call for the same search, which may have made it just now. If `block_rows` is NULL,
# fitting() chooses it for a new folder.
open_files <- function(folder, parameters, block_rows, fitting, call) {
  if (!file.exists(manifest_of(folder))) {
    # Another process may have written here before this one had the lock.
    refuse_other_files(folder, call)
    run_job(
      job_folder_begin(
        path_bytes(normalizePath(folder)), parameters,
        if (is.null(block_rows)) fitting() else block_rows
      ),
      FALSE, "Writing neighbours", call
    )
  }
  files <- open_folder(folder, "output", call)
  parameters$block_rows <- if (is.null(block_rows)) files$block_rows else block_rows
  difference <- parameter_differences(files, parameters)
  if (length(difference) > 0) {
    got <- paste0("is the folder of another call: ", paste(difference, collapse = ", "))
    refuse("output", got, "use another folder, or delete this one", call)
  }
  files
}

# The names of files that the library had not finished when its process ended: "writing-", the
# process, a number, and the name of a file of this folder.
incomplete_files <- paste0(
  "^writing-[0-9]+-[0-9]+-(manifest[.]json|(index|distance)-[0-9]{10}-[0-9]{10}[.]npy|",
  "rows-[0-9]{10}-[0-9]{10}[.]sha256)$"
)

# Deletes the incomplete files of blocks[1] to blocks[2] that earlier calls left, and, with all
# blocks, every incomplete file. If another call for the same part is writing one of them, that call
# writes the file again.
delete_incomplete <- function(files, blocks) {
  names <- list.files(files$folder, incomplete_files)
  if (any(blocks != blocks_of_part(files, c(1, 1)))) {
    rows <- "^.*-([0-9]{10})-[0-9]{10}[.][a-z0-9]+$"
    # NA for a manifest.
    first <- suppressWarnings(as.numeric(sub(rows, "\\1", names)))
    block <- block_of_row(files, first)
    names <- names[!is.na(block) & block >= blocks[1] & block <= blocks[2]]
  }
  unlink(file.path(files$folder, names))
}

# Stops if a folder without a manifest has files that gknn() did not write.
refuse_other_files <- function(folder, call) {
  files <- list.files(folder, all.files = TRUE, no.. = TRUE)
  # Another process may make the manifest at this moment.
  manifest <- manifest_of(folder)
  if (basename(manifest) %in% files || file.exists(manifest)) return(invisible())
  refuse_earlier_format(folder, "output", call)
  if (!all(files == "gmhclust.lock" | grepl(incomplete_files, files))) {
    refuse("output", "is a folder of other files", "it must be new, empty, or from gknn()", call)
  }
}

# The differences between the parameters of a manifest, `before`, and of this search, `now`, as
# texts.
parameter_differences <- function(before, now) {
  differ <- function(part) !identical(before[[part]], now[[part]])
  in_words <- function(what, values) paste(what, "was", values[1], "and is", values[2])
  sizes <- c(
    rows = "the number of rows", columns = "the number of columns", among = "`x`'s number of rows",
    k = "`k`", block_rows = "`block_rows`"
  )
  changed <- Filter(differ, names(sizes))
  changed_sizes <- vapply(changed, function(part) {
    in_words(sizes[[part]], format_number(c(before[[part]], now[[part]])))
  }, "")
  metric <- if (differ("metric")) {
    parts <- names(now$metric)
    changed <- parts[!mapply(identical, before$metric[parts], now$metric)]
    vapply(changed, function(part) {
      arg <- paste0("`", if (part == "name") "metric" else part, "`")
      in_words(arg, c(shown_value(before$metric[[part]]), shown_value(now$metric[[part]])))
    }, "")
  }
  data <- if (length(changed_sizes) == 0) {
    parts <- union(names(before$digests), names(now$digests))
    other <- parts[is.na(match(parts, names(before$digests))) |
                     is.na(match(parts, names(now$digests))) |
                     before$digests[parts] != now$digests[parts]]
    if (length(other) > 0) paste0("the values of `", other, "` differ")
  }
  unname(c(changed_sizes, metric, data))
}

hint_to_resume <- function(files) {
  paste0("; finished blocks are kept in \"", files$folder,
         "\", and the same call resumes from them")
}
