# Populations in copies of FCS files.

#' @rdname add_populations
#' @param output For FCS files: the folder for the new files, which have the names of the old files.
#'   The folder is made if it does not exist. If it has a file of one of these names, that is an
#'   error.
#' @export
add_populations.row_blocks <- function(x, populations, output, # nolint: object_name_linter.
                                       ...) {
  call <- sys.call()
  check_no_more(x, ..., call = call)
  if (is.null(x$files)) {
    refuse("x", "has no FCS files", "it must be observations() of FCS files", call)
  }
  if (missing(output)) refuse("output", "is missing", "it must be the name of a folder", call)
  check_folder(output, "output", call)
  of <- populations_of_events(populations, nrow(x), call)
  # Objects that users keep in files may have no names.
  name_of <- function(file) if (is.null(file$name)) basename(file$path) else file$name
  to <- file.path(output, vapply(x$files, name_of, ""))
  twice <- anyDuplicated(to)
  if (twice > 0) {
    refuse("x", paste("has several files", quoted(basename(to[twice]))),
           "write those of each folder into a folder of its own", call)
  }
  there <- file.exists(to)
  if (any(there)) {
    refuse("output", paste("has the file", quoted(basename(to[there][1]))),
           "files are not written over", call)
  }
  lapply(x$files, check_writable, length(of$names), call)
  create_folder(output, call)
  check_writable_folder(output)
  # After an error, no new file is left, because the next call would refuse to overwrite it.
  done <- FALSE
  on.exit(if (!done) unlink(to))
  before <- 0
  for (k in seq_along(to)) {
    rows <- x$parts$rows[k]
    write_population(x$files[[k]], to[k], of$number[before + seq_len(rows)], of$names)
    before <- before + rows
  }
  done <- TRUE
  invisible(to)
}

# Stops if a file cannot be copied with a channel for this number of populations.
check_writable <- function(file, populations, call) {
  layout <- file$layout
  close(open_described(file))
  if (population_channel %in% file$words[paste0("$P", seq_len(layout$width), "N")]) {
    refuse("x", paste0("names the file ", quoted(file$path), ", which has a channel ",
                       quoted(population_channel)), "remove or rename it first", call)
  }
  bits <- 8 * layout$bytes
  if (!layout$is_real && populations >= 2^bits) {
    refuse("x", paste0("names the file ", quoted(file$path), ", whose channels have ", bits,
                       " bits"), paste("there are", populations, "populations"), call)
  }
}

# A copy of an FCS file with the population of each event as a channel, and the names as keywords.
write_population <- function(file, to, number, names) {
  layout <- file$layout
  words <- file$words[!grepl("^POPULATION[0-9]+$", names(file$words))]
  bits <- 8 * layout$bytes
  # Numbers as text must not depend on options such as `scipen`.
  count <- format_number(layout$width + 1)
  range <- format_number(max(length(names) + 1, 2))
  added <- paste0("$P", count, c("N", "B", "E", "R"))
  words[added] <- c(population_channel, format_number(bits), "0,0", range)
  # FCS 3 needs $TOT; FCS 2 may lack it.
  words[c("$PAR", "$TOT")] <- c(count, format_number(layout$events))
  words[c("$BEGINANALYSIS", "$ENDANALYSIS", "$BEGINSTEXT", "$ENDSTEXT", "$NEXTDATA")] <- "0"
  if (!identical(names, as.character(seq_along(names)))) {
    words[paste0("POPULATION", seq_along(names))] <- names
  }
  bytes <- layout$events * (layout$width + 1) * layout$bytes
  write_fcs(to, words, bytes, function(connection) {
    from <- open_described(file)
    on.exit(close(from))
    seek(from, layout$begin)
    row <- layout$width * layout$bytes
    at_a_time <- max(1, floor(4 * block_values() / row))
    for (first in seq(1, length.out = ceiling(layout$events / at_a_time), by = at_a_time)) {
      events <- seq.int(first, min(layout$events, first + at_a_time - 1))
      values <- readBin(from, "raw", length(events) * row)
      if (length(values) < length(events) * row) refuse_changed(file, "ended too early")
      more <- if (layout$is_real) as.double(number[events]) else as.integer(number[events])
      more <- writeBin(more, raw(), size = layout$bytes, endian = layout$endian)
      writeBin(as.vector(rbind(matrix(values, row), matrix(more, layout$bytes))), connection)
    }
  })
}

# Writes an FCS file: the keywords `words`, and the events, which write(connection) writes in this
# number of `bytes`. The file gets its name when it is complete.
write_fcs <- function(path, words, bytes, write) {
  words[c("$BEGINDATA", "$ENDDATA")] <- sprintf("%012.0f", 0)
  mark <- free_delimiter(c(names(words), words))
  text <- function() {
    parts <- gsub(mark, paste0(mark, mark), c(rbind(names(words), words)), fixed = TRUE)
    # An empty value would look like a delimiter that is written twice.
    parts[!nzchar(parts)] <- " "
    charToRaw(enc2utf8(paste0(mark, paste0(parts, mark, collapse = ""))))
  }
  begin <- 58 + length(text())
  words[c("$BEGINDATA", "$ENDDATA")] <- sprintf("%012.0f", c(begin, begin + bytes - 1))
  places <- c(58, begin - 1, begin, begin + bytes - 1, 0, 0)
  # The header has room for eight digits. If a place is larger, only the keywords have it.
  if (places[4] > 99999999) places[3:4] <- 0
  partial <- tempfile(".gmhclust-", dirname(path), ".part")
  connection <- file(partial, "wb")
  done <- FALSE
  on.exit({
    close(connection)
    if (!done) unlink(partial)
  })
  # R warns if the disk is full, and the size of the file shows it, too.
  suppressWarnings({
    writeBin(charToRaw(paste0("FCS3.1    ", paste(sprintf("%8.0f", places), collapse = ""))),
             connection)
    writeBin(text(), connection)
    write(connection)
    close(connection)
  })
  written <- file.size(partial)
  on.exit(if (!done) unlink(partial))
  if (!identical(written, begin + bytes)) {
    stop(gmhclust_error_memory(paste0("writing ", quoted(path), " failed: the disk may be full")))
  }
  done <- file.rename(partial, path)
  if (!done) {
    refuse("output", paste("is", quoted(dirname(path))), "no file can be renamed there", NULL)
  }
}

# A delimiter that none of the texts contains, because many programs cannot read a delimiter within
# a value.
free_delimiter <- function(texts) {
  all <- paste(texts, collapse = "")
  marks <- c("\f", "|", "!", "\036", "\\", "~", "/")
  c(marks[!vapply(marks, grepl, NA, all, fixed = TRUE)], marks)[1]
}
