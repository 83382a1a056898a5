# The layout of the picture that plot_populations() draws, for either engine. It measures text on
# the graphics device before anything is drawn. Lengths are in inches, sizes of text in points.

# Minimum size of text, in points. Smaller text cannot be read, neither on a screen of 72 pixels per
# inch nor in print.
least_points <- 6

# Space between panels, and around the picture, in inches.
panel_gap <- 0.1
picture_margin <- 0.1

# Maximum share of the picture's height for names of columns.
most_name_height <- 0.35

# Maximum share of the picture's width for names of populations.
most_row_name <- 0.25

# Minimum height of the heat maps, in inches.
least_body <- 0.6

# The height and the minimum width of a colour scale in the legend, in inches.
scale_height <- 0.12
least_scale_width <- 0.75
# The maximum length of a colour scale in the legend, in inches.
most_scale_width <- 1.3
scale_length <- function(plan) min(plan$width[["legend"]], most_scale_width)

# The height of text, of text with space to its neighbours, and of a line among others.
text_height <- function(points) points / 72
text_pitch <- function(points) 1.1 * points / 72
line_height <- function(points) 1.2 * points / 72

# The sizes of text to try, from the largest.
text_sizes <- function(from, to = least_points) seq(max(from, to), to, by = -0.5)

# The argument `cex` of functions of package graphics for text of this size in points.
text_cex <- function(points) points / (graphics::par("ps") * graphics::par("cex"))

text_widths <- function(text, points, font = 1) {
  graphics::strwidth(text, "inches", font = font, cex = text_cex(points))
}

# A square of colour before a text of the legend, and the space behind it.
key_width <- function(points) 1.7 * text_height(points)

text_lines <- function(text) pmax(lengths(strsplit(text, "\n", fixed = TRUE)), 1)

# ---- text that fits -----------------------------------------------------------------------------

# Names as text of one line: invalid bytes in hexadecimal, and `instead` of empty names.
shown_names <- function(names, instead = "") {
  names <- enc2utf8(valid_text(as.character(names)))
  names <- trimws(gsub("[[:space:][:cntrl:]]+", " ", names))
  is_empty <- is.na(names) | !nzchar(names)
  names[is_empty] <- rep_len(as.character(instead), length(names))[is_empty]
  names
}

# Breaks a text that is longer than `room` into at most `lines` lines of this length, after spaces
# and punctuation; NA if that is not possible.
wrapped_text <- function(text, room, points, lines, font) {
  # A piece is a word with the punctuation behind it.
  pieces <- regmatches(text, gregexpr("[^ _/|,;:.+-]*[_/|,;:.+-]*[])}]* *", text))[[1]]
  pieces <- pieces[nzchar(pieces)]
  if (any(text_widths(sub(" +$", "", pieces), points, font) > room)) return(NA_character_)
  done <- character(0)
  while (length(pieces) > 0) {
    if (length(done) == lines) return(NA_character_)
    begins <- sub(" +$", "", Reduce(paste0, pieces, accumulate = TRUE))
    fits <- sum(cumprod(text_widths(begins, points, font) <= room))
    done <- c(done, begins[fits])
    pieces <- pieces[-seq_len(fits)]
  }
  paste(done, collapse = "\n")
}

# Cuts the middle out of a text that is longer than `room`, because names of markers differ at their
# beginning, and numbered samples at their end.
cut_text <- function(text, room, points, font) {
  kept <- seq(nchar(text) - 1, 0)
  head <- ceiling(kept * 0.6)
  shorter <- paste0(substring(text, 1, head), "...",
                    substring(text, nchar(text) - kept + head + 1))
  fits <- text_widths(shorter, points, font) <= room
  if (any(fits)) shorter[which.max(fits)] else ""
}

# Texts in at most `lines` lines of at most `room`. Those that do not fit are cut; or, without
# `cut`, NA. Also returns the size of text in `points`, and whether a text `is_cut`.
fit_texts <- function(texts, room, points, lines = 1, font = 1, cut = TRUE) {
  is_long <- text_widths(texts, points, font) > room
  fitted <- texts
  fitted[is_long] <- NA
  if (lines > 1) {
    fitted[is_long] <- vapply(texts[is_long], wrapped_text, "", room, points, lines, font)
  }
  is_cut <- is.na(fitted)
  if (cut) fitted[is_cut] <- vapply(texts[is_cut], cut_text, "", room, points, font)
  list(text = fitted, points = points, is_cut = any(is_cut))
}

# Tries several ways to fit texts, and returns the first result in which no text is cut, else the
# result of the last way. A way is a function of the argument `cut` of fit_texts().
first_uncut <- function(ways) {
  for (way in ways) {
    fitted <- way(cut = FALSE)
    if (!fitted$is_cut) return(fitted)
  }
  way(cut = TRUE)
}

# Fits names side by side, at intervals of `pitch`, each at most `room` long. Names are shrunk a
# little, then wrapped if the pitch has space for several lines, then shrunk to the minimum size;
# then only every `step`-th name is shown, and the middle of long names is cut out. Returns `text`,
# "" for names that are not shown, `points`, `length` and `step`, and whether a name `is_cut`.
fit_names <- function(names, pitch, room, points) {
  step <- as.integer(max(1, ceiling(text_pitch(least_points) / pitch - 1e-6)))
  is_shown <- (seq_along(names) - 1) %% step == 0
  space <- step * pitch
  largest <- max(least_points, min(points, space / text_pitch(1)))
  in_lines <- function(size, max_lines) {
    lines <- max(1, min(max_lines, floor(space / line_height(size) + 1e-6)))
    function(cut) fit_texts(names[is_shown], room, size, lines, cut = cut)
  }
  fitted <- first_uncut(c(
    lapply(text_sizes(largest, max(least_points, 0.8 * largest)), in_lines, 1),
    lapply(text_sizes(largest), in_lines, 3)
  ))
  text <- character(length(names))
  text[is_shown] <- fitted$text
  fitted$text <- text
  fitted$length <- max(text_widths(text, fitted$points))
  fitted$step <- step
  fitted
}

# A title, in one line or up to three.
fit_title <- function(text, room, points) {
  text <- shown_names(unlist(strsplit(as.character(text), "\n", fixed = TRUE)))
  if (!any(nzchar(text))) return(list(text = "", points = points, height = 0))
  fitted <- first_uncut(lapply(text_sizes(points), function(size) {
    lines <- if (size > 0.8 * points) 1 else 3
    function(cut) fit_texts(text, room, size, lines, font = 2, cut = cut)
  }))
  fitted$text <- paste(fitted$text, collapse = "\n")
  fitted$height <- text_lines(fitted$text) * line_height(fitted$points)
  fitted
}

# Keys of a legend, one below the other, in a column at most `room` wide and `height` high. Keys for
# which the height is too small are `left_out`, from the end.
fit_keys <- function(names, room, height, points) {
  heights <- function(keys) line_height(keys$points) * (text_lines(keys$text) + 0.2)
  in_lines <- function(size, lines) {
    function(cut) {
      keys <- fit_texts(names, room - key_width(size), size, lines, cut = cut)
      if (!cut) keys$is_cut <- keys$is_cut || sum(heights(keys)) > height
      keys
    }
  }
  keys <- first_uncut(c(
    lapply(text_sizes(points, 0.8 * points), in_lines, 1),
    lapply(text_sizes(points), in_lines, 2), in_lines(least_points, 3)
  ))
  if (sum(heights(keys)) > height) keys <- in_lines(least_points, 1)(cut = TRUE)
  kept <- length(names)
  if (sum(heights(keys)) > height) {
    # The line below the last key says how many are left out.
    kept <- max(1L, sum(cumsum(heights(keys)) <= height - line_height(keys$points)))
  }
  keys$left_out <- length(names) - kept
  keys$text <- keys$text[seq_len(kept)]
  keys$width <- key_width(keys$points) + max(text_widths(keys$text, keys$points))
  keys$heights <- heights(keys)
  keys
}

# ---- the plan -----------------------------------------------------------------------------------

# The plan of a picture of this `size`, a width and a height. A list:
#   `width`: the width of each panel, 0 for a panel that is not drawn;
#   `title`, `headings`: fitted texts, above the picture and above panels;
#   `body`: the height of the heat maps;
#   `below`: the height of names and axes below the heat maps;
#   `rows`, `markers`, `samples`: fitted names of rows and columns;
#   `members`: the size of text of the numbers of members, 0 if they have no room;
#   `keys`, `legend_points`: the legend;
#   `notes`, `note`: what is left out, and its text below the picture.
# `spare` is the height that the engine needs in addition to the parts of the legend.
plan_picture <- function(content, scale, main, size, call, spare = 0) {
  points <- 12 * min(1, max(0.75, min(size / c(10, 6))))
  inner <- size - 2 * picture_margin
  k <- length(content$sizes)
  order <- if (is.null(content$tree)) 1L else content$tree$order
  plan <- list(
    points = points, size = size, title = fit_title(main, inner[1], 1.15 * points),
    note = fit_note(character(0), inner[1]), notes = character(0)
  )
  names <- rownames(content$medians)[order]
  plan$named <- !setequal(names, as.character(seq_len(k)))
  longest <- most_row_name * inner[1]
  rows <- list(points = points, length = min(longest, max(text_widths(names, points))))
  members <- points
  # The widths of numbers depend on the height of rows; the height of rows depends on the lengths of
  # column names and on the notes; both depend on the widths. So the plan is computed in passes.
  for (pass in 1:6) {
    noted <- plan$notes
    across <- plan_across(content, scale, inner, plan, rows, members, spare, call)
    plan[names(across)] <- across
    plan$body <- inner[2] - plan$title$height - plan$headings$height - plan$below -
      plan$note$height
    # A row of less than 1.5 pixels cannot be seen.
    needed <- max(least_body, k * 1.5 / pixels_an_inch())
    if (plan$body < needed) refuse_size(size + c(0, needed - plan$body), size, call)
    rows <- fit_names(names, plan$body / k, longest, points)
    members <- if (rows$step == 1) rows$points else 0
    plan$rows <- rows
    plan$members <- members
    plan$notes <- notes_of(plan)
    if (pass > 1 && identical(plan$notes, noted)) break
    # The space for notes never shrinks, so that the passes end.
    note <- fit_note(plan$notes, inner[1])
    note$height <- max(note$height, plan$note$height)
    plan$note <- note
  }
  plan
}

pixels_an_inch <- function() {
  inches <- grDevices::dev.size("in")
  max(72, grDevices::dev.size("px")[1] / inches[1])
}

refuse_size <- function(needed, size, call) {
  text <- paste0(
    "the picture needs at least ", shown_size(needed, ceiling), " inches, not ",
    shown_size(size, floor), "; enlarge the graphics device, or draw fewer populations, ",
    "columns, gates or samples"
  )
  stop(gmhclust_error_input(text, call))
}

# A width and height in tenths of an inch: "7.0 x 5.6".
shown_size <- function(size, rounded = round) {
  paste(sprintf("%.1f", rounded(10 * size) / 10), collapse = " x ")
}

# The widths of panels, and all parts of the plan that depend on the widths.
plan_across <- function(content, scale, inner, plan, rows, members, spare, call) {
  points <- plan$points
  numbers <- if (members > 0) 0.08 + max(text_widths(shown_count(content$sizes), members)) else 0
  height <- inner[2] - plan$title$height - plan$note$height - spare
  named <- text_pitch(least_points)
  pixel <- 1 / pixels_an_inch()
  # `legend` is the maximum width of the legend; `marker` and `sample` are the minimum widths of a
  # column of their heat map.
  tries <- list(
    list(legend = min(0.22 * inner[1], 3), marker = named, sample = named),
    list(legend = max(0.16 * inner[1], 0.9), marker = named, sample = named),
    list(legend = min(0.22 * inner[1], 3), marker = named, sample = pixel),
    list(legend = max(0.16 * inner[1], 0.9), marker = named, sample = pixel / 2),
    list(legend = max(0.14 * inner[1], 0.8), marker = 1.5 * pixel, sample = 0)
  )
  for (try in tries) {
    legend <- plan_legend(content, scale, try$legend, height, 0.9 * points)
    least <- least_widths(content, numbers, try)
    fixed <- c(rows = rows$length + 0.06, legend = legend$legend_width)
    gaps <- panel_gap * (sum(least > 0) + 1)
    room <- inner[1] - sum(fixed) - gaps
    if (sum(least) <= room) break
  }
  if (sum(least) > room) {
    refuse_size(c(plan$size[1] + sum(least) - room, plan$size[2]), plan$size, call)
  }
  width <- c(share_out(least, wider(content, numbers, inner[1]), room), fixed)
  columns <- function(values, panel) {
    if (is.null(values)) return(NULL)
    fit_names(shown_names(colnames(values), seq_len(ncol(values))), width[[panel]] / ncol(values),
              most_name_height * inner[2], points)
  }
  markers <- columns(content$medians, "medians")
  samples <- columns(content$samples, "samples")
  axis <- if (is.null(content$tree) && is.null(content$gates)) 0 else axis_height(points)
  c(legend, list(
    width = width, headings = fit_headings(width, points), markers = markers, samples = samples,
    below = 0.06 + max(markers$length, samples$length, axis)
  ))
}

axis_height <- function(points) 0.08 + text_height(axis_points(points))
axis_points <- function(points) max(least_points, 0.8 * points)

# The minimum widths of panels; 0 for a panel that is not drawn.
least_widths <- function(content, numbers, try) {
  members <- max(numbers + 0.25, 0.03 + text_widths("members", least_points))
  c(
    tree = if (is.null(content$tree)) 0 else 0.3,
    medians = max(ncol(content$medians) * try$marker, 0.5),
    members = members,
    gates = if (is.null(content$gates)) 0 else 0.5,
    samples = if (is.null(content$samples)) 0 else max(ncol(content$samples) * try$sample, 0.5)
  )
}

# Goals for the widths of panels, in this order: comfortable, good, and greatest.
wider <- function(content, numbers, width) {
  there <- c(!is.null(content$tree), TRUE, TRUE, !is.null(content$gates), !is.null(content$samples))
  p <- ncol(content$medians)
  s <- max(0, ncol(content$samples))
  lapply(list(
    c(0.8, 0.16 * p, numbers + 0.6, 1.2, min(0.2 * s, width / 4)),
    c(1.1, 0.25 * p, numbers + 0.9, 1.6, 0.25 * s),
    c(1.8, 0.6 * p, numbers + 1.6, 3, 0.6 * s)
  ), function(goal) goal * there)
}

# Widths that are at least `min_widths`, and as near to each goal as the room allows.
share_out <- function(min_widths, goals, room) {
  width <- min_widths
  for (goal in goals) {
    missing <- pmax(goal - width, 0)
    extra <- room - sum(width)
    if (sum(missing) > 0) width <- width + missing * max(0, min(1, extra / sum(missing)))
  }
  width
}

# Headings of panels, none wider than its panel and half of the gaps beside it.
fit_headings <- function(width, points) {
  text <- c(medians = "medians", members = "members", gates = "share of gates", samples = "samples")
  text <- text[width[names(text)] > 0]
  room <- width[names(text)] + 0.8 * panel_gap
  for (size in text_sizes(points)) {
    fitted <- mapply(fit_texts, text, room, size, 2, SIMPLIFY = FALSE)
    if (!any(vapply(fitted, `[[`, NA, "is_cut"))) break
  }
  text <- vapply(fitted, `[[`, "", "text")
  list(text = text, points = size, height = 0.06 + max(text_lines(text)) * line_height(size))
}

# The legend: scales of colours, and keys for gates.
plan_legend <- function(content, scale, room, height, points) {
  titles <- c(if (scale) "scaled median" else "median",
              if (!is.null(content$samples)) "share of sample",
              if (!is.null(content$gates)) "gate")
  size <- first_uncut(lapply(text_sizes(points), function(size) {
    function(cut) fit_texts(titles, room, size, font = 2, cut = cut)
  }))$points
  scales <- 1 + !is.null(content$samples)
  high <- scales * scale_block(size) + line_height(size)
  keys <- if (!is.null(content$gates)) {
    fit_keys(shown_names(colnames(content$gates), "(empty)"), room, height - high, size)
  }
  width <- max(text_widths(titles, size, font = 2), keys$width, least_scale_width)
  list(keys = keys, legend_points = size, legend_width = min(width, room))
}

# The height of a scale with its title, numbers, and the space below.
scale_block <- function(points) 2 * line_height(points) + scale_height + 0.16

# ---- what is left out ---------------------------------------------------------------------------

notes_of <- function(plan) {
  every <- function(fitted, what) {
    if (is.null(fitted) || fitted$step == 1) return(NULL)
    paste("every", ordinal(fitted$step), what)
  }
  parts <- list(populations = plan$rows, markers = plan$markers, samples = plan$samples,
                gates = plan$keys)
  is_cut <- vapply(parts, function(part) isTRUE(part$is_cut), NA)
  left_out <- max(0L, plan$keys$left_out)
  c(
    every(plan$rows, if (plan$named) "population has its name" else "population has its number"),
    if (plan$members == 0) "numbers of members are left out",
    every(plan$markers, "marker has its name"),
    every(plan$samples, "sample has its name"),
    if (any(is_cut)) paste("names of", paste(names(is_cut)[is_cut], collapse = ", "), "are cut"),
    if (left_out > 0) {
      paste(left_out, ngettext(left_out, "gate is", "gates are"), "left out of the legend")
    }
  )
}

ordinal <- function(number) {
  last <- if (number %% 100 %in% 11:13) 0L else number %% 10L
  paste0(number, switch(as.character(last), "1" = "st", "2" = "nd", "3" = "rd", "th"))
}

# Notes as text below the picture.
fit_note <- function(notes, room) {
  if (length(notes) == 0) return(list(text = "", points = least_points, height = 0))
  text <- paste0(paste(notes, collapse = "; "), ".")
  substr(text, 1, 1) <- toupper(substr(text, 1, 1))
  points <- least_points + 0.5
  text <- fit_texts(text, room, points, lines = 3)$text
  list(text = text, points = points, height = 0.04 + text_lines(text) * line_height(points))
}

# Gives the message about omissions in the picture.
inform_of_notes <- function(plan, call) {
  if (length(plan$notes) == 0) return(invisible())
  inform_user(
    "picture",
    paste0("a picture of ", shown_size(plan$size),
           " inches has no room for all text: ", paste(plan$notes, collapse = "; "),
           ". A larger graphics device shows more."),
    call
  )
}
