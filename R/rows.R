# Matrices whose rows may not fit into memory: a matrix, or a DelayedMatrix, which is read in
# blocks.

is_delayed <- function(x) inherits(x, "DelayedMatrix")

# As as_finite_points(), but a DelayedMatrix is returned unchanged, and its values are not checked.
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

# The rows rows[1] to rows[2] as a double matrix.
read_rows <- function(x, rows) {
  x <- as.matrix(x[seq(rows[1], rows[2]), , drop = FALSE])
  storage.mode(x) <- "double"
  x
}

# Reduces x block by block, from the first row to the last: for each block of rows, a double matrix,
# `state` becomes visit(block, first, state), where `first` is the number of the block's first row.
# Returns the last state. A matrix in memory is one block; a DelayedMatrix has blocks of
# DelayedArray's automatic size.
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

# The packages that another process must load before it can read x.
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
