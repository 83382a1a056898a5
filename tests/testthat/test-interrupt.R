# A child R session does long work, interrupts itself as Ctrl-C does after part of the work, and
# reports the outcome. The tests depend on the order of events only, not on time.

session <- '
library(gmhclust, lib.loc = commandArgs(TRUE)[1])
work <- parse(text = commandArgs(TRUE)[2])
share <- as.numeric(commandArgs(TRUE)[3])
options(mc.cores = 2) # as much time on every machine
set.seed(1)
x <- matrix(rnorm(300000 * 10), 300000)
say <- function(...) cat(paste(...), "\\n", sep = "")
interrupted <- NULL
wait <- gmhclust:::job_wait
progress <- gmhclust:::job_progress
assignInNamespace("job_wait", function(job, seconds) {
  ended <- wait(job, seconds)
  done <- progress(job)
  if (!ended && is.null(interrupted) && done[1] > share * done[2]) {
    interrupted <<- job
    tools::pskill(Sys.getpid(), tools::SIGINT)
  }
  ended
}, "gmhclust")
outcome <- tryCatch(
  {
    eval(work)
    "finished"
  },
  gmhclust_error_interrupt = function(condition) class(condition)[1]
)
say("outcome:", outcome)
left <- if (!is.null(interrupted)) diff(progress(interrupted)) > 0
say("work was left:", left)
again <- gmhclust(x[1:200, ], progress = FALSE)
say("again:", isTRUE(check_hclust(again)))
'

# Runs a command with the default handling of SIGINT, as in a terminal. Background processes and
# their children ignore SIGINT, and a shell cannot undo that.
hears_interrupts <- function(command) {
  perl <- Sys.which("perl")
  if (!nzchar(perl)) return(command)
  c(perl, "-e", "$SIG{INT} = \"DEFAULT\"; exec @ARGV", command)
}

# Seconds after which a child counts as hanging and is killed.
most_seconds <- 1200

# Expects that `work`, an expression of the data `x` as text, stops if it is interrupted after more
# than this share of the work, and that R stays usable.
expect_interruptible <- function(work, share = 0) {
  skip_on_os("windows")
  skip_if_not(nzchar(system.file("Meta", package = "gmhclust")), "installed gmhclust")
  script <- tempfile(fileext = ".R")
  on.exit(unlink(script))
  writeLines(session, script)
  command <- hears_interrupts(c(
    file.path(R.home("bin"), "Rscript"), "--vanilla", script,
    dirname(system.file(package = "gmhclust")), work, share
  ))
  said <- system2(command[1], shQuote(command[-1]), stdout = TRUE, timeout = most_seconds)
  expect_identical(
    as.vector(said),
    c("outcome: gmhclust_error_interrupt", "work was left: TRUE", "again: TRUE")
  )
}

test_that("Ctrl-C stops a clustering and leaves R usable", {
  expect_interruptible("gmhclust(x, 0.5, backend = \"cpu\", progress = FALSE)")
})

test_that("Ctrl-C stops a clustering on a GPU", {
  skip_if_not(any(gpu_devices()$usable), "a GPU")
  expect_interruptible("gmhclust(x, 0.5, backend = \"cuda\", progress = FALSE)")
})

test_that("Ctrl-C stops distances, whose memory R frees", {
  expect_interruptible(
    "gdist(matrix(x, 3000), \"minkowski\", p = 3, backend = \"cpu\", progress = FALSE)"
  )
})

test_that("Ctrl-C stops a search for neighbours", {
  expect_interruptible("gknn(x, 20, backend = \"cpu\", progress = FALSE)")
})

test_that("Ctrl-C stops a search within a radius", {
  expect_interruptible("gneighbours(x, 0.5, backend = \"cpu\", progress = FALSE)")
})

test_that("Ctrl-C stops a search in blocks", {
  expect_interruptible("gknn(x, 20, block_rows = 30000, backend = \"cpu\", progress = FALSE)")
})

test_that("Ctrl-C stops a spanning tree", {
  expect_interruptible("gmst(x, backend = \"cpu\", progress = FALSE)")
})

test_that("Ctrl-C stops k-means", {
  expect_interruptible("gkmeans(x, x[1:3000, ], 100, backend = \"cpu\", progress = FALSE)")
})

test_that("Ctrl-C stops linkage from a matrix, while distances are made and afterwards", {
  work <- paste(
    "ghclust(x[1:16000, 1:2], \"centroid\", metric = \"manhattan\", precision = \"single\",",
    "backend = \"cpu\", progress = FALSE)"
  )
  expect_interruptible(work)
  expect_interruptible(work, share = 0.5)
})

test_that("Ctrl-C while the progress bar changes is heard after the change", {
  skip_on_os("windows")
  skip_if_not(nzchar(system.file("Meta", package = "gmhclust")), "installed gmhclust")
  script <- tempfile(fileext = ".R")
  on.exit(unlink(script))
  writeLines(c(
    "library(gmhclust, lib.loc = commandArgs(TRUE)[1])",
    "name <- commandArgs(TRUE)[2]",
    "options(cli.dynamic = TRUE)",
    "ended <- FALSE",
    "draw <- get(name, asNamespace(\"cli\"))",
    "utils::assignInNamespace(name, function(...) {",
    "  if (!ended) tools::pskill(Sys.getpid(), tools::SIGINT)",
    "  for (i in 1:100) Sys.sleep(0)", # R checks for interrupts here
    "  ended <<- TRUE",
    "  draw(...)",
    "}, \"cli\")",
    "x <- matrix(sin(1:400000), 40000)",
    "outcome <- tryCatch({",
    "  gknn(x, 5, threads = 1, progress = TRUE)",
    "  \"finished\"",
    "}, gmhclust_error_interrupt = function(condition) class(condition)[1])",
    "cat(ended, outcome, \"\\n\")",
    "cat(length(get(\"clienv\", asNamespace(\"cli\"))$progress), \"\\n\")"
  ), script)
  for (name in c("cli_progress_bar", "cli_progress_update")) {
    command <- hears_interrupts(c(
      file.path(R.home("bin"), "Rscript"), "--vanilla", script,
      dirname(system.file(package = "gmhclust")), name
    ))
    said <- system2(command[1], shQuote(command[-1]), stdout = TRUE, timeout = most_seconds)
    expect_identical(trimws(as.vector(said)), c("TRUE gmhclust_error_interrupt", "0"))
  }
})
