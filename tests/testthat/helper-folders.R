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
