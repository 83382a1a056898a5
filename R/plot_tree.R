#' Plot a tree of any size, with its populations
#'
#' Draws the top of a large tree, or a tree with its populations. The width of a leaf is
#' proportional to its number of members. The branches of each population have its colour, and its
#' name or number is below them. A small tree without populations is drawn by the `plot()` method of
#' [stats::hclust()], if it has at least three leaves.
#'
#' @param tree A tree of class [`hclust`][stats::hclust]: from [gmhclust()], [ghclust()],
#'   [cutree_top()], [cutree_apriori()] or another package.
#' @param ... Arguments of the plot method of [stats::hclust()]: `labels`, `hang`, `check`, `axes`,
#'   `frame.plot`, `ann`, `main`, `sub`, `xlab`, `ylab`, and graphical parameters. When the top is
#'   drawn, `labels = FALSE` leaves out the names of the populations, and `hang` and `check` have
#'   no effect.
#' @param populations The populations to show: a result of [cut_populations()], or other cluster
#'   numbers of the leaves, for example from [gcutree()]; a single number `k` means
#'   `cut_populations(tree, k)`. `NULL` means `cut_populations(tree)` if the top is drawn, and no
#'   populations for a small tree. `FALSE` shows none.
#' @param leaves The number of leaves to draw. `NULL` means all leaves if the tree has at most
#'   1,000. For a larger tree, `NULL` means 200 leaves, or more if necessary to separate all
#'   populations, at most 2,000.
#' @param support `NULL`, or the result of [stability()] for `tree`, or for the tree of which `tree`
#'   is the top. The mean agreement of each of its branches is written above the branch, in percent.
#'   A small tree is then drawn like the top of a large one.
#'
#' @details
#' In the drawing of the top, a triangle stands for the merges within a leaf. The apex of the
#' triangle is at the height of the last of these merges, and its base is as wide as the leaf. A bar
#' below the leaf has the colour of the population to which most members of the leaf belong.
#' Branches of one population have its colour, branches of no population are grey, and branches of
#' several populations are black. A merge that is lower than one of its parts (an inversion) is
#' drawn a little above this part; the plot method of [stats::hclust()] draws it lower, so branches
#' cross. The time is proportional to the number of leaves of `tree`.
#'
#' [stats::rect.hclust()] and [stats::identify.hclust()] work with the plot of a small tree.
#'
#' @return `tree`, invisibly.
#' @section Errors:
#' A condition of class `gmhclust_error_input` if `tree` is not a valid tree, or `populations`,
#' `leaves` or `support` is invalid.
#' @seealso [plot_populations()], [cut_populations()], [cutree_top()], [stability()]
#' @examples
#' x <- as.matrix(lymphocytes()[seq(1, 20000, by = 5), 1:14])
#' tree <- gmhclust(x, threshold = 50, apriori = 300)
#' plot_tree(tree, populations = 7)
#'
#' top <- cutree_top(tree, 20)
#' plot(top, hang = -1)
#' @export
plot_tree <- function(tree, ..., populations = NULL, leaves = NULL, support = NULL) {
  call <- match.call()
  check_tree(tree, "tree", call)
  support <- check_support(support, tree, call)
  n <- length(tree$order)
  check_leaves(leaves, call)
  shows_all <- if (is.null(leaves)) n <= largest_plain_plot else leaves >= n
  no_populations <- is.null(populations) && shows_all || isFALSE(populations)
  # The plot method of hclust() draws at least three leaves.
  if (shows_all && no_populations && is.null(support) && n > 2) {
    drawn <- tree
    # stats writes the function and the data of the call below the plot.
    if (!is.call(tree$call) || length(tree$call) < 2) drawn$call <- quote(gmhclust(x))
    plot(drawn, ...)
    return(invisible(tree))
  }
  shown <- if (no_populations) {
    list(core = integer(n), k = 0L, names = character(0))
  } else {
    shown_populations(tree, populations, "populations", call)
  }
  leaves <- leaves_to_draw(leaves, tree, shown$core)
  picture <- top_picture(tree, leaves, shown, call)
  picture$support <- support_of_top(support, tree, leaves)
  draw_top(picture, ...)
  invisible(tree)
}

# The branches of a value of stability(): a data frame of the `merge` of `tree` and the `mean`
# agreement; NULL for NULL.
check_support <- function(support, tree, call) {
  if (is.null(support)) return(NULL)
  needs <- "it must be NULL, or the value of stability() for this tree"
  if (!inherits(support, "stability")) {
    refuse("support", paste("is", describe(support)), needs, call)
  }
  check_stability(support, call, "support")
  n <- length(tree$order)
  # The merges of a top are the last ones of the whole tree.
  observations <- max(n, length(tree$leaf))
  merge <- support$branches$merge
  if (!is_whole(merge) || any(merge < 1 | merge >= observations)) {
    refuse("support", "has merges that the tree does not have", needs, call)
  }
  branches <- data.frame(merge = merge - (observations - n), mean = support$branches$mean)
  is_shown <- branches$merge > 0
  check_branch_sizes(support$branches[is_shown, ], branches$merge[is_shown], tree, needs, call)
  branches[is_shown & !is.na(branches$mean), ]
}

# Stops if a branch of a value of stability() has another number of members than the merge of `tree`
# that completes it; `merge` are these merges.
check_branch_sizes <- function(branches, merge, tree, needs, call) {
  size <- node_sizes(tree$merge, leaf_members(tree), call)[length(tree$order) + merge]
  other <- which(is.na(branches$members) | branches$members != size)
  if (length(other) == 0) return(invisible())
  first <- other[1]
  got <- paste0("is of another tree: merge ", branches$merge[first], " has ",
                shown_count(branches$members[first]), " members there, and ",
                shown_count(size[first]), " in `tree`")
  refuse("support", got, needs, call)
}

# The branches that begin within the drawn top of this number of leaves: a data frame of the `merge`
# of the top and the `text`.
support_of_top <- function(support, tree, leaves) {
  if (is.null(support)) return(NULL)
  merge <- support$merge - (length(tree$order) - leaves)
  data.frame(merge = merge, text = sprintf("%.0f", 100 * support$mean))[merge > 0, ]
}

# Maximum number of leaves that are drawn by stats; with more, labels and branches overlap on a
# screen.
largest_plain_plot <- 1000L

# The default number of leaves of a drawn top, which shows its shape, and the maximum to which this
# number grows to separate populations.
default_leaves <- 200L
most_leaves <- 2000L

leaves_to_draw <- function(leaves, tree, population) {
  n <- length(tree$order)
  if (is.null(leaves)) {
    if (n <= largest_plain_plot) return(n)
    apart <- n - lowest_join(tree$merge, population) + 1L
    return(min(n, most_leaves, max(default_leaves, apart)))
  }
  as.integer(min(leaves, n))
}

# Stops if `leaves` is neither NULL nor a number of leaves.
check_leaves <- function(leaves, call) {
  if (is.null(leaves)) return(invisible())
  if (!is_single_number(leaves) || leaves < 2 || leaves != round(leaves)) {
    refuse("leaves", paste("is", describe(leaves)), "it must be one whole number >= 2", call)
  }
}

# The populations to show: a list of the `population` of each leaf, 0 for none; their number `k` and
# their `names`; the `roots` of each population, if known; and `core`, like `population`, but 0 for
# leaves that were assigned to a population only by rest = "nearest". `x` has the observations of
# the tree, if known.
shown_populations <- function(tree, populations, arg, call, x = NULL) {
  n <- length(tree$order)
  if (is.null(populations) || is_single_number(populations)) {
    populations <- populations_of_number(tree, populations, x, arg, call)
  }
  numbers <- plain_populations(populations)
  is_whole <- is_population_numbers(numbers)
  if (!is_whole || length(populations) != n) {
    got <- if (is_whole) "has length" else "is"
    needs <- paste(
      "it must be a number of populations, or whole numbers >= 0, one for each of the", n, "leaves"
    )
    refuse(arg, paste(got, if (is_whole) length(populations) else describe(populations)), needs,
           call)
  }
  k <- max(numbers)
  if (k == 0 || k > n || any(tabulate(numbers, k) == 0)) {
    refuse(arg, "leaves out numbers", "populations must be numbered 1, 2, ...", call)
  }
  population <- as.integer(numbers)
  roots <- if (inherits(populations, "populations")) attr(populations, "roots")
  if (!is.null(roots)) check_roots(roots, n, k, arg, call)
  core <- population
  if (!is.null(roots)) {
    below <- core_populations(tree, roots, call)
    is_nearest <- isTRUE(attr(populations, "nearest"))
    if (any(below != population & (below != 0 | !is_nearest))) refuse_other_roots(arg, call)
    if (is_nearest) core <- below
  }
  names <- shown_names(population_names(populations, k, arg, call)[seq_len(k)], seq_len(k))
  list(population = population, k = as.integer(k), names = names, core = core, roots = roots)
}

# Stops unless `roots` are the roots of k populations of a tree of n leaves.
check_roots <- function(roots, n, k, arg, call) {
  ids <- unlist(roots)
  is_sound <- is.list(roots) && length(roots) == k && all(lengths(roots) > 0) &&
    is.numeric(ids) && anyDuplicated(ids) == 0 && all(ids %in% c(-seq_len(n), seq_len(n - 1)))
  if (!is_sound) refuse_other_roots(arg, call)
}

refuse_other_roots <- function(arg, call) {
  needs <- paste0("it must be the value of cut_populations() for this tree; for the numbers of ",
                  "others, use as.integer(", arg, ")")
  refuse(arg, "has an attribute `roots` that does not fit", needs, call)
}

# The index in unlist(roots) of the root above each leaf; 0 for the other leaves.
roots_of_leaves <- function(tree, roots, call) {
  leaves_inside(tree$merge, nodes_of_ids(unlist(roots), length(tree$order)), call)
}

# The population of each root in unlist(roots).
populations_of_roots <- function(roots) rep(seq_along(roots), lengths(roots))

# The population of each leaf that is below a root of a population; 0 for the other leaves.
core_populations <- function(tree, roots, call) {
  c(0L, populations_of_roots(roots))[roots_of_leaves(tree, roots, call) + 1L]
}

# The population of each node of a tree, given the population of each leaf: p > 0 if all its members
# in populations are in population p, 0 if it has no members in populations, and -1 if it has
# members of several populations. One pass is enough, because children come before parents.
contents <- function(merge, leaf) {
  n <- length(leaf)
  node <- c(leaf, integer(n - 1L))
  joined <- joined_nodes(merge)
  first <- joined[, 1]
  second <- joined[, 2]
  for (j in seq_len(n - 1L)) {
    a <- node[first[j]]
    b <- node[second[j]]
    node[n + j] <- if (a == 0L || a == b) b else if (b == 0L) a else -1L
  }
  node
}

# The number of the first merge that joins different populations; one past the last merge if there
# is none.
lowest_join <- function(merge, population) {
  inside <- contents(merge, population)[-seq_along(population)]
  match(-1L, inside, nomatch = length(inside) + 1L)
}

# The parts of the picture for draw_top(): the tree `top`; for each of its leaves the `width`, the
# height of the last merge `inside` it, and the `population` of most of its members; and the
# `content` of each node, see contents().
top_picture <- function(tree, leaves, shown, call) {
  n <- length(tree$order)
  if (leaves == n) {
    top <- tree
    leaf <- seq_len(n)
    inside <- numeric(n)
  } else {
    leaf <- cut_once(tree$merge, leaves, call)
    top <- top_of(tree, leaf, leaves, call)
    inside <- heights_inside(tree, leaf, leaves)
  }
  counts <- matrix(0, leaves, shown$k + 1)
  sums <- rowsum(as.double(leaf_members(tree)), leaf + leaves * shown$core)
  counts[as.integer(rownames(sums))] <- sums
  several <- rowSums(counts[, -1, drop = FALSE] > 0) > 1
  # Members of no population do not count if there are others, as in contents().
  population <- max.col(cbind(0.5, counts[, -1, drop = FALSE]), "first") - 1L
  list(
    top = top, width = rowSums(counts), inside = inside, population = population, k = shown$k,
    names = shown$names, roots = shown$roots,
    content = contents(top$merge, ifelse(several, -1L, population)), method = tree$method
  )
}

# The height of the last merge within each leaf of the top; 0 for a single leaf of the tree.
heights_inside <- function(tree, leaf, leaves) {
  inner <- length(leaf) - leaves
  some <- some_leaf(tree$merge, inner)
  last <- which(!is.na(some))
  inside <- numeric(leaves)
  inside[leaf[some[last]]] <- tree$height[last]
  inside
}

# Draws the top of a tree from a top_picture(). It has the arguments of the plot method of hclust().
draw_top <- function(picture, labels = NULL, hang = NULL, check = NULL, axes = TRUE,
                     frame.plot = FALSE, ann = TRUE, # nolint: object_name_linter.
                     main = "Cluster Dendrogram", sub = NULL, xlab = NULL, ylab = "Height", ...) {
  top <- picture$top
  top$height <- raised_for_drawing(top, picture$inside)
  place <- leaf_places(top$order, picture$width)
  total <- sum(picture$width)
  highest <- max(top$height)
  bar <- highest / 20
  colours <- c("grey65", population_colours(picture$k))
  graphics::plot.new()
  graphics::plot.window(c(0, total), c(min(0, top$height) - 2 * bar, highest), xaxs = "i")
  draw_leaves(picture, place, colours)
  lines <- branches(top, place$centre, picture$inside)
  draw_branches(lines, picture$content, colours)
  support <- picture$support
  if (NROW(support) > 0) {
    graphics::text(
      rowMeans(lines$at)[support$merge], lines$height[support$merge], support$text, pos = 3,
      offset = 0.15, cex = 0.75, xpd = NA
    )
  }
  graphics::rect(
    place$left, -1.4 * bar, place$right, -0.4 * bar,
    col = colours[picture$population + 1], border = NA
  )
  if (!isFALSE(labels)) label_populations(picture, place, -1.4 * bar)
  if (axes) graphics::axis(2, at = pretty(c(0, highest)))
  if (frame.plot) graphics::box()
  if (!ann) return(invisible())
  if (is.null(sub)) sub <- paste0("top of ", length(top$order), " leaves (*, \"", top$method, "\")")
  if (is.null(xlab)) xlab <- paste(shown_count(total), "observations")
  graphics::title(main = main, sub = sub, xlab = xlab, ylab = ylab, ...)
}

# Raises heights so that no merge is below its parts. A merge that would be lower is raised to its
# higher part plus `step`, a share of the greatest height.
raised_for_drawing <- function(tree, inside, step = 0.01) {
  n <- length(inside)
  step <- step * max(tree$height)
  at <- c(inside, tree$height)
  child <- joined_nodes(tree$merge)
  for (j in seq_len(n - 1)) {
    below <- max(at[child[j, ]])
    if (at[n + j] < below) at[n + j] <- below + step
  }
  at[n + seq_len(n - 1)]
}

# The left, right and centre of each leaf. Leaves are side by side in `order`, and have widths
# `width`.
leaf_places <- function(order, width) {
  right <- numeric(length(order))
  right[order] <- cumsum(width[order])
  list(left = right - width, right = right, centre = right - width / 2)
}

# The lines of a tree. For each merge: the horizontal positions `at` of its two branches, the
# heights `from` which they start (`inside` for leaves), and the `height` of the merge.
branches <- function(tree, centre, inside) {
  n <- length(centre)
  child <- joined_nodes(tree$merge)
  at <- c(centre, numeric(n - 1))
  for (j in seq_len(n - 1)) at[n + j] <- (at[child[j, 1]] + at[child[j, 2]]) / 2
  from <- c(inside, tree$height)
  list(
    child = child, at = cbind(at[child[, 1]], at[child[, 2]]),
    from = cbind(from[child[, 1]], from[child[, 2]]), height = tree$height
  )
}

# Each branch in the colour of its content. Branches of several populations are black, and the
# horizontal line of a merge has the colour of the merge.
draw_branches <- function(lines, content, colours) {
  colour <- function(content) ifelse(content < 0, "black", colours[pmax(content, 0) + 1])
  n <- nrow(lines$child) + 1
  # Branches of no population are numerous, so they are drawn first, below the other branches.
  for (side in 1:2) {
    inside <- content[lines$child[, side]]
    first <- order(inside != 0)
    graphics::segments(
      lines$at[first, side], lines$from[first, side], lines$at[first, side], lines$height[first],
      col = colour(inside[first])
    )
  }
  graphics::segments(
    lines$at[, 1], lines$height, lines$at[, 2], lines$height, col = colour(content[-seq_len(n)])
  )
}

# A triangle for the merges within each leaf.
draw_leaves <- function(picture, place, colours) {
  is_drawn <- picture$inside > 0
  corners <- function(left, middle, right) {
    c(rbind(left[is_drawn], middle[is_drawn], right[is_drawn], NA))
  }
  none <- numeric(length(is_drawn))
  graphics::polygon(
    corners(place$left, place$centre, place$right), corners(none, picture$inside, none),
    col = grDevices::adjustcolor(colours, 0.35)[picture$population[is_drawn] + 1], border = NA
  )
}

# Writes the name of each population below the middle of its members, in its colour, without
# overlaps. If a population consists of several clusters of the tree, its name is below each
# cluster.
label_populations <- function(picture, place, y) {
  labels <- population_labels(picture, place)
  if (is.null(labels)) return(invisible())
  labels <- labels[order(labels$middle), ]
  layout <- label_layout(picture$names[labels$population], labels$middle, sum(picture$width))
  drop <- (layout$line - 1) * 1.3 * graphics::strheight("0", cex = layout$cex)
  # Letters need darker colours than areas.
  colours <- grDevices::adjustcolor(population_colours(picture$k), 1, 0.8, 0.8, 0.8)
  graphics::text(layout$at, y - drop, layout$text, pos = 1, offset = 0.25, xpd = NA, font = 2,
                 cex = layout$cex, col = colours[labels$population])
}

# The places of the names of populations: a data frame of the `population` and the `middle`.
population_labels <- function(picture, place) {
  drawn <- picture$top$order
  drawn <- drawn[picture$population[drawn] > 0]
  run <- cumsum(c(TRUE, diff(picture$population[drawn]) != 0))[seq_along(drawn)]
  labels <- lapply(seq_len(picture$k), function(p) {
    here <- which(picture$population[drawn] == p)
    if (length(here) == 0) return(NULL)
    # The widest runs of adjacent leaves; the number of runs is the number of clusters of the
    # population.
    runs <- unname(split(drawn[here], run[here]))
    widths <- vapply(runs, function(leaves) sum(picture$width[leaves]), 0)
    parts <- if (is.null(picture$roots)) 1 else length(picture$roots[[p]])
    runs <- if (parts == 1) {
      list(which(picture$population == p))
    } else {
      runs[order(-widths)][seq_len(min(length(runs), parts))]
    }
    middle <- vapply(runs, function(leaves) {
      stats::weighted.mean(place$centre[leaves], picture$width[leaves])
    }, 0)
    data.frame(population = p, middle = middle, row.names = NULL)
  })
  do.call(rbind, labels)
}

# Places names below a plot of width `total`, in one to three lines, as near as possible to the
# increasing positions `middle`. Returns their `text`, `line`, position `at` and size `cex`. If
# there is no room, names are shrunk, and then the middle of long names is cut out.
label_layout <- function(names, middle, total) {
  layouts <- lapply(if (length(names) > 12) 2:3 else 1:3, function(lines) {
    line <- rep_len(seq_len(lines), length(names))
    layout <- c(list(line = line, at = middle), fit_labels(names, line, total))
    width <- graphics::strwidth(paste0(layout$text, " "), font = 2, cex = layout$cex)
    for (l in seq_len(lines)) {
      here <- line == l
      layout$at[here] <- spread(middle[here], width[here], total)
    }
    # The greatest distance of a name from its `middle`; shrunk names count as far away.
    layout$beside <- max(0, abs(layout$at - middle) - width / 2) + (layout$cex < 1) * total
    layout
  })
  layouts[[which.min(vapply(layouts, `[[`, 0, "beside"))]]
}

# The text and the size of names, shortened until the names on each line fit side by side.
fit_labels <- function(names, line, total) {
  room <- function(text, cex) {
    widths <- graphics::strwidth(paste0(text, " "), font = 2, cex = cex)
    max(rowsum(widths, line)) / total
  }
  cex <- max(min(1, 1 / room(names, 1)), least_label)
  longest <- max(nchar(names))
  text <- names
  while (room(text, cex) > 1 && longest > 4) {
    longest <- longest - 1
    text <- cut_middle(names, longest)
  }
  list(text = text, cex = cex)
}

# The minimum size of names below a tree, as a share of the size of other text.
least_label <- 0.6

# Cuts the middle out of texts of more than `longest` characters.
cut_middle <- function(text, longest) {
  is_long <- nchar(text) > longest
  head <- ceiling((longest - 2) / 2)
  tail <- longest - 2 - head
  text[is_long] <- paste0(
    substr(text[is_long], 1, head), "..",
    substring(text[is_long], nchar(text[is_long]) - tail + 1)
  )
  text
}

# Moves increasing positions apart until the intervals of these widths around them do not overlap
# and are within 0 and `end`. The sum of squared moves is minimal (isotonic regression).
spread <- function(at, width, end) {
  count <- length(at)
  if (count == 0) return(at)
  apart <- cumsum(c(0, (width[-1] + width[-count]) / 2))
  moved <- if (count > 1) stats::isoreg(at - apart)$yf else at
  pmax(pmin(moved, end - width[count] / 2 - apart[count]), width[1] / 2) + apart
}

# Colours of k populations, which differ in hue and lightness. The first seven are Okabe and Ito's,
# which colour-blind readers can distinguish; the hues of further colours advance by the golden
# angle.
population_colours <- function(k) {
  first <- unname(grDevices::palette.colors(palette = "Okabe-Ito")[c(6, 3, 4, 7, 2, 8, 5)])
  more <- seq_len(max(0, k - length(first)))
  c(first, grDevices::hcl(more * 137.5, 75, c(45, 72)[more %% 2 + 1]))[seq_len(k)]
}
