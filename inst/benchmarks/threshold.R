# Usage: Rscript threshold.R [--quick] [--rows=ROW,...] [--repeats=N] [--threads=N] [--out=FILE.csv]
#
# Measures how well gmhclust() finds known populations at different thresholds. Requires R and the
# package. Each tree is cut into the true number of populations by cut_populations(), and compared
# with the truth by the adjusted Rand index (ARI; 1 is perfect, 0 is chance). Rows:
#   ellipses     two parallel ellipses, 2 x 1,000 points of standard deviation 10 x 0.5, at a gap of
#                3 to 8; both distances
#   panel3 panel6 panel14 panel30
#                8 elliptical populations and 2% outliers in 3, 6, 14 and 30 markers: 5,000 cells,
#                the smallest population has 50 or 200; 20,000, the smallest has 2,000 (not with 30)
#   tails        the same with 14 markers and heavy tails (t distribution, 4 degrees of freedom)
#   small        4 populations in 6 and 14 markers, 100, 200 and 500 cells, the smallest has a tenth
#   apriori      20,000 cells of 6, 14 and 30 markers, and 50,000 of 14, above 1,000 apriori
#                clusters
#   lymphocytes  the package's cells against simple gates, see vignette("gmhclust"): all 14 markers
#                and 6 of lineage; every 4th cell, and all cells above 1,000 apriori clusters
#
# Columns: ari, of the cells in populations (cells that the cut leaves out are one more cluster);
# ari_all, with the outliers as one more population; smallest, the F1 score of the smallest
# population: means over the repeats. lowest and highest are those of ari. loss: the highest ari of
# all thresholds on these data minus this one. Thresholds within 5% of one that was tried are left
# out.
#
# All rows run by default, on 3 data sets each (small on 15), with seeds 1, 2, and so on. --quick
# leaves out the largest data and runs 1 data set. Prints a table; writes it as CSV, too, with
# --out.

library(gmhclust)
script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])
for (part in c("common.R", "agreement.R")) source(file.path(dirname(script), part))

# ---- data ---------------------------------------------------------------------------------------

# Each data set is list(x = matrix, truth = integer vector, 0 for outliers).

ellipses <- function(gap, seed) {
  set.seed(seed)
  truth <- rep(1:2, each = 1000)
  list(x = cbind(rnorm(2000, sd = 10), rnorm(2000, sd = 0.5) + gap * truth), truth = truth)
}

# Centres lie farther apart in few markers than in many, so that no size is trivial.
centre_deviation <- c("3" = 5, "6" = 3, "14" = 1.5, "30" = 1)

# The sizes of k populations of at least `smallest` members: one of this size, one of each other
# weight from 1 to 20.
population_sizes <- function(members, k, smallest) {
  weights <- exp(runif(k - 1, 0, log(20)))
  free <- members - k * smallest
  sizes <- smallest + c(0, floor(free * weights / sum(weights)))
  sizes[k] <- sizes[k] + members - sum(sizes)
  sizes
}

# Elliptical populations of different centres, orientations and axes, and outliers: a share of all
# observations, uniform in a box 10% wider than the data on either side. `tails`: the degrees of
# freedom of a t distribution.
panel <- function(n, p, smallest, seed, k = 8, outliers = 0.02, tails = Inf) {
  set.seed(seed)
  extra <- round(outliers * n)
  truth <- rep(seq_len(k), population_sizes(n - extra, k, smallest))
  deviation <- centre_deviation[[as.character(p)]]
  x <- matrix(0, n - extra, p)
  for (members in split(seq_along(truth), truth)) {
    m <- length(members)
    rotation <- qr.Q(qr(matrix(rnorm(p * p), p)))
    points <- matrix(rnorm(m * p), m) %*% (exp(rnorm(p, sd = 0.8)) * t(rotation))
    if (is.finite(tails)) points <- points / sqrt(rchisq(m, tails) / tails)
    x[members, ] <- rep(rnorm(p, sd = deviation), each = m) + points
  }
  from <- apply(x, 2, quantile, 0.001)
  width <- apply(x, 2, quantile, 0.999) - from
  noise <- t(from + width * (1.2 * matrix(runif(extra * p), p) - 0.1))
  list(x = rbind(x, noise), truth = c(truth, rep(0, extra)))
}

gates <- function(cells) {
  with(cells, ifelse(
    CD3 > 50,
    ifelse(TCRgd > 50, 1L,
      ifelse(CD4 > 60 & CD8 < 50, 2L,
        ifelse(CD8 > 50 & CD4 < 50, 3L, 4L))),
    ifelse(CD56 > 45 | CD16 > 60, 5L, 6L)
  ))
}

gated_cells <- function(markers, by, seed) {
  cells <- lymphocytes()
  cells <- cells[seq(1 + (seed - 1) %% by, nrow(cells), by = by), ]
  list(x = as.matrix(cells[markers]), truth = gates(cells))
}

# ---- measuring ----------------------------------------------------------------------------------

# Populations of h: as many as there are in truth, or as many as the tree has if these are fewer.
found_populations <- function(h, k, least) at_most(k, function(k) cut_populations(h, k, least))

# The harmonic mean of precision and recall, of the cluster in which it is highest.
best_f1 <- function(found, is_member) {
  hits <- tabulate(found[is_member], max(found))
  max(2 * hits / (tabulate(found, max(found)) + sum(is_member)))
}

scores <- function(h, truth) {
  sizes <- tabulate(truth)
  found <- found_populations(h, length(sizes), max(5, min(sizes) / 2))
  inside <- truth > 0
  c(ari = adjusted_rand(found[inside], truth[inside]), ari_all = adjusted_rand(found, truth),
    smallest = best_f1(found, truth == which.min(sizes)))
}

# The thresholds to try, named as in the table: those above p, up to n / 2, and none within 5% of
# one before it.
thresholds <- function(n, p) {
  multiples <- c(2, 3, 5, 10, 20, 50)
  shares <- c(0.005, 0.01, 0.1, 0.5)
  counts <- c(30, 50, 100, 200)
  tried <- structure(
    c(gmhclust:::default_threshold(n, p), p + 1, multiples * p, shares * n, counts),
    names = c("default", "p + 1", paste0(multiples, "p"), paste0(100 * shares, "% of n"), counts)
  )
  tried <- tried[tried > p & tried <= n / 2]
  again <- vapply(seq_along(tried), function(i) {
    any(abs(log(tried[i] / tried[seq_len(i - 1)])) < 0.05)
  }, NA)
  tried[!again]
}

# A line for each threshold, on `repeats` data sets of make(seed).
study <- function(row, data, make, options, repeats = options$repeats, apriori = NULL,
                  distance = "full") {
  sets <- lapply(seq_len(repeats), make)
  # The same apriori clusters for all thresholds.
  labels <- lapply(seq_along(sets), function(i) {
    if (is.null(apriori)) return(NULL)
    set.seed(i)
    gkmeans(sets[[i]]$x, apriori, 10, threads = options$threads, progress = FALSE)$cluster
  })
  n <- nrow(sets[[1]]$x)
  p <- ncol(sets[[1]]$x)
  tried <- thresholds(n, p)
  lines <- lapply(names(tried), function(name) {
    measured <- vapply(seq_along(sets), function(i) {
      h <- gmhclust(sets[[i]]$x, tried[[name]], labels[[i]], distance = distance, warn = FALSE,
                    threads = options$threads, progress = FALSE)
      scores(h, sets[[i]]$truth)
    }, numeric(3))
    data.frame(
      row, data, call = paste0(distance, ", threshold ", name), n, p,
      apriori = if (is.null(apriori)) 0 else apriori, distance, threshold = name,
      members = tried[[name]], t(round(rowMeans(measured), 3)),
      lowest = round(min(measured["ari", ]), 3), highest = round(max(measured["ari", ]), 3), repeats
    )
  })
  lines <- do.call(rbind, lines)
  lines$loss <- max(lines$ari) - lines$ari
  lines
}

# The mean and the highest loss of every threshold that all data of at least 2,000 observations had.
losses <- function(measured) {
  large <- measured[measured$n >= 2000, ]
  sets <- unique(large[c("row", "data", "distance")])
  common <- names(which(table(large$threshold) == nrow(sets)))
  loss <- split(large$loss, factor(large$threshold, unique(large$threshold)))[common]
  shown <- rbind(mean = vapply(loss, mean, 0), highest = vapply(loss, max, 0))
  shown[, order(match(common, large$threshold)), drop = FALSE]
}

panel_study <- function(row, n, p, smallest, options, ..., k = 8, tails = Inf) {
  data <- sprintf("%s x %d, smallest %s", counted(n), p, counted(smallest))
  study(row, data, function(seed) panel(n, p, smallest, seed, k, tails = tails), options, ...)
}

# ---- the rows -----------------------------------------------------------------------------------

# Panels of p markers; the largest with centroid distances, which save time.
panel_row <- function(p) {
  force(p)
  function(row, options) {
    small <- rbind(panel_study(row, 5000, p, 50, options), panel_study(row, 5000, p, 200, options))
    if (options$quick || p == 30) return(small)
    rbind(small, panel_study(row, 20000, p, 2000, options, distance = "centroid"))
  }
}

lineage <- c("CD3", "CD4", "CD8", "TCRgd", "CD56", "CD16")

rows <- list(
  ellipses = function(row, options) {
    cases <- expand.grid(gap = c(3, 4, 5, 6, 8), distance = c("full", "centroid"))
    do.call(rbind, Map(function(gap, distance) {
      study(row, paste("ellipses, gap", gap), function(seed) ellipses(gap, seed), options,
            distance = distance)
    }, cases$gap, as.character(cases$distance)))
  },
  panel3 = panel_row(3),
  panel6 = panel_row(6),
  panel14 = panel_row(14),
  panel30 = panel_row(30),
  tails = function(row, options) panel_study(row, 5000, 14, 200, options, tails = 4),
  small = function(row, options) {
    cases <- expand.grid(n = c(100, 200, 500), p = c(6, 14))
    do.call(rbind, Map(function(n, p) {
      panel_study(row, n, p, n / 10, options, repeats = 5 * options$repeats, k = 4)
    }, cases$n, cases$p))
  },
  apriori = function(row, options) {
    study_of <- function(n, p, smallest) panel_study(row, n, p, smallest, options, apriori = 1000)
    small <- do.call(rbind, lapply(c(6, 14, 30), function(p) study_of(20000, p, 200)))
    if (options$quick) return(small)
    rbind(small, study_of(50000, 14, 2000))
  },
  lymphocytes = function(row, options) {
    all <- names(lymphocytes())[1:14]
    cells <- function(data, markers, by, apriori) {
      study(row, data, function(seed) gated_cells(markers, by, seed), options, apriori = apriori)
    }
    rbind(
      cells("lymphocytes, 14 markers", all, 4, NULL),
      cells("lymphocytes, 6 markers", lineage, 4, NULL),
      cells("all lymphocytes, 14 markers", all, 1, 1000),
      cells("all lymphocytes, 6 markers", lineage, 1, 1000)
    )
  }
)

arguments <- commandArgs(trailingOnly = TRUE)
quick <- "--quick" %in% arguments
settings <- parse_options(setdiff(arguments, "--quick"), names(rows))
if (settings$gpu) stop("the result does not depend on the device", call. = FALSE)
settings$quick <- quick
if (quick && !any(startsWith(arguments, "--repeats="))) settings$repeats <- 1

machine <- machine_columns(settings)
print_machine(machine)
measured <- NULL
for (row in settings$rows) {
  table <- rows[[row]](row, settings)
  print_rows(table, c("row", "call", "n", "p"))
  measured <- rbind(measured, table)
  write_results(measured, machine, settings)
}
cat("\nari, ari_all, smallest: means over the repeats; lowest, highest: of ari\n")
if (any(measured$n >= 2000)) {
  cat("\nloss over all data of at least 2,000 observations:\n")
  print(round(losses(measured), 3))
}
