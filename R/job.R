# Long work runs on threads of the library. R's own thread waits for it here, answers Ctrl-C and
# draws the progress bar.

# Seconds between two looks at the job: short enough for Ctrl-C to feel immediate.
poll_seconds <- 0.05

# Runs a job to its end and returns its value.
# `job` is the call that starts it; being lazy, it is started under the interrupt handler's eyes.
# `progress` says whether to draw a progress bar, whose title is `what`; or it is a function of the
# work done and expected, for a bar of the caller's. `call` is the user's call for the conditions.
run_job <- function(job, progress, what, call = NULL) {
  handle <- NULL
  on.exit(if (!is.null(handle)) job_cancel(handle))
  tryCatch(
    {
      handle <- job
      bar <- if (isTRUE(progress)) progress_bar(what)
      show <- if (is.function(progress)) progress else bar$show
      while (!job_wait(handle, poll_seconds)) {
        Sys.sleep(0) # lets R see an interrupt; a loop alone may take minutes to look
        if (!is.null(show)) show(job_progress(handle))
      }
      if (!is.null(bar)) bar$close()
    },
    interrupt = function(condition) {
      stop(gmhclust_error_interrupt(paste(what, "was interrupted"), call))
    }
  )
  job_value(job_take(handle), call)
}

# The value in what job_take() gave. A failure is an error of the user's call, and what went wrong
# on the way to a value is a warning of it.
job_value <- function(result, call) {
  if (!result$ok) stop(failure_condition(result$kind, result$message, call))
  for (message in result$warnings) warning(gmhclust_warning_device(message, call))
  result$value
}

# A bar over the share of the expected work that is done. The expectation may grow while the job
# runs, which the bar waits out rather than moving backwards.
progress_bar <- function(what, envir = parent.frame()) {
  steps <- 1000
  furthest <- 0
  id <- cli::cli_progress_bar(
    name = what, total = steps, clear = TRUE, auto_terminate = FALSE, .envir = envir,
    format = "{cli::pb_name}{cli::pb_bar} {cli::pb_percent} | ETA: {cli::pb_eta}"
  )
  list(
    show = function(progress) {
      furthest <<- progress_share(progress[1], progress[2], furthest)
      cli::cli_progress_update(set = floor(steps * furthest), id = id, .envir = envir)
    },
    close = function() cli::cli_progress_done(id = id, .envir = envir)
  )
}

progress_share <- function(done, total, furthest) {
  if (total > 0) max(furthest, min(1, done / total)) else furthest
}
