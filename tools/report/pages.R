# Usage: Rscript tools/report/pages.R make FOLDER
#        Rscript tools/report/pages.R replay FOLDER
#
# The R side of tools/test-report. `make` writes the pages NAME.html to test, and NAME.rds with
# their tree, observations and populations at the beginning. `replay` runs each FOLDER/NAME-STEP.R,
# the calls that a page gave, and compares the populations, cell by cell, with NAME-STEP.json: for
# each population of the page, its number, name, and branches.

library(gmhclust)
options(gmhclust.progress = FALSE)

lymphocyte_page <- function() {
  set.seed(1)
  cells <- lymphocytes()
  x <- as.matrix(cells[1:14])
  gate <- with(cells, ifelse(CD3 < 50, "no T cell", ifelse(CD4 > CD8, "CD4 T", "CD8 T")))
  tree <- gmhclust(x, threshold = 100, apriori = 500, warn = FALSE)
  list(tree = tree, x = x, gates = gate, samples = cells$ids, title = "Lymphocytes",
       support = stability(tree, x, times = 10, populations = FALSE))
}

# 40 columns, 60 populations and 120 samples, with names that are long, of other scripts, or HTML.
hostile_page <- function() {
  set.seed(5)
  n <- 20000
  centers <- matrix(stats::rnorm(70 * 40, sd = 3), 70)
  of <- sample(70, n, TRUE, prob = exp(stats::rnorm(70)))
  x <- centers[of, ] + stats::rnorm(n * 40)
  colnames(x) <- c(
    "a very long name of a channel, as of a machine that writes all it knows (Violet 450/50-A)",
    "<script>alert(1)</script>", "\u03b3\u03b4TCR", "\u6e2c\u5b9a", "\"quoted\" & 'x'", "\u0639",
    paste0("Marker", 7:40)
  )
  tree <- gmhclust(x, threshold = 100, apriori = 1000, warn = FALSE)
  populations <- name_populations(
    cut_populations(tree, k = 61, min_members = 20, x = x),
    c("</script><script>alert(1)</script>" = 1, "\U1F9EC \u03b3\u03b4 T \u7d30\u80de" = 2,
      "A very long name of a population, which explains all that it may be" = 3,
      "back\\slash and \"quotes\"" = 4, "a\u200bb" = 5, "x" = 6, "x" = 9)
  )
  samples <- c("<img src=x onerror=alert(1)>", paste("patient", sample(119, n - 1, TRUE)))
  list(tree = tree, x = x, populations = populations, samples = samples,
       gates = paste("gate", of %% 30), title = "Hostile <b>names</b> & \u7d30\u80de")
}

# One population, and one column.
single_page <- function() {
  x <- matrix(stats::qnorm(seq(0.01, 0.99, length.out = 200)), dimnames = list(NULL, "only"))
  tree <- gmhclust(x, threshold = 20, warn = FALSE)
  list(tree = tree, x = x, populations = cut_populations(tree, 1, min_members = 90))
}

make <- function(folder) {
  pages <- list(lymphocytes = lymphocyte_page(), hostile = hostile_page(), single = single_page())
  for (name in names(pages)) {
    page <- pages[[name]]
    tree <- page$tree
    x <- page$x
    report(tree, x, file.path(folder, paste0(name, ".html")), populations = page$populations,
           gates = page$gates, samples = page$samples, support = page$support,
           title = if (is.null(page$title)) "Populations" else page$title)
    saveRDS(page[c("tree", "x", "populations")], file.path(folder, paste0(name, ".rds")))
  }
}

# The leaves below a merge, or a leaf, of an hclust tree.
leaves_below <- function(merge, id) {
  found <- integer(0)
  open <- id
  while (length(open) > 0) {
    found <- c(found, -open[open < 0])
    open <- as.vector(merge[open[open > 0], ])
  }
  found
}

replay <- function(folder) {
  steps <- list.files(folder, "^[a-z]+-[a-z0-9]+[.]R$")
  for (step in steps) {
    page <- readRDS(file.path(folder, sub("-.*", ".rds", step)))
    env <- list2env(page, parent = globalenv())
    source(file.path(folder, step), local = env, encoding = "UTF-8", echo = FALSE)
    shown <- jsonlite::fromJSON(file.path(folder, sub("[.]R$", ".json", step)),
                                simplifyVector = FALSE)
    name <- rep("none", nrow(page$x))
    number <- integer(nrow(page$x))
    for (population in shown) {
      inside <- unlist(lapply(population$ids, leaves_below, merge = page$tree$merge))
      name[inside] <- if (nzchar(population$name)) population$name else population$number
      number[inside] <- population$number
    }
    found <- env$populations
    stopifnot(
      identical(as.integer(found), number),
      identical(c("none", levels(found))[found + 1L], name)
    )
    cat("replayed ", step, ": ", attr(found, "k"), " populations\n", sep = "")
  }
  # A page that was not touched has the populations that it got.
  of_hostile <- readRDS(file.path(folder, "hostile.rds"))
  env <- list2env(of_hostile["tree"])
  env$x <- of_hostile$x
  source(file.path(folder, paste0("hostile-begin", ".R")), local = env, encoding = "UTF-8")
  given <- of_hostile$populations
  stopifnot(identical(as.integer(env$populations), as.integer(given)),
            identical(levels(env$populations), levels(given)))
}

arguments <- commandArgs(TRUE)
switch(arguments[1], make = make(arguments[2]), replay = replay(arguments[2]))
