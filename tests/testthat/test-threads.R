# Sets environment variables for one test.
with_environment <- function(variables, code) {
  before <- Sys.getenv(names(variables), unset = NA, names = TRUE)
  on.exit({
    Sys.unsetenv(names(before)[is.na(before)])
    if (any(!is.na(before))) do.call(Sys.setenv, as.list(before[!is.na(before)]))
  })
  do.call(Sys.setenv, as.list(variables))
  code
}

clean <- c(OMP_NUM_THREADS = "", OMP_THREAD_LIMIT = "", "_R_CHECK_LIMIT_CORES_" = "")
threads_under <- function(..., cores = NULL) {
  before <- options(mc.cores = cores)
  on.exit(options(before))
  variables <- clean
  set <- c(...)
  variables[names(set)] <- set
  with_environment(variables, default_threads())
}

test_that("the default is every core", {
  expect_identical(threads_under(), available_cores())
})

test_that("mc.cores has precedence over OMP_NUM_THREADS", {
  expect_identical(threads_under(cores = 7), 7L)
  expect_identical(threads_under(OMP_NUM_THREADS = "5"), 5L)
  expect_identical(threads_under(OMP_NUM_THREADS = "5,2"), 5L)
  expect_identical(threads_under(OMP_NUM_THREADS = "5", cores = 7), 7L)
  expect_identical(threads_under(OMP_NUM_THREADS = "many"), available_cores())
})

test_that("the default is at most the cores that a job got", {
  # In a new session, because parallelly keeps what it has found.
  said <- in_new_session(c(
    "loadNamespace(\"gmhclust\", lib.loc = commandArgs(TRUE))",
    "options(mc.cores = NULL)",
    "Sys.unsetenv(c(\"OMP_NUM_THREADS\", \"OMP_THREAD_LIMIT\", \"_R_CHECK_LIMIT_CORES_\"))",
    "counts <- gmhclust:::default_threads()",
    "Sys.setenv(OMP_NUM_THREADS = 5)",
    "counts <- c(counts, gmhclust:::default_threads())",
    "options(mc.cores = 7)",
    "cat(counts, gmhclust:::default_threads())"
  ), env = "SLURM_CPUS_PER_TASK=1")
  expect_identical(said[length(said)], "1 5 7")
})

test_that("OMP_THREAD_LIMIT and R CMD check's two cores are limits", {
  expect_identical(threads_under(OMP_THREAD_LIMIT = "3", cores = 7), 3L)
  for (setting in c("TRUE", "true", "warn")) {
    expect_identical(threads_under(`_R_CHECK_LIMIT_CORES_` = setting, cores = 7), 2L)
  }
  expect_identical(threads_under(`_R_CHECK_LIMIT_CORES_` = "FALSE", cores = 7), 7L)
})

test_that("the limits do not apply to the user's number of threads", {
  with_environment(c(clean[1:2], "_R_CHECK_LIMIT_CORES_" = "TRUE"), {
    expect_identical(check_threads(6, "threads", NULL), 6L)
  })
})

test_that("results do not depend on the number of threads, bit for bit", {
  x <- some_cells(600)
  apriori <- rep(0:5, each = 100)
  for (quick in c(TRUE, FALSE)) {
    expect_same_tree(
      gmhclust(x, 60, quick = quick, threads = 1),
      gmhclust(x, 60, quick = quick, threads = 2)
    )
    expect_same_tree(
      gmhclust(x, 60, apriori, quick = quick, threads = 1),
      gmhclust(x, 60, apriori, quick = quick, threads = 3)
    )
  }
})
