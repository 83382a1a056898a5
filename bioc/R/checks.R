# Checks for validity functions: each returns NULL, or a sentence that names the slot, its value and
# the valid values.

problem <- function(name, value, needs) {
  got <- if (length(value) == 0 && is.null(dim(value))) {
    "is empty"
  } else if (is.atomic(value)) {
    shown <- paste(utils::head(format(value, justify = "none"), 3), collapse = ", ")
    paste("is", if (length(value) > 3) paste0(shown, ", ...") else shown)
  } else {
    paste("is an object of class", dQuote(class(value)[1], FALSE))
  }
  paste0("`", name, "` ", got, "; ", needs)
}

check_number <- function(value, name, least, whole = FALSE) {
  is_valid <- is.numeric(value) && length(value) == 1 && isTRUE(value >= least) &&
    (!whole || value == round(value))
  if (is_valid) return(NULL)
  problem(name, value, paste0(
    "it must be one ", if (whole) "whole ", "number of at least ", least
  ))
}

check_flag <- function(value, name) {
  if (isTRUE(value) || isFALSE(value)) return(NULL)
  problem(name, value, "it must be TRUE or FALSE")
}

check_one_of <- function(value, name, choices) {
  if (is.character(value) && length(value) == 1 && value %in% choices) return(NULL)
  problem(name, value, paste("it must be one of", paste(dQuote(choices, FALSE), collapse = ", ")))
}

# The arguments in `more` must be named arguments of the function called `of`, without the names in
# `used`, which have slots or are not for users of these classes.
check_more <- function(more, of, used) {
  allowed <- setdiff(names(formals(of_gmhclust(of))), c("...", used))
  given <- names(more)
  if (length(more) == 0) return(NULL)
  if (is.null(given) || !all(nzchar(given))) {
    return("`...` has an argument without a name; it takes named arguments only")
  }
  wrong <- c(setdiff(given, allowed), given[duplicated(given)])
  if (length(wrong) == 0) return(NULL)
  paste0(
    "`...` has ", dQuote(wrong[1], FALSE), "; it takes, once each, these arguments of ", of, "(): ",
    paste(allowed, collapse = ", ")
  )
}

of_gmhclust <- function(name) getExportedValue("gmhclust", name)

# The value of a validity function from the values of checks.
all_valid <- function(...) {
  problems <- c(...)
  if (length(problems) == 0) TRUE else problems
}

# For show(): one line for each slot.
show_slots <- function(object, names) {
  for (name in names) cat(name, ": ", shown_value(methods::slot(object, name)), "\n", sep = "")
}

shown_value <- function(value) {
  if (is.null(value)) return("NULL")
  if (is.function(value)) return("a function")
  if (is.list(value)) {
    if (length(value) == 0) return("none")
    return(paste(names(value), vapply(value, shown_value, ""), sep = " = ", collapse = ", "))
  }
  if (is.atomic(value) && length(value) == 1) return(format(value))
  paste0(class(value)[1], " of length ", length(value))
}
