# Every class gives the results of the plain matrix, and wrong use a clear error.
x <- some_cells(200)[, 1:4]
rownames(x) <- paste0("cell", 1:200)

refused <- function(object, message, by = "observations") {
  error <- expect_error(object, class = "gmhclust_error_input")
  expect_match(conditionMessage(error), message, fixed = TRUE)
}

# All functions of observations, on data and on its plain matrix.
expect_same_results <- function(data, plain, ...) {
  expect_same_tree(gmhclust(data, threshold = 20, ...), gmhclust(plain, threshold = 20))
  expect_same_tree(mhclust(data, thresh = 20, warn = FALSE, ...),
                   mhclust(plain, thresh = 20, warn = FALSE))
  expect_same_tree(ghclust(data, "average", ...), ghclust(plain, "average"))
  expect_identical(gknn(data, 3, ...), gknn(plain, 3))
  expect_identical(gknn(data, 3, query = data, ...), gknn(plain, 3, query = plain))
  expect_identical(as.vector(gdist(data, ...)), as.vector(gdist(plain)))
  expect_identical(gdist(data, y = data, ...), gdist(plain, y = plain))
  expect_identical(gmst(data, ...), gmst(plain))
  centers <- plain[1:4, ]
  expect_identical(gkmeans(data, centers, 100, ...)$cluster, gkmeans(plain, centers, 100)$cluster)
}

test_that("matrices and data frames are taken as they are", {
  expect_identical(observations(x), x)
  expect_identical(observations(as.data.frame(x)), x)
  expect_identical(observations(round(x) > 2), (round(x) > 2) + 0)
  skip_if_not_installed("tibble")
  expect_same_results(tibble::as_tibble(x), structure(x, dimnames = list(NULL, colnames(x))))
})

test_that("what is no matrix is refused by name, and so are arguments that it does not have", {
  refused(observations(1:3), "`x` is a vector of length 3; use matrix(x)")
  refused(observations(NULL), "`x` is NULL; it must be")
  refused(observations("a"), "`x` is \"a\"; it must be")
  refused(observations(dist(x)), "`x` is distances (\"dist\") of 200 observations")
  refused(
    observations(data.frame(a = 1:3, b = letters[1:3])),
    "non-numeric column: \"b\" (character)"
  )
  refused(observations(x, channels = "CD3"), "unused argument: `channels`; see the arguments")
  expect_refused(gmhclust(x, treshold = 3), "unused argument: `treshold`; see the arguments")
  expect_refused(gknn(x, 2, query = "b"), "`query` is \"b\"; it must be", "gknn")
})

test_that("a method of a user's own class is found, and its errors come through", {
  assign("observations.gmhclust_test", function(x, ...) {
    if (is.null(x$values)) stop("no values here")
    observations(x$values, ...)
  }, envir = globalenv())
  on.exit(rm("observations.gmhclust_test", envir = globalenv()))
  mine <- structure(list(values = x), class = "gmhclust_test")
  expect_identical(gmst(mine), gmst(x))
  expect_error(gmst(structure(list(), class = "gmhclust_test")), "no values here")
})

# An object whose method of observations() gives `values`.
given <- function(values) structure(list(values = values), class = "gmhclust_given")

test_that("what a user's method gives is taken as it truly is, or refused by every function", {
  registerS3method("observations", "gmhclust_given", function(x, ...) x$values)
  # A class that tells other dimensions than it has.
  registerS3method("dim", "gmhclust_lying", function(x) c(5L, 4L))
  whole <- round(x)
  storage.mode(whole) <- "integer"
  expect_same_results(given(x), x)
  expect_same_results(given(whole), whole + 0)
  expect_same_results(given(as.data.frame(x)), x)
  expect_same_results(given(structure(x, class = "gmhclust_lying")), x)
  expect_same_results(given(structure(x, class = "DelayedMatrix")), x)
  expect_identical(gdist(given(x > 2)), gdist((x > 2) + 0), ignore_attr = "call")
  verbs <- list(
    gmhclust = function(x) gmhclust(x), mhclust = function(x) mhclust(x),
    ghclust = function(x) ghclust(x), gdist = function(x) gdist(x), gknn = function(x) gknn(x, 2),
    gneighbours = function(x) gneighbours(x, 1), gmst = function(x) gmst(x),
    gkmeans = function(x) gkmeans(x, 2)
  )
  wrong <- list(
    "a", NULL, list(), 1:3, x + 1i, array(1, c(2, 2, 2)), quote(a), sum,
    structure(list(), class = "gmhclust_given"),
    structure(matrix(1:4, 2), class = "integer64")
  )
  for (verb in verbs) {
    for (values in wrong) {
      error <- expect_error(verb(given(values)), class = "gmhclust_error_input")
      expect_match(conditionMessage(error), "whose method of observations() gave", fixed = TRUE)
    }
  }
  skip_if_not_installed("Matrix")
  expect_same_results(given(Matrix::Matrix(whole, sparse = TRUE)), whole + 0)
})

test_that("a square matrix of distances is no data, unless the user insists", {
  d <- as.matrix(dist(x[1:30, ]))
  verbs <- list(
    gmhclust = function(x, ...) gmhclust(x, ...), mhclust = function(x, ...) mhclust(x, ...),
    ghclust = function(x, ...) ghclust(x, "average", ...), gdist = function(x, ...) gdist(x, ...),
    gknn = function(x, ...) gknn(x, 2, ...), gneighbours = function(x, ...) gneighbours(x, 1, ...),
    gmst = function(x, ...) gmst(x, ...), gkmeans = function(x, ...) gkmeans(x, d[1:2, ], 50, ...)
  )
  for (verb in verbs) {
    for (distances in list(d, as.data.frame(d), 1 - cor(t(x[1:30, ])), unname(d))) {
      error <- expect_error(verb(distances), class = "gmhclust_error_input")
      expect_match(conditionMessage(error), "looks like distances: its 30 x 30 values")
      expect_match(conditionMessage(error), "as.dist", fixed = TRUE)
    }
    # A diagonal that is not zero, here not even in the last digits, makes it data.
    expect_identical(
      verb(d, rows_are_observations = TRUE)[[1]], verb(d + diag(1e-7, 30) * max(d))[[1]],
      tolerance = 1e-5
    )
  }
  expect_error(gmst(d, rows_are_observations = 2), "`rows_are_observations` is 2")
  skip_if_not_installed("Matrix")
  for (distances in list(Matrix::Matrix(d), Matrix::Matrix(d * (d < 50), sparse = TRUE))) {
    expect_refused(gknn(distances, 2), "`x` looks like distances", "gknn")
    expect_length(gknn(distances, 2, rows_are_observations = TRUE)$index, 60)
  }
  # Other square matrices are data.
  square <- x[1:4, ]
  for (data in list(square, square - diag(diag(square)), matrix(0, 4, 4), diag(4), -d[1:9, 1:9])) {
    expect_identical(observations(data), data)
  }
  expect_identical(dim(observations(matrix(c(0, 1, 1, 0), 2))), c(2L, 2L))
})

test_that("similarities and cross distances are refused", {
  simil <- structure(dist(x[1:9, ]), class = c("simil", "dist"))
  expect_refused(ghclust(simil), "`x` holds similarities", "ghclust")
  expect_refused(gmhclust(simil), "`x` is distances")
  cross <- structure(as.matrix(dist(x[1:9, ]))[, 1:4], class = "crossdist")
  expect_refused(gmhclust(cross), "`x` is distances between two sets of observations")
  class(cross) <- "crosssimil"
  expect_refused(gknn(cross, 2), "`x` is similarities between two sets", "gknn")
})

test_that("a flowFrame gives its markers, without scatter and time", {
  cells <- flow_cells()
  expect_identical(observations(cells$frame), cells$plain)
  expect_same_results(cells$frame, cells$plain)
  by_channel <- observations(cells$frame, use = "channel")
  expect_identical(colnames(by_channel), paste0("FL", 1:5, "-A"))
})

test_that("channels are chosen by name, marker or number, scatter and time among them", {
  cells <- flow_cells()
  chosen <- observations(cells$frame, channels = c("CD4", "FL1-A", "FSC-A", "Time"))
  expect_identical(colnames(chosen), c("CD4", "CD3", "FSC-A", "Time"))
  expect_identical(unname(chosen[, 2]), unname(cells$plain[, 1]))
  expect_identical(observations(cells$frame, channels = 4:3),
                   observations(cells$frame, channels = c("CD4", "CD3")))
  expect_refused(gmhclust(cells$frame, channels = "CD99"),
                 "`channels` has \"CD99\"; it must be among the 8 channels")
  refused(observations(cells$frame, channels = 9), "`channels` has 9; it must be among")
  refused(observations(cells$frame, channels = "CD8"),
          paste("`channels` has \"CD8\", the name of several channels; give one of",
                "\"CD8 (FL4-A)\", \"CD8 (FL5-A)\", or a number of 6, 7"))
  expect_identical(observations(cells$frame, channels = colnames(cells$plain)), cells$plain)
  refused(observations(cells$frame, channels = c("CD3", "FL1-A")), "`channels` has \"FL1-A\" twice")
  refused(observations(cells$frame, channels = list(1)), "`channels` is not a vector")
  refused(observations(cells$frame, use = "color"), "`use` is \"color\"; it must be one of")
  refused(observations(cells$frame, assay = 1), "unused argument: `assay`")
  bare <- flow_frame(matrix(1:6, 2), c("FSC-A", "SSC-A", "Time"), c(NA, NA, NA))
  refused(observations(bare), "`x` has only channels of scatter, time, events or earlier results")
})

test_that("a cofactor transforms the markers, and leaves scatter and time", {
  cells <- flow_cells()
  plain <- cells$plain
  expect_identical(observations(cells$frame, cofactor = 5), asinh(plain / 5))
  expect_identical(observations(cells$frame, cofactor = 150L), asinh(plain / 150))
  expect_identical(observations(cells$frame, cofactor = NULL), plain)
  expect_identical(observations(cells$frame, use = "channel", cofactor = 5),
                   asinh(observations(cells$frame, use = "channel") / 5))
  chosen <- observations(cells$frame, channels = c("FSC-A", "CD4", "Time"))
  chosen[, 2] <- asinh(chosen[, 2] / 5)
  expect_identical(observations(cells$frame, channels = c("FSC-A", "CD4", "Time"), cofactor = 5),
                   chosen)
  for (verb in list(gmst, function(x, ...) gknn(x, 3, ...),
                    function(x, ...) as_computed(gmhclust(x, 20, warn = FALSE, ...)))) {
    expect_identical(verb(cells$frame, cofactor = 150), verb(asinh(plain / 150)))
  }
  halves <- gknn(cells$frame, 3, query = cells$frame, cofactor = 5)
  expect_identical(halves, gknn(asinh(plain / 5), 3, query = asinh(plain / 5)))
})

test_that("each channel may have its cofactor, in order or by name of channel or marker", {
  cells <- flow_cells()
  factors <- c(5, 10, 20, 40, 80)
  expected <- asinh(sweep(cells$plain, 2, factors, "/"))
  expect_identical(observations(cells$frame, cofactor = factors), expected)
  by_channel <- stats::setNames(factors, paste0("FL", 1:5, "-A"))
  expect_identical(observations(cells$frame, cofactor = rev(by_channel)), expected)
  by_name <- stats::setNames(factors, colnames(cells$plain))
  expect_identical(observations(cells$frame, cofactor = by_name), expected)
  # Two channels are of marker CD8; those that are not chosen may have a cofactor, too.
  by_marker <- c(CD8 = 7, CD3 = 5, "FL2-A" = 6, "FL3-A" = 9, "SSC-H" = 3)
  found <- observations(cells$frame, cofactor = by_marker)
  expect_identical(found, asinh(sweep(cells$plain, 2, c(5, 6, 9, 7, 7), "/")))
  few <- observations(cells$frame, channels = c("CD4", "FSC-A"), cofactor = by_marker)
  expect_identical(few[, 1], found[, 2])
  expect_identical(unname(few[, 2]), rep(1000, 300))
  scatter <- observations(cells$frame, channels = c("CD4", "SSC-H"), cofactor = by_marker)
  expect_identical(unname(scatter[, 2]), asinh(rep(500, 300) / 3))
  # The channel's own name counts before a marker of the same name.
  swapped <- flow_frame(matrix(1:6 + 0, 3), c("A", "B"), c("B", NA))
  found <- observations(swapped, cofactor = c(A = 1, B = 2))
  expect_identical(unname(found), asinh(cbind(1:3, 4:6 / 2)))
})

test_that("a flowSet is transformed as its samples are, and wrong cofactors are refused", {
  cells <- flow_cells()
  set <- flow_set(list(one = cells$frame, two = flow_cells(200)$frame))
  found <- observations(set, cofactor = 5)
  plain <- observations(set)
  expect_identical(attr(found, "sample"), attr(plain, "sample"))
  expect_identical(found, structure(asinh(plain / 5), sample = attr(plain, "sample")))
  by_name <- c("FL1-A" = 5, CD4 = 6, "FL3-A" = 7, CD8 = 8)
  expect_identical(observations(set, cofactor = by_name)[1:300, ],
                   observations(cells$frame, cofactor = by_name))
  for (x in list(cells$frame, set)) {
    wrong <- function(cofactor, message) refused(observations(x, cofactor = cofactor), message)
    wrong(0, "`cofactor` has 0 at position 1; it must be one positive number")
    wrong(-5, "`cofactor` has -5 at position 1")
    wrong(c(1, NA, 3, 4, 5), "`cofactor` has NA at position 2")
    wrong(Inf, "`cofactor` has Inf")
    wrong("5", "`cofactor` is \"5\"")
    wrong(TRUE, "`cofactor` is TRUE")
    wrong(numeric(0), "`cofactor` is a numeric vector of length 0")
    wrong(list(5), "`cofactor` is a list")
    wrong(factor(5), "`cofactor` is an object of class \"factor\"")
    wrong(1:2, "`cofactor` has length 2; it must be 1, or the number of chosen channels, 5")
    wrong(c(CD99 = 5), "`cofactor` has the name \"CD99\"; it must be among the channels")
    wrong(c(CD3 = 5, 6), "`cofactor` has the name \"\"")
    wrong(stats::setNames(5, NA), "`cofactor` has the name")
    wrong(c(CD3 = 5, CD3 = 6), "`cofactor` has the name \"CD3\" twice")
    wrong(c(CD3 = 5), "`cofactor` has no value for channel \"FL2-A\"")
  }
  expect_refused(gmhclust(set, cofactor = 0), "`cofactor` has 0 at position 1")
  refused(observations(cells$plain, cofactor = 5), "unused argument: `cofactor`")
})

# Names of channels of BD (also with images), Beckman Coulter, Sony, Cytek, Attune, Guava,
# MACSQuant, Apogee and mass cytometers, and what programs add.
beside_markers <- c(
    "FSC-A", "FSC-H", "SSC-W", "FSC", "FS Lin", "SS-A", "FS INT", "Time", "TIME", "Time1",
    "Event_length", "Event #", "event_count", "Cell_length", "Center", "Offset", "Width",
    "Residual", "SSC-B-H", "VSSC-A", "BSC-A", "BSSC-A", "Violet SSC-A", "FSCW", "FSCA",
    "FSC-Width", "HDR-T", "HDR-CE", "HDR-SE", "HDR-V", "TIMESTAMP", "Time Stamp", "SSC-B-A",
    "FSC-HLin", "SSC-HLog", "FSC1-Height", "488-FSC1-Area", "405-SSC-A", "405nm SSC-A",
    "FSC 488/10-A", "SSC (Imaging)-A", "SSC (Violet)-A", "LightLoss (Imaging)-A",
    "LightLoss (Violet)-A", "Size (LightLoss)", "Eccentricity (LightLoss)", "Radial Moment (FSC)",
    "Long Axis Moment (LightLoss)", "Max Intensity (SSC)", "Center of Mass X (SSC)",
    "Delta Center of Mass", "Diffusivity (SSC)", "Total Intensity (FSC)",
    "Correlation (LightLoss/SSC)", "FALS", "SALS", "LALS-A", "Trigger Pulse Width", "Time 3",
    "Drop Phase", "ROI Bits 1-16", "Classifier Bits", "Sort Result Bits", "Sort Enable Bits",
    "Tray X (kw)", "FSC.A", "FSC_A", "SSC-Area", "FSC-AREA", "Side Scatter", "Forward Scatter-A",
    "FSC-W", "FSC-PAR", "FSC (PAR)", "FSC-Peak", "SS PEAK LIN", "FS TOF", "UV SSC-A", "UVSSC-A",
    "V SSC-A", "Red-SSC-H", "*FSC", "bead_dist", "Amplitude", "EventLength", "Event Time",
    "SSC-HLin", "Time (sec)", "Yellow-Green SSC-A", "YGSSC-A", "SSC1-A", "SSC2-A", "fsc-a",
    "Event", "event_time", "event_number", "EventID", "Object Number", "ImageNumber", "cell_id"
)
of_earlier_analysis <- c(
    "population", "populations", "cluster", "Cluster", "cluster_id", "metacluster",
    "Metaclusters", "label", "individual", "file_number", "File Number", "sample_id", "SampleID",
    "FileNum", "tSNE1", "tSNE_2", "t-SNE 1", "UMAP1", "UMAP_2", "umap X", "viSNE1", "FlowSOM",
    "FlowSOM_cluster", "FlowSOM metacluster", "PhenoGraph", "Phenograph_12", "sample",
    "opt-SNE 1", "file", "FlowSOM.id"
)
markers_like_these <- c(
    "FL1-A", "B515-A", "Yb176Di", "(Ce140)Dd", "FITC-A", "SSEA-4", "PE-A", "FSHR", "V450", "CD45",
    "Sm149Di", "Timd4", "Ir191Di", "CD57", "TIM-3", "TIM3", "Timp1", "TIMELESS", "SS18", "SSC5D",
    "SSC4D", "FSCN1", "SSTR2", "BSCL2", "BSG", "VSIG4", "VSTM3", "BST2", "Ce140Di", "Pt195Di",
    "V5-A", "VL1-A", "BL1-A", "YL2-H", "RL1-A", "GRN-HLin", "APC-A", "Widthless", "CENPA",
    "Centrin", "SampleTag", "FILIP1", "HDAC1", "HDR", "Event1Di", "CLU", "CD38", "CLEC9A",
    "SNED1", "SNE", "LabelX", "UV1-A", "AREG", "SIZN1", "CORO1A", "ALS2", "UMA", "Violet 1-A",
    "Violet A-A", "Viability", "DNA1", "Dead", "Indo-1 (Violet)-A", "Bead", "BC1", "Red-A",
    "Blue 1-A", "405-450/50-A", "561-585/15-A", "488-530/30-A", "V525-A", "FL1-Area", "SFTPC",
    "SLC", "BCL6", "GSC", "NSSC", "CXCR5", "PopA", "Gate", "FASLG", "MALSU1", "Pop1"
)

test_that("what is no marker is known by the names of many cytometers", {
  expect_identical(beside_markers[!is_no_marker(beside_markers)], character(0))
  expect_identical(beside_markers[is_result(beside_markers)], character(0))
  expect_identical(of_earlier_analysis[!is_result(of_earlier_analysis)], character(0))
  expect_identical(markers_like_these[is_no_marker(markers_like_these)], character(0))
  # Names of unknown encoding, and no name.
  expect_identical(is_no_marker(c("Time (\xb5s)", "IFN-\xe3", NA)), c(TRUE, FALSE, FALSE))
})

test_that("only markers of a file are taken, and columns of an earlier analysis are named", {
  names <- c(beside_markers, of_earlier_analysis, markers_like_these)
  set.seed(1)
  values <- matrix(rnorm(20 * length(names)), 20)
  everything <- flow_frame(values, names, rep(NA_character_, length(names)))
  expect_message(taken <- observations(everything), "left out \"population\", \"populations\"",
                 class = "gmhclust_message_channels")
  expect_identical(colnames(taken), markers_like_these)

  cells <- flow_cells()
  marked <- flow_frame(
    cbind(cells$frame@exprs, rep(1:3, 100)), c(colnames(cells$frame@exprs), "population"),
    c(NA, "", "CD3", "CD4", NA, "CD8", "CD8", NA, "population")
  )
  expect_message(
    tree <- gmhclust(marked, threshold = 20),
    "left out \"population\", which looks like a column of an earlier analysis; `channels` takes",
    fixed = TRUE, class = "gmhclust_message_channels"
  )
  expect_same_tree(tree, gmhclust(cells$plain, threshold = 20))
  expect_no_message(observations(cells$frame))
  expect_no_message(chosen <- observations(marked, channels = c("CD3", "population")))
  expect_identical(unname(chosen[, 2]), rep(c(1, 2, 3), 100))

  # Once for all samples.
  set <- flow_set(list(a = marked, b = marked))
  messages <- capture_messages(found <- observations(set))
  expect_length(messages, 1)
  expect_identical(colnames(found), colnames(cells$plain))
})

test_that("a file in which each channel is constant is refused", {
  cells <- flow_cells()
  zeros <- cells$frame
  zeros@exprs[, 3:7] <- 0
  expect_refused(gmhclust(zeros), "`x` has the same value in all 300 events of each channel: \"CD3")
  expect_refused(gknn(zeros, 2), "check how the file was read", "gknn")
  expect_identical(unname(observations(zeros, channels = 1:8)[1, ]),
                   unname(cells$frame@exprs[1, ] * c(1, 1, 0, 0, 0, 0, 0, 1)))
  one_varies <- zeros
  one_varies@exprs[300, 5] <- 1
  expect_identical(sum(observations(one_varies)), 1)
  # A sample may be, and so may one cell.
  expect_identical(nrow(observations(flow_set(list(a = zeros, b = cells$frame)))), 600L)
  expect_error(observations(flow_set(list(a = zeros, b = zeros))), class = "gmhclust_error_input")
  single <- zeros
  single@exprs <- single@exprs[1, , drop = FALSE]
  expect_identical(sum(observations(single)), 0)
})

test_that("a flowSet gives the cells of all samples, and says which each is of", {
  cells <- flow_cells()
  other <- flow_cells(100)
  set <- flow_set(list(b = cells$frame, a = other$frame))
  all <- rbind(cells$plain, other$plain)
  found <- observations(set)
  samples <- factor(rep(c("b", "a"), c(300, 100)), levels = c("b", "a"))
  expect_identical(attr(found, "sample"), samples)
  expect_equal(found, all, ignore_attr = "sample")
  expect_same_results(set, all)
  strange <- flow_frame(matrix(0, 4, 2), c("FL1-A", "FL2-A"), c("CD3", "CD19"))
  refused(observations(flow_set(list(a = cells$frame, b = strange))),
          "b: its channels differ from those of \"a\": it lacks \"CD4\", \"FL3-A\"")
})

test_that("a DelayedMatrix is read in blocks by gknn(), and else at once", {
  skip_if_not_installed("DelayedArray")
  in_blocks <- delayed(x, 150)
  expect_identical(observations(in_blocks), in_blocks)
  expect_same_results(in_blocks, x)
  words <- DelayedArray::DelayedArray(matrix("a", 2, 2))
  expect_refused(
    gmst(words), "`x` is an object of class \"DelayedMatrix\" of type character",
    "gmst"
  )
})

test_that("a sparse matrix is the dense one, and functions say where they make it so", {
  skip_if_not_installed("Matrix")
  counts <- round(abs(x)) + 0
  # gknn() reads it in blocks of this size.
  if (requireNamespace("DelayedArray", quietly = TRUE)) delayed(counts, 150)
  sparse <- Matrix::Matrix(counts, sparse = TRUE)
  expect_identical(observations(sparse), sparse)
  expect_same_results(sparse, counts)
  wide <- Matrix::sparseMatrix(i = c(1, 50), j = c(2, 3000), x = c(1, 2), dims = c(50, 3000))
  expect_message(gdist(wide), "`x` is sparse; as a dense matrix, its 50 x 3000 values take 1.2 MB",
                 class = "gmhclust_message_dense")
  huge <- Matrix::sparseMatrix(i = 1, j = 1, x = 1, dims = c(2e6, 2e6))
  error <- expect_error(gdist(huge), class = "gmhclust_error_memory")
  expect_match(conditionMessage(error), "all values of `x` need", fixed = TRUE)
})

# The matrix of 200 x 4 whole numbers of `x`, and a square one, in classes of package Matrix.
counts <- round(abs(x)) + 0

matrix_classes <- function(values) {
  sparse <- methods::as(values, "CsparseMatrix")
  dense <- methods::as(methods::as(values, "unpackedMatrix"), "generalMatrix")
  list(
    dgC = sparse, dgR = methods::as(values, "RsparseMatrix"),
    dgT = methods::as(values, "TsparseMatrix"), dge = dense,
    lgC = sparse > 2, lgT = methods::as(sparse > 2, "TsparseMatrix"), lge = dense > 2,
    ngC = methods::as(sparse > 2, "nMatrix"), nge = methods::as(dense > 2, "nMatrix")
  )
}

square_classes <- function(values) {
  symmetric <- crossprod(values)
  sparse <- methods::as(symmetric, "CsparseMatrix")
  dense <- methods::as(symmetric, "unpackedMatrix")
  n <- nrow(values)
  list(
    dsC = methods::as(sparse, "symmetricMatrix"), dtC = Matrix::triu(sparse),
    dsT = methods::as(methods::as(sparse, "symmetricMatrix"), "TsparseMatrix"),
    dtR = methods::as(Matrix::tril(sparse), "RsparseMatrix"),
    dsy = methods::as(dense, "symmetricMatrix"), dpo = methods::as(symmetric, "dpoMatrix"),
    dtr = Matrix::triu(dense), dsp = Matrix::pack(methods::as(dense, "symmetricMatrix")),
    dtp = Matrix::pack(Matrix::triu(dense)), ddi = Matrix::Diagonal(n, seq_len(n)),
    unit = Matrix::Diagonal(n), ldi = Matrix::Diagonal(n, rep_len(c(TRUE, FALSE), n)),
    permutation = methods::as(n:1, "pMatrix"), index = methods::as(c(1L, 1L, 3:n), "indMatrix")
  )
}

# What as.matrix() gives, in doubles and with these names.
plain_matrix <- function(values, names = dimnames(values)) {
  plain <- as.matrix(values) + 0
  dimnames(plain) <- if (any(lengths(names) > 0)) names
  plain
}

test_that("all classes of package Matrix are their plain matrix", {
  skip_if_not_installed("Matrix")
  square <- counts[1:4, ]
  rownames(square) <- colnames(square)
  for (values in c(matrix_classes(counts), square_classes(square))) {
    # Some are symmetric, with zeros in the diagonal.
    found <- observations(values, rows_are_observations = TRUE)
    is_sparse <- methods::is(values, "sparseMatrix")
    expect_identical(class(found)[1], if (is_sparse) "dgCMatrix" else "matrix")
    plain <- plain_matrix(values)
    expect_identical(as.matrix(found), plain)
    expect_identical(gknn(values, 2, rows_are_observations = TRUE),
                     gknn(plain, 2, rows_are_observations = TRUE))
    expect_identical(as.vector(gdist(values, rows_are_observations = TRUE)),
                     as.vector(gdist(plain, rows_are_observations = TRUE)))
    expect_refused(gmst(values, features = 1), "unused argument: `features`", "gmst")
  }
  # A logical value in two triplets is one value.
  twice <- methods::new("lgTMatrix", i = c(0L, 0L), j = c(1L, 1L), x = c(TRUE, TRUE),
                        Dim = c(2L, 2L))
  expect_identical(as.matrix(observations(twice)), rbind(c(0, 1), 0))
  expect_same_results(matrix_classes(counts)$dge, counts)
})

test_that("assays of all classes of package Matrix are taken, as cells and as genes", {
  skip_if_not_installed("SummarizedExperiment")
  skip_if_not_installed("Matrix")
  few <- counts[1:30, ]
  chosen <- c("CD57", "SYK")
  for (values in matrix_classes(t(few))) {
    se <- SummarizedExperiment::SummarizedExperiment(list(values))
    plain <- t(plain_matrix(values, dimnames(t(few))))
    expect_identical(as.matrix(observations(se)), plain)
    expect_identical(as.matrix(observations(se, of = "rows")), t(plain))
    expect_identical(as.matrix(observations(se, features = chosen)), plain[, chosen])
    expect_identical(as.matrix(observations(se, features = 3:2, of = "rows")), t(plain)[3:2, ])
    expect_identical(gknn(se, 2), gknn(plain, 2))
    expect_identical(as.vector(gdist(se, features = chosen)), as.vector(gdist(plain[, chosen])))
    refused(observations(se, features = "CD99"), "`features` has \"CD99\"; it must be names or")
  }
  # Rows and columns have names of their own, which a symmetric matrix cannot have.
  names <- list(paste0("gene", 1:4), paste0("cell", 1:4))
  for (values in square_classes(few[1:4, ])) {
    dimnames(values) <- list(NULL, NULL)
    se <- SummarizedExperiment::SummarizedExperiment(list(values))
    dimnames(se) <- names
    plain <- t(plain_matrix(values, names))
    expect_identical(as.matrix(observations(se)), plain)
    expect_identical(as.matrix(observations(se, features = "gene3")), plain[, 3, drop = FALSE])
    expect_identical(as.matrix(observations(se, of = "rows", features = 2:3)), t(plain)[2:3, ])
  }
})

test_that("sparse single cells are the dense ones for all functions", {
  skip_if_not_installed("SingleCellExperiment")
  skip_if_not_installed("Matrix")
  # gknn() reads them in blocks of this size.
  if (requireNamespace("DelayedArray", quietly = TRUE)) delayed(counts, 150)
  cells <- SingleCellExperiment::SingleCellExperiment
  assays <- matrix_classes(t(counts))
  for (values in assays) {
    sce <- cells(list(counts = 2 * values, logcounts = values))
    plain <- t(plain_matrix(values))
    expect_identical(as.matrix(observations(sce)), plain)
    antibodies <- SummarizedExperiment::SummarizedExperiment(list(values))
    SingleCellExperiment::altExp(sce, "ADT") <- antibodies # nolint: object_name_linter.
    found <- observations(sce, altexp = "ADT", features = 3:1)
    expect_identical(as.matrix(found), plain[, 3:1])
    SingleCellExperiment::reducedDim(sce, "PCA") <- Matrix::t(values) # nolint: object_name_linter.
    expect_identical(as.matrix(observations(sce, dimred = "PCA")), plain)
  }
  for (values in assays[c("dgC", "dge")]) {
    sce <- cells(list(counts = 2 * values, logcounts = values))
    expect_same_results(sce, counts)
  }

  # The further functions that take observations.
  sce <- cells(list(counts = assays$dgC))
  expect_identical(gneighbours(sce, 2), gneighbours(counts, 2))
  expect_identical(gneighbours(sce, 2, query = sce), gneighbours(counts, 2, query = counts))
  tree <- gmhclust(sce, threshold = 20)
  nearest <- function(data) {
    cut_populations(tree, k = 2, min_members = 10, rest = "nearest", x = data)
  }
  population <- nearest(sce)
  expect_identical(population, nearest(counts))
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  expect_no_error(plot_populations(tree, sce, population))
})

test_that("delayed, sparse and HDF5 assays and reduced dimensions are taken", {
  skip_if_not_installed("SingleCellExperiment")
  skip_if_not_installed("DelayedArray")
  in_file <- if (requireNamespace("HDF5Array", quietly = TRUE)) {
    methods::as(t(counts), "HDF5Array")
  }
  new_classes <- if (requireNamespace("SparseArray", quietly = TRUE)) {
    methods::as(t(counts), "SVT_SparseMatrix")
  }
  assays <- list(delayed(t(counts), 150), in_file, new_classes)
  for (values in Filter(Negate(is.null), assays)) {
    sce <- SingleCellExperiment::SingleCellExperiment(list(values))
    dimnames(sce) <- dimnames(t(counts))
    expect_s4_class(observations(sce), "DelayedMatrix")
    expect_same_results(sce, counts)
    expect_identical(as.matrix(observations(sce, features = c(3, 1))), counts[, c(3, 1)])
    refused(observations(sce, features = "CD99"), "`features` has \"CD99\"; it must be names or")
    SingleCellExperiment::reducedDim(sce, "PCA") <- observations(sce) # nolint: object_name_linter.
    expect_identical(gknn(sce, 2, dimred = "PCA"), gknn(counts, 2))
  }
})

test_that("wrong features of an S4 assay are named", {
  skip_if_not_installed("SummarizedExperiment")
  skip_if_not_installed("Matrix")
  assays <- matrix_classes(t(counts))[c("dgC", "dge", "lgT")]
  if (requireNamespace("DelayedArray", quietly = TRUE)) assays$delayed <- delayed(t(counts), 150)
  for (values in assays) {
    se <- SummarizedExperiment::SummarizedExperiment(list(values))
    wrong <- list(
      list("CD99", "has \"CD99\""), list(c("CD57", NA), "has NA"), list(5, "has 5"),
      list(0, "has 0"), list(-1, "has -1"), list(1.5, "has 1.5"), list(NA, "is NA"),
      list(TRUE, "is TRUE"), list(c(TRUE, NA, TRUE, TRUE), "is a logical vector of length 4"),
      list(factor("CD57"), "is an object of class \"factor\""), list(list("CD57"), "is a list"),
      list(mean, "is a function"), list(se, "is an object of class \"SummarizedExperiment\"")
    )
    for (each in wrong) {
      refused(observations(se, features = each[[1]]), paste0("`features` ", each[[2]], "; it must"))
    }
    expect_refused(gknn(se, 2, features = "CD99"), "`features` has \"CD99\"; it must", "gknn")
    expect_refused(gmst(se, features = character(0)), "`x` has no columns", "gmst")
  }
})

test_that("observations without names have none", {
  skip_if_not_installed("SummarizedExperiment")
  values <- unname(counts)
  se <- SummarizedExperiment::SummarizedExperiment(list(t(values)))
  expect_identical(observations(se), values)
  expect_identical(observations(se, of = "rows", features = 2:1), t(values)[2:1, ])
  skip_if_not_installed("Matrix")
  sparse <- methods::as(t(values), "CsparseMatrix")
  se <- SummarizedExperiment::SummarizedExperiment(list(sparse))
  expect_silent(found <- observations(se))
  expect_identical(found, Matrix::t(sparse))
})

test_that("an assay that is no matrix is refused", {
  skip_if_not_installed("SummarizedExperiment")
  cube <- SummarizedExperiment::SummarizedExperiment(list(array(0, c(4, 5, 2))))
  refused(observations(cube), "`x` has an assay that is a numeric array of 4 x 5 x 2; it must be a")
  refused(observations(cube, features = 1), "`x` has an assay that is a numeric array")
  words <- SummarizedExperiment::SummarizedExperiment(list(matrix("a", 4, 5)))
  refused(observations(words), "`x` is a character matrix of 5 x 4; it must be")
})

test_that("cells and genes of experiments are observations", {
  skip_if_not_installed("SummarizedExperiment")
  se <- SummarizedExperiment::SummarizedExperiment(list(raw = 2 * t(x), exprs = t(x)))
  expect_identical(observations(se, assay = "exprs"), x)
  expect_identical(observations(se), 2 * x)
  expect_same_results(se, x, assay = 2)
  expect_same_results(se, t(x), assay = 2, of = "rows")
  expect_identical(observations(se, features = c("CD57", "SYK"), assay = 2), x[, c("CD57", "SYK")])
  odd <- c(TRUE, FALSE, TRUE, FALSE)
  expect_identical(observations(se, features = odd, assay = 2), x[, odd])
  refused(
    observations(se, assay = "counts"),
    "`assay` is \"counts\"; it must be one of the assays: \"raw\", \"exprs\""
  )
  refused(
    observations(se, features = "CD99"),
    "`features` has \"CD99\"; it must be names or numbers of the 4 features"
  )
  refused(observations(se, features = mean), "`features` is a function")
  refused(
    observations(se, of = "cells"),
    "`of` is \"cells\"; it must be one of \"columns\", \"rows\""
  )
  refused(observations(se, dimred = "PCA"), "unused argument: `dimred`")
})

test_that("reduced dimensions and alternative experiments of single cells are taken", {
  skip_if_not_installed("SingleCellExperiment")
  sce <- SingleCellExperiment::SingleCellExperiment(list(counts = 2 * t(x)))
  expect_identical(observations(sce), 2 * x)
  SummarizedExperiment::assay(sce, "logcounts") <- t(x)
  expect_identical(observations(sce), x)
  pca <- stats::prcomp(x)$x[, 1:2]
  SingleCellExperiment::reducedDim(sce, "PCA") <- pca # nolint: object_name_linter.
  expect_same_results(sce, pca, dimred = "PCA")
  antibodies <- SummarizedExperiment::SummarizedExperiment(list(adt = 3 * t(x)))
  SingleCellExperiment::altExp(sce, "ADT") <- antibodies # nolint: object_name_linter.
  expect_identical(observations(sce, altexp = "ADT"), 3 * x)
  refused(
    observations(sce, dimred = "UMAP"),
    "`dimred` is \"UMAP\"; it must be one of the reduced dimensions: \"PCA\""
  )
  refused(
    observations(sce, dimred = "PCA", of = "rows"),
    "`dimred` is given; a reduced dimension has cells in rows"
  )
  refused(
    observations(sce, altexp = "RNA"),
    "`altexp` is \"RNA\"; it must be one of the alternative"
  )
})

test_that("samples and probes of an ExpressionSet are observations", {
  skip_if_not_installed("Biobase")
  eset <- Biobase::ExpressionSet(t(x))
  expect_identical(observations(eset), x)
  expect_same_results(eset, t(x), of = "rows")
  refused(observations(eset, assay = "exprs"), "unused argument: `assay`")
  skip_if_not_installed("Matrix")
  for (values in matrix_classes(t(counts))) {
    # As in the objects of package monocle.
    sparse <- eset
    sparse@assayData <- list2env(list(exprs = values))
    plain <- t(plain_matrix(values, dimnames(t(counts))))
    expect_identical(as.matrix(observations(sparse)), plain)
    expect_identical(as.matrix(observations(sparse, of = "rows", features = 2:1)), t(plain)[2:1, ])
    expect_identical(gknn(sparse, 2), gknn(plain, 2))
    refused(observations(sparse, features = "CD99"), "`features` has \"CD99\"")
  }
})

test_that("identifiers and times are noticed, counts and grids of few values are not", {
  messages_of <- function(call) {
    messages <- character(0)
    withCallingHandlers(call, gmhclust_message_columns = function(m) {
      messages <<- c(messages, conditionMessage(m))
      invokeRestart("muffleMessage")
    })
    messages
  }
  expect_identical(messages_of(gdist(x)), character(0))
  expect_match(
    messages_of(gdist(cbind(x, id = sample(1e6, 200)))),
    "an identifier or a time: \"id\"; leave"
  )
  expect_match(messages_of(gmst(cbind(x, cumsum(runif(200))))), "an identifier or a time: 5; leave")
  expect_match(messages_of(gknn(cbind(Time = floor(1:200 / 3), x), 2)), "\"Time\"; leave")
  expect_identical(messages_of(gdist(matrix(1:200))), character(0))
  expect_identical(messages_of(gdist(cbind(x, sort(rbinom(200, 3, 0.5))))), character(0))
  expect_identical(messages_of(gdist(matrix(rpois(50 * 30, 1e6), 50))), character(0))
  expect_identical(messages_of(gdist(matrix(sample(1e7, 6000), 200))), character(0))
  expect_identical(messages_of(gdist(cbind(c(x[, 1], NA), 1:201)[c(1:10, 201), ])), character(0))
})

test_that("more columns than rows are noticed where they cannot be meant", {
  wide <- t(x[1:50, ])
  expect_message(
    gmhclust(wide, threshold = 2),
    "`x` has 4 rows and 50 columns; observations go in rows: use t(x)",
    fixed = TRUE, class = "gmhclust_message_columns"
  )
  expect_message(gkmeans(wide, 2), "use t(x)", fixed = TRUE)
  expect_no_message(ghclust(wide, "average"))
})

test_that("a k-means clustering is taken for its labels", {
  set.seed(1)
  found <- kmeans(x, 5)
  tree <- gmhclust(x, threshold = 20, apriori = found)
  expect_same_tree(tree, gmhclust(x, threshold = 20, apriori = unname(found$cluster)))
  expect_identical(tree$apriori, unname(found$cluster))
  expect_same_tree(mhclust(x, g = found, warn = FALSE), mhclust(x, g = found$cluster, warn = FALSE))
})

test_that("`distance` is the full or the centroid distance", {
  full <- gmhclust(x, threshold = 20, distance = "full")
  expect_same_tree(full, gmhclust(x, threshold = 20))
  centroid <- gmhclust(x, threshold = 20, distance = "centroid")
  expect_same_tree(centroid, mhclust(x, 20, quick = TRUE, warn = FALSE))
  expect_false(identical(centroid$height, full$height))
  expect_refused(gmhclust(x, distance = "median"), "one of \"full\", \"centroid\"")
})

default_blocks()

test_that("a DelayedMatrix of distances is refused", {
  skip_if_not_installed("DelayedArray")
  distances <- as.matrix(dist(iris[1:4]))
  delayed <- DelayedArray::DelayedArray(distances)
  expect_error(ghclust(delayed), "`x` looks like distances: its 150 x 150 values are symmetric",
               class = "gmhclust_error_input")
  expect_identical(dim(observations(delayed, rows_are_observations = TRUE)), c(150L, 150L))
})

test_that("R's garbage is collected before work on many values", {
  collected <- FALSE
  make_garbage <- function() {
    reg.finalizer(new.env(), function(gone) collected <<- TRUE)
    invisible()
  }
  make_garbage()
  collect_garbage(matrix(0, 10, 2), 160)
  expect_true(collected)
})
