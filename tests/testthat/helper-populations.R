# The populations that valleys keep apart, slowly and obviously: the oracle of cut_populations()
# with the observations. See there for the definition.

# A list of the labels 1, 2, ... of the `clear` populations and of those of the `finer` level, 0 for
# cells outside of all.
slow_valleys <- function(h, x, min_members = NULL, clear = 0.3, finer = 0.9, cells = 2000L) {
  n <- nrow(x)
  least <- if (is.null(min_members)) min(max(5, n / 100), n) else min_members
  tree <- slow_condensed_tree(h$merge, x, least)
  if (length(tree$start) == 1L) return(list(clear = rep(1L, n), finer = rep(1L, n)))
  valley <- valleys(x, tree, cells)
  groups <- groups_apart(tree, function(a, b) {
    depth <- valley(a, b)
    # Apart: <= 0. Else, the more similar, the higher.
    if (depth[2] < 0.1 && depth[1] < 0.5) return(depth[1] - 0.5)
    max(depth[1] - clear, (depth[2] - 0.7) / 10)
  })
  labels <- integer(n)
  for (g in seq_along(groups)) for (cluster in groups[[g]]) labels[cells_of(tree, cluster)] <- g
  fine <- finer_level(tree, groups, function(a, b) deciding(valley(a, b), clear), finer)
  list(clear = by_size(labels), finer = by_size(fine))
}

# Clusters of the condensed tree, parents before children: cluster 1 is the root; cluster c has the
# cells order[start[c] + 0:(size[c] - 1)], and the children first[c] and first[c] + 1 (0: none).
slow_condensed_tree <- function(merge, x, least) {
  n <- nrow(merge) + 1L
  child <- ifelse(merge < 0, -merge, merge + n)
  a <- child[, 1]
  b <- child[, 2]
  size <- c(rep(1L, n), integer(n - 1L))
  first <- c(seq_len(n), integer(n - 1L))
  # The larger side comes first, and of two equal ones that with the lower values, so that the order
  # of the rows hardly matters.
  for (j in seq_len(n - 1L)) {
    rows <- x[first[c(a[j], b[j])], , drop = FALSE]
    differ <- which(rows[1, ] != rows[2, ])[1]
    is_lower <- !is.na(differ) && rows[2, differ] < rows[1, differ]
    if (size[b[j]] > size[a[j]] || size[b[j]] == size[a[j]] && is_lower) {
      side <- a[j]
      a[j] <- b[j]
      b[j] <- side
    }
    size[n + j] <- size[a[j]] + size[b[j]]
    first[n + j] <- first[a[j]]
  }
  start <- integer(2L * n - 1L)
  start[2L * n - 1L] <- 1L
  for (j in (n - 1L):1L) {
    s <- start[n + j]
    start[a[j]] <- s
    start[b[j]] <- s + size[a[j]]
  }
  order <- integer(n)
  order[start[seq_len(n)]] <- seq_len(n)
  is_big <- size >= least
  of <- integer(2L * n - 1L)
  of[2L * n - 1L] <- 1L
  most <- 2L * sum(is_big[a] & is_big[b]) + 1L
  node <- children <- integer(most)
  node[1] <- 2L * n - 1L
  count <- 1L
  for (j in rev(which(is_big[n + seq_len(n - 1L)]))) {
    if (is_big[b[j]]) {
      children[of[n + j]] <- count + 1L
      node[count + 1:2] <- c(a[j], b[j])
      of[a[j]] <- count + 1L
      of[b[j]] <- count + 2L
      count <- count + 2L
    } else if (is_big[a[j]]) {
      of[a[j]] <- of[n + j]
    }
  }
  list(order = order, start = start[node], size = size[node], first = children)
}

cells_of <- function(tree, cluster) {
  tree$order[tree$start[cluster] + seq_len(tree$size[cluster]) - 1L]
}

# The depth that decides: see deciding_depth() in src/rust.
deciding <- function(depth, clear) {
  if (depth[2] < 0.1 && depth[1] >= clear && depth[1] < 0.5) depth[2] else depth[1]
}

# function(a, b) for two groups, vectors of clusters: the depths of their valley, see depths().
# Groups are thinned to at most `cells` cells, evenly in the order of the tree. Values are kept.
valleys <- function(x, tree, cells) {
  points <- new.env()
  known <- new.env()
  group <- function(clusters) {
    key <- paste(clusters, collapse = "+")
    found <- points[[key]]
    if (is.null(found)) {
      total <- sum(tree$size[clusters])
      take <- seq_len(min(total, cells))
      if (total > cells) take <- floor((take - 0.5) * total / cells) + 1
      end <- cumsum(tree$size[clusters])
      part <- findInterval(take, end + 1) + 1L
      position <- take - c(0, end)[part] + tree$start[clusters][part] - 1
      found <- list(x = x[tree$order[position], , drop = FALSE], size = total, key = key)
      points[[key]] <- found
    }
    found
  }
  function(a, b) {
    a <- group(a)
    b <- group(b)
    if (a$key > b$key) {
      temporary <- a
      a <- b
      b <- temporary
    }
    key <- paste(a$key, b$key)
    value <- known[[key]]
    if (is.null(value)) {
      value <- depths(a$x, b$x, a$size, b$size)
      known[[key]] <- value
    }
    value
  }
}

# The depth of the valley between the points a and b, which stand for size_a and size_b cells: with
# the same weight for both sides, and with the true weights. 1 if too few to tell.
depths <- function(a, b, size_a, size_b) {
  none <- c(1, 1)
  p <- ncol(a)
  if (min(nrow(a), nrow(b)) < max(4L, p %/% 2L) || nrow(a) + nrow(b) < 2L * p) return(none)
  sides <- competed(a, b, size_a, size_b)
  if (is.null(sides)) return(none)
  y <- projections(sides$a, sides$b)
  w <- list(a = sides$weight_a, b = sides$weight_b)
  at <- c(quantile_of(y$a, w$a, 0.5), quantile_of(y$b, w$b, 0.5))
  if (!all(is.finite(at)) || at[1] == at[2]) return(none)
  m <- c(sum(w$a)^2 / sum(w$a^2), sum(w$b)^2 / sum(w$b^2))
  spread <- c(spread_of(y$a, w$a), spread_of(y$b, w$b))
  least <- round(min(m))
  share <- (seq_len(least) - 0.5) / least
  balanced <- c(quantile_of(y$a, w$a, share), quantile_of(y$b, w$b, share))
  wide <- 0.9 * spread_of(balanced, rep(1, 2 * least)) * (2 * least)^-0.2
  narrow <- min(0.9 * spread * m^-0.2, wide)
  if (!(wide > 0)) return(none)
  all <- c(y$a, y$b)
  limits <- c(max(min(all), min(at) - 4 * max(spread)), min(max(all), max(at) + 4 * max(spread)))
  total <- c(sum(w$a), sum(w$b))
  depth <- function(share, width) {
    share <- share / sum(share) / total
    weight <- c(share[1] * w$a, share[2] * w$b)
    width <- max(width, diff(limits) / 1000)
    d <- stats::density(all, bw = width, weights = weight, from = limits[1], to = limits[2],
                        n = 512)
    between <- which(d$x >= min(at) & d$x <= max(at))
    if (length(between) < 3L) return(1)
    lowest <- between[which.min(d$y[between])]
    d$y[lowest] / min(max(d$y[seq_len(lowest)]), max(d$y[lowest:512]))
  }
  c(depth(c(1, 1), wide), depth(total, narrow))
}

# Hazen's quantiles (type 5 in R) of weighted values.
quantile_of <- function(y, weight, share) {
  order <- order(y)
  rank <- (cumsum(weight[order]) - weight[order] / 2) / sum(weight)
  stats::approx(rank, y[order], share, rule = 2, ties = "ordered")$y
}

# As in stats::bw.nrd0(), for weighted values.
spread_of <- function(y, weight) {
  quartiles <- quantile_of(y, weight, c(0.25, 0.75))
  count <- sum(weight)^2 / sum(weight^2)
  centre <- sum(weight * y) / sum(weight)
  s <- sqrt(sum(weight * (y - centre)^2) / sum(weight) * count / (count - 1))
  iqr <- (quartiles[2] - quartiles[1]) / 1.34
  if (iqr > 0) min(s, iqr) else s
}

# a and b after one reassignment: each point goes to the side of the higher posterior density. The
# covariances have a tenth of p points of that of both sides added. NULL if fewer than 5 points,
# or half as many as columns, remain in a side.
competed <- function(a, b, size_a, size_b) {
  x <- rbind(a, b)
  p <- ncol(x)
  is_a <- rep(c(TRUE, FALSE), c(nrow(a), nrow(b)))
  shared <- stats::cov(x)
  floor <- 1e-9 * diag(shared) + .Machine$double.xmin
  log_density <- function(side, size) {
    m <- nrow(side)
    s <- (stats::cov(side) * (m - 1) + 0.1 * p * shared) / (m + 0.1 * p)
    factor <- chol(s + diag(floor, p))
    z <- backsolve(factor, t(x) - colMeans(side), transpose = TRUE)
    log(size) - sum(log(diag(factor))) - colSums(z^2) / 2
  }
  found <- tryCatch(log_density(a, size_a) > log_density(b, size_b), error = function(e) is_a)
  if (min(sum(found), sum(!found)) < max(5L, p %/% 2L)) return(NULL)
  weight <- ifelse(is_a, size_a / nrow(a), size_b / nrow(b))
  list(a = x[found, , drop = FALSE], b = x[!found, , drop = FALSE],
       weight_a = weight[found], weight_b = weight[!found])
}

# Projections of a's and b's points on (S_a + S_b)^-1 (m_a - m_b), both computed without the point
# itself (Sherman and Morrison's formula), from the middle of the means.
projections <- function(a, b) {
  p <- ncol(a)
  mean_a <- colMeans(a)
  mean_b <- colMeans(b)
  delta <- mean_a - mean_b
  a <- a - rep(mean_a, each = nrow(a))
  b <- b - rep(mean_b, each = nrow(b))
  w <- crossprod(a) / (nrow(a) - 1) + crossprod(b) / (nrow(b) - 1)
  # Singular only if a column is the same within both sides.
  w <- w + 1e-6 * (w + tcrossprod(delta)) + diag(1e-10 * (diag(w) + delta^2) + 1e-300, p)
  factor <- tryCatch(chol(w), error = function(e) diag(sqrt(diag(w)), p))
  e <- backsolve(factor, delta, transpose = TRUE)
  d2 <- sum(e^2)
  one <- function(d, sign) {
    n <- nrow(d)
    z <- backsolve(factor, t(d), transpose = TRUE)
    q <- colSums(z^2)
    u <- sign * drop(crossprod(z, e))
    r <- 1 / (n - 1)
    s <- n / ((n - 1) * (n - 2))
    direct <- (1 + r / 2) * (u - r * q) + d2 / 2 - r * u / 2
    sign * (direct + s * ((1 + r / 2) * q + u / 2) * (u - r * q) / pmax(1 - s * q, 1e-3))
  }
  list(a = one(a, 1), b = one(b, -1))
}

# Groups of clusters that are apart from each other, by similarity(a, b): <= 0 if they are.
groups_apart <- function(tree, similarity) {
  groups <- vector("list", length(tree$start))
  for (cluster in rev(seq_along(groups))) {
    k <- tree$first[cluster]
    if (k == 0L) {
      groups[[cluster]] <- list(cluster)
      next
    }
    here <- c(groups[[k]], groups[[k + 1L]])
    groups[k + 0:1] <- list(NULL)
    m <- length(here)
    value <- matrix(-Inf, m, m)
    for (i in seq_len(m - 1L)) for (j in (i + 1L):m) value[i, j] <- similarity(here[[i]], here[[j]])
    while (m > 1L && max(value) > 0) {
      best <- which.max(value)
      i <- (best - 1L) %% m + 1L
      j <- (best - 1L) %/% m + 1L
      clusters <- c(here[[i]], here[[j]])
      here[[i]] <- clusters[order(tree$start[clusters])]
      here[[j]] <- NULL
      value <- value[-j, -j, drop = FALSE]
      m <- m - 1L
      for (l in seq_len(m)[-i]) {
        value[min(i, l), max(i, l)] <- similarity(here[[i]], here[[l]])
      }
    }
    # All of a cluster, with the cells that fell off it.
    groups[[cluster]] <- if (m == 1L) list(cluster) else here
  }
  groups[[1]]
}

# The tree's splits in its own order (from the top, as in cut_populations(h, k)), up to the first
# that shows no valley (depth >= limit), and all splits with populations apart below. A split whose
# sides hold less than a quarter of their cluster divides nothing (else most cells were in none).
finer_level <- function(tree, groups, depth, limit) {
  inside <- integer(length(tree$start))   # the population that a cluster is part of, 0 for several
  for (g in seq_along(groups)) inside[groups[[g]]] <- g
  labels <- integer(length(tree$order))
  divided <- logical(length(tree$start))
  is_clear <- TRUE
  # In the order of splits; parents come before their children.
  clusters <- which(tree$first > 0L)
  for (cluster in clusters[order(tree$first[clusters])]) {
    k <- tree$first[cluster]
    if (inside[cluster] > 0L) {
      inside[k + 0:1] <- inside[cluster]
      if (!is_clear || 4 * sum(tree$size[k + 0:1]) < tree$size[cluster]) next
      if (cluster > 1L && !divided[parent_of(tree, cluster)]) next
    }
    own <- depth(k, k + 1L)
    if (inside[cluster] > 0L && own >= limit) {
      is_clear <- FALSE
      next
    }
    divided[cluster] <- TRUE
  }
  found <- 0L
  for (cluster in seq_along(divided)) {
    if (divided[cluster] || (cluster > 1L && !divided[parent_of(tree, cluster)])) next
    found <- found + 1L
    labels[cells_of(tree, cluster)] <- found
  }
  labels
}

parent_of <- function(tree, cluster) match(cluster - cluster %% 2L, tree$first)

# Labels by decreasing size.
by_size <- function(labels) {
  size <- tabulate(labels)
  match(labels, order(-size), nomatch = 0L)
}
