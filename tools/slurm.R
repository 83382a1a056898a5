# Usage: Rscript tools/slurm.R FOLDER
#
# Tests the recipes of inst/recipes and the workers of BiocParallel on the SLURM that SLURM_CONF
# names: results are those of one process, bit for bit, also after jobs were killed. FOLDER is an
# empty one for files.

library(gmhclust)

folder <- commandArgs(trailingOnly = TRUE)[1]

say <- function(...) cat(format(Sys.time(), "%H:%M:%S"), ..., "\n")

check <- function(what, is_so) {
  if (!isTRUE(is_so)) stop("it is not so that ", what, call. = FALSE)
  say("ok:", what)
}

wait_for <- function(condition) {
  for (i in 1:12000) {
    if (condition()) return(invisible())
    Sys.sleep(0.01)
  }
  stop("this takes too long")
}

slurm <- function(program, ...) {
  output <- suppressWarnings(system2(program, c(...), stdout = TRUE, stderr = TRUE))
  status <- attr(output, "status")
  if (!is.null(status)) stop(program, ": ", paste(output, collapse = "\n"))
  output
}

# ---- an array of jobs ---------------------------------------------------------------------------

# Cells in FCS files, each with the cells of lymphocytes() some times, moved a little.
make_cells <- function(cells, files, times = 1) {
  dir.create(cells)
  markers <- as.matrix(lymphocytes()[1:14])
  markers <- markers[rep(seq_len(nrow(markers)), times), ]
  set.seed(1)
  for (i in seq_len(files)) {
    values <- markers + stats::rnorm(length(markers))
    words <- c("$BYTEORD" = "1,2,3,4", "$DATATYPE" = "F", "$MODE" = "L", "$PAR" = "14",
               "$TOT" = nrow(values))
    for (j in 1:14) {
      words[paste0("$P", j, c("N", "B", "E", "R"))] <- c(colnames(markers)[j], 32, "0,0", 1024)
    }
    gmhclust:::write_fcs(
      file.path(cells, paste0(i, ".fcs")), words, 4 * length(values),
      function(connection) writeBin(as.vector(t(values)), connection, size = 4, endian = "little")
    )
  }
}

recipe <- function(name) system.file("recipes", name, package = "gmhclust", mustWork = TRUE)

# Submits a recipe with `arguments`, and options of sbatch.
submit <- function(name, arguments, ...) {
  log <- file.path(folder, "job-%A-%a.log")
  slurm("sbatch", "--parsable", paste0("--output=", log), ..., recipe(name), arguments)
}

wait_for_all_jobs <- function() wait_for(function() length(slurm("squeue", "--noheader")) == 0)

# Kills the process of a job as the system does that has no memory left.
kill_job <- function(id) slurm("scancel", "--signal=KILL", "--full", id)

finished <- function(output) list.files(output, "^rows-", full.names = TRUE)

test_array <- function(cells, expected) {
  output <- file.path(folder, "array")
  submit("neighbours.sh", c(cells, output), "--wait")
  check("an array fills a folder", identical(as.list(read_gknn(output)), expected))

  output <- file.path(folder, "killed")
  id <- submit("neighbours.sh", c(cells, output))
  wait_for(function() file.exists(file.path(output, "rows-0000000001-0000003750.sha256")))
  kill_job(paste0(id, "_1"))
  wait_for_all_jobs()
  missing <- tryCatch(read_gknn(output), gmhclust_error_input = conditionMessage)
  say(missing)
  check("read_gknn() says which rows a killed job lacks", grepl("lacks rows", missing))
  before <- file.mtime(kept <- finished(output))
  # Part 4 is submitted, too, although it is complete.
  submit("neighbours.sh", c(cells, output), "--wait", "--array=1,4")
  check("the same jobs complete the folder", identical(as.list(read_gknn(output)), expected))
  check("finished blocks are kept", identical(file.mtime(kept), before))
  check("no incomplete file is left", length(list.files(output, "^writing-|lock")) == 0)
}

is_same_tree <- function(a, b) {
  parts <- c("merge", "height", "order")
  identical(unclass(a)[parts], unclass(b)[parts])
}

# Of 2.1 million cells, so that there are three files of merges.
test_array_of_trees <- function() {
  cells <- file.path(folder, "many-cells")
  make_cells(cells, 3, 35)
  labels <- file.path(folder, "labels.rds")
  x <- observations(cells, cofactor = 5)
  saveRDS(rep_len(1:7000, nrow(x)), labels)
  expected <- gmhclust(x, apriori = readRDS(labels), distance = "centroid", warn = FALSE)
  output <- file.path(folder, "trees")
  id <- submit("trees.sh", c(cells, labels, output), "--mem-per-cpu=1200M")
  job <- paste0(id, "_1")
  wait_for(function() "RUNNING" %in% slurm("squeue", "--noheader", "--format=%T", "--jobs", job))
  kill_job(job)
  wait_for_all_jobs()
  files <- function() list.files(output, "^merges-", full.names = TRUE)
  check("a killed job lacks its merges", length(files()) == 2)
  before <- file.mtime(kept <- files())
  system2("bash", c(recipe("trees.sh"), cells, labels, output))
  tree <- readRDS(file.path(output, "tree.rds"))
  check("the merges of jobs make one tree", is_same_tree(tree, expected))
  check("finished merges are kept", identical(file.mtime(kept), before) && length(files()) == 3)
}

# ---- workers of BiocParallel --------------------------------------------------------------------

on_slurm <- function() {
  BiocParallel::BatchtoolsParam(
    workers = 2, cluster = "slurm",
    resources = list(walltime = 600, memory = 1000, ncpus = 1)
  )
}

test_workers <- function(x) {
  labels <- rep(1:20, length.out = nrow(x))
  tree <- gmhclust(x, 100, labels, distance = "centroid", warn = FALSE, BPPARAM = on_slurm())
  alone <- gmhclust(x, 100, labels, distance = "centroid", warn = FALSE)
  check("gmhclust() has one tree", is_same_tree(tree, alone))
  check("gneighbours() has one result",
        identical(gneighbours(x, 0.5, BPPARAM = on_slurm()), gneighbours(x, 0.5)))
  fit <- function(workers) {
    set.seed(1)
    suppressWarnings(gkmeans(x, 20, iter.max = 2, BPPARAM = workers))
  }
  check("gkmeans() has one result", identical(fit(on_slurm()), fit(NULL)))
}

test_killed_worker <- function(x, expected) {
  output <- file.path(folder, "workers")
  # In a fork, since the call waits.
  call <- parallel::mcparallel(tryCatch(
    gknn(x, 15, output = output, BPPARAM = on_slurm()),
    error = function(condition) list(class = class(condition), text = conditionMessage(condition))
  ))
  wait_for(function() length(finished(output)) > 0)
  for (id in slurm("squeue", "--noheader", "--format=%i")) kill_job(id)
  failed <- parallel::mccollect(call)[[1]]
  say(failed$text)
  check("a killed job is the loss of a worker", "gmhclust_error_worker" %in% failed$class)
  before <- file.mtime(kept <- finished(output))
  resumed <- gknn(x, 15, output = output, BPPARAM = on_slurm())
  check("the same call completes the folder", identical(as.list(resumed), expected))
  check("finished blocks are kept", identical(file.mtime(kept), before))
}

cells <- file.path(folder, "cells")
make_cells(cells, 3)
x <- as.matrix(observations(cells, cofactor = 5))
expected <- gknn(x, 15)
test_array(cells, expected)
test_array_of_trees()
test_workers(unname(x[seq(1, nrow(x), by = 10), ]))
test_killed_worker(x, expected)
