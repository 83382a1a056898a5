# Workers of package BiocParallel on this machine, which load the installed gmhclust.
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

# A cluster of package parallel on this machine, whose processes load the installed gmhclust.
cluster_of <- function(count) {
  skip_if_not(nzchar(system.file("Meta", package = "gmhclust")), "installed gmhclust")
  parallel::makePSOCKcluster(count, rscript_envs = c(R_TESTS = ""))
}

# The matrix x as a DelayedMatrix that is read in blocks of `rows` rows. The block size is a setting
# of this process, so every test of blocks sets it.
delayed <- function(x, rows) {
  skip_if_not_installed("DelayedArray")
  suppressMessages(DelayedArray::setAutoBlockSize(8 * ncol(x) * rows))
  DelayedArray::DelayedArray(x)
}

# The same as an HDF5Array, in a file.
on_disk <- function(x, rows) {
  skip_if_not_installed("HDF5Array")
  methods::as(delayed(x, rows), "HDF5Array")
}

# Blocks of the default size again, for the tests that follow: with small ones, sparse matrices of
# other tests would be read row by row.
default_blocks <- function() {
  if (!requireNamespace("DelayedArray", quietly = TRUE)) return(invisible())
  suppressMessages(DelayedArray::setAutoBlockSize())
}
