# plot_populations() by base graphics: one plot whose coordinates are inches, so that everything is
# where the plan says. Rows are populations in the order of the tree, from the top.

draw_populations_base <- function(content, colours, scale, main, call) {
  before <- graphics::par("mar")
  on.exit(graphics::par(mar = before))
  graphics::par(mar = c(0, 0, 0, 0))
  graphics::plot.new()
  size <- graphics::par("fin")
  plan <- plan_picture(content, scale, main, size, call)
  graphics::plot.window(c(0, size[1]), c(0, size[2]), xaxs = "i", yaxs = "i")
  order <- if (is.null(content$tree)) 1L else content$tree$order
  place <- panel_places(plan)
  draw_title(plan)
  draw_headings(plan, place)
  draw_side_tree(content$tree, place, plan)
  middle <- row_places(place, length(order))
  graphics::text(place$right[["rows"]], middle, plan$rows$text, adj = c(1, 0.5),
                 cex = text_cex(plan$rows$points))
  draw_cells(colours[order, , drop = FALSE], "medians", median_palette(100),
             range_of(colours, scale), place, plan$markers)
  draw_sizes(content$sizes, order, place, plan)
  if (!is.null(content$gates)) draw_shares(content$gates[order, , drop = FALSE], place, plan)
  if (!is.null(content$samples)) {
    draw_cells(content$samples[order, , drop = FALSE], "samples", share_palette(100),
               share_limits(content$samples), place, plan$samples)
  }
  draw_legends(content, colours, scale, place, plan)
  draw_note(plan)
  inform_of_notes(plan, call)
  NULL
}

# The left and right end of each panel, and the top and bottom of the rows. Unused width is on both
# sides.
panel_places <- function(plan) {
  panels <- c("tree", "rows", "medians", "members", "gates", "samples", "legend")
  width <- plan$width[panels]
  # The numbers of rows stand beside the heat map.
  gap <- ifelse(width > 0 & panels != "rows", panel_gap, 0)
  gap[length(gap)] <- 2 * panel_gap
  right <- cumsum(width + c(0, gap[-1]))
  free <- plan$size[1] - right[length(right)]
  top <- plan$size[2] - picture_margin - plan$title$height
  right <- right + free / 2
  list(
    left = right - width, right = right, above = top, top = top - plan$headings$height,
    bottom = top - plan$headings$height - plan$body
  )
}

# The middles of k rows from the top.
row_places <- function(place, k) place$top - (seq_len(k) - 0.5) * (place$top - place$bottom) / k

draw_title <- function(plan) {
  graphics::text(plan$size[1] / 2, plan$size[2] - picture_margin, plan$title$text, adj = c(0.5, 1),
                 font = 2, cex = text_cex(plan$title$points))
}

draw_headings <- function(plan, place) {
  panels <- names(plan$headings$text)
  graphics::text((place$left[panels] + place$right[panels]) / 2, place$top + 0.06,
                 plan$headings$text, adj = c(0.5, 0), cex = text_cex(plan$headings$points))
}

draw_note <- function(plan) {
  graphics::text(picture_margin, picture_margin, plan$note$text, adj = c(0, 0), col = "grey30",
                 cex = text_cex(plan$note$points))
}

# The tree from left to right, its leaves at the right.
draw_side_tree <- function(tree, place, plan) {
  if (is.null(tree)) return(invisible())
  tree <- drawn_tree(tree)
  k <- length(tree$order)
  left <- place$left[["tree"]]
  right <- place$right[["tree"]] - panel_gap / 2
  highest <- max(tree$height, .Machine$double.xmin)
  across <- function(height) right - (right - left) * height / highest
  middle <- numeric(k)
  middle[tree$order] <- row_places(place, k)
  lines <- branches(tree, middle, numeric(k))
  for (side in 1:2) {
    graphics::segments(across(lines$from[, side]), lines$at[, side], across(lines$height),
                       lines$at[, side])
  }
  graphics::segments(across(lines$height), lines$at[, 1], across(lines$height), lines$at[, 2])
  ticks <- pretty(c(0, highest), 2)
  draw_axis(left, right, across(ticks[ticks <= highest]), ticks[ticks <= highest], place, plan)
}

# An axis below the rows, from `left` to `right`. Numbers that would overlap an earlier number are
# left out.
draw_axis <- function(left, right, at, labels, place, plan) {
  points <- axis_points(plan$points)
  y <- place$bottom - 0.03
  graphics::segments(left, y, right, y)
  graphics::segments(at, y, at, y - 0.04)
  text <- format(labels, trim = TRUE, decimal.mark = ".")
  half <- text_widths(text, points) / 2
  # The first and the last number may exceed the ends of the axis by less than the gap.
  centre <- pmin(pmax(at, left + half - panel_gap / 2), right - half + panel_gap / 2)
  last <- c(Inf, -Inf)
  for (i in unique(c(1, length(at), seq_along(at)))) {
    is_free <- centre[i] + half[i] + 0.04 <= last[1] || centre[i] - half[i] - 0.04 >= last[2]
    if (!is_free) next
    graphics::text(centre[i], y - 0.05, text[i], adj = c(0.5, 1), cex = text_cex(points))
    last <- c(min(last[1], centre[i] - half[i]), max(last[2], centre[i] + half[i]))
  }
}

# A heat map of the matrix `values`, with the `names` of its columns below.
draw_cells <- function(values, panel, palette, limits, place, names) {
  k <- nrow(values)
  p <- ncol(values)
  width <- max(limits[2] - limits[1], .Machine$double.xmin)
  steps <- pmin(floor((values - limits[1]) / width * length(palette)), length(palette) - 1) + 1
  colours <- matrix(palette[steps], k, p)
  left <- place$left[[panel]]
  right <- place$right[[panel]]
  graphics::rasterImage(grDevices::as.raster(colours), left, place$bottom, right, place$top,
                        interpolate = FALSE)
  pitch <- (right - left) / p
  # Lines between cells, if the cells are large enough.
  at <- left + pitch * seq_len(p - 1)
  if (p > 1 && is_lined(pitch)) graphics::segments(at, place$bottom, at, place$top, col = "white")
  high <- (place$top - place$bottom) / k
  at <- place$bottom + high * seq_len(k - 1)
  if (k > 1 && is_lined(high)) graphics::segments(left, at, right, at, col = "white")
  draw_upright(left + pitch * (seq_len(p) - 0.5), place$bottom - 0.06, names)
}

# Whether cells of this width or height (inches) are separated by lines: 5 pixels or more.
is_lined <- function(cell) cell >= 5 / pixels_an_inch()

# Names that end at y.
draw_upright <- function(x, y, names) {
  graphics::text(x, y, names$text, srt = 90, adj = c(1, 0.5), cex = text_cex(names$points))
}

draw_sizes <- function(sizes, order, place, plan) {
  y <- row_places(place, length(sizes))
  half <- 0.4 * (place$top - place$bottom) / length(sizes)
  left <- place$left[["members"]]
  text <- shown_count(sizes[order])
  room <- place$right[["members"]] - left
  if (plan$members > 0) room <- room - 0.08 - max(text_widths(text, plan$members))
  right <- left + room * sizes[order] / max(sizes)
  graphics::rect(left, y - half, right, y + half, border = NA,
                 col = population_colours(length(sizes))[order])
  if (plan$members > 0) {
    graphics::text(right + 0.05, y, text, adj = c(0, 0.5), cex = text_cex(plan$members))
  }
}

# A bar of shares for each population.
draw_shares <- function(shares, place, plan) {
  left <- place$left[["gates"]]
  right <- place$right[["gates"]]
  y <- row_places(place, nrow(shares))
  half <- 0.4 * (place$top - place$bottom) / nrow(shares)
  ends <- left + (right - left) * t(apply(cbind(0, shares), 1, cumsum))
  colours <- gate_colours(ncol(shares))
  for (gate in seq_len(ncol(shares))) {
    graphics::rect(ends[, gate], y - half, ends[, gate + 1], y + half, col = colours[gate],
                   border = NA)
  }
  draw_axis(left, right, left + (right - left) * c(0, 0.5, 1), c(0, 0.5, 1), place, plan)
}

draw_legends <- function(content, colours, scale, place, plan) {
  y <- draw_scale(place$above, median_palette(100), range_of(colours, scale),
                  if (scale) "scaled median" else "median", place, plan)
  if (!is.null(content$samples)) {
    y <- draw_scale(y, share_palette(100), share_limits(content$samples), "share of sample",
                    place, plan)
  }
  keys <- plan$keys
  if (is.null(keys)) return(invisible())
  left <- place$left[["legend"]]
  graphics::text(left, y, "gate", adj = c(0, 1), font = 2, cex = text_cex(plan$legend_points))
  top <- y - line_height(plan$legend_points) - c(0, cumsum(keys$heights))
  middle <- (top[-1] + top[-length(top)]) / 2
  side <- text_height(keys$points)
  graphics::rect(left, middle - side / 2, left + side, middle + side / 2, border = NA,
                 col = gate_colours(ncol(content$gates))[seq_along(middle)])
  x <- left + key_width(keys$points)
  cex <- text_cex(keys$points)
  graphics::text(x, middle, keys$text, adj = c(0, 0.5), cex = cex)
  if (keys$left_out > 0) {
    graphics::text(x, top[length(top)], paste(keys$left_out, "more"), adj = c(0, 1), cex = cex)
  }
}

# A colour scale with its title and ends; returns the y coordinate below it.
draw_scale <- function(top, palette, limits, title, place, plan) {
  points <- plan$legend_points
  left <- place$left[["legend"]]
  right <- left + scale_length(plan)
  graphics::text(left, top, title, adj = c(0, 1), font = 2, cex = text_cex(points))
  bar <- top - line_height(points) - 0.02 - c(0, scale_height)
  graphics::rasterImage(grDevices::as.raster(matrix(palette, 1)), left, bar[2], right, bar[1],
                        interpolate = FALSE)
  ends <- scale_ends(limits)
  graphics::text(left, bar[2] - 0.04, ends[1], adj = c(0, 1), cex = text_cex(points))
  graphics::text(right, bar[2] - 0.04, ends[2], adj = c(1, 1), cex = text_cex(points))
  top - scale_block(points)
}

# The ends of a colour scale as text.
scale_ends <- function(limits) {
  vapply(signif(limits, 2), format, "", digits = 2, decimal.mark = ".")
}
