# Flow cytometry data for tests. Where flowCore is installed they are its own objects; elsewhere
# stand-ins with the same classes and slots, as of flowCore 2.10, so that the tests run without it.

flow_classes <- new.env()

with_flow_classes <- function() {
  if (requireNamespace("flowCore", quietly = TRUE) || isTRUE(flow_classes$defined)) {
    return(invisible())
  }
  if (!requireNamespace("Biobase", quietly = TRUE)) {
    methods::setClass("AnnotatedDataFrame", where = flow_classes,
                      representation(varMetadata = "data.frame", data = "data.frame"))
  }
  methods::setClass("flowFrame", where = flow_classes,
                    representation(exprs = "matrix", parameters = "AnnotatedDataFrame",
                                   description = "list"))
  methods::setClass("flowSet", where = flow_classes,
                    representation(frames = "environment", phenoData = "AnnotatedDataFrame"))
  flow_classes$defined <- TRUE
}

annotated <- function(data) {
  if (requireNamespace("Biobase", quietly = TRUE)) return(Biobase::AnnotatedDataFrame(data))
  methods::new(methods::getClass("AnnotatedDataFrame", where = flow_classes), data = data)
}

# A flowFrame of these values; `markers` has NA for channels without one.
flow_frame <- function(values, channels, markers) {
  with_flow_classes()
  names(channels) <- paste0("$P", seq_along(channels), "N")
  dimnames(values) <- list(NULL, channels)
  parameters <- data.frame(
    name = I(channels), desc = I(markers), range = 1024, minRange = 0, maxRange = 1023,
    row.names = paste0("$P", seq_along(channels))
  )
  methods::new(flow_class("flowFrame"), exprs = values, parameters = annotated(parameters),
               description = list())
}

flow_set <- function(frames) {
  with_flow_classes()
  data <- data.frame(name = I(names(frames)), row.names = names(frames))
  set <- methods::new(flow_class("flowSet"))
  # Slot by slot, because new() of flowCore refuses samples with other channels.
  set@frames <- list2env(frames, parent = emptyenv())
  set@phenoData <- annotated(data)
  set
}

# A cytoset of these samples: of package flowWorkspace if it is installed, on disk and in single
# precision; else a stand-in.
local_cytoset <- function(frames, env = parent.frame()) {
  if (!requireNamespace("flowWorkspace", quietly = TRUE)) return(local_stand_in(frames, env))
  flowWorkspace::flowSet_to_cytoset(flow_set(frames))
}

# A cytoset that can be read until the test ends. It adds the name of each sample to
# `flow_classes$read` when its values are read.
local_stand_in <- function(frames, env = parent.frame()) {
  set <- flow_set(frames)
  if (!methods::isClass("stand_in", where = flow_classes)) {
    methods::setClass("stand_in", where = flow_classes, representation(
      frames = "environment", phenoData = "AnnotatedDataFrame"
    ))
    registerS3method("observations", "stand_in", observations.cytoset, asNamespace("gmhclust"))
  }
  flow_classes$read <- character(0)
  local_function("functions_of_cytosets", function(call) {
    list(
      names = function(x) rownames(x@phenoData@data),
      frame = function(x, name) list(name = name, of = x@frames[[name]]),
      events = function(frame) nrow(frame$of@exprs),
      parameters = function(frame) frame$of@parameters,
      values = function(frame) {
        flow_classes$read <- c(flow_classes$read, frame$name)
        frame$of@exprs
      }
    )
  }, env)
  methods::new(methods::getClass("stand_in", where = flow_classes), frames = set@frames,
               phenoData = set@phenoData)
}

flow_class <- function(name) {
  if (requireNamespace("flowCore", quietly = TRUE)) {
    return(methods::getClass(name, where = asNamespace("flowCore")))
  }
  methods::getClass(name, where = flow_classes)
}

# Cells with scatter and time, in channels FL1-A, ..., and their plain matrix.
flow_cells <- function(n = 300) {
  values <- some_cells(n)[, 1:5]
  channels <- c("FSC-A", "SSC-H", paste0("FL", 1:5, "-A"), "Time")
  all <- cbind(1000, 500, values, seq_len(n))
  list(
    frame = flow_frame(all, channels, c(NA, "", "CD3", "CD4", NA, "CD8", "CD8", NA)),
    plain = structure(values, dimnames = list(
      NULL, c("CD3", "CD4", "FL3-A", "CD8 (FL4-A)", "CD8 (FL5-A)")
    ))
  )
}
