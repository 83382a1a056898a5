# Usage: Rscript peers.R --folder=FOLDER [--gpu] [--repeats=N] [--once=SECONDS] [--threads=N]
#                        [--out=FILE.csv]
#
# The part of peers.py that runs in R: times gmhclust on one job, on the CPU or, with --gpu, with an
# NVIDIA GPU. peers.py writes the job to job.csv in FOLDER. This script writes beside it:
#   ARRAY-NxP.f32   the array, if it is not there yet: float32, row by row
#   centers.i32     k-means: the rows that are the initial centers; int32, counted from 0
#   result.bin      the result, as `values` below; int32 or double, row by row
#
# R reads the array back before it computes, so all packages get the same numbers, which single
# precision holds. Every time includes reading x and returning the result.

library(gmhclust)
script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])
source(file.path(dirname(script), "common.R"))

makers <- list(
  cells = function(n, p) smoothed_cells(n),
  mixture = mixture,
  profiles = function(n, p) profiles(n, p, seed = 2)
)

read_array <- function(job, folder) {
  file <- file.path(folder, sprintf("%s-%dx%d.f32", job$array, job$n, job$p))
  if (!file.exists(file)) {
    made <- makers[[job$array]](job$n, job$p)
    writeBin(as.vector(t(made)), file, size = 4)
  }
  matrix(readBin(file, "double", job$n * job$p, size = 4), job$n, byrow = TRUE)
}

# For each task, the calls: functions of the data, the job, and the arguments that all functions of
# this package share. Lloyd's iterations start from given rows.
calls <- list(
  kmeans = function(x, job, ...) gkmeans(x, x[job$centers, ], job$iterations, ...),
  linkage = function(x, job, ...) ghclust(x, job$method, ...),
  reachability = function(x, job, ...) ghclust(x, "single", min_points = job$k, ...),
  hdbscan = function(x, job, ...) {
    cut_populations(ghclust(x, "single", min_points = job$k, ...), min_members = job$members)
  },
  distances = function(x, job, ..., progress) gdist(x, ...),
  knn = function(x, job, ...) gknn(x, job$k, ...)
)

in_words <- function(job) {
  switch(
    job$task,
    kmeans = sprintf("gkmeans, %s centers, %d iterations", counted(job$k), job$iterations),
    linkage = paste("ghclust,", job$method),
    reachability = sprintf("ghclust, single, min_points = %d", job$k),
    hdbscan = sprintf("ghclust, single, min_points = %d, and cut_populations", job$k),
    distances = "gdist, euclidean",
    knn = sprintf("gknn, euclidean, k = %d", job$k)
  )
}

# What peers.py compares: clusters and neighbours counted from 0, -1 for noise; heights; distances.
values <- list(
  kmeans = function(result) result$cluster - 1L,
  linkage = function(result) result$height,
  reachability = function(result) result$height,
  hdbscan = function(result) as.integer(result) - 1L,
  distances = as.vector,
  knn = function(result) as.vector(t(result$index)) - 1L
)

time_job <- function(job, options) {
  x <- read_array(job, options$folder)
  if (job$task == "kmeans") {
    set.seed(1)
    job$centers <- sample(nrow(x), job$k)
    writeBin(job$centers - 1L, file.path(options$folder, "centers.i32"))
  }
  result <- NULL
  call <- function() {
    result <<- calls[[job$task]](x, job, backend = options$backend, threads = options$threads,
                                 progress = FALSE)
  }
  cold <- measure(call)[["seconds"]]
  size <- named_size(job$n, job$p, if (job$array != "mixture") job$array)
  table <- paired(job$row, size, structure(list(call), names = in_words(job)), options$repeats,
                  once = options$once)
  writeBin(values[[job$task]](result), file.path(options$folder, "result.bin"))
  cbind(table, cold = round(cold, 3))
}

arguments <- commandArgs(trailingOnly = TRUE)
folder <- sub("^--folder=", "", grep("^--folder=", arguments, value = TRUE))
job <- as.list(read.csv(file.path(folder, "job.csv")))
rows <- structure(list(function(options) time_job(job, options)), names = job$row)
settings <- parse_options(arguments, names(rows), names(rows), valued = "folder")
run_benchmark(settings, arguments, rows)
