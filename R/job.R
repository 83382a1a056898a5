# Long work runs on threads of the library. Meanwhile R's thread waits here, handles Ctrl-C and
# shows the progress.

# Seconds between two polls of the job: short enough for Ctrl-C to seem immediate.
poll_seconds <- 0.05

# Runs a job to its end and returns its value.
# `job` is the call that starts the job. R evaluates it lazily, inside the interrupt handler.
# `progress` is the user's argument, checked, or a function that gets c(done, expected) work, for a
# display of the caller. `what` names the work, and `call` is the user's call for conditions.
run_job <- function(job, progress, what, call = NULL) {
  handle <- NULL
  display <- NULL
  on.exit(suspendInterrupts({
    if (!is.null(handle)) job_cancel(handle)
    if (!is.null(display)) display$close()
  }))
  tryCatch(
    {
      # The library reports every error that R raises inside it as a lack of memory.
      suspendInterrupts(handle <- job)
      if (is.null(handle)) stop(no_memory(what, call))
      if (!is.function(progress) && !isFALSE(progress)) {
        display <- progress_display(what, progress)
      }
      show <- if (is.function(progress)) progress else display$show
      while (!job_wait(handle, poll_seconds)) {
        Sys.sleep(0) # R checks for interrupts here; in a plain loop it may not do so for minutes
        if (!is.null(show)) show_progress(show, handle)
      }
      if (!is.null(display)) display$close()
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
