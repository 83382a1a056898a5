# Workers of package BiocParallel, here, that can load the installed gmhclust.
snow <- function() {
  skip_if_not_installed("BiocParallel")
  skip_if_not(nzchar(system.file("Meta", package = "gmhclust")), "installed gmhclust")
  BiocParallel::SnowParam(2)
}

forks <- function() {
  skip_on_os("windows")
  skip_if_not_installed("BiocParallel")
  BiocParallel::MulticoreParam(2)
}

# The matrix x as a delayed one, read in blocks of so many rows. That is a setting of this process,
# which nothing else in these tests depends on.
delayed <- function(x, rows) {
  skip_if_not_installed("DelayedArray")
  suppressMessages(DelayedArray::setAutoBlockSize(8 * ncol(x) * rows))
  DelayedArray::DelayedArray(x)
}

# The same, in a file.
on_disk <- function(x, rows) {
  skip_if_not_installed("HDF5Array")
  methods::as(delayed(x, rows), "HDF5Array")
}
