# Functions that the benchmarks of this folder share: measuring, data, the command line, and the one
# format of results. Each benchmark sets `script` to its own path and sources this file.

source(file.path(dirname(script), "sources.R"))

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

# Runs the named tasks in turns, so that other load on the machine slows all of them: each up to as
# often as `repeats` says, by name or for all, but only once if that took more than `once` seconds.
# `measurement` is measure() or measure_in_fork().
paired <- function(row, data, tasks, repeats, measurement = measure, once = Inf) {
  times <- rep_len(repeats, length(tasks))
  runs <- vector("list", length(tasks))
  for (turn in seq_len(max(times))) {
    for (i in seq_along(tasks)) {
      if (turn > times[i] || (turn > 1 && runs[[i]]["seconds", 1] > once)) next
      runs[[i]] <- cbind(runs[[i]], measurement(tasks[[i]]))
    }
  }
  over_runs <- function(what, f) round(vapply(runs, function(run) f(run[what, ]), 0), 3)
  data.frame(
    row = row, data = data, call = names(tasks), seconds = over_runs("seconds", median),
    fastest = over_runs("seconds", min), slowest = over_runs("seconds", max),
    megabytes = round(over_runs("megabytes", median)), repeats = vapply(runs, ncol, 0L)
  )
}

# ---- cases --------------------------------------------------------------------------------------

# Data and the calls to time on them. `make(options)` makes the data; each of `calls` is a function
# of the data and the options, each of `peers`, calls of other packages, one of the data. `columns`
# are further columns of the results. `compare`: whether a run with a GPU is always held against
# one without.
case <- function(data, make, calls, peers = list(), columns = list(), compare = FALSE) {
  list(data = data, make = make, calls = calls, peers = peers, columns = columns,
       compare = compare)
}

# Rows of results of a case. With a GPU: `cold`, the seconds of the first call of this process, if
# `is_first`; with --cpu, `cpu_seconds`, those of one call without it, and `identical`, whether
# both results are.
measure_case <- function(row, case, options, is_first) {
  x <- case$make(options)
  ours <- lapply(case$calls, function(call) function() call(x, options))
  peers <- lapply(if (options$peers > 0) case$peers, function(call) function() call(x))
  cold <- if (options$gpu && is_first) measure(ours[[1]])[["seconds"]] else NA
  repeats <- rep(c(options$repeats, options$peers), c(length(ours), length(peers)))
  measured <- paired(row, case$data, c(ours, peers), repeats, once = options$once)
  measured <- do.call(cbind, c(list(measured), case$columns))
  if (!options$gpu) return(measured)
  measured$cold <- c(cold, rep(NA, nrow(measured) - 1))
  if (!(options$cpu || case$compare)) return(measured)
  without <- options
  without$backend <- "cpu"
  for (i in seq_along(ours)) {
    expected <- NULL
    task <- function() expected <<- case$calls[[i]](x, without)
    measured$cpu_seconds[i] <- round(measure(task)[["seconds"]], 3)
    measured$identical[i] <- identical(bare(ours[[i]]()), bare(expected))
  }
  measured
}

# What of a result does not depend on the device.
bare <- function(result) {
  if (inherits(result, "hclust")) return(unclass(result)[c("merge", "height", "order")])
  if (inherits(result, "dist")) return(as.vector(result))
  if (inherits(result, "stability")) return(unclass(result)[names(result) != "backend"])
  result
}

# Every part of `table`, with the columns that any has.
bind_rows <- function(tables) {
  tables <- Filter(Negate(is.null), tables)
  columns <- unique(unlist(lapply(tables, names)))
  do.call(rbind, lapply(tables, function(table) {
    table[setdiff(columns, names(table))] <- NA
    table[columns]
  }))
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

# n profiles of p values: mixtures of a few common patterns, with independent noise.
profiles <- function(n, p, seed, patterns = 12) {
  set.seed(seed)
  matrix(rnorm(n * patterns), n) %*% matrix(rnorm(patterns * p), patterns) + rnorm(n * p)
}

# n points around some centres.
mixture <- function(n, p, centres = 50, sd = 3) {
  set.seed(1)
  places <- matrix(rnorm(centres * p, sd = sd), centres)
  places[sample(centres, n, replace = TRUE), , drop = FALSE] + rnorm(n * p)
}

counted <- function(n) format(n, big.mark = ",", scientific = FALSE, trim = TRUE)

# "20,000 x 14 cells".
named_size <- function(n, p, what = NULL) {
  paste(c(counted(n), "x", counted(p), what), collapse = " ")
}

# ---- the command line ---------------------------------------------------------------------------

# The options of every benchmark and, as text, the options --NAME=VALUE named in `valued`. `rows`
# and `gpu_rows` are the rows that run by default without and with --gpu; `others` those that run
# only by name.
parse_options <- function(arguments, rows, gpu_rows = character(0), valued = character(0),
                          others = character(0)) {
  own <- c("rows", "repeats", "peers", "once", "threads", "out")
  valued <- c(own, valued)
  known <- paste0("^--(", paste(valued, collapse = "|"), ")=(.+)$")
  flags <- c("--gpu", "--cpu", "--worker")
  wrong <- setdiff(grep(known, arguments, invert = TRUE, value = TRUE), flags)
  if (length(wrong) > 0) stop("unknown option: ", wrong[1], call. = FALSE)
  with_value <- grep(known, arguments, value = TRUE)
  given <- structure(as.list(sub(known, "\\2", with_value)), names = sub(known, "\\1", with_value))
  is_gpu <- "--gpu" %in% arguments
  options <- list(
    gpu = is_gpu, cpu = "--cpu" %in% arguments, worker = "--worker" %in% arguments,
    backend = if (is_gpu) "cuda" else "cpu", out = given$out,
    threads = number(given$threads, parallel::detectCores()), repeats = number(given$repeats, 3),
    once = number(given$once, Inf)
  )
  options$peers <- number(given$peers, if (is_gpu) 0 else options$repeats)
  default <- if (is_gpu) gpu_rows else rows
  options$rows <- if (is.null(given$rows)) {
    default
  } else {
    listed(given$rows, ",", unique(c(rows, gpu_rows, others)), "row")
  }
  c(options, given[setdiff(names(given), own)])
}

number <- function(text, default) if (is.null(text)) default else as.numeric(text)

# The comma-separated numbers of `text`.
numbers <- function(text) as.numeric(strsplit(text, ",", fixed = TRUE)[[1]])

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

# The numbers of --devices, or NULL for all.
chosen_devices <- function(options) {
  if (!is.null(options$devices)) as.integer(numbers(options$devices))
}

# ---- the format of results ----------------------------------------------------------------------

# Every file has these columns first, whatever it measures, then its own, then those of
# machine_columns().
first_columns <- c("row", "data", "call", "seconds", "fastest", "slowest", "megabytes", "repeats")

cpu_model <- function() {
  cpu <- "/proc/cpuinfo"
  model <- if (file.exists(cpu)) grep("^model name", readLines(cpu), value = TRUE)
  if (length(model) > 0) sub(".*: *", "", model[1]) else Sys.info()[["machine"]]
}

# The GPUs that a run uses.
used_gpus <- function(options) {
  devices <- gpu_devices()
  usable <- devices[devices$usable, ]
  chosen <- chosen_devices(options)
  if (!is.null(chosen)) usable <- usable[usable$device %in% chosen, ]
  if (nrow(usable) == 0) {
    print(devices)
    stop("no GPU can be used here", call. = FALSE)
  }
  data.frame(gpu = usable$name[1], gpus = nrow(usable), driver = paste("CUDA", usable$driver[1]))
}

# When and on what a run was made, and the digests of the sources that it is about (sources.R).
machine_columns <- function(options) {
  root <- normalizePath(file.path(dirname(script), "..", ".."))
  name <- sub("[.]R$", "", basename(script))
  device <- data.frame(gpu = NA, gpus = 0, driver = NA)
  if (options$gpu) device <- used_gpus(options)
  data.frame(
    date = format(Sys.Date()), machine = cpu_model(), threads = options$threads, device,
    r = paste(R.version$major, R.version$minor, sep = "."),
    version = as.character(packageVersion("gmhclust")),
    kernels = if (options$gpu) kernels_digest(root) else NA,
    code = code_digest(name, root, options$gpu)
  )
}

# Writes a table to the file of --out, if there is one.
write_results <- function(table, machine, options) {
  if (is.null(options$out) || is.null(table)) return(invisible())
  table[setdiff(first_columns, names(table))] <- NA
  own <- setdiff(names(table), c(first_columns, names(machine)))
  at_hand <- intersect(names(machine), names(table))
  machine <- machine[rep_len(1, nrow(table)), ]
  machine[at_hand] <- table[at_hand]
  write.csv(cbind(table[c(first_columns, own)], machine), options$out, row.names = FALSE)
}

print_machine <- function(machine) {
  gpu <- if (machine$gpus > 0) sprintf("%d x %s, %s, ", machine$gpus, machine$gpu, machine$driver)
  cat(gpu, machine$machine, ", ", machine$threads, " threads, R ", machine$r, ", gmhclust ",
      machine$version, "\n\n", sep = "")
}

print_rows <- function(table, hidden = c("row", "n", "p", "fastest", "slowest")) {
  shown <- setdiff(names(table), hidden)
  print(table[shown], row.names = FALSE, right = FALSE)
}

# Runs the chosen rows, each in a separate process; prints a row as soon as it is measured, and
# writes all rows up to then. `rows` has, by name, cases or functions of the options that return a
# table.
run_benchmark <- function(options, arguments, rows) {
  options(width = 160)
  if (options$worker) {
    return(write.csv(measure_row(rows, options), options$out, row.names = FALSE))
  }
  machine <- machine_columns(options)
  print_machine(machine)
  tables <- list()
  for (row in options$rows) {
    tables[[row]] <- row_in_process(row, arguments)
    if (is.null(tables[[row]])) next
    print_rows(tables[[row]])
    write_results(bind_rows(tables), machine, options)
  }
  cat("\nseconds: median of the repeats; megabytes: peak memory of the CPU beyond that before the",
      "call\n")
  if (length(tables) < length(options$rows)) quit(status = 1)
}

measure_row <- function(rows, options) {
  row <- rows[[options$rows]]
  if (is.function(row)) return(row(options))
  cases <- if (is.null(row$make)) row else list(row)
  bind_rows(lapply(seq_along(cases), function(i) {
    measure_case(options$rows, cases[[i]], options, is_first = i == 1)
  }))
}

# The table of a row, from a process of its own, or NULL if that failed.
row_in_process <- function(row, arguments) {
  arguments <- grep("^--(rows|out)=", arguments, invert = TRUE, value = TRUE)
  file <- tempfile(fileext = ".csv")
  on.exit(unlink(file))
  own <- c(paste0("--rows=", row), paste0("--out=", file), "--worker")
  rscript <- file.path(R.home("bin"), "Rscript")
  if (system2(rscript, shQuote(c(script, arguments, own))) != 0) {
    message("row ", row, " failed")
    return(NULL)
  }
  read.csv(file)
}
