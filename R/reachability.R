# What HDBSCAN computes from trees by mutual reachability distances: the mass of each cluster, the
# strength of each membership, and outlier scores (GLOSH).
#
# Campello, Moulavi and Sander (2013), doi:10.1007/978-3-642-37456-2_14, and with Zimek (2015),
# doi:10.1145/2733381. Densities are 1 / height. Values are those of dbscan::hdbscan().

check_min_points <- function(min_points, call) {
  check_count(min_points, .Machine$integer.max, "min_points", call)
}

# Stops if `min_points` exceeds the number of observations.
check_point_count <- function(min_points, n, call) {
  if (min_points <= n) return(invisible())
  refuse("min_points", paste("is", min_points), paste("there are only", n, "observations"), call)
}

# Stops if ghclust() cannot use mutual reachability distances.
check_reachability <- function(x, method, members, min_points, call) {
  got <- paste("is", min_points)
  if (method != "single") {
    refuse("min_points", got, "more than 1 needs `method = \"single\"`", call)
  }
  if (inherits(x, "dist")) {
    refuse("min_points", got, "more than 1 needs observations, not a dist object", call)
  }
  if (!is.null(members)) {
    refuse("min_points", got, "more than 1 needs observations without `members`", call)
  }
}

# Whether a tree is a whole tree by mutual reachability distances.
has_core_distances <- function(tree) {
  is.numeric(tree$core) && is.null(tree$members) && length(tree$core) == nrow(tree$merge) + 1L &&
    is.list(tree$settings) && is_single_number(tree$settings$min_points)
}

# For each cluster of the condensed tree, its `mass`: the sum over its members of the difference of
# two densities, where the member leaves the cluster, and where the cluster begins. For each leaf,
# its `outlier` score: 1 minus the ratio of the density at which it leaves its last cluster and the
# greatest density at which a leaf of that cluster leaves. `min_size` is the smallest size of a
# cluster.
#
# A member leaves where its branch of fewer than `min_size` members falls off. With `min_size` of at
# most `min_points`, it leaves where it is alone, as in dbscan::hdbscan(), where both are equal.
#
# Observations with `min_points` or more equal ones leave at height 0, where the density is
# infinite. They add nothing to masses: otherwise, each such group would be the densest cluster.
densities <- function(tree, nodes, condensed, min_size) {
  n <- nodes$count
  density <- densities_of(tree$height)
  # By leaf, the value of the merge at which it leaves.
  where_it_leaves <- function(of_merge) {
    if (min_size > tree$settings$min_points) {
      return(fall_off(of_merge, nodes, min_size)[seq_len(n)])
    }
    of_node <- numeric(2L * n - 1L)
    of_node[nodes$first] <- of_merge
    of_node[nodes$second] <- of_merge
    of_node[seq_len(n)]
  }
  of_leaf <- where_it_leaves(density)
  height <- where_it_leaves(tree$height)
  cluster <- leaves_inside(nodes, condensed$node)
  count <- length(condensed$node)
  birth <- c(density[n - 1L], density[condensed$merge[condensed$parent]])
  mass <- greatest <- numeric(count)
  left <- rowsum(ifelse(height > 0, of_leaf - birth[cluster], 0), cluster)
  mass[as.integer(rownames(left))] <- left
  ends <- which(condensed$split > 0L)
  parts <- nodes$size[condensed$node[2L * condensed$split[ends]]] +
    nodes$size[condensed$node[2L * condensed$split[ends] + 1L]]
  gain <- density[condensed$merge[ends]] - birth[ends]
  mass[ends] <- mass[ends] + parts * ifelse(tree$height[condensed$merge[ends]] > 0, gain, 0)
  # The density of the leaf that each cluster keeps longest; children come after their parents.
  by_density <- order(of_leaf)
  greatest[cluster[by_density]] <- of_leaf[by_density]
  for (child in rev(seq_len(count))[-count]) {
    parent <- condensed$parent[child]
    if (greatest[child] > greatest[parent]) greatest[parent] <- greatest[child]
  }
  list(mass = mass, outlier = 1 - of_leaf / greatest[cluster])
}

# The density of each merge: 1 / height, in units in which the highest merge has density 1. A height
# of 0 counts as the lowest positive one.
densities_of <- function(height) {
  highest <- max(height)
  if (highest == 0) return(rep(1, length(height)))
  height <- height / highest
  # The reciprocal of anything lower would overflow in sums.
  1 / pmax(height, min(height[height > 0]), 1e-290)
}

# For each node, the value of the merge at which its branch of fewer than `min_size` members leaves
# a larger one.
fall_off <- function(of_merge, nodes, min_size) {
  n <- nodes$count
  of_node <- numeric(2L * n - 1L)
  for (j in rev(seq_len(n - 1L))) {
    node <- n + j
    here <- if (nodes$size[node] < min_size) of_node[node] else of_merge[j]
    of_node[nodes$first[j]] <- here
    of_node[nodes$second[j]] <- here
  }
  of_node
}

# The strength of membership of each leaf: 1 minus its core distance divided by the largest of its
# population; 0 outside all populations.
membership_strengths <- function(core, population) {
  strength <- numeric(length(core))
  inside <- which(population > 0L)
  largest <- vapply(split(core[inside], population[inside]), max, 0)
  of_own <- largest[as.character(population[inside])]
  strength[inside] <- ifelse(of_own > 0, 1 - core[inside] / of_own, 1)
  strength
}
