cells <- lymphocytes()[seq(1, 20000, by = 20), ]
x <- as.matrix(cells[c("CD4", "CD8", "CD3", "CD56")])
h <- gmhclust(x, 50, apriori = rep(1:100, 10))
population <- cut_populations(h, 5, 20)
gate <- ifelse(cells$CD4 > 60, "CD4", ifelse(cells$CD8 > 50, "CD8", NA))

# What plot_populations() draws, by base graphics.
drawn <- function(...) on_no_screen(plot_populations(..., engine = "base"))

# The same, by each engine that is there.
drawn_by_both <- function(...) {
  found <- drawn(...)
  if (has_complex_heatmap()) {
    other <- on_no_screen(plot_populations(..., engine = "ComplexHeatmap"))
    expect_s4_class(other$heatmap, "HeatmapList")
    expect_identical(other[names(other) != "heatmap"], found)
  }
  found
}

test_that("medians, sizes and shares are those of the populations", {
  found <- drawn_by_both(h, x, population, gates = gate, samples = cells$ids)
  numbers <- as.integer(population)
  expect_identical(found$sizes, tabulate(numbers, 5))
  for (p in 1:5) {
    expect_identical(found$medians[p, ], apply(x[numbers == p, ], 2, median))
    counts <- table(factor(gate[numbers == p], c("CD4", "CD8")))
    expect_equal(found$gates[p, ], c(counts / sum(counts)))
    of_sample <- tapply(numbers == p, cells$ids, mean)
    expect_equal(found$samples[p, ], c(of_sample))
  }
})

test_that("the tree joins populations as the whole tree does", {
  found <- drawn(h, x, population)
  expect_true(check_hclust(found$tree))
  expect_identical(found$tree$labels, as.character(1:5))
  for (k in 1:5) {
    coarse <- cut_populations(h, k, 20)
    of_leaf <- gcutree(found$tree, k)[as.character(population)]
    inside <- population > 0
    expect_true(all(rowSums(table(coarse[inside], of_leaf[inside]) > 0) == 1))
  }
  last <- max(which(!is.na(match(h$height, found$tree$height))))
  expect_identical(found$tree$height[4], h$height[last])
})

test_that("populations with similar medians are side by side, unless the tree's order is kept", {
  many <- cut_populations(h, 8, 15)
  similar <- drawn(h, x, many)
  kept <- drawn(h, x, many, order = "tree")
  expect_identical(kept$tree$order, leaf_order(kept$tree$merge, NULL))
  expect_identical(similar[names(similar) != "tree"], kept[names(kept) != "tree"])
  distances <- as.matrix(dist(unit_scaled(kept$medians, x)))
  neighbours <- function(tree) sum(distances[cbind(head(tree$order, -1), tail(tree$order, -1))])
  expect_lt(neighbours(similar$tree), neighbours(kept$tree))
  ordered <- reorder(kept$tree, as.dist(distances))
  expect_identical(similar$tree[c("merge", "height", "order")],
                   ordered[c("merge", "height", "order")])
  huge <- drawn(h, x * 1e300, many, scale = FALSE)
  expect_identical(huge$tree$order, drawn(h, x, many, scale = FALSE)$tree$order)
  expect_error(drawn(h, x, many, order = 3:1), "`order` is a numeric|`order` is an integer")
})

test_that("populations may be a number, NULL, other clusters, or with the rest", {
  expect_identical(drawn(h, x, 4), drawn(h, x, cut_populations(h, 4)))
  natural <- gmhclust(x, 50)
  expect_gt(attr(cut_populations(natural, x = x), "k"), 2)
  expect_identical(drawn(natural, x), drawn(natural, x, cut_populations(natural, x = x)))
  expect_identical(drawn(h, x, gcutree(h, 6))$sizes, tabulate(gcutree(h, 6)))
  nearest <- cut_populations(h, 5, 20, rest = "nearest", x = x)
  found <- drawn(h, x, nearest)
  expect_identical(found$sizes, tabulate(as.integer(nearest), 5))
  kept <- drawn(h, x, nearest, order = "tree")$tree
  expect_identical(kept[1:3], drawn(h, x, population, order = "tree")$tree[1:3])
  one <- drawn_by_both(h, x, 1)
  expect_null(one$tree)
  expect_identical(one$medians[1, ], apply(x, 2, median))
})

test_that("the top of a tree takes the observations of the whole tree", {
  for (top in list(cutree_top(h, 60), cutree_apriori(h))) {
    found <- drawn(top, x, cut_populations(top, 4, 30), gates = gate)
    whole <- drawn(h, x, cut_populations(h, 4, 30), gates = gate)
    parts <- c("medians", "sizes", "gates")
    expect_identical(found[parts], whole[parts])
  }
})

test_that("trees of other packages, unnamed columns and unscaled medians are drawn", {
  u <- as.matrix(USArrests)
  tree <- hclust(dist(u), "average")
  found <- drawn_by_both(tree, u, 3, scale = FALSE, main = "Arrests")
  expect_identical(colnames(found$medians), colnames(u))
  expect_identical(colnames(drawn(tree, unname(u), 3)$medians), as.character(1:4))
  constant <- cbind(u, 7)
  expect_identical(drawn(tree, constant, 3)$medians[, 5], c("1" = 7, "2" = 7, "3" = 7))
})

test_that("scaled medians go from the 1st to the 99th percentile", {
  ends <- apply(x, 2, quantile, c(0.01, 0.99))
  medians <- rbind(ends[1, ], ends[2, ], colMeans(ends), ends[1, ] - 1)
  scaled <- unit_scaled(medians, x)
  expect_equal(unname(scaled), matrix(c(0, 1, 0.5, 0), 4, 4))
})

test_that("the settings of graphics are as before", {
  on_no_screen({
    before <- graphics::par(no.readonly = TRUE)
    plot_populations(h, x, population, engine = "base")
    after <- graphics::par(no.readonly = TRUE)
  })
  expect_identical(after[c("mar", "oma", "mfrow", "cex")], before[c("mar", "oma", "mfrow", "cex")])
})

test_that("wrong arguments are refused", {
  refused <- function(object, message) {
    expect_refused(on_no_screen(object), message, by = "plot_populations")
  }
  refused(plot_populations(x, x), "`tree` is a numeric matrix")
  refused(plot_populations(h, x[1:9, ]), "`x` has 9 rows; the tree has 1000 leaves")
  refused(plot_populations(h, x[1000:1, ]), "`x` has the tree's observations in another order")
  refused(plot_populations(cutree_apriori(h), x[1000:1, ]), "`x` has the tree's observations in")
  refused(plot_populations(h, x, 1:3), "`populations` has length 3")
  refused(plot_populations(h, x, rep(1:2, 500)), "`populations` are not clusters of `tree`")
  refused(plot_populations(h, x, gates = gate[-1]), "`gates` has length 999")
  refused(plot_populations(h, x, samples = list(1)), "`samples` is a list")
  long <- structure(rep(2^-1074, 1000), class = "integer64")
  refused(plot_populations(h, x, gates = long), "`gates` has labels of class \"integer64\"")
  refused(plot_populations(h, x, engine = "ggplot"), "`engine` is \"ggplot\"")
  refused(plot_populations(h, x, scale = 2), "`scale` is 2")
  refused(plot_populations(h, x, gate = gate, colour = 2), "unused argument: `colour`")
  refused(plot_populations(h, x, matrix = x), "unused argument: `matrix`")
  refused(plot_populations(h, x, engine = "base", row_split = 2), "unused argument: `row_split`")
})

test_that("the samples of a flowSet are known", {
  cells <- flow_cells()
  set <- flow_set(list(a = cells$frame, b = flow_cells(100)$frame))
  h <- gmhclust(set, threshold = 30)
  population <- cut_populations(h, 3, 20)
  found <- on_no_screen(plot_populations(h, set, population, engine = "base"))
  expect_identical(colnames(found$samples), c("a", "b"))
  expect_identical(
    cut_populations(h, 3, 20, rest = "nearest", x = set, channels = c("CD3", "CD4"))[],
    cut_populations(h, 3, 20, rest = "nearest", x = observations(set)[, c("CD3", "CD4")])[]
  )
})

test_that("an error about the number of populations names `populations`, and what helps", {
  refused <- function(object, message, by = "plot_populations") {
    error <- expect_error(on_no_screen(object), class = "gmhclust_error_input")
    expect_identical(as.character(conditionCall(error)[[1]]), by)
    expect_match(conditionMessage(error), message, fixed = TRUE)
    expect_no_match(conditionMessage(error), "`k`|see `min_members`")
  }
  helps <- "call cut_populations() with `min_members`, and give its value as `populations`"
  refused(plot_populations(h, x, 900), "`populations` is 900; the tree has only")
  refused(plot_populations(h, x, 900), helps)
  refused(plot_populations(h, x, 1.5), "`populations` is 1.5; it must be")
  refused(plot_tree(h, populations = 900), helps, by = "plot_tree")
})

# ---- pictures of usual sizes --------------------------------------------------------------------

test_that("base graphics leave the edge free at every size, with all sorts of names", {
  skip_without_cairo()
  sizes <- list(c(504, 400), c(672, 480), c(800, 600), c(1200, 700))
  settings <- list(
    list(k = 7, p = 14, samples = 20, gates = 12), list(k = 30, p = 40, samples = 120, gates = 12),
    list(k = 60, p = 14, samples = 0, gates = 40, names = "unicode"),
    list(k = 2, p = 40, samples = 20, gates = 0, names = "empty")
  )
  for (setting in settings) {
    case <- do.call(picture_case, setting)
    for (size in sizes) for (res in c(72, 96)) {
      ink <- edge_ink(size, res, draw_case(case, "base"))
      expect_equal(ink, 0, info = paste(c(setting, size, res), collapse = " "))
    }
  }
})

test_that("ComplexHeatmap leaves the edge free, and gives heat maps and names their space", {
  skip_without_cairo()
  skip_if_not(has_complex_heatmap())
  settings <- list(
    list(size = c(504, 400), res = 96, k = 30, p = 40, samples = 120, gates = 40),
    list(size = c(672, 336), res = 84, k = 7, p = 14, samples = 0, gates = 12),
    list(size = c(1200, 700), res = 72, k = 7, p = 14, samples = 20, gates = 12),
    list(size = c(800, 600), res = 72, k = 60, p = 14, samples = 20, gates = 6, names = "unicode")
  )
  drawn_size <- function(viewport) {
    grid::seekViewport(viewport)
    on.exit(grid::upViewport(0))
    c(grid::convertWidth(grid::unit(1, "npc"), "inches", valueOnly = TRUE),
      grid::convertHeight(grid::unit(1, "npc"), "inches", valueOnly = TRUE))
  }
  for (setting in settings) {
    case <- do.call(picture_case, setting[-(1:2)])
    info <- paste(setting$size, collapse = " x ")
    ink <- edge_ink(setting$size, setting$res, {
      p <- draw_case(case, "ComplexHeatmap")
      names <- p$heatmap@ht_list[["median"]]@column_names_param
      size <- names$gp$fontsize
      shown <- nzchar(names$labels)
      width <- drawn_size("median_heatmap_body_1_1")[1]
      # Names stand beside each other, and no name is longer than its place.
      expect_lte(sum(shown) * size / 72, width * 1.05)
      expect_lte(max(text_widths(names$labels, size)), drawn_size("median_column_names_1")[2])
    })
    expect_equal(ink, 0, info = info)
  }
})

test_that("the ink of a text at the edge is found", {
  skip_without_cairo()
  write <- function(x) {
    par(mar = c(0, 0, 0, 0))
    plot.new()
    text(x, 0.5, "CD3_PerCP-eFluor710")
  }
  expect_equal(edge_ink(c(504, 400), 72, write(0.5)), 0)
  expect_gt(edge_ink(c(504, 400), 72, write(0.95)), 0)
})

test_that("panels and their text are inside of the picture and beside each other", {
  for (size in list(c(5.25, 4.17), c(7, 5.6), c(8, 4), c(16.7, 9.7))) {
    for (setting in list(c(7, 14, 20, 12), c(30, 40, 120, 12), c(60, 14, 0, 40), c(2, 40, 20, 0))) {
      case <- do.call(picture_case, as.list(setting))
      plan <- on_no_screen(plan_of(case, size))
      info <- paste(c(size, setting), collapse = " ")
      place <- panel_places(plan)
      there <- plan$width > 0
      there <- names(place$left)[place$right > place$left]
      left <- place$left[there]
      right <- place$right[there]
      expect_true(all(left[-1] >= right[-length(right)] - 1e-9), info = info)
      expect_gte(min(left), picture_margin - 1e-9)
      expect_lte(max(right), size[1] - picture_margin + 1e-9)
      used <- plan$title$height + plan$headings$height + plan$body + plan$below + plan$note$height
      expect_lte(used, size[2] - 2 * picture_margin + 1e-9)
      # Names have their height beside each other, and their length below the heat map.
      fits <- function(names, panel) {
        if (is.null(names)) return(TRUE)
        pitch <- plan$width[[panel]] / length(names$text) * names$step
        names$points / 72 <= pitch && names$length <= plan$below && names$points >= least_points
      }
      expect_true(fits(plan$markers, "medians") && fits(plan$samples, "samples"), info = info)
      # Medians are never squeezed: each is a pixel and a half wide.
      expect_gte(plan$width[["medians"]], 1.5 / 72 * setting[2])
      expect_lte(sum(plan$keys$heights), size[2])
    }
  }
})

test_that("names shrink, then are wrapped, then left out in equal steps, then cut", {
  on_no_screen({
    names <- c("CD3_PerCP-eFluor710", "CD4_BV421", "CD8_APC-Fire750")
    long <- max(text_widths(names, 9))
    roomy <- fit_names(names, 0.3, long, 9)
    shrunk <- fit_names(names, 0.3, 0.9 * long, 9)
    wrapped <- fit_names(names, 0.4, 0.6 * long, 9)
    thin <- fit_names(names, 0.05, long, 9)
    cut <- fit_names(names, 0.1, 0.3 * long, 9)
  })
  expect_identical(roomy[c("text", "points", "step", "is_cut")],
                   list(text = names, points = 9, step = 1L, is_cut = FALSE))
  expect_identical(shrunk$text, names)
  expect_true(shrunk$points < 9 && shrunk$length <= 0.9 * long)
  expect_identical(gsub("\n", "", wrapped$text), names)
  expect_match(wrapped$text[1], "\n")
  expect_lte(wrapped$length, 0.6 * long)
  expect_identical(thin$text, c(names[1], "", names[3]))
  expect_identical(thin$step, 2L)
  expect_true(cut$is_cut)
  expect_match(cut$text[1], "^CD3.*[.][.][.].*0$")
  expect_lte(cut$length, 0.3 * long)
})

test_that("a picture says what it leaves out, and only then", {
  case <- picture_case(30, 40, 120, 12)
  expect_message(on_no_screen(draw_case(case, "base")), class = "gmhclust_message_picture",
                 regexp = "7.0 x 7.0 inches .* every 2nd marker has its name; every 1.th sample")
  expect_silent(on_no_screen(plot_populations(h, x, population, gates = gate, engine = "base")))
  expect_identical(ordinal(2L), "2nd")
  expect_identical(vapply(c(3L, 4L, 11L, 13L, 21L, 22L), ordinal, ""),
                   c("3rd", "4th", "11th", "13th", "21st", "22nd"))
})

test_that("too small a device is an error that says which size is needed", {
  case <- picture_case(7, 14, 20, 12)
  for (engine in c("base", if (has_complex_heatmap()) "ComplexHeatmap")) {
    for (size in list(c(2, 1.5), c(8, 1), c(1, 8))) {
      grDevices::pdf(NULL, size[1], size[2])
      error <- tryCatch(draw_case(case, engine), error = identity)
      grDevices::dev.off()
      expect_s3_class(error, "gmhclust_error_input")
      expect_match(conditionMessage(error), "needs at least [0-9.]+ x [0-9.]+ inches, not ")
    }
  }
})

test_that("samples and gates are in the order of the user", {
  samples <- paste0("patient", rep(c(2, 10, 1, 11, 100), 200))
  order <- function(samples) colnames(drawn(h, x, population, samples = samples)$samples)
  expect_identical(order(samples), paste0("patient", c(1, 2, 10, 11, 100)))
  expect_identical(colnames(drawn(h, x, population, gates = samples)$gates),
                   paste0("patient", c(1, 2, 10, 11, 100)))
  levels <- paste0("patient", c(100, 10, 11, 2, 1))
  expect_identical(order(factor(samples, c(levels, "patient7"))), levels)
  expect_identical(order(rep(c(20, 3, 100000, 1.5, -7), 200)), c("-7", "1.5", "3", "20", "100000"))
  expect_identical(order(rep(c("b", "B", "a10b2", "a9", "a10b1"), 200)),
                   c("a9", "a10b1", "a10b2", "B", "b"))
  expect_identical(natural_sort(c("x010", "x9", "x10", "", "\u00e9 2", "z")),
                   c("", "x9", "x010", "x10", "z", "\u00e9 2"))
  expect_identical(natural_sort(c("a\xff", "a")), c("a", "a\xff"))
})

test_that("colours of gates are far apart, and do not depend on their number", {
  lab <- grDevices::convertColor(t(grDevices::col2rgb(gate_colours(24))) / 255, "sRGB", "Lab")
  expect_gt(min(dist(lab)), 25)
  expect_identical(gate_colours(40)[1:12], gate_colours(12))
  expect_identical(anyDuplicated(gate_colours(60)), 0L)
})

test_that("two pictures of base graphics stand side by side", {
  on_no_screen({
    graphics::par(mfrow = c(1, 2))
    plot_populations(h, x, 3, engine = "base")
    first <- graphics::par("mfg")
    plot_populations(h, x, 3, engine = "base")
    second <- graphics::par("mfg")
  })
  expect_identical(c(first[2], second[2]), 1:2)
})

test_that("arguments go on to ComplexHeatmap, whose picture can be extended", {
  skip_if_not(has_complex_heatmap())
  on_no_screen({
    p <- plot_populations(h, x, population, gates = gate, row_split = 2, row_title = "part %s",
                          column_title = "my medians", heatmap_legend_side = "left",
                          engine = "ComplexHeatmap")
    more <- ComplexHeatmap::Heatmap(p$medians, name = "more")
    whole <- ComplexHeatmap::draw(p$heatmap + more, merge_legends = TRUE)
  })
  medians <- p$heatmap@ht_list[["median"]]
  expect_identical(medians@column_title, "my medians")
  expect_setequal(unlist(ComplexHeatmap::row_order(whole)), 1:5)
  expect_length(ComplexHeatmap::row_order(whole), 2)
  expect_true("more" %in% names(whole@ht_list))
  expect_identical(medians@matrix, unit_scaled(p$medians, x))
})

test_that("arguments of observations() and of ComplexHeatmap are told apart", {
  skip_if_not(has_complex_heatmap())
  frame <- flow_cells()$frame
  tree <- gmhclust(frame, threshold = 30, channels = c("CD3", "CD4"))
  found <- on_no_screen(plot_populations(tree, frame, 3, channels = c("CD3", "CD4"), border = TRUE,
                                         engine = "ComplexHeatmap"))
  expect_identical(colnames(found$medians), c("CD3", "CD4"))
  expect_true(found$heatmap@ht_list[["median"]]@matrix_param$border)
})

test_that("a doubtful column is told of once", {
  cells <- some_cells(300)
  tree <- gmhclust(cells, 20, warn = FALSE)
  messages <- character(0)
  on_no_screen(withCallingHandlers(
    plot_populations(tree, cbind(cells, id = seq_len(300)), engine = "base"),
    gmhclust_message_columns = function(m) {
      messages <<- c(messages, conditionMessage(m))
      invokeRestart("muffleMessage")
    }
  ))
  expect_length(messages, 1)
})
