# Usage: Rscript trees.R [--rows=ROW,...] [--leaves=N,...] [--repeats=N] [--once=SECONDS]
#                        [--threads=N] [--out=FILE.csv]
#
# Times the functions for trees, on trees of gmhclust(). Requires R and the package. For comparison
# with gcutree(), it measures stats::cutree() in the same run on the same tree; the time of cutree()
# grows with the square of the number of leaves. Rows:
#   20k 200k     20,000 and 200,000 leaves: gcutree() and stats::cutree()
#   1m           1,000,000 leaves: gcutree(), check_hclust(), make_monotone(), and cutree_apriori()
#                above 1,000 apriori clusters
#   order        1,000, 2,000 and 4,000 leaves, or the numbers of --leaves: reorder() by the
#                distances of the leaves (optimal leaf ordering), of trees of average linkage of
#                smoothed lymphocytes. The order must be the same on one thread.
#
# All rows run by default, each measurement 3 times, or once if it took more than --once seconds;
# only row order uses several threads. Prints a table of medians with the machine's name; writes it
# as CSV, too, with --out.

library(gmhclust)
script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])
source(file.path(dirname(script), "common.R"))

# A tree of n observations of two variables in these apriori clusters.
tree_above <- function(n, clusters) {
  set.seed(1)
  x <- matrix(rnorm(2 * n), n)
  labels <- sample(clusters, n, replace = TRUE)
  gmhclust(x, 0.5, labels, distance = "centroid", progress = FALSE, warn = FALSE)
}

leaves <- function(n) paste(counted(n), "leaves")

beside_stats <- function(n) {
  case(leaves(n), function(options) {
    tree <- make_monotone(tree_above(n, 1000))
    stopifnot(identical(gcutree(tree, 50), cutree(tree, 50)))
    tree
  }, list("gcutree, k = 50" = function(tree, options) gcutree(tree, 50)),
  list("stats::cutree, k = 50" = function(tree) cutree(tree, 50)))
}

# The sum of the distances between neighbouring leaves.
between_neighbours <- function(tree, distances) {
  sum(as.matrix(distances)[cbind(head(tree$order, -1), tail(tree$order, -1))])
}

order_of <- function(n) {
  reordered <- function(data, options) {
    reorder(data$tree, data$distances, threads = options$threads, progress = FALSE)
  }
  case(leaves(n), function(options) {
    distances <- gdist(smoothed_cells(n), backend = "cpu", threads = options$threads,
                       progress = FALSE)
    data <- list(
      distances = distances,
      tree = ghclust(distances, "average", backend = "cpu", threads = options$threads,
                     progress = FALSE)
    )
    alone <- reordered(data, list(threads = 1))
    stopifnot(identical(alone, reordered(data, options)),
              between_neighbours(alone, distances) <= between_neighbours(data$tree, distances))
    data
  }, list("reorder, by distances" = reordered))
}

arguments <- commandArgs(trailingOnly = TRUE)
settings <- parse_options(arguments, c("20k", "200k", "1m", "order"), valued = "leaves")
sizes <- c(1000, 2000, 4000)
if (!is.null(settings$leaves)) sizes <- numbers(settings$leaves)

rows <- list(
  "20k" = beside_stats(20000),
  "200k" = beside_stats(200000),
  "1m" = case(leaves(1e6), function(options) {
    h <- tree_above(1e6, 1000)
    monotone <- make_monotone(h)
    list(h = h, monotone = monotone, height = monotone$height[length(monotone$height) - 50])
  }, list(
    "gcutree, k = 50" = function(data, options) gcutree(data$h, 50),
    "gcutree, at a height" = function(data, options) gcutree(data$monotone, h = data$height),
    "cutree_apriori" = function(data, options) cutree_apriori(data$h),
    "check_hclust" = function(data, options) check_hclust(data$h),
    "make_monotone" = function(data, options) make_monotone(data$h)
  )),
  order = lapply(sizes, order_of)
)

if (settings$gpu) stop("no function for trees uses a GPU", call. = FALSE)
run_benchmark(settings, arguments, rows)
