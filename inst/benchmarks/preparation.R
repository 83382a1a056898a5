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
source(file.path(dirname(script), "common.R"))

channels <- c(
  CD8 = "Pacific Blue-A", TCRgd = "APC-A", TCRb = "APC-Cy7-A", NK1.1 = "PE-A",
  CD4 = "PE-Texas Red-A", CD19 = "PE-Cy5-A", CD3 = "PE-Cy7-A"
)

# Reads an FCS file (2.0 to 3.1) of single-precision numbers: a list of `values`, a matrix with the
# channels as columns, and `keywords`, a named character vector.
read_fcs <- function(file) {
  bytes <- readBin(file, "raw", file.size(file))
  text_of <- function(from, to) rawToChar(bytes[from:to])
  offset <- function(i) as.integer(text_of(11 + 8 * (i - 1), 10 + 8 * i)) + 1
  text <- text_of(offset(1), offset(2))
  fields <- strsplit(substring(text, 2), substr(text, 1, 1), fixed = TRUE, useBytes = TRUE)[[1]]
  odd <- seq(1, length(fields) - 1, by = 2)
  keywords <- setNames(fields[odd + 1], toupper(fields[odd]))
  stopifnot(keywords["$DATATYPE"] == "F")
  columns <- as.integer(keywords["$PAR"])
  values <- readBin(
    bytes[offset(3):offset(4)], "numeric", columns * as.integer(keywords["$TOT"]), size = 4,
    endian = if (startsWith(keywords["$BYTEORD"], "1")) "little" else "big"
  )
  names <- keywords[sprintf("$P%dN", seq_len(columns))]
  values <- matrix(values, ncol = columns, byrow = TRUE, dimnames = list(NULL, names))
  list(values = values, keywords = keywords)
}

# The compensated values of the channels in the file's matrix of spillovers.
compensate <- function(cells) {
  fields <- strsplit(cells$keywords["SPILL"], ",")[[1]]
  size <- as.integer(fields[1])
  names <- fields[1 + seq_len(size)]
  spill <- matrix(as.numeric(fields[-seq_len(1 + size)]), size, byrow = TRUE)
  cells$values[, names] %*% solve(spill)[, match(channels, names)]
}

# Agreement of two divisions of the same observations: the adjusted Rand index.
ari <- function(a, b) {
  pairs <- function(counts) sum(choose(counts, 2))
  counts <- table(a, b)
  of_a <- pairs(rowSums(counts))
  of_b <- pairs(colSums(counts))
  expected <- of_a * of_b / choose(length(a), 2)
  (pairs(counts) - expected) / ((of_a + of_b) / 2 - expected)
}

# The populations of a tree: `k`, or as many as there are, where it has fewer of this size.
populations <- function(tree, k) {
  for (fewer in k:1) {
    found <- tryCatch(cut_populations(tree, fewer), gmhclust_error_input = function(e) NULL)
    if (!is.null(found)) return(as.integer(found))
  }
}

# The tree of small clusters that a seed gives.
tree_of_seed <- function(x, seed, threads, ...) {
  set.seed(seed)
  gmhclust(x, threshold = 100, apriori = 1000, threads = threads, warn = FALSE, ...)
}

agreement <- function(tree, gate) {
  gated <- gate != "Unlabeled"
  found <- populations(tree, length(unique(gate[gated])))
  c(gated = ari(found[gated], gate[gated]), all = ari(found, gate))
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
  raw <- cells$values[, channels]
  clean <- compensate(cells)
  colnames(raw) <- colnames(clean) <- names(channels)
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
    found <- vapply(trees, agreement, c(gated = 0, all = 0), gate = gate)
    range_of <- apply(found, 1, quantile, c(0, 0.5, 1), names = FALSE)
    dimnames(range_of)[[1]] <- c("lowest", "median", "highest")
    data.frame(
      preparation = name, round(t(range_of[, "gated"]), 3), all = round(t(range_of[, "all"]), 3),
      trees = length(trees), events = nrow(raw), gated = sum(gate != "Unlabeled")
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
  print(table, row.names = FALSE)
  cat("gmhclust", as.character(packageVersion("gmhclust")), "on", format(Sys.Date()), "\n")
  out <- given("out", NULL)
  if (!is.null(out)) write.csv(table, out, row.names = FALSE)
}

main(commandArgs(trailingOnly = TRUE))
