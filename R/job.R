# Long work runs on threads of the library. Meanwhile R's thread waits here, handles Ctrl-C and
# draws the progress bar.

# Seconds between two polls of the job: short enough for Ctrl-C to seem immediate.
poll_seconds <- 0.05

# Runs a job to its end and returns its value.
# `job` is the call that starts the job. R evaluates it lazily, inside the interrupt handler.
# `progress` is TRUE for a progress bar with the title `what`, FALSE for none, or a function that
# gets c(done, expected) work, for a bar of the caller. `call` is the user's call for conditions.
run_job <- function(job, progress, what, call = NULL) {
  handle <- NULL
  bar <- NULL
  on.exit(suspendInterrupts({
    if (!is.null(handle)) job_cancel(handle)
    if (!is.null(bar)) bar$close()
  }))
  tryCatch(
    {
      # The library reports every error that R raises inside it as a lack of memory.
      suspendInterrupts(handle <- job)
      if (is.null(handle)) stop(no_memory(what, call))
      if (isTRUE(progress)) bar <- progress_bar(what)
      show <- if (is.function(progress)) progress else bar$show
      while (!job_wait(handle, poll_seconds)) {
        Sys.sleep(0) # R checks for interrupts here; in a plain loop it may not do so for minutes
        if (!is.null(show)) show_progress(show, handle)
      }
      if (!is.null(bar)) bar$close()
    },
    interrupt = function(condition) {
      stop(gmhclust_error_interrupt(paste(what, "was interrupted"), call))
    }
  )
  result <- suspendInterrupts(job_take(handle))
  if (is.null(result)) stop(no_memory(what, call))
  job_value(result, call)
}

show_progress <- function(show, handle) {
  work <- suspendInterrupts(job_progress(handle))
  if (!is.null(work)) show(work)
}

# The error of a job that R has no memory for.
no_memory <- function(what, call) {
  gmhclust_error_memory(paste0(what, ": R has no memory for the result"), call)
}

# The value from the result of job_take(). A failure becomes an error of the user's call, and
# warnings of the job become warnings of this call.
job_value <- function(result, call) {
  if (!result$ok) stop(failure_condition(result$kind, result$message, call))
  for (message in result$warnings) warn_user("device", message, call)
  result$value
}

# A progress bar for the share of the expected work that is done. If the expected work grows, the
# bar waits instead of moving backwards. The caller must close it.
progress_bar <- function(what, envir = parent.frame()) {
  steps <- 1000
  furthest <- 0
  id <- undisturbed(cli::cli_progress_bar(
    name = what, total = steps, clear = TRUE, auto_terminate = FALSE, .auto_close = FALSE,
    .envir = envir, format = "{cli::pb_name}{cli::pb_bar} {cli::pb_percent} | ETA: {cli::pb_eta}"
  ))
  list(
    show = function(progress) {
      furthest <<- progress_share(progress[1], progress[2], furthest)
      undisturbed(cli::cli_progress_update(
        set = floor(steps * furthest), id = id, .envir = envir
      ))
    },
    close = function() undisturbed(cli::cli_progress_done(id = id, .envir = envir))
  )
}

# The value of `code`, which draws a progress bar; NULL if it fails. An interrupt waits until the
# end of `code`, because it would leave cli's list of bars half changed, and the next call of cli
# would fail. Errors are ignored, because a failing progress bar must not lose a result.
undisturbed <- function(code) {
  suspendInterrupts(tryCatch(code, error = function(condition) NULL))
}

progress_share <- function(done, total, furthest) {
  if (total > 0) max(furthest, min(1, done / total)) else furthest
}
