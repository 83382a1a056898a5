# Matrices whose rows may not fit into memory: a matrix; or a DelayedMatrix, a sparse matrix, files
# or a function (class "row_blocks"), which are read in blocks.

is_delayed <- function(x) inherits(x, "DelayedMatrix")

is_in_blocks <- function(x) is_delayed(x) || is_row_blocks(x)

# The observations of `x`, with at least one row and one column. Data that are read in blocks are
# returned unread and unchecked; other data are checked to be finite.
as_rows <- function(x, arg, call, ...) {
  check_rows_of(as_unchecked_rows(x, arg, call, ...), arg, call)
}

# Like as_rows(), for rows that are compared with the rows of x.
as_other_rows <- function(y, x, arg, call, ...) {
  if (is_number_vector(y)) y <- as.matrix(unclass(y))
  y <- as_unchecked_rows(y, arg, call, ...)
  check_same_columns(y, x, arg, call)
  check_rows_of(y, arg, call)
}

# A sparse matrix becomes a DelayedMatrix; without package DelayedArray it is read at once.
as_unchecked_rows <- function(x, arg, call, ...) {
  x <- as_data(x, arg, call, ...)
  if (is_sparse(x) && requireNamespace("DelayedArray", quietly = TRUE)) {
    x <- DelayedArray::DelayedArray(x)
  }
  if (is_in_blocks(x)) x else read_all(x, arg, call)
}

check_rows_of <- function(x, arg, call) {
  check_not_empty(x, arg, call)
  check_row_count(x, arg, call)
  if (!is_in_blocks(x)) check_finite(x, arg, call)
  x
}

# The rows rows[1] to rows[2] as a double matrix.
read_rows <- function(x, rows) {
  if (is_row_blocks(x)) return(x[seq(rows[1], rows[2]), , drop = FALSE])
  x <- as.matrix(x[seq(rows[1], rows[2]), , drop = FALSE])
  storage.mode(x) <- "double"
  x
}

# Reduces x block by block, from the first row to the last: for each block of rows, a double matrix,
# `state` becomes visit(block, first, state), where `first` is the number of the block's first row.
# Returns the last state. A matrix in memory is one block; other blocks have at most `values`
# values, if given, and those of a DelayedMatrix at most DelayedArray's automatic size.
reduce_row_blocks <- function(x, visit, state, values = Inf) {
  if (is_row_blocks(x)) {
    for (rows in blocks_of(x, min(values, block_values()))) {
      state <- visit(x$read(rows[1], rows[2]), as_size(rows[1]), state)
    }
    return(state)
  }
  if (!is_delayed(x)) return(visit(x, 1L, state))
  first <- 1L
  visit_next <- function(block, state) {
    storage.mode(block) <- "double"
    state <- visit(block, first, state)
    first <<- first + nrow(block)
    state
  }
  DelayedArray::blockReduce(visit_next, x, state, grid = row_grid(x, values))
}

# The number of rows of a block of x, which fits in memory.
rows_per_block <- function(x) {
  if (is_row_blocks(x)) {
    rows_at_a_time(x, block_values())
  } else {
    nrow(DelayedArray::rowAutoGrid(x)[[1L]])
  }
}

# The blocks of a DelayedMatrix, see reduce_row_blocks().
row_grid <- function(x, values) {
  grid <- DelayedArray::rowAutoGrid(x)
  rows <- max(1, floor(values / ncol(x)))
  if (nrow(grid[[1L]]) <= rows) grid else DelayedArray::rowAutoGrid(x, nrow = rows)
}

# The packages that another process must load before it can read x.
packages_of_rows <- function(x) {
  if (!is_delayed(x)) return(character(0))
  package_of <- function(object) attr(class(object), "package")
  packages <- c(package_of(x), unlist(DelayedArray::seedApply(x, package_of)))
  setdiff(packages, ".GlobalEnv")
}

# Stops if a package is not installed; the error has the call that installs it, from Bioconductor
# unless `install` names another function.
need_package <- function(package, call, install = "BiocManager::install") {
  if (!requireNamespace(package, quietly = TRUE)) {
    message <- paste0("this needs package ", package, "; ", install, "(\"", package, "\")")
    stop(gmhclust_error_input(message, call))
  }
}
