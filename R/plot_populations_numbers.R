#' Plot the nested populations for each number k
#'
#' Shows the first splits of a tree, from its top, to choose the number of populations `k` for
#' [cut_populations()]. The upper part has a column of nested populations for each `k`; the lower
#' part shows the valley depth of each split.
#'
#' @param x The result of [cut_populations()].
#' @param most The greatest number of populations to show.
#' @param ... Graphical parameters, and `main`, `xlab` and `ylab`, for the upper part.
#'
#' @details
#' In column `k`, a rectangle is a population of `cut_populations(tree, k)`. Its height is its share
#' of all members; members in no population are grey. A rectangle keeps its position for greater
#' `k`, so the populations into which it is divided are drawn within it. A rectangle has the colour
#' of the population of `x` that contains it, also if this population consists of several clusters.
#' A rectangle that contains several populations of `x` is white.
#'
#' The point below column `k` is the valley depth of the split that leads from `k` - 1 to `k`
#' populations: 0 is a gap, 1 is no valley. A point below the line at 0.3 is a split that, as a
#' rule, separates two populations by itself. A deep valley at a large `k` means that a clear
#' population appears at this `k`, even if earlier splits have no valley. Points are missing if the
#' populations were found without observations.
#'
#' @return `x`, invisibly.
#' @section Errors:
#' A condition of class `gmhclust_error_input` if `x` was not found in a tree (predicted populations
#' are not), or if `most` is invalid.
#' @seealso [plot_populations()] for the medians of populations; [plot_tree()].
#' @examples
#' x <- as.matrix(lymphocytes()[seq(1, 20000, by = 10), 1:14])
#' tree <- gmhclust(x, threshold = 50)
#' plot(cut_populations(tree, x = x), most = 20)
#' @export
plot.populations <- function(x, most = 30, ...) {
  call <- match.call()
  check_populations(x, "x", call)
  splits <- attr(x, "splits")
  is_sound <- is.data.frame(splits) && is.numeric(splits$cluster) && is.numeric(splits$first) &&
    is.numeric(splits$second) && length(attr(x, "clusters")) == 2 * nrow(splits) + 1
  if (!is_sound) {
    refuse("x", "has no splits of a tree", "it must be the value of cut_populations()", call)
  }
  most <- check_count(most, .Machine$integer.max, "most", call)
  check_no_limits(call, ...)
  bands <- nested_bands(x, min(most, nrow(splits) + 1L))
  # par(mfrow = ) also ends the layout. It changes `cex`, so that comes after it.
  before <- graphics::par("mfrow", "cex", "mar")
  on.exit(graphics::par(before))
  graphics::layout(matrix(1:2), heights = c(3, 1.3))
  # In lines of text.
  margin <- 1.1 + 0.8 * max(graphics::strwidth(bands$names, "inches")) / graphics::par("csi")
  draw_bands(bands, margin, ...)
  draw_valleys(splits$valley[seq_len(bands$count - 1L)], bands$count, attr(x, "k"), margin)
  invisible(x)
}

# Stops if the user gives limits of the axes.
check_no_limits <- function(call, ...) {
  given <- intersect(c("xlim", "ylim"), ...names())
  if (length(given) == 0) return(invisible())
  needs <- if (given[1] == "xlim") {
    "the columns are 1 to `most` populations: choose `most`"
  } else {
    "shares of members are shown from 0 to 1"
  }
  refuse(given[1], "is given", needs, call)
}

# The rectangles of plot.populations(), for 1 to `count` populations. For each rectangle: the first
# and the last number of populations that has it, `from` and `to`; its share of all members, from
# `low` to `high`; and the number of its `population` in x, 0 if it contains several populations.
nested_bands <- function(x, count) {
  splits <- attr(x, "splits")[seq_len(count - 1L), ]
  clusters <- 2L * count - 1L
  total <- sum(attr(x, "sizes")) + attr(x, "rest")
  low <- numeric(clusters)
  high <- c(1, numeric(clusters - 1L))
  from <- rep(1L, clusters)
  to <- rep(count, clusters)
  population <- attr(x, "clusters")[seq_len(clusters)]
  for (s in seq_len(count - 1L)) {
    cluster <- splits$cluster[s]
    parts <- 2L * s + 0:1
    sizes <- c(splits$first[s], splits$second[s]) / total
    low[parts] <- low[cluster] + c(0, sizes[1])
    high[parts] <- low[parts] + sizes
    to[cluster] <- s
    from[parts] <- s + 1L
    # Rectangles within a population.
    if (population[cluster] > 0L) population[parts] <- population[cluster]
  }
  list(
    count = count, rectangles = data.frame(from, to, low, high, population), k = attr(x, "k"),
    names = shortened(attr(x, "levels"), 20)
  )
}

draw_bands <- function(bands, margin, main = "Populations by their number", xlab = "",
                       ylab = "share of members", ...) {
  graphics::par(mar = c(2.1, 4.1, 2.6, margin))
  graphics::plot.new()
  graphics::plot.window(c(0.5, bands$count + 0.5), c(0, 1), xaxs = "i", yaxs = "i", ...)
  graphics::rect(0.5, 0, bands$count + 0.5, 1, col = "grey85", border = NA)
  colours <- c("white", population_colours(bands$k))
  with(bands$rectangles, graphics::rect(
    from - 0.5, low, to + 0.5, high, col = colours[population + 1L], border = "grey30", lwd = 0.5
  ))
  graphics::axis(2, at = seq(0, 1, 0.25), labels = paste0(seq(0, 100, 25), "%"), las = 1)
  graphics::axis(1, at = pretty_numbers(bands$count))
  name_bands(bands)
  graphics::title(main = main, xlab = xlab, ylab = ylab, ...)
}

# The names of the populations at the right end, each beside its largest rectangle there.
name_bands <- function(bands) {
  last <- bands$rectangles[bands$rectangles$to == bands$count, ]
  last <- last[last$population > 0L, ]
  if (nrow(last) == 0) return(invisible())
  last <- last[order(last$low - last$high), ]
  last <- last[!duplicated(last$population), ]
  middle <- (last$low + last$high) / 2
  last <- last[order(middle), ]
  at <- spread(sort(middle), rep(1.2 * graphics::strheight("0"), nrow(last)), 1)
  graphics::text(bands$count + 0.5, at, bands$names[last$population], pos = 4, offset = 0.25,
                 xpd = NA, cex = 0.8)
}

draw_valleys <- function(valley, count, k, margin) {
  graphics::par(mar = c(4.1, 4.1, 0.6, margin))
  graphics::plot.new()
  graphics::plot.window(c(0.5, count + 0.5), c(0, 1), xaxs = "i")
  graphics::abline(h = clear_valley, lty = 3)
  mark_number(k, count)
  at <- seq_along(valley) + 1
  if (length(at) > 0) graphics::segments(at, 1, at, valley, col = "grey70")
  graphics::points(at, valley, pch = 19, cex = 0.7, xpd = NA)
  graphics::axis(1, at = pretty_numbers(count))
  graphics::axis(2, at = c(0, clear_valley, 1), las = 1)
  graphics::title(xlab = "number of populations, k", ylab = "valley")
}

# The valley depth below which two clusters are separate: MAX_BALANCED_DEPTH in src/rust.
clear_valley <- 0.3

pretty_numbers <- function(count) unique(pmax(round(pretty(c(1, count), min(count, 10))), 1))

# Marks the number of populations of x by a triangle. The column above need not show exactly these
# populations, for example if a population consists of several clusters.
mark_number <- function(k, count) {
  if (k <= count) graphics::points(k, graphics::par("usr")[3], pch = 17, xpd = NA, cex = 1.2)
}
