# Usage: Rscript tools/figures.R [--check | --stale] [ROOT]
#
# Writes what the documents of the checkout ROOT (by default this one) say of the results of the
# benchmarks: the index of inst/benchmarks/results, and the tables between the markers
# <!-- table: NAME --> and <!-- end of table --> of README.md and the vignettes, which
# inst/benchmarks/tables.R defines. Removes results that newer ones of the same script on the same
# kind of machine replace, unless a source names their file. Fails if a sentence that tables.R holds
# against the results has other figures.
#
# With --check, it changes nothing, and fails if any of this would. With --stale, it says which
# results are older than the sources that they are about (inst/benchmarks/sources.R), and fails if a
# document shows any of these. tools/document runs the first two, tools/test the third for
# information, and RELEASE.md demands that it finds nothing. Needs R alone.

here <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1]))
arguments <- commandArgs(trailingOnly = TRUE)
is_check <- "--check" %in% arguments
roots <- setdiff(arguments, c("--check", "--stale"))
root <- normalizePath(if (length(roots) > 0) roots[1] else file.path(here, ".."))
benchmarks <- file.path(root, "inst/benchmarks")
folder <- file.path(benchmarks, "results")
source(file.path(benchmarks, "sources.R"))
source(file.path(benchmarks, "tables.R"))

read_lines <- function(...) readLines(file.path(...), encoding = "UTF-8", warn = FALSE)
write_lines <- function(lines, ...) writeLines(enc2utf8(lines), file.path(...), useBytes = TRUE)

problems <- character(0)
problem <- function(...) problems <<- c(problems, paste0(...))

stop_at_problems <- function() {
  if (length(problems) > 0) {
    message(paste(problems, collapse = "\n"))
    quit(status = 1)
  }
}

# Replaces the content of a file; with --check, that it differs is a problem.
put <- function(file, lines) {
  there <- if (file.exists(file.path(root, file))) read_lines(root, file)
  if (identical(lines, there)) return(invisible())
  if (is_check) return(problem(file, " is stale: run tools/document"))
  write_lines(lines, root, file)
  message("written: ", file)
}

# ---- results ------------------------------------------------------------------------------------

# Names of results in the sources, such as policy.rs: each stays as long as a source names it.
cited_files <- function() {
  folders <- file.path(root, "src/rust", c("src", "core", "engine", "cuda"))
  sources <- list.files(folders, "[.](rs|cuh?)$", full.names = TRUE, recursive = TRUE)
  # Few lines have a year. A pattern takes long for every line.
  text <- grep("20", unlist(lapply(sources, read_lines)), fixed = TRUE, value = TRUE)
  unique(unlist(regmatches(text, gregexpr("20[0-9-]{8}-[a-z0-9-]+[.]csv", text))))
}

# Results that newer ones replace.
superseded <- function(files) {
  parts <- name_parts(files)
  groups <- paste(parts$kind, parts$script)
  newest_day <- ave(as.numeric(as.Date(parts$day)), groups, FUN = max)
  setdiff(files[as.numeric(as.Date(parts$day)) < newest_day], cited_files())
}

# The format that common.R writes.
first_columns <- c("row", "data", "call", "seconds", "fastest", "slowest", "megabytes", "repeats")
last_columns <- c("date", "machine", "threads", "gpu", "gpus", "driver", "r", "version", "kernels",
                  "code")
check_format <- function(file, table) {
  names <- names(table)
  if (!identical(head(names, 8), first_columns) || !identical(tail(names, 10), last_columns)) {
    problem(file, " has not the columns of inst/benchmarks/common.R")
  }
  if (!name_parts(file)$script %in% names(scripts)) {
    problem(file, " is of a script that inst/benchmarks/sources.R does not list")
  }
}

in_one <- function(values) paste(sort(unique(values[!is.na(values)])), collapse = "; ")

# A line for each file.
index_lines <- function(results) {
  rows <- lapply(names(results), function(file) {
    table <- results[[file]]
    script <- name_parts(file)$script
    machine <- paste0(
      table$machine, ", ", table$threads, ifelse(table$threads > 1, " threads", " thread"),
      ifelse(table$gpus > 0, paste0(", ", table$gpus, " x ", table$gpu), "")
    )
    data.frame(
      file, script = paste0(script, ".R"), rows = nrow(table), date = in_one(table$date),
      machine = in_one(sub("^NA, ", "", machine)), version = in_one(table$version),
      kernels = in_one(table$kernels), about = scripts[[script]]$about
    )
  })
  index <- do.call(rbind, rows)
  connection <- textConnection("lines", "w", local = TRUE)
  on.exit(close(connection))
  utils::write.csv(index[order(index$file, method = "radix"), ], connection, row.names = FALSE,
                   na = "")
  lines
}

# ---- documents ----------------------------------------------------------------------------------

# The lines of a document, its tables made anew.
with_tables <- function(lines, file, results) {
  begins <- grep("^<!-- table: [a-z-]+ -->$", lines)
  for (begin in rev(begins)) {
    name <- sub("^<!-- table: ([a-z-]+) -->$", "\\1", lines[begin])
    end <- begin + which(lines[-seq_len(begin)] == "<!-- end of table -->")[1]
    if (is.na(end) || is.null(tables[[name]])) {
      problem(file, ":", begin, " has no end, or no table of this name is in tables.R")
      next
    }
    made <- c("", as_markdown(tables[[name]](results)), "")
    lines <- c(lines[seq_len(begin)], made, lines[end:length(lines)])
  }
  lines
}

# The text of a file in one line, without the marks of comments.
prose <- function(file) {
  lines <- sub("^#' ?", "", read_lines(root, file))
  gsub("[[:space:]]+", " ", paste(lines, collapse = " "))
}

check_facts <- function(results) {
  for (fact in facts(results)) {
    if (!grepl(fact$text, prose(fact$file), fixed = TRUE)) {
      problem(fact$file, " does not say: ", fact$text)
    }
  }
}

vignettes <- list.files(file.path(root, "vignettes"), "[.]Rmd$")
documents <- c("README.md", file.path("vignettes", vignettes))

write_documents <- function() {
  results <- read_results(folder)
  old <- superseded(names(results))
  if (is_check) {
    for (file in old) problem(file, " is replaced by newer results: run tools/document")
  } else {
    unlink(file.path(folder, old))
    for (file in old) message("removed: ", file)
  }
  results <- results[setdiff(names(results), old)]
  for (file in names(results)) check_format(file, results[[file]])
  stop_at_problems()
  put("inst/benchmarks/results/index.csv", index_lines(results))
  for (file in documents) put(file, with_tables(read_lines(root, file), file, results))
  check_facts(results)
  stop_at_problems()
}

# ---- age ----------------------------------------------------------------------------------------

# The files from which documents take figures.
shown_files <- function(results) {
  shown <- character(0)
  find <- newest
  newest <<- function(results, script, kind = NULL) {
    shown <<- c(shown, newest_file(results, script, kind))
    find(results, script, kind)
  }
  on.exit(newest <<- find)
  for (table in tables) table(results)
  facts(results)
  # The vignettes "choosing", "gmhclust" and "millions" show these.
  unique(c(
    shown, newest_file(results, "sizes"), newest_file(results, "threshold"),
    newest_file(results, "blocks", "cpu"), newest_file(results, "blocks", gpu_kinds(results))
  ))
}

# Why a file's results are older than their sources; empty if they are not.
age <- function(file, table, kernels) {
  script <- name_parts(file)$script
  on_gpu <- any(table$gpus > 0)
  code <- code_digest(script, root, on_gpu)
  c(if (!all(table$code %in% code)) "code",
    if (on_gpu && !all(table$kernels %in% kernels)) "kernels")
}

say_stale <- function() {
  results <- read_results(folder)
  kernels <- kernels_digest(root)
  ages <- mapply(age, names(results), results, MoreArgs = list(kernels), SIMPLIFY = FALSE)
  older <- names(results)[lengths(ages) > 0]
  shown <- intersect(older, shown_files(results))
  if (length(older) == 0) cat("all results are of the present sources\n")
  for (file in older) {
    cat(file, ": older than its ", paste(ages[[file]], collapse = " and "),
        if (file %in% shown) ", shown in documents", "\n", sep = "")
  }
  quit(status = as.integer(length(shown) > 0))
}

if ("--stale" %in% arguments) say_stale() else write_documents()
