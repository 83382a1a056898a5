# Keeps the pictures of the vignettes small, since all of them are in the source package. R writes a
# PNG with more than 256 colours in three bytes a pixel. Smooth edges make hundreds of colours, so
# we keep the 256 most frequent ones, replace the others by the nearest of these, and get one byte a
# pixel.

# Reads a picture that bmp() wrote: a matrix of colours (0xRRGGBB), rows from top to bottom.
read_bmp <- function(file) {
  bytes <- readBin(file, "raw", file.size(file))
  number <- function(at) readBin(bytes[at + 1:4], "integer", size = 4, endian = "little")
  width <- number(18)
  height <- number(22)
  depth <- as.integer(bytes[29]) / 8
  rows <- matrix(as.integer(bytes[-seq_len(number(10))]), ncol = height)
  rows <- rows[seq_len(width * depth), height:1]
  # Blue, green and red of each pixel or, at one byte a pixel, of each colour of a table.
  mix <- function(values) colSums(matrix(values, 3) * 256^(0:2))
  if (depth == 3) {
    colors <- mix(rows)
  } else {
    table <- matrix(as.integer(bytes[55:number(10)]), 4)
    colors <- mix(table[1:3, ])[rows + 1]
  }
  matrix(colors, height, width, byrow = TRUE)
}

# Reduces a matrix of colours to at most `size` different ones.
reduce_colors <- function(colors, size = 256) {
  frequent <- sort(table(colors), decreasing = TRUE)
  all <- as.integer(names(frequent))
  kept <- all[seq_len(min(size, length(all)))]
  parts <- function(x) rbind(x %/% 65536, x %/% 256 %% 256, x %% 256)
  nearest <- sapply(all, function(color) which.min(colSums((parts(kept) - c(parts(color)))^2)))
  colors[] <- kept[nearest[match(colors, all)]]
  colors
}

write_png <- function(colors, file) {
  grDevices::png(file, ncol(colors), nrow(colors), type = "cairo")
  on.exit(grDevices::dev.off())
  colors[] <- sprintf("#%06X", as.integer(colors))
  grid::grid.raster(colors, width = 1, height = 1, interpolate = FALSE)
}

if (capabilities("cairo")) {
  # knitr records a plot before it knows the file, on a device that measures text as the last one
  # does.
  options(device = function(width, height) {
    grDevices::bmp(tempfile(), width, height, units = "in", res = 144, type = "cairo")
  })
  draw <- knitr::knit_hooks$get("plot")
  knitr::opts_chunk$set(dev = "bmp", dev.args = list(type = "cairo"), fig.ext = "png")
  knitr::knit_hooks$set(plot = function(x, options) {
    write_png(reduce_colors(read_bmp(x)), x)
    draw(x, options)
  })
}
