# Folders of neighbours, as gknn() writes them.

# The checksum files, which mark finished blocks.
blocks_in <- function(folder) list.files(folder, "^rows-", full.names = TRUE)

# The name of the file for rows `rows[1]` to `rows[2]`.
file_in <- function(folder, part, rows, extension = "npy") {
  name <- sprintf("%s-%010.0f-%010.0f.%s", part, rows[1], rows[2], extension)
  file.path(folder, name)
}

read_bytes <- function(file) readBin(file, "raw", file.size(file))

# Flips one bit of a file, numbered from 0.
flip_bit <- function(file, bit) {
  bytes <- read_bytes(file)
  at <- bit %/% 8 + 1
  bytes[at] <- xor(bytes[at], as.raw(2^(bit %% 8)))
  writeBin(bytes, file)
}

# Replaces text in the manifest of a folder and writes a matching checksum, with Python.
forge_manifest <- function(folder, was, is) {
  file <- file.path(folder, "manifest.json")
  text <- sub(was, is, rawToChar(read_bytes(file)), fixed = TRUE)
  summed <- sub(",\n  \"sha256\".*", "", text)
  code <- "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
  input <- tempfile()
  writeBin(charToRaw(summed), input)
  sum <- system2(python(), c("-c", shQuote(code)), stdin = input, stdout = TRUE)
  writeBin(charToRaw(paste0(summed, ",\n  \"sha256\": \"", sum, "\"\n}\n")), file)
}

# A Python with a module. The first Python on the path may differ from the system's.
python <- function(module = "hashlib") {
  candidates <- Sys.which(c("python3", "python", "/usr/bin/python3"))
  for (candidate in candidates[nzchar(candidates)]) {
    if (is.null(run_python(candidate, paste("import", module)))) return(candidate)
  }
  skip(paste("no Python with", module))
}

# The status of a Python program, NULL for success.
run_python <- function(python, code) {
  output <- suppressWarnings(
    system2(python, c("-c", shQuote(paste(code, collapse = "\n"))), stdout = TRUE, stderr = TRUE)
  )
  attr(output, "status")
}
