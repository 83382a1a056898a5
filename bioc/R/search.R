# Searches in an index, with the results of BiocNeighbors. `query` is NULL or a matrix of points in
# rows; without it, `subset` selects the points of the index to search for.

# The k nearest neighbours. `k` has one number, or one for each search; then, or if it has class
# "AsIs", the results are lists of vectors. `get_index` and `get_distance` are TRUE, FALSE, "normal"
# or "transposed".
nearest <- function(index, k, query, subset, get_index, get_distance, threads) {
  found <- nearest_of_all(index, k, query, subset, !isFALSE(get_distance), threads)
  layout <- list(index = get_index, distance = get_distance)
  layout <- layout[!vapply(layout, isFALSE, NA)]
  Map(arrange, found[names(layout)], layout, names(layout))
}

# A result with searches in rows in the layout that the user asked for.
arrange <- function(part, layout, name) {
  if (isTRUE(layout) || identical(layout, "normal")) return(part)
  if (!identical(layout, "transposed")) {
    stop("`get.", name, "` is ", format(layout),
         "; it must be TRUE, FALSE, \"normal\" or \"transposed\"", call. = FALSE)
  }
  if (is.matrix(part)) t(part) else part
}

nearest_of_all <- function(index, k, query, subset, get_distance, threads) {
  rows <- rows_of_subset(subset, index)
  searches <- count_searches(index, query, rows)
  counts <- check_counts(k, searches)
  counts <- cap_counts(counts, ncol(index@data) - is.null(query), is.null(query))
  most <- max(counts, 0L)
  found <- if (searches == 0 || most == 0) {
    list(index = matrix(0L, searches, most), distance = matrix(0, searches, most))
  } else {
    search_by("gknn", index, query, rows, threads, list(k = most, get.distance = get_distance))
  }
  if (length(k) == 1 && !inherits(k, "AsIs")) return(found)
  lapply(found, function(part) {
    lapply(seq_len(searches), function(i) part[i, seq_len(counts[i])])
  })
}

# The distance to the kth nearest neighbour, 0 for k = 0.
distance_to_kth <- function(index, k, query, subset, threads) {
  distance <- nearest_of_all(index, k, query, subset, TRUE, threads)$distance
  if (is.matrix(distance)) {
    return(if (ncol(distance) == 0) numeric(nrow(distance)) else distance[, ncol(distance)])
  }
  vapply(distance, function(all) if (length(all) == 0) 0 else all[length(all)], 0)
}

# All neighbours within a distance, or their numbers if neither their indices nor their distances
# are wanted.
within_threshold <- function(index, threshold, query, subset, get_index, get_distance, threads) {
  rows <- rows_of_subset(subset, index)
  searches <- count_searches(index, query, rows)
  check_thresholds(threshold, searches)
  found <- if (searches == 0) {
    list(index = list(), distance = list())
  } else if (ncol(index@data) - is.null(query) == 0) {
    list(index = rep(list(integer()), searches), distance = rep(list(numeric()), searches))
  } else {
    search_by("gneighbours", index, query, rows, threads,
              list(radius = as.double(threshold), get.distance = get_distance))
  }
  if (!get_index && !get_distance) return(lengths(found$index))
  found[c("index", "distance")[c(get_index, get_distance)]]
}

# Calls gknn() or gneighbours(). Their message about columns that look like numbers of rows or times
# is for users who choose the columns; here other functions did.
search_by <- function(of, index, query, rows, threads, arguments) {
  param <- index@param
  if (!is.null(param@threads)) threads <- param@threads
  x <- t(index@data)
  # All points without a column are at the same place.
  if (ncol(x) == 0) {
    x <- cbind(x, 0)
    if (!is.null(query)) query <- cbind(query, 0)
  }
  found <- withCallingHandlers(
    run_gmhclust(of, x, c(
      list(query = query, metric = metrics[[index@distance]], subset = rows, threads = threads,
           backend = param@backend, devices = param@devices),
      arguments
    )),
    gmhclust_message_columns = function(m) invokeRestart("muffleMessage")
  )
  attributes(found) <- list(names = names(found))
  found
}

# The query of a search in the index: a matrix of doubles with a point in each row.
points_of_query <- function(query, transposed, subset, index) {
  points <- points_in_rows(query, transposed, index@distance, subset)
  if (ncol(points) != nrow(index@data)) {
    stop("`query` has ", ncol(points), if (transposed) " rows" else " columns",
         "; it must have one for each of the ", nrow(index@data), " dimensions of the data",
         call. = FALSE)
  }
  points
}

count_searches <- function(index, query, rows) {
  if (!is.null(query)) nrow(query) else if (is.null(rows)) ncol(index@data) else length(rows)
}

# The row numbers that `subset` selects, by numbers, names or a logical value for each; NULL for all
# rows.
rows_of_subset <- function(subset, index) {
  if (is.null(subset)) return(NULL)
  n <- ncol(index@data)
  all_rows <- seq_len(n)
  names(all_rows) <- index@NAMES
  rows <- unname(all_rows[subset])
  if (anyNA(rows)) {
    wrong <- subset[which(is.na(rows))[1]]
    stop("`subset` has ", format(wrong), "; it must select from ", n, " observations",
         if (is.character(subset)) " by their names", call. = FALSE)
  }
  rows
}

check_thresholds <- function(threshold, searches) {
  if (!is.numeric(threshold) || anyNA(threshold) || any(threshold < 0)) {
    stop("`threshold` is ", paste(utils::head(format(threshold), 3), collapse = ", "),
         "; it must be numbers of at least 0", call. = FALSE)
  }
  if (!length(threshold) %in% c(1, searches)) {
    stop("`threshold` has length ", length(threshold), "; it must have one number, or one for ",
         "each of ", searches, " searches", call. = FALSE)
  }
}

# The numbers of neighbours. Fractions are dropped, as in BiocNeighbors.
check_counts <- function(k, searches) {
  is_one <- length(k) == 1 && !inherits(k, "AsIs")
  if (!is.numeric(k) || anyNA(k) || any(k < 0)) {
    stop("`k` is ", paste(utils::head(format(k), 3), collapse = ", "),
         "; it must be numbers of at least 0", call. = FALSE)
  }
  if (!is_one && length(k) != searches) {
    stop("`k` has length ", length(k), "; it must have one number, or one for each of ", searches,
         " searches", call. = FALSE)
  }
  trunc(as.double(k))
}

# The warning has the text of BiocNeighbors, for callers who suppress it.
cap_counts <- function(counts, most, within) {
  if (any(counts > most)) {
    warning("'k' capped at the number of observations", if (within) " minus 1", call. = FALSE)
  }
  as.integer(pmin(counts, most))
}

# The number of threads that a call requests.
threads_for <- function(num.threads, BPPARAM) { # nolint: object_name_linter.
  if (is.null(BPPARAM)) num.threads else BiocParallel::bpnworkers(BPPARAM)
}
