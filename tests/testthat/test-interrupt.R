# A child R session does long work, is interrupted, and says what became of it.

session <- '
library(gmhclust, lib.loc = commandArgs(TRUE)[1])
note <- commandArgs(TRUE)[2]
work <- parse(text = commandArgs(TRUE)[3])
set.seed(1)
x <- matrix(rnorm(300000 * 10), 300000)
say <- function(...) cat(paste(...), "\n", file = note, append = TRUE)
say("pid", Sys.getpid())
outcome <- tryCatch(
  eval(work),
  gmhclust_error_interrupt = function(condition) class(condition)[1]
)
say("outcome", if (is.character(outcome)) outcome else "finished")
again <- suppressWarnings(gmhclust(x[1:200, ], progress = FALSE))
say("again", isTRUE(check_hclust(again)))
'

wait_for <- function(note, word, seconds) {
  deadline <- Sys.time() + seconds
  while (Sys.time() < deadline) {
    lines <- if (file.exists(note)) readLines(note, warn = FALSE) else character(0)
    found <- grep(paste0("^", word, " "), lines, value = TRUE)
    if (length(found) > 0) return(trimws(sub(word, "", found[1])))
    Sys.sleep(0.02)
  }
  NA_character_
}

# Expects that `work`, an expression of the data `x` as text, stops at once and leaves R usable.
expect_interruptible <- function(work) {
  skip_on_os("windows")
  skip_if_not(nzchar(system.file("Meta", package = "gmhclust")), "installed gmhclust")
  script <- tempfile(fileext = ".R")
  note <- tempfile(fileext = ".txt")
  on.exit(unlink(c(script, note)))
  writeLines(session, script)
  system2(
    file.path(R.home("bin"), "Rscript"),
    c("--vanilla", shQuote(script), shQuote(dirname(system.file(package = "gmhclust"))),
      shQuote(note), shQuote(work)),
    wait = FALSE, stdout = FALSE, stderr = FALSE
  )
  pid <- as.integer(wait_for(note, "pid", 30))
  expect_false(is.na(pid))
  on.exit(tools::pskill(pid, tools::SIGKILL), add = TRUE)

  Sys.sleep(1.5)
  expect_identical(wait_for(note, "outcome", 0.1), NA_character_)
  sent <- Sys.time()
  tools::pskill(pid, tools::SIGINT)
  expect_identical(wait_for(note, "outcome", 30), "gmhclust_error_interrupt")
  expect_lt(as.numeric(difftime(Sys.time(), sent, units = "secs")), 5)
  expect_identical(wait_for(note, "again", 30), "TRUE")
}

test_that("Ctrl-C stops a clustering at once and leaves R usable", {
  expect_interruptible("gmhclust(x, progress = FALSE)")
})

test_that("Ctrl-C stops distances at once, whose memory R frees", {
  expect_interruptible("gdist(x[1:20000, ], \"minkowski\", p = 3, progress = FALSE)")
})

test_that("Ctrl-C stops a search for neighbours at once", {
  expect_interruptible("gknn(x, 20, progress = FALSE)")
})

test_that("Ctrl-C stops a search in blocks at once", {
  expect_interruptible("gknn(x, 20, block_rows = 30000, progress = FALSE)")
})

test_that("Ctrl-C stops a spanning tree at once", {
  expect_interruptible("gmst(x, progress = FALSE)")
})

test_that("Ctrl-C stops k-means at once", {
  expect_interruptible("gkmeans(x, 3000, 1000, progress = FALSE)")
})

test_that("Ctrl-C stops linkage from a matrix at once", {
  expect_interruptible(paste(
    "ghclust(x[1:16000, 1:2], \"centroid\", metric = \"manhattan\", precision = \"single\",",
    "progress = FALSE)"
  ))
})
