# Valid calls of all exported functions, in which arguments are replaced, and the values they use.

fixtures <- function(scratch) {
  set.seed(1)
  x <- matrix(rnorm(120), 30, 4, dimnames = list(NULL, c("a", "b", "c", "d")))
  x[1:10, ] <- x[1:10, ] + 5
  env <- list2env(list(x = x, scratch = scratch), parent = globalenv())
  evalq({
    y <- matrix(rnorm(20), 5, 4)
    labels <- rep(1:3, 10)
    d <- stats::dist(x)
    tree <- stats::hclust(d)
    inverted <- gmhclust::ghclust(d^2, "centroid")
    grown <- gmhclust::gmhclust(x, threshold = 5, progress = FALSE, warn = FALSE)
    joined <- gmhclust::gmhclust(x, threshold = 5, apriori = labels, progress = FALSE, warn = FALSE)
    top <- gmhclust::cutree_top(grown, 6)
    pops <- gmhclust::cut_populations(grown, k = 2, min_members = 3)
    named <- gmhclust::name_populations(pops, c("a" = 1))
    mapping <- gmhclust::cut_populations(grown, k = 2, min_members = 6, x = x)
    model <- gmhclust::population_model(mapping)
    stable <- gmhclust::stability(joined, x, 3, 2, min_members = 3)
    dense <- gmhclust::ghclust(x, "single", min_points = 4)
    nn <- gmhclust::gknn(x, 3)
    ranges <- gmhclust::gneighbours(x, 2)
    files <- gmhclust::gknn(x, 3, output = file.path(scratch, "neighbours"), block_rows = 8)
    folder <- files$folder
    page <- file.path(scratch, "page.html")
    km <- stats::kmeans(x, 3)
  }, env)
  env
}

base_calls <- alist(
  gdist(x = x), gdist(x = x, y = y), gdist(x = x, method = "minkowski", p = 3),
  gdist(x = x, method = "binary"), gdist(x = x, method = "spearman"),
  gdist(x = x, method = "canberra", zero_over_zero = "1"), ghclust(x = d),
  ghclust(x = x, method = "average"), ghclust(x = d, method = "centroid", members = labels),
  ghclust(x = x, metric = "pearson"), ghclust(x = with_element(x, 1, NA), missing = "pairwise"),
  ghclust(x = d, precision = "single"), ghclust(x = x, method = "ward.D2", members = labels),
  ghclust(x = x, method = "single"), gmhclust(x = x),
  gmhclust(x = x, threshold = 5, apriori = labels),
  gmhclust(x = x, threshold = 0.2, distance = "centroid"), gmhclust(x = x, apriori = 3),
  gmhclust(x = x, subthreshold = "euclidMahal", normalize = TRUE, scale = TRUE),
  gmhclust(x = x, apriori = km), mhclust(x = x),
  mhclust(x = x, thresh = 0.2, g = labels, quick = TRUE), gkmeans(x = x, centers = 3),
  gkmeans(x = x, centers = x[c(1, 15, 30), ]),
  gkmeans(x = x, centers = 3, init = "random", nstart = 2), gknn(x = x, k = 3),
  gknn(x = x, k = 3, query = y), gknn(x = x, k = 2, subset = 1:5),
  gknn(x = x, k = 3, block_rows = 7), gknn(x = x, k = 3, metric = "cosine"),
  gknn(x = x, k = 3, output = tempfile()), gknn(x = x, k = 3, output = folder),
  gknn(x = x, k = 3, query = y, metric = "minkowski", p = 3, block_rows = 2),
  gneighbours(x = x, radius = 2), gneighbours(x = x, radius = 2, query = y),
  gneighbours(x = x, radius = 1:5, subset = 1:5), gmst(x = x), gmst(x = x, metric = "manhattan"),
  gmst(x = x, min_points = 4), ghclust(x = x, method = "single", min_points = 4),
  cut_populations(tree = dense), cut_populations(tree = dense, k = 2, min_members = 3),
  cutree_apriori(tree = joined), cutree_top(tree = grown, k = 4), cutree_top(tree = top, k = 2),
  cutree_top(tree = inverted, k = 29), gcutree(tree = tree, k = 4), gcutree(tree = tree, k = 2:6),
  gcutree(tree = tree, h = 2), gcutree(tree = tree, h = c(1, 3)), cut_populations(tree = grown),
  cut_populations(tree = grown, k = 2, min_members = 3),
  cut_populations(tree = tree, k = 2, min_members = 3, rest = "nearest", x = x),
  cut_populations(tree = top, min_members = 2), population_model(populations = mapping),
  predict(object = mapping, newdata = x, beyond = 0.9),
  predict(object = model, newdata = x, by = "posterior"),
  predict(object = model, newdata = y, type = "posterior"),
  predict(object = model, newdata = x, type = "distance", top = 1), print(x = model),
  reorder.hclust(x = grown, wts = d), reorder.hclust(x = tree, wts = as.matrix(d), threads = 2),
  reorder.hclust(x = inverted, wts = x[, 1], agglo.FUN = "mean"),
  stability(tree = grown, x = x, times = 2, populations = 2, min_members = 3),
  stability(tree = joined, x = x, times = 3, populations = FALSE), print(x = stable),
  make_monotone(tree = inverted),
  make_monotone(tree = inverted, method = "halfway"), make_monotone(tree = inverted, eps = 0.1),
  check_hclust(tree = tree), check_hclust(tree = joined), as_edges(nn = nn),
  as_edges(nn = ranges, rows = 1:3), as_edges(nn = files, rows = 1:3), as_igraph(nn = nn),
  as_igraph(nn = ranges, labels = 1:30), as_uwot(nn = nn), as_hits(nn = nn), as_hits(nn = ranges),
  as_hits(nn = nn, n = 30), as_uwot(nn = nn, self = FALSE), as_hits(nn = files),
  as_igraph(nn = files, undirected = FALSE, weight = "distance"), read_gknn(output = folder),
  as.list(x = files), get_rows(x = files, rows = 1:3), print(x = files), print(x = grown),
  print(x = joined), print(x = top), print(x = pops), as.data.frame(x = pops),
  compare(x = pops, with = 1L), print(x = gmhclust::gpu_devices()), observations(x = x),
  observations(x = as.data.frame(x)), observations(x = Matrix::Matrix(x, sparse = TRUE)),
  observations(x = DelayedArray::DelayedArray(x)), observations(x = experiment(x)),
  observations(x = experiment(x), of = "rows", assay = "counts", features = 1:3),
  observations(x = cells(x)), observations(x = cells(x), dimred = "PCA"),
  observations(x = expression_set(x), features = c("a", "b")), observations(x = flow_frame(x)),
  observations(x = flow_frame(x), channels = c("a", "b"), use = "channel"),
  observations(x = flow_set(x)), plot_tree(tree = grown), plot_tree(tree = grown, populations = 2),
  plot_tree(tree = grown, leaves = 6), plot_tree(tree = joined, populations = pops, leaves = 7),
  plot_tree(tree = top, populations = 2),
  plot_populations(tree = grown, x = x, populations = pops, engine = "base"),
  plot_populations(tree = tree, x = x, populations = 2, gates = labels, samples = labels,
    engine = "base"),
  plot_populations(tree = top, x = x, populations = 1, engine = "base", scale = FALSE),
  report(tree = grown, x = x, file = page, populations = pops),
  report(tree = tree, x = x, file = page, populations = 2, gates = labels, samples = labels),
  report(tree = top, x = x, file = page, populations = 1, most = 9, title = "a"),
  cut_populations(tree = grown, branches = attr(pops, "roots"), min_members = 3),
  cut_populations(tree = grown, branches = 29, x = x),
  name_populations(populations = pops, names = c("a" = 1)),
  name_populations(populations = pops, names = c("a", "a")),
  name_populations(populations = named, names = list("b" = c("a", "2"))),
  plot_populations(tree = grown, x = x, populations = named, engine = "base"),
  plot_tree(tree = grown, populations = named, leaves = 7),
  count_populations(populations = pops, samples = labels),
  count_populations(populations = named, samples = labels, rest = TRUE),
  add_populations(x = cells(x), populations = pops),
  add_populations(x = cells(x), populations = named, tree = grown, k = 2),
  add_populations(x = cells(x), populations = pops, tree = grown, rest = "nearest"),
  as_igraph(nn = nn, weight = "jaccard"), as_igraph(nn = ranges, weight = "jaccard"),
  observations(x = flow_frame(x), cofactor = 5),
  observations(x = flow_set(x), cofactor = c(a = 5, b = 6, c = 7, CD4 = 8))
)

get_rows <- function(x, rows) x[rows]

compare <- function(x, with) x == with

experiment <- function(x) SummarizedExperiment::SummarizedExperiment(list(counts = t(x)))

cells <- function(x) {
  reduced <- list(PCA = x[, 1:2])
  SingleCellExperiment::SingleCellExperiment(list(counts = t(x)), reducedDims = reduced)
}

expression_set <- function(x) Biobase::ExpressionSet(t(x))

# Stand-ins for flowCore's classes, of which only slots are read.
methods::setClass("flowFrame", representation(exprs = "ANY", parameters = "ANY"))
methods::setClass("flowSet", representation(frames = "ANY", phenoData = "ANY"))
methods::setClass("fuzz_data", representation(data = "ANY"))

flow_frame <- function(x) {
  parameters <- data.frame(name = colnames(x), desc = c("CD3", NA, "", "CD4"))
  methods::new("flowFrame", exprs = x, parameters = methods::new("fuzz_data", data = parameters))
}

flow_set <- function(x) {
  frames <- list2env(list(one = flow_frame(x), two = flow_frame(x)), parent = emptyenv())
  data <- data.frame(name = c("one", "two"), row.names = c("one", "two"))
  methods::new("flowSet", frames = frames, phenoData = methods::new("fuzz_data", data = data))
}

with_slot <- function(x, name, value) {
  methods::slot(x, name, check = FALSE) <- value
  x
}

# Arguments that are not replaced by these values, because the call would be valid and long.
is_too_long <- function(arg, value) {
  is_number <- is.numeric(value) && length(value) == 1 && !is.object(value) && is.finite(value)
  arg %in% c("nstart", "threads", "centers", "times") && is_number && value > 100
}
