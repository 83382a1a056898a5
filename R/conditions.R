# Every error of this package is a condition of class "gmhclust_error" and of one class for its
# kind: input, device, memory or interrupt.

gmhclust_condition <- function(class, message, call) {
  structure(class = c(class, "condition"), list(message = message, call = call))
}

gmhclust_error <- function(kind, message, call = NULL) {
  class <- c(paste0("gmhclust_error_", kind), "gmhclust_error", "error")
  # Handlers for R's own interrupts also catch this condition.
  if (kind == "interrupt") class <- c(class, "interrupt")
  gmhclust_condition(class, message, call)
}

gmhclust_error_input <- function(message, call = NULL) gmhclust_error("input", message, call)
gmhclust_error_device <- function(message, call = NULL) gmhclust_error("device", message, call)
# Stops unless R code can take this number of bytes. `what` names them, with its verb.
check_memory <- function(what, bytes, call) {
  refusal <- memory_refusal(what, bytes)
  if (!is.null(refusal)) stop(gmhclust_error_memory(refusal, call))
}

gmhclust_error_memory <- function(message, call = NULL) gmhclust_error("memory", message, call)
gmhclust_error_interrupt <- function(message, call = NULL) {
  gmhclust_error("interrupt", message, call)
}

# The warning that a device failed although the result is complete and correct.
gmhclust_warning_device <- function(message, call) {
  gmhclust_condition(c("gmhclust_warning_device", "warning"), message, call)
}

# The condition for a failure of a job; job_take() returns its `kind` and `message`. Kind "internal"
# is a bug in this package and has the general class only.
failure_condition <- function(kind, message, call) {
  switch(kind,
    input = gmhclust_error_input(message, call),
    device = gmhclust_error_device(message, call),
    memory = gmhclust_error_memory(message, call),
    interrupt = gmhclust_error_interrupt(message, call),
    gmhclust_condition(
      c("gmhclust_error", "error"),
      paste0("internal error, please report it: ", message),
      call
    )
  )
}

# Stops because argument `arg` is invalid. The message is "`arg` <got>; <needs>".
refuse <- function(arg, got, needs, call) {
  error <- gmhclust_error_input(paste0("`", arg, "` ", got, "; ", needs), call)
  error$refused <- list(arg = arg, got = got, needs = needs)
  stop(error)
}

# Stops with a message that begins like that of the corresponding function in stats, for code that
# matches the message.
refuse_like_stats <- function(message, needs, call) {
  stop(gmhclust_error_input(paste0(message, "; ", needs), call))
}

# The number of heights below an earlier one.
count_inversions <- function(height) sum(height < cummax(height))

# Tells of inversions, once a session: they are normal, but new to most users.
tell_inversions <- function(tree, call) {
  below <- tree$settings$inversions
  if (below == 0 || told$inversions) return(invisible())
  told$inversions <- TRUE
  message(gmhclust_condition(
    c("gmhclust_message_inversions", "message"),
    paste0(
      below, " of ", length(tree$height), ngettext(below, " heights is", " heights are"),
      " below an earlier one (inversions). This is normal for this linkage; cutting by k works. ",
      "For functions that need increasing heights, see make_monotone(). ",
      "(This message comes once a session; `warn = FALSE` turns it off.)\n"
    ),
    call
  ))
}

# What users were told in this R session.
told <- new.env(parent = emptyenv())
told$inversions <- FALSE

# Warns of rows whose distances are NaN. `rows` are their numbers, `labels` the names of all rows or
# NULL, `what` a plural noun for these rows.
warn_constant_rows <- function(rows, labels, arg, what, call) {
  if (length(rows) == 0) return(invisible())
  names <- if (is.null(labels)) rows else quoted(labels[rows])
  shown <- paste(utils::head(names, 5), collapse = ", ")
  if (length(names) > 5) shown <- paste0(shown, ", ", length(names) - 5, " more")
  warning(gmhclust_condition(
    c("gmhclust_warning_constant", "warning"),
    paste0("`", arg, "` has ", what, ", whose distances are NaN: ", shown),
    call
  ))
}
