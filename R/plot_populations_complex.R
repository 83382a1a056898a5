# plot_populations() by package ComplexHeatmap. Its heat maps share the width in the proportions of
# the plan; all other parts have the widths and the text sizes of the plan.

# Inches that ComplexHeatmap adds between and below legends, beyond the heights of the plan. If
# legends are higher than the picture, ComplexHeatmap makes a second column of legends, for which
# there is no width.
legend_spare <- 0.35

# Arguments of ComplexHeatmap that plot_populations() takes: of Heatmap(), for medians, and of
# draw().
complex_arguments <- function() {
  list(
    heatmap = setdiff(names(formals(ComplexHeatmap::Heatmap)), "matrix"),
    draw = c(
      "newpage", "background", "ht_gap", "padding", "auto_adjust", "main_heatmap", "save_last",
      "heatmap_legend_side", "heatmap_legend_list", "align_heatmap_legend",
      "show_annotation_legend", "annotation_legend_side", "annotation_legend_list",
      "align_annotation_legend", "merge_legends", "legend_grouping"
    )
  )
}

# Draws, and returns the HeatmapList. `more` are arguments of ComplexHeatmap from the user.
draw_populations_complex <- function(content, colours, scale, main, more, call) {
  without_font_warnings({
    draw_complex(content, colours, scale, main, more, call)
  })
}

draw_complex <- function(content, colours, scale, main, more, call) {
  is_of_heatmap <- names(more) %in% complex_arguments()$heatmap
  plan <- plan_picture(content, scale, main, space_to_draw(more[["newpage"]]), call, legend_spare)
  parts <- complex_medians(content, colours, scale, plan, more[is_of_heatmap])
  # The keys of gates are the last legend.
  keys <- if (!is.null(content$gates)) complex_keys(content$gates, plan)
  if (!is.null(content$gates)) {
    own <- if (is.null(content$samples)) keys
    parts <- parts + complex_gates(content$gates, own, plan)
  }
  if (!is.null(content$samples)) parts <- parts + complex_samples(content$samples, keys, plan)
  if (!methods::is(parts, "HeatmapList")) parts <- parts + NULL
  settings <- list(
    column_title = if (nzchar(plan$title$text)) plan$title$text else character(0),
    column_title_gp = text_gp(plan$title$points, "bold"), merge_legends = TRUE,
    ht_gap = inches(panel_gap),
    padding = inches(picture_margin + c(plan$note$height, 0, 0, 0))
  )
  settings <- replaced(settings, more[!is_of_heatmap])
  do.call(ComplexHeatmap::draw, c(list(parts), settings))
  grid::grid.text(
    plan$note$text, inches(picture_margin), inches(picture_margin / 2), just = c("left", "bottom"),
    gp = grid::gpar(fontsize = plan$note$points, col = "grey30", lineheight = 1)
  )
  inform_of_notes(plan, call)
  parts
}

# ComplexHeatmap measures text on a pdf device, which warns of every letter outside of its encoding.
# Where the picture goes to another device, the warnings mean nothing.
without_font_warnings <- function(code) {
  if (names(grDevices::dev.cur()) %in% c("pdf", "postscript")) return(code)
  withCallingHandlers(code, warning = function(w) {
    if (grepl("mbcsToSbcs|font metrics unknown|font width unknown", conditionMessage(w))) {
      invokeRestart("muffleWarning")
    }
  })
}

# The width and height to draw on: a new page of the device, or the current viewport.
space_to_draw <- function(newpage) {
  if (!isFALSE(newpage)) return(grDevices::dev.size("in"))
  c(grid::convertWidth(grid::unit(1, "npc"), "inches", valueOnly = TRUE),
    grid::convertHeight(grid::unit(1, "npc"), "inches", valueOnly = TRUE))
}

# The list `settings`, in which elements of `others` replace elements of the same name.
replaced <- function(settings, others) c(settings[setdiff(names(settings), names(others))], others)

inches <- function(values) grid::unit(values, "inches")
text_gp <- function(points, face = "plain") grid::gpar(fontsize = points, fontface = face)

# The tree, the medians as `colours`, and the sizes.
complex_medians <- function(content, colours, scale, plan, more) {
  tree <- content$tree
  members <- complex_sizes(content$sizes, plan)
  sizes <- ComplexHeatmap::rowAnnotation(
    members = members, annotation_name_side = "top", annotation_name_rot = 0,
    annotation_name_gp = text_gp(plan$headings$points)
  )
  limits <- range_of(colours, scale)
  legend <- complex_scale(plan, if (scale) "scaled median" else "median",
                          if (is.null(more[["col"]])) limits)
  settings <- list(
    name = "median", heatmap_legend_param = legend,
    col = colour_scale(median_palette(100), limits), cluster_columns = FALSE,
    cluster_rows = if (is.null(tree)) FALSE else stats::as.dendrogram(drawn_tree(tree)),
    row_dend_reorder = FALSE, row_dend_width = inches(plan$width[["tree"]]),
    row_names_side = "left", row_labels = in_row_order(plan$rows$text, tree),
    row_names_gp = text_gp(plan$rows$points),
    row_names_max_width = inches(plan$rows$length + 0.1), right_annotation = sizes
  )
  settings <- c(settings, complex_cells(colours, "medians", plan$markers, plan))
  heatmap <- do.call(ComplexHeatmap::Heatmap, c(list(colours), replaced(settings, more)))
  # Names of other text or size need other space.
  is_named <- any(grepl("^(column_names|column_labels|row_names|row_labels)", names(more)))
  if (is_named) heatmap else with_name_space(heatmap, plan$markers, plan$rows)
}

# Texts of rows, from the top, reordered as texts of populations 1, 2, ...
in_row_order <- function(text, tree) {
  if (!is.null(tree)) text[tree$order] <- text
  text
}

# Settings of a heat map with these `names` of columns.
complex_cells <- function(values, panel, names, plan) {
  width <- plan$width[[panel]]
  cells <- c(width / ncol(values), plan$body / nrow(values))
  list(
    width = if (is_full(plan)) grid::unit(width, "null") else inches(width),
    rect_gp = grid::gpar(col = if (all(vapply(cells, is_lined, NA))) "white" else NA),
    column_title = heading_of(panel, plan), column_title_gp = text_gp(plan$headings$points),
    column_labels = names$text, column_names_gp = text_gp(names$points),
    column_names_max_height = inches(names$length + 0.1)
  )
}

# The heading of a heat map, padded to the number of lines of the headings of bars, because
# ComplexHeatmap makes space only for headings of heat maps.
heading_of <- function(panel, plan) {
  text <- plan$headings$text
  paste0(strrep("\n", max(text_lines(text)) - text_lines(text[[panel]])), text[[panel]])
}

# Whether the panels fill the width.
is_full <- function(plan) {
  width <- plan$width
  plan$size[1] - 2 * picture_margin - sum(width) - panel_gap * sum(width > 0) < 0.3
}

# Bars of sizes, and numbers at their ends.
complex_sizes <- function(sizes, plan) {
  k <- length(sizes)
  width <- plan$width[["members"]]
  text <- shown_count(sizes)
  numbers <- if (plan$members > 0) 0.08 + max(text_widths(text, plan$members)) else 0
  bar <- (width - numbers) * sizes / max(sizes)
  points <- plan$members
  fill <- population_colours(k)
  ComplexHeatmap::AnnotationFunction(
    fun = function(index) {
      y <- 1 - (seq_along(index) - 0.5) / length(index)
      grid::grid.rect(grid::unit(0, "npc"), y, grid::unit(bar[index], "inches"),
                      0.8 / length(index), just = "left",
                      gp = grid::gpar(fill = fill[index], col = NA))
      if (points > 0) {
        grid::grid.text(text[index], grid::unit(bar[index] + 0.05, "inches"), y, just = "left",
                        gp = grid::gpar(fontsize = points))
      }
    },
    fun_name = "members", which = "row", n = k, width = inches(width),
    var_import = list(bar = bar, fill = fill, text = text, points = points),
    subsettable = FALSE
  )
}

# Bars of shares, and the annotation `keys` or NULL.
complex_gates <- function(shares, keys, plan) {
  bars <- ComplexHeatmap::anno_barplot(
    shares, which = "row", gp = grid::gpar(fill = gate_colours(ncol(shares)), col = NA),
    bar_width = 0.8, border = FALSE, width = inches(plan$width[["gates"]]),
    axis_param = list(at = c(0, 0.5, 1), labels = c("0", "0.5", "1"), labels_rot = 0,
                      gp = text_gp(axis_points(plan$points)))
  )
  bars <- ComplexHeatmap::rowAnnotation(
    shares = bars, annotation_label = plan$headings$text[["gates"]], annotation_name_side = "top",
    annotation_name_rot = 0, annotation_name_gp = text_gp(plan$headings$points)
  )
  if (is.null(keys)) bars else c(bars, keys, gap = inches(0))
}

# In ComplexHeatmap bars have no legend, but colours of values have one. So this annotation, which
# has no width, gives each population a gate, and has a legend of all gates.
complex_keys <- function(shares, plan) {
  count <- ncol(shares)
  text <- plan$keys$text
  colours <- stats::setNames(c(gate_colours(count), "#FFFFFF00"), c(seq_len(count), "more"))
  shown <- as.character(seq_along(text))
  if (plan$keys$left_out > 0) {
    shown <- c(shown, "more")
    text <- c(text, paste(plan$keys$left_out, "more"))
  }
  # Computed before the call: ComplexHeatmap evaluates arguments on the device on which it measures
  # text.
  text <- with_space(text, plan$keys$points)
  ComplexHeatmap::rowAnnotation(
    gate = rep("1", nrow(shares)), col = list(gate = colours), simple_anno_size = inches(0),
    show_annotation_name = FALSE,
    annotation_legend_param = list(gate = list(
      title = "gate", title_gp = text_gp(plan$legend_points, "bold"), at = shown,
      labels = text, labels_gp = text_gp(plan$keys$points),
      grid_height = inches(line_height(plan$keys$points)),
      grid_width = inches(text_height(plan$keys$points))
    ))
  )
}

complex_samples <- function(shares, keys, plan) {
  settings <- list(
    name = "share of sample",
    heatmap_legend_param = complex_scale(plan, "share of sample", share_limits(shares)),
    col = colour_scale(share_palette(100), share_limits(shares)), cluster_columns = FALSE,
    cluster_rows = FALSE, show_row_names = FALSE, right_annotation = keys
  )
  settings <- c(settings, complex_cells(shares, "samples", plan$samples, plan))
  with_name_space(do.call(ComplexHeatmap::Heatmap, c(list(shares), settings)), plan$samples, NULL)
}

# ComplexHeatmap measures text on a pdf device, whose font is narrower than the fonts of most
# devices, so it would cut names and legends. So names get the space that they need on the current
# device, and text of legends gets spaces at its end.
with_name_space <- function(heatmap, columns, rows) {
  is_known <- function(param) methods::is(param$anno, "AnnotationFunction")
  if (is_known(heatmap@column_names_param)) {
    heatmap@column_names_param$anno@height <- inches(columns$length + 0.02)
  }
  if (!is.null(rows) && is_known(heatmap@row_names_param)) {
    heatmap@row_names_param$anno@width <- inches(rows$length + 0.02)
  }
  heatmap
}

with_space <- function(text, points, font = 1) {
  missing <- text_widths(text, points, font) - on_pdf_device(text_widths(text, points, font))
  spaces <- ceiling(pmax(missing, 0) / on_pdf_device(text_widths(" ", points, font)))
  # The last line may be shorter than another one.
  spaces <- strrep(" ", spaces)
  vapply(seq_along(text), function(i) gsub("(?=\n|$)", spaces[i], text[i], perl = TRUE), "")
}

# The value of `code` on the device on which ComplexHeatmap measures text.
on_pdf_device <- function(code) {
  current <- grDevices::dev.cur()
  grDevices::pdf(NULL)
  on.exit({
    grDevices::dev.off()
    if (current > 1) grDevices::dev.set(current)
  })
  code
}

# Settings of the legend of a colour scale, with numbers at the `limits`, or, for NULL, where
# ComplexHeatmap puts them.
complex_scale <- function(plan, title, limits) {
  ends <- if (!is.null(limits)) {
    list(at = wider_limits(limits), labels = inward(scale_ends(limits), plan))
  }
  c(ends, list(
    title = with_space(title, plan$legend_points, 2), title_position = "topleft",
    title_gp = text_gp(plan$legend_points, "bold"), labels_gp = text_gp(plan$legend_points),
    direction = "horizontal",
    legend_width = inches(scale_length(plan)), grid_height = inches(scale_height)
  ))
}

# The numbers of a scale, which ComplexHeatmap centres at its ends, with spaces that move them
# inwards.
inward <- function(ends, plan) {
  widths <- text_widths(c(ends, " "), plan$legend_points)
  spaces <- strrep(" ", round(widths[1:2] / widths[3]))
  c(paste0(spaces[1], ends[1]), paste0(ends[2], spaces[2]))
}

colour_scale <- function(palette, limits) {
  limits <- wider_limits(limits)
  circlize::colorRamp2(seq(limits[1], limits[2], length.out = length(palette)), palette)
}

# Limits that differ.
wider_limits <- function(limits) if (limits[1] == limits[2]) limits + c(0, 1) else limits
