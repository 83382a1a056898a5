# Methods of observations() for flow cytometry. They read the slots of a flowFrame and a flowSet, so
# they do not load flowCore.

# nolint start: object_name_linter, object_length_linter. The classes' names.

#' @rdname observations
#' @export
observations.flowFrame <- function(x, channels = NULL, use = c("marker", "channel"), ...) {
  call <- sys.call()
  check_no_more(x, ..., call = call)
  use <- check_choice(use, c("marker", "channel"), "use", call)
  values <- flow_expressions(x, call)
  flow_values(values, flow_parameters(x, ncol(values), call), channels, use, call)
}

#' @rdname observations
#' @export
observations.flowSet <- function(x, channels = NULL, use = c("marker", "channel"), ...) {
  call <- sys.call()
  frames <- read_slot(x, "frames", call)
  names <- rownames(read_slot(read_slot(x, "phenoData", call), "data", call))
  is_named <- is.environment(frames) && is.character(names)
  if (!is_named || !all(vapply(names, exists, NA, frames, inherits = FALSE))) {
    refuse("x", "has slots `frames` and `phenoData` that do not fit", needs_observations, call)
  }
  stack_frames(mget(names, envir = frames), channels, use, ..., call = call)
}

#' @rdname observations
#' @export
observations.cytoframe <- function(x, channels = NULL, use = c("marker", "channel"), ...) {
  need_package("flowWorkspace", sys.call())
  observations(flowWorkspace::cytoframe_to_flowFrame(x), channels = channels, use = use, ...)
}

#' @rdname observations
#' @export
observations.cytoset <- function(x, channels = NULL, use = c("marker", "channel"), ...) {
  need_package("flowWorkspace", sys.call())
  observations(flowWorkspace::cytoset_to_flowSet(x), channels = channels, use = use, ...)
}

# nolint end

# The observations of a named list of flowFrames, one after the other.
stack_frames <- function(frames, channels, use, ..., call) {
  if (length(frames) == 0) refuse("x", "has no samples", "it must have at least 1", call)
  parts <- lapply(frames, observations, channels = channels, use = use, ...)
  columns <- colnames(parts[[1]])
  other <- which(!vapply(parts, function(part) identical(colnames(part), columns), NA))
  if (length(other) > 0) {
    got <- paste0("has other columns in sample ", dQuote(names(frames)[other[1]], FALSE),
                  " than in ", dQuote(names(frames)[1], FALSE))
    refuse("x", got, "choose common ones by `channels`, or use = \"channel\"", call)
  }
  all <- do.call(rbind, unname(parts))
  sizes <- vapply(parts, nrow, 0L)
  attr(all, "sample") <- factor(rep(names(frames), sizes), levels = names(frames))
  all
}

# The value of a slot, which an object of another package may lack.
read_slot <- function(x, name, call) {
  if (!isS4(x) || !methods::.hasSlot(x, name)) {
    refuse("x", paste0("has no slot `", name, "`"), needs_observations, call)
  }
  methods::slot(x, name)
}

flow_expressions <- function(x, call) {
  values <- read_slot(x, "exprs", call)
  if (!is.matrix(values) || !is_numeric_type(values)) {
    refuse("x", paste("has a slot `exprs` that is", describe(values)), needs_observations, call)
  }
  values
}

# A list of the names of the `count` `channel`s, and of the `marker`s, NA where a channel has none.
flow_parameters <- function(x, count, call) {
  parameters <- read_slot(read_slot(x, "parameters", call), "data", call)
  if (!is.data.frame(parameters) || nrow(parameters) != count) {
    refuse("x", "has a slot `parameters` that does not describe its columns", needs_observations,
           call)
  }
  marker <- unname(as.character(parameters$desc))
  marker[!is.na(marker) & !nzchar(trimws(marker))] <- NA
  list(channel = unname(as.character(parameters$name)), marker = marker)
}

# Parameters that are no fluorescence or mass: scatter, time, and what describes an event.
no_marker <- paste0(
  "^(fsc?|ssc?|fals|time|event([ _.#-]*(length|number|num|count|nr)?)?|",
  "center|offset|width|residual|amplitude|cell[ _.-]*length)([^[:alpha:]].*)?$"
)

flow_values <- function(values, parameters, channels, use, call) {
  columns <- flow_columns(parameters, channels, call)
  if (length(columns) == 0) {
    refuse("x", "has no channels but scatter, time and events", "name some by `channels`", call)
  }
  values <- values[, columns, drop = FALSE]
  attr(values, "ranges") <- NULL
  dimnames(values) <- list(unname(rownames(values)), flow_names(parameters, columns, use))
  as_doubles(values)
}

flow_columns <- function(parameters, channels, call) {
  count <- length(parameters$channel)
  if (is.null(channels)) return(which(!grepl(no_marker, parameters$channel, ignore.case = TRUE)))
  if (is.character(channels)) {
    columns <- match(channels, parameters$channel)
    columns[is.na(columns)] <- match(channels[is.na(columns)], parameters$marker)
  } else {
    columns <- if (is.numeric(channels)) match(channels, seq_len(count)) else NA
  }
  bad <- which(is.na(columns))
  if (length(bad) > 0) {
    got <- if (is.atomic(channels)) paste("has", shown_value(channels[bad[1]])) else "is no vector"
    known <- unique(c(parameters$channel, stats::na.omit(parameters$marker)))
    needs <- paste0("it must be among the ", count, " channels, by name, marker or number: ",
                    paste(utils::head(known, 60), collapse = ", "))
    refuse("channels", got, needs, call)
  }
  columns
}

flow_names <- function(parameters, columns, use) {
  channel <- parameters$channel[columns]
  if (use == "channel") return(channel)
  marker <- parameters$marker[columns]
  names <- ifelse(is.na(marker), channel, marker)
  shared <- names %in% names[duplicated(names)]
  names[shared] <- paste0(names, " (", channel, ")")[shared]
  names
}
