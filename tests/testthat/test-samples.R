# Sets of samples: flowSets in memory, and cytosets, which are read one sample at a time.

# Samples of these numbers of events, of values in single precision, as files have them.
some_samples <- function(events) {
  lapply(events, function(n) {
    frame <- flow_cells(500)$frame
    frame@exprs <- round(frame@exprs[seq_len(n), , drop = FALSE] * 64) / 64
    frame
  })
}

refused <- function(object, message) {
  error <- expect_error(object, class = "gmhclust_error_input")
  expect_match(conditionMessage(error), message, fixed = TRUE)
}

test_that("a set in blocks has the values and the samples of the set in memory", {
  frames <- some_samples(c(s2 = 300, s10 = 1, s1 = 150))
  set <- flow_set(frames)
  for (arguments in list(list(), list(cofactor = 5), list(use = "channel"),
                         list(channels = c("CD4", "FSC-A"), cofactor = c(2, 3)))) {
    expected <- do.call(observations, c(list(set), arguments))
    for (x in list(do.call(observations, c(list(set, in_blocks = TRUE), arguments)),
                   do.call(observations, c(list(local_cytoset(frames)), arguments)))) {
      expect_s3_class(x, "row_blocks")
      expect_identical(as.matrix(x), expected)
      expect_identical(dimnames(x), list(NULL, colnames(expected)))
      expect_identical(x$parts, data.frame(name = c("s2", "s10", "s1"), rows = c(300, 1, 150)))
    }
  }
  expect_output(print(x), "451 observations in 2 columns, read in blocks from 3 samples")
  counts <- count_populations(rep(1, 451), x)
  expect_identical(counts["1", ], c(s2 = 300L, s10 = 1L, s1 = 150L))
  expect_identical(x[c(451, 1, 301), 2:1], expected[c(451, 1, 301), 2:1])
  refused(observations(set, in_blocks = NA), "`in_blocks` is NA")
})

test_that("functions give for a cytoset what they give for its cells", {
  frames <- some_samples(c(a = 400, b = 250))
  set <- local_cytoset(frames)
  x <- as.matrix(observations(set))
  bare <- function(tree) tree[c("merge", "height", "order")]
  tree <- gmhclust(set, 30, warn = FALSE)
  expect_identical(bare(tree), bare(gmhclust(x, 30, warn = FALSE)))
  clusters <- function(x) {
    set.seed(1)
    unname(gkmeans(x, 8)$cluster)
  }
  expect_identical(clusters(set), clusters(x))
  expect_identical(gknn(set, 3)$index, gknn(x, 3)$index)
  population <- cut_populations(tree, 3, 20)
  found <- on_no_screen(plot_populations(tree, set, population, engine = "base"))
  expect_identical(colnames(found$samples), c("a", "b"))
  expect_identical(found, on_no_screen(plot_populations(tree, x, population, engine = "base")))
})

test_that("each sample is read once a pass, and none before it is needed", {
  skip_if(requireNamespace("flowWorkspace", quietly = TRUE), "the stand-in is not used")
  x <- observations(local_cytoset(some_samples(c(a = 300, b = 0, c = 200))))
  expect_identical(flow_classes$read, character(0))
  withr::local_options(gmhclust.block_values = 100)
  pass <- function() reduce_row_blocks(x, function(block, first, state) state + nrow(block), 0)
  expect_identical(pass(), 500)
  expect_identical(flow_classes$read, c("a", "c"))
  expect_identical(pass(), 500)
  expect_identical(flow_classes$read, c("a", "c", "a", "c"))
})

test_that("a function transforms frames and sets, after the cofactor", {
  frames <- some_samples(c(a = 30, b = 20))
  set <- flow_set(frames)
  halved <- function(values) values / 2
  for (x in list(frames$a, set)) {
    expected <- observations(x, cofactor = 5)
    expected[] <- expected / 2
    expect_identical(observations(x, cofactor = 5, transform = halved), expected)
    refused(observations(x, transform = 2), "`transform` is 2")
    refused(observations(x, transform = function(values) values[, 1]), "`transform` gave")
    expect_refused(gmst(x, transform = function(values) "a"), "`transform` gave \"a\"", "gmst")
  }
  expect_identical(as.matrix(observations(local_cytoset(frames), cofactor = 5, transform = halved)),
                   expected)
})

test_that("channels are matched by name, and one error names all samples that lack some", {
  frames <- some_samples(c(a = 30, b = 20, c = 25))
  plain <- observations(flow_set(frames), cofactor = c(1, 2, 3, 4, 5))
  turned <- frames$b
  turned@exprs <- turned@exprs[, 8:1]
  turned@parameters <- frames$b@parameters
  turned@parameters@data <- frames$b@parameters@data[8:1, ]
  factors <- c("FL1-A" = 1, "FL2-A" = 2, "FL3-A" = 3, "FL4-A" = 4, "FL5-A" = 5)
  expect_identical(observations(flow_set(list(a = frames$a, b = turned, c = frames$c)),
                                cofactor = factors), plain)
  few <- flow_frame(matrix(1:8 + 0, 4), c("FL1-A", "FL9-A"), c("CD3", "CD19"))
  scatter <- flow_frame(matrix(1:8 + 0, 4), c("FSC-A", "Time"), c(NA_character_, NA))
  set <- list(a = frames$a, few = few, b = frames$b, scatter = scatter)
  for (x in list(flow_set(set), local_stand_in(set))) {
    refused(observations(x), "`x` has 1 of 4 samples that cannot be used; \n  scatter: has only")
  }
  set$scatter <- few
  for (x in list(flow_set(set), local_stand_in(set))) {
    error <- expect_error(observations(x), class = "gmhclust_error_input")
    message <- conditionMessage(error)
    expect_match(message, "`x` has 2 of 4 samples that cannot be used", fixed = TRUE)
    expect_match(message, "few: its channels differ from those of \"a\": it lacks \"CD4\"")
    expect_match(message, "scatter: its channels differ .* and has \"CD19\"")
    expect_identical(ncol(observations(x, channels = "CD3")), 1L)
    refused(observations(x, channels = "CD99"), "`channels` has \"CD99\"")
    refused(observations(x, channels = "CD4"), "few: `channels` has \"CD4\"")
  }
})

test_that("a sample that changes while it is used is an error, and so is a set without samples", {
  frames <- some_samples(c(a = 30, b = 20))
  set <- local_stand_in(frames)
  x <- observations(set)
  changed <- frames$b
  changed@exprs <- changed@exprs[-1, ]
  assign("b", changed, set@frames)
  refused(as.matrix(x), "`x` has the sample \"b\" with other events than before")
  refused(gkmeans(x, 2), "`x` has the sample \"b\"")
  refused(observations(local_stand_in(stats::setNames(list(), character(0)))),
          "`x` has no samples")
})

test_that("without flowWorkspace an error names it", {
  skip_if(requireNamespace("flowWorkspace", quietly = TRUE), "flowWorkspace is there")
  expect_refused(gmst(structure(list(), class = "cytoset")),
                 "this needs package flowWorkspace", "gmst")
})
