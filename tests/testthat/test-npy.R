# Arrays in .npy files as observations.

# Writes a file as NumPy does. `type` is NumPy's name without its order of bytes.
write_test_npy <- function(file, values, type = "f8", endian = "little", fortran = FALSE,
                           shape = paste0("(", nrow(values), ", ", ncol(values), ")"),
                           version = 1L) {
  bytes <- as.integer(substring(type, 2))
  order <- if (bytes == 1) "|" else if (endian == "little") "<" else ">"
  header <- paste0("{'descr': '", order, type, "', 'fortran_order': ", if (fortran) "True" else
    "False", ", 'shape': ", shape, ", }")
  start <- if (version == 1L) 10 else 12
  header <- paste0(header, strrep(" ", 63 - (start + nchar(header)) %% 64), "\n")
  data <- if (fortran) as.vector(values) else as.vector(t(values))
  data <- if (startsWith(type, "f")) {
    as.double(data)
  } else {
    # R's missing integer has the bits of 2^31.
    suppressWarnings(as.integer(ifelse(data > .Machine$integer.max, data - 2^32, data)))
  }
  writeBin(c(
    as.raw(c(0x93, utf8ToInt("NUMPY"), version, 0)),
    writeBin(nchar(header), raw(), size = if (version == 1L) 2 else 4, endian = "little"),
    charToRaw(header), writeBin(data, raw(), size = bytes, endian = endian)
  ), file)
  file
}

test_that("arrays are read as they were written, in any type and order", {
  folder <- tempfile("npy")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  file <- function(name) file.path(folder, name)
  x <- unname(round(some_cells(50)[, 1:3] * 64) / 64)
  whole <- matrix(c(0, 1, 100, 127, 5, 2), 3)
  read <- function(...) as.matrix(observations(write_test_npy(file("a.npy"), ...)))
  for (endian in c("little", "big")) {
    for (fortran in c(FALSE, TRUE)) {
      for (type in c("f8", "f4")) {
        expect_identical(read(x, type, endian, fortran), x)
      }
      for (type in c("i4", "i2", "u4", "u2", "u1", "i1", "b1")) {
        expect_identical(read(whole, type, endian, fortran), whole)
      }
    }
  }
  expect_identical(read(-whole, "i2"), -whole)
  expect_identical(read(-whole, "i1"), -whole)
  expect_identical(read(rbind(2^32 - 1, 2^31, 7), "u4"), rbind(2^32 - 1, 2^31, 7))
  expect_identical(read(x, version = 2L), x)
  expect_identical(read(cbind(1:9), shape = "(9,)"), cbind(as.double(1:9)))
  # Several files, some rows at a time.
  files <- c(write_test_npy(file("one.npy"), x[1:20, ]),
             write_test_npy(file("two.npy"), x[21:50, ], "f4", fortran = TRUE))
  old <- options(gmhclust.block_values = 12)
  on.exit(options(old), add = TRUE)
  found <- observations(files)
  expect_identical(as.matrix(found), x)
  expect_identical(found[c(40, 2), 2:1], x[c(40, 2), 2:1])
  expect_identical(count_populations(rep(1, 50), found)[1, ], c(one = 20L, two = 30L))
  expect_identical(observations(files, transform = function(values) values * 2)[, ], x * 2)
})

test_that("arrays that cannot be read are named in one error", {
  folder <- tempfile("npy")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  file <- function(name) file.path(folder, name)
  x <- matrix(1:6, 3)
  write_test_npy(file("cut.npy"), x)
  bytes <- readBin(file("cut.npy"), "raw", 1e4)
  writeBin(utils::head(bytes, -1), file("cut.npy"))
  writeBin(utils::head(bytes, 9), file("begin.npy"))
  write_test_npy(file("cube.npy"), x, shape = "(3, 1, 2)")
  write_test_npy(file("long.npy"), x, "i8")
  writeLines("text", file("text.npy"))
  write_test_npy(file("good.npy"), x)
  files <- list.files(folder, full.names = TRUE)
  error <- expect_error(observations(files), class = "gmhclust_error_input")
  message <- conditionMessage(error)
  expect_match(message, "`x` names 5 of 6 files")
  expect_match(message, "cut.npy: it is too short for its 3 rows")
  expect_match(message, "begin.npy: its header is damaged")
  expect_match(message, "cube.npy: it has no rows and columns")
  expect_match(message, "long.npy: its values are of type \"<i8\"")
  expect_match(message, "text.npy: it is no .npy file")
  write_test_npy(file("wide.npy"), matrix(1:6, 2))
  expect_error(observations(file(c("good.npy", "wide.npy"))), "wide.npy: it has 3 columns",
               class = "gmhclust_error_input")
  expect_error(observations(file("good.npy"), channels = 1), "`channels` is given",
               class = "gmhclust_error_input")
  expect_error(observations(file("no.npy")), "no.npy: it does not exist",
               class = "gmhclust_error_input")
})
