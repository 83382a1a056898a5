# Shows how much of long work is done: a bar in a terminal, lines in a log, or conditions of package
# progressr.
#
# Argument `progress` is FALSE, TRUE or "progressr". A display is a list of two functions:
# show(c(done, expected)) and close(), which the caller must call at the end, once or more often. If
# the expected work grows, a display waits instead of moving backwards.

check_progress <- function(progress, call) {
  arg <- argument_name("progress", progress)
  if (identical(progress, "progressr")) {
    need_package("progressr", call, install = "install.packages")
    return(progress)
  }
  if (!is_flag(progress)) {
    refuse(arg, paste("is", describe(progress)), "it must be TRUE, FALSE or \"progressr\"", call)
  }
  as.vector(progress)
}

# The display of the work `what`. `units`, if given, is list(total, name): the display then also
# shows how many of `total` rows, or other things with this `name`, are finished.
progress_display <- function(what, progress, units = NULL, envir = parent.frame()) {
  furthest <- 0
  is_open <- TRUE
  display <- if (identical(progress, "progressr")) {
    conditions_of_progressr(what, envir)
  } else if (is_dynamic_terminal() || !is.null(getOption("cli.progress_handlers"))) {
    bar_of_cli(what, envir)
  } else {
    lines_of_log(what)
  }
  list(
    show = function(progress) {
      furthest <<- progress_share(progress[1], progress[2], furthest)
      without_interrupts(display$show(furthest, finished_units(furthest, units)))
    },
    close = function() {
      if (is_open) without_interrupts(display$close())
      is_open <<- FALSE
    }
  )
}

# Whether a line can be overwritten where a bar is drawn.
is_dynamic_terminal <- function() isTRUE(without_interrupts(cli::is_dynamic_tty()))

progress_steps <- 1000

bar_of_cli <- function(what, envir) {
  id <- cli_bar(what, envir)
  list(
    show = function(share, finished) {
      cli::cli_progress_update(
        set = floor(progress_steps * share), id = id, status = finished, .envir = envir
      )
    },
    close = function() cli::cli_progress_done(id = id, .envir = envir)
  )
}

cli_bar <- function(what, envir) {
  without_interrupts(cli::cli_progress_bar(
    name = what, total = progress_steps, clear = TRUE, auto_terminate = FALSE,
    .auto_close = FALSE, .envir = envir,
    format = "{cli::pb_name}{cli::pb_bar} {cli::pb_percent}{cli::pb_status} | ETA: {cli::pb_eta}"
  ))
}

conditions_of_progressr <- function(what, envir) {
  signal <- without_interrupts(progressr::progressor(
    steps = progress_steps, message = what, on_exit = FALSE, envir = envir
  ))
  before <- 0
  list(
    show = function(share, finished) {
      steps <- floor(progress_steps * share)
      if (steps > before) signal(paste0(what, finished), amount = steps - before)
      before <<- steps
    },
    close = function() signal(type = "finish")
  )
}

# Lines to the error output, the first after ten seconds, then ever more rarely: an hour has about
# 50 lines, a day 80.
lines_of_log <- function(what, now = function() proc.time()[["elapsed"]]) {
  started <- now()
  last <- NULL
  list(
    show = function(share, finished) {
      elapsed <- now() - started
      if (elapsed < max(10, 1.1 * last, last + 10)) return(invisible())
      last <<- elapsed
      left <- if (share > 0 && share < 1) {
        paste(", about", in_time(elapsed * (1 / share - 1)), "left")
      }
      say_in_log(what, ": ", floor(100 * share), "%", finished, " after ", in_time(elapsed), left)
    },
    close = function() {
      elapsed <- now() - started
      if (elapsed >= 10) say_in_log(what, ": ended after ", in_time(elapsed))
    }
  )
}

say_in_log <- function(...) cat(..., "\n", sep = "", file = stderr())

# A time in seconds, in words.
in_time <- function(seconds) {
  if (seconds < 100) return(paste(round(seconds), "s"))
  if (seconds < 6000) return(paste(round(seconds / 60), "min"))
  paste(format(round(seconds / 3600, 1), nsmall = 1), "h")
}

finished_units <- function(share, units) {
  if (is.null(units)) return("")
  finished <- floor(share * units$total)
  paste0(" (", shown_count(finished), " of ", shown_count(units$total), " ", units$name, ")")
}

# The value of `code`, which shows progress; NULL if it fails. An interrupt waits until the end of
# `code`, because it would leave cli's list of bars half changed, and the next call of cli would
# fail. Errors are ignored, because a failing display must not lose a result.
without_interrupts <- function(code) {
  suspendInterrupts(tryCatch(code, error = function(condition) NULL))
}

progress_share <- function(done, total, furthest) {
  if (total > 0) max(furthest, min(1, done / total)) else furthest
}

# One display, or none, for several jobs with `total` work in all; `units` as for
# progress_display(). Returns a list of three functions: step(work) gives the argument `progress` of
# run_job() for a job with this much work, done(work) must be called after the job, and close() at
# the end.
joint_progress <- function(total, what, progress, units = NULL, envir = parent.frame()) {
  if (isFALSE(progress)) {
    return(list(step = function(work) FALSE, done = function(work) NULL, close = function() NULL))
  }
  display <- progress_display(what, progress, units, envir)
  before <- 0
  list(
    step = function(work) {
      function(progress) {
        share <- progress_share(progress[1], progress[2], furthest = 0)
        display$show(c(before + work * share, total))
      }
    },
    done = function(work) {
      before <<- before + work
      display$show(c(before, total))
    },
    close = display$close
  )
}
