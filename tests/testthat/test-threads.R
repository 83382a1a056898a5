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

test_that("the number of cores follows the settings that it depends on", {
  all <- available_cores()
  before <- options(parallelly.availableCores.omit = all - 1L)
  on.exit(options(before))
  expect_identical(available_cores(), 1L)
  options(before)
  expect_identical(available_cores(), all)
  answer <- 1L
  options(parallelly.availableCores.custom = function() answer)
  expect_identical(available_cores(), 1L)
  answer <- 2L
  expect_identical(available_cores(), min(2L, all))
  options(parallelly.availableCores.custom = NULL)
  expect_identical(available_cores(), all)
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
    expect_identical(check_threads(6, NULL), 6L)
  })
})

test_that("more threads than help are capped, and one message says so", {
  most <- max(8L, 4L * usable_cores())
  expect_identical(check_threads(most, NULL), most)
  x <- blobs(60, 3)
  expected <- gmhclust(x, 10, progress = FALSE, warn = FALSE)
  verbs <- list(
    function(threads) gmhclust(x, 10, threads = threads, progress = FALSE, warn = FALSE),
    function(threads) gknn(x, 2, threads = threads),
    function(threads) gdist(x, threads = threads),
    function(threads) gkmeans(x, x[1:2, ], threads = threads),
    function(threads) ghclust(x, "average", threads = threads)
  )
  for (verb in verbs) {
    messages <- list()
    value <- withCallingHandlers(verb(1e5), message = function(condition) {
      messages <<- c(messages, list(condition))
      invokeRestart("muffleMessage")
    })
    expect_length(messages, 1)
    expect_s3_class(
      messages[[1]],
      c("gmhclust_message_threads", "gmhclust_message", "message", "condition"), exact = TRUE
    )
    expect_match(conditionMessage(messages[[1]]),
                 paste("`threads` is 100000 and was capped at", most), fixed = TRUE)
  }
  tree <- suppressMessages(verbs[[1]](1e5))
  expect_same_tree(tree, expected)
  expect_silent(gdist(x, threads = 2))
})

test_that("settings outside of the call are capped, too", {
  most <- most_threads()
  expect_identical(threads_under(cores = 1e5), most)
  expect_identical(threads_under(OMP_NUM_THREADS = "100000"), most)
  expect_identical(with_local_threads(list(threads = 100000L))$threads, most)
})

test_that("the threads of workers on other machines are counted there", {
  skip_if_not_installed("BiocParallel")
  elsewhere <- BiocParallel::SnowParam(c("one", "two"))
  expect_silent(threads <- worker_threads(1e5, elsewhere, NULL))
  expect_identical(threads, 100000L)
  expect_error(worker_threads(0, elsewhere, NULL), class = "gmhclust_error_input")
})

test_that("results do not depend on the number of threads, bit for bit", {
  x <- some_cells(600)
  apriori <- rep(0:5, each = 100)
  for (distance in c("full", "centroid")) {
    expect_same_tree(
      gmhclust(x, 60, distance = distance, threads = 1),
      gmhclust(x, 60, distance = distance, threads = 2)
    )
    expect_same_tree(
      gmhclust(x, 60, apriori, distance = distance, threads = 1),
      gmhclust(x, 60, apriori, distance = distance, threads = 3)
    )
  }
})

test_that("files are read by the threads of the call", {
  values <- matrix((seq_len(2^17) * 7919) %% 65521, ncol = 2, dimnames = list(NULL, c("a", "b")))
  x <- observations(write_test_fcs(tempfile(fileext = ".fcs"), values))
  before <- options(gmhclust.threads = 2)
  on.exit(options(before))
  used <- integer(0)
  read <- job_records
  local_function("job_records", function(...) {
    used <<- c(used, ...elt(...length()))
    read(...)
  })
  # This reads few values.
  expect_identical(x[1:2, ], values[1:2, ] + 0)
  for (threads in c(1, 3)) suppressWarnings(gkmeans(x, 2, iter.max = 1, threads = threads))
  expect_identical(as.matrix(x), values + 0)
  expect_identical(used, c(1L, 1L, 3L, 2L))
  expect_identical(getOption("gmhclust.threads"), 2)
})
