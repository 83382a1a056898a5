# The condensed tree: the splits of a tree, from its top. A split is a merge with enough members on
# both sides. After Campello, Moulavi and Sander (2013), section "Hierarchy simplification", but for
# the merges of any hclust tree.
#
# Nodes of a tree of n leaves: leaf i is node i, and merge j is node n + j.

# The nodes of ids in the `merge` of an hclust tree of n leaves, and the ids of nodes.
nodes_of_ids <- function(ids, n) ifelse(ids < 0, -ids, ids + n)
ids_of_nodes <- function(nodes, n) ifelse(nodes > n, nodes - n, -nodes)

# The two nodes that each merge joins (columns).
joined_nodes <- function(merge) nodes_of_ids(merge, nrow(merge) + 1L)

# The number of members of each node. `members` are those of each leaf.
node_sizes <- function(merge, members, call) {
  run_job(job_node_sizes(as_integers(merge), as.double(members)), FALSE, "Counting members", call)
}

# For each node, the places of its first and its last leaf, `first` and `last`, in an order of the
# leaves.
node_places <- function(merge, order, call) {
  run_job(job_node_places(as_integers(merge), as_integers(order)), FALSE, "Reading the tree", call)
}

# For each leaf, the number of the last of these nodes that contains it, 0 for none. A node comes
# after all nodes that contain it.
leaves_inside <- function(merge, nodes, call) {
  run_job(job_leaves_inside(as_integers(merge), as.integer(nodes)), FALSE, "Reading the tree", call)
}

# The members of each leaf: 1 each, except in the result of cutree_top() or cutree_apriori().
leaf_members <- function(tree) {
  n <- nrow(tree$merge) + 1L
  if (is.numeric(tree$members) && length(tree$members) == n) tree$members else rep(1L, n)
}

# Clusters of the condensed tree, parents first. A cluster begins as one side of a split (cluster 1
# at the root), loses members as sides of fewer than `min_size` fall off, and ends at a split into
# clusters 2 s and 2 s + 1, where s counts splits from the top. Returns a list with, for each
# cluster, the `node` at which it begins, its `parent`, the number s of the `split` and the number
# of the `merge` at which it ends (0 for none), its `size` in members, and its `mass`, see
# clusters_of_greatest_mass(). With `min_points`, which a tree by mutual reachability distances has,
# the mass is that of HDBSCAN, and the list has the `outlier` score of each leaf.
condense <- function(tree, members, min_size, call, min_points = 0) {
  run_job(
    job_condense(as_integers(tree$merge), as.double(tree$height), as.double(members),
                 as.double(min_size), as.double(min_points)),
    FALSE, "Finding the splits", call
  )
}

# The clusters after the first k - 1 splits from the top.
top_clusters <- function(condensed, k) {
  with(condensed, {
    begun <- seq_along(node) <= 2 * k - 1
    which(begun & (split == 0 | split >= k))
  })
}

# The clusters of greatest total mass, such that no chosen cluster contains another. The mass of a
# cluster is the "excess of mass" of Campello, Moulavi and Sander. With `min_points`, it is theirs.
# Otherwise it has log(height) instead of -1/height, so that the unit of heights does not matter:
# the sum over its members of log(b / l), where the cluster begins at height b and the member leaves
# it at height l. As in HDBSCAN, the root is chosen only if there is no split.
clusters_of_greatest_mass <- function(condensed) {
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
