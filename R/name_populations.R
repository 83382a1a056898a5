#' Name and merge populations
#'
#' Gives names to populations, which pictures, counts and other objects then show instead of
#' numbers. Populations that get the same name are merged.
#'
#' @param populations Populations, from [cut_populations()] or `predict()`, or their model, of class
#'   `population_model`.
#' @param names The new names, in one of three forms:
#'   * numbers of populations, or their current names, each with its new name: `c("CD4 T" = 1, "CD8
#'     T" = 2)`, or `c("CD4 T" = "T helper")`. The same name twice merges: `c("T" = 1, "T" = 2)`;
#'   * a list of such vectors, whose names are the new names: `list("T" = c(1, 2), "B" = 3)`;
#'   * an unnamed vector of names for all populations, in their order: `c("CD4 T", "CD8 T", "B")`,
#'     for example the most frequent gate of each population.
#'
#'   Populations that are not mentioned keep their name.
#'
#' @details
#' If a new name is the name of an existing population, both populations are merged. After a merge,
#' populations are renumbered by decreasing size. An unnamed population is called by its number, so
#' its name changes with the number. A name must not be `"none"`, which stands for cells in no
#' population, and not a number, except the number of the population itself.
#'
#' A population that was merged may consist of several clusters of the tree. Its model keeps the
#' mean and covariance of each of them.
#'
#' @return `populations` with the names as attribute `levels`, so that `levels()` has them, and
#'   `c("none", levels(populations))[populations + 1]` the name for each cell. A merge also updates
#'   `k`, `sizes`, `roots`, `clusters`, `separation` and `model`: `roots` has the clusters of all
#'   parts. In `separation`, `nearest` and `valley` are `NA` for a merged population, and for a
#'   population whose nearest population was merged, because this valley was not measured. A merge
#'   drops `strength`. In a `population_model`, components `levels` and `population` change.
#' @section Errors:
#' A condition of class `gmhclust_error_input` if `populations` has another class, or if `names`
#' mentions an unknown population, mentions a population twice, or has an empty name.
#' @seealso [report()] for a page on which populations get names; [cut_populations()],
#'   [plot_populations()], [count_populations()], [add_populations()]
#' @examples
#' cells <- lymphocytes()[seq(1, 20000, by = 20), ]
#' x <- as.matrix(cells[c("CD3", "CD4", "CD8", "CD56")])
#' tree <- gmhclust(x, threshold = 50)
#' population <- cut_populations(tree, k = 5, min_members = 20)
#'
#' named <- name_populations(population, c("CD4 T" = 1, "CD8 T" = 2))
#' levels(named)
#' plot_populations(tree, x, named, engine = "base")
#'
#' # The same name merges:
#' merged <- name_populations(named, c("T" = "CD4 T", "T" = "CD8 T"))
#' levels(merged)
#'
#' # The most frequent gate of each population:
#' gate <- with(cells, ifelse(CD3 < 50, "no T", ifelse(CD4 > CD8, "CD4 T", "CD8 T")))
#' of_gates <- table(factor(population, 1:5), gate)
#' by_gate <- name_populations(population, colnames(of_gates)[max.col(of_gates, "first")])
#' table(c("none", levels(by_gate))[by_gate + 1])
#' @export
name_populations <- function(populations, names) {
  call <- match.call()
  needs <- "it must be the value of cut_populations() or predict(), or a population model"
  if (missing(populations)) refuse_missing("populations", needs, call)
  if (missing(names)) {
    refuse_missing("names", "it must have new names of populations, as c(\"CD4 T\" = 1)", call)
  }
  if (inherits(populations, "population_model")) {
    model <- populations
    check_model_names(model, call)
    named <- new_names(model$levels, names, call)
    sizes <- sum_by(model$sizes, model$population, length(model$levels))
    return(renamed_model(model, merging_of(named, sizes, model$population)))
  }
  if (!inherits(populations, "populations")) {
    refuse("populations", paste("is", describe(populations)), needs, call)
  }
  of <- population_numbers(populations, "populations", call)
  check_parts(attributes(populations), length(of$names), call)
  merging <- merging_of(new_names(of$names, names, call), of$sizes, of$number)
  merged_populations(populations, of, merging)
}

# ---- the new names ------------------------------------------------------------------------------

# The names of all populations after the renaming by `names`; `before` has the current names.
new_names <- function(before, names, call) {
  k <- length(before)
  given <- if (is_all_names(names)) {
    if (length(names) != k) {
      refuse("names", paste("has length", length(names)),
             paste0("without names of its own it must name all ", k, " populations; or write ",
                    "c(\"new name\" = number)"), call)
    }
    list(number = seq_len(k), name = as.character(names))
  } else {
    mentioned(names, before, call)
  }
  check_encoding(given$name, "names", call)
  name <- enc2utf8(given$name)
  for (i in seq_along(name)) check_new_name(name[i], given$number[i], call)
  after <- before
  after[given$number] <- name
  after
}

# Whether `names` is an unnamed vector of names for all populations.
is_all_names <- function(names) {
  is.character(names) && is.null(dim(names)) && is.null(attr(names, "names"))
}

# The numbers of the populations in `names`, and their new names.
mentioned <- function(names, before, call) {
  needs <- paste("it must have population numbers, or their present names, each with its new name:",
                 "c(\"new name\" = 1), or a list of such vectors")
  is_plain <- function(part) {
    (is.numeric(part) || is.character(part)) && !is.object(part) && is.null(dim(part))
  }
  parts <- if (is.list(names) && !is.object(names)) names else list(names)
  if (length(names) == 0 || !all(vapply(parts, is_plain, NA))) {
    refuse("names", paste("is", describe(names)), needs, call)
  }
  name <- base::names(names)
  if (is.null(name)) refuse("names", "has no names", needs, call)
  if (is.list(names)) {
    empty <- which(lengths(parts) == 0)
    if (length(empty) > 0) {
      refuse("names", paste("has no population for", quoted(name[empty[1]])), needs, call)
    }
    name <- rep(name, lengths(parts))
  }
  number <- unlist(lapply(parts, population_of, before, call), use.names = FALSE)
  twice <- which(duplicated(number))
  if (length(twice) > 0) {
    refuse("names", paste("mentions population", quoted(before[number[twice[1]]]), "twice"),
           "each gets one name", call)
  }
  list(number = number, name = name)
}

# The numbers of populations that are given by number or by name.
population_of <- function(chosen, names, call) {
  k <- length(names)
  number <- match(chosen, if (is.character(chosen)) names else seq_len(k))
  bad <- which(is.na(number))
  if (length(bad) > 0) {
    value <- chosen[bad[1]]
    known <- quoted(utils::head(names, 40))
    if (k > 40) known <- c(known, "...")
    refuse("names", paste("has", if (is.na(value)) "NA" else shown_value(unname(value))),
           paste0("there are ", k, ngettext(k, " population: ", " populations: "),
                  paste(known, collapse = ", ")), call)
  }
  number
}

check_new_name <- function(name, number, call) {
  if (is.na(name)) refuse("names", "has the new name NA", "a name must be text", call)
  if (!nzchar(trimws(name))) {
    refuse("names", paste("has an empty new name for population", number), "name it", call)
  }
  if (name == "none") {
    refuse("names", "has the new name \"none\"", "this name stands for cells in no population",
           call)
  }
  if (grepl("^[0-9]+$", name) && name != as.character(number)) {
    refuse("names", paste0("has the new name ", quoted(name), " for population ", number),
           "populations without a name are called by their number, so no name is a number", call)
  }
}

# ---- merging ------------------------------------------------------------------------------------

# Merges populations of the same name, and renumbers by decreasing size. Returns a list: `to`, the
# new number of each population; and `levels`, the names by new number. `sizes` are the numbers of
# members. `number` has the population of each leaf: of two populations of equal size, the one with
# the first leaf comes first.
merging_of <- function(names, sizes, number) {
  groups <- unique(names)
  if (length(groups) == length(names)) return(list(to = seq_along(names), levels = names))
  group <- match(names, groups)
  size <- sum_by(sizes, group, length(groups))
  first <- match(seq_along(groups), c(NA, group)[number + 1L])
  to <- match(group, order(-size, first, seq_along(groups)))
  levels <- character(length(groups))
  levels[to] <- names
  # An unnamed population is called by its new number.
  is_number <- names == as.character(seq_along(names))
  levels[to[is_number]] <- as.character(to[is_number])
  list(to = to, levels = levels)
}

# The sums of `values` by their groups, numbers from 1 to count.
sum_by <- function(values, group, count) {
  sums <- rowsum(as.double(values), group, reorder = FALSE)
  all <- numeric(count)
  all[as.integer(rownames(sums))] <- sums
  all
}

# Stops unless the attributes that a merge changes are consistent, for k populations.
check_parts <- function(attributes, k, call) {
  clusters <- attributes$clusters
  roots <- attributes$roots
  separation <- attributes$separation
  is_sound <- (is.null(clusters) || is_population_numbers(clusters) && all(clusters <= k)) &&
    (is.null(roots) || length(roots) == k) &&
    (is.null(separation) || is_separation(separation, k) &&
       all(separation$nearest %in% c(NA, seq_len(k))))
  if (!is_sound) {
    refuse("populations", "has attributes that do not fit",
           "it must be the value of cut_populations() or predict()", call)
  }
  if (inherits(attributes$model, "population_model")) check_model_names(attributes$model, call)
}

merged_populations <- function(x, of, merging) {
  levels <- merging$levels
  k <- length(levels)
  attributes <- attributes(x)
  attributes$levels <- levels
  model <- attributes$model
  if (inherits(model, "population_model")) attributes$model <- renamed_model(model, merging)
  if (k < length(of$names)) {
    to <- merging$to
    # Strengths of membership are relative to populations that no longer exist.
    attributes$strength <- NULL
    x <- c(0L, to)[of$number + 1L]
    attributes$k <- k
    if (!is.null(attributes$sizes)) attributes$sizes <- sum_by(of$sizes, to, k)
    if (!is.null(attributes$roots)) {
      parts <- as.list(attributes$roots)
      attributes$roots <- unname(lapply(split(parts, factor(to, seq_len(k))), unlist))
    }
    if (!is.null(attributes$clusters)) attributes$clusters <- c(0L, to)[attributes$clusters + 1L]
    if (!is.null(attributes$separation)) {
      attributes$separation <- merged_separation(attributes$separation, to, k)
    }
  }
  attributes(x) <- attributes
  x
}

# The data frame `separation` after a merge to k populations; `to` has the new number of each
# population. The valley between a merged population and another one is unknown.
merged_separation <- function(separation, to, k) {
  is_merged <- tabulate(to, k) > 1
  old <- match(seq_len(k), to)
  nearest <- to[separation$nearest[old]]
  is_unknown <- is_merged | is.na(nearest) | is_merged[nearest]
  nearest[is_unknown] <- NA
  after <- separation[old, , drop = FALSE]
  after$population <- seq_len(k)
  after$nearest <- nearest
  after$valley[is_unknown] <- NA
  rownames(after) <- NULL
  after
}

renamed_model <- function(model, merging) {
  model$population <- merging$to[model$population]
  model$levels <- merging$levels
  model
}

check_model_names <- function(x, call) {
  levels <- x$levels
  population <- x$population
  is_sound <- is.list(x) && is_names(levels) && is.numeric(population) && !is.object(population) &&
    all(population %in% seq_along(levels)) && is.numeric(x$sizes) &&
    length(x$sizes) == length(population)
  if (!is_sound) {
    refuse("populations", "has components that do not fit",
           "it must be attribute `model` of the value of cut_populations()", call)
  }
}

# ---- populations of other functions -------------------------------------------------------------

needs_populations <- paste("it must be the value of cut_populations(), or population numbers from",
                           "1, 0 for none")

# Populations (of class `populations`, or whole numbers from 0) as a list: the `number` of the
# population of each leaf; the `names` of populations 1, 2, ...; and their `sizes`, in members.
population_numbers <- function(x, arg, call) {
  if (missing(x)) refuse_missing(arg, needs_populations, call)
  number <- plain_populations(x)
  if (!is_population_numbers(number)) {
    got <- if (is.numeric(number) && anyNA(number)) "has NA" else paste("is", describe(x))
    refuse(arg, got, needs_populations, call)
  }
  if (length(number) == 0) refuse(arg, "has length 0", needs_populations, call)
  k <- max(number)
  # Greater numbers are labels of another kind, such as ids of cells.
  if (k > max(length(number), most_numbers)) refuse(arg, paste("has", k), needs_populations, call)
  if (inherits(x, "populations") && is_single_number(attr(x, "k"))) k <- max(k, attr(x, "k"))
  names <- population_names(x, k, arg, call)
  k <- length(names)
  sizes <- attr(x, "sizes")
  is_sound <- is.numeric(sizes) && length(sizes) == k && !anyNA(sizes)
  if (!is_sound) sizes <- as.double(tabulate(number, k))
  list(number = as.integer(number), names = names, sizes = sizes)
}

# Maximum plausible number of a population. A greater number is an error, unless there are at least
# as many leaves.
most_numbers <- 1e4

is_population_numbers <- function(numbers) {
  is_whole(numbers) && is.null(dim(numbers)) && (length(numbers) == 0 || min(numbers) >= 0)
}

# The names of the k populations of x: attribute `levels` or, without it, their numbers.
population_names <- function(x, k, arg, call) {
  levels <- if (inherits(x, "populations")) attr(x, "levels", exact = TRUE)
  if (is.null(levels)) return(as.character(seq_len(k)))
  if (!is_names(levels) || length(levels) < k) {
    refuse(arg, "has an attribute `levels` that does not fit",
           paste("it must name all", k, "populations"), call)
  }
  levels
}

is_names <- function(levels) {
  is.character(levels) && !anyNA(levels) && anyDuplicated(levels) == 0
}
