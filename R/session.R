# Session options for the arguments that choose how to compute: `backend`, `threads`, `devices`,
# `memory` and `progress`. They are the defaults of these arguments, options(gmhclust.threads = 4)
# for example, in all functions that have them.

session_option <- function(arg) {
  getOption(paste0("gmhclust.", arg), if (arg == "backend") backends[1])
}

# The name of an argument in an error: the name of the option if the value comes from the option.
argument_name <- function(arg, value) {
  option <- paste0("gmhclust.", arg)
  if (!is.null(value) && identical(value, getOption(option))) option else arg
}
