# Columns that would silently spoil a clustering: columns that make every covariance singular, and
# columns whose values are too close together or too far from 0 for double precision.

# Number of rows in the sample in which redundant columns are searched; with many columns, the
# sample is larger (4 rows per column).
sampled_rows <- 1000L

# A column is redundant if a linear combination of other columns predicts it to within this share of
# its spread. It is above the rounding error of sums in single precision, some 1e-7, because many
# files store values in single precision.
dependence_tolerance <- 1e-6

# The redundant columns of x: a list of their numbers, `columns`, and of whether each is `constant`;
# columns that are not constant are linear combinations of columns that stay. A few rows may be
# exceptions: one in a hundred (one of 20 to 99 rows), but fewer than 2 p, which define no
# covariance. The result does not depend on the scale of columns.
#
# The time for data without such columns does not depend on the number of rows: a sample of full
# rank proves that the data have full rank. A column that looks redundant in a part of the sample is
# checked on all rows.
redundant_columns <- function(x) {
  n <- nrow(x)
  p <- ncol(x)
  none <- list(columns = integer(0), constant = logical(0))
  # With n <= p rows, every covariance is singular.
  if (p < 2 || n <= p) return(none)
  exceptions <- if (n < 20) 0 else min(max(1, n %/% 100), 2 * p - 1)
  rows <- unique(round(seq(1, n, length.out = min(n, max(sampled_rows, 4 * p)))))
  sample <- scaled_sample(x[rows, , drop = FALSE])
  # Values so far apart that their differences overflow are refused later.
  if (!all(is.finite(sample$values))) return(none)
  # A few exceptional rows hide a relation in the whole sample, but not in a part of the sample
  # without them. So each part is searched.
  parts <- max(1, min(8, length(rows) %/% (2 * p + 2)))
  is_left <- rep(TRUE, p)
  is_constant <- logical(p)
  for (part in seq_len(parts)) {
    left <- which(is_left)
    inside <- seq(part, length(rows), by = parts)
    for (found in dependent_columns(sample$values[inside, left, drop = FALSE])) {
      weights <- numeric(p)
      weights[left] <- found$weights
      column <- left[found$column]
      if (is_relation(x, weights, column, sample, exceptions)) {
        is_left[column] <- FALSE
        is_constant[column] <- sum(weights != 0) == 1
      }
    }
  }
  if (!any(is_left)) return(none)
  list(columns = which(!is_left), constant = is_constant[!is_left])
}

# The numbers of the columns of x that are not redundant.
used_columns <- function(x) setdiff(seq_len(ncol(x)), redundant_columns(x)$columns)

# The `values` of a sample, less the `centre` of each column and divided by its `unit`, so that the
# greatest magnitude in a column is 1.
scaled_sample <- function(values) {
  centre <- values[1, ]
  values <- values - rep(centre, each = nrow(values))
  unit <- pmax(apply(values, 2, max), -apply(values, 2, min))
  unit[unit == 0] <- 1
  values <- values / rep(unit, each = nrow(values))
  list(values = values, centre = unname(centre), unit = unname(unit))
}

# The columns that depend linearly on others in all rows of `values`. For each of them, a list: its
# number, `column`; and the `weights` with which the columns add up to a constant, 1 for the column
# itself.
dependent_columns <- function(values) {
  values <- values - rep(colMeans(values), each = nrow(values))
  # LINPACK's QR, because its tolerance is a share of each column's own norm, and because it moves
  # dependent columns to the end.
  factors <- qr(values, tol = dependence_tolerance)
  rank <- factors$rank
  if (rank == ncol(values)) return(list())
  triangle <- qr.R(factors)[seq_len(rank), , drop = FALSE]
  lapply(seq.int(rank + 1, ncol(values)), function(j) {
    weights <- numeric(ncol(values))
    if (rank > 0) {
      weights[factors$pivot[seq_len(rank)]] <-
        -backsolve(triangle[, seq_len(rank), drop = FALSE], triangle[, j])
    }
    # Weights of 0, up to rounding.
    weights[abs(weights) < dependence_tolerance] <- 0
    weights[factors$pivot[j]] <- 1
    list(column = factors$pivot[j], weights = weights)
  })
}

# Whether the weighted sum of columns is constant in all rows of x, except for at most `exceptions`
# rows. `weights` are in units of the sample, 1 for `column`.
is_relation <- function(x, weights, column, sample, exceptions) {
  used <- which(weights != 0)
  rounding <- 16 * .Machine$double.eps * sum(abs(weights) * (abs(sample$centre) / sample$unit + 1))
  # The range of the middle four fifths, which a few far values do not change.
  spread <- diff(stats::quantile(sample$values[, column], c(0.1, 0.9), names = FALSE))
  tolerance <- dependence_tolerance * spread + rounding
  # The sample decides most cases, without a look at all rows.
  sums <- drop(sample$values[, used, drop = FALSE] %*% weights[used])
  level <- stats::median(sums)
  is_rejected <- function(sums) {
    is_near <- abs(sums - level) <= tolerance
    # A sum that overflows is NaN.
    sum(is.na(is_near) | !is_near) > exceptions
  }
  if (is_rejected(sums)) return(FALSE)
  sums <- 0
  for (j in used) {
    sums <- sums + (weights[j] / sample$unit[j]) * (x[, j] - sample$centre[j])
  }
  !is_rejected(sums)
}

redundant_choices <- c("drop", "keep")

# A list: `x` without its redundant columns, and `left_out`, their names. A message names them, too.
drop_redundant <- function(x, arg, call) {
  found <- redundant_columns(x)
  if (length(found$columns) == 0) return(list(x = x))
  left_out <- as.character(column_names(x, found$columns, quote = FALSE))
  inform_user(
    "redundant",
    paste0(redundant_text(x, found, arg), "left out, because with ",
           ngettext(length(left_out), "it", "them"), " every covariance is singular; ",
           "redundant = \"keep\" keeps ", ngettext(length(left_out), "it", "them")),
    call
  )
  list(x = without_columns(x, found$columns), left_out = left_out)
}

# Gives the message about redundant columns, which mhclust() keeps, as mhca does.
inform_of_redundant <- function(x, arg, call) {
  found <- redundant_columns(x)
  if (length(found$columns) == 0) return(invisible())
  inform_user(
    "redundant",
    paste0(redundant_text(x, found, arg), "kept, as in mhca: every covariance is singular, and ",
           "every metric Euclidean; gmhclust() leaves such columns out"),
    call
  )
}

redundant_text <- function(x, found, arg) {
  several <- length(found$columns) > 1
  why <- ifelse(found$constant, " (constant)", " (depends on other columns)")
  names <- paste0(column_names(x, found$columns), why)
  if (length(names) > 10) names <- c(names[1:10], paste(length(names) - 10, "more"))
  paste0("`", arg, "`: ", if (several) "columns " else "column ", paste(names, collapse = ", "),
         if (several) " were " else " was ")
}

# Gives a message with the number of merges to full-size clusters with a singular covariance, if
# their share is relevant.
inform_of_singular <- function(settings, call) {
  singular <- settings$singular
  if (singular == 0 || singular < relevant_share * settings$full_size) return(invisible())
  inform_user(
    "singular",
    paste0(
      "the covariance of the cluster was singular in ", shown_count(singular), " of the ",
      shown_count(settings$full_size), " merges to clusters of at least ",
      shown_count(settings$threshold), " members, so these clusters have the Euclidean metric. ",
      "The reason may be many equal values, or a threshold that does not exceed the number of ",
      "columns (`warn = FALSE` turns this message off)"
    ),
    call
  )
}

# Minimum share of singular covariances for a message: a few are normal for rounded values.
relevant_share <- 0.01

# ---- the range of double precision --------------------------------------------------------------

# Minimum range of a column. Squares of numbers below 1e-154 lose digits, and distances between
# points are some orders of magnitude smaller than the range of a column.
least_spread <- 1e-120

# x, standardised if `scale`, and without offsets that are too large for double precision.
in_range <- function(x, scale, arg, call) {
  x <- shift_to_zero(x)
  if (scale) return(standardise(x, call))
  check_spread(x, arg, call)
  x
}

# Stops if the values of a column that is not constant are so close together that squares of their
# differences underflow. The core refuses values that are too large.
check_spread <- function(x, arg, call) {
  for (j in which(abs(x[1, ] - x[nrow(x), ]) < least_spread)) {
    ends <- range(x[, j])
    spread <- ends[2] - ends[1]
    if (spread > 0 && spread < least_spread) {
      got <- paste0("has values in column ", column_names(x, j), " that differ by at most ",
                    format(spread, digits = 3))
      needs <- paste0("squares of such differences underflow: multiply the column so that they ",
                      "differ by ", least_spread, " or more, or use scale = TRUE")
      refuse(arg, got, needs, call)
    }
  }
}

# Minimum Euclidean distance whose square has full precision.
least_euclidean_spread <- 1e-150

# Stops if rows of x are so close together that squares of their Euclidean distances underflow: all
# neighbours would tie. gdist(), and gkmeans() from given centers, do not call it, because they
# return what stats returns.
check_squares <- function(x, metric, arg, call) {
  if (metric$name != "euclidean" || is_in_blocks(x)) return(invisible())
  if (any(abs(x[1, ] - x[nrow(x), ]) >= least_euclidean_spread)) return(invisible())
  spread <- max(apply(x, 2, function(column) diff(range(column))))
  if (spread > 0 && spread < least_euclidean_spread) {
    refuse(arg, paste("has values that differ by at most", format(spread, digits = 3)),
           "squares of such differences underflow: multiply it, for example by 2^600", call)
  }
}

# A column is shifted towards 0 if its greatest magnitude exceeds this multiple of its range,
# because its means would lose 20 bits of precision or more.
far_from_zero <- 2^20

# x, with columns that are far from 0 shifted towards 0. A shift by one of the values is exact,
# because all values are within a factor of 2 of it (Sterbenz 1974). Other columns are not changed.
shift_to_zero <- function(x) {
  rows <- unique(round(seq(1, nrow(x), length.out = min(nrow(x), 100))))
  some <- x[rows, , drop = FALSE]
  shift <- numeric(ncol(x))
  for (j in seq_len(ncol(x))) {
    few <- range(some[, j])
    if (max(abs(few)) <= far_from_zero * (few[2] - few[1])) next
    ends <- range(x[, j])
    if (max(abs(ends)) > far_from_zero * (ends[2] - ends[1])) shift[j] <- x[1, j]
  }
  if (all(shift == 0)) return(x)
  if (is_stored(x)) return(changed_rows(x, seq_len(ncol(x)), 1, shift, 1))
  for (j in which(shift != 0)) x[, j] <- x[, j] - shift[j]
  x
}
