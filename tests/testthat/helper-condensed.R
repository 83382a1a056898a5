# The plain versions of what the library computes from the nodes of a tree. Nodes of a tree of n
# leaves: leaf i is node i, and merge j is node n + j.

plain_nodes <- function(merge, members) {
  n <- length(members)
  child <- ifelse(merge < 0, -merge, merge + n)
  size <- c(as.double(members), numeric(n - 1))
  for (j in seq_len(n - 1)) size[n + j] <- sum(size[child[j, ]])
  list(count = n, child = child, size = size)
}

# The leaves below each node.
plain_leaves <- function(nodes) {
  below <- as.list(seq_len(nodes$count))
  for (j in seq_len(nrow(nodes$child))) {
    below[[nodes$count + j]] <- unlist(below[nodes$child[j, ]])
  }
  below
}

# The heights of merges, none below the merges under it.
plain_heights <- function(height, nodes) {
  top <- c(rep(-Inf, nodes$count), height)
  for (j in seq_along(height)) {
    top[nodes$count + j] <- max(top[c(nodes$count + j, nodes$child[j, ])])
  }
  top[-seq_len(nodes$count)]
}

# The value of condense(), without `outlier`, by walking down from the top.
plain_condense <- function(tree, members, least) {
  nodes <- plain_nodes(tree$merge, members)
  n <- nodes$count
  height <- plain_heights(tree$height, nodes)
  lowest <- min(height[height > 0], Inf)
  if (lowest == Inf) lowest <- 1
  level <- log(pmax(c(rep(lowest, n), height), lowest))
  is_big <- nodes$size >= least
  found <- data.frame(node = 2 * n - 1, parent = 0, split = 0, merge = 0,
                      size = nodes$size[2 * n - 1], mass = 0)
  cluster <- integer(2 * n - 1)
  cluster[2 * n - 1] <- 1
  begin <- level[2 * n - 1]
  splits <- 0
  for (node in rev(which(is_big))) {
    mine <- cluster[node]
    fallen <- nodes$size[node]
    parts <- if (node > n) nodes$child[node - n, ] else integer(0)
    if (length(parts) == 2 && all(is_big[parts])) {
      splits <- splits + 1
      found$split[mine] <- splits
      found$merge[mine] <- node - n
      cluster[parts] <- 2 * splits + 0:1
      found <- rbind(found, data.frame(node = parts, parent = mine, split = 0, merge = 0,
                                       size = nodes$size[parts], mass = 0))
      begin <- c(begin, rep(level[node], 2))
    } else {
      on <- parts[is_big[parts]]
      cluster[on] <- mine
      fallen <- fallen - sum(nodes$size[on])
    }
    found$mass[mine] <- found$mass[mine] + fallen * (begin[mine] - level[node])
  }
  as.list(found)
}

# For each leaf, the number of the last of `clusters` around it.
plain_leaves_inside <- function(nodes, clusters) {
  inside <- integer(nodes$count)
  below <- plain_leaves(nodes)
  for (number in seq_along(clusters)) inside[below[[clusters[number]]]] <- number
  inside
}
