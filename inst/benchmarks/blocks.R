# Usage: Rscript blocks.R [--rows=ROW,...] [--gpu] [--cells=N] [--centers=K] [--threads=N]
#                         [--folder=FOLDER] [--memory=SIZE] [--out=FILE.csv]
#
# Measures the time and the memory of observations that are read in blocks, on smoothed lymphocytes
# in 14 markers, beside the same cells as a matrix. Linux only. Rows:
#   kmeans   gkmeans() with 5 iterations: of a matrix; of an HDF5 file, with and without `memory`;
#            only without a GPU
#   files    from FCS files, of a million cells each, to the populations' counts in each file:
#            k-means, gmhclust() with centroid distances, cut_populations(), count_populations();
#            with the argument `memory` SIZE
#   matrix   the same of the files' cells as a matrix, which is made before
#
# kmeans and files run by default, once, with 10,000,000 cells (N) and 5,000 centers or apriori
# clusters (K); with --gpu files and matrix. The files are made in FOLDER, and stay there if it is
# given. Each call has a process of its own. Prints a table with the machine's name; writes it as
# CSV, too, with --out. Columns: `megabytes` is the peak of memory that the system cannot take back,
# and `resident` the peak with pages of scratch files, which it can; both include R itself, and the
# matrix. `result` is a digest of the result, the same for all calls of row kmeans; the other calls
# add the time and the peak of each step, with pages of scratch files.

library(gmhclust)
script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])
source(file.path(dirname(script), "common.R"))

at_a_time <- 1e6

cells_of_part <- function(part) unname(smoothed_cells(at_a_time, seed = part))

make_hdf5 <- function(file, n) {
  if (file.exists(file)) return(invisible())
  rhdf5::h5createFile(file)
  rhdf5::h5createDataset(file, "x", c(n, 14), storage.mode = "double", chunk = c(50000, 14),
                         level = 1)
  for (part in seq_len(n / at_a_time)) {
    rows <- (part - 1) * at_a_time + seq_len(at_a_time)
    rhdf5::h5write(cells_of_part(part), file, "x", index = list(rows, 1:14))
  }
}

# FCS files with raw values, sinh(value / 40).
make_fcs <- function(folder, n) {
  if (dir.exists(folder)) return(invisible())
  dir.create(folder, recursive = TRUE)
  names <- colnames(markers())
  make_part <- function(part) {
    values <- sinh(cells_of_part(part) / 40)
    words <- c("$BYTEORD" = "1,2,3,4", "$DATATYPE" = "F", "$MODE" = "L", "$PAR" = "14",
               "$TOT" = format(at_a_time, scientific = FALSE))
    for (j in 1:14) words[paste0("$P", j, c("N", "B", "E", "R"))] <- c(names[j], 32, "0,0", 1024)
    gmhclust:::write_fcs(
      file.path(folder, sprintf("sample%03d.fcs", part)), words, 4 * length(values),
      function(connection) writeBin(as.vector(t(values)), connection, size = 4, endian = "little")
    )
  }
  # Ten at a time, for memory.
  made <- parallel::mclapply(seq_len(n / at_a_time), make_part, mc.preschedule = FALSE,
                             mc.cores = min(10, parallel::detectCores()))
  failed <- Filter(function(value) inherits(value, "try-error"), made)
  if (length(failed) > 0) stop(failed[[1]], call. = FALSE)
}

kmeans_of <- function(memory = NULL, as_matrix = FALSE) {
  function(folder, options) {
    x <- HDF5Array::HDF5Array(file.path(folder, "cells.h5"), "x")
    if (as_matrix) x <- as.matrix(x)
    set.seed(1)
    task <- function() {
      suppressWarnings(gkmeans(x, options$centers, iter.max = 5, backend = "cpu", memory = memory,
                               threads = options$threads, progress = FALSE))
    }
    seconds <- system.time(fit <- task())[["elapsed"]]
    list(seconds = seconds, result = format(sum(fit$withinss), digits = 15))
  }
}

counts_of_files <- function(as_matrix = FALSE) {
  function(folder, options) {
    cells <- observations(file.path(folder, "fcs"), cofactor = 1)
    if (as_matrix) cells <- as.matrix(cells)
    shared <- list(threads = options$threads, memory = options$memory, progress = FALSE)
    shared_devices <- c(shared, backend = options$backend)
    seconds <- peaks <- numeric(0)
    step <- function(name, work) {
      reset_peak()
      seconds[name] <<- system.time(value <- work())[["elapsed"]]
      peaks[name] <<- process_megabytes("VmHWM") * 1024^2 / 1e9
      cat(sprintf("%s: %.1f s, %.1f GB\n", name, seconds[name], peaks[name]), file = stderr())
      value
    }
    fit <- step("kmeans", function() {
      set.seed(1)
      suppressWarnings(do.call(gkmeans, c(
        list(quote(cells), options$centers, iter.max = 5), shared_devices
      )))
    })
    top <- step("tree", function() {
      tree <- do.call(gmhclust, c(
        list(quote(cells), apriori = quote(fit$cluster), distance = "centroid", warn = FALSE),
        shared_devices
      ))
      cutree_apriori(tree)
    })
    counts <- step("populations", function() {
      found <- do.call(cut_populations, c(list(quote(top), x = quote(cells)), shared))
      sample <- cells
      if (as_matrix) sample <- rep(seq_len(options$cells / at_a_time), each = at_a_time)
      count_populations(found[top$leaf], sample)
    })
    list(seconds = sum(seconds), result = paste0(
      nrow(counts), " populations, ", sum(counts), " cells; ",
      toString(sprintf("%s %.0f s %.1f GB", names(seconds), seconds, peaks))
    ))
  }
}

calls <- list(
  kmeans = list(
    "gkmeans, matrix" = kmeans_of(as_matrix = TRUE),
    "gkmeans, HDF5 file" = kmeans_of(),
    "gkmeans, HDF5 file, scratch file" = kmeans_of(memory = "1.5 GB")
  ),
  files = list("FCS files to counts" = counts_of_files()),
  matrix = list("matrix to counts" = counts_of_files(as_matrix = TRUE))
)

# The highest values of two lines of a process's status while it runs.
watch <- function(command, arguments) {
  log <- tempfile()
  done <- tempfile()
  on.exit(unlink(c(log, done)))
  system2("sh", c("-c", shQuote(paste0(
    paste(shQuote(c(command, arguments)), collapse = " "), " >", log, " 2>&1 & echo $! >", done,
    ".pid; wait $!; touch ", done
  ))), wait = FALSE)
  while (!file.exists(paste0(done, ".pid"))) Sys.sleep(0.05)
  Sys.sleep(0.1)
  status <- file.path("/proc", readLines(paste0(done, ".pid")), "status")
  peak <- c(RssAnon = 0, VmRSS = 0)
  while (!file.exists(done)) {
    lines <- tryCatch(suppressWarnings(readLines(status)), error = function(e) character(0))
    for (what in names(peak)) {
      value <- as.numeric(gsub("[^0-9]", "", grep(what, lines, value = TRUE)))
      if (length(value) == 1) peak[what] <- max(peak[what], value)
    }
    Sys.sleep(0.05)
  }
  list(peak = peak * 1024 / 1e6, lines = readLines(log))
}

arguments <- commandArgs(trailingOnly = TRUE)
settings <- parse_options(arguments, c("kmeans", "files"), gpu_rows = c("files", "matrix"),
                          valued = c("cells", "centers", "folder", "call", "memory"))
settings$cells <- number(settings$cells, 1e7)
settings$centers <- number(settings$centers, 5000)
if (settings$cells %% at_a_time != 0) stop("--cells needs whole millions", call. = FALSE)
if (settings$worker) {
  all <- unlist(unname(calls), recursive = FALSE)
  value <- all[[settings$call]](settings$folder, settings)
  cat("RESULT\t", value$seconds, "\t", value$result, "\n", sep = "")
} else {
  folder <- settings$folder
  if (is.null(folder)) folder <- tempfile("blocks")
  dir.create(folder, showWarnings = FALSE, recursive = TRUE)
  table <- NULL
  machine <- machine_columns(settings)
  print_machine(machine)
  for (row in settings$rows) {
    if (row == "kmeans") make_hdf5(file.path(folder, "cells.h5"), settings$cells)
    if (row != "kmeans") make_fcs(file.path(folder, "fcs"), settings$cells)
    for (call in names(calls[[row]])) {
      seen <- watch(file.path(R.home("bin"), "Rscript"), c(
        script, "--worker", paste0("--call=", call), paste0("--folder=", folder),
        paste0("--cells=", settings$cells), paste0("--centers=", settings$centers),
        paste0("--threads=", settings$threads), if (settings$gpu) "--gpu",
        if (!is.null(settings$memory)) paste0("--memory=", settings$memory)
      ))
      value <- unlist(strsplit(grep("^RESULT", seen$lines, value = TRUE), "\t"))
      if (length(value) != 3) stop(paste(seen$lines, collapse = "\n"), call. = FALSE)
      table <- rbind(table, data.frame(
        row = row, data = named_size(settings$cells, 14, "cells"), call = call,
        seconds = round(as.numeric(value[2]), 1), megabytes = round(seen$peak[["RssAnon"]]),
        resident = round(seen$peak[["VmRSS"]]), centers = settings$centers, result = value[3],
        repeats = 1
      ))
      write_results(table, machine, settings)
    }
  }
  print(table[c("data", "call", "seconds", "megabytes", "resident", "result")], row.names = FALSE)
  if (is.null(settings$folder)) unlink(folder, recursive = TRUE)
}
