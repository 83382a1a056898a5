# FCS files as observations, and populations written into them.

cells_of_file <- function(rows) some_cells(2000)[rows, 1:5]

test_that("files are read as they were written, in any format of numbers", {
  x <- round(cells_of_file(1:300) * 64) / 64
  whole <- round(pmax(x, 0) * 100)
  folder <- fcs_folder(
    a = list(x), b = list(x, type = "D", endian = "big"), c = list(x, endian = "big", mark = "|")
  )
  on.exit(unlink(folder, recursive = TRUE))
  found <- observations(folder)
  expect_identical(dim(found), c(900L, 5L))
  expect_identical(as.matrix(found), rbind(unname(x), unname(x), unname(x)),
                   ignore_attr = "dimnames")
  expect_identical(colnames(found), colnames(x))
  expect_output(print(found), "900 observations in 5 columns, read in blocks from 3 files")
  integers <- fcs_folder(i = list(whole, type = "I", keywords = c("$P1R" = "256")))
  expected <- unname(whole)
  expected[, 1] <- expected[, 1] %% 256
  expect_identical(unname(as.matrix(observations(integers))), expected)
  unlink(integers, recursive = TRUE)
})

test_that("channels, markers, cofactors and transforms are those of a flowFrame", {
  x <- cells_of_file(1:200)
  events <- cbind("FSC-A" = 1000, x, Time = 1:200)
  markers <- c("", "CD3", "CD4/8", "", "", "SLAM", "")
  folder <- fcs_folder(s1 = list(events, markers, type = "D"))
  on.exit(unlink(folder, recursive = TRUE))
  frame <- flow_frame(events, colnames(events), ifelse(nzchar(markers), markers, NA))
  for (arguments in list(list(), list(cofactor = 5), list(use = "channel", cofactor = 150),
                         list(channels = c("SLAM", "FSC-A")),
                         list(channels = 3:2, cofactor = c(2, 3)))) {
    expected <- do.call(observations, c(list(frame), arguments))
    found <- do.call(observations, c(list(folder), arguments))
    expect_identical(as.matrix(found), expected, ignore_attr = TRUE)
    expect_identical(colnames(found), colnames(expected))
  }
  halved <- observations(folder, cofactor = 5, transform = function(values) values / 2)
  expect_equal(as.matrix(halved), observations(frame, cofactor = 5) / 2, ignore_attr = TRUE)
  wrong <- observations(folder, transform = function(values) values[, 1])
  expect_error(wrong[1:3, ], "`transform` gave", class = "gmhclust_error_input")
})

test_that("each row belongs to its file, and columns are matched by name", {
  x <- cells_of_file(1:500)
  folder <- fcs_folder(p1 = list(x[1:100, ]), p2 = list(x[101:350, 5:1]),
                       p10 = list(x[351:500, ]))
  on.exit(unlink(folder, recursive = TRUE))
  files <- file.path(folder, c("p1.fcs", "p2.fcs", "p10.fcs"))
  found <- observations(files)
  expect_equal(as.matrix(found), x, ignore_attr = TRUE, tolerance = 1e-6)
  counts <- count_populations(rep(1:2, 250), found)
  expect_identical(counts["1", ], c(p1 = 50L, p2 = 125L, p10 = 75L))
  set.seed(1)
  fit <- gkmeans(found, 8)
  set.seed(1)
  expect_identical(fit$cluster, unname(gkmeans(as.matrix(found), 8)$cluster))
})

test_that("all files that cannot be used are named in one error", {
  x <- cells_of_file(1:50)
  folder <- fcs_folder(
    good = list(x), other = list(x[, 1:4]), log = list(round(x * 10 + 100), type = "I",
                                                       keywords = c("$P2E" = "4,1")),
    short = list(x), histogram = list(x, keywords = c("$MODE" = "C")),
    fewer = list(x, keywords = c("$TOT" = "10")), narrower = list(x, keywords = c("$PAR" = "2"))
  )
  on.exit(unlink(folder, recursive = TRUE))
  short <- file.path(folder, "short.fcs")
  bytes <- readBin(short, "raw", file.size(short))
  writeBin(utils::head(bytes, -8), short)
  writeLines("no cells", file.path(folder, "text.fcs"))
  error <- expect_error(observations(folder), class = "gmhclust_error_input")
  message <- conditionMessage(error)
  expect_match(message, "`x` names 6 of 8 files that cannot be used; ")
  expect_match(message, "log.fcs: it has logarithmic channels")
  expect_match(message, "short.fcs: it is too short for its 50 events")
  expect_match(message, "fewer.fcs: it has data of 50 events of its $PAR parameters, and $TOT",
               fixed = TRUE)
  expect_match(message, "histogram.fcs: it is no list of events")
  expect_match(message, "text.fcs: it is no FCS file")
  error <- expect_error(observations(file.path(folder, c("good.fcs", "other.fcs"))),
                        class = "gmhclust_error_input")
  expect_match(conditionMessage(error), "other.fcs: its channels differ .* it lacks \"EAT.2\"")
  expect_silent(observations(file.path(folder, c("good.fcs", "other.fcs")),
                             channels = c("CD16", "CD57")))
  expect_error(observations("nowhere.fcs"), "nowhere.fcs: it does not exist",
               class = "gmhclust_error_input")
  expect_error(observations(tempdir()), "it must have FCS or Parquet files in it",
               class = "gmhclust_error_input")
  expect_error(observations(character(0)), "names no files", class = "gmhclust_error_input")
  expect_error(observations(file.path(folder, "good.fcs"), channels = "CD99"), "has \"CD99\"",
               class = "gmhclust_error_input")
})

test_that("a parameter with a data type of its own is refused", {
  values <- matrix(1:4, 2, dimnames = list(NULL, c("CD3", "CD4")))
  file <- tempfile(fileext = ".fcs")
  write_test_fcs(file, values, keywords = c("$P2DATATYPE" = "I"))
  expect_refused(observations(file), "parameter 2 has a data type of its own ($P2DATATYPE)",
                 by = "observations.character")
  write_test_fcs(file, values, keywords = c("$P2DATATYPE" = "F"))
  expect_equal(as.matrix(observations(file)), values, ignore_attr = TRUE)
})

test_that("a file that changes while it is used is an error", {
  folder <- fcs_folder(a = list(cells_of_file(1:100)), b = list(cells_of_file(101:200)))
  on.exit(unlink(folder, recursive = TRUE))
  found <- observations(folder)
  file <- file.path(folder, "b.fcs")
  writeBin(utils::head(readBin(file, "raw", file.size(file)), -4), file)
  expect_error(gkmeans(found, 3), "has another size than before", class = "gmhclust_error_input")
  unlink(file)
  expect_error(gkmeans(found, 3), "no longer exists", class = "gmhclust_error_input")
})

test_that("populations are written into copies of the files", {
  x <- cells_of_file(1:300)
  folder <- fcs_folder(
    a = list(x[1:100, ], letters[1:5], mark = "!"), b = list(x[101:300, ], letters[1:5], type = "D",
                                                             endian = "big")
  )
  output <- tempfile("marked")
  on.exit(unlink(c(folder, output), recursive = TRUE))
  found <- observations(folder)
  population <- rep(c(0L, 1L, 3L), 100)
  old <- options(gmhclust.block_values = 60)
  files <- add_populations(found, population, output)
  options(old)
  expect_identical(basename(files), c("a.fcs", "b.fcs"))
  again <- observations(output)
  expect_identical(as.matrix(again), as.matrix(found))
  written <- observations(output, channels = "population")
  expect_identical(as.vector(as.matrix(written)), as.double(population))
  expect_false("POPULATION1" %in% names(gmhclust:::describe_fcs(files[1])$words))
  expect_error(add_populations(found, population, output), "are not written over",
               class = "gmhclust_error_input")
  expect_error(add_populations(found, population[-1], tempfile()), "has length 299",
               class = "gmhclust_error_input")
  expect_error(add_populations(again, population, tempfile()), "has a channel \"population\"",
               class = "gmhclust_error_input")
  skip_if_not_installed("flowCore")
  frame <- flowCore::read.FCS(files[2], transformation = FALSE, truncate_max_range = FALSE)
  expect_identical(unname(flowCore::exprs(frame)[, "population"]), as.double(population[101:300]))
})

test_that("names of populations are keywords, and integers stay integers", {
  x <- round(cells_of_file(1:60) * 100 + 500)
  folder <- fcs_folder(i = list(x, type = "I"))
  output <- tempfile("named")
  on.exit(unlink(c(folder, output), recursive = TRUE))
  tree <- gmhclust(x, 10, warn = FALSE)
  populations <- suppressMessages(cut_populations(tree, k = 2, min_members = 5, x = x))
  named <- name_populations(populations, c("T cells" = 1, "B\fells" = 2))
  files <- add_populations(observations(folder), named, output)
  words <- gmhclust:::describe_fcs(files)$words
  expect_identical(words[["POPULATION1"]], "T cells")
  expect_identical(words[["POPULATION2"]], "B\fells")
  expect_identical(as.matrix(observations(output)), as.matrix(observations(folder)))
})

test_that("channels that are there twice stay two, and are matched in the same order only", {
  x <- round(cells_of_file(1:40) * 64) / 64
  colnames(x)[2] <- colnames(x)[1]
  folder <- fcs_folder(a = list(x), b = list(x))
  on.exit(unlink(folder, recursive = TRUE))
  found <- observations(folder, use = "channel")
  expect_identical(unname(as.matrix(found)), unname(rbind(x, x)))
  write_test_fcs(file.path(folder, "c.fcs"), x[, c(1, 3, 2, 4, 5)])
  expect_error(observations(folder, use = "channel"), "c.fcs: its channels are in another order",
               class = "gmhclust_error_input")
})

test_that("the number of events fits the data", {
  x <- cells_of_file(1:40)
  more <- function(keywords) {
    folder <- fcs_folder(a = list(x, keywords = keywords))
    file <- file.path(folder, "a.fcs")
    # What may follow the data: an analysis, or a checksum.
    cat(strrep("0", 200), file = file, append = TRUE)
    file
  }
  expect_identical(nrow(observations(more(character(0)))), 40L)
  for (total in c("42", ".5", "-1", "many")) {
    expect_error(observations(more(c("$TOT" = total))), "\\(\\$TOT\\)",
                 class = "gmhclust_error_input")
  }
  expect_error(observations(more(c("$NEXTDATA" = "5000"))), "several data sets",
               class = "gmhclust_error_input")
  expect_error(observations(more(c("$BYTEORD" = "2,1,4,3"))), "\\$BYTEORD",
               class = "gmhclust_error_input")
})

test_that("a file without events is among others", {
  x <- cells_of_file(1:40)
  folder <- fcs_folder(a = list(x), b = list(x[0, ]), c = list(x))
  output <- tempfile("marked")
  on.exit(unlink(c(folder, output), recursive = TRUE))
  found <- observations(folder)
  counts <- count_populations(rep(1:2, 40), found)
  expect_identical(unname(colSums(counts)), c(40, 0, 40))
  files <- add_populations(found, rep(1:2, 40), output)
  expect_identical(as.matrix(observations(output)), as.matrix(found))
})

test_that("after an error, no file with populations is left", {
  x <- cells_of_file(1:40)
  folder <- fcs_folder(a = list(x), b = list(x))
  output <- tempfile("marked")
  on.exit(unlink(c(folder, output), recursive = TRUE))
  found <- observations(folder)
  # A file of the user, and a second file that changes meanwhile.
  dir.create(output)
  writeLines("mine", file.path(output, "a.fcs.part"))
  file.append(file.path(folder, "b.fcs"), file.path(output, "a.fcs.part"))
  expect_error(add_populations(found, rep(1, 80), output), "has another size",
               class = "gmhclust_error_input")
  expect_identical(list.files(output, all.files = TRUE, no.. = TRUE), "a.fcs.part")
  again <- observations(file.path(folder, "a.fcs"))
  expect_identical(nrow(again), 40L)
  add_populations(again, rep(1, 40), output)
  expect_identical(readLines(file.path(output, "a.fcs.part")), "mine")
  skip_on_os("windows")
  expect_error(add_populations(again, rep(1, 40), "/proc/nowhere/x"), "`output`",
               class = "gmhclust_error_input")
})

test_that("names of populations may have any delimiter, and old ones go", {
  x <- cells_of_file(1:40)
  folder <- fcs_folder(a = list(x, keywords = c("POPULATION7" = "old", "NOTE" = "a|b!c")))
  output <- tempfile("marked")
  on.exit(unlink(c(folder, output), recursive = TRUE))
  found <- observations(folder)
  tree <- gmhclust(as.matrix(found), 10, warn = FALSE)
  populations <- suppressMessages(cut_populations(tree, k = 2, min_members = 5))
  files <- add_populations(found, name_populations(populations, c("\fT|" = 1, "/B~" = 2)), output)
  words <- gmhclust:::describe_fcs(files)$words
  expect_identical(words[grepl("^POPULATION[0-9]", names(words))],
                   c(POPULATION1 = "\fT|", POPULATION2 = "/B~"))
  expect_identical(words[["NOTE"]], "a|b!c")
})

test_that("copies have the names of the files as they were found, and text of numbers in full", {
  x <- cells_of_file(1:50)
  folder <- fcs_folder(patient = list(x))
  linked <- tempfile("linked")
  output <- tempfile("marked")
  on.exit(unlink(c(folder, linked, output), recursive = TRUE))
  dir.create(linked)
  skip_if_not(file.symlink(file.path(folder, "patient.fcs"), file.path(linked, "first.fcs")))
  before <- options(scipen = -5)
  files <- add_populations(observations(linked), rep(1L, 50), output)
  options(before)
  expect_identical(basename(files), "first.fcs")
  expect_identical(as.matrix(observations(output)), as.matrix(observations(linked)))
  words <- describe_fcs(files)$words
  expect_identical(words[c("$PAR", "$TOT")], c("$PAR" = as.character(ncol(x) + 1), "$TOT" = "50"))
})

test_that("letters of names and keywords are compared without the locale", {
  expect_identical(ascii_lower(c("TIME I", NA, "\xff I")), c("time i", NA, "\xff i"))
  expect_identical(ascii_upper(c("spill", "\u0131i")), c("SPILL", "\u0131I"))
  names <- c("TIME", "Width", "CD3", "VIOLET SSC-A", "POPULATION", "TIMP1")
  expected <- c(TRUE, TRUE, FALSE, TRUE, TRUE, FALSE)
  expect_identical(is_no_marker(names), expected)
  before <- Sys.getlocale("LC_CTYPE")
  on.exit(Sys.setlocale("LC_CTYPE", before))
  skip_if(suppressWarnings(Sys.setlocale("LC_CTYPE", "tr_TR.UTF-8")) == "", "Turkish locale")
  expect_identical(is_no_marker(names), expected)
})
