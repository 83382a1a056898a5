# FCS files for tests, written without the code of the package.

# Writes `values`, events in rows, with channel names as column names.
write_test_fcs <- function(file, values, markers = NULL, type = "F", endian = "little",
                           mark = "/", keywords = character(0)) {
  bytes <- c(F = 4, D = 8, I = 2)[[type]]
  p <- ncol(values)
  words <- c(
    "$BEGINANALYSIS" = "0", "$ENDANALYSIS" = "0", "$BEGINSTEXT" = "0", "$ENDSTEXT" = "0",
    "$BYTEORD" = if (endian == "little") "1,2,3,4" else "4,3,2,1", "$DATATYPE" = type,
    "$MODE" = "L", "$NEXTDATA" = "0", "$PAR" = p, "$TOT" = nrow(values)
  )
  for (j in seq_len(p)) {
    words[paste0("$P", j, c("B", "E", "N", "R"))] <- c(8 * bytes, "0,0", colnames(values)[j], 65536)
  }
  if (!is.null(markers)) words[paste0("$P", seq_len(p), "S")] <- markers
  words[names(keywords)] <- keywords
  data <- as.vector(t(values))
  events <- writeBin(if (type == "I") as.integer(data) else as.double(data), raw(), size = bytes,
                     endian = endian)
  words[c("$BEGINDATA", "$ENDDATA")] <- "00000000"
  text <- function() {
    escaped <- gsub(mark, paste0(mark, mark), words, fixed = TRUE)
    charToRaw(paste0(mark, paste0(names(words), mark, escaped, mark, collapse = "")))
  }
  begin <- 58 + length(text())
  words[c("$BEGINDATA", "$ENDDATA")] <- sprintf("%08d", c(begin, begin + length(events) - 1))
  places <- as.integer(c(58, begin - 1, begin, begin + length(events) - 1, 0, 0))
  header <- charToRaw(paste0("FCS3.0    ", paste(sprintf("%8d", places), collapse = "")))
  writeBin(c(header, text(), events), file)
  file
}

# A new folder with these files: a list of the arguments of write_test_fcs() for each name.
fcs_folder <- function(...) {
  folder <- tempfile("fcs")
  dir.create(folder)
  tables <- list(...)
  for (name in names(tables)) {
    file <- file.path(folder, paste0(name, ".fcs"))
    do.call(write_test_fcs, c(list(file), tables[[name]]))
  }
  folder
}
