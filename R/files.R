# Files as observations: what all formats share.

#' @rdname observations
#' @param transform For files and flow cytometry data: `NULL`, or a function that transforms a
#'   matrix of events in the chosen channels, and returns a matrix of the same size. It is called
#'   for one block of events or one sample after the other, after `cofactor` was applied. So it must
#'   transform each event by itself, with constants that do not depend on the other events.
#' @export
# nolint start: object_name_linter. The class's name.
observations.character <- function(x, channels = NULL, use = c("marker", "channel"),
                                   cofactor = NULL, transform = NULL, ...) {
  # nolint end
  call <- sys.call()
  if (!is.null(dim(x))) return(observations.default(x, ...))
  check_no_more(x, ..., call = call)
  wanted <- wanted_channels(channels, use, cofactor, transform, call)
  files <- files_of(x, call)
  if (any(grepl(npy_ending, files, ignore.case = TRUE))) {
    given <- c("channels", "cofactor")[c(!is.null(channels), !is.null(cofactor))]
    if (length(given) > 0) {
      refuse(given[1], "is given", "arrays of .npy files have no channels", call)
    }
    return(npy_blocks(files, transform, call))
  }
  blocks_of_tables <- if (any(grepl(parquet_ending, files, ignore.case = TRUE))) {
    parquet_blocks
  } else {
    fcs_blocks
  }
  blocks_of_tables(files, wanted, call)
}

fcs_ending <- "\\.fcs$"

known_endings <- function() paste(fcs_ending, npy_ending, parquet_ending, sep = "|")

# The names of the files; a folder stands for all its FCS files, or, if it has none, for all its
# Parquet files.
files_of <- function(x, call) {
  if (length(x) == 0 || anyNA(x)) {
    refuse("x", if (length(x) == 0) "names no files" else "has NA",
           "it must be the names of files, or of a folder with FCS or Parquet files", call)
  }
  is_file <- file.exists(x) | grepl(known_endings(), x, ignore.case = TRUE)
  if (!any(is_file)) refuse("x", paste("is", describe(x)), needs_observations, call)
  files <- unlist(lapply(x, function(name) {
    if (!dir.exists(name)) return(name)
    for (ending in c(fcs_ending, parquet_ending)) {
      inside <- list.files(name, ending, ignore.case = TRUE, full.names = TRUE)
      if (length(inside) > 0) return(inside)
    }
    refuse("x", paste("is the folder", quoted(name)), "it must have FCS or Parquet files in it",
           call)
  }))
  twice <- anyDuplicated(normalizePath(files, mustWork = FALSE))
  if (twice > 0) refuse("x", paste("has", quoted(files[twice]), "twice"), "name it once", call)
  files
}

# File names without folder and ending; whole names where these are not unique.
sample_names <- function(files) {
  names <- sub(known_endings(), "", basename(files), ignore.case = TRUE)
  shared <- names %in% names[duplicated(names)]
  names[shared] <- files[shared]
  names
}

# The values of describe(name) for all parts: files, or samples of a set. A single error lists all
# parts for which it fails.
describe_parts <- function(names, describe, what, call) {
  described <- lapply(names, function(name) tryCatch(describe(name), error = problem_of))
  refuse_parts(names, described, what, call)
  described
}

describe_files <- function(files, describe, call) describe_parts(files, describe, "files", call)

# The reason why a part cannot be used, from the error.
problem_of <- function(e) {
  if (identical(e$refused$arg, "x")) e$refused$got else conditionMessage(e)
}

# Stops if parts cannot be used, with one error for all of them. `found` has a text, the reason, for
# each of these parts.
refuse_parts <- function(names, found, what, call) {
  bad <- which(vapply(found, is.character, NA))
  if (length(bad) == 0) return(invisible())
  shown <- utils::head(bad, 10)
  why <- paste0("\n  ", shortened(names[shown]), ": ", unlist(found[shown]))
  if (length(bad) > length(shown)) why <- c(why, paste("\n  and", length(bad) - 10, "more"))
  got <- paste(if (what == "files") "names" else "has", length(bad), "of", length(names), what,
               "that cannot be used")
  refuse("x", got, paste(why, collapse = ""), call)
}

# ---- reading -------------------------------------------------------------------------------------

# The function that reads rows of several files, one after the other, for new_row_blocks(). `rows`
# are the numbers of rows of the files. `read(file, first, last)` reads rows of one of them.
reader_of_files <- function(files, rows, read) {
  force(read)
  starts <- cumsum(c(0, rows))
  function(first, last) {
    part <- findInterval(first - 1, starts)
    read(files[[part]], first - starts[part], last - starts[part])
  }
}

# As reader_of_files(), for parts that can only be read whole, by `read(part)`. It keeps the values
# of a part until the last row of the part was read.
reader_of_whole_parts <- function(parts, rows, read, transform) {
  force(read)
  force(transform)
  kept <- new.env(parent = emptyenv())
  reader_of_files(seq_along(parts), rows, function(i, first, last) {
    if (!identical(kept$part, i)) {
      kept$values <- NULL
      kept$values <- read(parts[[i]])
      kept$part <- i
    }
    values <- kept$values[seq(first, last), , drop = FALSE]
    if (last == rows[i]) rm(list = names(kept), envir = kept)
    user_transformed(values, transform)
  })
}

# Values after the user's function `transform`, if there is one.
user_transformed <- function(values, transform, call = NULL) {
  if (is.null(transform)) return(values)
  changed <- naming_argument("transform", transform(values), call)
  if (!is.matrix(changed) || !is_numeric_type(changed) || any(dim(changed) != dim(values))) {
    refuse("transform", paste("gave", describe(changed)),
           paste("it must give a matrix of", paste(dim(values), collapse = " x ")), call)
  }
  matrix(as.double(changed), nrow(values), dimnames = dimnames(values))
}

# Opens a file; stops if it has changed since it was described.
open_described <- function(file) {
  check_described(file)
  file(file$path, "rb")
}

# Stops if a file has changed since it was described.
check_described <- function(file) {
  if (!file.exists(file$path)) refuse_changed(file, "no longer exists")
  if (!identical(file.size(file$path), file$layout$size)) {
    refuse_changed(file, "has another size than before")
  }
  if (!identical(as.numeric(file.mtime(file$path)), file$layout$changed)) {
    refuse_changed(file, "was written after it was described")
  }
}

refuse_changed <- function(file, why) {
  refuse("x", paste0("names the file ", quoted(file$path), ", which ", why),
         "files must not change while they are used", NULL)
}

text_of <- function(bytes) {
  bytes <- bytes[bytes != 0]
  text <- rawToChar(bytes)
  if (validUTF8(text)) Encoding(text) <- "UTF-8" else Encoding(text) <- "latin1"
  enc2utf8(text)
}

# The records `first` to `last` of a described file as rows of a double matrix: their values at the
# places `columns`, with these `ranges` and `cofactors`, see job_records(). The `layout` of the file
# has `begin`, the place of the first byte of the records; `width`, the number of values of a
# record; `is_real`, and `is_signed` for integers; `bytes`, the bytes of a value; `endian`, their
# order; and `in_places_of`, the number of all records if the file has the first values of all
# records first, then all second values, and so on, else NULL. Users may keep these descriptions in
# files, so their names stay.
read_records <- function(file, first, last, columns, ranges = NULL, cofactors = NULL) {
  check_described(file)
  layout <- file$layout
  count <- last - first + 1
  # More threads save some milliseconds from this number of values on: asinh() takes long.
  threads <- session_threads(count * length(columns), 2^17)
  values <- run_job(
    job_records(path_bytes(file$path), layout, layout$in_places_of, first, count,
                as.integer(columns), ranges, cofactors, threads),
    FALSE, reading_rows
  )
  if (is.null(values)) refuse_changed(file, "ended too early")
  values
}
