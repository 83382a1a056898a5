# Shortage of address space, made by `ulimit -v` in a child R session. The limit is the address
# space that R needs to load the package and make the data, plus a few megabytes.

child <- function(code, megabytes = NULL) {
  script <- tempfile(fileext = ".R")
  on.exit(unlink(script))
  writeLines(c(
    sprintf("library(gmhclust, lib.loc = '%s')", dirname(system.file(package = "gmhclust"))),
    code
  ), script)
  limit <- if (!is.null(megabytes)) paste("ulimit -v", 1024 * megabytes, "&&")
  command <- paste("ulimit -c 0;", limit, shQuote(file.path(R.home("bin"), "Rscript")),
                   "--vanilla", shQuote(script), "2>/dev/null")
  suppressWarnings(system2("sh", c("-c", shQuote(command)), stdout = TRUE))
}

data <- c(
  "set.seed(1)",
  "x <- matrix(rnorm(4e5), ncol = 8)"
)

skip_without_limits <- function() {
  skip_if_not(nzchar(system.file("Meta", package = "gmhclust")), "installed gmhclust")
  skip_if_not(file.exists("/proc/self/status"), "a system that tells how much memory a process has")
}

megabytes_loaded <- function() {
  peak <- "grep('VmPeak', readLines('/proc/self/status'), value = TRUE)"
  said <- child(c(data, sprintf("cat(gsub('[^0-9]', '', %s))", peak)))
  ceiling(as.numeric(said) / 1024)
}

# The outcome of `call` with `beyond` more megabytes than R needs: "ok", or the class of the error.
# Expects that R works afterwards.
outcome <- function(call, beyond, loaded) {
  code <- c(
    data,
    "cat('loaded\\n')",
    sprintf("cat(tryCatch({ %s; 'ok' }, error = function(e) class(e)[1]), '\\n')", call),
    "x <- NULL; invisible(gc())",
    "cat(sum(1:10), '\\n')"
  )
  said <- trimws(child(code, loaded + beyond))
  expect_identical(said[1], "loaded")
  expect_identical(said[3], "55", info = paste(call, "with", beyond, "MB"))
  said[2]
}

test_that("a shortage of memory ends the call and not R", {
  skip_without_limits()
  loaded <- megabytes_loaded()
  calls <- c(
    "gmhclust(x, 0.5, distance = 'centroid', threads = 2, backend = 'cpu')",
    "gmhclust(x, 0.5, threads = 2, backend = 'cpu')",
    "gkmeans(x, 20, threads = 2, backend = 'cpu')",
    "gmst(x, threads = 2, backend = 'cpu')",
    "gknn(x, 20, threads = 2, backend = 'cpu')",
    "gneighbours(x, 1, threads = 2, backend = 'cpu')",
    "ghclust(x, 'ward.D2', threads = 2, backend = 'cpu')",
    "ghclust(x, 'centroid', threads = 2, backend = 'cpu')"
  )
  for (call in calls) {
    for (beyond in c(6, 14)) {
      expect_identical(outcome(call, beyond, loaded), "gmhclust_error_memory",
                       info = paste(call, "with", beyond, "MB"))
    }
  }
})

test_that("R continues at whatever point memory runs out", {
  skip_without_limits()
  call <- "suppressWarnings(gkmeans(x, 20, threads = 2, backend = 'cpu'))"
  loaded <- megabytes_loaded()
  outcomes <- vapply(seq(16, 80, 8), function(beyond) outcome(call, beyond, loaded), "")
  expect_true(all(outcomes %in% c("gmhclust_error_memory", "ok")))
  expect_identical(outcomes[1], "gmhclust_error_memory")
  expect_identical(outcome(call, 1000, loaded), "ok")
})

test_that("threads that cannot be started are an error, and the call does not hang", {
  skip_without_limits()
  # A thousand stacks take 2 GB. So many are started only without the cap.
  call <- paste(
    "{ utils::assignInNamespace('most_threads', function() 1000L, 'gmhclust');",
    "gkmeans(x, 20, threads = 1000, backend = 'cpu') }"
  )
  expect_identical(outcome(call, 400, megabytes_loaded()), "gmhclust_error_memory")
})

test_that("a SLURM job that asked for less memory is a limit of all but small requests", {
  skip_if_not(file.exists("/proc/meminfo"), "Linux")
  asked <- Sys.getenv("SLURM_MEM_PER_NODE", NA)
  on.exit(if (is.na(asked)) Sys.unsetenv("SLURM_MEM_PER_NODE") else
    Sys.setenv(SLURM_MEM_PER_NODE = asked))
  Sys.setenv(SLURM_MEM_PER_NODE = "1")
  refusal <- memory_refusal("All need", 8e7)
  skip_if_not(grepl("SLURM", paste(refusal)), "a machine without a limit by a control group")
  left <- paste("80.0 MB, but only 0.0 MB of the 1.0 MB that this SLURM job asked for are",
                "available, and 32.0 MB stay free")
  expect_identical(refusal, paste("All need", left))
  expect_null(memory_refusal("All need", 1.6e7))
  # The distance needs little, two copies of the data more.
  error <- expect_error(gdist(matrix(0, 2, 5e6), backend = "cpu"), class = "gmhclust_error_memory")
  expect_match(conditionMessage(error), "pairs of 2 observations need 160.0 MB, but only 0.0 MB",
               fixed = TRUE)
})
