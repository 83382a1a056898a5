# The readers of inst/benchmarks/labelled-cells.R, on made-up files of the shapes that they read.

labelled_cells <- function() {
  readers <- new.env()
  sys.source(system.file("benchmarks", "labelled-cells.R", package = "gmhclust"), readers)
  readers
}

# A folder that is removed when the calling test ends.
data_folder <- function(frame = parent.frame()) {
  folder <- tempfile("labelled")
  dir.create(folder)
  do.call(on.exit, list(substitute(unlink(folder, recursive = TRUE)), add = TRUE), envir = frame)
  folder
}

# Writes an FCS 3.0 file. With `is_long`, the header has no offsets of the data, as in files of 100
# megabytes and more.
write_fcs <- function(values, file, type = "F", endian = "little", is_long = FALSE, spill = NULL) {
  size <- if (type == "F") 4 else 8
  number <- seq_len(ncol(values))
  text <- c(
    "$BEGINDATA" = "%08d", "$ENDDATA" = "%08d", "$DATATYPE" = type, "$PAR" = ncol(values),
    "$BYTEORD" = if (endian == "little") "1,2,3,4" else "4,3,2,1", "$TOT" = nrow(values),
    structure(colnames(values), names = paste0("$P", number, "N")), SPILL = spill
  )
  text <- paste0("|", paste0(names(text), "|", text, "|", collapse = ""))
  # Each "%08d" becomes eight digits.
  begin <- 58 + nchar(text) + 8
  end <- begin + size * length(values) - 1
  data <- if (is_long) c(0, 0) else c(begin, end)
  header <- sprintf("FCS3.0    %8d%8d%8d%8d%8d%8d", 58, begin - 1, data[1], data[2], 0, 0)
  connection <- file(file, "wb")
  on.exit(close(connection))
  writeChar(paste0(header, sprintf(text, begin, end)), connection, eos = NULL)
  writeBin(as.vector(t(values)), connection, size = size, endian = endian)
}

plain <- list(cofactor = NA, cells = NA, columns = NA)

test_that("a table's last column is the gate, and its values are as they are", {
  folder <- data_folder()
  table <- data.frame(a = c(1.5, 2, 3), b = 4:6, label = c(0, 7, 3))
  connection <- gzfile(file.path(folder, "cells.csv.gz"))
  write.csv(table, connection, row.names = FALSE)
  write.csv(table[1:2], file.path(folder, "other.csv"), row.names = FALSE)
  dir.create(file.path(folder, "samples"))
  for (sample in c("x.csv", "y.csv")) {
    write.csv(table, file.path(folder, "samples", sample), row.names = FALSE)
  }
  read <- labelled_cells()
  sets <- read$labelled_sets(folder)
  expect_identical(lengths(sets), c(cells = 1L, samples = 2L))
  cells <- read$read_sample(sets$cells, read$preparation_of("cells", folder))
  expect_identical(cells, list(x = cbind(a = c(1.5, 2, 3), b = c(4, 5, 6)), gate = c(0L, 2L, 1L)))
})

test_that("a file in the folder says how to prepare its sets", {
  folder <- data_folder()
  read <- labelled_cells()
  expect_identical(read$preparation_of("multicenter", folder)$cofactor, 5L)
  writeLines(c("set,cofactor", "multicenter,150", "mine,2"), file.path(folder, "preparation.csv"))
  expect_identical(read$preparation_of("multicenter", folder)$cofactor, 150L)
  write.csv(data.frame(a = 1:50, b = 0, label = rep(1:2, 25)), file.path(folder, "mine.csv"),
            row.names = FALSE)
  preparation <- read$preparation_of("mine", folder)
  preparation$cells <- 10
  cells <- read$read_sample(file.path(folder, "mine.csv"), preparation)
  a <- cells$x[, "a"]
  row <- match(a, asinh(1:50 / 2))
  expect_identical(length(row), 10L)
  expect_false(is.unsorted(row, strictly = TRUE))
  expect_identical(cells$gate, rep(1:2, 25)[row])
  expect_identical(read$read_sample(file.path(folder, "mine.csv"), preparation), cells)
})

test_that("FCS files of FlowRepository have markers, and a label that is NaN without a gate", {
  folder <- data_folder()
  read <- labelled_cells()
  # As Levine_32dim.fcs: markers in columns 5 to 36, and then three more and the label.
  values <- matrix(seq_len(6 * 40) / 8, 6)
  colnames(values) <- c(paste0("other", 1:4), paste0("marker", 1:32), paste0("last", 1:3), "label")
  values[, "label"] <- c(NaN, 2, 14, NaN, 2, 1)
  for (case in list(list(), list(type = "D"), list(endian = "big"), list(is_long = TRUE))) {
    file <- file.path(folder, "Levine_32dim.fcs")
    do.call(write_fcs, c(list(values, file), case))
    expect_identical(names(read$labelled_sets(folder)), "Levine_32dim")
    preparation <- read$preparation_of("Levine_32dim", folder)
    cells <- read$read_sample(file, preparation)
    expect_identical(cells, list(x = values[, 5:36], gate = c(0L, 2L, 3L, 0L, 2L, 1L)))
  }
  raw <- read$preparation_of("Levine_32dim_notransform", folder)
  expect_identical(read$read_sample(file, raw)$x, asinh(values[, 5:36] / 5))
  expect_identical(read$preparation_of("Samusik_all", folder)$columns, "9:47")
  write_fcs(values[, 1:5], file.path(folder, "unlabelled.fcs"))
  expect_identical(names(read$labelled_sets(folder)), "Levine_32dim")
})

test_that("FlowSOM's FCS file is compensated and has its gates in another file", {
  folder <- data_folder()
  read <- labelled_cells()
  channels <- unname(read$lineage_channels)
  true <- matrix(1:28, 4, dimnames = list(NULL, channels))
  spill <- diag(7)
  spill[1, 2] <- 0.5
  measured <- cbind(Time = 1:4, true %*% spill)
  colnames(measured)[-1] <- channels
  file <- file.path(folder, "flowsom-68983.fcs")
  write_fcs(measured, file, spill = paste(c(7, channels, t(spill)), collapse = ","))
  connection <- gzfile(file.path(folder, "flowsom-68983-gates.csv.gz"), "w")
  writeLines(c("\"B cells\"", "\"Unlabeled\"", "\"T cells\"", "\"B cells\""), connection)
  close(connection)
  sets <- read$labelled_sets(folder)
  expect_identical(names(sets), "flowsom-68983")
  cells <- read$read_sample(sets[[1]], read$preparation_of("flowsom-68983", folder))
  expect_equal(unname(cells$x), unname(asinh(true / 150)))
  expect_identical(cells$gate, c(1L, 0L, 2L, 1L))
})

test_that("the SummarizedExperiments of HDCytoData have markers of a class, and unassigned cells", {
  skip_if_not_installed("SummarizedExperiment")
  folder <- data_folder()
  read <- labelled_cells()
  values <- matrix(1:20, 4, dimnames = list(NULL, c("Time", paste0("CD", 1:4))))
  d_SE <- SummarizedExperiment::SummarizedExperiment( # nolint: object_name_linter.
    list(exprs = values),
    rowData = data.frame(population_id = factor(c("unassigned", "T", "B", "T"))),
    colData = data.frame(marker_class = factor(c("none", "type", "type", "state", "type")))
  )
  save(d_SE, file = file.path(folder, "Levine_32dim_SE.rda"))
  saveRDS(d_SE, file.path(folder, "Samusik_all_SE.rds"))
  sets <- read$labelled_sets(folder)
  expect_identical(names(sets), c("Levine_32dim_SE", "Samusik_all_SE"))
  for (set in names(sets)) {
    cells <- read$read_sample(sets[[set]], read$preparation_of(set, folder))
    expect_identical(cells, list(x = unname(asinh(values[, c(2, 3, 5)] / 5)),
                                 gate = c(0L, 2L, 1L, 2L)))
  }
  saveRDS(1, file.path(folder, "number.rds"))
  expect_error(read$read_sample(file.path(folder, "number.rds"), plain), "SummarizedExperiment")
})
