# Branches of the condensed tree that are chosen by hand: argument `branches` of cut_populations().

# For each cluster of the condensed tree of n leaves, the number of its population, 0 for none.
# `branches` are ids of merges and leaves as in the `merge` of an hclust tree. In a vector, each id
# is a population; in a list, each vector of ids is a population.
branch_groups <- function(branches, condensed, n, min_size, call) {
  parts <- if (is.list(branches) && !is.object(branches)) branches else as.list(branches)
  is_sound <- length(parts) > 0 && is.null(dim(branches)) &&
    all(vapply(parts, function(ids) is_whole(ids) && is.null(dim(ids)) && length(ids) > 0, NA))
  if (!is_sound) {
    refuse("branches", paste("is", describe(branches)),
           paste("it must be row numbers of `tree$merge` and negative numbers of leaves, or a list",
                 "of such vectors"), call)
  }
  ids <- as.double(unlist(parts, use.names = FALSE))
  cluster <- clusters_of_ids(ids, condensed$node, n)
  bad <- which(is.na(cluster))
  if (length(bad) > 0) {
    needs <- paste("a branch is the whole tree, or one side of a split with at least",
                   shown_count(ceiling(min_size)), "members on both sides (see `min_members`)")
    refuse("branches", paste("has", format_number(ids[bad[1]])), needs, call)
  }
  twice <- which(duplicated(cluster))
  if (length(twice) > 0) {
    refuse("branches", paste("has", format_number(ids[twice[1]]), "twice"), "name it once", call)
  }
  inside <- which(has_ancestor(cluster, condensed$parent))
  if (length(inside) > 0) {
    refuse("branches", paste("has", format_number(ids[inside[1]]), "and a branch that contains it"),
           "choose one of them", call)
  }
  group <- integer(length(condensed$node))
  group[cluster] <- rep(seq_along(parts), lengths(parts))
  group
}

# The clusters of the condensed tree that begin at these merges and leaves; NA where none does.
clusters_of_ids <- function(ids, node, n) {
  is_other <- ids < -n | ids == 0
  match(nodes_of_ids(replace(ids, is_other, NA), n), node)
}

# For each of `clusters`, whether another one of them contains it.
has_ancestor <- function(clusters, parent) {
  is_chosen <- logical(length(parent))
  is_chosen[clusters] <- TRUE
  # Parents come before their parts.
  is_inside <- logical(length(parent))
  for (cluster in seq_along(parent)[-1]) {
    up <- parent[cluster]
    is_inside[cluster] <- is_inside[up] || is_chosen[up]
  }
  is_inside[clusters]
}
