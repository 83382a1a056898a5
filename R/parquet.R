# Tables in Parquet files, read by package nanoparquet, which reads whole columns of a file.

parquet_ending <- "\\.parquet$"

# The rows of tables, one file after the other. The arguments are those of observations(), checked.
parquet_blocks <- function(files, wanted, call) {
  need_package("nanoparquet", call, install = "install.packages")
  described <- describe_files(files, describe_parquet, call)
  parts <- choose_channels(files, described, wanted, call)
  new_row_blocks(
    parquet_reader(parts$parts, wanted$transform),
    data.frame(name = sample_names(files), rows = vapply(described, `[[`, 0, "events")),
    parts$columns, length(parts$columns), c("file", "files")
  )
}

# The description of a file, from its footer, with the components of describe_fcs() except `name`
# and `words`. The columns of numbers are its channels, which have no markers.
describe_parquet <- function(path) {
  if (!file.exists(path)) stop("it does not exist")
  if (dir.exists(path)) stop("it is a folder")
  read <- function(what) {
    tryCatch(what(path), error = function(e) {
      stop("it is no Parquet file that package nanoparquet reads: ", conditionMessage(e),
           call. = FALSE)
    })
  }
  rows <- as.double(read(nanoparquet::read_parquet_info)$num_rows)
  schema <- read(nanoparquet::read_parquet_schema)
  # The first line is the table. Columns of columns have lines without a type after them.
  is_number <- schema$r_type %in% c("double", "integer", "logical") &
    !schema$repetition_type %in% "REPEATED"
  names <- schema$name[is_number]
  if (length(names) == 0) stop("it has no columns of numbers")
  twice <- anyDuplicated(names)
  if (twice > 0) stop("it has several columns ", quoted(names[twice]))
  layout <- list(
    width = length(names), size = file.size(path), events = rows, names = names,
    changed = as.numeric(file.mtime(path))
  )
  list(path = normalizePath(path), events = rows, layout = layout,
       parameters = list(channel = names, marker = rep(NA_character_, length(names))))
}

# The function that reads rows of files, for new_row_blocks().
parquet_reader <- function(files, transform) {
  files <- lapply(files, function(file) file[c("path", "layout", "columns", "names", "cofactors")])
  events <- vapply(files, function(file) file$layout$events, 0)
  reader_of_whole_parts(files, events, read_parquet_file, transform)
}

# All values of the chosen columns, with their cofactors.
read_parquet_file <- function(file) {
  check_described(file)
  # Without `col_select`, with which nanoparquet 0.5.1 loses missing values and shifts those below.
  table <- nanoparquet::read_parquet(file$path)
  chosen <- file$layout$names[file$columns]
  if (nrow(table) != file$layout$events || !all(chosen %in% names(table))) {
    refuse_changed(file, "has other rows or columns than before")
  }
  values <- matrix(0, nrow(table), length(chosen), dimnames = list(NULL, file$names))
  for (j in seq_along(chosen)) {
    column <- table[[chosen[j]]]
    cofactor <- file$cofactors[j]
    has_cofactor <- length(cofactor) == 1 && !is.na(cofactor)
    values[, j] <- if (has_cofactor) asinh(column / cofactor) else column
  }
  values
}
