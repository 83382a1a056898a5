# Rows of numbers that may not be in memory: a matrix, or a DelayedMatrix, which is read in blocks.

is_delayed <- function(x) inherits(x, "DelayedMatrix")

# As as_finite_points(), but a DelayedMatrix stays one, and its values are not looked at.
as_rows <- function(x, arg, call) {
  if (!is_delayed(x)) return(as_finite_points(x, arg, call))
  need_package("DelayedArray", call)
  type <- DelayedArray::type(x)
  if (!type %in% c("double", "integer", "logical")) {
    refuse(arg, paste("is", describe(x), "of type", type), needs_observations, call)
  }
  check_not_empty(x, arg, call)
  x
}

# As as_rows(), for rows to be compared with those of x.
as_other_rows <- function(y, x, arg, call) {
  y <- if (is_delayed(y)) as_rows(y, arg, call) else as_points(y, arg, call)
  check_same_columns(y, x, arg, call)
  check_not_empty(y, arg, call)
  if (!is_delayed(y)) check_finite(y, arg, call)
  y
}

# Some consecutive rows, from the first to the last number, as a double matrix.
read_rows <- function(x, rows) {
  x <- as.matrix(x[seq(rows[1], rows[2]), , drop = FALSE])
  storage.mode(x) <- "double"
  x
}

# Passes the rows of x by as double matrices: one where they are in memory, and otherwise blocks of
# DelayedArray's automatic size, from the first to the last. For each, `state` becomes
# visit(block, first, state), where `first` is the number of its first row. Returns the last state.
reduce_row_blocks <- function(x, visit, state) {
  if (!is_delayed(x)) return(visit(x, 1L, state))
  first <- 1L
  visit_next <- function(block, state) {
    storage.mode(block) <- "double"
    state <- visit(block, first, state)
    first <<- first + nrow(block)
    state
  }
  DelayedArray::blockReduce(visit_next, x, state, grid = DelayedArray::rowAutoGrid(x))
}

# The packages that know how to read x, which another process has to load first.
packages_of_rows <- function(x) {
  if (!is_delayed(x)) return(character(0))
  package_of <- function(object) attr(class(object), "package")
  packages <- c(package_of(x), unlist(DelayedArray::seedApply(x, package_of)))
  setdiff(packages, ".GlobalEnv")
}

need_package <- function(package, call) {
  if (!requireNamespace(package, quietly = TRUE)) {
    message <- paste0("this needs package ", package, "; BiocManager::install(\"", package, "\")")
    stop(gmhclust_error_input(message, call))
  }
}
