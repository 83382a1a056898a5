# The observations of clusterRows() in a form that gmhclust takes: matrices of base R, DelayedArray
# and Matrix as they are, all other objects as a matrix.
observations_of <- function(x) {
  is_known <- is.matrix(x) || is.data.frame(x) || methods::is(x, "DelayedMatrix") ||
    methods::is(x, "sparseMatrix")
  if (is_known) x else as.matrix(x)
}

# Calls the function `of` of gmhclust. Its call, which trees and errors show, has short arguments as
# values and long ones, such as the data, as names.
run_gmhclust <- function(of, x, arguments) {
  values <- c(list(x = x), utils::modifyList(list(progress = FALSE), arguments, keep.null = TRUE))
  is_short <- vapply(values, is.atomic, NA) & lengths(values) == 1 | vapply(values, is.null, NA)
  shown <- lapply(names(values), as.name)
  shown[is_short] <- values[is_short]
  names(shown) <- names(values)
  scope <- list2env(values, parent = asNamespace("gmhclust"))
  eval(as.call(c(as.name(of), shown)), scope)
}
