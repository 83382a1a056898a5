# FCS files (Flow Cytometry Standard 2.0 to 3.1; Spidlen et al. 2010), read in blocks of events.
# Package flowCore reads either all events of a file, or chosen events one by one, which is slow for
# many events.

# The events of files, one file after the other. The arguments are those of observations(), checked.
fcs_blocks <- function(files, wanted, call) {
  described <- describe_files(files, describe_fcs, call)
  parts <- choose_channels(files, described, wanted, call)
  names <- sample_names(files)
  blocks <- new_row_blocks(
    fcs_reader(parts$parts, wanted$transform),
    data.frame(name = names, rows = vapply(described, `[[`, 0, "events")),
    parts$columns, length(parts$columns), c("file", "files"),
    width = max(vapply(described, function(file) file$layout$width, 0))
  )
  blocks$files <- parts$parts
  blocks
}

# ---- the format ---------------------------------------------------------------------------------

# The description of a file, from its header: its `path`, without links; its `name` in the folder
# where it was found; the number of `events`, the `layout` of the events, the keywords, `words`, and
# the `parameters`, see flow_parameters(). Stops if the header is damaged, or if the format of the
# events is not read here.
describe_fcs <- function(path) {
  if (!file.exists(path)) stop("it does not exist")
  size <- file.size(path)
  if (dir.exists(path)) stop("it is a folder")
  # A named pipe has size 0, and would be waited for.
  if (size < 58) stop("it is no FCS file of version 2 or 3")
  connection <- file(path, "rb")
  on.exit(close(connection))
  header <- text_of(readBin(connection, "raw", 58))
  if (!grepl("^FCS[23]\\.[0-9]", header)) stop("it is no FCS file of version 2 or 3")
  numbers <- suppressWarnings(as.numeric(substring(header, c(11, 19, 27, 35), c(18, 26, 34, 42))))
  if (anyNA(numbers[1:2]) || numbers[1] < 10 || numbers[2] < numbers[1] || numbers[2] >= size) {
    stop("its header is damaged")
  }
  words <- read_keywords(connection, numbers[1:2], size)
  layout <- fcs_layout(words, numbers[3:4], size)
  layout$changed <- as.numeric(file.mtime(path))
  count <- layout$width
  keyword <- function(ending) unname(words[paste0("$P", seq_len(count), ending)])
  marker <- keyword("S")
  marker[!is.na(marker) & !nzchar(trimws(marker))] <- NA
  channel <- keyword("N")
  if (anyNA(channel)) stop("it has a parameter without a name ($PnN)")
  if (!words["$NEXTDATA"] %in% c(NA, "", "0") && !grepl("^0+$", words["$NEXTDATA"])) {
    stop("it has several data sets ($NEXTDATA); flowCore::read.FCS(dataset = ) reads one of them")
  }
  list(path = normalizePath(path), name = basename(path), events = layout$events,
       layout = layout, words = words, parameters = list(channel = channel, marker = marker))
}

# The keywords of a file whose segment TEXT has this first and last byte.
read_keywords <- function(connection, text, size) {
  seek(connection, text[1])
  words <- fcs_keywords(readBin(connection, "raw", text[2] - text[1] + 1))
  # A supplemental TEXT segment has further keywords.
  more <- suppressWarnings(as.numeric(words[c("$BEGINSTEXT", "$ENDSTEXT")]))
  if (anyNA(more) || more[1] < 58 || more[2] <= more[1] || more[2] >= size) return(words)
  if (more[1] == text[1]) return(words)
  seek(connection, more[1])
  others <- fcs_keywords(readBin(connection, "raw", more[2] - more[1] + 1))
  c(words, others[setdiff(names(others), names(words))])
}

# The keywords of the segment TEXT, in upper case, with their values. The first byte is the
# delimiter. A delimiter within a value is written twice. A value never begins with a delimiter, so
# two delimiters at the beginning of a value mean an empty value. The standard does not allow empty
# values, but many programs write them.
fcs_keywords <- function(bytes) {
  delimiter <- bytes[1]
  if (bytes[length(bytes)] == delimiter) bytes <- bytes[-length(bytes)]
  places <- which(bytes == delimiter)
  ends <- c(places[-1] - 1, length(bytes))
  parts <- vapply(seq_along(places), function(k) {
    if (ends[k] <= places[k]) "" else text_of(bytes[(places[k] + 1):ends[k]])
  }, "")
  count <- length(parts)
  keys <- values <- character(count %/% 2)
  found <- 0
  at <- 1
  while (at < count) {
    key <- parts[at]
    value <- parts[at + 1]
    at <- at + 2
    # After some text, two delimiters stand for one.
    while (nzchar(value) && at < count && !nzchar(parts[at])) {
      value <- paste0(value, text_of(delimiter), parts[at + 1])
      at <- at + 2
    }
    found <- found + 1
    keys[found] <- key
    values[found] <- value
  }
  some <- seq_len(found)
  keys <- ascii_upper(trimws(keys[some]))
  stats::setNames(trimws(values[some]), keys)[!duplicated(keys)]
}

# Stops if a keyword is missing that describes the parameters. Returns the number of parameters.
check_keywords <- function(words) {
  count <- suppressWarnings(as.numeric(words["$PAR"]))
  if (is.na(count) || count < 1 || count > 1e5 || count != round(count)) {
    stop("it has no number of parameters ($PAR)")
  }
  needed <- c("$DATATYPE", "$BYTEORD", "$MODE", paste0("$P", seq_len(count), "B"),
              paste0("$P", seq_len(count), "N"))
  missing <- setdiff(needed, names(words))
  if (length(missing) > 0) stop("it lacks the keyword ", missing[1])
  count[[1]]
}

# The place and the format of the events in the file, as read_records() needs them.
fcs_layout <- function(words, data, size) {
  number <- function(name) suppressWarnings(as.numeric(words[name]))[[1]]
  count <- check_keywords(words)
  if (!words["$MODE"] %in% c("L", "l")) stop("it is no list of events ($MODE)")
  begin <- if (is.na(data[1]) || data[1] == 0) number("$BEGINDATA") else data[1]
  end <- if (is.na(data[2]) || data[2] == 0) number("$ENDDATA") else data[2]
  bits <- suppressWarnings(as.numeric(words[paste0("$P", seq_len(count), "B")]))
  type <- ascii_upper(words[["$DATATYPE"]])
  # FCS 3.2 has data types of single parameters.
  types <- ascii_upper(words[paste0("$P", seq_len(count), "DATATYPE")])
  others <- which(!is.na(types) & types != type)
  if (length(others) > 0) {
    stop("parameter ", others[1], " has a data type of its own ($P", others[1], "DATATYPE), which ",
         "is not read here; flowCore::read.FCS() may read it")
  }
  is_real <- type %in% c("F", "D")
  width <- switch(type, F = 32, D = 64, I = bits[1])
  if (is.null(width) || anyNA(bits) || any(bits != width) || !width %in% c(8, 16, 32, 64)) {
    stop("its events are in a format ($DATATYPE, $PnB) that is not read here; ",
         "flowCore::read.FCS() may read it")
  }
  if (type == "I" && width == 64) stop("its events are integers of 64 bits, which are not read")
  if (is.na(begin) || begin < 58) stop("it does not say where its events begin ($BEGINDATA)")
  bytes <- width / 8
  total <- if ("$TOT" %in% names(words)) number("$TOT")
  events <- count_events(total, begin, end, count * bytes, size)
  order <- strsplit(words[["$BYTEORD"]], ",", fixed = TRUE)[[1]]
  order <- suppressWarnings(as.numeric(order))
  is_little <- identical(order, as.numeric(seq_along(order)))
  if (anyNA(order) || !is_little && !identical(order, as.numeric(rev(seq_along(order))))) {
    stop("its order of bytes ($BYTEORD) is unusual")
  }
  endian <- if (is_little) "little" else "big"
  ranges <- NULL
  if (!is_real) {
    logarithmic <- words[paste0("$P", seq_len(count), "E")]
    is_linear <- is.na(logarithmic) | grepl("^ *0*\\.?0* *,", logarithmic)
    if (!all(is_linear)) {
      stop("it has logarithmic channels ($PnE); read it with flowCore::read.FCS()")
    }
    ranges <- suppressWarnings(as.numeric(words[paste0("$P", seq_len(count), "R")]))
    # Bits above the range carry no value.
    ranges <- ifelse(is.na(ranges) | ranges <= 1, 2^width, 2^ceiling(log2(ranges)))
  }
  list(
    begin = begin, width = count, events = events, bytes = bytes, endian = endian,
    is_real = is_real, is_signed = FALSE, ranges = ranges, size = size
  )
}

# The number of events. `total` is $TOT, or NULL if this keyword is missing; `begin` and `end` are
# the first and the last byte of the data, `end` NA if it is unknown; `row` and `size` are the bytes
# of an event and of the file.
count_events <- function(total, begin, end, row, size) {
  room <- size - begin
  if (!is.na(end) && end > begin) room <- min(room, end - begin + 1)
  # In FCS 2.0, $TOT may be missing.
  if (is.null(total)) total <- if (!is.na(end) && end > begin) floor(room / row) else NA
  if (is.na(total) || total < 0 || total != round(total)) {
    stop("it has no number of events ($TOT)")
  }
  if (total * row > room) {
    stop("it is too short for its ", shown_count(total), " events ($TOT)")
  }
  # Some programs write a few bytes after the last event.
  if (!is.na(end) && end > begin && room - total * row >= max(row, room / 100)) {
    stop("it has data of ", shown_count(floor(room / row)), " events of its $PAR parameters, ",
         "and $TOT says ", shown_count(total))
  }
  total
}

# The function that reads rows of files, for new_row_blocks().
fcs_reader <- function(files, transform) {
  force(transform)
  # Only the components that reading needs, because workers get a copy of them.
  files <- lapply(files, function(file) file[c("path", "layout", "columns", "names", "cofactors")])
  columns <- files[[1]]$names
  reader_of_files(files, vapply(files, function(file) file$layout$events, 0), function(file, ...) {
    ranges <- file$layout$ranges[file$columns]
    values <- read_records(file, ..., file$columns, ranges, file$cofactors)
    # `colnames<-` would copy the values.
    dimnames(values) <- list(NULL, columns)
    user_transformed(values, transform)
  })
}
