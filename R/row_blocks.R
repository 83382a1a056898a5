# Observations in blocks of rows that are read when a function needs them: class "row_blocks".

#' Observations read in blocks
#'
#' The value of [observations()] for names of files, a `cytoset`, a function, or a `flowSet` with
#' `in_blocks = TRUE`. It has rows and columns, but holds no values: [gkmeans()], [gmhclust()],
#' [cut_populations()], [stability()], [gknn()] and `predict()` read it in blocks of rows, so the
#' values need not fit in memory. The other functions read all values at once.
#'
#' `x[i, j]` reads rows and columns as a matrix, and `as.matrix(x)` all of them. For a `cytoset` or
#' `flowSet`, the value of `as.matrix(x)` has the attribute `sample`, which `x[i, j]` has not.
#'
#' @param x The value of [observations()] for files, a `cytoset`, a function, or a `flowSet` with
#'   `in_blocks = TRUE`.
#' @param ... Not used.
#' @return `as.matrix()`: a double matrix. `print()`: `x`, invisibly.
#' @seealso [observations()]; [count_populations()] takes it as `samples`, for counts in each file
#'   or sample.
#' @examples
#' # 10,000 rows that a function computes when they are needed:
#' x <- observations(function(first, last) cbind(a = sin(first:last), b = cos(first:last)),
#'                   rows = 10000)
#' x
#' x[1:3, ]
#' fit <- gkmeans(x, 5)
#' fit$size
#' @name row_blocks
NULL

# `read` is a function of the numbers of the first and the last row, within one part; it gives a
# double matrix. `parts` is a data frame with the `name` and the number of `rows` of each part, such
# as a file; `columns` are the names of the columns, NULL for none; `what` names the parts.
# `width` is the number of values of a row that read() holds at a time.
new_row_blocks <- function(read, parts, columns, count, what, width = count) {
  structure(list(read = read, parts = parts, columns = columns, count = count, what = what,
                 width = width), class = "row_blocks")
}

#' @rdname observations
#' @export
observations.row_blocks <- function(x, ...) { # nolint: object_name_linter. The class's name.
  check_no_more(x, ..., call = sys.call())
  x
}

is_row_blocks <- function(x) inherits(x, "row_blocks")

#' @export
dim.row_blocks <- function(x) as_size(c(sum(x$parts$rows), x$count))

# Counts as integers, if they fit, as dim() has them.
as_size <- function(counts) if (all(counts <= .Machine$integer.max)) as.integer(counts) else counts

#' @export
dimnames.row_blocks <- function(x) if (!is.null(x$columns)) list(NULL, x$columns)

#' @rdname row_blocks
#' @export
as.matrix.row_blocks <- function(x, ...) read_all(x, "x", match.call())

#' @export
`[.row_blocks` <- function(x, i, j, drop = TRUE) {
  if (nargs() - (!missing(drop)) < 3) {
    refuse("x", "is read by one index", "give rows and columns, as in x[1:10, ]", sys.call())
  }
  rows <- if (missing(i)) seq_len(nrow(x)) else checked_index(i, nrow(x))
  columns <- if (missing(j)) {
    seq_len(ncol(x))
  } else if (is.character(j)) {
    match(j, x$columns)
  } else {
    seq_len(ncol(x))[j]
  }
  if (anyNA(columns)) {
    got <- if (is.character(j)) {
      paste("has no column", quoted(j[is.na(columns)][1]))
    } else {
      "lacks some of these columns"
    }
    refuse("x", got, paste("it has", x$count, "columns, see colnames()"), sys.call())
  }
  check_memory("the values need", 8 * length(rows) * length(columns), sys.call())
  names <- if (!is.null(x$columns)) list(NULL, x$columns[columns])
  values <- matrix(0, length(rows), length(columns), dimnames = names)
  for (places in split(seq_along(rows), findInterval(rows, block_starts(x)))) {
    here <- rows[places]
    first <- min(here)
    block <- x$read(first, max(here))
    values[places, ] <- block[here - first + 1, columns]
  }
  if (drop) drop(values) else values
}

# Row numbers from R's index `i`, of any kind.
checked_index <- function(i, n) {
  rows <- if (is.numeric(i) && isTRUE(all(i >= 1))) trunc(i) else seq_len(n)[i]
  bad <- which(is.na(rows) | rows > n)
  if (length(bad) > 0) {
    is_name <- is.character(i)
    row <- if (is_name) quoted(i[bad[1]]) else format(rows[bad[1]])
    needs <- paste0("it has ", shown_count(n), " rows", if (is_name) " without names")
    refuse("x", paste("has no row", row), needs, sys.call(-1))
  }
  as.numeric(rows)
}

block_starts <- function(x) vapply(blocks_of(x, block_values()), `[`, 0, 1)

#' @export
t.row_blocks <- function(x) t(x[, , drop = FALSE])

#' @rdname row_blocks
#' @export
print.row_blocks <- function(x, ...) {
  parts <- x$parts
  cat(shown_count(nrow(x)), " observations in ", x$count, ngettext(x$count, " column", " columns"),
      ", read in blocks", if (!is.null(x$what)) paste0(" from ", shown_count(nrow(parts)), " ",
      ngettext(nrow(parts), x$what[1], x$what[2])), "\n", sep = "")
  if (!is.null(x$columns)) {
    cat(strwrap(paste("columns:", paste(shortened(x$columns), collapse = ", "))), sep = "\n")
  }
  if (!is.null(x$what)) {
    shown <- utils::head(parts, 10)
    cat(paste0("  ", format(shortened(shown$name)), "  ",
               format(shown_count(shown$rows), justify = "right")), sep = "\n")
    if (nrow(parts) > 10) cat("  and", shown_count(nrow(parts) - 10), "more\n")
  }
  invisible(x)
}

# Maximum number of values in a block, 100 MB as in DelayedArray; a test takes less.
block_values <- function() getOption("gmhclust.block_values", 12.5e6)

rows_at_a_time <- function(x, values) max(1, floor(values / x$width))

# The first and last rows of all blocks of x. A block is within one part, for example a file.
blocks_of <- function(x, values) {
  at_a_time <- rows_at_a_time(x, values)
  before <- c(0, cumsum(as.numeric(x$parts$rows)))
  blocks <- lapply(which(x$parts$rows > 0), function(part) {
    first <- seq(before[part] + 1, before[part + 1], by = at_a_time)
    Map(c, first, pmin(first + at_a_time - 1, before[part + 1]))
  })
  unlist(blocks, recursive = FALSE)
}

# A function that reads rows by the user's function `read`, and checks what it gives.
checked_reader <- function(read, columns, count) {
  force(read)
  function(first, last) {
    block <- naming_argument("x", read(first, last))
    if (!is.matrix(block) || !is_numeric_type(block)) {
      refuse("x", paste("gave", describe(block)), "it must give a numeric matrix", NULL)
    }
    if (nrow(block) != last - first + 1 || ncol(block) != count) {
      got <- paste0("gave ", nrow(block), " x ", ncol(block), " values for rows ",
                    format_number(first), " to ", format_number(last))
      needs <- paste0("it must give ", format_number(last - first + 1), " x ", count)
      refuse("x", got, needs, NULL)
    }
    names <- colnames(block)
    if (!is.null(names) && !is.null(columns) && !identical(names, columns)) {
      other <- which(names != columns)[1]
      got <- paste0("gave ", quoted(names[other]), " as column ", other, " of rows ",
                    format_number(first), " to ", format_number(last))
      refuse("x", got, paste("its first row has", quoted(columns[other]), "there"), NULL)
    }
    # A plain matrix, without attributes of the user's.
    matrix(as.double(block), nrow(block), dimnames = if (!is.null(columns)) list(NULL, columns))
  }
}

#' @rdname observations
#' @param rows For a function: the number of observations.
#' @export
observations.function <- function(x, rows, ...) { # nolint: object_name_linter. The class's name.
  call <- sys.call()
  check_no_more(x, ..., call = call)
  if (missing(rows)) {
    needs <- paste0(needs_observations, "; a function of a first and a last row that gives these ",
                    "rows needs `rows`, their number")
    refuse("x", "is a function", needs, call)
  }
  rows <- check_count_of_rows(rows, call)
  begin <- tryCatch(x(1, 1), error = function(e) {
    refuse("x", paste("failed for row 1:", conditionMessage(e)), "it must give a matrix", call)
  })
  if (!is.matrix(begin) || !is_numeric_type(begin) || nrow(begin) != 1 || ncol(begin) == 0) {
    refuse("x", paste("gave", describe(begin), "for row 1"),
           "it must give a numeric matrix of the rows from its first to its second argument", call)
  }
  columns <- colnames(begin)
  read <- checked_reader(x, columns, ncol(begin))
  new_row_blocks(read, data.frame(name = "x", rows = rows), columns, ncol(begin), NULL)
}

check_count_of_rows <- function(rows, call) {
  if (!is_single_number(rows) || rows != round(rows) || rows < 1 || rows > 2^53) {
    refuse("rows", paste("is", describe(rows)), "it must be a whole number of at least 1", call)
  }
  as.double(rows)
}

# The part, for example the file, of each row: a factor.
parts_of_rows <- function(x) {
  check_memory("the sample of each observation needs", 4 * nrow(x), NULL)
  sample_of_rows(x$parts$name, x$parts$rows)
}
