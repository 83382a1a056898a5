has_gpu <- function() any(gpu_devices()$usable)
skip_with_device <- function() skip_if(nrow(gpu_devices()) > 0, "there is a CUDA device")

test_that("gpu_devices() is a data frame with a row for each device", {
  devices <- gpu_devices()
  expect_s3_class(devices, c("gpu_devices", "data.frame"), exact = TRUE)
  types <- c(
    device = "integer", name = "character", compute_capability = "character",
    memory_total = "double", memory_free = "double", driver = "character", usable = "logical",
    why = "character"
  )
  expect_identical(vapply(devices, typeof, ""), types)
  expect_identical(devices$device, seq_len(nrow(devices)) - 1L)
  expect_identical(is.na(devices$why), devices$usable)
  expect_no_message(gpu_devices())
})

test_that("without a device there are no rows, and printing says why", {
  skip_with_device()
  devices <- gpu_devices()
  expect_identical(nrow(devices), 0L)
  expect_output(print(devices), "^No CUDA device: .*CUDA driver")
  expect_output(expect_invisible(print(devices)))
  expect_output(print(devices[devices$usable, ]), "^No CUDA device")
})

test_that("devices are printed with their memory and the reason why they cannot be used", {
  devices <- as_gpu_devices(list(
    device = 0:1, name = c("Fast", "Old"), compute_capability = c("9.0", "6.1"),
    memory_total = c(80, 8) * 2^30, memory_free = c(79.5 * 2^30, NaN), driver = c("12.8", "12.8"),
    unusable = c("", "it is too old"), problem = NULL
  ))
  expect_identical(devices$usable, c(TRUE, FALSE))
  expect_identical(devices$why, c(NA, "it is too old"))
  expect_identical(devices$memory_free, c(79.5 * 2^30, NA))
  printed <- paste(capture.output(print(devices)), collapse = "\n")
  for (text in c("Fast", "79.5 GiB", "unknown", "it is too old")) {
    expect_match(printed, text, fixed = TRUE)
  }
  expect_output(print(devices["name"]), "Old")
})

test_that("device numbers are whole, not negative and distinct", {
  expect_null(check_devices(NULL, "devices", NULL))
  expect_identical(check_devices(c(2, 0), "devices", NULL), c(2L, 0L))
  expect_identical(check_devices(1L, "devices", NULL), 1L)
  expect_refused <- function(devices, message) {
    error <- expect_error(gmhclust(blobs(10, 2), devices = devices), class = "gmhclust_error_input")
    expect_match(conditionMessage(error), paste0("`devices` ", message), fixed = TRUE)
    expect_identical(conditionCall(error)[[1]], quote(gmhclust))
  }
  expect_refused(-1, "has -1;")
  expect_refused(c(0, 0.5), "has 0.5;")
  expect_refused(c(0L, NA), "has NA;")
  expect_refused(Inf, "has Inf;")
  expect_refused(3e9, "has 3e+09;")
  expect_refused(c(1, 0, 1), "has 1 more than once;")
  expect_refused(numeric(0), "is empty;")
  expect_refused("0", "is \"0\";")
  expect_refused(TRUE, "is TRUE;")
  expect_refused(matrix(0), "is a numeric matrix of 1 x 1;")
  expect_refused(list(0), "is a list;")
  expect_refused(factor(0), "is an object of class \"factor\";")
  expect_error(mhclust(blobs(10, 2), devices = -1), "`devices` has -1",
               class = "gmhclust_error_input")
})

test_that("without a device \"cuda\" is an error that names the reason", {
  skip_with_device()
  x <- blobs(10, 2)
  error <- expect_error(gmhclust(x, backend = "cuda"), class = "gmhclust_error_device")
  expect_identical(conditionCall(error), quote(gmhclust(x = x, backend = "cuda")))
  expect_match(conditionMessage(error), "`backend` is \"cuda\", but ", fixed = TRUE)
  expect_match(conditionMessage(error), "CUDA driver")
  expect_error(gmhclust(x, backend = "cuda", devices = 3), class = "gmhclust_error_device")
  expect_error(mhclust(x, backend = "cuda"), class = "gmhclust_error_device")
})

test_that("\"auto\" is the same as \"cpu\" without a GPU, also if `devices` names missing ones", {
  # Enough observations for "auto" to look for a GPU rather than use one thread.
  many <- blobs(9500, 2)
  same <- c("merge", "height", "order")
  cpu <- gmhclust(many, subthreshold = "euclid", distance = "centroid", backend = "cpu")
  expect_identical(cpu$backend, "cpu")
  for (devices in list(NULL, 999)) {
    auto <- gmhclust(many, subthreshold = "euclid", distance = "centroid", devices = devices,
                           threads = 1)
    expect_identical(unclass(auto)[same], unclass(cpu)[same])
  }
  expect_identical(auto$backend, "cpu")
  few <- gmhclust(many[1:100, ], 10)
  expect_identical(few$backend, "cpu")
  expect_same_tree(few, gmhclust(many[1:100, ], 10, backend = "cpu"))
})

test_that("a GPU gives the CPU's trees of the lymphocytes, bit for bit", {
  skip_if_not(has_gpu(), "no usable GPU")
  cells <- some_cells(20000)
  for (kind in c("mahal", "mahal0", "euclid", "euclidMahal")) {
    for (distance in c("full", "centroid")) {
      on <- function(backend) {
        gmhclust(cells, 100, subthreshold = kind, distance = distance, backend = backend)
      }
      expect_same_tree(on("cuda"), on("cpu"))
    }
  }
})

test_that("a GPU gives the CPU's trees with apriori clusters and with normalisation", {
  skip_if_not(has_gpu(), "no usable GPU")
  cells <- some_cells(20000)
  on <- function(backend, ...) {
    gmhclust(cells, 100, distance = "centroid", backend = backend, ...)
  }
  expect_same_tree(on("cuda", normalize = TRUE), on("cpu", normalize = TRUE))
  # One apriori cluster for the device, one for the CPU, and loose observations.
  apriori <- rep(c(1, 2, 0), c(15000, 3000, 2000))
  expect_same_tree(on("cuda", apriori = apriori), on("cpu", apriori = apriori))
})

test_that("a GPU gives the CPU's linkage with a matrix, bit for bit", {
  skip_if_not(has_gpu(), "no usable GPU")
  cells <- some_cells(6000)
  same <- c("merge", "height", "order")
  distances <- gdist(cells)
  for (method in c("average", "complete", "mcquitty", "ward.D", "ward.D2")) {
    for (precision in c("double", "single")) {
      on <- function(backend, x, ...) {
        tree <- ghclust(x, method, precision = precision, backend = backend, ...)
        expect_identical(tree$backend, backend)
        tree[same]
      }
      expect_identical(on("cuda", distances), on("cpu", distances))
      expect_identical(on("cuda", cells, metric = "manhattan"),
                       on("cpu", cells, metric = "manhattan"))
    }
  }
})

test_that("a missing device is an error on a machine with other devices, too", {
  skip_if_not(has_gpu(), "no usable GPU")
  expect_error(gmhclust(blobs(10, 2), backend = "cuda", devices = 999), "CUDA device 999",
               class = "gmhclust_error_device")
})

test_that("a driver that lacks functions is too old", {
  skip_on_os(c("windows", "mac"))
  skip_if_not(nzchar(Sys.which("cc")), "a C compiler")
  folder <- tempfile()
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  source <- file.path(folder, "driver.c")
  writeLines("int cuInit(unsigned flags) { return flags; }", source)
  system2("cc", shQuote(c("-shared", "-fPIC", "-o", file.path(folder, "libcuda.so"), source)))
  said <- in_new_session(c(
    "library(gmhclust, lib.loc = commandArgs(TRUE)); cat(attr(gpu_devices(), \"problem\"))",
    "stopifnot(gdist(matrix(c(1, 2, 4))) == c(1, 3, 2))"
  ), env = paste0("LD_LIBRARY_PATH=", shQuote(folder)))
  expect_match(said, "^the CUDA driver of this machine is too old.*version 550", all = FALSE)
  expect_null(attr(said, "status"))
})
