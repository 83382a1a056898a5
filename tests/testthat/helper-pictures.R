# Pictures of plot_populations() at given sizes.

has_complex_heatmap <- function() {
  requireNamespace("ComplexHeatmap", quietly = TRUE) && requireNamespace("circlize", quietly = TRUE)
}

# k populations of observations of p markers, in so many samples and gates; 0 for none. `names` are
# "long", "unicode" or "empty".
picture_case <- function(k, p, samples, gates, names = "long") {
  set.seed(1)
  n <- 10 * k + 60
  of <- rep_len(seq_len(k), n)
  centres <- matrix(stats::runif(k * p, 0, 5), k)
  values <- centres[of, ] + stats::rnorm(n * p, sd = 0.1)
  dyes <- c("PerCP-eFluor710", "BV421", "APC-Fire750", "AlexaFluor647")
  markers <- paste0("CD", seq_len(p) + 2, "_", rep_len(dyes, p))
  if (names == "unicode") markers <- paste0(markers, " \u00b5m \u03b2")
  if (names == "empty") markers[c(1, 3)] <- ""
  colnames(values) <- markers
  shown <- c("B memory IgD- CD27+", "Monocytes classical CD14++CD16-", "Treg CD25hi CD127lo FoxP3+")
  shown <- paste(rep_len(shown, gates), seq_len(gates))
  list(
    h = stats::hclust(stats::dist(values), "average"), x = values, population = of,
    gates = if (gates > 0) shown[(of + seq_len(n) %% 3) %% gates + 1],
    samples = if (samples > 0) paste0("patient", rep_len(seq_len(samples), n), "_week4_PBMC")
  )
}

draw_case <- function(case, engine) {
  plot_populations(case$h, case$x, case$population, gates = case$gates, samples = case$samples,
                   engine = engine)
}

# The plan of the picture of a case, on the current device.
plan_of <- function(case, size) {
  k <- max(case$population)
  shown <- shown_populations(case$h, case$population, "populations", NULL)
  groups <- function(labels, margin) {
    labels <- check_groups(labels, nrow(case$x), "labels", NULL)
    shares(case$population, labels, shown$names, margin)
  }
  content <- list(
    tree = population_tree(case$h, shown, "populations", NULL),
    medians = population_medians(case$x, case$population, shown$names),
    sizes = tabulate(case$population, k),
    gates = groups(case$gates, 1), samples = groups(case$samples, 2)
  )
  plan_picture(content, TRUE, "populations", size, NULL)
}

# Skips a test if R cannot draw with this device by cairo: R may be built with cairo, but its
# library missing.
skip_without_cairo <- function(device = grDevices::bmp) {
  file <- tempfile()
  on.exit(unlink(file))
  opens <- tryCatch({
    device(file, type = "cairo")
    grDevices::dev.off()
    TRUE
  }, warning = function(w) FALSE, error = function(e) FALSE)
  skip_if_not(opens, "pictures by cairo")
}

# Draws, and returns the number of pixels within two of an edge that have another colour than the
# corner. A bmp file has its pixels in plain bytes.
edge_ink <- function(size, res, code) {
  file <- tempfile(fileext = ".bmp")
  on.exit(unlink(file))
  grDevices::bmp(file, size[1], size[2], res = res, type = "cairo")
  device <- grDevices::dev.cur()
  tryCatch(suppressMessages(code), finally = grDevices::dev.off(device))
  bytes <- readBin(file, "raw", file.size(file))
  number <- function(at) readBin(bytes[at + 1:4], "integer", size = 4, endian = "little")
  depth <- as.integer(bytes[29]) / 8
  # Columns are rows of the picture, which may end with bytes for alignment.
  rows <- matrix(bytes[-seq_len(number(10))], ncol = size[2])[seq_len(size[1] * depth), ]
  count <- function(edge) {
    pixels <- matrix(edge, depth)
    sum(colSums(pixels != rows[seq_len(depth), 1]) > 0)
  }
  beside <- c(seq_len(2 * depth), nrow(rows) + 1 - seq_len(2 * depth))
  count(rows[, c(1:2, size[2] - 1:0)]) + count(rows[sort(beside), 3:(size[2] - 2)])
}
