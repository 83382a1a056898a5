# plot_populations() by base graphics: panels side by side, whose rows are populations in the order
# of the tree, from the top.

draw_populations_base <- function(content, colours, scale, main) {
  before <- graphics::par(no.readonly = TRUE)
  on.exit(graphics::par(before))
  k <- length(content$sizes)
  rows <- if (is.null(content$tree)) 1L else content$tree$order
  names <- c(colnames(colours), colnames(content$gates), colnames(content$samples))
  # Room for the names of columns, which stand upright, in lines of margin.
  bottom <- 1.5 + max(graphics::strwidth(names, "inches"), 0) / graphics::par("csi")
  margins <- function(left, right) graphics::par(mar = c(bottom, left, 4, right))
  panels <- c(
    tree = 1.1, medians = 0.4 + 0.28 * ncol(colours), sizes = 1.3,
    if (!is.null(content$gates)) c(gates = 1.8),
    if (!is.null(content$samples)) c(samples = 0.4 + 0.16 * ncol(content$samples)),
    legend = 1 + max(graphics::strwidth(c("share", colnames(content$gates)), "inches"))
  )
  graphics::layout(matrix(seq_along(panels), 1), widths = panels)
  graphics::par(oma = c(0, 0, 2, 0), cex = 0.8)
  margins(0.5, 0.2)
  draw_side_tree(content$tree, k)
  margins(2.2, 0.4)
  draw_cells(colours, rows, median_palette(100), range_of(colours, scale), "medians")
  graphics::axis(2, at = seq_len(k), labels = rev(rows), las = 1, tick = FALSE, line = -0.6)
  margins(0.3, 0.6)
  draw_sizes(content$sizes, rows)
  if (!is.null(content$gates)) draw_shares(content$gates, rows)
  if (!is.null(content$samples)) {
    draw_cells(content$samples, rows, share_palette(100), range_of(content$samples, FALSE),
               "samples")
  }
  margins(0.5, 0.5)
  draw_legends(content, colours, scale)
  graphics::mtext(main, outer = TRUE, font = 2)
}

# An empty panel for k rows, with a title above.
row_panel <- function(k, from, to, title) {
  graphics::plot.new()
  graphics::plot.window(c(from, to), c(0.5, k + 0.5), xaxs = "i", yaxs = "i")
  graphics::mtext(title, line = 0.5, cex = 0.8)
}

# The tree from left to right, its leaves at the right.
draw_side_tree <- function(tree, k) {
  if (is.null(tree)) return(row_panel(1, 0, 1, ""))
  tree <- drawn_tree(tree)
  row_panel(k, max(tree$height) * 1.03, 0, "")
  place <- numeric(k)
  place[tree$order] <- rev(seq_len(k))
  lines <- branches(tree, place, numeric(k))
  for (side in 1:2) {
    graphics::segments(lines$from[, side], lines$at[, side], lines$height, lines$at[, side])
  }
  graphics::segments(lines$height, lines$at[, 1], lines$height, lines$at[, 2])
  # Below the tree, as names of columns are below the heat map.
  graphics::axis(1, at = pretty(c(0, max(tree$height)), 3))
}

# A heat map of the matrix `values`.
draw_cells <- function(values, rows, palette, limits, title) {
  k <- nrow(values)
  p <- ncol(values)
  row_panel(k, 0.5, p + 0.5, title)
  width <- max(limits[2] - limits[1], .Machine$double.xmin)
  steps <- pmin(floor((values[rev(rows), , drop = FALSE] - limits[1]) / width * length(palette)),
                length(palette) - 1) + 1
  x <- as.vector(col(steps))
  y <- as.vector(row(steps))
  graphics::rect(x - 0.5, y - 0.5, x + 0.5, y + 0.5, col = palette[steps], border = "white")
  graphics::axis(1, at = seq_len(p), labels = colnames(values), las = 2, tick = FALSE, line = -0.6)
}

draw_sizes <- function(sizes, rows) {
  k <- length(sizes)
  row_panel(k, 0, max(sizes) * 1.6, "members")
  y <- rev(seq_len(k))
  graphics::rect(0, y - 0.4, sizes[rows], y + 0.4, col = population_colours(k)[rows], border = NA)
  graphics::text(sizes[rows], y, shown_count(sizes[rows]), pos = 4, offset = 0.3, xpd = NA)
}

# A bar of shares for each population.
draw_shares <- function(shares, rows) {
  k <- nrow(shares)
  row_panel(k, 0, 1, "share of gates")
  ends <- t(apply(cbind(0, shares), 1, cumsum))
  colours <- gate_colours(ncol(shares))
  y <- rev(seq_len(k))
  for (gate in seq_len(ncol(shares))) {
    graphics::rect(ends[rows, gate], y - 0.4, ends[rows, gate + 1], y + 0.4,
                   col = colours[gate], border = NA)
  }
  graphics::axis(1, at = c(0, 0.5, 1))
}

draw_legends <- function(content, colours, scale) {
  graphics::plot.new()
  graphics::plot.window(c(0, 1), c(0, 1), xaxs = "i", yaxs = "i")
  title <- if (scale) "scaled median" else "median"
  y <- draw_scale(1, median_palette(100), range_of(colours, scale), title)
  if (!is.null(content$samples)) {
    y <- draw_scale(y, share_palette(100), range_of(content$samples, FALSE), "share of sample")
  }
  if (!is.null(content$gates)) {
    gates <- colnames(content$gates)
    graphics::legend(0, y, gates, fill = gate_colours(length(gates)), border = NA, bty = "n",
                     title = "gate", title.adj = 0, xpd = NA, xjust = 0, x.intersp = 0.6)
  }
}

# A colour scale with its title and ends; returns the place below it.
draw_scale <- function(top, palette, limits, title) {
  line <- graphics::strheight("M") * 1.6
  graphics::text(0, top, title, adj = c(0, 1), xpd = NA)
  left <- seq(0.02, 0.85, length.out = length(palette) + 1)
  graphics::rect(left[-length(left)], top - 2 * line, left[-1], top - 1.1 * line, col = palette,
                 border = NA)
  graphics::text(c(0.02, 0.85), top - 2.2 * line, signif(limits, 2), adj = c(0.2, 1), xpd = NA)
  top - 4 * line
}
