# Usage: Rscript preparation.R --data=FOLDER [--seeds=N] [--threads=N] [--out=FILE.csv]
#
# Measures how far the populations that gmhclust() finds in an FCS file agree with gates drawn by
# hand, after different preparations of the values. Requires R and the package, not flowCore.
# FOLDER has 68983.fcs of the Bioconductor package FlowSOM, also as flowsom-68983.fcs, and
# flowsom-68983-gates.csv.gz: the gate of each event, one a line, "Unlabeled" for none.
#
# All events are clustered by seven markers of lineage, above 1,000 small clusters of k-means, with
# threshold = 100, and cut into as many populations as there are gates. The agreement is the
# adjusted Rand index (ARI; 1 is perfect, 0 is chance); events that the cut leaves out are one more
# cluster. Each seed gives other small clusters. Columns: the preparation; lowest, median and
# highest ARI of gated events over seeds 1 to N (default: 5); the same with "all" of all events,
# among which those in no gate are one more gate. The last row is average linkage of all events,
# which has no seed.
#
# Prints a table; writes it as CSV, too, with --out.

library(gmhclust)
script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])
for (part in c("common.R", "agreement.R", "labelled-cells.R")) {
  source(file.path(dirname(script), part))
}

# The populations of a tree: `k`, or as many as there are, where it has fewer of this size.
populations <- function(tree, k) at_most(k, function(k) cut_populations(tree, k))

# The tree of small clusters that a seed gives.
tree_of_seed <- function(x, seed, threads, ...) {
  set.seed(seed)
  gmhclust(x, threshold = 100, apriori = 1000, threads = threads, warn = FALSE, ...)
}

agreement_of_tree <- function(tree, gate) {
  gated <- gate != "Unlabeled"
  found <- populations(tree, length(unique(gate[gated])))
  c(gated = adjusted_rand(found[gated], gate[gated]), all = adjusted_rand(found, gate))
}

main <- function(arguments) {
  given <- function(name, default) {
    option <- paste0("^--", name, "=")
    found <- sub(option, "", grep(option, arguments, value = TRUE))
    if (length(found) > 0) found else default
  }
  folder <- given("data", NULL)
  if (is.null(folder)) stop("--data=FOLDER is missing")
  threads <- as.integer(given("threads", 2))
  file <- file.path(folder, c("68983.fcs", "flowsom-68983.fcs"))
  cells <- read_fcs(file[file.exists(file)][1])
  gate <- readLines(file.path(folder, "flowsom-68983-gates.csv.gz"))
  gate <- gsub('"', "", gate)
  raw <- cells$values[, lineage_channels]
  clean <- compensate(cells, lineage_channels)
  colnames(raw) <- names(lineage_channels)
  prepared <- list(
    "raw" = list(raw),
    "raw, scale = TRUE" = list(raw, scale = TRUE),
    "compensated" = list(clean),
    "not compensated, asinh(x / 150)" = list(asinh(raw / 150)),
    "compensated, asinh(x / 5)" = list(asinh(clean / 5)),
    "compensated, asinh(x / 150)" = list(asinh(clean / 150))
  )
  seeds <- seq_len(as.integer(given("seeds", 5)))
  row_of <- function(name, trees) {
    found <- vapply(trees, agreement_of_tree, c(gated = 0, all = 0), gate = gate)
    range_of <- apply(found, 1, quantile, c(0, 0.5, 1), names = FALSE)
    dimnames(range_of)[[1]] <- c("lowest", "median", "highest")
    data.frame(
      row = "gates", data = paste(counted(sum(gate != "Unlabeled")), "gated events"), call = name,
      repeats = length(trees), round(t(range_of[, "gated"]), 3),
      all = round(t(range_of[, "all"]), 3),
      events = nrow(raw), gated = sum(gate != "Unlabeled")
    )
  }
  rows <- lapply(names(prepared), function(name) {
    row_of(name, lapply(seeds, function(seed) {
      do.call(tree_of_seed, c(prepared[[name]], list(seed = seed, threads = threads)))
    }))
  })
  average <- ghclust(asinh(clean / 150), "average", threads = threads)
  rows <- c(rows, list(row_of("compensated, asinh(x / 150), average linkage", list(average))))
  table <- do.call(rbind, rows)
  print_rows(table, c("row", "data"))
  write_results(table, machine_columns(list(gpu = FALSE, threads = threads)),
                list(out = given("out", NULL)))
}

main(commandArgs(trailingOnly = TRUE))
