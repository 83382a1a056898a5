# Several samples as observations: the channels that files or the samples of a set have in common,
# and the methods of observations() for sets. A flowSet is in memory; a cytoset is on disk, and read
# one sample at a time.

# nolint start: object_name_linter. The classes' names.

#' @rdname observations
#' @param in_blocks For a `flowSet`: whether to read one sample at a time, as for a `cytoset`, which
#'   saves the memory of a copy of all cells.
#' @export
observations.flowSet <- function(x, channels = NULL, use = c("marker", "channel"),
                                 cofactor = NULL, transform = NULL, in_blocks = FALSE, ...) {
  call <- sys.call()
  check_no_more(x, ..., call = call)
  wanted <- wanted_channels(channels, use, cofactor, transform, call)
  in_blocks <- check_flag(in_blocks, "in_blocks", call)
  frames <- frames_of_set(x, call)
  samples <- describe_samples(names(frames), function(name) describe_frame(frames[[name]], call),
                              wanted, call)
  if (in_blocks) {
    return(blocks_of_samples(samples, function(name) frames[[name]]@exprs, transform))
  }
  stack_frames(frames, samples, transform, call)
}

#' @rdname observations
#' @export
observations.cytoset <- function(x, channels = NULL, use = c("marker", "channel"),
                                 cofactor = NULL, transform = NULL, ...) {
  call <- sys.call()
  check_no_more(x, ..., call = call)
  wanted <- wanted_channels(channels, use, cofactor, transform, call)
  of <- functions_of_cytosets(call)
  names <- of$names(x)
  check_samples_of_set(names, call)
  samples <- describe_samples(names, function(name) {
    frame <- of$frame(x, name)
    list(events = as.double(of$events(frame)),
         parameters = parameters_of(of$parameters(frame), NULL, call))
  }, wanted, call)
  blocks_of_samples(samples, function(name) {
    tryCatch(of$values(of$frame(x, name)), error = function(e) {
      got <- paste0("has the sample ", quoted(name), ", which cannot be read: ",
                    conditionMessage(e))
      refuse("x", got, "a cytoset is read by the process that made it, and by its forks", NULL)
    })
  }, transform)
}

# nolint end

# ---- channels -----------------------------------------------------------------------------------

# Chooses the channels that are `wanted`, see wanted_channels(), in files or samples with these
# `names`. `described` has a list for each of them, with its `parameters`, see flow_parameters().
# Returns a list: the names of the `columns`; and the `parts`, which are the described files or
# samples, each with the numbers of its chosen `columns` in this order, their `names` and
# `cofactors`. `what` is "files" or "samples".
choose_channels <- function(names, described, wanted, call, what = "files") {
  parts <- lapply(described, function(part) {
    tryCatch(c(part, choose_columns(part$parameters, wanted, call)), error = problem_of)
  })
  # If all parts fail for the same reason, an argument is wrong: this call raises its error.
  if (is.character(parts[[1]]) && length(unique(parts)) == 1) {
    choose_columns(described[[1]]$parameters, wanted, call)
  }
  refuse_parts(names, parts, what, call)
  columns <- parts[[1]]$names
  first <- if (what == "files") basename(names[1]) else quoted(names[1])
  parts <- lapply(parts, in_columns_of, columns, first)
  refuse_parts(names, parts, what, call)
  message_of_results(lapply(described, `[[`, "parameters"), wanted$channels, call)
  list(columns = columns, parts = parts)
}

# A part with its chosen columns in the order of `columns`, which are the columns of the part named
# `first`. If the part has other columns, a text that says so.
in_columns_of <- function(part, columns, first) {
  lacks <- setdiff(columns, part$names)
  more <- setdiff(part$names, columns)
  if (length(lacks) + length(more) > 0) {
    return(paste0(
      "its channels differ from those of ", first, ": it ",
      paste(c(if (length(lacks) > 0) paste("lacks", listed(lacks)),
              if (length(more) > 0) paste("has", listed(more))), collapse = " and "),
      " (`channels` chooses common ones)"
    ))
  }
  if (identical(part$names, columns)) return(part)
  # Repeated names cannot be matched. Parts that have them in the same order have returned above.
  if (anyDuplicated(columns) > 0) {
    twice <- columns[anyDuplicated(columns)]
    return(paste0("its channels are in another order than those of ", first, ", where ",
                  quoted(twice), " is there twice"))
  }
  at <- match(columns, part$names)
  part$columns <- part$columns[at]
  part$names <- columns
  part$cofactors <- part$cofactors[at]
  part
}

# ---- samples of a set ---------------------------------------------------------------------------

# The flowFrames of a flowSet in its order, named by sample.
frames_of_set <- function(x, call) {
  frames <- read_slot(x, "frames", call)
  names <- rownames(read_slot(read_slot(x, "phenoData", call), "data", call))
  is_named <- is.environment(frames) && is.character(names)
  if (!is_named || !all(vapply(names, exists, NA, frames, inherits = FALSE))) {
    refuse("x", "has slots `frames` and `phenoData` that do not fit", needs_observations, call)
  }
  check_samples_of_set(names, call)
  mget(names, envir = frames)
}

check_samples_of_set <- function(names, call) {
  if (length(names) == 0) refuse("x", "has no samples", "it must have at least 1", call)
}

# The samples of a set: the value of choose_channels(), with the `names` of the samples and their
# numbers of `events`. `describe` gives the number of `events` of a sample and its `parameters`.
describe_samples <- function(names, describe, wanted, call) {
  described <- describe_parts(names, describe, "samples", call)
  samples <- choose_channels(names, described, wanted, call, "samples")
  samples$names <- names
  samples$events <- vapply(described, `[[`, 0, "events")
  samples
}

describe_frame <- function(frame, call) {
  values <- flow_expressions(frame, call)
  list(events = as.double(nrow(values)), parameters = flow_parameters(frame, ncol(values), call))
}

# The functions of flowWorkspace for a cytoset: the `names` of its samples, and the `frame` of one
# of them; and for this frame, the number of `events` and the `parameters`, for which no events are
# read, and the `values`. A test replaces them.
functions_of_cytosets <- function(call) {
  need_package("flowWorkspace", call)
  list(
    names = flowWorkspace::sampleNames, frame = function(x, name) x[[name]],
    events = flowCore::nrow, parameters = flowCore::parameters, values = flowCore::exprs
  )
}

# The observations of the frames of samples, one after the other. Attribute `sample` has the sample
# of each observation.
stack_frames <- function(frames, samples, transform, call) {
  values <- Map(function(frame, part) {
    frame_values(frame@exprs, part, transform, call)
  }, frames, samples$parts)
  all <- if (length(values) == 1) values[[1]] else do.call(rbind, unname(values))
  check_not_constant(all, call)
  attr(all, "sample") <- sample_of_rows(samples$names, samples$events)
  all
}

# The observations of samples, read when they are needed: `read` gives the values of a sample.
blocks_of_samples <- function(samples, read, transform) {
  parts <- Map(function(part, name, events) {
    c(part[c("columns", "names", "cofactors")], sample = name, events = events)
  }, samples$parts, samples$names, samples$events)
  reader <- reader_of_whole_parts(parts, samples$events, function(part) {
    values <- read(part$sample)
    if (!is.matrix(values) || nrow(values) != part$events || max(part$columns) > ncol(values)) {
      refuse("x", paste("has the sample", quoted(part$sample), "with other events than before"),
             "samples must not change while they are used", NULL)
    }
    values <- frame_values(values, part, NULL)
    rownames(values) <- NULL
    values
  }, transform)
  new_row_blocks(
    reader, data.frame(name = samples$names, rows = samples$events), samples$columns,
    length(samples$columns), c("sample", "samples")
  )
}

# The sample of each row: a factor.
sample_of_rows <- function(names, rows) {
  structure(rep.int(seq_along(names), rows), levels = names, class = "factor")
}
