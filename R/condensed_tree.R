# The condensed tree: the splits of a tree, from its top. A split is a merge with enough members on
# both sides. After Campello, Moulavi and Sander (2013), section "Hierarchy simplification", but for
# the merges of any hclust tree.
#
# Nodes of a tree of n leaves: leaf i is node i, and merge j is node n + j.

# The two children of each merge, as nodes, and the number of members of each node.
tree_nodes <- function(merge, members) {
  n <- length(members)
  child <- ifelse(merge < 0, -merge, merge + n)
  first <- child[, 1]
  second <- child[, 2]
  size <- c(as.double(members), numeric(n - 1))
  for (j in seq_along(first)) size[n + j] <- size[first[j]] + size[second[j]]
  list(count = n, first = first, second = second, size = size)
}

# For each node, the places of its first and its last leaf, `first` and `last`, in an order of the
# leaves. `first` and `second` are the nodes that each merge joins.
node_places <- function(first, second, order) {
  n <- length(order)
  place <- integer(n)
  place[order] <- seq_len(n)
  low <- high <- c(place, integer(n - 1L))
  for (j in seq_along(first)) {
    low[n + j] <- min(low[first[j]], low[second[j]])
    high[n + j] <- max(high[first[j]], high[second[j]])
  }
  list(first = low, last = high)
}

# The members of each leaf: 1 each, except in the result of cutree_top() or cutree_apriori().
leaf_members <- function(tree) {
  n <- nrow(tree$merge) + 1L
  if (is.numeric(tree$members) && length(tree$members) == n) tree$members else rep(1L, n)
}

# The height of each merge, or the height of the highest merge below it if that is higher. Without
# inversions, the result is `height`.
heights_above_children <- function(height, nodes) {
  n <- nodes$count
  top <- c(rep(-Inf, n), height)
  first <- nodes$first
  second <- nodes$second
  for (j in seq_along(first)) {
    node <- n + j
    below <- max(top[first[j]], top[second[j]])
    if (below > top[node]) top[node] <- below
  }
  top[n + seq_along(first)]
}

# Clusters of the condensed tree, parents first. A cluster begins as one side of a split (cluster 1
# at the root), loses members as branches of fewer than `min_size` fall off, and ends at a split
# into clusters 2 s and 2 s + 1, where s counts splits from the top. Returns a list with, for each
# cluster, the `node` at which it begins, its `parent`, the number s of the `split` and the number
# of the `merge` at which it ends (0 for none), and its `mass`, see stable_clusters().
condense <- function(tree, nodes, min_size) {
  n <- nodes$count
  first <- nodes$first
  second <- nodes$second
  size <- nodes$size
  is_big <- size >= min_size
  is_split <- is_big[first] & is_big[second]
  level <- log_levels(heights_above_children(tree$height, nodes))
  count <- 2L * sum(is_split) + 1L
  node <- parent <- split <- merge <- integer(count)
  birth <- mass <- numeric(count)
  node[1] <- 2L * n - 1L
  birth[1] <- level$merge[n - 1]
  of_node <- integer(2L * n - 1L)
  of_node[node[1]] <- 1L
  splits <- 0L
  for (j in rev(which(is_big[-seq_len(n)]))) {
    cluster <- of_node[n + j]
    a <- first[j]
    b <- second[j]
    here <- level$merge[j]
    if (is_split[j]) {
      mass[cluster] <- mass[cluster] + size[n + j] * (birth[cluster] - here)
      splits <- splits + 1L
      split[cluster] <- splits
      merge[cluster] <- j
      new <- 2L * splits + 0:1
      node[new] <- c(a, b)
      of_node[node[new]] <- new
      parent[new] <- cluster
      birth[new] <- here
    } else {
      # At most one side is big, and the cluster goes on with it.
      if (is_big[a]) of_node[a] <- cluster
      if (is_big[b]) of_node[b] <- cluster
      fallen <- size[n + j] - is_big[a] * size[a] - is_big[b] * size[b]
      mass[cluster] <- mass[cluster] + fallen * (birth[cluster] - here)
    }
  }
  # A leaf of at least `min_size` members is never divided.
  leaves <- which(is_big[seq_len(n)])
  last <- of_node[leaves]
  mass[last] <- mass[last] + size[leaves] * (birth[last] - level$leaf)
  list(node = node, parent = parent, split = split, merge = merge, mass = mass)
}

# Logarithms of the heights of merges, and of the level of a leaf. Heights of 0 or less count as the
# lowest positive height.
log_levels <- function(height) {
  lowest <- min(height[height > 0], Inf)
  if (lowest == Inf) lowest <- 1
  list(merge = log(pmax(height, lowest)), leaf = log(lowest))
}

# The clusters after the first k - 1 splits from the top.
top_clusters <- function(condensed, k) {
  with(condensed, {
    begun <- seq_along(node) <= 2 * k - 1
    which(begun & (split == 0 | split >= k))
  })
}

# The clusters of greatest total mass, such that no chosen cluster contains another. The mass of a
# cluster is the sum over its members of the logarithm of the ratio of two heights: where the
# cluster begins, and where the member leaves it. This is the "excess of mass" of Campello, Moulavi
# and Sander with log(height) instead of -1/height, so that the unit of heights does not matter. As
# in HDBSCAN, the root is chosen only if there is no split.
stable_clusters <- function(condensed) {
  parent <- condensed$parent
  count <- length(parent)
  best <- condensed$mass
  below <- numeric(count)
  is_kept <- rep(TRUE, count)
  for (cluster in rev(seq_len(count))) {
    if (condensed$split[cluster] > 0 && (below[cluster] > best[cluster] || cluster == 1L)) {
      best[cluster] <- below[cluster]
      is_kept[cluster] <- FALSE
    }
    up <- parent[cluster]
    if (up > 0) below[up] <- below[up] + best[cluster]
  }
  # Clusters below a chosen cluster are not chosen.
  is_covered <- logical(count)
  for (cluster in seq_len(count)[-1]) {
    up <- parent[cluster]
    is_covered[cluster] <- is_covered[up] || is_kept[up]
  }
  which(is_kept & !is_covered)
}

# For each leaf, the number of the last of `clusters` that contains it, 0 for none. `clusters` are
# nodes of the tree; a node comes after all nodes that contain it.
leaves_inside <- function(nodes, clusters) {
  n <- nodes$count
  first <- nodes$first
  second <- nodes$second
  owner <- integer(2L * n - 1L)
  owner[clusters] <- seq_along(clusters)
  for (j in rev(seq_len(n - 1L))) {
    above <- owner[n + j]
    if (above > 0L) {
      if (owner[first[j]] == 0L) owner[first[j]] <- above
      if (owner[second[j]] == 0L) owner[second[j]] <- above
    }
  }
  owner[seq_len(n)]
}
