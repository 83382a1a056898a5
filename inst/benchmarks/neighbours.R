# Usage: Rscript neighbours.R [--gpu [--cpu] [--devices=N,...]] [--rows=ROW,...] [--repeats=N]
#                             [--peers=N] [--once=SECONDS] [--threads=N] [--out=FILE.csv]
#
# Times gknn() and gmst() in R, on the CPU or, with --gpu, with an NVIDIA GPU (backend = "cuda");
# every time includes reading x and returning the result. Without a GPU, FNN's k-d tree,
# BiocNeighbors' KMKNN and fastcluster's single linkage from points are measured in the same run for
# comparison, if they are installed. Rows:
#   cells20k     the lymphocytes, 20,000 x 14, k = 20: euclidean
#   metrics      the same: manhattan, maximum, canberra
#   24k 384k 1533k
#                24,158, 384,126 and 1,533,876 x 295 profiles, pearson, k = 20: mixtures of patterns
#                with noise, in the sizes published for GPU-FS-kNN (Arefin et al. 2012,
#                doi:10.1371/journal.pone.0044000)
#   1m           1,000,000 x 32 profiles, euclidean, k = 64
#   tree         the lymphocytes: the minimum spanning tree
# By default, cells20k, metrics, 24k and tree run without --gpu; cells20k, 24k, 384k, 1533k and 1m
# with it. --devices chooses GPUs by number.
#
# Each row runs in a separate process, whose first call with a GPU is cold: it opens the device.
# With
# --cpu, each call is made once without the GPU, too, and the results say whether both are equal.
# Each call is measured 3 times, others --peers times (as often), and only once if it took more than
# --once seconds. Prints medians; writes them with the machine's name as CSV, too, with --out.

library(gmhclust)
script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])
source(file.path(dirname(script), "common.R"))

gknn_calls <- function(metrics, k = 20) {
  calls <- lapply(metrics, function(metric) {
    force(metric)
    function(x, options) {
      gknn(x, k, metric = metric, backend = options$backend, threads = options$threads,
           devices = chosen_devices(options), progress = FALSE)
    }
  })
  structure(calls, names = paste0("gknn, ", metrics, ", k = ", k))
}

# Calls of other packages that are installed.
installed <- function(calls) {
  packages <- sub("::.*", "", names(calls))
  calls[vapply(packages, requireNamespace, NA, quietly = TRUE)]
}

of_profiles <- function(n, p, metrics, k) {
  case(named_size(n, p, "profiles"), function(options) profiles(n, p, seed = 2),
       gknn_calls(metrics, k))
}

lymphocytes_case <- function(calls, peers = list()) {
  case("lymphocytes, 20,000 x 14", function(options) markers(), calls, installed(peers))
}

rows <- list(
  cells20k = lymphocytes_case(gknn_calls("euclidean"), list(
    "FNN::get.knn, k = 20" = function(x) FNN::get.knn(x, 20),
    "BiocNeighbors::findKNN, k = 20" = function(x) {
      parameters <- getExportedValue("BiocNeighbors", "KmknnParam")()
      getExportedValue("BiocNeighbors", "findKNN")(x, 20, BNPARAM = parameters)
    }
  )),
  metrics = lymphocytes_case(gknn_calls(c("manhattan", "maximum", "canberra"))),
  "24k" = of_profiles(24158, 295, "pearson", 20),
  "384k" = of_profiles(384126, 295, "pearson", 20),
  "1533k" = of_profiles(1533876, 295, "pearson", 20),
  "1m" = of_profiles(1e6, 32, "euclidean", 64),
  tree = lymphocytes_case(
    list("gmst" = function(x, options) {
      gmst(x, backend = options$backend, threads = options$threads, progress = FALSE)
    }),
    list("fastcluster::hclust.vector, single" = function(x) {
      fastcluster::hclust.vector(x, "single")
    })
  )
)

arguments <- commandArgs(trailingOnly = TRUE)
settings <- parse_options(
  arguments, c("cells20k", "metrics", "24k", "tree"), c("cells20k", "24k", "384k", "1533k", "1m"),
  valued = "devices"
)
run_benchmark(settings, arguments, rows)
