# The conventions of arguments: see "Argument conventions" in ARCHITECTURE.md.

exported <- function() {
  names <- getNamespaceExports("gmhclust")
  functions <- mget(names, asNamespace("gmhclust"))
  functions[order(names)]
}

# Functions that have the arguments of those they replace.
mhca <- c("mhclust", "cutreeApriori", "fixNonMonotHca", "checkHca", "computeLeafOrder")

# Arguments that are named as in the functions they replace.
replaced <- list(
  gcutree = "h", # of cutree() in stats
  gdist = "method", # of dist()
  ghclust = c("method", "BPPARAM"), # of hclust(), and BiocParallel
  gkmeans = c("iter.max", "BPPARAM"), # of kmeans(), and BiocParallel
  gknn = c("get.distance", "BPPARAM"), # of findKNN() in BiocNeighbors
  gneighbours = c("get.distance", "BPPARAM"),
  gmhclust = "BPPARAM",
  gmst = "BPPARAM",
  reorder.hclust = "agglo.FUN" # of reorder.dendrogram()
)

# What the first argument of each function is, and its name.
first <- c(
  add_populations = "x", as_edges = "nn", as_hits = "nn", as_igraph = "nn", as_uwot = "nn",
  check_hclust = "tree", count_populations = "populations", cut_populations = "tree",
  cutree_apriori = "tree", cutree_top = "tree", gcutree = "tree", gdist = "x", ghclust = "x",
  gkmeans = "x", gknn = "x", gmhclust = "x", gmst = "x", gneighbours = "x", make_monotone = "tree",
  name_populations = "populations", observations = "x", plot_populations = "tree",
  plot_tree = "tree", population_model = "populations", read_gknn = "output", report = "tree",
  reorder.hclust = "x", stability = "tree"
)

# The arguments that say how to compute, in their order.
execution <- alist(
  backend = getOption("gmhclust.backend", "auto"),
  threads = getOption("gmhclust.threads"),
  devices = getOption("gmhclust.devices"),
  memory = getOption("gmhclust.memory"),
  progress = getOption("gmhclust.progress", interactive()),
  BPPARAM = NULL
)

# Sentences on how the arguments of a function break the conventions.
breaks <- function(name, arguments) {
  problems <- character(0)
  given <- names(arguments)
  free <- setdiff(given, c("...", replaced[[name]]))
  odd <- grep("^[a-z][a-z0-9]*(_[a-z0-9]+)*$", free, invert = TRUE, value = TRUE)
  if (length(odd) > 0) problems <- c(problems, paste(odd, "is no snake case"))
  forbidden <- intersect(free, c("h", "method", "quick", "data", "object", "model", "n_threads"))
  # How make_monotone() raises heights.
  if (name == "make_monotone") forbidden <- setdiff(forbidden, "method")
  if (length(forbidden) > 0) problems <- c(problems, paste(forbidden, "has another name"))
  if (length(given) > 0 && !identical(unname(first[name]), given[1])) {
    problems <- c(problems, paste("first is", given[1]))
  }
  run <- intersect(given, names(execution))
  if (!identical(run, intersect(names(execution), given))) {
    problems <- c(problems, "execution arguments are in another order")
  }
  last <- setdiff(given, "...")
  if (!identical(utils::tail(last, length(run)), run)) {
    problems <- c(problems, "execution arguments are not the last ones")
  }
  for (argument in run) {
    if (!identical(arguments[[argument]], execution[[argument]])) {
      problems <- c(problems, paste(argument, "has another default"))
    }
  }
  if ("..." %in% given && !"plot_tree" %in% name && given[length(given)] != "...") {
    problems <- c(problems, "... is not last")
  }
  problems
}

test_that("the arguments of all exports follow the conventions", {
  functions <- exported()
  functions <- functions[setdiff(names(functions), mhca)]
  for (name in names(functions)) {
    expect_identical(breaks(name, formals(functions[[name]])), character(0), label = name)
  }
  expect_setequal(names(Filter(function(f) length(formals(f)) > 0, functions)), names(first))
})

test_that("a function that breaks the conventions is noticed", {
  expect_match(breaks("gmst", alist(X = 1, metric = "")), "first is X", all = FALSE)
  expect_match(breaks("gmst", alist(x = 1, minMembers = 1)), "minMembers is no snake", all = FALSE)
  expect_match(breaks("gmst", alist(x = 1, threads = NULL)), "another default", all = FALSE)
  expect_match(breaks("gmst", c(list(x = 1), execution[c("threads", "backend")])),
               "another order", all = FALSE)
  expect_match(breaks("gmst", c(list(x = 1), execution["threads"], alist(k = 1))),
               "not the last", all = FALSE)
  expect_match(breaks("gmst", alist(x = 1, h = 1)), "h has another name", all = FALSE)
})

test_that("methods take session options, too", {
  for (method in c("predict.populations", "predict.population_model")) {
    arguments <- as.list(formals(get(method, asNamespace("gmhclust"))))
    expect_identical(arguments[c("threads", "progress")], execution[c("threads", "progress")])
  }
})

test_that("options of a session are the defaults", {
  x <- blobs(60, 3)
  expected <- gmhclust(x, 10, threads = 1, backend = "cpu")
  before <- options(gmhclust.threads = 2, gmhclust.backend = "cpu", gmhclust.progress = FALSE)
  on.exit(options(before))
  expect_same_tree(gmhclust(x, 10), expected)
  expect_same_tree(mhclust(x, 10, warn = FALSE), expected)
  options(gmhclust.threads = 0)
  expect_refused(gmhclust(x, 10), "`gmhclust.threads` is 0; it must be a whole number")
  expect_refused(mhclust(x, 10), "`gmhclust.threads` is 0; it must be a whole number", "mhclust")
  expect_refused(gmhclust(x, 10, threads = -1), "`threads` is -1")
  options(gmhclust.threads = NULL, gmhclust.backend = "opencl")
  expect_refused(gdist(x), "`gmhclust.backend` is \"opencl\"", "gdist")
  expect_s3_class(gdist(x, backend = "cpu"), "dist")
  options(gmhclust.backend = NULL, gmhclust.progress = "yes")
  expect_refused(gkmeans(x, 2), "`gmhclust.progress` is \"yes\"", "gkmeans")
  tree <- gmhclust(x, 10, progress = FALSE)
  expect_refused(cut_populations(tree, x = x), "`gmhclust.progress` is \"yes\"", "cut_populations")
})

test_that("an argument that is missing is named, also under its name in other functions", {
  x <- blobs(20, 3)
  verbs <- c("gmhclust", "gdist", "ghclust", "gkmeans", "gknn", "gmst", "gneighbours", "mhclust")
  of_trees <- c("cut_populations", "cutree_apriori", "cutree_top", "gcutree", "make_monotone",
                "plot_populations", "plot_tree", "report", "stability")
  for (name in c(verbs, of_trees)) {
    f <- get(name, asNamespace("gmhclust"))
    first <- names(formals(f))[1]
    error <- expect_error(f(), class = "gmhclust_error_input", label = name)
    expect_match(conditionMessage(error), paste0("`", first, "` is missing; it must be"),
                 fixed = TRUE, label = name)
  }
  tree <- gmhclust(x, 5, warn = FALSE)
  expect_refused(plot_populations(tree), "`x` is missing; it must be", "plot_populations")
  expect_refused(gmhclust(X = x), "`x` is missing; it must be")
  expect_refused(gknn(X = x, k = 2), "`x` is missing; it must be", "gknn")
  for (name in c("add_populations", "as_edges", "as_igraph", "check_hclust", "count_populations",
                 "name_populations", "observations", "population_model", "read_gknn")) {
    f <- get(name, asNamespace("gmhclust"))
    expect_refused(do.call(name, list()),
                   paste0("`", names(formals(f))[1], "` is missing; it must be"), name)
  }
  population <- cut_populations(tree, 2, 2)
  expect_refused(gknn(x), "`k` is missing; it must be", "gknn")
  expect_refused(gkmeans(x), "`centers` is missing; it must be", "gkmeans")
  expect_refused(gneighbours(x), "`radius` is missing; it must be", "gneighbours")
  expect_refused(cutree_top(tree), "`k` is missing; it must be", "cutree_top")
  expect_refused(name_populations(population), "`names` is missing", "name_populations")
  expect_refused(count_populations(population), "`samples` is missing", "count_populations")
  frame <- flow_frame(x, c("A", "B", "C"), rep(NA_character_, 3))
  if (requireNamespace("flowCore", quietly = TRUE)) {
    expect_refused(add_populations(frame), "`populations` is missing", "add_populations.flowFrame")
  }
})
