# Limits of memory as containers set them: a control group ends R when it takes more. Each case is
# an R session in a group of its own. The session makes its data, then gives its group a limit: what
# it uses now, the headroom, and a share of what the call is known to need. Needs root and Linux.

# The commands that make a group of memory, and that read and set its limit; NULL if this system has
# no control groups that a test can make.
new_group <- function() {
  name <- sprintf("gmhclust-test-%d", Sys.getpid())
  kinds <- list(
    list(folder = "/sys/fs/cgroup/memory", limit = "memory.limit_in_bytes",
         used = "memory.usage_in_bytes", cache = "^total_(in)?active_file ", none = "-1"),
    list(folder = "/sys/fs/cgroup", limit = "memory.max", used = "memory.current",
         cache = "^(in)?active_file ", none = "max")
  )
  for (kind in kinds) {
    kind$folder <- file.path(kind$folder, name)
    suppressWarnings(dir.create(kind$folder))
    can_limit <- file.access(file.path(kind$folder, kind$limit), 2) == 0
    if (can_limit) return(kind)
    unlink_group(kind)
  }
  NULL
}

# A group is a folder whose files cannot be deleted.
unlink_group <- function(group) {
  if (dir.exists(group$folder)) system2("rmdir", shQuote(group$folder), stderr = FALSE)
}

# What a session in a group prints: "share outcome" for each of `shares` of `megabytes`. The outcome
# is "ok", or the class of the error; a share without a line ended the session.
outcomes_in_group <- function(group, setup, call, megabytes, shares) {
  code <- c(
    "library(gmhclust, lib.loc = commandArgs(TRUE))",
    "options(warn = -1)",
    sprintf("group <- %s", paste(deparse(group), collapse = "\n")),
    "path <- function(file) file.path(group$folder, file)",
    "limit <- function(bytes) cat(bytes, file = path(group$limit))",
    # R's arithmetic, as the numbers exceed its integers.
    "used <- function() {",
    "  stat <- grep(group$cache, readLines(path('memory.stat')), value = TRUE)",
    "  cache <- sum(as.numeric(sub('.* ', '', stat)))",
    "  as.numeric(readLines(path(group$used))) - cache",
    "}",
    "cat(Sys.getpid(), file = path('cgroup.procs'))",
    "set.seed(1)",
    setup,
    sprintf("call <- quote(%s)", call),
    # Code of the first call is compiled, and libraries are loaded.
    sprintf("for (share in c(%s)) {", paste(shares, collapse = ", ")),
    "  invisible(gc())",
    sprintf("  limit(sprintf('%%.0f', used() + 32e6 + 1e6 * share * %g))", megabytes),
    "  said <- tryCatch({ eval(call); 'ok' }, error = function(e) class(e)[1])",
    "  limit(group$none)",
    "  cat('outcome', share, said, '\\n')",
    "}"
  )
  said <- in_new_session(code, character(0))
  said <- strsplit(trimws(grep("^outcome", said, value = TRUE)), " ")
  stats::setNames(vapply(said, `[`, "", 3), vapply(said, `[`, "", 2))
}

options_of_cases <- "threads = 2, backend = 'cpu'"

# `setup` makes the data; `megabytes` is what the call takes by the formulas of the help pages.
cases <- list(
  gdist = list("x <- matrix(rnorm(4e4), ncol = 10)", "gdist(x, %s)", 65),
  gdist_y = list("x <- matrix(rnorm(4e4), ncol = 10)", "gdist(x, y = x, %s)", 129),
  average = list("x <- matrix(rnorm(4e4), ncol = 10)", "ghclust(x, 'average', %s)", 123),
  average_single = list("x <- matrix(rnorm(5e4), ncol = 10)",
                        "ghclust(x, 'average', precision = 'single', %s)", 160),
  pearson = list("x <- matrix(rnorm(4e4), ncol = 10)",
                 "ghclust(x, 'ward.D', metric = 'pearson', %s)", 123),
  centroid = list("x <- matrix(rnorm(4e4), ncol = 10)",
                  "ghclust(x, 'centroid', metric = 'manhattan', %s)", 72),
  average_dist = list("x <- gdist(matrix(rnorm(4e4), ncol = 10))",
                      "ghclust(x, 'average', %s)", 59),
  median_dist = list("x <- gdist(matrix(rnorm(4e4), ncol = 10))", "ghclust(x, 'median', %s)", 72),
  gknn = list("x <- matrix(rnorm(8e3), ncol = 2)", "gknn(x, 1000, %s)", 164),
  gknn_query = list("x <- matrix(rnorm(8e3), ncol = 2)", "gknn(x, 1000, x, %s)", 164),
  gknn_blocks = list("x <- matrix(rnorm(8e3), ncol = 2)",
                     "gknn(x, 1000, block_rows = 1000, %s)", 100),
  gneighbours = list("x <- matrix(rnorm(5e3), ncol = 2)", "gneighbours(x, 20, %s)", 210),
  gcutree = list("h <- ghclust(matrix(rnorm(6e4), ncol = 2), 'ward.D2')",
                 "gcutree(h, k = 1:1000)", 166),
  cut_populations = list("h <- ghclust(matrix(rnorm(3e5), ncol = 1), 'ward.D2')",
                         "cut_populations(h)", 75),
  gmst = list("x <- matrix(rnorm(1e5), ncol = 2)", "gmst(x, %s)", 20),
  single = list("x <- matrix(rnorm(8e4), ncol = 2)", "ghclust(x, 'single', %s)", 22),
  ward = list("x <- matrix(rnorm(8e4), ncol = 2)", "ghclust(x, 'ward.D2', %s)", 22),
  # More iterations take no more memory.
  gkmeans = list("x <- matrix(rnorm(2e6), ncol = 10)", "gkmeans(x, 5, iter.max = 20, %s)", 50),
  gmhclust = list("x <- matrix(rnorm(1e5), ncol = 2)", "gmhclust(x, distance = 'centroid', %s)",
                  27),
  gmhclust_full = list("x <- matrix(rnorm(6e4), ncol = 2)", "gmhclust(x, %s)", 27),
  gmhclust_apriori = list("x <- matrix(rnorm(8e5), ncol = 4); g <- rep(1:2000, 100)",
                          "gmhclust(x, apriori = g, distance = 'centroid', %s)", 26),
  gmhclust_apriori_full = list("x <- matrix(rnorm(8e5), ncol = 4); g <- rep(1:2000, 100)",
                               "gmhclust(x, apriori = g, %s)", 46)
)

skip_without_groups <- function() {
  skip_on_cran()
  skip_if_not(file.exists("/proc/self/cgroup"), "Linux")
  skip_if_not(nzchar(system.file("Meta", package = "gmhclust")), "installed gmhclust")
}

in_group <- function(setup, call, megabytes, shares) {
  group <- new_group()
  skip_if(is.null(group), "this user or system cannot make control groups")
  on.exit(unlink_group(group))
  outcomes_in_group(group, setup, call, megabytes, shares)
}

for (case in names(cases)) {
  test_that(paste("a container does not end R near the limit:", case), {
    skip_without_groups()
    shares <- c(0.6, 0.95, 1.1, 1.7)
    of_case <- cases[[case]]
    found <- in_group(of_case[[1]], sub("%s", options_of_cases, of_case[[2]]), of_case[[3]], shares)
    expect_named(found, as.character(shares))
    expect_true(all(found %in% c("ok", "gmhclust_error_memory")), info = toString(found))
    # Well below what the formula says the call is refused, and well above it works.
    expect_identical(found[["0.6"]], "gmhclust_error_memory")
    expect_identical(found[["1.7"]], "ok")
  })
}

test_that("large calls in a container of 600 MB are errors at once", {
  skip_without_groups()
  data <- "x <- matrix(rnorm(2e5), ncol = 2); s <- x[1:6000, ]"
  # R and the data use about 100 MB.
  for (call in c("gknn(x, 250)", "gknn(x, 300)", "gneighbours(s, 20)")) {
    found <- in_group(data, call, 470, 1)
    expect_identical(unname(found), "gmhclust_error_memory", info = call)
  }
})

test_that("what has to stay free is not given to a call, without limits, too", {
  skip_if_not(file.exists("/proc/meminfo"), "Linux")
  bytes_of <- function(...) {
    lines <- grep(sprintf("^(%s):", paste(..., sep = "|")), readLines("/proc/meminfo"),
                  value = TRUE)
    sum(1024 * as.numeric(gsub("[^0-9]", "", lines)))
  }
  available <- function() bytes_of("MemAvailable", "SwapFree")
  headroom <- min(max(0.03 * bytes_of("MemTotal", "SwapTotal"), 32e6), 1e9)
  skip_if(available() < 4 * headroom, "memory that is available")
  # Other processes may end or take memory meanwhile: it counts when they do not.
  for (attempt in 1:20) {
    before <- available()
    refusal <- memory_refusal("All need", before - headroom / 4)
    if (abs(available() - before) < headroom / 8) break
    Sys.sleep(0.5)
  }
  expect_match(refusal, "^All need .* but only .* are available, and .* stay free$")
  expect_null(memory_refusal("All need", (available() - headroom) / 4))
})
