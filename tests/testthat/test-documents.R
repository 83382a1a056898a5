# The documents are beside the tests only in the source repository.
document <- function(...) test_path("..", "..", ...)

# The lines between `begin`, a regular expression, and the end of the block, of the block of code
# that has the line `within`.
code_block <- function(file, begin, within) {
  lines <- readLines(file, encoding = "UTF-8")
  ends <- which(lines == "```")
  blocks <- lapply(grep(begin, lines), function(from) {
    to <- ends[ends > from][1]
    lines[seq_len(to - from - 1L) + from]
  })
  Find(function(block) any(grepl(within, block, fixed = TRUE)), blocks)
}

# The blocks of R code of a Markdown file: a list of lines; `is_run`, whether no comment
# <!-- not run: WHY --> is above.
r_blocks <- function(lines) {
  begins <- which(lines == "```r")
  ends <- which(lines == "```")
  lapply(begins, function(begin) {
    end <- ends[ends > begin][1]
    above <- if (begin > 1) lines[begin - 1] else ""
    is_run <- !grepl("^<!-- not run: .+ -->$", above)
    list(lines = lines[seq_len(end - begin - 1L) + begin], is_run = is_run)
  })
}

# Named arguments in code that exported functions of gmhclust do not have: "function(argument)".
# A function with `...` also has the arguments of observations() and of its methods.
unknown_arguments <- function(code) {
  exported <- getNamespaceExports("gmhclust")
  found <- character(0)
  arguments_of <- function(name) {
    own <- names(formals(getExportedValue("gmhclust", name)))
    if (!"..." %in% own) return(own)
    ours <- asNamespace("gmhclust")
    methods <- grep(paste0("^(observations|", name, ")\\."), ls(ours), value = TRUE)
    others <- lapply(methods, function(method) names(formals(get(method, ours))))
    c(own, unlist(others))
  }
  look <- function(part) {
    name <- if (is.name(part[[1]])) as.character(part[[1]]) else ""
    if (name %in% exported) {
      unknown <- setdiff(names(part), c("", arguments_of(name)))
      if (length(unknown) > 0) found <<- c(found, paste0(name, "(", unknown, ")"))
    }
    for (i in seq_along(part)) if (is.call(part[[i]])) look(part[[i]])
  }
  for (part in as.list(code)) if (is.call(part)) look(part)
  found
}

readme_blocks <- function() r_blocks(readLines(document("README.md"), encoding = "UTF-8"))

test_that("every call in README has arguments that its function has", {
  skip_if_not(file.exists(document("README.md")), "the source repository is not here")
  blocks <- readme_blocks()
  expect_gt(length(blocks), 4)
  for (block in blocks) expect_identical(unknown_arguments(parse(text = block$lines)), character(0))
})

test_that("an argument that a function in code has not is found", {
  code <- quote({
    h <- gmhclust(x, threshold = 1, channels = "CD3", colour = 2)
    y <- lapply(1, function(i) cut_populations(h, k = i, level = "finer", count = 3))
    hclust(d, colour = 2)
    x[, 1]
  })
  expect_identical(unknown_arguments(list(code)), c("gmhclust(colour)", "cut_populations(count)"))
})

test_that("every block of README that is not marked runs", {
  skip_if_not(file.exists(document("README.md")), "the source repository is not here")
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  here <- new.env(parent = globalenv())
  blocks <- Filter(function(block) block$is_run, readme_blocks())
  expect_gt(length(blocks), 1)
  for (block in blocks) {
    shown <- utils::capture.output(
      expect_error(suppressMessages(source(exprs = parse(text = block$lines), local = here)), NA)
    )
  }
  finds <- grep("cut_populations", unlist(lapply(blocks, `[[`, "lines")), value = TRUE)
  k <- as.integer(sub(".*# finds ([0-9]+):.*", "\\1", grep("# finds", finds, value = TRUE)))
  found <- eval(parse(text = grep("# finds", finds, value = TRUE)), here)
  expect_identical(length(setdiff(unique(as.integer(found)), 0L)), k)
})

test_that("README has the lines from an FCS file to a picture that the vignette runs", {
  skip_if_not(file.exists(document("README.md")), "the source repository is not here")
  lines <- code_block(document("README.md"), "^```r$", "read.FCS")
  expect_lt(length(lines), 15)
  shown <- code_block(document("vignettes", "fcs.Rmd"), "^```\\{r short,", "read.FCS")
  expect_identical(lines, c("library(flowCore)", shown))
})

test_that("the vignette's FCS file has the values, markers and spillover that were written", {
  helpers <- document("vignettes", "flow-files.R")
  skip_if_not(file.exists(helpers), "the source repository is not here")
  written <- new.env()
  sys.source(helpers, written)
  values <- cbind("FSC-A" = 1:9 * 1000, "PE-A" = 1:9 / 8, "FITC-A" = -(1:9), Time = 1:9)
  spill <- matrix(c(1, 0.2, 0.05, 1), 2, dimnames = rep(list(c("PE-A", "FITC-A")), 2))
  file <- tempfile(fileext = ".fcs")
  on.exit(unlink(file))
  written$write_fcs(values, c(NA, "CD3", "CD4", NA), spill, file)
  expect_identical(
    written$read_fcs(file),
    list(values = values, markers = c(NA, "CD3", "CD4", NA), spill = spill)
  )
  skip_if_not_installed("flowCore")
  frame <- flowCore::read.FCS(file, transformation = FALSE, truncate_max_range = FALSE)
  expect_identical(observations(frame, c("CD3", "CD4"), use = "channel"), values[, 2:3])
  expect_equal(unname(flowCore::spillover(frame)$SPILL), unname(spill))
})

test_that("tools/quickstart draws the picture of README's first example", {
  skip_if_not(file.exists(document("tools", "quickstart.R")), "not in the source repository")
  skip_without_cairo(grDevices::png)
  picture <- tempfile(fileext = ".png")
  script <- normalizePath(document("tools", "quickstart.R"))
  libraries <- paste(.libPaths(), collapse = .Platform$path.sep)
  before <- setwd(document())
  on.exit(setwd(before))
  command <- c("--vanilla", shQuote(c(script, picture)))
  printed <- system2(
    file.path(R.home("bin"), "Rscript"), command, stdout = TRUE, stderr = FALSE,
    env = paste0("R_LIBS=", libraries)
  )
  expect_null(attr(printed, "status"))
  expect_match(printed, "^tree <- gmhclust\\(x, threshold = 100\\)$", all = FALSE)
  expect_match(printed, "^4 populations of at least 200 members", all = FALSE)
  expect_gt(file.size(picture), 10000)
})
