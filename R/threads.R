# The number of CPU threads: the user's argument, or a default from R's and OpenMP's settings.

check_threads <- function(threads, call) {
  if (is.null(threads)) return(default_threads())
  capped_threads(check_thread_count(threads, call), call)
}

check_thread_count <- function(threads, call) {
  if (!is_thread_count(threads)) {
    needs <- "it must be a whole number of at least 1, or NULL for the default"
    refuse(argument_name("threads", threads), paste("is", describe(threads)), needs, call)
  }
  as.integer(threads)
}

# Maximum number of threads of a call. More threads than cores take memory and save no time; with up
# to four per core, a call still takes as long as with one per core. Eight threads are always
# possible, so that results for several threads can be compared on any machine.
most_threads <- function() max(8L, 4L * usable_cores())

# The number of threads that the user requested, capped at most_threads() with a message.
capped_threads <- function(threads, call) {
  most <- most_threads()
  if (threads <= most) return(threads)
  cores <- usable_cores()
  inform_user(
    "threads",
    paste0("`", argument_name("threads", threads), "` is ", format_number(threads),
           " and was capped at ", format_number(most), ": this process may use ",
           format_number(cores), ngettext(cores, " core", " cores"),
           "; more threads would not be faster"),
    call
  )
  most
}

is_thread_count <- function(x) {
  is_single_number(x) && x >= 1 && x == round(x) && x <= .Machine$integer.max
}

# getOption("mc.cores"), else OMP_NUM_THREADS, else every core that this process may use; never more
# than OMP_THREAD_LIMIT or most_threads(), nor more than 2 under R CMD check.
default_threads <- function() {
  wanted <- c(
    as_thread_count(getOption("mc.cores")),
    as_thread_count(Sys.getenv("OMP_NUM_THREADS")),
    available_cores()
  )[1]
  limits <- c(
    most_threads(),
    as_thread_count(Sys.getenv("OMP_THREAD_LIMIT")),
    if (check_limits_cores()) 2L
  )
  min(wanted, limits)
}

# Number of threads for work on `values` numbers, before the arguments of a call are checked: the
# number of the session, or 1 if there are fewer numbers than `fewest`.
session_threads <- function(values, fewest) {
  if (values < fewest) return(1L)
  min(c(as_thread_count(session_option("threads")), default_threads())[1], most_threads())
}

# The value of `code`, in which reading files and checking values takes this number of threads,
# which is not checked; NULL for that of the session.
with_threads <- function(threads, code) {
  if (is.null(threads)) return(code)
  before <- options(gmhclust.threads = threads)
  on.exit(options(before))
  code
}

# A whole number of at least 1 from an option or an environment variable ("4", or OpenMP's "4,2"
# for nested levels), or NULL.
as_thread_count <- function(setting) {
  if (is.character(setting)) {
    setting <- suppressWarnings(as.numeric(sub(",.*", "", setting[1])))
  }
  if (is_thread_count(setting)) as.integer(setting)
}

check_limits_cores <- function() {
  setting <- tolower(Sys.getenv("_R_CHECK_LIMIT_CORES_"))
  nzchar(setting) && setting != "false"
}

# The number of cores that this process may use. A container's quota or a job may allow fewer cores
# than the machine has.
available_cores <- function() {
  # A function of the user's may return another number each time.
  if (is.function(getOption("parallelly.availableCores.custom"))) {
    return(as.integer(parallelly::availableCores()))
  }
  settings <- core_settings()
  if (!identical(settings, last_cores$settings)) {
    last_cores$cores <- as.integer(parallelly::availableCores())
    last_cores$settings <- settings
  }
  last_cores$cores
}

# The last answer of parallelly::availableCores(), which takes some milliseconds, and the settings
# that it was for.
last_cores <- new.env(parent = emptyenv())

# All settings that parallelly::availableCores() reads.
core_settings <- function() {
  options <- options()
  used <- startsWith(names(options), "parallelly.") | names(options) %in% c("mc.cores", "Ncpus")
  list(Sys.getenv(), options[used], usable_cores())
}
