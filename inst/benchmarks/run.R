# Usage: Rscript run.R --cores=N [--scripts=SCRIPT,...] [--out=FOLDER] [--quick]
#        Rscript run.R --gpu [--scripts=SCRIPT,...] [--out=FOLDER] [--quick]
#
# Measures the rows that README, the help pages and the vignettes show, for one column of their
# tables: on N cores of this machine, or with its GPU. Run it for all columns on one machine, so
# that a table compares nothing but devices:
#
#   Rscript run.R --cores=2 && Rscript run.R --cores=16 && Rscript run.R --gpu
#
# That takes about 7, 2 and 5 minutes, and writes one file for each script and column, such as
# DATE-16cores-linkage.csv, into FOLDER (by default results, beside this file). A file has a row as
# soon as it is measured. Then run tools/document, which writes all tables.
#
# With fewer than 8 cores, calls of other packages are measured once each, for comparison; with
# more, larger data. Each of our calls is measured 3 times, or once if it takes more than 10
# seconds. peers.py compares with other packages for GPUs, and is run by itself.
# --quick measures a few small rows once, into a temporary folder.

here <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1]))

rows_on_few_cores <- c(
  gmhclust = "cells20k,cells44k,apriori20k,growth,cells1m", neighbours = "cells20k,24k",
  kmeans = "cells20k,cells1m", linkage = "matrix,cells20k,dist,genes20k", distances = "main"
)
rows_on_many_cores <- c(
  gmhclust = "cells20k,cells44k,apriori20k,cells1m,groups2m,cells167k", neighbours = "cells20k,24k",
  kmeans = "cells20k,cells1m", linkage = "matrix,cells20k,genes20k", distances = "main"
)
rows_with_gpu <- c(
  gmhclust = paste0("cells20k,cells44k,apriori20k,cells1m,groups2m,groups20m,cells20m,cells167k,",
                    "cells265k,cells841k"),
  neighbours = "cells20k,24k,384k", kmeans = "cells20k,cells1m",
  linkage = "matrix,cells20k,cells1m,matrix100k,genes20k,genes1m", distances = "main"
)
quick_rows <- c(gmhclust = "apriori20k", neighbours = "cells20k", kmeans = "cells20k")

# The processors that this process may use.
allowed_processors <- function() {
  line <- grep("^Cpus_allowed_list", readLines("/proc/self/status"), value = TRUE)
  ranges <- strsplit(sub(".*:\\s*", "", line), ",")[[1]]
  unlist(lapply(strsplit(ranges, "-"), function(ends) {
    seq(as.integer(ends[1]), as.integer(ends[length(ends)]))
  }))
}

# Runs a script with arguments, on `cores` processors only, where the system can do that.
run_script <- function(name, arguments, cores) {
  command <- c(file.path(R.home("bin"), "Rscript"), file.path(here, paste0(name, ".R")), arguments)
  if (nzchar(Sys.which("taskset"))) {
    chosen <- allowed_processors()[seq_len(cores)]
    command <- c("taskset", "--cpu-list", paste(chosen, collapse = ","), command)
  }
  system2(command[1], shQuote(command[-1]))
}

# "NVIDIA H100 80GB HBM3" as "h100", two of them as "h100x2".
gpu_kind <- function() {
  devices <- gmhclust::gpu_devices()
  names <- devices$name[devices$usable]
  if (length(names) == 0) stop("no GPU can be used here", call. = FALSE)
  model <- tolower(regmatches(names[1], regexpr("[A-Z]+[0-9]+[A-Z]*", names[1])))
  if (length(names) > 1) paste0(model, "x", length(names)) else model
}

main <- function(arguments) {
  given <- function(name, default) {
    found <- grep(paste0("^--", name, "="), arguments, value = TRUE)
    if (length(found) > 0) sub("^[^=]*=", "", found[1]) else default
  }
  is_gpu <- "--gpu" %in% arguments
  is_quick <- "--quick" %in% arguments
  most <- parallel::detectCores()
  cores <- as.integer(given("cores", if (is_gpu) most else stop("give --cores or --gpu")))
  if (cores > most) stop("this machine has ", most, " cores", call. = FALSE)
  rows <- if (is_gpu) rows_with_gpu else if (cores < 8) rows_on_few_cores else rows_on_many_cores
  if (is_quick) rows <- quick_rows
  scripts <- strsplit(given("scripts", paste(names(rows), collapse = ",")), ",")[[1]]
  folder <- given("out", if (is_quick) tempdir() else file.path(here, "results"))
  kind <- if (is_gpu) gpu_kind() else paste0(cores, "cores")
  peers <- if (!is_gpu && cores < 8) 1 else 0
  status <- vapply(scripts, function(name) {
    file <- sprintf("%s-%s-%s.csv", format(Sys.Date()), kind, name)
    cat("\n==== ", file, "\n", sep = "")
    run_script(name, c(
      if (is_gpu) "--gpu", paste0("--rows=", rows[[name]]), paste0("--threads=", cores),
      paste0("--peers=", peers), paste0("--repeats=", if (is_quick) 1 else 3), "--once=10",
      paste0("--out=", file.path(folder, file))
    ), cores)
  }, 0L)
  quit(status = max(status))
}

main(commandArgs(trailingOnly = TRUE))
