is_version_1 <- packageVersion("BiocNeighbors") < "2.0.0"

# Whole numbers, with no two distances from a point the same. Sums of their squares are exact, so
# all exact searches give the same bits.
whole_numbers <- function(n = 200, p = 5, seed = 1) {
  set.seed(seed)
  matrix(as.double(sample(1e5, n * p, replace = TRUE)), n)
}

# A search in an index, which has another argument in version 1.
search_index <- function(search, index, ...) {
  if (is_version_1) search(BNINDEX = index, ...) else search(index, ...)
}

some_cells <- function(n = 1000) {
  cells <- lymphocytes()
  as.matrix(cells[seq(1, nrow(cells), length.out = n), 1:14])
}

# Cells with coordinates "PCA" in the rows of x.
cells_at <- function(x) {
  SingleCellExperiment::SingleCellExperiment(
    list(logcounts = matrix(0, 3, nrow(x), dimnames = list(letters[1:3], NULL))),
    reducedDims = list(PCA = x)
  )
}

# Later versions of scran refer to bluster for graphs and clusters, and warn.
scran_clusters <- function() {
  requireNamespace("scran", quietly = TRUE) && packageVersion("scran") < "1.36"
}
