cells <- some_cells(800)
x <- cells[, c("CD3", "CD4", "CD8", "CD56", "TCRgd", "CD16")]
h <- gmhclust(x, 50, apriori = rep(1:80, 10), warn = FALSE)
population <- name_populations(cut_populations(h, 6, 15), c("CD4 T" = 1))
refused <- function(object, message) {
  error <- expect_error(object, class = "gmhclust_error_input")
  expect_match(conditionMessage(error), message, fixed = TRUE)
}

# ---- SingleCellExperiment -----------------------------------------------------------------------

experiment <- function(values = x) {
  skip_if_not_installed("SingleCellExperiment")
  sce <- SingleCellExperiment::SingleCellExperiment(list(exprs = t(unname(values))))
  rownames(sce) <- colnames(values)
  sce$sample_id <- factor(rep_len(c("a", "b", "c"), nrow(values)))
  sce
}

# What CATALYST's functions of these names say: the code of each cell is in the column `cluster_id`;
# the table of codes has it in the first column, and the clusters of a clustering in the column `k`.
cluster_codes_of <- function(sce) S4Vectors::metadata(sce)$cluster_codes
cluster_ids <- function(sce, k) {
  codes <- cluster_codes_of(sce)
  droplevels(codes[match(sce$cluster_id, codes[, 1]), k])
}

# Names of cells, with "none".
cell_names <- function(p) c("none", population_names(p, max(p), "p", NULL))[p + 1L]

# Stops unless codes are as CATALYST needs them: a factor of cells with a level for each row, in its
# order; and a data frame of factors without missing values.
expect_sound_codes <- function(sce) {
  codes <- cluster_codes_of(sce)
  expect_s3_class(codes, "data.frame", exact = TRUE)
  expect_true(all(vapply(codes, is.factor, NA)))
  expect_false(anyNA(codes))
  expect_identical(as.character(codes[, 1]), levels(codes[, 1]))
  expect_identical(levels(sce$cluster_id), levels(codes[, 1]))
  expect_false(anyNA(sce$cluster_id))
  # Rows differ, and all levels occur.
  expect_identical(anyDuplicated(codes[-1]), if (ncol(codes) > 1) 0L else anyDuplicated(codes[-1]))
  for (clustering in codes) expect_true(all(tabulate(clustering, nlevels(clustering)) > 0))
}

test_that("without a tree, populations are the only clustering", {
  sce <- add_populations(experiment(), population)
  expect_sound_codes(sce)
  expect_named(cluster_codes_of(sce), "population")
  expect_gt(sum(population == 0), 0)
  expect_identical(as.character(cluster_ids(sce, "population")), cell_names(population))
  expect_identical(levels(sce$cluster_id), c(levels(population), "none"))
  everyone <- add_populations(experiment(), pmax(as.integer(population), 1L))
  expect_false("none" %in% levels(everyone$cluster_id))
})

test_that("with a tree, nested cuts are those of cut_populations()", {
  sce <- add_populations(experiment(), population, tree = h)
  expect_sound_codes(sce)
  codes <- cluster_codes_of(sce)
  deepest <- ncol(codes) - 1
  expect_named(codes, c("base", paste0("meta", 2:deepest), "population"))
  refused(cut_populations(h, deepest + 1, 15), "the tree has only")
  for (k in 2:deepest) {
    found <- cluster_ids(sce, paste0("meta", k))
    expect_identical(as.character(found), cell_names(cut_populations(h, k, 15)))
    expect_identical(levels(found)[1:k], as.character(1:k))
  }
  expect_identical(as.character(cluster_ids(sce, "population")), cell_names(population))
  # diffcyt takes rows of the table by the codes of the factor.
  expect_identical(codes$meta4[sce$cluster_id], cluster_ids(sce, "meta4"))
  some <- add_populations(experiment(), population, tree = h, k = c(5, 3))
  expect_named(cluster_codes_of(some), c("base", "meta3", "meta5", "population"))
  expect_identical(cluster_ids(some, "meta5"), cluster_ids(sce, "meta5"))
})

test_that("nested cuts of random trees are those of cut_populations(), ties included", {
  set.seed(3)
  compared <- 0
  for (n in c(8, 20, 40, 60)) {
    tree <- random_tree(n)
    for (least in c(1, 2, 4)) {
      whole <- cut_populations(tree, 1, least)
      most <- (length(condense(tree, rep(1L, n), least, NULL)$node) + 1) / 2
      if (most < 2) next
      sce <- add_populations(experiment(matrix(0, n, 2, dimnames = list(NULL, c("a", "b")))), whole,
                             tree = tree)
      expect_sound_codes(sce)
      for (k in 2:min(most, 20)) {
        expected <- cell_names(cut_populations(tree, k, least))
        expect_identical(as.character(cluster_ids(sce, paste0("meta", k))), expected)
        compared <- compared + 1
      }
    }
  }
  expect_gt(compared, 50)
})

test_that("with rest = \"nearest\", cells have the nearest population of the finest cut", {
  sce <- add_populations(experiment(), population, tree = h, k = 2:6, rest = "nearest",
                         assay = "exprs")
  expect_sound_codes(sce)
  fine <- cut_populations(h, 6, 15, rest = "nearest", x = x)
  expect_identical(as.character(cluster_ids(sce, "meta6")), as.character(as.integer(fine)))
  for (k in 2:5) {
    found <- cluster_ids(sce, paste0("meta", k))
    expect_false("none" %in% levels(found))
    # Nested, and as the cut of the tree where that has a population.
    expect_true(all(rowSums(table(fine, found) > 0) == 1))
    core <- cut_populations(h, k, 15)
    inside <- cut_populations(h, 6, 15) > 0
    expect_identical(as.integer(found)[inside], unname(as.integer(core))[inside])
  }
  # `populations` are as they were given.
  expect_identical(as.character(cluster_ids(sce, "population")), cell_names(population))
})

test_that("populations of the leaves of a top become those of its cells", {
  top <- cutree_apriori(h)
  coarse <- cut_populations(top, 3, 30)
  sce <- add_populations(experiment(), coarse, tree = top, k = 2:3)
  expect_sound_codes(sce)
  expect_identical(as.character(cluster_ids(sce, "meta3")), cell_names(coarse)[top$leaf])
  expect_identical(cluster_ids(sce, "population"), cluster_ids(sce, "meta3"))
  near <- add_populations(experiment(), coarse, tree = top, k = 3, rest = "nearest",
                          assay = "exprs")
  nearest <- cut_populations(top, 3, 30, rest = "nearest", x = x)
  expect_identical(as.character(cluster_ids(near, "meta3")), cell_names(nearest)[top$leaf])
  refused(add_populations(experiment(), coarse), "`populations` is of 80 leaves that stand for 800")
})

test_that("an earlier clustering is replaced, and other metadata stay", {
  sce <- experiment()
  S4Vectors::metadata(sce) <- list(experiment_info = "kept", SOM_codes = 1, delta_area = 2,
                                   cluster_codes = data.frame(som100 = factor(1:3)))
  sce <- add_populations(sce, population)
  expect_named(S4Vectors::metadata(sce), c("experiment_info", "cluster_codes"))
  expect_named(cluster_codes_of(sce), "population")
  expect_identical(sce$sample_id, experiment()$sample_id)
})

test_that("classes of markers are those of the model's columns, unless there are some", {
  # Before its functions take arguments: these would be evaluated too late to skip.
  skip_if_not_installed("SummarizedExperiment")
  known <- population
  attr(known, "model") <- structure(list(columns = c("CD3", "CD4", "other")),
                                    class = "population_model")
  classes <- function(sce) SummarizedExperiment::rowData(sce)$marker_class
  found <- classes(add_populations(experiment(), known))
  expect_identical(found, factor(c("type", "type", rep("state", 4)), c("type", "state", "none")))
  expect_null(classes(add_populations(experiment(), population)))
  sce <- experiment()
  SummarizedExperiment::rowData(sce)$marker_class <- factor(rep("none", 6))
  expect_identical(classes(add_populations(sce, known)), classes(sce))
})

test_that("wrong arguments are refused", {
  refused(add_populations(x, population), "`x` is a numeric matrix of 800 x 6; it must be a Single")
  refused(add_populations(NULL, population), "`x` is NULL")
  sce <- experiment()
  refused(add_populations(sce, population[-1]), "`populations` has length 799; `x` has 800 cells")
  broken <- sce
  attr(broken, "int_metadata") <- "none"
  refused(add_populations(broken, population), "which cannot be changed:")
  refused(add_populations(sce, letters), "`populations` is a character vector")
  refused(add_populations(sce, population, k = 3), "`k` is given; it needs `tree`")
  refused(add_populations(sce, population, tree = 1), "`tree` is 1; it must be an object of class")
  refused(add_populations(sce, population, tree = hclust(dist(x[1:9, ]))),
          "`tree` is of 9 observations; `x` has 800 cells")
  refused(add_populations(sce, population, tree = h, k = 1), "`k` is 1; it must be whole numbers")
  refused(add_populations(sce, population, tree = h, k = c(2, NA)), "`k` is a numeric vector")
  refused(add_populations(sce, population, tree = h, k = "meta2"), "`k` is \"meta2\"")
  refused(add_populations(sce, population, tree = h, k = 2:90), "`k` is 90; the tree has only")
  refused(add_populations(sce, population, tree = h, rest = "all"), "`rest` is \"all\"")
  refused(add_populations(sce, population, tree = h, assay = "exprs"), "unused argument: `assay`")
  refused(add_populations(sce, population, tree = h, rest = "nearest", assay = "none"),
          "`assay` is \"none\"")
  refused(add_populations(sce, cut_populations(h, 1, 500), tree = h),
          "`tree` has one population of at least 500 members")
  colnames(sce) <- rev(rownames(x))
  for (rest in c("none", "nearest")) {
    refused(add_populations(sce, population, tree = h, rest = rest),
            "`x` has the tree's observations in another order; row 1 is")
  }
  named <- structure(population, names = rownames(x))
  refused(add_populations(sce, named), "`x` has `populations`'s observations in another order")
})

# ---- flow cytometry -----------------------------------------------------------------------------

test_that("a flowFrame gets a channel, and keywords for names", {
  skip_if_not_installed("flowCore")
  frame <- flow_cells(800)$frame
  marked <- add_populations(frame, population)
  values <- flowCore::exprs(frame)
  found <- flowCore::exprs(marked)
  expect_identical(colnames(found)[-seq_len(ncol(values))], "population")
  expect_identical(unname(found[, "population"]), as.double(population))
  expect_equal(found[, seq_len(ncol(values))], values, ignore_attr = TRUE)
  words <- flowCore::keyword(marked)
  expect_identical(words$POPULATION1, "CD4 T")
  expect_identical(words$POPULATION6, "6")
  bare <- add_populations(frame, as.integer(population))
  expect_null(flowCore::keyword(bare)$POPULATION1)
  refused(add_populations(marked, population), "`x` has a channel \"population\"")
  refused(add_populations(frame, population[-1]), "`populations` has length 799; `x` has 800")
  refused(add_populations(frame, population, tree = h), "unused argument: `tree`")
  file <- tempfile(fileext = ".fcs")
  on.exit(unlink(file))
  suppressWarnings(flowCore::write.FCS(flowCore::flowFrame(
    flowCore::exprs(marked), flowCore::parameters(marked), flowCore::keyword(marked)
  ), file))
  again <- flowCore::read.FCS(file, transformation = FALSE, truncate_max_range = FALSE)
  expect_identical(unname(flowCore::exprs(again)[, "population"]), as.double(population))
  expect_identical(flowCore::keyword(again)[["POPULATION1"]], "CD4 T")
  expect_message(read <- observations(again), class = "gmhclust_message_channels")
  expect_identical(colnames(read), colnames(observations(frame)))
})

test_that("each sample of a flowSet gets its populations", {
  skip_if_not_installed("flowCore")
  frame <- flow_cells(800)$frame
  set <- flow_set(list(b = frame[1:300, ], a = frame[301:310, ], c = frame[311:800, ]))
  marked <- add_populations(set, population)
  expect_identical(flowCore::sampleNames(marked), c("b", "a", "c"))
  found <- lapply(c("b", "a", "c"), function(name) flowCore::exprs(marked[[name]])[, "population"])
  expect_identical(unname(unlist(found)), as.double(population))
  expect_identical(lengths(found), c(300L, 10L, 490L))
  expect_identical(suppressMessages(observations(marked)), observations(set))
  expect_identical(Biobase::pData(marked)$name, Biobase::pData(set)$name)
  refused(add_populations(set, population[-1]), "`populations` has length 799; `x` has 800 events")
  refused(add_populations(marked, population), "`x` has a channel \"population\"")
})

test_that("without flowCore, or for its views of files, the error says what to do", {
  cytoframe <- structure(list(), class = "cytoframe")
  refused(add_populations(cytoframe, 1L), "flowWorkspace::cytoframe_to_flowFrame()")
  refused(add_populations(structure(list(), class = "cytoset"), 1L),
          "flowWorkspace::cytoset_to_flowSet()")
  skip_if(requireNamespace("flowCore", quietly = TRUE), "flowCore is installed")
  refused(add_populations(flow_cells(9)$frame, rep(1L, 9)), "this needs package flowCore")
})
