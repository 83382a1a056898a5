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
  methods::new(flow_class("flowSet"), frames = list2env(frames), phenoData = annotated(data))
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
