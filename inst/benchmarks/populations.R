# Usage: Rscript populations.R --data=FOLDER [--sets=SET,...] [--methods=METHOD;...] [--repeats=N]
#                              [--jobs=N] [--threads=N] [--out=FILE.csv] [--resume]
#        Rscript populations.R --clouds [--rows=ROW,...] [--quick] [--jobs=N] [--out=FILE.csv]
#
# Measures how well populations of cells are found, by this package and by others. To measure again
# what README and the vignettes show, from this folder:
#
#   Rscript populations.R --data=FOLDER --out=results/$(date +%F)-cpu-populations.csv
#
# No document shows the result of the second form: keep its file outside of `results`.
#
# The first form scores cells with gates drawn by hand. FOLDER has a file for each data set, or a
# folder of files that are its samples; labelled-cells.R says which files, and how they are
# prepared. Prints a line for each method, and one table for each score, a column for each set.
# Writes a row for each set and method, the means over the samples of the set:
#   f, mean_f1, ari           agreement of the gated cells with their gates, see agreement.R
#   k, lowest_k, highest_k    the number of populations
#   seconds                   time of one sample, tree included, on --threads (1) threads
#   seeds                     the mean ARI of two results with different seeds, over all pairs of
#                             --repeats (5) seeds; NA if the method has no seed
#   rows, lowest_rows         the ARI of the results for the cells in their order and in a random
#                             order, mean and lowest over --repeats orders
# "full", "centroid", and the same with "apriori" (1,000 clusters of k-means) are trees of
# gmhclust() with defaults, cut by cut_populations(h, x = x, rest = "nearest"); "finer" is its finer
# level. "k" means that the method was given the number of gates. Other methods:
#   average, Ward    ghclust(), cut by gcutree(); "our cut" is cut_populations() without k
#   k-means          gkmeans(), 10 starts
#   mclust           Mclust() with defaults, 1 to 9 components, on 2,000 cells of each sample; the
#                    model classifies all cells; slow, so not repeated
#   HDBSCAN          dbscan::hdbscan(), minPts 1% of the cells, on 5,000 cells of each sample; all
#                    others and its noise get the population of the nearest cell in one
#   Louvain, Leiden  communities of the graph of 20 nearest neighbours with weights of Jaccard, by
#                    igraph; modularity, resolution 1
#   FlowSOM          defaults, with the number of gates as the number of metaclusters
# Methods of packages that are not installed are skipped, and named. Average linkage takes 20,000
# cells of larger samples; all others get the cluster of the nearest of these.
#
# --resume keeps the rows that FILE.csv has and measures the others; without it, the chosen sets and
# methods are measured again, and the other rows are kept. The repeats run in --jobs (2) processes.
#
# The second form says of simulated clouds how many stay one population, and of how many rare
# populations are found: single-clouds.R.

library(gmhclust)
script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])
for (part in c("common.R", "agreement.R", "labelled-cells.R", "single-clouds.R")) {
  source(file.path(dirname(script), part))
}

# ---- the methods --------------------------------------------------------------------------------

# A method is a function of a task, an environment with the cells `x`, the number of gates `k`, the
# `seed`, the number of `threads`, and what methods share: see shared(). Its value is the number of
# the population of each cell.

new_task <- function(x, k, seed, threads) {
  list2env(list(x = x, k = k, seed = seed, threads = threads, known = list(), saved = 0))
}

# make(), computed once in a task. Its time counts for each method that uses it.
shared <- function(task, name, make) {
  if (is.null(task$known[[name]])) {
    seconds <- system.time(value <- make())[["elapsed"]]
    task$known[[name]] <- list(value = value, seconds = seconds)
  } else {
    task$saved <- task$saved + task$known[[name]]$seconds
  }
  task$known[[name]]$value
}

mahalanobis_tree <- function(task, distance, apriori) {
  shared(task, paste(distance, apriori), function() {
    set.seed(task$seed)
    gmhclust(task$x, distance = distance, apriori = apriori, backend = "cpu",
             threads = task$threads, progress = FALSE, warn = FALSE)
  })
}

linkage_tree <- function(task, x, method) {
  shared(task, method, function() {
    ghclust(x, method, backend = "cpu", threads = task$threads, progress = FALSE)
  })
}

# cut_populations() with these arguments beyond the tree; with k, as many populations as the tree
# has if these are fewer.
our_cut <- function(tree, x, k = NULL, ...) {
  cut <- function(k) {
    suppressMessages(cut_populations(tree, k, rest = "nearest", x = x, ...))
  }
  if (is.null(k)) as.integer(cut(NULL)) else at_most(k, cut)
}

# Calls method(x) of a sample of at most `most` cells, for its labels. All others, and cells that
# get 0, have the label of the nearest cell with one.
by_sample <- function(task, most, method) {
  n <- nrow(task$x)
  set.seed(task$seed)
  chosen <- if (n > most) sort(sample(n, most)) else seq_len(n)
  found <- integer(n)
  found[chosen] <- method(task$x[chosen, , drop = FALSE])
  loose <- which(found == 0L)
  if (length(loose) == 0 || all(found == 0L)) return(pmax(found, 1L))
  near <- gknn(task$x[found > 0L, ], 1, query = task$x[loose, , drop = FALSE], backend = "cpu",
               threads = task$threads, progress = FALSE)$index
  found[loose] <- found[found > 0L][near]
  found
}

# The graph of 20 nearest neighbours; the weight of an edge is the share of common neighbours among
# all neighbours of both (PhenoGraph: Levine et al. 2015).
jaccard_graph <- function(task) {
  shared(task, "jaccard", function() {
    n <- nrow(task$x)
    near <- gknn(task$x, 20, backend = "cpu", threads = task$threads, progress = FALSE)$index
    is_near <- Matrix::sparseMatrix(rep(seq_len(n), 20), as.vector(near), x = 1, dims = c(n, n))
    common <- Matrix::summary(Matrix::tcrossprod(is_near) * is_near)
    edges <- data.frame(common$i, common$j, weight = common$x / (2 * 20 - common$x))
    graph <- igraph::graph_from_data_frame(edges, FALSE, data.frame(seq_len(n)))
    igraph::simplify(graph, edge.attr.comb = "first")
  })
}

communities_of <- function(task, find) {
  graph <- jaccard_graph(task)
  set.seed(task$seed)
  as.integer(igraph::membership(find(graph)))
}

trees <- list(
  "full" = list("full", NULL), "full, apriori" = list("full", 1000),
  "centroid" = list("centroid", NULL), "centroid, apriori" = list("centroid", 1000)
)
tree_method <- function(cut) {
  lapply(trees, function(tree) {
    function(task) cut(mahalanobis_tree(task, tree[[1]], tree[[2]]), task)
  })
}

most_for_average <- 20000
average_tree <- function(task, x) linkage_tree(task, x, "average")

methods <- c(
  tree_method(function(tree, task) our_cut(tree, task$x)),
  structure(tree_method(function(tree, task) our_cut(tree, task$x, level = "finer")),
            names = paste0(names(trees), ", finer")),
  structure(tree_method(function(tree, task) our_cut(tree, task$x, task$k)),
            names = paste0(names(trees), ", k")),
  list(
    "average, our cut" = function(task) {
      by_sample(task, most_for_average, function(x) our_cut(average_tree(task, x), x))
    },
    "Ward, our cut" = function(task) our_cut(linkage_tree(task, task$x, "ward.D2"), task$x),
    "average, k" = function(task) {
      by_sample(task, most_for_average, function(x) gcutree(average_tree(task, x), task$k))
    },
    "Ward, k" = function(task) gcutree(linkage_tree(task, task$x, "ward.D2"), task$k),
    "k-means, k" = function(task) {
      set.seed(task$seed)
      gkmeans(task$x, task$k, nstart = 10, backend = "cpu", threads = task$threads,
              progress = FALSE)$cluster
    },
    "mclust" = function(task) {
      set.seed(task$seed)
      chosen <- sample(nrow(task$x), min(2000, nrow(task$x)))
      # Mclust() calls mclustBIC() by name, from where it is called.
      mclustBIC <- mclust::mclustBIC # nolint: object_name_linter.
      fit <- mclust::Mclust(task$x[chosen, ], verbose = FALSE)
      stats::predict(fit, task$x)$classification
    },
    "HDBSCAN" = function(task) {
      by_sample(task, 5000, function(x) dbscan::hdbscan(x, max(5, nrow(x) %/% 100))$cluster)
    },
    "Louvain" = function(task) communities_of(task, igraph::cluster_louvain),
    "Leiden" = function(task) {
      communities_of(task, function(graph) {
        igraph::cluster_leiden(graph, "modularity", n_iterations = 10)
      })
    },
    "FlowSOM, k" = function(task) {
      x <- task$x
      colnames(x) <- paste0("marker", seq_len(ncol(x)))
      map <- FlowSOM::FlowSOM(x, colsToUse = seq_len(ncol(x)), nClus = task$k, seed = task$seed)
      as.integer(FlowSOM::GetMetaclusters(map))
    }
  )
)

# The packages that methods need.
needed <- list(
  "mclust" = "mclust", "HDBSCAN" = "dbscan", "Louvain" = c("igraph", "Matrix"),
  "Leiden" = c("igraph", "Matrix"), "FlowSOM, k" = "FlowSOM"
)

# Methods whose result depends on a seed, and that which takes too long to repeat.
has_seed <- c(
  grep("apriori", names(methods), value = TRUE), "k-means, k", "HDBSCAN", "Louvain", "Leiden",
  "FlowSOM, k"
)
is_slow <- "mclust"

# Those of the names of methods that can run here; names the others.
runnable <- function(names) {
  has <- function(package) requireNamespace(package, quietly = TRUE)
  for (name in intersect(names, names(needed))) {
    absent <- Filter(Negate(has), needed[[name]])
    if (length(absent) == 0) next
    cat("skipped:", name, "needs package", absent[1], "\n")
    names <- setdiff(names, name)
  }
  finer <- grep("finer$", names, value = TRUE)
  if (length(finer) > 0 && !"level" %in% names(formals(cut_populations))) {
    cat("skipped: this version of cut_populations() has no finer level\n")
    names <- setdiff(names, finer)
  }
  names
}

# ---- measuring ----------------------------------------------------------------------------------

# The populations by each method in a task, in the order of `place`: place[i] is the cell in row i.
labels_of <- function(task, names, place) {
  lapply(structure(names, names = names), function(name) {
    found <- integer(length(place))
    found[place] <- methods[[name]](task)
    found
  })
}

# What each method makes of one sample, a row for each; see the top of this file.
measure_sample <- function(sample, names, options) {
  gates <- length(unique(sample$gate[sample$gate > 0]))
  cells <- nrow(sample$x)
  task <- new_task(sample$x, gates, 1, options$threads)
  first <- list()
  rows <- lapply(names, function(name) {
    task$saved <- 0
    seconds <- system.time(found <- methods[[name]](task))[["elapsed"]] + task$saved
    first[[name]] <<- found
    c(cells = cells, gates = gates, agreement(found, sample$gate), k = length(unique(found)),
      seconds = seconds)
  })
  rm(task)
  repeats <- seq_len(options$repeats)
  seeded <- setdiff(intersect(names, has_seed), is_slow)
  by_seed <- repeated(repeats[-1], options, function(i) {
    labels_of(new_task(sample$x, gates, i, options$threads), seeded, seq_len(cells))
  })
  by_order <- repeated(repeats, options, function(i) {
    set.seed(i)
    order <- sample(cells)
    task <- new_task(sample$x[order, , drop = FALSE], gates, 1, options$threads)
    labels_of(task, setdiff(names, is_slow), order)
  })
  repeats <- lapply(names, function(name) {
    seeds <- c(first[name], lapply(by_seed, `[[`, name))
    orders <- vapply(lapply(by_order, `[[`, name), function(found) {
      if (is.null(found)) NA else adjusted_rand(found, first[[name]])
    }, 0)
    c(seeds = if (name %in% seeded) mean_of_pairs(seeds) else NA, rows = mean(orders),
      lowest_rows = lowest(orders))
  })
  data.frame(method = names, do.call(rbind, rows), do.call(rbind, repeats))
}

# task(i) for each repeat, in forks.
repeated <- function(repeats, options, task) {
  found <- parallel::mclapply(repeats, task, mc.cores = options$jobs, mc.set.seed = FALSE)
  failed <- Filter(function(value) inherits(value, "try-error"), found)
  if (length(failed) > 0) stop(failed[[1]], call. = FALSE)
  found
}

mean_of_pairs <- function(labels) {
  if (length(labels) < 2) return(NA)
  mean(utils::combn(length(labels), 2, function(pair) {
    adjusted_rand(labels[[pair[1]]], labels[[pair[2]]])
  }))
}

lowest <- function(values) if (length(values) > 0) min(values) else NA

# The rows of a set: means over its samples.
measure_set <- function(set, files, names, options) {
  preparation <- preparation_of(set, options$data)
  samples <- lapply(files, function(file) {
    message(file)
    measure_sample(read_sample(file, preparation), names, options)
  })
  all <- simplify2array(lapply(samples, function(rows) as.matrix(rows[-1])))
  means <- apply(all, 1:2, mean)
  k <- matrix(all[, "k", ], length(names))
  means <- data.frame(
    row = set, data = cells_of(samples), call = names, samples = length(files), round(means, 3),
    lowest_k = apply(k, 1, min), highest_k = apply(k, 1, max)
  )
  means$lowest_rows <- round(apply(matrix(all[, "lowest_rows", ], length(names)), 1, min), 3)
  means$cells <- round(means$cells)
  means$repeats <- options$repeats
  cbind(means, machine_columns(options))
}

# "5,524 cells", or "12 samples, 9,000 to 15,000 cells".
cells_of <- function(samples) {
  counts <- vapply(samples, function(rows) rows$cells[1], 0)
  cells <- paste(paste(unique(counted(sort(range(counts)))), collapse = " to "), "cells")
  if (length(samples) > 1) paste0(length(samples), " samples, ", cells) else cells
}

# ---- the table ----------------------------------------------------------------------------------

shown_columns <- c("call", "f", "mean_f1", "ari", "k", "seconds", "seeds", "rows")

score_sets <- function(options) {
  sets <- labelled_sets(options$data)
  if (length(sets) == 0) stop("no labelled cells in ", options$data, call. = FALSE)
  chosen <- listed(options$sets, ",", names(sets), "set")
  names <- runnable(listed(options$methods, ";", names(methods), "method"))
  machine <- machine_columns(options)
  print_machine(machine)
  table <- if (!is.null(options$out) && file.exists(options$out)) utils::read.csv(options$out)
  for (set in chosen) {
    done <- if (options$resume) table$call[table$row == set]
    todo <- setdiff(names, done)
    if (length(todo) == 0) next
    rows <- tryCatch(measure_set(set, sets[[set]], todo, options), error = function(e) e)
    if (inherits(rows, "error")) {
      cat("\nskipped:", set, "-", conditionMessage(rows), "\n")
      next
    }
    cat("\n", set, ", ", rows$samples[1], " x ", rows$cells[1], " cells, ", rows$gates[1],
        " gates:\n", sep = "")
    print(rows[shown_columns], row.names = FALSE, right = FALSE)
    table <- bind_rows(list(table[!(table$row == set & table$call %in% todo), ], rows))
    table <- table[order(match(table$row, names(sets)), match(table$call, names(methods))), ]
    write_results(table, machine, options)
  }
  for (score in c("f", "mean_f1", "ari", "k")) print_score(table, score)
}

# A score as a table of methods and sets.
print_score <- function(table, score) {
  cat("\n", score, ":\n", sep = "")
  sets <- unique(table$row)
  names <- intersect(names(methods), table$call)
  wide <- vapply(sets, function(set) {
    rows <- table[table$row == set, ]
    rows[[score]][match(names, rows$call)]
  }, numeric(length(names)))
  print(matrix(wide, length(names), dimnames = list(names, sets)))
}

main <- function(arguments) {
  flags <- c("--clouds", "--resume", "--quick")
  options <- parse_options(
    setdiff(arguments, flags), names(cloud_rows), valued = c("data", "sets", "methods", "jobs")
  )
  if (options$gpu) stop("the result does not depend on the device", call. = FALSE)
  given <- function(name) any(startsWith(arguments, paste0("--", name, "=")))
  options$resume <- "--resume" %in% arguments
  options$quick <- "--quick" %in% arguments
  options$threads <- if (given("threads")) options$threads else 1
  options$repeats <- if (given("repeats")) options$repeats else 5
  options$jobs <- number(options$jobs, 2)
  options(width = 160)
  if ("--clouds" %in% arguments) return(count_clouds(options))
  if (is.null(options$data)) stop("--data=FOLDER is missing", call. = FALSE)
  score_sets(options)
}

main(commandArgs(trailingOnly = TRUE))
