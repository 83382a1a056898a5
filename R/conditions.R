# The conditions of this package: errors, warnings and messages. Each condition has a specific
# class, for example "gmhclust_error_input", and a general class, for example "gmhclust_error".
# ?gmhclust_conditions lists all classes. No other file calls warning() or message(); a test checks
# that.

#' Conditions of gmhclust
#'
#' Every error, warning and message of this package is a condition with two classes of this package:
#' a class for its kind, and a class for all errors, all warnings or all messages. So handlers and
#' tests can catch one kind, or all kinds:
#' ```
#' tryCatch(gmhclust(x), gmhclust_error_memory = function(e) gmhclust(x, apriori = 1000))
#' suppressMessages(gmhclust(x), classes = "gmhclust_message_inversions")
#' ```
#'
#' @section Errors:
#' Class `gmhclust_error`, and
#' * `gmhclust_error_input`: an argument is invalid. The message gives the name of the argument, its
#'   value and the valid values;
#' * `gmhclust_error_device`: the chosen backend cannot be used, or it failed;
#' * `gmhclust_error_memory`: there is too little memory, or a disk is full;
#' * `gmhclust_error_interrupt`: the user interrupted the work. This condition also has the class
#'   `interrupt`;
#' * `gmhclust_error_worker`: a worker of `BPPARAM` was lost;
#' * `gmhclust_error_internal`: a bug in this package; please report it.
#'
#' An error on a worker of `BPPARAM` from outside this package, for example from reading a file, has
#' only the class `gmhclust_error`.
#'
#' @section Warnings:
#' Class `gmhclust_warning`, and
#' * `gmhclust_warning_device`: a GPU failed, and other GPUs or the CPU completed the work;
#' * `gmhclust_warning_constant`: rows without a direction, whose distances are `NaN`;
#' * `gmhclust_warning_infinite`: [gdist()] treats infinite values as missing;
#' * `gmhclust_warning_k`: there are fewer neighbours than `k`;
#' * `gmhclust_warning_convergence`: [gkmeans()] did not converge;
#' * `gmhclust_warning_empty`: [gkmeans()] found empty clusters;
#' * `gmhclust_warning_length`: a `dist` object has more values than its attribute `Size` implies;
#' * `gmhclust_warning_ignored`: [mhclust()] ignored arguments.
#'
#' @section Messages:
#' Class `gmhclust_message`, and
#' * `gmhclust_message_inversions`: a tree has inversions; shown once per session;
#' * `gmhclust_message_redundant`: columns that are constant or depend on others were left out, or
#'   kept by [mhclust()];
#' * `gmhclust_message_singular`: covariances are singular;
#' * `gmhclust_message_columns`: a column looks like an identifier or a time, or rows and columns
#'   seem exchanged;
#' * `gmhclust_message_slow`: covariances of many columns will take long;
#' * `gmhclust_message_dense`: a sparse matrix becomes a large dense one;
#' * `gmhclust_message_channels`: channels of an earlier analysis were left out;
#' * `gmhclust_message_threads`: more threads were requested than this process can use;
#' * `gmhclust_message_populations`: one population has more than 90% of all members;
#' * `gmhclust_message_picture`: a picture has no room for all text;
#' * `gmhclust_message_ward`: `"ward"` means `"ward.D"`, as [stats::hclust()] says.
#'
#' @name gmhclust_conditions
#' @aliases gmhclust_error gmhclust_warning gmhclust_message
#' @examples
#' tryCatch(gmhclust(letters), gmhclust_error = function(e) conditionMessage(e))
NULL

# A condition of `type` "error", "warning" or "message" with the specific class of `kind`; with the
# general class only, if `kind` is NULL.
gmhclust_condition <- function(type, kind, message, call) {
  all <- paste0("gmhclust_", type)
  own <- if (!is.null(kind)) paste0(all, "_", kind)
  # With this class, handlers for R's own interrupts also catch the interrupts of this package.
  more <- if (type == "error" && identical(kind, "interrupt")) "interrupt"
  structure(
    class = c(own, all, type, more, "condition"), list(message = message, call = call)
  )
}

gmhclust_error <- function(kind, message, call = NULL) {
  gmhclust_condition("error", kind, message, call)
}

gmhclust_error_input <- function(message, call = NULL) gmhclust_error("input", message, call)
gmhclust_error_memory <- function(message, call = NULL) gmhclust_error("memory", message, call)
gmhclust_error_interrupt <- function(message, call = NULL) {
  gmhclust_error("interrupt", message, call)
}

# Warns the user: the result is complete, but may not be what the user expects.
warn_user <- function(kind, text, call) warning(gmhclust_condition("warning", kind, text, call))

# Gives the user a message, which ends with a line break.
inform_user <- function(kind, text, call) {
  message(gmhclust_condition("message", kind, paste0(text, "\n"), call))
}

# Stops unless R code can allocate this number of bytes. The message begins with `what`: a subject
# and its verb, such as "all values of `x` need".
check_memory <- function(what, bytes, call) {
  refusal <- memory_refusal(what, bytes)
  if (!is.null(refusal)) stop(gmhclust_error_memory(refusal, call))
}

# The error of a job that failed; job_take() returns its `kind` and `message`. Kind "internal" is a
# bug in this package.
failure_condition <- function(kind, message, call) {
  if (kind == "internal") message <- paste0("internal error, please report it: ", message)
  gmhclust_error(kind, message, call)
}

# Stops because argument `arg` is invalid. The message is "`arg` <got>; <needs>".
refuse <- function(arg, got, needs, call) {
  error <- gmhclust_error_input(paste0("`", arg, "` ", got, "; ", needs), call)
  error$refused <- list(arg = arg, got = got, needs = needs)
  stop(error)
}

# The value of `code`, which calls a function that the user gave as argument `arg`. Its error
# becomes one that names the argument.
naming_argument <- function(arg, code, call = NULL) {
  tryCatch(code, error = function(e) {
    if (inherits(e, "gmhclust_error")) stop(e)
    refuse(arg, paste("stopped with the error", quoted(conditionMessage(e))),
           "call it by itself to see where", call)
  })
}

# Stops because argument `arg` was not given.
refuse_missing <- function(arg, needs, call) refuse(arg, "is missing", needs, call)

# Stops with a message that begins like the message of the corresponding function in stats, for code
# that matches it.
refuse_like_stats <- function(message, needs, call) {
  stop(gmhclust_error_input(paste0(message, "; ", needs), call))
}

# The number of heights below an earlier one.
count_inversions <- function(height) {
  count <- suspendInterrupts(inversions_of(as.double(height)))
  if (is.null(count)) stop(no_memory("counting inversions", sys.call(-1)))
  count
}

# Gives the message about inversions, once per session: inversions are normal, but new to most
# users.
inform_of_inversions <- function(tree, call) {
  below <- tree$settings$inversions
  if (below == 0 || shown_messages$inversions) return(invisible())
  shown_messages$inversions <- TRUE
  inform_user(
    "inversions",
    paste0(
      below, " of ", length(tree$height), ngettext(below, " heights is", " heights are"),
      " below an earlier one (inversions). This is normal for this linkage; cutting by k works. ",
      "For functions that need increasing heights, see make_monotone(). ",
      "(This message comes once a session; `warn = FALSE` turns it off.)"
    ),
    call
  )
}

# Whether a message that comes once per session was given in this R session.
shown_messages <- new.env(parent = emptyenv())
shown_messages$inversions <- FALSE

# Warns of rows whose distances are NaN. `rows` are their numbers, `labels` the names of all rows or
# NULL, `what` a plural noun for these rows.
warn_constant_rows <- function(rows, labels, arg, what, call) {
  if (length(rows) == 0) return(invisible())
  names <- if (is.null(labels)) rows else quoted(labels[rows])
  shown <- paste(utils::head(names, 5), collapse = ", ")
  if (length(names) > 5) shown <- paste0(shown, ", ", length(names) - 5, " more")
  warn_user(
    "constant",
    paste0("`", arg, "` has ", what, ", whose distances are NaN: ", shown),
    call
  )
}
