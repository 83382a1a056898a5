# Arrays in .npy files of NumPy, read in blocks of rows. See "NEP 1" of NumPy for the format.

npy_ending <- "\\.npy$"

# The rows of arrays, one after the other.
npy_blocks <- function(files, transform, call) {
  described <- describe_files(files, describe_npy, call)
  count <- described[[1]]$columns
  described <- lapply(described, function(file) {
    if (file$columns == count) return(file)
    paste("it has", file$columns, "columns, and", basename(files[1]), "has", count)
  })
  refuse_parts(files, described, "files", call)
  rows <- vapply(described, `[[`, 0, "rows")
  new_row_blocks(
    npy_reader(described, transform), data.frame(name = sample_names(files), rows = rows), NULL,
    count, c("file", "files")
  )
}

npy_reader <- function(files, transform) {
  force(transform)
  reader_of_files(files, vapply(files, `[[`, 0, "rows"), function(file, ...) {
    user_transformed(read_records(file, ..., seq_len(file$columns)), transform)
  })
}

# The description of a file, from its header: its `path`, the numbers of `rows` and `columns`, and
# the `layout` of the values, see read_records(). Stops if the file does not have numbers in rows
# and columns.
describe_npy <- function(path) {
  if (!file.exists(path)) stop("it does not exist")
  # A named pipe has size 0, and would be waited for.
  if (file.size(path) < 8) stop("it is no .npy file of version 1 to 3")
  connection <- file(path, "rb")
  on.exit(close(connection))
  magic <- readBin(connection, "raw", 8)
  is_npy <- length(magic) == 8 && identical(magic[1:6], as.raw(c(0x93, utf8ToInt("NUMPY"))))
  if (!is_npy || !magic[7] %in% as.raw(1:3)) stop("it is no .npy file of version 1 to 3")
  wide <- magic[7] != as.raw(1)
  length <- readBin(connection, "integer", 1, if (wide) 4 else 2, signed = wide, endian = "little")
  size <- file.size(path)
  begin <- (if (wide) 12 else 10) + length
  if (length(length) == 0 || is.na(begin) || length < 1 || begin > size) {
    stop("its header is damaged")
  }
  header <- text_of(readBin(connection, "raw", length))
  found <- function(pattern) {
    if (!grepl(pattern, header)) stop("its header is damaged")
    sub(paste0(".*", pattern, ".*"), "\\1", header)
  }
  type <- found("'descr': *'([^']*)'")
  by_column <- found("'fortran_order': *(True|False)") == "True"
  shape <- as.numeric(strsplit(found("'shape': *\\(([0-9, ]*)\\)"), ",")[[1]])
  if (length(shape) == 1) shape <- c(shape, 1)
  if (length(shape) != 2 || anyNA(shape) || shape[2] < 1) stop("it has no rows and columns")
  layout <- npy_layout(type)
  if (begin + prod(shape) * layout$bytes > size) {
    stop("it is too short for its ", shown_count(shape[1]), " rows")
  }
  layout <- c(layout, begin = begin, width = shape[2], size = size,
              if (by_column) list(in_places_of = shape[1]),
              changed = as.numeric(file.mtime(path)))
  list(path = normalizePath(path), rows = shape[1], columns = shape[2], layout = layout)
}

# The format of values, from NumPy's name of a type, such as "<f8".
npy_layout <- function(type) {
  if (!grepl("^[<>=|]?(f[48]|[iu][124]|b1)$", type)) {
    stop("its values are of type ", quoted(type), ", which is not read; convert them to float64")
  }
  kind <- sub("^[<>=|]", "", type)
  list(
    is_real = startsWith(kind, "f"), is_signed = startsWith(kind, "i"),
    bytes = as.numeric(substring(kind, 2)), endian = if (startsWith(type, ">")) "big" else "little"
  )
}
