# Limits of memory as containers set them: a control group ends R when it takes more. Each case is an
# R session in a group of its own. The session makes its data, then gives its group a limit: what it
# uses now, the headroom, and a share of what the call is known to need. Needs root and Linux.

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

# `setup` makes the data, and `megabytes` is what the call takes by the formulas of the help pages.
cases <- list(
  gdist = list("x <- matrix(rnorm(4e4), ncol = 10)", "gdist(x, %s)", 64.6),
  gdist_two = list("x <- matrix(rnorm(4e4), ncol = 10)", "gdist(x, Y = x, %s)", 129.3),
  average = list("x <- matrix(rnorm(4e4), ncol = 10)", "ghclust(x, 'average', %s)", 124),
  average_single = list("x <- matrix(rnorm(6e4), ncol = 10)",
                        "ghclust(x, 'average', precision = 'single', %s)", 229),
  average_dist = list("x <- gdist(matrix(rnorm(5e4), ncol = 10))",
                      "ghclust(x, 'average', %s)", 91),
  centroid_dist = list("x <- gdist(matrix(rnorm(4e4), ncol = 10))",
                       "ghclust(x, 'centroid', %s)", 74),
  gknn = list("x <- matrix(rnorm(4e4), ncol = 2)", "gknn(x, 200, %s)", 117),
  gknn_query = list("x <- matrix(rnorm(4e4), ncol = 2)", "gknn(x, 200, x, %s)", 118),
  gknn_blocks = list("x <- matrix(rnorm(4e4), ncol = 2)",
                     "gknn(x, 200, block_rows = 5000, %s)", 100),
  gneighbours = list("x <- matrix(rnorm(6e3), ncol = 2)", "gneighbours(x, 9, %s)", 260),
  gcutree = list("h <- ghclust(matrix(rnorm(6e4), ncol = 2), 'ward.D2')",
                 "gcutree(h, k = 1:1000)", 154),
  cut_populations = list("h <- ghclust(matrix(rnorm(1e5), ncol = 1), 'ward.D2')",
                         "cut_populations(h)", 60),
  gmst = list("x <- matrix(rnorm(2e5), ncol = 1)", "gmst(x, %s)", 76),
  single = list("x <- matrix(rnorm(2e5), ncol = 1)", "ghclust(x, 'single', %s)", 84),
  ward = list("x <- matrix(rnorm(2e5), ncol = 1)", "ghclust(x, 'ward.D2', %s)", 93),
  gkmeans = list("x <- matrix(rnorm(3e6), ncol = 10)", "gkmeans(x, 10, %s)", 100),
  gmhclust = list("x <- matrix(rnorm(2e5), ncol = 2)", "gmhclust(x, distance = 'centroid', %s)", 60),
  gmhclust_apriori = list("x <- matrix(rnorm(8e5), ncol = 4); g <- rep(1:2000, 100)",
                          "gmhclust(x, apriori = g, %s)", 140)
)

in_groups <- function(case, shares) {
  skip_on_cran()
  skip_if_not(file.exists("/proc/self/cgroup"), "Linux")
  group <- new_group()
  skip_if(is.null(group), "control groups, which this user or system cannot make")
  on.exit(unlink_group(group))
  outcomes_in_group(group, case[[1]], sprintf(case[[2]], options_of_cases), case[[3]], shares)
}
