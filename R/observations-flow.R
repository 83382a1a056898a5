# Methods of observations() for flow cytometry. They read the slots of a flowFrame and a flowSet, so
# they do not load flowCore. Sets of samples are in samples.R.

# nolint start: object_name_linter, object_length_linter. The classes' names.

#' @rdname observations
#' @export
observations.flowFrame <- function(x, channels = NULL, use = c("marker", "channel"),
                                   cofactor = NULL, transform = NULL, ...) {
  call <- sys.call()
  check_no_more(x, ..., call = call)
  wanted <- wanted_channels(channels, use, cofactor, transform, call)
  values <- flow_expressions(x, call)
  parameters <- flow_parameters(x, ncol(values), call)
  values <- frame_values(values, choose_columns(parameters, wanted, call), transform, call)
  check_not_constant(values, call)
  message_of_results(list(parameters), channels, call)
  values
}

#' @rdname observations
#' @export
observations.cytoframe <- function(x, channels = NULL, use = c("marker", "channel"),
                                   cofactor = NULL, transform = NULL, ...) {
  need_package("flowWorkspace", sys.call())
  observations(flowWorkspace::cytoframe_to_flowFrame(x), channels = channels, use = use,
               cofactor = cofactor, transform = transform, ...)
}

# nolint end

# The checked choice of channels: a list of these arguments of observations().
wanted_channels <- function(channels, use, cofactor, transform, call) {
  use <- check_choice(use, c("marker", "channel"), "use", call)
  cofactor <- check_cofactor(cofactor, call)
  if (!is.null(transform) && !is.function(transform)) {
    refuse("transform", paste("is", describe(transform)), "it must be a function or NULL", call)
  }
  list(channels = channels, use = use, cofactor = cofactor, transform = transform)
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

# A list: `channel`, the names of the `count` channels; and `marker`, the names of their markers, NA
# for a channel without a marker.
flow_parameters <- function(x, count, call) {
  parameters_of(read_slot(x, "parameters", call), count, call)
}

# As flow_parameters(), from an AnnotatedDataFrame. If `count` is NULL, any number of channels is
# valid.
parameters_of <- function(parameters, count, call) {
  parameters <- read_slot(parameters, "data", call)
  if (!is.data.frame(parameters) || !is.null(count) && nrow(parameters) != count) {
    refuse("x", "has a slot `parameters` that does not describe its columns", needs_observations,
           call)
  }
  marker <- unname(as.character(parameters$desc))
  marker[!is.na(marker) & !nzchar(trimws(marker))] <- NA
  list(channel = unname(as.character(parameters$name)), marker = marker)
}

# Whether channels are not fluorescence or mass channels, judged by the names that cytometers and
# programs give them.
is_no_marker <- function(channels) {
  is_named_like(channels, no_marker_names) | is_result(channels)
}

# Whether channels are columns of an earlier analysis, for example the populations of this package.
is_result <- function(channels) is_named_like(channels, result_names)

# A pattern matches a whole name, or the beginning of a name if neither a letter nor a digit
# follows. So "Time" and "Time (s)" are times, and "Timp1" is a marker. "_" in a pattern is any
# separator, or none. Compares bytes, so that neither the locale nor a name of unknown encoding
# matters; `ignore.case` depends on the locale.
is_named_like <- function(names, patterns) {
  patterns <- gsub("_", "[^a-z0-9]*", patterns, fixed = TRUE)
  one <- paste0("^[^a-z0-9]*(", paste(patterns, collapse = "|"), ")([^a-z0-9].*)?$")
  grepl(one, ascii_lower(names), perl = TRUE, useBytes = TRUE)
}

# A pattern for the colour or wavelength of a laser, before the name of a scatter channel.
laser <- paste0(
  "((uv|v|b|g|y|yg|r|n?ir|ultraviolet|violet|blue|green|yellow|yellow_green|orange|red|infrared)_|",
  "[0-9]{3}_(nm_)?)?"
)

no_marker_names <- c(
  # Scatter: FSC-A, FSCA, FSC1-Height, SSC-B-H, VSSC-A, 405-SSC-A; BSC of Sony; FS of Beckman
  # Coulter; angles of Apogee; LightLoss of BD.
  paste0(laser, "(fsc|ssc|bsc)_[0-9]*_([ahw]|area|height|width|peak|h?lin|h?log|int|tof)?"),
  "fs", "ss", "[fsml]als", "(forward|side|back|perpendicular)_(angle_)?(light_)?scatter",
  "light_loss",
  # Time: HDR of MACSQuant, whose other headers describe events.
  "time_[0-9]*", "time_(stamp|lsw|msw|high|low)", "(event|acquisition|elapsed|relative)_time",
  "hdr_(t|ce|se|v)",
  # Events: of mass cytometry with its programs for beads and barcodes, and of sorters.
  "event_(length|count)?", "(event|cell|object|image)_(id|nr|no|num|number|index|#)", "cell_length",
  "center", "offset", "width", "residual", "amplitude",
  "bead_dist", "mahalanobis_dist", "bc_separation_dist", "(trigger_)?pulse_width", "drop_phase",
  "(roi|classifier|sort_result|sort_enable)_bits", "sort_classifier", "tray_[xy]",
  # Shapes of images.
  "size", "area", "perimeter", "eccentricity", "solidity", "aspect_ratio", "diffusivity",
  "(max|total)_intensity", "(radial|long_axis|short_axis)_moment", "(delta_)?center_of_mass",
  "correlation"
)

result_names <- c(
  "populations?", "(meta)?_clusters?", "(meta)?_cluster_(id|nr|no|num|number)", "labels?",
  "individual", "(sample|file)_(id|nr|no|num|number|index|#)?",
  "(flowsom|r?phenograph|x_shift)(_(meta)?_cluster)?_(id)?_[0-9]*",
  "((vi|opt_|fit_)(t_)?|t_)sne_[0-9xy]*", "umap_[0-9xy]*"
)

# The columns that are wanted, of these `parameters`: a list of their numbers, `columns`, of their
# `names`, and of their `cofactors`.
choose_columns <- function(parameters, wanted, call) {
  columns <- flow_columns(parameters, wanted$channels, call)
  if (length(columns) == 0 && !is.null(wanted$channels)) {
    refuse("channels", "is empty", "it must name channels, or be NULL for all markers", call)
  }
  if (length(columns) == 0) {
    refuse("x", "has only channels of scatter, time, events or earlier results",
           "choose channels by `channels`", call)
  }
  list(
    columns = columns, names = flow_names(parameters, columns, wanted$use),
    cofactors = if (!is.null(wanted$cofactor)) {
      cofactor_of_columns(wanted$cofactor, parameters, columns, wanted$use, call)
    }
  )
}

# The values of a frame in the columns that choose_columns() chose.
frame_values <- function(values, chosen, transform, call = NULL) {
  values <- values[, chosen$columns, drop = FALSE]
  attr(values, "ranges") <- NULL
  dimnames(values) <- list(unname(rownames(values)), chosen$names)
  values <- as_doubles(values)
  if (!is.null(chosen$cofactors)) values <- transformed(values, chosen$cofactors)
  user_transformed(values, transform, call)
}

# Values as asinh(value / cofactor), with a cofactor for each column; NA leaves a column as it is.
transformed <- function(values, cofactors) {
  for (j in which(!is.na(cofactors))) values[, j] <- asinh(values[, j] / cofactors[j])
  values
}

needs_cofactor <- paste("it must be one positive number, one for each channel, or numbers named by",
                        "channel or marker")

# A valid `cofactor` as a plain vector, with its names.
check_cofactor <- function(cofactor, call) {
  if (is.null(cofactor)) return(NULL)
  if (!is.numeric(cofactor) || is.object(cofactor) || !is.null(dim(cofactor)) ||
        length(cofactor) == 0) {
    refuse("cofactor", paste("is", describe(cofactor)), needs_cofactor, call)
  }
  bad <- which(!is.finite(cofactor) | cofactor <= 0)
  if (length(bad) > 0) {
    got <- paste("has", cofactor[[bad[1]]], "at position", bad[1])
    refuse("cofactor", got, needs_cofactor, call)
  }
  names <- names(cofactor)
  twice <- anyDuplicated(names)
  if (twice > 0) {
    refuse("cofactor", paste("has the name", quoted(names[twice]), "twice"),
           "each channel has one cofactor", call)
  }
  cofactor
}

# The cofactor of each of the chosen columns, NA for none. A single number applies to all channels
# except the channels that are left out by default (scatter, time and so on).
cofactor_of_columns <- function(cofactor, parameters, columns, use, call) {
  names <- names(cofactor)
  channel <- parameters$channel[columns]
  if (is.null(names)) {
    if (length(cofactor) == 1) return(ifelse(is_no_marker(channel), NA, as.double(cofactor)))
    if (length(cofactor) != length(columns)) {
      refuse("cofactor", paste("has length", length(cofactor)),
             paste("it must be 1, or the number of chosen channels,", length(columns)), call)
    }
    return(as.double(cofactor))
  }
  known <- c(parameters$channel, parameters$marker,
             flow_names(parameters, seq_along(parameters$channel), use))
  unknown <- which(!names %in% stats::na.omit(known))
  if (length(unknown) > 0) {
    refuse("cofactor", paste("has the name", quoted(names[unknown[1]])),
           paste("it must be among the channels or markers:",
                 paste(utils::head(unique(stats::na.omit(known)), 60), collapse = ", ")), call)
  }
  at <- match(channel, names)
  for (other in list(parameters$marker[columns], flow_names(parameters, columns, use))) {
    at[is.na(at)] <- match(other[is.na(at)], names, incomparables = NA)
  }
  missing <- which(is.na(at) & !is_no_marker(channel))
  if (length(missing) > 0) {
    refuse("cofactor", paste("has no value for channel", quoted(channel[missing[1]])),
           "it must name all chosen channels", call)
  }
  as.double(cofactor)[at]
}

flow_columns <- function(parameters, channels, call) {
  count <- length(parameters$channel)
  if (is.null(channels)) return(which(!is_no_marker(parameters$channel)))
  if (is.character(channels)) {
    columns <- named_channels(channels, parameters, call)
  } else {
    columns <- if (is.numeric(channels)) match(channels, seq_len(count)) else NA
  }
  bad <- which(is.na(columns))
  if (length(bad) > 0) {
    got <- "is not a vector"
    if (is.atomic(channels)) got <- paste("has", shown_value(channels[bad[1]]))
    known <- unique(c(parameters$channel, stats::na.omit(parameters$marker)))
    needs <- paste0("it must be among the ", count, " channels, by name, marker or number: ",
                    paste(utils::head(known, 60), collapse = ", "))
    refuse("channels", got, needs, call)
  }
  twice <- anyDuplicated(columns)
  if (twice > 0) {
    refuse("channels", paste("has", shown_value(channels[twice]), "twice"),
           "a channel is one column", call)
  }
  columns
}

# The numbers of the channels with these names, markers, or both as in "CD3 (FL1)"; NA for a text
# that names none. Stops if a text names several channels.
named_channels <- function(texts, parameters, call) {
  channel <- parameters$channel
  with_channel <- names_with_channel(parameters)
  number_of <- function(text) {
    columns <- which(channel == text | (!is.na(parameters$marker) & parameters$marker == text) |
                       with_channel == text)
    if (length(columns) > 1) {
      needs <- paste0("give one of ", paste(dQuote(with_channel[columns], FALSE), collapse = ", "),
                      ", or a number of ", paste(columns, collapse = ", "))
      got <- paste0("has ", quoted(text), ", the name of several channels")
      refuse("channels", got, needs, call)
    }
    if (length(columns) == 1) columns else NA_integer_
  }
  vapply(texts, number_of, integer(1), USE.NAMES = FALSE)
}

flow_names <- function(parameters, columns, use) {
  channel <- parameters$channel[columns]
  if (use == "channel") return(channel)
  marker <- parameters$marker[columns]
  names <- ifelse(is.na(marker), channel, marker)
  shared <- names %in% names[duplicated(names)]
  names[shared] <- names_with_channel(parameters)[columns[shared]]
  names
}

# The marker of each channel, or its name if it has no marker, with the channel in parentheses.
names_with_channel <- function(parameters) {
  marker <- ifelse(is.na(parameters$marker), parameters$channel, parameters$marker)
  paste0(marker, " (", parameters$channel, ")")
}

# Stops if each channel has one value in all events: distances would all be 0.
check_not_constant <- function(values, call) {
  if (nrow(values) < 2) return(invisible())
  for (j in seq_len(ncol(values))) {
    if (!isTRUE(all(values[, j] == values[1, j]))) return(invisible())
  }
  got <- paste0("has the same value in all ", nrow(values), " events of each channel: ",
                listed(colnames(values)))
  needs <- paste("check how the file was read, compensated and transformed, or choose other",
                 "channels by `channels`")
  refuse("x", got, needs, call)
}

# Says which channels of the `parameters` of files or samples were left out as results of an earlier
# analysis, unless the user chose `channels`.
message_of_results <- function(parameters, channels, call) {
  names <- unique(unlist(lapply(parameters, `[[`, "channel")))
  names <- names[is_result(names)]
  if (!is.null(channels) || length(names) == 0) return(invisible())
  inform_user(
    "channels",
    paste0(
      "left out ", paste(dQuote(shortened(names), FALSE), collapse = ", "), ", which ",
      ngettext(length(names), "looks like a column", "look like columns"),
      " of an earlier analysis; `channels` takes ", ngettext(length(names), "it", "them")
    ),
    call
  )
}
