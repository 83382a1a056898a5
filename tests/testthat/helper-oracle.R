# The definition of Mahalanobis-average clustering in plain R. It computes every distance directly
# from the observations, so it is slow (n^2 memory) and easy to verify.

# Squared Cholesky pivots of a symmetric matrix, up to the first one at or below `floor`.
squared_pivots <- function(a, floor) {
  p <- nrow(a)
  pivots <- numeric(0)
  for (k in seq_len(p)) {
    pivot <- a[k, k]
    if (!(pivot > floor)) break
    pivots <- c(pivots, pivot)
    rest <- seq_len(p) > k
    a[rest, rest] <- a[rest, rest] - tcrossprod(a[rest, k]) / pivot
  }
  pivots
}

# log det of `a`, or NULL where `a` is singular.
log_determinant <- function(a) {
  p <- nrow(a)
  pivots <- squared_pivots(a, .Machine$double.eps * p * max(diag(a)))
  if (length(pivots) == p) sum(log(pivots))
}

# The inverse of the effective covariance, divided by nu when normalising.
oracle_precision <- function(points, threshold, kind, normalising) {
  m <- nrow(points)
  p <- ncol(points)
  identity <- diag(p)
  if (m <= 2 || (kind == "euclid" && normalising$not_all_full)) return(identity)
  w <- min(1, m / threshold)
  covariance <- crossprod(sweep(points, 2, colMeans(points))) / (m - 1)
  effective <- switch(kind,
    mahal = {
      log_det <- if (m > p) log_determinant(covariance)
      f <- if (is.null(log_det)) 1 else exp(log_det / p)
      w * covariance + (1 - w) * f * identity
    },
    mahal0 = w * covariance + (1 - w) * identity,
    if (w == 1) covariance else identity
  )
  if (w == 1 && m <= p) return(identity)
  log_det <- log_determinant(effective)
  if (is.null(log_det)) return(identity)
  scale <- if (normalising$holds) exp(log_det / p) else 1
  solve(effective, tol = 0) * scale
}

distances_to <- function(x, centre, precision) {
  delta <- sweep(x, 2, centre)
  sqrt(pmax(0, rowSums((delta %*% precision) * delta)))
}

# Agglomerates `members`, a list of observation indices in slot order. Returns the merged slots and
# heights, one row per merge; the merged cluster keeps the lower slot.
oracle_agglomerate <- function(x, members, threshold, kind, is_centroid, normalize) {
  slots <- length(members)
  alive <- rep(TRUE, slots)
  full_size <- function() all(lengths(members[alive]) >= threshold)
  normalising <- function() {
    list(holds = normalize || !full_size(), not_all_full = !full_size())
  }
  state <- normalising()
  # to[x, C]: distance from observation x to cluster C; if `is_centroid`, from mean to cluster.
  from <- x
  if (is_centroid) {
    from <- do.call(rbind, lapply(members, function(i) colMeans(x[i, , drop = FALSE])))
  }
  to_cluster <- function(slot) {
    points <- x[members[[slot]], , drop = FALSE]
    distances_to(from, colMeans(points), oracle_precision(points, threshold, kind, state))
  }
  all_to <- function() {
    vapply(seq_len(slots), function(s) {
      if (alive[s]) to_cluster(s) else rep(NA_real_, nrow(from))
    }, numeric(nrow(from)))
  }
  to <- all_to()
  rows_of <- function(slot) if (is_centroid) slot else members[[slot]]
  mean_to <- function(slot) colMeans(to[rows_of(slot), , drop = FALSE])
  all_pairs <- function() {
    directed <- t(vapply(seq_len(slots), mean_to, numeric(slots)))
    pairs <- (directed + t(directed)) / 2
    pairs[lower.tri(pairs, diag = TRUE)] <- Inf
    pairs[!alive, ] <- Inf
    pairs[, !alive] <- Inf
    pairs
  }
  pairs <- all_pairs()
  merged <- matrix(0L, slots - 1, 2)
  height <- numeric(slots - 1)
  for (step in seq_len(slots - 1)) {
    best <- which(pairs == min(pairs), arr.ind = TRUE)
    best <- best[order(best[, 1], best[, 2])[1], ]
    a <- best[[1]]
    b <- best[[2]]
    merged[step, ] <- c(a, b)
    height[step] <- pairs[a, b]
    members[[a]] <- c(members[[a]], members[[b]])
    alive[b] <- FALSE
    if (is_centroid) from[a, ] <- colMeans(x[members[[a]], , drop = FALSE])
    was <- state
    state <- normalising()
    if (was$not_all_full && !state$not_all_full) {
      to <- all_to()
      pairs <- all_pairs()
      next
    }
    if (is_centroid) {
      for (s in which(alive)) {
        points <- x[members[[s]], , drop = FALSE]
        to[a, s] <- distances_to(from[a, , drop = FALSE], colMeans(points),
                                 oracle_precision(points, threshold, kind, state))
      }
    }
    to[, a] <- to_cluster(a)
    to[, b] <- NA
    pairs[b, ] <- Inf
    pairs[, b] <- Inf
    out <- mean_to(a)
    for (s in setdiff(which(alive), a)) {
      pairs[min(a, s), max(a, s)] <- (out[s] + mean(to[rows_of(s), a])) / 2
    }
  }
  list(merged = merged, height = height)
}

# Interleaves the merges of apriori clusters: the lowest of their next merges comes next. Returns
# cluster numbers.
oracle_interleave <- function(heights) {
  taken <- integer(length(heights))
  replicate(sum(lengths(heights)), {
    following <- vapply(seq_along(heights), function(g) {
      if (taken[g] < length(heights[[g]])) heights[[g]][taken[g] + 1] else Inf
    }, 0)
    g <- which.min(following)
    taken[g] <<- taken[g] + 1L
    g
  })
}

# `apriori`: codes 1..G, 0 = none, every label with two members or more; or NULL.
oracle_gmhclust <- function(x, threshold, apriori = NULL, subthreshold = "mahal", distance = "full",
                            normalize = FALSE, apriori_intra = TRUE) {
  n <- nrow(x)
  if (threshold < 1) threshold <- threshold * n
  cluster_alone <- function(members) {
    oracle_agglomerate(x, members, threshold, subthreshold, distance == "centroid", normalize)
  }
  merge <- matrix(0L, n - 1, 2)
  height <- numeric(n - 1)
  done <- 0L
  # id[i]: the current cluster of the observation that is lowest in slot i, in hclust's numbering.
  id <- -seq_len(n)
  record <- function(a, b, h) {
    pair <- c(id[a], id[b])
    pair <- if (all(pair < 0)) sort(pair, decreasing = TRUE) else sort(pair)
    done <<- done + 1L
    merge[done, ] <<- pair
    height[done] <<- h
    id[a] <<- done
  }
  groups <- if (is.null(apriori)) list() else unname(split(seq_len(n), factor(apriori,
    levels = seq_len(max(apriori)))))
  trees <- lapply(groups, function(group) {
    if (apriori_intra) return(cluster_alone(as.list(group)))
    k <- length(group) - 1
    list(merged = cbind(rep(1L, k), seq_len(k) + 1L), height = numeric(k))
  })
  g_labels <- if (length(groups)) oracle_interleave(lapply(trees, `[[`, "height"))
  step <- integer(length(groups))
  for (g in g_labels) {
    step[g] <- step[g] + 1L
    pair <- groups[[g]][trees[[g]]$merged[step[g], ]]
    record(pair[1], pair[2], trees[[g]]$height[step[g]])
  }
  loose <- if (is.null(apriori)) seq_len(n) else which(apriori == 0)
  members <- c(groups, as.list(loose))
  first <- vapply(members, `[`, 0L, 1L)
  top <- cluster_alone(members)
  for (k in seq_along(top$height)) {
    record(first[top$merged[k, 1]], first[top$merged[k, 2]], top$height[k])
  }
  list(merge = merge, height = height, n_height_apriori = length(g_labels), g_labels = g_labels)
}
