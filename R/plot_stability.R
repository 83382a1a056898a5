#' Plot the stability of populations or branches
#'
#' Draws a point for each population at its mean agreement with the draws of [stability()], and a
#' line from the first to the ninth decile of its agreements. Dotted lines are Hennig's limits: from
#' 0.6 a pattern, from 0.75 stable, from 0.85 highly stable. Without populations, it draws a point
#' for each branch, by its number of members.
#'
#' @param x The result of [stability()].
#' @param main,xlab,ylab The title and the labels of the axes.
#' @param ... Graphical parameters.
#' @return `x`, invisibly.
#' @section Errors:
#' A condition of class `gmhclust_error_input` if `x` is not the result of [stability()].
#' @examples
#' x <- as.matrix(lymphocytes()[seq(1, 20000, by = 20), 1:14])
#' tree <- gmhclust(x, threshold = 50)
#' plot(stability(tree, x, times = 10, populations = 5))
#' @export
plot.stability <- function(x, main = NULL, xlab = NULL, ylab = NULL, ...) {
  check_stability(x, match.call())
  if (is.null(main)) {
    main <- paste0("Stability in ", shown_count(x$times), ngettext(x$times, " draw", " draws"))
  }
  if (is.null(x$populations)) {
    draw_branch_stability(x$branches, main, xlab, ylab, ...)
  } else {
    draw_population_stability(x, main, xlab, ylab, ...)
  }
  invisible(x)
}

draw_population_stability <- function(x, main, xlab, ylab, ...) {
  table <- x$populations
  names <- shown_names(table$population, seq_along(table$population))
  place <- rev(seq_along(names))
  colours <- population_colours(length(names))
  before <- graphics::par("mar")
  on.exit(graphics::par(mar = before))
  # In lines of text.
  margin <- 1.5 + max(graphics::strwidth(names, "inches")) / graphics::par("csi")
  graphics::par(mar = replace(before, 2, max(margin, before[2])))
  deciles <- apply(x$agreement$populations, 1, stats::quantile, c(0.1, 0.9), na.rm = TRUE)
  graphics::plot(
    table$mean, place, xlim = c(0, 1), ylim = c(0.5, length(names) + 0.5), yaxt = "n", pch = 19,
    col = colours, main = main, xlab = if (is.null(xlab)) "agreement (Jaccard)" else xlab,
    ylab = if (is.null(ylab)) "" else ylab,
    panel.first = graphics::abline(v = stability_limits[-1], lty = 3, col = "grey50"), ...
  )
  graphics::segments(deciles[1, ], place, deciles[2, ], place, col = colours, lwd = 2)
  graphics::axis(2, place, names, las = 1, tick = FALSE)
}

draw_branch_stability <- function(branches, main, xlab, ylab, ...) {
  if (nrow(branches) == 0) branches <- data.frame(members = 1, mean = NA_real_)
  graphics::plot(
    branches$members, branches$mean, log = "x", ylim = c(0, 1), pch = 19, main = main,
    xlab = if (is.null(xlab)) "members of the branch" else xlab,
    ylab = if (is.null(ylab)) "mean agreement (Jaccard)" else ylab,
    panel.first = graphics::abline(h = stability_limits[-1], lty = 3, col = "grey50"), ...
  )
}
