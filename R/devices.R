#' GPUs that gmhclust() can use
#'
#' Lists the NVIDIA GPUs of this machine, and says of each whether it can be used and why not.
#'
#' @return A data frame of class `gpu_devices`, one row for each CUDA device that the driver shows:
#'   \describe{
#'     \item{`device`}{integer, its number, from 0: what `devices` of [gmhclust()] takes.}
#'     \item{`name`}{character, as its maker calls it.}
#'     \item{`compute_capability`}{character, `"9.0"` for example.}
#'     \item{`memory_total`, `memory_free`}{double, in bytes; free memory is `NA` where the device
#'       cannot be opened.}
#'     \item{`driver`}{character, the newest CUDA version that the driver supports.}
#'     \item{`usable`}{logical.}
#'     \item{`why`}{character, why it cannot be used; `NA` where it can.}
#'   }
#'   Where there is no device the data frame has no rows, and printing it says why.
#'
#' @section What the GPU does:
#' In all of it, what decides is computed in double precision by the same operations in the same
#' order as on the CPU, so the result of `backend = "cuda"` is that of `"cpu"`, bit for bit.
#'
#' [gmhclust()]: Of a large clustering, the GPU does the *screens*: single-precision lower bounds on
#' the distances of one cluster to all others, for batches of merges at a time. Whatever a screen
#' cannot rule out is decided on the CPU, as are the shapes of the clusters, so a fast CPU still
#' matters. The last merges, from 8,192 clusters down, are the CPU's alone, and so is the work on
#' more than 1,500 columns. Of many apriori clusters, the GPU does everything, each in a thread
#' block of its own: if there are at least 4 for each of the CPU's threads, those of up to 8,192
#' observations (and up to 4 times as many as the average has) in up to 64 columns. Meanwhile the
#' CPU's threads are at the others. With several devices, apriori clusters are spread over them.
#'
#' [gdist()]: The GPU computes the distances, in double precision, and sends them over in pieces
#' while it is at the next ones; neither has to hold them twice. Minkowski's metric, correlations of
#' data with missing values, ranks and other preparations are the CPU's.
#'
#' [gknn()], [gmst()], and [ghclust()] from points: The GPU screens all
#' observations for each one's neighbours, and the CPU decides among the few that are left. An A100,
#' an H100 or their like does so in half precision, on tensor cores, where that is enough: for
#' Euclidean distances, correlations and cosines in 8 columns or more. The binary and Minkowski
#' metrics are the CPU's.
#'
#' [gkmeans()]: The GPU draws the initial centers and does all iterations, in double precision; the
#' CPU adds up the clusters' sums of squares in the end.
#'
#' [ghclust()] with a matrix: Of complete, average, mcquitty and Ward's linkage, the GPU holds the
#' matrix, computed there as by [gdist()] or sent over, and does all work on it; the CPU keeps the
#' books. Of the other linkages, only distances are the GPU's.
#'
#' Less work than pays is the CPU's alone, also with `backend = "cuda"`.
#'
#' @section Several devices:
#' Apriori clusters of [gmhclust()] are spread over all devices that are chosen. Searches for
#' neighbours ([gknn()], [gmst()] and `ghclust(method = "single")`) deal the rows whose
#' neighbours are looked for out to them, batch by batch, so that a faster device does more of them;
#' each device has a copy of the rows to look among. All else uses one device, the first that is
#' chosen. The result does not depend on their number.
#'
#' @section When a device fails:
#' When one of several devices fails in the middle of a search, the others do what it leaves, and a
#' warning of class `gmhclust_warning_device` names the device, what it was doing, and what the
#' driver says. When no other works, an error of class `gmhclust_error_device` says so, or, with
#' `backend = "auto"`, the CPU does the rest, and that is the warning. Neither changes the result.
#' A kernel that goes wrong takes away all devices that this process uses, not only its own: the
#' driver does not let the process use them any more, and `gpu_devices()` says that R needs to be
#' restarted.
#'
#' @section Choosing:
#' `backend = "auto"`, the default, uses a GPU when there is one that is usable and the job is large
#' enough for it to be faster than the CPU's threads. For [gmhclust()]: when the data, or the
#' largest apriori cluster, or the tree above the apriori clusters, start with at least 8,192
#' clusters and 1,000 more for each of the CPU's threads; or when there are 4 apriori clusters for
#' each thread and as many observations in them. For [ghclust()] with a matrix on the GPU: from
#' 4,096 observations on. For the other functions and linkages: when the pairs of observations to
#' compare have at least 2^31 coordinates for each thread, a pair having as many as there are
#' columns. It goes back to the CPU when the device fails or lacks memory. `"cuda"` insists: it
#' stops with a condition of class `gmhclust_error_device` where no device can be used, and
#' `gmhclust_error_memory` where it lacks memory. `"cpu"` leaves the GPU alone.
#'
#' `devices` chooses by number, `devices = c(0, 2)` for example; `NULL` means all that are usable.
#' The environment variable `CUDA_VISIBLE_DEVICES`, set before R starts, hides devices from R
#' altogether and changes the numbers of the others.
#'
#' @section Requirements and memory:
#' An NVIDIA GPU of compute capability 7.0 (Volta) or newer and a driver for CUDA 12.4 (version 550)
#' or newer. The kernels are part of the package, as PTX that the driver compiles for the GPU at
#' hand; no CUDA toolkit is needed, neither to install nor to run. The first call of an R session
#' that uses the device opens it and loads the kernels, which takes longer than in the following
#' calls, most of all on the very first time, as the driver keeps what it has compiled.
#'
#' In the device's memory an observation takes 8 (p + 9) 8/7 bytes, p being the number of columns:
#' 210 bytes with 14 columns, 440 with 39. A cluster that has a shape of its own (3 members or more,
#' see *Shapes* in [gmhclust()]) takes 2 p (p + 1) bytes; never more than n/3 such clusters exist at
#' a time, and typically a fraction of that. In an apriori cluster that is done as a whole, an
#' observation takes about 4 p^2 + 26 p + 160 bytes, which with 20 columns is
#' 2.3 kilobytes; as many clusters as fit are done at a time. What a matrix takes is in [ghclust()].
#' CUDA itself takes some hundred megabytes. The CPU's memory is needed as well, see [gmhclust()].
#'
#' A search for neighbours needs 4 (p + 4) bytes for each row to look among, about half of that in
#' half precision, and up to some gigabytes for the rows whose neighbours are looked for at the
#' time. Where three quarters of the free memory do not hold all rows to look among, they stay in
#' the CPU's memory, in page-locked form, and pass through the device in chunks, each copied while
#' the one before it is screened. That hardly takes longer. Only Ward's, the centroid and the median
#' linkage of [ghclust()] need all rows there. The environment variable `GMHCLUST_DEVICE_MEMORY`
#' limits what searches take of each device's memory, in bytes:
#' `Sys.setenv(GMHCLUST_DEVICE_MEMORY = 4e9)`, for example, leaves room for others.
#'
#' @section I have a GPU, why does it say "cpu"?:
#' Component `backend` of the result says which one was chosen. Print `gpu_devices()` and look at
#' `why`; or ask with `backend = "cuda"`, whose error names the reason. It may be that
#' * the job is too small, see *Choosing*; `"cuda"` would probably be slower;
#' * there is no driver: `nvidia-smi` in a terminal should list the GPU. Install NVIDIA's driver and
#'   restart;
#' * the driver is too old: column `driver` (or the upper right corner of what `nvidia-smi` prints)
#'   says less than 12.4;
#' * the GPU is too old: its compute capability is below 7.0, as with the GTX 10 series, P100 and
#'   older ones; or it is not NVIDIA's;
#' * the device's memory is too small, or other programs hold most of it (`nvidia-smi` lists them);
#' * it is held exclusively by another program, or was hidden by `CUDA_VISIBLE_DEVICES`;
#' * R runs in a container that was started without access to the GPU: use `docker run --gpus all`
#'   with NVIDIA's container toolkit, or `apptainer exec --nv`;
#' * R runs under WSL: the driver belongs into Windows, and none into the Linux system, whose own
#'   would hide it;
#' * R was forked, as `parallel::mclapply()` does, after the GPU had been used: CUDA works only in
#'   the process that first used it. Fork before, or use a `makeCluster()` of the type `"PSOCK"`.
#'
#' @seealso [gmhclust()]
#' @aliases gmhclust-gpu
#' @examples
#' gpu_devices()
#'
#' # What "auto" would have to choose from:
#' sum(gpu_devices()$usable)
#' @export
gpu_devices <- function() as_gpu_devices(cuda_devices())

# What the library says of its devices, as a data frame.
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
  if (nrow(x) == 0) {
    problem <- attr(x, "problem")
    cat(paste0("No CUDA device", if (!is.null(problem)) paste0(": ", problem)), "\n", sep = "")
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

# Where to compute, checked: a list of `backend`, `threads` and `devices`. With `workers` it is for
# each of them, and their machines decide on `threads` where that is NULL.
check_device <- function(backend, threads, devices, call, workers = NULL) {
  list(
    backend = check_choice(backend, backends, "backend", call),
    threads = worker_threads(threads, workers, "threads", call),
    devices = check_devices(devices, "devices", call)
  )
}

# A device with the `threads` of this machine where it leaves them to a machine.
device_here <- function(device) {
  if (is.null(device$threads)) device$threads <- default_threads()
  device
}

# NULL, or the numbers of CUDA devices as integers. Whether they are there, the backend says.
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
