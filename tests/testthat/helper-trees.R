# A tree of n leaves that are merged at random. Heights are random, so about half of them are
# inversions, and many are tied.
random_tree <- function(n) {
  clusters <- -seq_len(n)
  merge <- matrix(0L, n - 1, 2)
  for (j in seq_len(n - 1)) {
    # Often the latest cluster and a leaf, so that there are chains, too.
    pair <- sample(length(clusters), 2)
    if (j > 1 && stats::runif(1) < 0.4) pair <- c(1, 1 + sample(length(clusters) - 1, 1))
    merge[j, ] <- clusters[pair]
    clusters <- c(j, clusters[-pair])
  }
  merge <- sort_merge_rows(merge)
  structure(class = "hclust", list(
    merge = merge, height = as.double(sample(0:(n %/% 2 + 1), n - 1, replace = TRUE)),
    order = leaf_order(merge, NULL), labels = NULL, method = "random", call = quote(random_tree()),
    dist.method = "none"
  ))
}

# Trees of all linkages, with and without ties, and random ones with inversions.
some_trees <- function() {
  set.seed(11)
  methods <- c("ward.D", "single", "complete", "average", "mcquitty", "median", "centroid",
               "ward.D2")
  smooth <- lapply(methods, function(method) hclust(dist(matrix(rnorm(120), 60)), method))
  tied <- lapply(methods, function(method) {
    hclust(dist(matrix(sample(3, 80, replace = TRUE), 40)), method)
  })
  c(smooth, tied, list(gmhclust(blobs(80, 3), threshold = 8)),
    lapply(c(2:12, 30, 60), random_tree))
}

# A tree above sets of leaves, in each of which the next leaf joins those before it at height 0;
# `above` is the tree of the sets.
joined_trees <- function(sets, above) {
  merge <- NULL
  root <- integer(length(sets))
  for (s in seq_along(sets)) {
    leaves <- sets[[s]]
    first <- NROW(merge)
    rows <- cbind(-leaves[-1], c(-leaves[1], first + seq_len(length(leaves) - 2)))
    merge <- rbind(merge, rows)
    root[s] <- nrow(merge)
  }
  inner <- nrow(merge)
  upper <- above$merge
  upper[] <- ifelse(upper < 0, root[abs(upper)], upper + inner)
  merge <- sort_merge_rows(rbind(merge, upper))
  storage.mode(merge) <- "integer"
  h <- above
  h$merge <- merge
  h$height <- c(numeric(inner), above$height)
  h$order <- leaf_order(merge, NULL)
  h$labels <- NULL
  h
}

# The leaves below each merge.
leaves_of_merges <- function(h) {
  below <- list()
  for (j in seq_len(nrow(h$merge))) {
    below[[j]] <- unlist(lapply(h$merge[j, ], function(id) if (id < 0) -id else below[[id]]))
  }
  below
}

# An expression evaluated with a graphics device that shows nothing.
on_no_screen <- function(code) {
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  code
}
