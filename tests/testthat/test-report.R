skip_if_not_installed("jsonlite")

# The content of a page, as its script reads it.
content_of <- function(file) {
  page <- paste(readLines(file, encoding = "UTF-8", warn = FALSE), collapse = "\n")
  start <- "<script type=\"application/json\" id=\"content\">"
  parts <- strsplit(page, start, fixed = TRUE)[[1]]
  expect_length(parts, 2)
  jsonlite::fromJSON(sub("</script>.*", "", parts[2]), simplifyVector = TRUE)
}

bytes_of <- function(text) as.integer(jsonlite::base64_dec(text))

page_of <- function(..., file = new_file()) {
  report(..., file = file)
  content_of(file)
}

new_file <- function() tempfile(fileext = ".html")

cells <- lymphocytes()[seq(1, 20000, by = 10), ]
x <- as.matrix(cells[1:14])
tree <- gmhclust(x, threshold = 50, warn = FALSE)
populations <- cut_populations(tree, x = x)

refused <- function(object, message) expect_refused(object, message, by = "report")

# The leaves below a merge or leaf of a tree.
below <- function(merge, id) {
  if (id < 0) return(-id)
  unlist(lapply(merge[id, ], below, merge = merge))
}

test_that("every branch has the numbers of its cells", {
  page <- page_of(tree, x, populations = populations, samples = cells$ids, most = 12)
  branches <- page$branches
  count <- length(branches$id)
  expect_identical(count, 23L)
  quantiles <- array(page$quantiles, c(5, 14, count))
  samples <- matrix(page$samples$counts, 20)
  for (b in seq_len(count)) {
    rows <- sort(below(tree$merge, branches$id[b]))
    expect_identical(branches$size[b], length(rows))
    expect_identical(branches$first[b], rows[1])
    for (j in c(1, 9)) {
      expected <- stats::quantile(x[rows, j], c(0.05, 0.25, 0.5, 0.75, 0.95), names = FALSE)
      expect_equal(quantiles[, j, b], expected, tolerance = 1e-4)
    }
    expect_identical(samples[, b], as.vector(table(factor(cells$ids[rows], unique(cells$ids)))))
  }
  expect_identical(page$samples$labels, as.character(sort(unique(cells$ids))))
  expect_null(page$gates)
})

test_that("parts of a branch are those of its split", {
  page <- page_of(tree, x, populations = populations)
  splits <- attr(populations, "splits")
  at <- page$splits$number
  expect_identical(page$branches$size[2 * seq_along(at)], as.integer(splits$first[at]))
  expect_equal(page$splits$height, splits$height[at], tolerance = 1e-4)
  expect_equal(page$splits$valley, splits$valley[at], tolerance = 1e-2)
  for (s in seq_along(at)) {
    of <- match(s, page$branches$split)
    expect_identical(page$branches$parent[2 * s + 0:1], c(of, of))
  }
})

test_that("branches have the support of stability()", {
  set.seed(1)
  grouped <- gmhclust(x, threshold = 50, apriori = 200, warn = FALSE)
  support <- stability(grouped, x, times = 5, populations = FALSE)
  for (shown in list(grouped, cutree_apriori(grouped))) {
    page <- page_of(shown, x, support = support)
    of_tree <- page$branches$id + length(grouped$order) - length(shown$order)
    expected <- support$branches$mean[match(of_tree, support$branches$merge)]
    expect_gt(sum(!is.na(expected)), 5)
    expect_equal(as.numeric(page$branches$support), expected, tolerance = 1e-2)
  }
  expect_null(page_of(grouped, x)$branches$support)
  expect_refused(report(grouped, x, new_file(), support = 1), "`support` is 1", by = "report")
  other <- gmhclust(x[1:100, ], threshold = 20, warn = FALSE)
  expect_refused(report(other, x[1:100, ], new_file(), support = support),
                 "`support` has merges that the tree does not have", by = "report")
  expect_refused(report(tree, x, new_file(), support = support), "`support` is of another tree",
                 by = "report")
})

test_that("the sample has cells of its branches, and some of each", {
  page <- page_of(tree, x, populations = populations)
  range <- matrix(page$range, 2)
  even <- bytes_of(page$sample$even)
  values <- matrix(bytes_of(page$sample$values), length(even))
  step <- (range[2, ] - range[1, ]) / 255
  expect_identical(length(even), 2000L)
  bytes <- t(round((t(x) - range[1, ]) / step))
  bytes[] <- pmin(pmax(bytes, 0), 255)
  for (b in seq_along(page$branches$id)) {
    inside <- seq(page$sample$from[b], page$sample$to[b])
    rows <- below(tree$merge, page$branches$id[b])
    expect_gte(length(inside), min(60, length(rows)))
    expect_lte(length(inside), length(rows))
    # The first and the last cell, and one between. The range of the page has six digits.
    for (cell in inside[c(1, length(inside) %/% 2 + 1, length(inside))]) {
      apart <- colSums(abs(t(bytes[rows, , drop = FALSE]) - values[cell, ]) > 1)
      expect_true(any(apart == 0))
    }
  }
})

test_that("densities have the mode of their cells, and one at each end at most", {
  set.seed(3)
  far <- c(stats::rnorm(500), stats::rnorm(500, 50))
  near <- as.integer(density_bytes(sort(far[1:500]), c(-5, 5)))
  expect_lt(abs(which.max(near) - 50), 10)
  density <- as.integer(density_bytes(sort(far), c(-5, 55)))
  peaks <- which(density > 200)
  expect_true(any(peaks < 15) && any(peaks > 85))
  expect_identical(max(density), 255L)
  expect_identical(as.integer(density_bytes(rep(1, 9), padded(c(1, 1))))[1], 0L)
  # An equal part of the mass, whatever the bandwidth.
  for (width in c(0.01, 1, 1e6)) {
    expect_equal(colSums(kernel_matrix(width)), rep(1, density_steps))
  }
})

# The bandwidth of equal values has no meaning in stats.
bandwidth_of_stats <- function(values) {
  if (min(values) == max(values)) 0 else stats::bw.nrd0(values)
}

test_that("quantiles are those of stats", {
  set.seed(4)
  for (n in c(1, 2, 3, 10, 101)) {
    values <- sort(round(stats::rnorm(n), 1))
    levels <- c(0, 0.05, 0.25, 0.5, 0.95, 1)
    expected <- stats::quantile(values, levels, names = FALSE)
    expect_equal(quantiles_of_sorted(values, levels), expected)
    if (n > 1) expect_equal(bandwidth(values), bandwidth_of_stats(values))
  }
})

test_that("the same arguments write the same bytes, and the random numbers stay", {
  first <- new_file()
  second <- new_file()
  set.seed(1)
  before <- .Random.seed
  expect_identical(report(tree, x, first, populations), first)
  expect_invisible(report(tree, x, second, populations))
  expect_identical(.Random.seed, before)
  expect_identical(readBin(first, "raw", 1e7), readBin(second, "raw", 1e7))
})

test_that("a page has the populations that it gets", {
  named <- name_populations(populations, c("a" = 1, "b" = 2, "b" = 3))
  page <- page_of(tree, x, populations = named)
  is_named <- levels(named) %in% c("a", "b")
  expect_identical(page$begin$names, ifelse(is_named, levels(named), ""))
  ids <- lapply(page$begin$groups, function(group) page$branches$id[group])
  expect_identical(lapply(ids, as.integer), lapply(attr(named, "roots"), as.integer))
  replayed <- cut_populations(tree, branches = ids, min_members = page$least)
  expect_identical(as.integer(replayed), as.integer(named))
  # All leaves, one population, and a number.
  one <- page_of(tree, x, populations = 1)
  expect_identical(one$begin$groups, matrix(1L))
  expect_identical(page_of(tree, x)$least, 20L)
})

test_that("populations that were found in any way have a page", {
  dense <- ghclust(x, "single", min_points = 10)
  some <- attr(cut_populations(tree, 6), "roots")[c(1, 4)]
  found <- list(
    list(tree, cut_populations(tree)), list(tree, cut_populations(tree, 5)),
    list(dense, cut_populations(dense)), list(tree, cut_populations(tree, branches = some))
  )
  for (given in found) {
    page <- page_of(given[[1]], x, populations = given[[2]])
    ids <- lapply(page$begin$groups, function(group) page$branches$id[group])
    again <- cut_populations(given[[1]], branches = ids, min_members = page$least)
    expect_identical(as.integer(again), as.integer(given[[2]]))
  }
  # A page shows populations without the cells that rest = "nearest" assigns.
  near <- cut_populations(tree, 5, rest = "nearest", x = x)
  expect_identical(page_of(tree, x, populations = near)$begin,
                   page_of(tree, x, populations = cut_populations(tree, 5))$begin)
})

test_that("the calls have the expressions of the arguments", {
  of <- function(call) code_parts(match.call(report, call))
  expect_identical(of(quote(report(tree, x))), list(tree = "tree", x = "x = x"))
  expect_identical(of(quote(report(`my tree`, `2x`, `a b` = 1))),
                   list(tree = "`my tree`", x = "x = `2x`, `a b` = 1"))
  expect_identical(of(quote(report(f$tree, file = "a", x[, 1:14], most = 3, assay = "exprs"))),
                   list(tree = "f$tree", x = "x = x[, 1:14], assay = \"exprs\""))
  # An object, a long expression, and an argument of the caller.
  for (given in list(x, str2lang(paste(rep("x", 50), collapse = "+")), quote(..1))) {
    expect_identical(of(as.call(list(quote(report), given, given))), list(tree = "tree", x = ""))
  }
  expect_identical(page_of(tree, x, populations = populations)$code, list(tree = "tree", x = ""))
})

test_that("text cannot end a script, and stays as it is", {
  names <- c("</script><script>alert(1)</script>", "<!--", "\u03b3\u03b4 & \"q\" \\ \u2028", "]]>")
  named <- name_populations(populations, stats::setNames(seq_along(names), names))
  odd <- x
  colnames(odd)[1:3] <- c("<b>", "</SCRIPT>", "\U1F9EC")
  file <- new_file()
  samples <- rep(c("<img src=x>", "\u7d30\u80de"), length.out = nrow(x))
  report(tree, odd, file, named, samples = samples, title = "</title><script>&amp;")
  page <- paste(readLines(file, encoding = "UTF-8", warn = FALSE), collapse = "\n")
  tags <- function(pattern) lengths(regmatches(page, gregexpr(pattern, page, ignore.case = TRUE)))
  expect_identical(tags("</script"), 2L)
  expect_identical(tags("<script"), 2L)
  expect_identical(tags("</title"), 1L)
  expect_identical(tags("<img"), 0L)
  content <- content_of(file)
  expect_identical(content$begin$names[seq_along(names)], names)
  expect_identical(content$columns[1:3], colnames(odd)[1:3])
  expect_identical(content$samples$labels, sort(unique(samples), method = "radix"))
  expect_identical(content$title, "</title><script>&amp;")
  expect_true(validUTF8(page))
})

test_that("the policy has the digests of the script and the style", {
  file <- new_file()
  report(tree, x, file, populations)
  page <- paste(readLines(file, encoding = "UTF-8", warn = FALSE), collapse = "\n")
  policy <- sub(".*Content-Security-Policy\" content=\"([^\"]*)\".*", "\\1", page)
  expect_match(policy, "^default-src 'none'; script-src 'sha256-[^']*'; style-src 'sha256-[^']*';")
  script <- sub(".*<script>(.*)</script>.*", "\\1", page)
  style <- sub(".*<style>(.*)</style>.*", "\\1", page)
  for (text in c(script, style)) expect_match(policy, policy_hash(text), fixed = TRUE)
  # FIPS 180-2, appendix B.1.
  expect_identical(
    sha256_of_text("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
  )
  # Nothing else is loaded.
  expect_no_match(page, "<link|<iframe| src=|@import|url\\(")
})

test_that("modules share no names, and import only what is before them", {
  modules <- lapply(stats::setNames(nm = page_modules), page_source)
  declared <- function(text) {
    found <- regmatches(text, gregexpr(
      "(?m)^(export )?(async )?(function|const|let|class) +\\w+", text, perl = TRUE
    ))[[1]]
    sub(".* ", "", found)
  }
  names <- lapply(modules, declared)
  expect_identical(anyDuplicated(unlist(names)), 0L)
  for (i in seq_along(modules)) {
    from <- regmatches(modules[[i]], gregexpr("from \"\\./[a-z0-9.]+\"", modules[[i]]))[[1]]
    from <- sub("from \"./(.*)\"", "\\1", from)
    expect_identical(setdiff(from, c("d3.min.js", page_modules[seq_len(i - 1)])), character(0))
    expect_no_match(modules[[i]], "import [^;]* as (?!d3)", perl = TRUE)
  }
  expect_no_match(page_script(), "(^|\n)(import|export) ")
})

test_that("the top of a tree, and observations without names, have a page", {
  top <- cutree_top(tree, 300)
  page <- page_of(top, unname(x), populations = cut_populations(top, 4))
  expect_identical(page$cells, 2000L)
  expect_identical(page$columns, as.character(1:14))
  expect_identical(page$branches$size[1], 2000L)
  rows <- which(top$leaf %in% below(top$merge, page$branches$id[2]))
  expect_identical(page$branches$size[2], length(rows))
  expect_equal(array(page$quantiles, c(5, 14, length(page$branches$id)))[3, 5, 2],
               stats::median(x[rows, 5]), tolerance = 1e-4)
  two <- gmhclust(x[1:2, ], warn = FALSE)
  page <- page_of(two, x[1:2, ], populations = cut_populations(two, 2, min_members = 1))
  expect_identical(page$branches$id, c(1L, -1L, -2L))
  same <- matrix(1, 30, 2, dimnames = list(NULL, c("a", "b")))
  page <- page_of(stats::hclust(stats::dist(same)), same, populations = 1)
  expect_false(anyNA(page$range))
})

test_that("a page of many columns and labels stays small", {
  set.seed(2)
  wide <- matrix(stats::rnorm(3000 * 300), 3000)
  wide[1:1500, ] <- wide[1:1500, ] + 1
  h <- ghclust(wide, "ward.D2")
  file <- new_file()
  labels <- paste("label", rep_len(1:500, 3000))
  report(h, wide, file, cut_populations(h, 5), gates = labels, samples = labels, most = 1000)
  expect_lt(file.size(file), 5e6)
  page <- content_of(file)
  expect_lte(length(page$branches$id) * 300, most_branch_values)
  few <- new_file()
  report(h, wide[, 1:3], few, cut_populations(h, 5), most = 7)
  expect_identical(sum(content_of(few)$branches$split == 0), 7L)
})

test_that("options of the session do not change a page", {
  expected <- new_file()
  report(tree, x, expected, populations)
  before <- options(OutDec = ",", scipen = -10, digits = 3, warn = 2)
  on.exit(options(before))
  file <- new_file()
  report(tree, x, file, populations)
  expect_identical(readBin(file, "raw", 1e7), readBin(expected, "raw", 1e7))
})

test_that("numbers have a decimal point in every locale", {
  before <- Sys.getlocale("LC_NUMERIC")
  on.exit(suppressWarnings(Sys.setlocale("LC_NUMERIC", before)))
  skip_if(suppressWarnings(Sys.setlocale("LC_NUMERIC", "de_DE.UTF-8")) == "", "German locale")
  with_comma <- report(tree, x, new_file(), populations)
  expect_identical(Sys.getlocale("LC_NUMERIC"), "de_DE.UTF-8")
  suppressWarnings(Sys.setlocale("LC_NUMERIC", "C"))
  expect_identical(readLines(with_comma), readLines(report(tree, x, new_file(), populations)))
})

test_that("after an error, the file is as before and nothing is left", {
  folder <- new_file()
  dir.create(folder)
  file <- file.path(folder, "a.html")
  writeLines("mine", file)
  expect_error(write_page(list(title = stop("no title")), file, NULL), "no title")
  # Before the work begins.
  refused(report(tree, NULL, file.path(folder, "gone", "a.html"), populations),
          "its folder does not exist")
  refused(report(tree, x, folder, populations), ", which is a folder, a device or a pipe; it must")
  expect_identical(readLines(file), "mine")
  expect_identical(list.files(folder, all.files = TRUE, no.. = TRUE), "a.html")
})

test_that("an empty file is replaced, and a special file is not", {
  file <- file.path(tempdir(), "it's an empty file.html")
  expect_true(file.create(file))
  expect_identical(report(tree, x, file, populations), file)
  expect_gt(file.size(file), 1000)
  skip_on_os("windows")
  pipe <- new_file()
  skip_if(system2("mkfifo", shQuote(pipe)) != 0, "no pipe can be made")
  link <- new_file()
  file.symlink(pipe, link)
  for (special in c(pipe, link)) {
    refused(report(tree, x, special, populations), ", which is a folder, a device or a pipe;")
    # It is still a pipe: `test -p` succeeds.
    expect_identical(system2("test", c("-p", shQuote(special))), 0L)
  }
})

test_that("invalid arguments are named", {
  file <- new_file()
  refused(report(tree), "`x` is missing; it must be")
  refused(report(tree, x, 1), "`file` is 1; it must be the name of the file to write")
  refused(report(tree, x, c("a", "b")), "`file` is")
  refused(report(tree, x[-1, ], file), "`x` has 1999 rows; the tree has 2000 leaves")
  refused(report(tree, x[2000:1, ], file), "`x` has the tree's observations in another order")
  refused(report(tree, x, file, populations[1:5]), "`populations` is")
  refused(report(tree, x, file, gcutree(tree, 3)), "`populations` is")
  refused(report(tree, x, file, predict(populations, x)), "was not found in a tree")
  other <- cut_populations(gmhclust(x, threshold = 500, warn = FALSE), 9)
  refused(report(tree, x, file, other), "`populations`")
  refused(report(tree, x, file, populations, most = 1), "this page has at most 1 branches")
  refused(report(tree, x, file, populations, most = 0), "`most` is 0")
  refused(report(tree, x, file, populations, title = c("a", "b")), "`title` is")
  refused(report(tree, x, file, populations, samples = seq_len(nrow(x))),
          "`samples` has 2,000 labels; a page shows at most 500")
  refused(report(tree, x, file, populations, gates = 1:3), "`gates` has length 3")
  expect_false(file.exists(file))
})

test_that("a page that replaces a file keeps its mode, and a link its place", {
  skip_on_os("windows")
  x <- blobs(60, 3)
  tree <- ghclust(x, "average")
  folder <- tempfile("pages")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  page <- file.path(folder, "page.html")
  link <- file.path(folder, "link.html")
  file.create(page)
  Sys.chmod(page, "600")
  file.symlink(page, link)
  report(tree, x, link, populations = 2)
  expect_identical(normalizePath(Sys.readlink(link)), normalizePath(page))
  expect_identical(format(file.mode(page)), "600")
  expect_gt(file.size(page), 1000)
  long <- file.path(folder, paste0(strrep("n", 240), ".html"))
  report(tree, x, long, populations = 2)
  expect_true(file.exists(long))
  expect_identical(sort(dir(folder, all.files = TRUE, no.. = TRUE)),
                   sort(c("page.html", "link.html", basename(long))))
})
