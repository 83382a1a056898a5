#' GPUs of this machine
#'
#' Lists the NVIDIA GPUs of this machine. For each GPU, it tells whether gmhclust can use it, and if
#' not, why.
#'
#' @return A data frame of class `gpu_devices`, one row for each CUDA device that the driver lists:
#'   \describe{
#'     \item{`device`}{integer: the number of the device, from 0, for the argument `devices`.}
#'     \item{`name`}{character: the name of the model.}
#'     \item{`compute_capability`}{character, for example `"9.0"`.}
#'     \item{`memory_total`, `memory_free`}{double, in bytes; free memory is `NA` if the device
#'       cannot be opened.}
#'     \item{`driver`}{character: the newest CUDA version that the driver supports.}
#'     \item{`usable`}{logical: whether the device can be used.}
#'     \item{`why`}{character: why the device cannot be used; `NA` if it can.}
#'   }
#'   Without a device the data frame has no rows, and printing it gives the reason.
#'
#' @section Work of the GPU:
#' All decisions are computed in double precision, by the same operations in the same order as on
#' the CPU. So `backend = "cuda"` gives the result of `"cpu"`, bit for bit.
#'
#' [gmhclust()]: With up to 208 columns, the GPU makes all merges of a large clustering itself. A
#' GPU with less than 160 kilobytes of shared memory per thread block, such as V100 and GeForce RTX
#' 30 to 50, does so with up to 135 columns, and one with less than 96 kilobytes, such as T4 and
#' GeForce RTX 20, with up to 43. Only H100 and H200 have been measured. The CPU makes the merges if
#' there are more columns or more than 1,048,576 clusters, or if single precision cannot tell
#' thousands of clusters apart, for example those of a group far away from all other observations.
#' If there are at least 4 apriori clusters for each CPU thread, the GPU clusters within apriori
#' clusters entirely: each thread block makes all merges within one of them. This applies to apriori
#' clusters with up to 24,576 observations in up to 64 columns, except some of the largest: the GPU
#' makes all merges of the apriori clusters with 4,096 observations or more as described above, and
#' CPU threads those within smaller ones, if this takes less time. Several devices share the apriori
#' clusters.
#'
#' [gdist()]: The GPU computes the distances in double precision. It sends finished parts to the CPU
#' while it computes the next part, so no memory holds all distances twice. The CPU computes
#' Minkowski distances, correlations of data with missing values, and ranks, and prepares the data.
#'
#' [gknn()], [gneighbours()], [gmst()], and [ghclust()] from data without a matrix: The GPU screens
#' all observations for the neighbours of each observation, and decides among the few remaining
#' candidates by distances in double precision. The CPU decides if the GPU has too little memory for
#' all observations in double precision, and among clusters of several observations. Data center
#' GPUs such as A100 and H100 screen in half precision on tensor cores if half precision is precise
#' enough: for Euclidean distances, correlations and cosines in 8 columns or more. The CPU does all
#' work for the binary and Minkowski metrics. In Ward's, average and McQuitty's linkage, the GPU
#' makes all merges of the last some hundred thousand clusters, see [ghclust()]: it compares all
#' clusters in single precision, decides in double precision where rounding leaves the nearest
#' cluster open, and merges. The CPU takes over if distances tie in a way that could change the
#' result, and makes these merges if there is a limit on the memory of the GPU.
#'
#' [gkmeans()]: The GPU draws the initial centers and computes all iterations. It compares all
#' observations with all centers in single precision or, for many centers on data center GPUs, in
#' half precision; if there are very many, it only compares with centers near the own one (see
#' [gkmeans()]). Assignments that rounding errors leave undecided are decided in double precision.
#' The CPU computes the total sum of squares and, if a cluster has more than 1 in 8 of the
#' observations, the sums within clusters.
#'
#' [ghclust()] with a matrix: For complete, average, mcquitty and Ward's linkage, the matrix is in
#' the GPU's memory, either computed there as in [gdist()] or copied there. The GPU does all work on
#' the matrix, and the CPU decides the merges. For the other linkages, the GPU computes the
#' distances only.
#'
#' The CPU does small amounts of work alone, even with `backend = "cuda"`.
#'
#' @section Several devices:
#' [gmhclust()] shares apriori clusters among all chosen devices. Searches for neighbours ([gknn()],
#' [gneighbours()], [gmst()] and `ghclust(method = "single")`) share the queries, the rows whose
#' neighbours are searched: each device takes the next batch from a work queue, so a faster device
#' does more work. Each device has a copy of the references, the rows among which neighbours are
#' searched. [gkmeans()] shares the observations and the centers of large clusterings; the first
#' chosen device draws the initial centers. Each device has a copy of all observations. All other
#' work uses one device, the first chosen one. The result does not depend on the number of devices.
#'
#' @section When a device fails:
#' When one of several devices fails during a search, the other devices take over its work. A
#' warning of class `gmhclust_warning_device` names the device, the failed operation and the
#' driver's message. When no device is left, `backend = "cuda"` stops with an error of class
#' `gmhclust_error_device`; with `backend = "auto"`, the CPU finishes the work with a warning. The
#' result is the same. After a crash of a kernel, the driver denies this R process the use of all
#' devices, and `gpu_devices()` says that R needs to be restarted.
#'
#' @section Choosing:
#' `backend = "auto"`, the default, uses a GPU if one is usable and the work is large enough to be
#' faster there than on the CPU's threads:
#' * [gmhclust()]: if the data, the largest apriori cluster, or the tree above the apriori clusters
#'   start with at least 4,096 clusters and 500 more for each CPU thread, in up to 208 columns; with
#'   full distances, 2,048 and 250. Or if there are at least 4 apriori clusters for each thread,
#'   which together have at least 8,192 observations and 1,000 more for each thread;
#' * [ghclust()] with a matrix on the GPU: from 4,096 observations on;
#' * other functions and linkages: if the number of pairs of observations to compare, times the
#'   number of columns, is at least 2^31 for each thread; in [gkmeans()], each observation counts
#'   for 256 more pairs in each of several iterations.
#'
#' If the device fails or has too little memory, the CPU takes over. `backend = "cuda"` requires a
#' GPU: the call stops with a condition of class `gmhclust_error_device` if no device can be used,
#' and of class `gmhclust_error_memory` if the device has too little memory. Of several apriori
#' clusters, the CPU merges those for which the device has no memory left. The CPU also does the
#' work, with `"auto"` and `"cuda"`, if a GPU has too little shared memory for the number of
#' columns, see *Work of the GPU*. `backend = "cpu"` uses no GPU.
#'
#' `devices` chooses devices by number, for example `devices = c(0, 2)`; `NULL` means all usable
#' devices. The environment variable `CUDA_VISIBLE_DEVICES`, set before R starts, hides devices from
#' R and renumbers the visible devices.
#'
#' @section Requirements and memory:
#' gmhclust requires an NVIDIA GPU of compute capability 7.0 (Volta) or later, and a driver for CUDA
#' 12.4 (version 550) or later. No CUDA toolkit is needed, neither to install nor to run: the
#' package contains the kernels as binaries for compute capabilities 8 and 9 (Ampere, Ada and
#' Hopper), and as PTX, which the driver compiles, for all other GPUs. The first call that uses a
#' device in an R session opens it and loads the kernels, so it takes longer than later calls. With
#' PTX, the first call on a machine takes longest; after that the driver caches the compiled
#' kernels.
#'
#' If the GPU makes all merges, an observation takes about 5 p^2 + 32 p + 420 bytes of device memory
#' for p columns: 2 kilobytes with 14 columns, and half a kilobyte more with full distances; 53 with
#' 100 columns, and 1.5 more with full distances. In an apriori cluster that the GPU clusters
#' entirely, an observation takes about 4 p^2 + 26 p + 160 bytes, which is 2.3 kilobytes with 20
#' columns; the GPU works on as many of these clusters at a time as its memory can hold. For the
#' size of a matrix see [ghclust()]. CUDA itself takes some hundred megabytes. For CPU memory see
#' [gmhclust()].
#'
#' A search for neighbours takes 4 (p + 4) bytes per reference, or about half as much in half
#' precision, and up to some gigabytes for the current queries. If three quarters of the free memory
#' cannot hold all references, the references stay in page-locked CPU memory and pass through the
#' device in chunks. Each chunk is copied while the previous chunk is screened, so the search hardly
#' takes longer. Only Ward's, centroid and median linkage in [ghclust()] need all references in the
#' device's memory. A linkage that is made on the GPU takes 12 p + 100 bytes per observation. The
#' environment variable `GMHCLUST_DEVICE_MEMORY` limits the memory that searches take on each
#' device, in bytes: `Sys.setenv(GMHCLUST_DEVICE_MEMORY = 4e9)`, for example, leaves memory for
#' other programs.
#'
#' @section I have a GPU, why does it say "cpu"?:
#' Component `backend` of the result is the backend that was used. To find out why it is `"cpu"`,
#' print `gpu_devices()` and look at column `why`, or call with `backend = "cuda"`: the error gives
#' the reason. Possible reasons:
#' * The work is too small, see *Choosing*; `"cuda"` would probably be slower.
#' * There is no driver: `nvidia-smi` in a terminal should list the GPU. Install NVIDIA's driver and
#'   restart.
#' * The driver is too old: column `driver` (or the upper right corner of the output of
#'   `nvidia-smi`) shows less than 12.4.
#' * The GPU is too old: its compute capability is below 7.0, as with the GTX 10 series, P100 and
#'   older models. Or the GPU is not from NVIDIA.
#' * The device's memory is too small, or other programs hold most of it (`nvidia-smi` lists them).
#' * Another program uses the device exclusively, or `CUDA_VISIBLE_DEVICES` hides it.
#' * R runs in a container without access to the GPU: start it by `docker run --gpus all` with
#'   NVIDIA's container toolkit, or by `apptainer exec --nv`.
#' * R runs under WSL: install the driver in Windows, and no driver in the Linux system, because a
#'   Linux driver would hide the Windows driver.
#' * R was forked after it had used the GPU, for example by `parallel::mclapply()`: CUDA works only
#'   in the process that first used it. Fork before the first use, or use `makeCluster()` with type
#'   `"PSOCK"`.
#'
#' @seealso [gmhclust()]
#' @aliases gmhclust-gpu
#' @examples
#' gpu_devices()
#'
#' # Number of devices that "auto" can choose from:
#' sum(gpu_devices()$usable)
#' @export
gpu_devices <- function() as_gpu_devices(cuda_devices())

# The data frame of gpu_devices() from the value of cuda_devices().
as_gpu_devices <- function(found) {
  why <- as.character(found$unusable)
  why[!nzchar(why)] <- NA
  free <- as.double(found$memory_free)
  free[is.nan(free)] <- NA
  devices <- data.frame(
    device = as.integer(found$device),
    name = as.character(found$name),
    compute_capability = as.character(found$compute_capability),
    memory_total = as.double(found$memory_total),
    memory_free = free,
    driver = as.character(found$driver),
    usable = is.na(why),
    why = why
  )
  structure(devices, class = c("gpu_devices", "data.frame"), problem = found$problem)
}

#' @export
print.gpu_devices <- function(x, ...) {
  if (!is.data.frame(x)) {
    refuse("x", paste("is", describe(x)), "it must be the value of gpu_devices()", match.call())
  }
  if (nrow(x) == 0) {
    problem <- attr(x, "problem")
    cat(paste0("No CUDA device", if (is.character(problem)) paste0(": ", problem)), "\n", sep = "")
    return(invisible(x))
  }
  shown <- as.data.frame(x)
  class(shown) <- "data.frame"
  in_bytes <- intersect(names(shown), c("memory_total", "memory_free"))
  shown[in_bytes] <- lapply(shown[in_bytes], format_gibibytes)
  print(shown, row.names = FALSE, ...)
  invisible(x)
}

format_gibibytes <- function(bytes) {
  ifelse(is.na(bytes), "unknown", sprintf("%.1f GiB", bytes / 2^30))
}

backends <- c("auto", "cpu", "cuda")

# The checked arguments that choose where to compute: a list of `backend`, `threads` and `devices`.
# With `workers`, the list is for each worker; its `threads` may be NULL, which means the default of
# the worker's machine.
check_device <- function(backend, threads, devices, call, workers = NULL) {
  list(
    backend = check_choice(backend, backends, argument_name("backend", backend), call),
    threads = worker_threads(threads, workers, call),
    devices = check_devices(devices, argument_name("devices", devices), call)
  )
}

# The value of check_device() for this machine: NULL `threads` become the default number, and
# greater numbers are capped at most_threads().
with_local_threads <- function(device) {
  threads <- if (is.null(device$threads)) default_threads() else device$threads
  device$threads <- min(threads, most_threads())
  device
}

# NULL, or the numbers of CUDA devices as integers. The library checks whether they exist.
check_devices <- function(devices, arg, call) {
  if (is.null(devices)) return(NULL)
  needs <- "it must be the numbers of CUDA devices, from 0 (see gpu_devices()), or NULL for all"
  if (!is.numeric(devices) || is.object(devices) || !is.null(dim(devices))) {
    refuse(arg, paste("is", describe(devices)), needs, call)
  }
  if (length(devices) == 0) refuse(arg, "is empty", needs, call)
  valid <- is.finite(devices) & devices >= 0 & devices == round(devices) &
    devices <= .Machine$integer.max
  if (!all(valid)) refuse(arg, paste("has", format(devices[!valid][1])), needs, call)
  twice <- anyDuplicated(devices)
  if (twice > 0) refuse(arg, paste("has", devices[twice], "more than once"), needs, call)
  as.integer(devices)
}
