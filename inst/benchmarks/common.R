# Functions that the benchmarks of this folder share: measuring, reading the command line,
# reporting. Each benchmark sets `script` to its own name and sources this file.

# ---- measuring ----------------------------------------------------------------------------------

# Memory of this process in megabytes: "VmRSS" (now) or "VmHWM" (peak); NA if the system does not
# report it.
process_megabytes <- function(what) {
  status <- "/proc/self/status"
  if (!file.exists(status)) return(NA_real_)
  line <- grep(paste0("^", what), readLines(status), value = TRUE)
  as.numeric(gsub("[^0-9]", "", line)) / 1024
}

# Resets VmHWM to VmRSS if the system allows it; otherwise the peak is that of the whole run, an
# upper bound.
reset_peak <- function() {
  try(suppressWarnings(cat("5\n", file = "/proc/self/clear_refs")), silent = TRUE)
}

measure <- function(task) {
  gc(reset = TRUE)
  reset_peak()
  before <- process_megabytes("VmRSS")
  seconds <- suppressWarnings(system.time(task())[["elapsed"]])
  c(seconds = seconds, megabytes = process_megabytes("VmHWM") - before)
}

# The same in a fork of this process, where no earlier call has left memory that this one would take
# over and so hide from the measurement. Not for GPUs.
measure_in_fork <- function(task) {
  job <- parallel::mcparallel(measure(task))
  parallel::mccollect(job)[[1]]
}

# Runs the named tasks `repeats` times in turns, so that other load on the machine slows all of
# them. `measurement` is measure() or measure_in_fork().
paired <- function(row, data, tasks, repeats, measurement = measure) {
  runs <- lapply(seq_len(repeats), function(i) vapply(tasks, measurement, numeric(2)))
  runs <- simplify2array(runs)
  medians <- apply(runs, 1:2, median)
  data.frame(
    row = row, data = data, call = names(tasks), seconds = round(medians["seconds", ], 3),
    fastest = round(apply(runs["seconds", , , drop = FALSE], 2, min), 3),
    slowest = round(apply(runs["seconds", , , drop = FALSE], 2, max), 3),
    megabytes = round(medians["megabytes", ]), repeats = repeats, row.names = NULL
  )
}

# Times run("cuda") `repeats` times and, with --cpu, run("cpu") once. run() returns a list: the
# value of measure(), and `result`. Returns a row of a table. `cold`: whether the first call is the
# first one of this process, which is then reported separately.
time_on_gpu <- function(run, options, cold) {
  runs <- lapply(seq_len(options$repeats + cold), function(k) run("cuda"))
  first <- if (cold) runs[[1]]$seconds else NA
  cpu <- if (options$cpu) run("cpu")
  results <- lapply(c(runs, if (options$cpu) list(cpu)), `[[`, "result")
  same <- vapply(results[-1], identical, NA, results[[1]])
  seconds <- vapply(runs, `[[`, 0, "seconds")[seq_along(runs) > cold]
  data.frame(
    cold = first, seconds = round(median(seconds), 3), fastest = min(seconds),
    slowest = max(seconds), repeats = length(seconds),
    megabytes = round(max(vapply(runs, `[[`, 0, "megabytes"))),
    cpu_seconds = if (options$cpu) cpu$seconds else NA,
    identical = if (length(same) > 0) all(same) else NA
  )
}

# Times a task of another package once. Returns a row as time_on_gpu() does, with the time in the
# column for calls without a GPU.
time_without_gpu <- function(task) {
  measured <- measure(task)
  data.frame(
    cold = NA, seconds = NA, fastest = NA, slowest = NA, repeats = 1,
    megabytes = round(measured[["megabytes"]]), cpu_seconds = measured[["seconds"]], identical = NA
  )
}

# Runs every row in a separate process, which writes its table into a file.
gpu_rows_in_processes <- function(options, arguments) {
  arguments <- grep("^--(rows|out)=", arguments, invert = TRUE, value = TRUE)
  tables <- lapply(options$rows, function(row) {
    file <- tempfile(fileext = ".csv")
    own <- c(paste0("--rows=", row), paste0("--out=", file), "--worker")
    rscript <- file.path(R.home("bin"), "Rscript")
    status <- system2(rscript, shQuote(c(script, arguments, own)))
    if (status != 0) {
      message("row ", row, " failed")
      return(NULL)
    }
    table <- read.csv(file)
    print(table[c("data", "call", "cold", "seconds", "cpu_seconds", "identical")],
          row.names = FALSE, right = FALSE)
    table
  })
  do.call(rbind, tables)
}

# The numbers of --devices, or NULL for all.
chosen_devices <- function(options) {
  if (!is.null(options$devices)) as.integer(strsplit(options$devices, ",")[[1]])
}

gpu_name <- function() {
  devices <- gpu_devices()
  usable <- devices[devices$usable, ]
  if (nrow(usable) == 0) {
    print(devices)
    stop("no GPU can be used here", call. = FALSE)
  }
  data.frame(gpu = usable$name[1], gpus = nrow(usable), driver_cuda = usable$driver[1])
}

# ---- data ---------------------------------------------------------------------------------------

markers <- function() as.matrix(lymphocytes()[1:14])

# n cells with the 14 markers of lymphocytes(), smoothed to size: a random point between a random
# cell and a random one of its 10 nearest neighbours, and normal noise of half the root mean square
# of their difference. So the noise is small where cells are dense. Opens no GPU.
smoothed_cells <- function(n, seed = 1) {
  measured <- markers()
  near <- gknn(measured, 10, backend = "cpu", progress = FALSE)$index
  set.seed(seed)
  cell <- sample(nrow(measured), n, replace = TRUE)
  neighbour <- near[cbind(cell, sample(10, n, replace = TRUE))]
  way <- measured[neighbour, ] - measured[cell, ]
  noise <- sqrt(rowMeans(way^2)) / 2
  measured[cell, ] + runif(n) * way + noise * rnorm(length(way))
}

# n smoothed cells with more markers, as mass cytometry has them: p random linear mixtures of the 14
# scaled markers, and normal noise with a standard deviation of 0.3.
mass_cytometry_cells <- function(n, p, seed = 1) {
  cells <- scale(smoothed_cells(n, seed))
  weights <- matrix(rnorm(ncol(cells) * p), ncol(cells)) / sqrt(ncol(cells))
  cells %*% weights + rnorm(n * p, sd = 0.3)
}

# ---- the command line ---------------------------------------------------------------------------

# The options of every benchmark and, as text, the options --NAME=VALUE named in `valued`. `rows`
# and `gpu_rows` are the rows that run by default without and with --gpu.
parse_options <- function(arguments, rows, gpu_rows, valued = character(0)) {
  valued <- c("rows", "repeats", "threads", "out", valued)
  known <- paste0("^--(", paste(valued, collapse = "|"), ")=(.+)$")
  flags <- c("--gpu", "--cpu", "--worker")
  wrong <- setdiff(grep(known, arguments, invert = TRUE, value = TRUE), flags)
  if (length(wrong) > 0) stop("unknown option: ", wrong[1], call. = FALSE)
  with_value <- grep(known, arguments, value = TRUE)
  given <- structure(as.list(sub(known, "\\2", with_value)), names = sub(known, "\\1", with_value))
  options <- list(
    gpu = "--gpu" %in% arguments, cpu = "--cpu" %in% arguments,
    worker = "--worker" %in% arguments, out = given$out,
    threads = number(given$threads, NULL), repeats = number(given$repeats, 3)
  )
  every <- if (options$gpu) gpu_rows else rows
  options$rows <- listed(given$rows, ",", every, "row")
  c(options, given[setdiff(names(given), c("rows", "repeats", "threads", "out"))])
}

number <- function(text, default) if (is.null(text)) default else as.numeric(text)

# The comma-separated parts of `text`, which must be among `every`; all of `every` without a text.
listed <- function(text, separator, every, what) {
  if (is.null(text)) return(every)
  chosen <- strsplit(text, separator, fixed = TRUE)[[1]]
  unknown <- setdiff(chosen, every)
  if (length(unknown) > 0) {
    stop("unknown ", what, ": ", unknown[1], "; there are: ", paste(every, collapse = "; "),
         call. = FALSE)
  }
  chosen
}

machine_name <- function() {
  cpu <- "/proc/cpuinfo"
  model <- if (file.exists(cpu)) {
    sub(".*: *", "", grep("^model name", readLines(cpu), value = TRUE)[1])
  } else {
    Sys.info()[["machine"]]
  }
  sprintf("%s, %d cores, %s, gmhclust %s", model, parallel::detectCores(), R.version.string,
          packageVersion("gmhclust"))
}

report <- function(table, hidden, note, out) {
  options(width = 160)
  print(table[setdiff(names(table), hidden)], row.names = FALSE, right = FALSE)
  cat("\n", note, "\n", sep = "")
  if (!is.null(out)) write.csv(table, out, row.names = FALSE)
}

# Runs the chosen rows and reports them: row(name, options) without --gpu; gpu_row(name, options),
# in a separate process for each, with --gpu.
run_benchmark <- function(options, arguments, row, gpu_row) {
  if (options$worker) {
    write.csv(gpu_row(options$rows, options), options$out, row.names = FALSE)
    return(invisible())
  }
  if (!options$gpu) {
    cat(machine_name(), "\n\n")
    measured <- do.call(rbind, lapply(options$rows, row, options))
    return(report(
      cbind(measured, date = format(Sys.Date()), machine = machine_name()),
      c("row", "date", "machine"),
      "seconds: median of the repeats; megabytes: peak memory beyond that before the call",
      options$out
    ))
  }
  device <- gpu_name()
  cat(device$gpu, ", driver for CUDA ", device$driver_cuda, "\n", machine_name(), "\n\n", sep = "")
  measured <- gpu_rows_in_processes(options, arguments)
  if (is.null(measured)) quit(status = 1)
  measured <- cbind(measured, date = format(Sys.Date()), device, machine = machine_name())
  report(
    measured, c("row", "date", "gpu", "gpus", "driver_cuda", "machine", "fastest", "slowest"),
    paste("cold: the first call of a process; seconds: median of the following ones; megabytes:",
          "peak memory of\nthe CPU beyond that before the call; identical: all results of a line"),
    options$out
  )
}
