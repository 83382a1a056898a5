# Checks and converts users' arguments for the library. Errors name the argument, its invalid value,
# and the valid values.

# ---- observations -------------------------------------------------------------------------------

# The observations of `x` as a double matrix of finite values with at least 2 rows and 1 column.
# `...` are arguments of observations(); `wide` as in message_if_doubtful().
as_observations <- function(x, arg, call, ..., wide = FALSE) {
  check_observations(read_all(as_data(x, arg, call, ...), arg, call), arg, call, wide)
}

# Returns x, a double matrix; stops if it is too small or has values that are not finite.
check_observations <- function(x, arg, call, wide = FALSE) {
  check_size(x, arg, call)
  check_finite(x, arg, call)
  message_if_doubtful(x, arg, call, wide)
  x
}

check_size <- function(x, arg, call) {
  if (ncol(x) == 0) refuse(arg, "has no columns", "it must have at least 1", call)
  if (nrow(x) < 2) {
    got <- if (nrow(x) == 0) "has no rows" else "has 1 row"
    refuse(arg, got, "clustering needs at least 2 observations", call)
  }
  check_row_count(x, arg, call)
}

# Stops if rows cannot be numbered by R's integers, as trees and neighbours number them.
check_row_count <- function(x, arg, call) {
  if (nrow(x) <= .Machine$integer.max) return(invisible())
  refuse(arg, paste("has", shown_count(nrow(x)), "rows"),
         paste("it must have at most", shown_count(.Machine$integer.max)), call)
}

# Numbers as doubles. Doubles must stay the same object: after `storage.mode<-`, R would copy the
# object when compiled code accesses its values.
as_doubles <- function(x) {
  if (!is.double(x)) storage.mode(x) <- "double"
  x
}

needs_observations <- paste(
  "it must be a numeric matrix or data frame with observations in rows, or another object that",
  "observations() takes"
)

# The observations of `x` as a double matrix of any size, with any values. Also takes vectors, as
# dist() does: observations of one variable.
as_points <- function(x, arg, call, ...) {
  if (missing(x)) refuse_missing(arg, needs_observations, call)
  if (is_number_vector(x)) x <- as.matrix(unclass(x))
  read_all(as_data(x, arg, call, ...), arg, call)
}

check_not_empty <- function(x, arg, call) {
  if (ncol(x) == 0) refuse(arg, "has no columns", "it must have at least 1", call)
  if (nrow(x) == 0) refuse(arg, "has no rows", "it must have at least 1", call)
}

is_number_vector <- function(x) {
  is.null(dim(x)) && is_numeric_type(x) && !inherits(x, "dist")
}

is_numeric_type <- function(x) {
  (is.numeric(x) || is.logical(x)) && !inherits(x, "integer64")
}

check_columns <- function(x, arg, call) {
  bad <- which(!vapply(x, is_numeric_type, NA))
  if (length(bad) == 0) return(invisible())
  columns <- paste0(quoted(names(x)[bad]), " (", vapply(x[bad], column_class, ""), ")")
  if (length(columns) > 5) {
    columns <- c(columns[1:5], paste(length(columns) - 5, "more"))
  }
  got <- paste0(
    "has ", ngettext(length(bad), "a non-numeric column: ", "non-numeric columns: "),
    paste(columns, collapse = ", ")
  )
  refuse(arg, got, "leave them out or turn them into numbers", call)
}

column_class <- function(column) class(column)[1]

# Refuses dist objects, and the cross distances and similarities of package proxy. Otherwise they
# would count as a vector or a matrix, or as.matrix() would turn them into a square matrix of
# observations.
refuse_distances <- function(x, arg, call) {
  if (inherits(x, c("crossdist", "crosssimil"))) {
    got <- paste0("is ", if (inherits(x, "crossdist")) "distances" else "similarities",
                  " between two sets of observations (", dQuote(class(x)[1], FALSE), ")")
    refuse(arg, got, "it needs the observations themselves", call)
  }
  if (!inherits(x, "dist")) return(invisible())
  n <- dist_size(x)
  got <- paste0("is distances (\"dist\")", if (!is.na(n)) paste(" of", n, "observations"))
  needs <- "it needs the observations themselves; for linkage of distances use ghclust()"
  refuse(arg, got, needs, call)
}

refuse_vector <- function(x, arg, call) {
  if (!is_numeric_type(x)) {
    refuse(arg, paste("is", describe(x)), needs_observations, call)
  }
  needs <- paste0(
    "use matrix(", arg, ") for ", length(x),
    " observations of one variable, or cbind() to put variables side by side"
  )
  refuse(arg, paste("is a vector of length", length(x)), needs, call)
}

# Stops if a value is not finite. `rows_before` is the number of rows of the whole data before x.
check_finite <- function(x, arg, call, rows_before = 0L) {
  finite <- if (is.double(x)) {
    # More threads save some milliseconds from this number of values on.
    suspendInterrupts(is_all_finite(x, session_threads(length(x), 2^21)))
  } else {
    all(is.finite(x))
  }
  # If R cannot give the values (NULL), the job that reads them reports the error.
  if (is.null(finite) || finite) return(invisible())
  # This slow search locates the value for the error.
  bad <- which(!is.finite(x), arr.ind = TRUE, useNames = FALSE)
  first <- bad[order(bad[, 1], bad[, 2])[1], ]
  value <- x[first[1], first[2]]
  name <- colnames(x)[first[2]]
  column <- if (is.null(name) || is.na(name) || !nzchar(name)) first[2] else quoted(name)
  got <- paste0("has ", value, " in row ", rows_before + first[1], ", column ", column)
  if (nrow(bad) > 1) got <- paste0(got, " (and ", nrow(bad) - 1, " more)")
  refuse(arg, got, "every value must be finite", call)
}

# A short description of a value: "a list", "a character matrix", "a vector of length 3".
describe <- function(x) {
  if (is.null(x)) return("NULL")
  if (is.object(x)) return(paste("an object of class", quoted(class(x)[1])))
  if (is.function(x)) return("a function")
  if (is.list(x)) return(if (is.null(dim(x))) "a list" else "a list with dimensions")
  shape <- if (is.matrix(x)) "matrix" else if (is.array(x)) "array" else "vector"
  if (shape == "vector" && length(x) == 1) return(shown_value(x))
  type <- if (is.numeric(x)) "numeric" else typeof(x)
  size <- if (shape == "vector") paste("length", length(x)) else paste(dim(x), collapse = " x ")
  article <- if (grepl("^[aeiou]", type)) "an" else "a"
  paste(article, type, shape, "of", size)
}

shown_value <- function(x) if (is.character(x)) quoted(x) else format(x, digits = 15)

quoted <- function(text) dQuote(shortened(text), FALSE)

# Names for a message: at most five of them.
listed <- function(names) {
  shown <- quoted(utils::head(names, 5))
  if (length(names) > 5) shown <- c(shown, paste(length(names) - 5, "more"))
  paste(shown, collapse = ", ")
}

# A user's text for a message: at most 60 characters, with invalid bytes in hexadecimal.
shortened <- function(text, max_chars = 60) {
  text <- valid_text(text)
  long <- nchar(text) > max_chars
  text[long] <- paste0(substr(text[long], 1, max_chars - 3), "...")
  text
}

# Text with invalid bytes in hexadecimal.
valid_text <- function(text) {
  bad <- !validEnc(text) | Encoding(text) == "bytes"
  text[bad] <- iconv(text[bad], "ASCII", "UTF-8", sub = "byte")
  text
}

# Text without attributes; anything else unchanged.
plain_text <- function(x) if (is.character(x)) as.vector(unclass(x)) else x

# Whether x is a factor that has a level for each of its codes.
is_sound_factor <- function(x) {
  if (!is.factor(x)) return(FALSE)
  codes <- unclass(x)
  is.integer(codes) && is.character(levels(x)) && anyDuplicated(levels(x)) == 0 &&
    all(is.na(codes) | (codes >= 1 & codes <= nlevels(x)))
}

# Columns centred and divided by their standard deviation; constant columns only centred.
standardise <- function(x, call = NULL) {
  if (is_stored(x)) {
    by <- vapply(seq_len(ncol(x)), function(j) standardisation(x[, j]), numeric(3))
    return(changed_rows(x, seq_len(ncol(x)), by["scale", ], by["shift", ], by["unit", ], call))
  }
  check_memory("a standardised copy of the observations needs", 8 * length(x), call)
  for (j in seq_len(ncol(x))) x[, j] <- standardise_column(x[, j])
  x
}

standardise_column <- function(x) {
  by <- standardisation(x)
  (x / by[["scale"]] - by[["shift"]]) / by[["unit"]]
}

# The numbers by which a column is standardised: (x / scale - shift) / unit.
standardisation <- function(x) {
  if (min(x) == max(x)) return(c(scale = 1, shift = x[[1]], unit = 1))
  # Dividing by a power of two is exact, and keeps the squares of tiny and huge values
  # representable.
  scale <- 2^floor(log2(max(abs(x))))
  x <- x / scale
  shift <- mean(x)
  c(scale = scale, shift = shift, unit = sqrt(sum((x - shift)^2) / (length(x) - 1)))
}

# ---- apriori clusters ---------------------------------------------------------------------------

# The labels of a k-means clustering, without names; anything else unchanged. Stops if their names
# are the row names of x in another order.
labels_of <- function(apriori, x, arg, call) {
  is_kmeans <- inherits(apriori, "kmeans")
  labels <- if (is_kmeans) apriori$cluster else apriori
  check_row_order(names(labels), rownames(x), arg, call, "`x`")
  if (is_kmeans) unname(labels) else labels
}

# A list of the `codes` 1..G of apriori clusters in increasing label order, 0 for none, and their
# `labels`. NULL if the labels define no apriori clusters.
apriori_clusters <- function(apriori, n, arg, call) {
  if (is.null(apriori)) return(NULL)
  check_labels(apriori, n, arg, call)
  coded <- label_codes(apriori)
  labels <- coded$labels
  codes <- coded$codes
  shared <- which(tabulate(codes, length(labels)) >= 2)
  if (length(shared) < length(labels)) codes <- codes_of(codes, shared)
  if (length(shared) == 0 || (length(shared) == 1 && all(codes == 1L))) return(NULL)
  list(codes = codes, labels = labels[shared])
}

check_labels <- function(apriori, n, arg, call) {
  needs <- paste("it must be an integer, factor or character vector, one label for each of the", n,
                 "observations")
  refuse_integer64(apriori, arg, call)
  is_vector <- is.atomic(apriori) && is.null(dim(apriori))
  kind_fits <- is_sound_factor(apriori) || is.numeric(apriori) || is.character(apriori) ||
    (is.logical(apriori) && all(is.na(apriori)))
  if (!is_vector || !kind_fits) refuse(arg, paste("is", describe(apriori)), needs, call)
  if (length(apriori) != n) refuse(arg, paste("has length", length(apriori)), needs, call)
  check_encoding(if (is.factor(apriori)) levels(apriori) else apriori, arg, call)
  if (is.double(apriori)) {
    bad <- which(!is.na(apriori) & (!is.finite(apriori) | apriori != round(apriori)))
    if (length(bad) > 0) {
      got <- paste("has", apriori[bad[1]], "at position", bad[1])
      refuse(arg, got, "numeric labels must be whole numbers", call)
    }
  }
}

# Stops if labels are 64-bit integers of package bit64, whose bits R takes for those of doubles.
refuse_integer64 <- function(labels, arg, call) {
  if (!inherits(labels, "integer64")) return(invisible())
  refuse(arg, "has labels of class \"integer64\"",
         "turn them into numbers, by as.numeric() with package bit64 loaded", call)
}

# The number of the first of `names` that is not the one expected there, if they are the expected
# names in another order; else NULL.
first_out_of_order <- function(names, expected) {
  if (length(names) != length(expected)) return(NULL)
  other <- which(names != expected)
  if (length(other) > 0 && setequal(names, expected)) other[1]
}

# Stops if the user chose a name that several of `names` have.
check_unique_names <- function(chosen, names, what, arg, call) {
  shared <- intersect(chosen, names[duplicated(names)])
  if (length(shared) > 0) {
    refuse(arg, paste0("has ", quoted(shared[1]), ", the name of several ", what),
           "choose them by number", call)
  }
}

# Stops if a text has bytes that are invalid in its encoding, because R cannot sort or match it.
check_encoding <- function(labels, arg, call) {
  if (!is.character(labels)) return(invisible())
  bad <- which(!validEnc(labels) | Encoding(labels) == "bytes")
  if (length(bad) > 0) {
    refuse(arg, paste("has the text", quoted(labels[bad[1]])),
           "its bytes are not valid in its encoding: see iconv()", call)
  }
}

# The distinct labels of apriori clusters in increasing order: numbers by value, factor levels by
# their order, strings by the C locale. 0 and NA are no labels of apriori clusters.
label_values <- function(apriori) {
  values <- if (is.factor(apriori)) {
    factor(levels(apriori), levels = levels(apriori))[sort(unique(as.integer(apriori)))]
  } else {
    sort(unique(as.vector(apriori)), method = "radix")
  }
  is_none <- if (is.numeric(values)) values == 0 else as.character(values) == "0"
  values[!is.na(values) & !is_none]
}

# The distinct labels, see label_values(), and `codes`: the place of each observation's label among
# them, 0 for none.
label_codes <- function(apriori) {
  # as.vector() drops names, because integer_codes() may return these integers as the codes.
  coded <- if (is_plain_integers(apriori)) {
    suspendInterrupts(integer_codes(as.vector(apriori), NULL))
  }
  if (!is.null(coded)) return(coded)
  labels <- label_values(apriori)
  list(labels = labels, codes = codes_of(apriori, labels))
}

# The places of values among distinct labels, 0 for none. integer_codes() is faster than match().
codes_of <- function(values, labels) {
  coded <- if (is_plain_integers(values) && is_plain_integers(labels)) {
    suspendInterrupts(integer_codes(as.vector(values), labels))
  }
  if (is.null(coded)) match(values, labels, nomatch = 0L) else coded$codes
}

# The labels at places among distinct labels.
labels_at <- function(places, labels) {
  if (identical(labels, seq_along(labels))) places else labels[places]
}

is_plain_integers <- function(x) is.integer(x) && !is.object(x)

# Labels as text. as.character() would write 100000 as "1e+05", or 1 as "1e+00", by option `scipen`.
label_text <- function(labels) {
  if (is.double(labels)) sprintf("%.0f", labels) else as.character(labels)
}

# Texts in which the letters of ASCII, and no others, are in lower case, or in upper case. tolower()
# depends on the locale: in Turkish, the lower case of "I" is another letter than "i". The texts may
# have any encoding.
ascii_lower <- function(texts) with_other_case(texts, LETTERS)
ascii_upper <- function(texts) with_other_case(texts, letters)

# Texts with these letters of ASCII in the other case.
with_other_case <- function(texts, of) {
  changed <- charToRaw(paste(of, collapse = ""))
  one <- function(text) {
    bytes <- charToRaw(text)
    is_changed <- bytes %in% changed
    bytes[is_changed] <- xor(bytes[is_changed], as.raw(0x20))
    rawToChar(bytes)
  }
  texts <- as.character(texts)
  encoding <- Encoding(texts)
  known <- !is.na(texts)
  texts[known] <- vapply(texts[known], one, "", USE.NAMES = FALSE)
  Encoding(texts) <- encoding
  texts
}

# ---- options ------------------------------------------------------------------------------------

# R takes the bits of integer64 for those of doubles.
is_single_number <- function(x) {
  is.numeric(x) && !inherits(x, "integer64") && length(x) == 1 && is.null(dim(x)) && is.finite(x)
}

# The threshold of gmhclust() in members if none is given. 5 p members make a covariance reliable
# enough; in inst/benchmarks/threshold.R, populations were found equally well from 3 p to 10 p, and
# clearly worse at p + 1. Small data have small populations, so n / 10 is a limit, but the threshold
# is at least 2 p. It is at most n / 2, because the top of the tree needs full-size clusters.
default_threshold <- function(n, p) min(max(2 * p, min(5 * p, n / 10)), n / 2)

# The threshold in members; a value below 1 is a fraction of n.
threshold_members <- function(threshold, n, arg, call) {
  if (!is_single_number(threshold) || threshold <= 0) {
    needs <- "it must be one positive number: a count of members, or below 1 a fraction of them"
    refuse(arg, paste("is", describe(threshold)), needs, call)
  }
  if (threshold < 1) threshold * n else as.double(threshold)
}

check_flag <- function(flag, arg, call) {
  if (!is_flag(flag)) refuse(arg, paste("is", describe(flag)), "it must be TRUE or FALSE", call)
  as.vector(flag)
}

is_flag <- function(value) is.logical(value) && length(value) == 1 && !is.na(value)

# One of `choices`, which may be abbreviated as in match.arg(). The first one if `value` is the
# vector of all choices, the default of the argument.
check_choice <- function(value, choices, arg, call) {
  value <- plain_text(value)
  if (identical(value, choices)) return(choices[1])
  chosen <- if (is.character(value) && length(value) == 1) pmatch(value, choices) else NA
  if (is.na(chosen)) {
    needs <- paste("it must be one of", paste(dQuote(choices, FALSE), collapse = ", "))
    refuse(arg, paste("is", describe(value)), needs, call)
  }
  choices[chosen]
}

needs_tree <- "it must be an object of class \"hclust\""

is_tree <- function(tree) inherits(tree, "hclust") && is.list(tree)

# Stops unless `tree` is a valid hclust object.
check_tree <- function(tree, arg, call) {
  if (missing(tree)) refuse_missing(arg, needs_tree, call)
  if (!is_tree(tree)) {
    refuse(arg, paste("is", describe(tree)), needs_tree, call)
  }
  problems <- hclust_problems(tree)
  if (length(problems) > 0) {
    refuse(arg, paste("is not a valid tree:", problems[1]), "see check_hclust()", call)
  }
}
