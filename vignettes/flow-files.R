# What fcs.Rmd needs to make its own FCS file, and to run where package flowCore is not installed.

# Writes `values`, a matrix with a named column for each channel, as an FCS 3.0 file of 32-bit
# floats. `markers` has NA for channels without one.
write_fcs <- function(values, markers, spill, file) {
  number <- seq_len(ncol(values))
  keys <- function(name, value) {
    stats::setNames(rep_len(value, length(number)), paste0("$P", number, name))
  }
  spill_text <- c(ncol(spill), colnames(spill), t(spill))
  text <- c(
    "$BEGINANALYSIS" = "0", "$ENDANALYSIS" = "0", "$BEGINSTEXT" = "0", "$ENDSTEXT" = "0",
    "$BEGINDATA" = "%08d", "$ENDDATA" = "%08d", "$BYTEORD" = "1,2,3,4", "$DATATYPE" = "F",
    "$MODE" = "L", "$NEXTDATA" = "0", "$PAR" = ncol(values), "$TOT" = nrow(values),
    keys("N", colnames(values)), keys("S", markers), keys("B", "32"), keys("E", "0,0"),
    keys("R", "262144"), "SPILL" = paste(spill_text, collapse = ",")
  )
  text <- text[!is.na(text)]
  text <- paste0("|", paste0(names(text), "|", text, "|", collapse = ""))
  # Each of the two "%08d" becomes four characters longer, the eight digits of an offset.
  begin <- 58 + nchar(text) + 8
  end <- begin + 4 * length(values) - 1
  text <- sprintf(text, begin, end)
  header <- sprintf("FCS3.0    %8d%8d%8d%8d%8d%8d", 58, begin - 1, begin, end, 0, 0)
  connection <- file(file, "wb")
  on.exit(close(connection))
  writeChar(paste0(header, text), connection, eos = NULL)
  writeBin(as.vector(t(values)), connection, size = 4, endian = "little")
}

# Reads such a file: a list of its values, markers and spillover matrix.
read_fcs <- function(file) {
  bytes <- readBin(file, "raw", file.size(file))
  offsets <- as.integer(substring(rawToChar(bytes[1:58]), seq(11, 35, 8), seq(18, 42, 8)))
  words <- strsplit(rawToChar(bytes[(offsets[1] + 2):offsets[2]]), "|", fixed = TRUE)[[1]]
  text <- stats::setNames(words[c(FALSE, TRUE)], words[c(TRUE, FALSE)])
  number <- seq_len(as.integer(text[["$PAR"]]))
  data <- bytes[(offsets[3] + 1):(offsets[4] + 1)]
  values <- readBin(data, "double", length(data) / 4, size = 4, endian = "little")
  spill <- strsplit(text[["SPILL"]], ",", fixed = TRUE)[[1]]
  size <- as.integer(spill[1])
  channels <- spill[1 + seq_len(size)]
  list(
    values = matrix(values, ncol = length(number), byrow = TRUE,
                    dimnames = list(NULL, unname(text[paste0("$P", number, "N")]))),
    markers = unname(text[paste0("$P", number, "S")]),
    spill = matrix(as.numeric(spill[-seq_len(size + 1)]), size, byrow = TRUE,
                   dimnames = list(channels, channels))
  )
}

# Stand-ins for the classes and functions of flowCore in fcs.Rmd, which do no more than it needs.
# nolint start: object_name_linter.
define_flow_stand_ins <- function(where = globalenv()) {
  setClass("flow_parameters", representation(data = "data.frame"), where = where)
  setClass("flowFrame", where = where, representation(
    exprs = "matrix", parameters = "flow_parameters", description = "list"
  ))
  setClass("flowSet", where = where, representation(
    frames = "environment", phenoData = "flow_parameters"
  ))
  setMethod("[[", "flowSet", function(x, i, ...) {
    if (is.numeric(i)) i <- rownames(x@phenoData@data)[i]
    x@frames[[i]]
  }, where = where)
  list2env(flow_stand_ins, where)
}

flow_stand_ins <- list(
  read.FCS = function(filename, ...) {
    content <- read_fcs(filename)
    parameters <- data.frame(name = colnames(content$values), desc = content$markers)
    new("flowFrame", exprs = content$values, parameters = new("flow_parameters", data = parameters),
        description = list(SPILL = content$spill))
  },
  read.flowSet = function(files, ...) {
    frames <- stats::setNames(lapply(files, read.FCS), basename(files))
    new("flowSet", frames = list2env(frames), phenoData = new(
      "flow_parameters", data = data.frame(name = names(frames), row.names = names(frames))
    ))
  },
  sampleNames = function(object) rownames(object@phenoData@data),
  exprs = function(object) object@exprs,
  markernames = function(object) {
    parameters <- object@parameters@data
    has_marker <- !is.na(parameters$desc)
    stats::setNames(parameters$desc, parameters$name)[has_marker]
  },
  spillover = function(x) list(SPILL = x@description$SPILL),
  compensate = function(x, spillover) {
    if (is(x, "flowSet")) {
      x@frames <- list2env(lapply(as.list(x@frames), compensate, spillover))
      return(x)
    }
    channels <- colnames(spillover)
    x@exprs[, channels] <- x@exprs[, channels] %*% solve(spillover)
    x
  }
)
# nolint end
