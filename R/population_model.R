#' Map new cells to populations
#'
#' Populations that [cut_populations()] found with `x` keep the mean, covariance and number of cells
#' of each population: a mixture of normal distributions. `predict()` maps the cells of other
#' samples to these populations. `population_model()` extracts the mixture, for example to save it
#' without the cells.
#'
#' @param populations An object of class `populations` from [cut_populations()] with `x`; or a
#'   model, which is returned unchanged.
#' @param object An object of class `populations`, or its model.
#' @param newdata The cells to map: any object that [observations()] takes, with any number of rows.
#'   If `newdata` and the data of the populations have column names, columns are matched by name:
#'   their order may differ, and additional columns are ignored. Otherwise columns are matched by
#'   number. Compensate and transform `newdata` like the data of the populations. Files, a function
#'   (see [observations()]) and a `DelayedMatrix` are read in blocks of rows.
#' @param type The result: the `"class"` of each cell; its Mahalanobis `"distance"` from every
#'   population; or the `"posterior"` probability of every population.
#' @param by For `type = "class"`: choose the population of least `"distance"`, or of greatest
#'   `"posterior"` probability. Of equally good populations, the first is chosen.
#' @param beyond For `type = "class"`: a cell is in no population if its squared distance from the
#'   chosen population exceeds this quantile of the chi-squared distribution, which is the
#'   distribution of these squared distances in a normal population. 0.999 leaves out one in a
#'   thousand of a normal population's own cells, and more cells of a population with heavier tails.
#'   1 leaves out no cell.
#' @param top `NULL`, or the number of best populations to report for each cell with `type =
#'   "distance"` and `"posterior"`. A small number saves memory if there are many populations.
#' @param threads The number of CPU threads, as in [gmhclust()].
#' @param progress Whether to show progress and the time left: `TRUE` for a bar, or for lines on the
#'   error output if that is no terminal, such as the log of a batch job; `"progressr"` for the
#'   handlers of package \pkg{progressr}.
#' @param ... For `predict()`, arguments of [observations()] for `newdata`.
#'
#' @section Definition:
#' The distance of a cell y from a population with mean c and covariance S is \eqn{\sqrt{(y - c)^T
#' S^{-1} (y - c)}}, the square root of [stats::mahalanobis()]. S has the divisor m - 1 for m
#' members, as in [stats::cov()]. The mean and covariance are estimated from the members before
#' `rest = "nearest"`, so without outliers. `predict(p, x)` by distance maps cells outside all
#' populations to the same population as `rest = "nearest"`. It may map a member of one population
#' to another population that is nearer.
#'
#' The posterior probability is computed for a mixture of normal distributions with these means and
#' covariances, weighted by the numbers of members, as in quadratic discriminant analysis. It
#' accounts for size and spread: a cell at equal distance from two populations more likely belongs
#' to the larger or the denser population.
#'
#' A population may have several components, for example after [name_populations()] merged two
#' populations. Its distance is the distance of the nearest component, and its posterior probability
#' is the sum over its components.
#'
#' @section Singular covariances:
#' Redundant columns (constant ones, and linear combinations of others) are left out, as in
#' [gmhclust()]. If the covariance of a population is singular nevertheless, for example because it
#' has no more members than columns, the pooled covariance within all populations replaces it, as in
#' linear discriminant analysis. If the pooled covariance is singular, too, all populations get the
#' same variance in every direction: the mean variance of columns within populations. Then distances
#' are Euclidean, in units of the square root of this variance. In both cases a message of class
#' `gmhclust_message_singular` says so. Whether a covariance is singular does not depend on the
#' scale of the columns.
#'
#' @section Time and memory:
#' The cells are read once, and not copied. The time is proportional to the number of cells, to the
#' number of populations and, beyond a few columns, to the square of the number of columns
#' (`inst/benchmarks/predict.R`). The result takes 4 bytes per cell for classes, and 8 bytes (12
#' with `top`) per cell and population otherwise. A GPU is not used, because copying the cells to it
#' would take longer.
#'
#' Results are the same, bit for bit, for any number of threads, on every processor, and for data
#' that are read in blocks. The size of a model, in memory and in a file of `saveRDS()`, does not
#' depend on the number of cells.
#'
#' @return `population_model()`: a list of class `population_model`:
#'   \describe{
#'     \item{`means`}{a matrix with a row for each component.}
#'     \item{`covariances`}{an array: variables x variables x components; `NULL` if all components
#'       have the same `variance` in every direction.}
#'     \item{`variance`}{the variance in every direction if `covariances` is `NULL`, else `NULL`.}
#'     \item{`sizes`}{the number of members of each component.}
#'     \item{`population`}{the number of the population of each component.}
#'     \item{`levels`}{the names of the populations.}
#'     \item{`columns`, `width`}{the names of all columns of the data, or `NULL`, and their number.}
#'     \item{`used`}{the numbers of the columns that were not redundant.}
#'     \item{`metric`}{`"mahalanobis"`, or `"euclidean"` if all covariances were singular.}
#'   }
#'
#'   `predict()` with `type = "class"`: an object of class `populations`, as [cut_populations()]
#'   returns, named by the row names of `newdata`; 0 means no population. With the other types: a
#'   matrix with a row for each cell and a column for each population; or, with `top`, a list of two
#'   matrices with a row for each cell and `top` columns, the best population first: `index`, the
#'   number of the population, and `value`, its distance or probability.
#'
#'   If a cell is so far from all populations that its squared distances overflow, it is in no
#'   population, and its posterior probabilities are `NaN`.
#' @section Errors:
#' A condition of class `gmhclust_error_input` if the populations were found without observations,
#' if `newdata` lacks a column or has values that are not finite, or if another argument is invalid.
#'
#' @seealso [cut_populations()]
#'
#' @examples
#' cells <- as.matrix(lymphocytes()[1:14])
#' some <- cells[seq(1, nrow(cells), by = 20), ]
#' found <- cut_populations(gmhclust(some, threshold = 50), k = 7, min_members = 20, x = some)
#'
#' # The populations of all cells, without those that are far from each:
#' all <- predict(found, cells, beyond = 0.999)
#' all
#'
#' # How sure that is:
#' posterior <- predict(found, cells, type = "posterior")
#' summary(apply(posterior, 1, max))
#'
#' # Elsewhere, by the model alone:
#' file <- tempfile(fileext = ".rds")
#' saveRDS(population_model(found), file)
#' predict(readRDS(file), cells[1:3, ], type = "distance", top = 2)
#' @export
population_model <- function(populations) {
  call <- match.call()
  if (missing(populations)) {
    refuse_missing("populations", "it must be the value of cut_populations()", call)
  }
  check_population_model(populations, "populations", call)
}

#' @rdname population_model
#' @importFrom stats predict
#' @export
predict.populations <- function(object,
                                newdata,
                                type = c("class", "distance", "posterior"),
                                by = c("distance", "posterior"),
                                beyond = 1,
                                top = NULL,
                                threads = getOption("gmhclust.threads"),
                                progress = getOption("gmhclust.progress", interactive()),
                                ...) {
  predict_populations(object, newdata, type, by, beyond, top, threads, progress, match.call(), ...)
}

#' @rdname population_model
#' @export
predict.population_model <- predict.populations

#' @export
print.population_model <- function(x, ...) {
  model <- check_population_model(x, "x", match.call())
  k <- length(model$levels)
  p <- length(model$used)
  cat("Model of ", k, ngettext(k, " population", " populations"), " by ", p,
      ngettext(p, " column", " columns"), if (model$metric == "euclidean") ", Euclidean", ":\n",
      sep = "")
  print(data.frame(
    members = shown_count(sum_by(model$sizes, model$population, k)),
    components = tabulate(model$population, k),
    row.names = make.unique(model$levels)
  ))
  if (!is.null(model$columns)) {
    cat(strwrap(paste("columns:", paste(shortened(model$columns[model$used]), collapse = ", "))),
        sep = "\n")
  }
  invisible(x)
}

# ---- the model ----------------------------------------------------------------------------------

# The model of the populations of the rows of x, 0 for none, estimated from the columns `used`.
# `levels` are the names of the populations.
fit_populations <- function(x, used, population, levels, call,
                            threads = session_option("threads")) {
  k <- length(levels)
  fitted <- run_job(
    job_fit_populations(job_data(x), used, as.integer(population), k,
                        check_threads(threads, call)),
    FALSE, "Estimating populations", call
  )
  inform_of_singular_populations(fitted, levels, call)
  names <- colnames(x)[used]
  means <- fitted$means
  if (!is.null(names)) colnames(means) <- names
  covariances <- fitted$covariances
  if (!is.null(covariances)) {
    dim(covariances) <- c(length(used), length(used), k)
    if (!is.null(names)) dimnames(covariances) <- list(names, names, NULL)
  }
  structure(
    class = "population_model",
    list(
      means = means, covariances = covariances, variance = fitted$variance, sizes = fitted$sizes,
      population = seq_len(k), levels = levels, columns = colnames(x), width = ncol(x),
      used = used, metric = if (is.null(covariances)) "euclidean" else "mahalanobis"
    )
  )
}

# Maximum number of population names in a message.
most_named <- 10L

inform_of_singular_populations <- function(fitted, levels, call) {
  singular <- levels[fitted$singular]
  if (length(singular) == 0) return(invisible())
  several <- length(singular) > 1
  if (length(singular) > most_named) {
    singular <- c(singular[seq_len(most_named)], paste(length(singular) - most_named, "more"))
  }
  inform_user(
    "singular",
    paste0(
      if (several) "the covariances of populations " else "the covariance of population ",
      paste(singular, collapse = ", "), if (several) " are singular" else " is singular",
      if (is.null(fitted$covariances)) {
        paste0(", and so is the pooled covariance within populations: distances from all ",
               "populations are Euclidean distances from their means")
      } else {
        paste0(", so ", if (several) "these have" else "it has",
               " the pooled covariance within all populations")
      }
    ),
    call
  )
}

# The checked model of `x`, which is populations or a model.
check_population_model <- function(x, arg, call) {
  if (inherits(x, "population_model")) {
    model <- x
  } else if (inherits(x, "populations")) {
    model <- attr(x, "model", exact = TRUE)
    if (is.null(model)) {
      refuse(arg, "was found without observations, so it has no means and covariances",
             "give them to cut_populations() as `x`", call)
    }
    # The populations may have been renamed since the model was made.
    if (is.list(model)) model$levels <- attr(x, "levels", exact = TRUE)
  } else {
    refuse(arg, paste("is", describe(x)),
           "it must be the value of cut_populations() or population_model()", call)
  }
  problem <- population_model_problem(model)
  if (!is.null(problem)) {
    refuse(arg, paste("has an invalid population model:", problem),
           "it must be the value of population_model()", call)
  }
  model
}

# The reason why a model cannot be used; NULL if it can.
population_model_problem <- function(model) {
  is_plain <- function(x, type) typeof(x) == type && !is.object(x)
  if (!is.list(model)) return("it is not a list")
  model <- unclass(model)
  means <- model$means
  covariances <- model$covariances
  k <- length(model$levels)
  if (!is_plain(model$levels, "character") || k == 0) return("`levels` are not names")
  if (!is_plain(means, "double") || !is.matrix(means) || length(means) == 0) {
    return("`means` is not a numeric matrix")
  }
  if (!is_plain(model$sizes, "double") || length(model$sizes) != nrow(means)) {
    return("`sizes` does not have a number for each row of `means`")
  }
  population <- model$population
  if (!is_plain(population, "integer") || length(population) != nrow(means) ||
        !setequal(population, seq_len(k))) {
    return("`population` does not have the numbers of the populations")
  }
  if (!is_single_number(model$width) || is.object(model$width) || model$width < 1 ||
        !is_plain(model$used, "integer") || length(model$used) != ncol(means) ||
        !all(model$used %in% seq_len(model$width))) {
    return("`used` does not have a column number for each column of `means`")
  }
  if (!is.null(model$columns) &&
        (!is_plain(model$columns, "character") || length(model$columns) != model$width)) {
    return("`columns` does not have a name for each column")
  }
  size <- c(ncol(means), ncol(means), nrow(means))
  is_array <- is_plain(covariances, "double") && identical(dim(covariances), size)
  is_variance <- is.null(covariances) && is_plain(model$variance, "double") &&
    is_single_number(model$variance)
  if (!is_array && !is_variance) return("`covariances` does not fit `means`")
  if (!identical(model$metric, if (is_array) "mahalanobis" else "euclidean")) {
    return("`metric` does not fit `covariances`")
  }
  NULL
}

# ---- mapping ------------------------------------------------------------------------------------

predict_populations <- function(object, newdata, type, by, beyond, top, threads, progress, call,
                                ...) {
  model <- check_population_model(object, "object", call)
  if (missing(newdata)) {
    refuse("newdata", "is missing", "it needs the cells to map, with observations in rows", call)
  }
  wanted <- check_wanted(type, by, beyond, top, model, call)
  threads <- check_threads(threads, call)
  progress <- check_progress(progress, call)
  x <- as_unchecked_rows(without_other_columns(newdata, model), "newdata", call, ...)
  at <- columns_of_model(x, model, "newdata", call)
  search <- list(model = model_for_job(model), wanted = wanted, threads = threads, call = call)
  found <- if (is_in_blocks(x) && nrow(x) > 0) {
    assign_in_blocks(x, at, search, progress, call)
  } else {
    values <- with_threads(threads, read_all(x, "newdata", call))
    assign_block(values, at, search, progress, 0L)
  }
  cells <- rownames(x)
  if (wanted$type == "class") return(new_predicted(found$index, cells, model))
  populations <- if (wanted$top == 0) model$levels
  as_columns <- function(values) {
    columns <- if (wanted$top == 0) length(model$levels) else wanted$top
    with_attributes(
      values,
      c(list(dim = c(nrow(x), columns)),
        if (!is.null(cells) || !is.null(populations)) {
          list(dimnames = list(cells, populations))
        }),
      call
    )
  }
  if (wanted$top == 0) return(as_columns(found$value))
  list(index = as_columns(found$index), value = as_columns(found$value))
}

# The checked arguments of predict(), for job_assign_populations().
check_wanted <- function(type, by, beyond, top, model, call) {
  type <- check_choice(type, c("class", "distance", "posterior"), "type", call)
  by <- check_choice(by, c("distance", "posterior"), "by", call)
  if (!is_single_number(beyond) || beyond <= 0 || beyond > 1) {
    needs <- "it must be a quantile: a number above 0 and at most 1"
    refuse("beyond", paste("is", describe(beyond)), needs, call)
  }
  if (type != "class" && beyond < 1) {
    refuse("beyond", paste("is", format(beyond), "with type", dQuote(type, FALSE)),
           "only classes depend on it", call)
  }
  if (!is.null(top)) {
    if (type == "class") {
      refuse("top", paste("is", describe(top), "with type \"class\""),
             "it needs type \"distance\" or \"posterior\"", call)
    }
    top <- check_count(top, length(model$levels), "top", call)
  }
  # qchisq(1, ) is infinite.
  limit <- stats::qchisq(as.double(beyond), ncol(model$means))
  list(type = type, by = by, limit = limit, top = if (is.null(top)) 0L else top)
}

# The components of a model in the order of their populations.
model_for_job <- function(model) {
  order <- order(model$population)
  covariances <- model$covariances
  if (is.unsorted(order)) covariances <- covariances[, , order, drop = FALSE]
  list(
    means = model$means[order, , drop = FALSE], covariances = covariances,
    variance = model$variance, sizes = model$sizes[order],
    ends = cumsum(tabulate(model$population, length(model$levels)))
  )
}

# The names of the columns that mapping needs; NULL if columns cannot be matched by name.
needed_names <- function(model) {
  needed <- model$columns[model$used]
  is_unique <- !anyNA(needed) && all(nzchar(needed)) && anyDuplicated(needed) == 0
  if (is_unique) needed
}

# A data frame without its columns that mapping does not need, which need not be numeric. Anything
# else unchanged, and a data frame that lacks a column.
without_other_columns <- function(x, model) {
  needed <- needed_names(model)
  if (!is.data.frame(x) || is.null(needed) || !all(needed %in% names(x))) return(x)
  # A method of `[` for another class may choose rows.
  columns <- unclass(x)[names(x) %in% needed]
  structure(columns, row.names = .row_names_info(x, 0L), class = class(x))
}

# The number of the column of x for each column of the model.
columns_of_model <- function(x, model, arg, call) {
  needed <- needed_names(model)
  given <- colnames(x)
  if (is.null(given) || is.null(needed)) {
    if (ncol(x) != model$width) {
      got <- paste("has", ncol(x), ngettext(ncol(x), "column", "columns"))
      needs <- paste0("the populations were found in ", model$width,
                      ", and columns cannot be matched by name")
      refuse(arg, got, needs, call)
    }
    check_column_order(given, model$columns, arg, call, "the populations' observations")
    return(model$used)
  }
  missing <- setdiff(needed, given)
  if (length(missing) > 0) {
    got <- paste0("lacks ", ngettext(length(missing), "column ", "columns "), listed(missing))
    refuse(arg, got, "it needs all columns by which the populations were found", call)
  }
  twice <- intersect(needed, given[duplicated(given)])
  if (length(twice) > 0) {
    refuse(arg, paste("has several columns", quoted(twice[1])), "columns are matched by name", call)
  }
  match(needed, given)
}

# Maps the rows of a matrix in memory, a block of the data that begins after `rows_before` rows.
# Returns a list of `index` and `value`, see job_assign_populations().
assign_block <- function(x, at, search, progress, rows_before) {
  job <- job_assign_populations(x, at, search$model, search$wanted, search$threads)
  found <- run_job(job, progress, mapping, search$call)
  if (!found$finite) {
    # The error names the column by its number in the whole matrix, so the other columns stay, as
    # zeros.
    x[, setdiff(seq_len(ncol(x)), at)] <- 0
    check_finite(x, "newdata", search$call, rows_before)
  }
  found
}

mapping <- "Mapping cells"

# As assign_block(), for at least one row that is read in blocks.
assign_in_blocks <- function(x, at, search, progress, call) {
  n <- nrow(x)
  if (is_delayed(x) && !is.null(colnames(x))) {
    x <- x[, at, drop = FALSE]
    at <- seq_along(at)
  }
  top <- search$wanted$top
  columns <- if (search$wanted$type == "class") {
    c(1, 0)
  } else if (top > 0) {
    c(top, top)
  } else {
    c(0, length(search$model$ends))
  }
  check_memory("the populations of all observations need", n * sum(c(4, 8) * columns), call)
  index <- matrix(0L, n, columns[1])
  value <- matrix(0, n, columns[2])
  display <- joint_progress(n, mapping, progress, list(total = n, name = "rows"))
  on.exit(display$close())
  with_threads(search$threads, reduce_row_blocks(x, function(block, first, state) {
    count <- nrow(block)
    found <- assign_block(block, at, search, display$step(count), first - 1L)
    display$done(count)
    rows <- seq.int(first, length.out = count)
    if (columns[1] > 0) index[rows, ] <<- found$index
    if (columns[2] > 0) value[rows, ] <<- found$value
  }, NULL))
  list(index = as.vector(index), value = as.vector(value))
}

# Populations of new cells, without the attributes of cut_populations() that describe a tree.
new_predicted <- function(population, cells, model) {
  new_populations(population, rep(1L, length(population)), model$levels, nearest = FALSE,
                  model = model, names = cells)
}

# `population` with the nearest populations of the model in place of 0. The model was estimated from
# the rows of x.
with_nearest <- function(x, population, model, call, threads = session_option("threads")) {
  loose <- which(population == 0L)
  if (length(loose) == 0) return(population)
  check_memory("the cells in no population need", 8 * length(loose) * ncol(x), call)
  wanted <- check_wanted("class", "distance", 1, NULL, model, call)
  search <- list(model = model_for_job(model), wanted = wanted,
                 threads = check_threads(threads, call), call = call)
  found <- assign_block(x[loose, , drop = FALSE], model$used, search, FALSE, 0L)
  population[loose] <- found$index
  population
}
