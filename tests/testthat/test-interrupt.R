# A child R session works on a long clustering, is interrupted, and says what became of it.

session <- '
library(gmhclust, lib.loc = commandArgs(TRUE)[1])
note <- commandArgs(TRUE)[2]
set.seed(1)
x <- matrix(rnorm(300000 * 10), 300000)
say <- function(...) cat(paste(...), "\n", file = note, append = TRUE)
say("pid", Sys.getpid())
outcome <- tryCatch(
  gmhclust(x, progress = FALSE),
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

test_that("Ctrl-C stops a clustering at once and leaves R usable", {
  skip_on_os("windows")
  skip_if_not(nzchar(system.file("Meta", package = "gmhclust")), "installed gmhclust")
  script <- tempfile(fileext = ".R")
  note <- tempfile(fileext = ".txt")
  on.exit(unlink(c(script, note)))
  writeLines(session, script)
  system2(
    file.path(R.home("bin"), "Rscript"),
    c("--vanilla", shQuote(script), shQuote(dirname(system.file(package = "gmhclust"))),
      shQuote(note)),
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
})
