#' Neighbours in files
#'
#' What [gknn()] finds with `output`: the folder it wrote into, to be read in parts or as a whole.
#'
#' @param output A folder that [gknn()] has filled.
#' @param x An object of class `gknn_files`, as [gknn()] with `output` and `read_gknn()` return it.
#' @param rows Numbers of the observations whose neighbours are wanted, or of the rows of `query`.
#' @param ... Nothing.
#'
#' @section Files:
#' * `manifest.rds`, a list that describes the search: `format` (1), the number of `rows` whose
#'   neighbours are looked for, the number of `columns`, the number of rows they are looked for
#'   `among`, `k`, `metric` (a list of its name and choices), `digests` of the data, and
#'   `block_rows`, the number of rows in each file.
#' * `rows-FIRST-LAST.rds` for each block of rows, a list of the matrices `index` and `distance` as
#'   [gknn()] returns it, for these rows. The numbers have ten digits.
#'
#' All are written by [saveRDS()], without compression, under names that begin with `writing-`, and
#' renamed once they are complete. So a file with its final name is never half-written. They take 12
#' bytes for each neighbour.
#'
#' @inheritSection gmhclust Errors
#'
#' @return `read_gknn()`: an object of class `gknn_files`, which holds no neighbours but where they
#'   are. It is an error if blocks are missing, as after an interrupt; the same call of [gknn()]
#'   finds them.
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
  check_folder(output, "output", call)
  manifest <- if (file.exists(manifest_of(output))) read_manifest(output, "output", call)
  if (is.null(manifest)) {
    refuse("output", paste("is", describe(output)), "it must be a folder that gknn() has filled",
           call)
  }
  files <- new_files(output, manifest)
  missing <- Filter(function(rows) !is_written(files, rows), blocks_of(files))
  if (length(missing) > 0) {
    first <- missing[[1]]
    got <- paste0("lacks rows ", number(first[1]), " to ", number(first[2]))
    if (length(missing) > 1) got <- paste0(got, " and ", length(missing) - 1, " more blocks")
    refuse("output", got, "the call of gknn() that began it goes on with it", call)
  }
  files
}

#' @rdname read_gknn
#' @export
print.gknn_files <- function(x, ...) {
  blocks <- length(blocks_of(x))
  cat(
    "The ", x$k, ngettext(x$k, " nearest neighbour of ", " nearest neighbours of "), number(x$rows),
    ngettext(x$rows, " row", " rows"), " (", x$metric$name, "), in ", blocks,
    ngettext(blocks, " file", " files"), " in\n", x$folder, "\n",
    sep = ""
  )
  invisible(x)
}

#' @rdname read_gknn
#' @export
`[.gknn_files` <- function(x, rows) {
  x <- unclass(x)
  call <- match.call()
  rows <- if (missing(rows)) seq_len(x$rows) else check_rows(rows, x$rows, "rows", call)
  index <- matrix(0L, length(rows), x$k)
  distance <- matrix(0, length(rows), x$k)
  block <- (rows - 1) %/% x$block_rows + 1
  bounds <- blocks_of(x)
  for (b in unique(block)) {
    here <- which(block == b)
    found <- read_block(x, bounds[[b]], call)
    at <- rows[here] - bounds[[b]][1] + 1
    index[here, ] <- found$index[at, ]
    distance[here, ] <- found$distance[at, ]
  }
  list(index = index, distance = distance)
}

#' @rdname read_gknn
#' @export
as.list.gknn_files <- function(x, ...) x[]

# Row numbers from 1 to n.
check_rows <- function(rows, n, arg, call) {
  needs <- paste("they must be whole numbers from 1 to", number(n))
  if (!is.numeric(rows) || is.object(rows)) refuse(arg, paste("is", describe(rows)), needs, call)
  bad <- which(is.na(rows) | rows != round(rows) | rows < 1 | rows > n)
  if (length(bad) > 0) refuse(arg, paste("has", format(rows[bad[1]])), needs, call)
  rows
}

# ---- the folder ---------------------------------------------------------------------------------

files_format <- 1L

new_files <- function(folder, manifest) {
  manifest$folder <- normalizePath(folder)
  structure(manifest, class = "gknn_files")
}

manifest_of <- function(folder) file.path(folder, "manifest.rds")

blocks_of <- function(files) cut_rows(files$rows, files$block_rows)

file_of <- function(files, rows) {
  file.path(files$folder, sprintf("rows-%010.0f-%010.0f.rds", rows[1], rows[2]))
}

is_written <- function(files, rows) utils::file_test("-f", file_of(files, rows))

write_block <- function(files, rows, found) {
  write_whole(found, file_of(files, rows))
  NULL
}

# Writes a file such that it is there as a whole or not at all.
write_whole <- function(value, file) {
  temporary <- tempfile("writing-", dirname(file))
  on.exit(unlink(temporary))
  saveRDS(value, temporary, compress = FALSE)
  if (!suppressWarnings(file.rename(temporary, file))) stop("cannot write ", file)
}

read_block <- function(files, rows, call) {
  file <- file_of(files, rows)
  found <- tryCatch(suppressWarnings(readRDS(file)), error = function(condition) NULL)
  fits <- function(part) identical(dim(found[[part]]), as.integer(c(count_rows(rows), files$k)))
  if (!is.list(found) || !fits("index") || !fits("distance")) {
    got <- paste0("has no block of neighbours in ", file)
    refuse("x", got, "delete that file, and the call of gknn() that made it makes it again", call)
  }
  found
}

check_folder <- function(output, arg, call) {
  if (!is.character(output) || length(output) != 1 || is.na(output) || !nzchar(output)) {
    refuse(arg, paste("is", describe(output)), "it must be the name of a folder", call)
  }
  if (utils::file_test("-f", output)) {
    refuse(arg, paste("is the file", describe(output)), "it must be the name of a folder", call)
  }
}

read_manifest <- function(folder, arg, call) {
  manifest <- tryCatch(readRDS(manifest_of(folder)), error = function(condition) NULL)
  if (!is.list(manifest) || !identical(manifest$format, files_format)) {
    refuse(arg, "has a manifest.rds that this version cannot read", "use another folder", call)
  }
  manifest
}

# The folder for the result of a search: a new one, or that of an earlier call for the same, of
# which it keeps the blocks. `fitting()` says how many rows fit a block where `block_rows` is NULL
# and nothing is there.
open_files <- function(folder, job, block_rows, fitting, call) {
  dir.create(folder, showWarnings = FALSE, recursive = TRUE)
  if (!dir.exists(folder)) {
    refuse("output", paste("is", describe(folder)), "such a folder cannot be made", call)
  }
  if (file.exists(manifest_of(folder))) {
    manifest <- read_manifest(folder, "output", call)
    job$block_rows <- if (is.null(block_rows)) manifest$block_rows else block_rows
    difference <- difference_of_jobs(manifest, job)
    if (length(difference) > 0) {
      got <- paste0("is the folder of another call: ", paste(difference, collapse = ", "))
      refuse("output", got, "use another folder, or delete this one", call)
    }
    # What an earlier call was writing when it ended.
    unlink(list.files(folder, "^writing-", full.names = TRUE))
    return(new_files(folder, manifest))
  }
  if (length(list.files(folder, all.files = TRUE, no.. = TRUE)) > 0) {
    refuse("output", "is a folder of other files", "it must be new, empty, or of such a call", call)
  }
  job$block_rows <- if (is.null(block_rows)) fitting() else block_rows
  manifest <- c(list(format = files_format), job)
  write_whole(manifest, manifest_of(folder))
  new_files(folder, manifest)
}

# In words, what was otherwise in the job of a manifest.
difference_of_jobs <- function(before, now) {
  differ <- function(part) !identical(before[[part]], now[[part]])
  in_words <- function(what, values) paste(what, "was", values[1], "and is", values[2])
  sizes <- c(
    rows = "the number of rows", columns = "the number of columns", among = "`X`'s number of rows",
    k = "`k`", block_rows = "`block_rows`"
  )
  changed <- Filter(differ, names(sizes))
  changed_sizes <- vapply(changed, function(part) {
    in_words(sizes[[part]], number(c(before[[part]], now[[part]])))
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
    if (length(other) > 0) paste0("the values of `", other, "` were others")
  }
  unname(c(changed_sizes, metric, data))
}

hint_to_resume <- function(files) {
  paste0("; what is finished is kept in \"", files$folder, "\", and the same call goes on from it")
}
