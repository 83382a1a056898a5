# Whether the outcome of a call is as it should be.

# The outcome of a call: a list of `kind` and `text`; NULL if nothing is wrong.
judge <- function(call, env) {
  warnings <- character(0)
  outcome <- tryCatch(
    withCallingHandlers(
      list(value = eval(call, env)),
      warning = function(w) {
        is_ours <- any(startsWith(class(w), "gmhclust_"))
        if (!is_ours) warnings <<- c(warnings, conditionMessage(w))
        invokeRestart("muffleWarning")
      },
      message = function(m) invokeRestart("muffleMessage")
    ),
    error = identity
  )
  if (is_of_others(call, env)) return(NULL)
  if (inherits(outcome, "error")) return(judge_error(outcome))
  warnings <- warnings[!grepl(known_warnings, warnings)]
  wrong <- tryCatch(
    invalid_value(as.character(call[[1]]), outcome$value, call, env),
    error = function(e) paste("the check failed:", conditionMessage(e))
  )
  if (!is.null(wrong)) return(list(kind = "nonsense", text = wrong))
  if (length(warnings) > 0) list(kind = "warning", text = warnings[1])
}

# Errors and warnings of R that say what is wrong.
known_errors <- paste(
  "class name too long", "malformed factor", "translating strings with \"bytes\" encoding",
  "is missing, with no default", "a method of the user's class failed", "unused argument",
  sep = "|"
)
known_warnings <- "treating non-finite values as NA|conversion failure on"

# Whether the call goes to a method of another package.
is_of_others <- function(call, env) {
  ours <- switch(as.character(call[[1]]),
    as.list = , get_rows = "gknn_files",
    print = c("gmhclust_settings", "populations", "population_model", "gknn_files", "gpu_devices",
              "stability"),
    predict = c("populations", "population_model"),
    compare = , as.data.frame = "populations"
  )
  # Objects of other packages that are not what their classes say fail in these packages.
  if (identical(call[[1]], quote(observations))) {
    return(!class(eval(call$x, env))[1] %in% c("flowFrame", "flowSet", "data.frame"))
  }
  if (is.null(ours)) return(FALSE)
  x <- eval(if (identical(call[[1]], quote(predict))) call$object else call$x, env)
  isS4(x) || !class(x)[1] %in% ours
}

judge_error <- function(error) {
  message <- conditionMessage(error)
  if (inherits(error, "gmhclust_error")) {
    if (grepl("internal error", message)) return(list(kind = "internal", text = message))
    if (nchar(message, "bytes") < 2000) return(NULL)
    return(list(kind = "long message", text = substr(message, 1, 300)))
  }
  if (any(grepl(known_errors, message))) return(NULL)
  list(kind = "error of R", text = paste(message, "in", deparse(conditionCall(error))[1]))
}

# What is wrong with the value of a call; NULL for nothing.
invalid_value <- function(verb, value, call, env) {
  arg <- function(name) eval(call[[name]], env)
  switch(verb,
    gdist = invalid_dist(value),
    ghclust = , gmhclust = , mhclust = , cutree_top = , cutree_apriori = ,
    reorder.hclust = invalid_tree(value),
    stability = if (!all(unlist(value$agreement) %in% NA | unlist(value$agreement) <= 1)) {
      "no agreements"
    },
    make_monotone = if (is.unsorted(value$height)) "heights decrease" else invalid_tree(value),
    gkmeans = invalid_kmeans(value),
    gknn = if (!inherits(value, "gknn_files")) invalid_neighbours(value),
    gneighbours = invalid_ranges(value),
    gmst = invalid_spanning_tree(value),
    gcutree = if (!is.integer(value) || anyNA(value) || any(value < 1L)) "no clusters",
    cut_populations = invalid_populations(value),
    name_populations = invalid_names(value),
    count_populations = if (!is.integer(value) || !is.matrix(value) || anyNA(value)) "no counts",
    report = if (!is.character(value) || !file.exists(value)) "no file",
    add_populations = invalid_codes(value),
    predict = invalid_mapping(value),
    check_hclust = invalid_check(value, arg("tree")),
    as_edges = if (!is.data.frame(value) || anyNA(value) || any(value$target < 1)) "no edges",
    as_igraph = if (!igraph::is_igraph(value) || anyNA(igraph::E(value)$weight)) "no graph",
    as_uwot = if (!is.numeric(value$idx) || anyNA(unlist(value)) || any(value$idx < 1)) {
      "no neighbours"
    },
    as_hits = if (anyNA(S4Vectors::mcols(value)$distance)) "missing distances",
    observations = if (!is.double(value) && !inherits(value, c("sparseMatrix", "DelayedMatrix"))) {
      "no doubles"
    },
    # What is forged may decrease.
    get_rows = , as.list = if (inherits(arg("x"), "gknn_files")) {
      invalid_neighbours(value, is_sorted = !isTRUE(env$is_forged))
    },
    resumed = invalid_neighbours(value, is_sorted = !isTRUE(env$is_forged)),
    read_gknn = if (!inherits(value, "gknn_files")) "no files"
  )
}

invalid_names <- function(value) {
  levels <- levels(value)
  if (!inherits(value, "populations") || anyNA(value) || any(value < 0)) return("no populations")
  if (!is.character(levels) || anyNA(levels) || anyDuplicated(levels)) return("wrong names")
  if (max(value) > length(levels)) "too few names"
}

invalid_codes <- function(value) {
  codes <- S4Vectors::metadata(value)$cluster_codes
  is_sound <- is.data.frame(codes) && !anyNA(codes) && all(vapply(codes, is.factor, NA))
  if (!is_sound) return("no codes")
  if (!identical(levels(value$cluster_id), levels(codes[, 1]))) return("codes of no cluster")
  if (anyNA(value$cluster_id)) "cells without a cluster"
}

invalid_dist <- function(d) {
  if (!is.double(d)) return("no doubles")
  if (is.matrix(d)) return(NULL)
  n <- attr(d, "Size")
  if (!inherits(d, "dist") || length(d) != n * (n - 1) / 2) return("no dist object")
  if (any(unclass(d) < 0, na.rm = TRUE)) return("negative distances")
  names <- attr(d, "Labels")
  if (!is.null(names) && (!is.character(names) || length(names) != n)) "wrong labels"
}

# By the definition of stats::hclust(), independently of check_hclust().
invalid_tree <- function(h) {
  if (!inherits(h, "hclust") || !is.list(h)) return("no hclust")
  merge <- h$merge
  is_matrix <- is.matrix(merge) && is.numeric(merge) && ncol(merge) == 2 && nrow(merge) >= 1
  if (!is_matrix) return("merge is no matrix")
  n <- nrow(merge) + 1
  is_of <- function(x, values) {
    is.numeric(x) && !anyNA(x) && length(x) == length(values) && setequal(x, values)
  }
  if (!is_of(merge, c(-seq_len(n), seq_len(n - 2)))) return("merge is no tree")
  if (any(merge >= row(merge))) return("merge refers to later rows")
  is_height <- is.numeric(h$height) && length(h$height) == n - 1 && all(is.finite(h$height))
  if (!is_height) return("wrong heights")
  if (!is_of(h$order, seq_len(n))) return("wrong order")
  if (!is.null(h$labels) && length(h$labels) != n) return("wrong labels")
  place <- order(h$order)
  low <- high <- size <- numeric(n - 1)
  for (j in seq_len(n - 1)) {
    of <- function(inner, leaf) {
      ifelse(merge[j, ] < 0, leaf[pmax(-merge[j, ], 1)], inner[pmax(merge[j, ], 1)])
    }
    low[j] <- min(of(low, place))
    high[j] <- max(of(high, place))
    size[j] <- sum(of(size, rep(1, n)))
    if (high[j] - low[j] + 1 != size[j]) return("branches cross")
  }
  NULL
}

invalid_mapping <- function(value) {
  if (is.integer(value)) {
    sizes <- tabulate(value, attr(value, "k"))
    if (anyNA(value) || any(value < 0L) || any(attr(value, "sizes") != sizes)) "no populations"
  } else if (is.list(value)) {
    if (!is.integer(value$index) || any(value$index < 1L)) "no numbers of populations"
  } else if (!is.double(value) || any(value < 0, na.rm = TRUE)) {
    "negative values"
  }
}

invalid_check <- function(value, h) {
  if (!isTRUE(value) && !is.character(value)) return("neither TRUE nor text")
  wrong <- tryCatch(invalid_tree(h), error = conditionMessage)
  if (isTRUE(value) == is.null(wrong)) return(NULL)
  paste("check_hclust() says", value[1], "but:", wrong)
}

invalid_kmeans <- function(km) {
  if (!inherits(km, "kmeans") || anyNA(km$cluster) || anyNA(km$withinss)) return("no kmeans")
  sizes <- tabulate(km$cluster, length(km$size))
  if (sum(sizes) != length(km$cluster) || any(sizes != km$size)) return("wrong sizes")
  if (!all(is.finite(km$centers[km$size > 0, ]))) "centers are not finite"
}

invalid_neighbours <- function(nn, is_sorted = TRUE) {
  is_index <- is.matrix(nn$index) && is.integer(nn$index) && !anyNA(nn$index)
  if (!is_index || any(nn$index < 1L)) return("wrong index")
  if (is_sorted && any(apply(nn$index, 1, anyDuplicated) > 0)) return("a neighbour twice")
  if (is.null(nn$distance)) return(NULL)
  if (!identical(dim(nn$index), dim(nn$distance)) || anyNA(nn$distance)) return("wrong distances")
  if (is_sorted && any(apply(nn$distance, 1, is.unsorted))) "distances decrease"
}

invalid_ranges <- function(nn) {
  index <- unlist(nn$index)
  if (!is.list(nn$index) || anyNA(index) || any(index < 1L)) return("wrong index")
  if (is.null(nn$distance)) return(NULL)
  if (!identical(lengths(nn$distance), lengths(nn$index))) return("wrong lengths")
  if (anyNA(unlist(nn$distance))) "wrong distances"
}

invalid_spanning_tree <- function(edges) {
  n <- nrow(edges) + 1L
  group <- seq_len(n)
  for (i in seq_len(nrow(edges))) {
    ends <- group[c(edges[[1]][i], edges[[2]][i])]
    if (anyNA(ends) || ends[1] == ends[2]) return("no tree")
    group[group == ends[2]] <- ends[1]
  }
  if (anyNA(edges[[3]])) "missing weights"
}

invalid_populations <- function(value) {
  k <- attr(value, "k")
  sizes <- attr(value, "sizes")
  if (!is.integer(value) || anyNA(value) || any(value < 0L | value > k)) return("no populations")
  if (length(sizes) != k || anyNA(sizes) || (k > 0 && any(tabulate(value, k) == 0))) "wrong sizes"
}
