# Trees by mutual reachability distances: their arguments, and the strength of each membership,
# which is that of dbscan::hdbscan(). The library computes masses and outlier scores, see
# condense().

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
  n <- nrow(tree$merge) + 1L
  is.numeric(tree$core) && is.null(tree$members) && length(tree$core) == n &&
    is.list(tree$settings) && is_single_number(tree$settings$min_points) &&
    tree$settings$min_points >= 1 && tree$settings$min_points <= n
}

# The strength of membership of each leaf: 1 minus its core distance divided by the largest of its
# population; 0 outside all populations.
membership_strengths <- function(core, population) {
  inside <- which(population > 0L)
  largest <- numeric(max(population, 0L))
  # The last of several values is stored.
  by_core <- inside[order(core[inside])]
  largest[population[by_core]] <- core[by_core]
  of_own <- largest[population[inside]]
  strength <- numeric(length(core))
  strength[inside] <- ifelse(of_own > 0, 1 - core[inside] / of_own, 1)
  strength
}
