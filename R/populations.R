# The methods of class "populations", which cut_populations(), name_populations() and predict()
# return.

#' @export
print.populations <- function(x, ...) {
  check_populations(x, "x", match.call())
  k <- attr(x, "k")
  finer <- attr(x, "finer")
  least <- attr(x, "min_members")
  cat(
    k, ngettext(k, " population", " populations"),
    if (!is.null(least)) paste(" of at least", shown_count(ceiling(least)), "members"),
    ":\n", sep = ""
  )
  table <- summary(x)
  # Of no cells, no population has a share.
  share <- ifelse(is.nan(table$share), "", sprintf("%.1f%%", 100 * table$share))
  shown <- data.frame(
    members = shown_count(table$members), share = share, row.names = table$population
  )
  has_valleys <- any(!is.na(table$valley))
  if (has_valleys) {
    shown$nearest <- ifelse(is.na(table$nearest), "", as.character(table$nearest))
    shown$valley <- ifelse(is.na(table$valley), "", sprintf("%.2f", table$valley))
  }
  print(shown)
  if (has_valleys) {
    cat("valley: density between a population and its nearest one, 0 (a gap) to 1 (no valley)\n")
  }
  if (is_single_number(finer) && finer > k) {
    cat("A finer level has ", finer, " populations: level = \"finer\"\n", sep = "")
  }
  if (identical(attr(x, "chosen_by"), "mass") && !is.null(attr(x, "strength"))) {
    cat("Chosen by density, as HDBSCAN does; attributes `strength` and `outlier` have the\n",
        "strengths of membership and the outlier scores\n", sep = "")
  } else if (identical(attr(x, "chosen_by"), "mass")) {
    cat("Chosen by the heights of the tree alone; with the observations, `x`, populations are\n",
        "found by the valleys between them\n", sep = "")
  }
  invisible(x)
}

# Stops unless the attributes of `x` fit each other.
check_populations <- function(x, arg, call) {
  sizes <- attr(x, "sizes")
  k <- attr(x, "k")
  is_number <- function(value) is_single_number(value) && !is.object(value)
  separation <- attr(x, "separation")
  levels <- attr(x, "levels")
  least <- attr(x, "min_members")
  is_sound <- is.numeric(sizes) && !is.object(sizes) && all(is.finite(sizes)) && is_number(k) &&
    length(sizes) == k && is_number(attr(x, "rest")) && (is.null(least) || is_number(least)) &&
    is.character(levels) && length(levels) == k &&
    (is.null(separation) || is_separation(separation, k)) &&
    has_counts(x, sizes, attr(x, "rest"))
  if (!is_sound) {
    refuse(arg, "has attributes that do not fit", "it must be the value of cut_populations()", call)
  }
}

# Whether as many elements as `sizes` says have each number, if each element is one member; else
# TRUE. A function of base R, such as pmin(), may have changed the numbers and kept the attributes.
has_counts <- function(x, sizes, rest) {
  if (isTRUE(attr(x, "weighted")) || sum(sizes) + rest != length(x)) return(TRUE)
  numbers <- plain_populations(x)
  is_population_numbers(numbers) && all(tabulate(numbers, length(sizes)) == sizes) &&
    sum(numbers == 0) == rest
}

is_separation <- function(separation, k) {
  is.data.frame(separation) && identical(length(separation$nearest), as.integer(k)) &&
    is.numeric(separation$valley) && length(separation$valley) == k
}

#' @export
summary.populations <- function(object, ...) {
  members <- c(attr(object, "sizes"), attr(object, "rest"))
  levels <- attr(object, "levels")
  separation <- attr(object, "separation")
  nearest <- separation$nearest
  if (is.null(nearest)) nearest <- rep(NA_integer_, length(levels))
  valley <- separation$valley
  if (is.null(valley)) valley <- rep(NA_real_, length(levels))
  data.frame(
    population = c(levels, "none"), members = members, share = members / sum(members),
    nearest = c(levels[nearest], NA), valley = c(valley, NA)
  )
}

# Populations as a plain vector: without class and attributes, except names.
plain_populations <- function(x) {
  if (inherits(x, "populations")) attributes(x) <- list(names = names(x))
  x
}

# A population with other members has other sizes, another model and other branches, so after an
# assignment only the numbers remain.

#' @export
`[<-.populations` <- function(x, ..., value) {
  x <- plain_populations(x)
  x[...] <- value
  x
}

#' @export
`[[<-.populations` <- function(x, ..., value) {
  x <- plain_populations(x)
  x[[...]] <- value
  x
}

# For packages that handle columns by vctrs, such as tibble and dplyr: parts of a column are plain
# vectors. R registers these methods when vctrs is loaded.

#' @exportS3Method vctrs::vec_proxy
vec_proxy.populations <- function(x, ...) plain_populations(x) # nolint: object_name_linter.

#' @exportS3Method vctrs::vec_restore
vec_restore.populations <- function(x, to, ...) plain_populations(x) # nolint: object_name_linter.

#' @export
Ops.populations <- function(e1, e2) {
  operation <- get(.Generic, mode = "function")
  if (missing(e2)) return(operation(plain_populations(e1)))
  if (.Generic %in% c("==", "!=")) {
    if (is.character(e2)) e1 <- named_populations(e1)
    if (is.character(e1)) e2 <- named_populations(e2)
  }
  operation(plain_populations(e1), plain_populations(e2))
}

# The name of the population of each element; "none" for none. Anything but populations as it is.
named_populations <- function(x) {
  if (!inherits(x, "populations")) return(x)
  number <- plain_populations(x)
  stats::setNames(c("none", attr(x, "levels"))[number + 1L], names(number))
}

#' @export
Math.populations <- function(x, ...) get(.Generic, mode = "function")(plain_populations(x), ...)

#' @export
diff.populations <- function(x, ...) diff(plain_populations(x), ...)

#' @export
as.data.frame.populations <- function(x, row.names = NULL, optional = FALSE, # nolint
                                      ..., nm = "population") {
  as.data.frame(plain_populations(x), row.names = row.names, optional = optional, ..., nm = nm)
}
