# Reads data sets of cells with gates drawn by hand. The benchmarks of this folder source this file.
#
# A data set is a file, or a folder of files that are its samples:
#   NAME.csv, NAME.csv.gz  a table, whose last column `label` is the number of the gate, 0 for none
#   NAME.fcs               an FCS file with a channel `label` (NaN or 0 for none), as FlowRepository
#                          (FR-FCM-ZZPH) has Levine_32dim, Levine_13dim and Samusik_all; or with a
#                          file NAME-gates.csv.gz of the gate of each event, one a line
#   NAME.rda, NAME.rds     a SummarizedExperiment with cells in rows, `population_id` in rowData and
#                          `marker_class` in colData, as HDCytoData has the same three data sets
# and a sample is list(x = matrix, gate = integer vector, 1, 2, ..., 0 for none).

# How to prepare sets, by name without the ending; all others are taken as they are. The values are
# asinh(x / cofactor); with more than `cells` cells, a sample is thinned to so many, by a fixed
# seed; `columns` of an FCS file are the markers, as in Weber and Robinson (2016). FlowRepository's
# files without "_notransform" in their names are transformed already. A file preparation.csv with
# these columns, in the folder of the data, adds rows.
preparations <- utils::read.csv(strip.white = TRUE, text = "
  set,                      cofactor, cells, columns
  multicenter,                     5, 15000,
  flowsom-68983,                 150,      ,
  68983,                         150,      ,
  Levine_32dim,                     , 20000, 5:36
  Levine_32dim_notransform,        5, 20000, 5:36
  Levine_32dim_SE,                 5, 20000,
  Levine_13dim,                     , 20000, 1:13
  Levine_13dim_notransform,        5, 20000, 1:13
  Levine_13dim_SE,                 5, 20000,
  Samusik_all,                      , 20000, 9:47
  Samusik_all_notransform,         5, 20000, 9:47
  Samusik_all_SE,                  5, 20000,
")

preparation_of <- function(set, folder) {
  own <- file.path(folder, "preparation.csv")
  if (file.exists(own)) {
    own <- utils::read.csv(own, strip.white = TRUE)
    own[setdiff(names(preparations), names(own))] <- NA
    preparations <- rbind(own[names(preparations)], preparations)
  }
  as.list(preparations[match(set, preparations$set), c("cofactor", "cells", "columns")])
}

# The sets in a folder: a list, by name, of the files of their samples.
labelled_sets <- function(folder) {
  entries <- list.files(folder, full.names = TRUE)
  samples <- lapply(entries, function(entry) {
    files <- if (dir.exists(entry)) list.files(entry, full.names = TRUE) else entry
    Filter(is_labelled, files)
  })
  names(samples) <- set_name(entries)
  Filter(length, samples)
}

set_name <- function(file) sub("[.](csv|csv[.]gz|fcs|rda|rds)$", "", basename(file))

gates_file <- function(file) sub("[.]fcs$", "-gates.csv.gz", file)

is_labelled <- function(file) {
  if (grepl("[.]csv([.]gz)?$", file)) return(grepl("(^|,)\"?label\"?$", first_line(file)))
  if (grepl("[.]fcs$", file)) {
    return(file.exists(gates_file(file)) || "label" %in% fcs_channels(fcs_keywords(file)))
  }
  grepl("[.](rda|rds)$", file)
}

first_line <- function(file) {
  connection <- gzfile(file)
  on.exit(close(connection))
  readLines(connection, 1, warn = FALSE)
}

read_sample <- function(file, preparation) {
  cells <- if (endsWith(file, ".fcs")) {
    fcs_cells(file, preparation)
  } else if (grepl("[.](rda|rds)$", file)) {
    experiment_cells(file)
  } else {
    table <- as.matrix(utils::read.csv(file))
    list(x = table[, -ncol(table)], label = table[, ncol(table)])
  }
  if (!is.na(preparation$cofactor)) cells$x <- asinh(cells$x / preparation$cofactor)
  kept <- seq_len(nrow(cells$x))
  if (isTRUE(preparation$cells < length(kept))) {
    set.seed(1)
    kept <- sort(sample(length(kept), preparation$cells))
  }
  label <- cells$label[kept]
  label[is.na(label)] <- 0
  gates <- sort(unique(label[label > 0]))
  x <- cells$x[kept, ]
  storage.mode(x) <- "double"
  list(x = x, gate = match(label, gates, nomatch = 0L))
}

# ---- FCS files ----------------------------------------------------------------------------------

# The markers of lineage of FlowSOM's file 68983.fcs, which its vignette clusters by.
lineage_channels <- c(
  CD8 = "Pacific Blue-A", TCRgd = "APC-A", TCRb = "APC-Cy7-A", NK1.1 = "PE-A",
  CD4 = "PE-Texas Red-A", CD19 = "PE-Cy5-A", CD3 = "PE-Cy7-A"
)

fcs_cells <- function(file, preparation) {
  cells <- read_fcs(file)
  if (file.exists(gates_file(file))) {
    label <- gsub("\"", "", readLines(gates_file(file)))
    gates <- setdiff(unique(label), "Unlabeled")
    return(list(x = compensate(cells, lineage_channels), label = match(label, gates, 0L)))
  }
  label <- match("label", colnames(cells$values))
  columns <- setdiff(seq_len(ncol(cells$values)), label)
  if (isTRUE(nzchar(preparation$columns))) {
    ends <- as.integer(strsplit(preparation$columns, ":", fixed = TRUE)[[1]])
    columns <- ends[1]:ends[2]
  }
  list(x = cells$values[, columns], label = cells$values[, label])
}

# Reads an FCS file (2.0 to 3.1) of floating-point numbers: a list of `values`, a matrix with the
# channels as columns, and `keywords`, a named character vector.
read_fcs <- function(file) {
  keywords <- fcs_keywords(file)
  type <- keywords[["$DATATYPE"]]
  if (!type %in% c("F", "D")) stop(file, " has data of type ", type, ", not F or D", call. = FALSE)
  channels <- fcs_channels(keywords)
  connection <- file(file, "rb")
  on.exit(close(connection))
  seek(connection, attr(keywords, "begin"))
  values <- readBin(
    connection, "numeric", length(channels) * as.numeric(keywords[["$TOT"]]),
    size = if (type == "F") 4 else 8,
    endian = if (startsWith(keywords[["$BYTEORD"]], "1")) "little" else "big"
  )
  values <- matrix(values, ncol = length(channels), byrow = TRUE, dimnames = list(NULL, channels))
  list(values = values, keywords = keywords)
}

# The keywords of an FCS file, with the offset of its data as attribute `begin`: that of the header,
# or, where this is 0 because eight digits are too few, that of $BEGINDATA.
fcs_keywords <- function(file) {
  connection <- file(file, "rb")
  on.exit(close(connection))
  header <- rawToChar(readBin(connection, "raw", 58))
  offset <- function(i) as.numeric(substring(header, 3 + 8 * i, 10 + 8 * i))
  seek(connection, offset(1))
  text <- rawToChar(readBin(connection, "raw", offset(2) - offset(1) + 1))
  fields <- strsplit(substring(text, 2), substr(text, 1, 1), fixed = TRUE, useBytes = TRUE)[[1]]
  odd <- seq(1, length(fields) - 1, by = 2)
  keywords <- structure(fields[odd + 1], names = toupper(fields[odd]))
  begin <- offset(3)
  structure(keywords, begin = if (begin > 0) begin else as.numeric(keywords[["$BEGINDATA"]]))
}

fcs_channels <- function(keywords) {
  unname(keywords[sprintf("$P%dN", seq_len(as.integer(keywords[["$PAR"]])))])
}

# The compensated values of these channels, by the file's matrix of spillovers.
compensate <- function(cells, channels) {
  fields <- strsplit(cells$keywords[["SPILL"]], ",")[[1]]
  size <- as.integer(fields[1])
  names <- fields[1 + seq_len(size)]
  spill <- matrix(as.numeric(fields[-seq_len(1 + size)]), size, byrow = TRUE)
  clean <- cells$values[, names] %*% solve(spill)[, match(channels, names)]
  colnames(clean) <- names(channels)
  clean
}

# ---- SummarizedExperiment -----------------------------------------------------------------------

# The markers of class "type", or all where no column has a class. Cells without a gate are
# "unassigned".
experiment_cells <- function(file) {
  if (!requireNamespace("SummarizedExperiment", quietly = TRUE)) {
    stop("package SummarizedExperiment is needed to read ", file, call. = FALSE)
  }
  experiment <- if (endsWith(file, ".rds")) readRDS(file) else loaded(file)
  if (!methods::is(experiment, "SummarizedExperiment")) {
    stop(file, " has no SummarizedExperiment", call. = FALSE)
  }
  class <- SummarizedExperiment::colData(experiment)$marker_class
  columns <- if (is.null(class)) seq_len(ncol(experiment)) else which(class == "type")
  population <- as.character(SummarizedExperiment::rowData(experiment)$population_id)
  gates <- setdiff(sort(unique(population)), "unassigned")
  list(x = unname(as.matrix(SummarizedExperiment::assay(experiment)[, columns])),
       label = match(population, gates, 0L))
}

# The first object of an .rda file.
loaded <- function(file) {
  place <- new.env()
  get(load(file, place)[1], place)
}
