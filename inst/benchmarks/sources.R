# The sources that each benchmark is about, and digests of them. A row of results has the digests of
# its time; tools/figures.R --stale compares them with the present ones. common.R and
# tools/figures.R source this file; it needs R alone.

# Folders and files below src/rust, by what they do.
parts <- list(
  mahalanobis = c("core/src/mahalanobis"),
  agreement = c("core/src/agreement.rs", "src/stability.rs"),
  linkage = c("core/src/linkage"),
  distances = c("core/src/distances", "core/src/metric"),
  neighbours = c("core/src/neighbours", "core/src/knn", "core/src/metric"),
  kmeans = c("core/src/kmeans"),
  populations = c("core/src/populations"),
  trees = c("core/src/cut.rs", "core/src/dendrogram.rs", "core/src/dendrogram",
            "core/src/optimal_order", "src/gcutree.rs", "src/populations.rs"),
  # The host code of a GPU. The kernels have a digest of their own.
  mahalanobis_gpu = c(
    "cuda/src/agglomerate", "cuda/src/tree", "cuda/src/blocks", "cuda/src/sharing.rs"
  ),
  linkage_gpu = c("cuda/src/dissimilarities"),
  distances_gpu = c("cuda/src/distances", "cuda/src/distances.rs"),
  neighbours_gpu = c("cuda/src/neighbours"),
  kmeans_gpu = c("cuda/src/kmeans", "cuda/src/kmeans.rs", "cuda/src/sharing.rs")
)
every_part <- setdiff(names(parts), grep("_gpu$", names(parts), value = TRUE))

# Of each script: what its results are about, and its parts. Parts with a GPU count only where one
# was used.
scripts <- list(
  blocks = list(
    about = "time and memory of observations that are read in blocks",
    parts = c("mahalanobis", "kmeans", "populations")
  ),
  distances = list(about = "seconds of gdist()", parts = "distances"),
  gmhclust = list(about = "seconds of gmhclust()", parts = "mahalanobis"),
  kmeans = list(about = "seconds of gkmeans()", parts = "kmeans"),
  linkage = list(about = "seconds of ghclust()", parts = c("linkage", "neighbours")),
  memory = list(about = "peaks of memory, and the formulas of the help pages", parts = every_part),
  neighbours = list(about = "seconds of gknn() and gmst()", parts = "neighbours"),
  peers = list(
    about = "seconds of this package and of other packages for GPUs, on the same arrays",
    parts = c("linkage", "distances", "neighbours", "kmeans", "populations")
  ),
  populations = list(
    about = "agreement of populations with gates drawn by hand",
    parts = c("mahalanobis", "populations")
  ),
  predict = list(about = "seconds of predict() of populations", parts = "populations"),
  preparation = list(
    about = "agreement with the gates of an FCS file, by preparation of its values",
    parts = c("mahalanobis", "populations")
  ),
  sizes = list(
    about = "seconds by the number of cells, of this and other packages",
    parts = c("mahalanobis", "linkage", "distances", "neighbours", "kmeans")
  ),
  stability = list(
    about = "seconds of stability()", parts = c("mahalanobis", "agreement")
  ),
  threshold = list(
    about = "agreement with known populations, by threshold",
    parts = c("mahalanobis", "populations")
  ),
  ties = list(
    about = "seconds of clusterings and searches on data with ties, beside normal data",
    parts = c("mahalanobis", "linkage", "distances", "neighbours", "kmeans")
  ),
  trees = list(about = "seconds of functions for trees", parts = "trees"),
  workers = list(
    about = "seconds of one and two workers",
    parts = c("mahalanobis", "neighbours", "kmeans")
  )
)

# The files of Rust in folders, without those of tests and of definitions that only tests use.
rust_files <- function(places) {
  is_folder <- dir.exists(places)
  inside <- list.files(places[is_folder], "[.]rs$", full.names = TRUE, recursive = TRUE)
  files <- c(places[!is_folder & file.exists(places)], inside)
  is_test <- grepl("(/|_)(tests|reference|checks|testing)([.]rs$|/)", files)
  sort(files[!is_test], method = "radix")
}

# The digest of what compilers read of files: without comments in lines of their own, blank lines
# and indentation. Ten digits of MD5 tell versions apart.
digest_of_files <- function(files, root) {
  text <- unlist(lapply(files, function(file) {
    lines <- trimws(readLines(file, warn = FALSE, encoding = "UTF-8"))
    c(substring(file, nchar(root) + 2), lines[nzchar(lines) & !startsWith(lines, "//")])
  }))
  copy <- tempfile()
  on.exit(unlink(copy))
  writeLines(enc2utf8(text), copy, useBytes = TRUE)
  substr(unname(tools::md5sum(copy)), 1, 10)
}

# The digest of the sources in the checkout `root` that a script's results are about; NA where the
# sources are not there.
code_digest <- function(script, root, on_gpu) {
  names <- scripts[[script]]$parts
  if (on_gpu) names <- c(names, intersect(paste0(names, "_gpu"), names(parts)))
  files <- rust_files(file.path(root, "src/rust", unlist(parts[names])))
  if (length(files) == 0) NA_character_ else digest_of_files(files, root)
}

# The first ten digits of the digest of the kernels, which the first line of their bundle has, see
# tools/kernels.py; NA where the bundle is not there or neither xz nor Python can read it.
kernels_digest <- function(root) {
  bundle <- file.path(root, "src/rust/cuda/kernels/compiled/modules.ptx.lzma")
  if (!file.exists(bundle)) return(NA_character_)
  python <- "import lzma, sys; print(lzma.open(sys.argv[1]).readline().decode())"
  readers <- list(
    c("xz", "--decompress", "--stdout", "--format=lzma", bundle), c("python3", "-c", python, bundle)
  )
  for (reader in readers[nzchar(Sys.which(vapply(readers, `[[`, "", 1)))]) {
    read <- suppressWarnings(system2(reader[1], shQuote(reader[-1]), stdout = TRUE))
    found <- regmatches(read[1], regexpr("[0-9a-f]{64}$", trimws(read[1])))
    if (length(found) == 1) return(substr(found, 1, 10))
  }
  NA_character_
}
