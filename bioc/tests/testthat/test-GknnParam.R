library(BiocNeighbors)

exact_params <- function(distance) {
  list(KmknnParam(distance = distance), VptreeParam(distance = distance))
}

test_that("neighbours are those of exact searches of BiocNeighbors", {
  x <- whole_numbers()
  query <- whole_numbers(20, seed = 2)
  for (distance in c("Euclidean", "Manhattan", "Cosine")) {
    ours <- GknnParam(distance)
    for (other in exact_params(distance)) {
      expect_equal(findKNN(x, 7, BNPARAM = ours), findKNN(x, 7, BNPARAM = other))
      expect_equal(queryKNN(x, query, 7, BNPARAM = ours), queryKNN(x, query, 7, BNPARAM = other))
    }
  }
  expect_identical(findKNN(x, 7, BNPARAM = GknnParam()), findKNN(x, 7, BNPARAM = KmknnParam()))
})

test_that("neighbours within a distance are those of BiocNeighbors", {
  by_index <- function(found) {
    order <- lapply(found$index, order)
    lapply(found, function(part) Map(`[`, part, order))
  }
  x <- whole_numbers()
  query <- whole_numbers(20, seed = 2)
  radius <- c(Euclidean = 4e4, Manhattan = 1e5, Cosine = 0.3)
  for (distance in names(radius)) {
    ours <- GknnParam(distance)
    r <- radius[[distance]]
    for (other in exact_params(distance)) {
      found <- findNeighbors(x, r, BNPARAM = other)
      expect_gt(length(unlist(found$index)), 2 * nrow(x))
      expect_equal(by_index(findNeighbors(x, r, BNPARAM = ours)), by_index(found))
      expect_equal(by_index(queryNeighbors(x, query, r, BNPARAM = ours)),
                   by_index(queryNeighbors(x, query, r, BNPARAM = other)))
    }
  }
})

test_that("the radius is inclusive, may differ by row, and may be 0 among duplicates", {
  x <- rbind(c(0, 0), c(3, 4), c(3, 4), c(6, 8))
  # With the row itself, as in version 1.
  reached <- list(1:3, 1:4, 1:4, 2:4)
  alone <- list(1L, 2:3, 2:3, 4L)
  cases <- list(list(5, reached), list(0, alone),
                list(c(0, 5, 0, 5), list(1L, 1:4, 2:3, 2:4)))
  for (case in cases) {
    threshold <- case[[1]]
    expected <- if (is_version_1) case[[2]] else Map(setdiff, case[[2]], 1:4)
    found <- findNeighbors(x, threshold, BNPARAM = GknnParam())
    expect_identical(lapply(found$index, sort), unname(expected))
    expect_identical(lengths(found$distance), lengths(expected))
    count <- findNeighbors(x, threshold, get.index = FALSE, get.distance = FALSE,
                           BNPARAM = GknnParam())
    expect_identical(count, lengths(expected))
    if (is_version_1) next
    # KmknnParam() misses some whose distance is the radius itself.
    theirs <- findNeighbors(x, threshold, BNPARAM = ExhaustiveParam())
    expect_identical(lapply(theirs$index, sort), expected)
  }
  found <- findNeighbors(x, c(5, 0), subset = c(4, 2), BNPARAM = GknnParam())
  expect_identical(lapply(found$index, sort),
                   if (is_version_1) list(2:4, 2:3) else list(2:3, 3L))
  expect_identical(
    queryNeighbors(x, x, 5, get.index = FALSE, get.distance = FALSE, BNPARAM = GknnParam()),
    c(3L, 4L, 4L, 3L)
  )
})

test_that("of neighbours at the same distance the first row comes first", {
  x <- as.matrix(expand.grid(1:4, 1:4))
  nn <- findKNN(x, 4, BNPARAM = GknnParam())
  sorted <- apply(as.matrix(dist(x)), 1, sort)
  expect_identical(nn$distance, unname(t(sorted[2:5, ])))
  expect_identical(nn$index[6, ], c(2L, 5L, 7L, 10L))
  expect_identical(nn$index[1, ], c(2L, 5L, 6L, 3L))
})

test_that("a subset is selected by numbers, names or logical values", {
  x <- whole_numbers(30)
  rownames(x) <- paste0("cell", 1:30)
  all_rows <- findKNN(x, 3, BNPARAM = GknnParam())
  rows <- c(20, 3)
  expected <- lapply(all_rows, function(part) part[rows, ])
  expect_identical(findKNN(x, 3, subset = rows, BNPARAM = GknnParam()), expected)
  expect_identical(findKNN(x, 3, subset = rownames(x)[rows], BNPARAM = GknnParam()), expected)
  is_chosen <- seq_len(30) %in% rows
  expect_identical(findKNN(x, 3, subset = is_chosen, BNPARAM = GknnParam()),
                   lapply(all_rows, function(part) part[sort(rows), ]))
  expect_identical(queryKNN(x, x, 3, subset = rows, BNPARAM = GknnParam()),
                   queryKNN(x, x[rows, ], 3, BNPARAM = GknnParam()))
  expect_identical(dim(findKNN(x, 3, subset = integer(), BNPARAM = GknnParam())$index), c(0L, 3L))
  expect_error(findKNN(x, 3, subset = 31, BNPARAM = GknnParam()),
               "`subset` has 31; it must select from 30 observations", fixed = TRUE)
  expect_error(findKNN(x, 3, subset = "no", BNPARAM = GknnParam()), "by their names", fixed = TRUE)
})

test_that("only what is wanted is returned", {
  x <- whole_numbers(30)
  both <- findKNN(x, 3, BNPARAM = GknnParam())
  expect_identical(findKNN(x, 3, get.distance = FALSE, BNPARAM = GknnParam()), both["index"])
  expect_identical(findKNN(x, 3, get.index = FALSE, BNPARAM = GknnParam()), both["distance"])
  expect_identical(findKNN(t(x), 3, transposed = TRUE, BNPARAM = GknnParam()), both)
  within <- findNeighbors(x, 5e4, BNPARAM = GknnParam())
  expect_identical(findNeighbors(x, 5e4, get.distance = FALSE, BNPARAM = GknnParam()),
                   within["index"])
})

test_that("`transposed` concerns the same data as in the other searches", {
  x <- whole_numbers(30)
  query <- whole_numbers(12, seed = 2)
  index <- buildIndex(x, BNPARAM = GknnParam())
  # The data that queries are searched for in: version 1 never transposes these.
  data <- if (is_version_1) x else t(x)
  for (other in exact_params("Euclidean")) {
    same <- function(search) {
      found <- search(GknnParam())
      expect_gt(length(unlist(found)), 0)
      expect_identical(found, search(other))
    }
    same(function(param) findKNN(t(x), 3, transposed = TRUE, BNPARAM = param))
    same(function(param) queryKNN(data, t(query), 3, transposed = TRUE, BNPARAM = param))
    same(function(param) {
      queryKNN(data, t(query), 3, transposed = TRUE, subset = 5:2, BNPARAM = param)
    })
    expect_identical(
      search_index(queryKNN, index, query = t(query), k = 3, transposed = TRUE),
      search_index(queryKNN, buildIndex(x, BNPARAM = other), query = t(query), k = 3,
                   transposed = TRUE)
    )
    sorted <- function(found) lapply(found$index, sort)
    same(function(param) sorted(findNeighbors(t(x), 4e4, transposed = TRUE, BNPARAM = param)))
    same(function(param) {
      sorted(queryNeighbors(data, t(query), 4e4, transposed = TRUE, BNPARAM = param))
    })
    if (is_version_1) next
    same(function(param) queryDistance(data, t(query), 3, transposed = TRUE, BNPARAM = param))
  }
  # A square x has a right shape both ways.
  square <- whole_numbers(5)
  for (query in list(square, t(square))) {
    search <- function(param) queryKNN(square, query, 2, transposed = TRUE, BNPARAM = param)
    expect_identical(search(GknnParam()), search(KmknnParam()))
  }
})

test_that("an index has the names of the data", {
  x <- whole_numbers(6)
  dimnames(x) <- list(letters[1:6], LETTERS[1:5])
  for (distance in c("Euclidean", "Cosine")) {
    index <- buildIndex(x, BNPARAM = GknnParam(distance))
    transposed <- buildIndex(t(x), transposed = TRUE, BNPARAM = GknnParam(distance))
    expect_identical(transposed, index)
    expect_identical(dimnames(index@data), dimnames(t(x)))
    expect_identical(index@NAMES, letters[1:6])
    if (!is_version_1) next
    theirs <- buildIndex(x, BNPARAM = KmknnParam(distance = distance))
    expect_identical(dimnames(index), dimnames(theirs))
    expect_identical(dim(index), dim(theirs))
    expect_equal(bndata(index)[, bnorder(theirs)], bndata(theirs))
  }
  expect_identical(findKNN(x, 3, BNPARAM = GknnParam()), findKNN(x, 3, BNPARAM = KmknnParam()))
})

# Of duplicates, KmknnParam() may list others.
expect_as_kmknn <- function(search) {
  ours <- search(GknnParam())
  theirs <- suppressWarnings(search(KmknnParam()))
  if (is.list(ours) && is.list(ours$index)) {
    ours$index <- lapply(ours$index, sort)
    theirs$index <- lapply(theirs$index, sort)
  }
  expect_identical(ours, theirs)
}

test_that("no columns, and no rows of data or query, have the answers of KmknnParam()", {
  x <- whole_numbers(5)
  none <- x[, 0]
  distances_only <- function(search) expect_as_kmknn(function(param) search(param)$distance)
  distances_only(function(param) findKNN(none, 2, BNPARAM = param))
  distances_only(function(param) queryKNN(none, none[1:3, ], 2, BNPARAM = param))
  expect_as_kmknn(function(param) findNeighbors(none, 2, BNPARAM = param))
  expect_as_kmknn(function(param) findNeighbors(none, 2, subset = 3:2, BNPARAM = param))
  expect_as_kmknn(function(param) queryNeighbors(none, none[1:3, ], 2, BNPARAM = param))
  expect_as_kmknn(function(param) {
    queryNeighbors(none, none, 2, get.index = FALSE, get.distance = FALSE, BNPARAM = param)
  })
  expect_as_kmknn(function(param) queryKNN(x, x[0, ], 2, BNPARAM = param))
  expect_as_kmknn(function(param) queryNeighbors(x, x[0, ], 2, BNPARAM = param))
  expect_as_kmknn(function(param) queryNeighbors(x[0, ], x, 2, BNPARAM = param))
  expect_as_kmknn(function(param) findNeighbors(x[0, ], 2, BNPARAM = param))
  nn <- findKNN(none, 2, BNPARAM = GknnParam())
  expect_identical(nn$index, cbind(c(2L, 1L, 1L, 1L, 1L), c(3L, 3L, 2L, 2L, 2L)))
})

test_that("no neighbours are an answer, too", {
  x <- whole_numbers(5)
  empty <- function(rows) list(index = matrix(0L, rows, 0), distance = matrix(0, rows, 0))
  expect_identical(findKNN(x, 0, BNPARAM = GknnParam()), empty(5))
  expect_identical(findKNN(x[, 0], 0, BNPARAM = GknnParam()), empty(5))
  expect_identical(queryKNN(x, x[1:3, ], 0, BNPARAM = GknnParam()), empty(3))
  expect_warning(found <- queryKNN(x[0, ], x, 2, BNPARAM = GknnParam()), "capped")
  expect_identical(found, empty(5))
})

test_that("version 2: k = 0 and distances of no rows or columns", {
  skip_if(is_version_1, "BiocNeighbors 1 refuses k = 0")
  x <- whole_numbers(5)
  none <- x[, 0]
  expect_as_kmknn(function(param) findKNN(x, 0, BNPARAM = param))
  expect_as_kmknn(function(param) queryKNN(x, x[1:3, ], 0, BNPARAM = param))
  expect_as_kmknn(function(param) queryKNN(x, x[0, ], 0, BNPARAM = param))
  expect_as_kmknn(function(param) findDistance(x, 0, BNPARAM = param))
  expect_as_kmknn(function(param) queryDistance(x, x[0, ], 2, BNPARAM = param))
  expect_as_kmknn(function(param) queryDistance(none, none, 2, BNPARAM = param))
})

test_that("a large k is capped with the warning of BiocNeighbors", {
  x <- whole_numbers(5)
  for (param in list(GknnParam(), KmknnParam())) {
    expect_warning(found <- findKNN(x, 7, BNPARAM = param), "capped at the number of observations")
    expect_identical(dim(found$index), c(5L, 4L))
    expect_warning(found <- queryKNN(x, x, 7, BNPARAM = param), "capped")
    expect_identical(dim(found$distance), c(5L, 5L))
  }
  expect_warning(found <- findKNN(x[1, , drop = FALSE], 2, BNPARAM = GknnParam()), "capped")
  expect_identical(found, list(index = matrix(0L, 1, 0), distance = matrix(0, 1, 0)))
  expect_identical(findKNN(x, 0, BNPARAM = GknnParam())$index, matrix(0L, 5, 0))
})

test_that("wrong arguments of searches are named", {
  x <- whole_numbers(5)
  expect_error(findKNN(x, -1, BNPARAM = GknnParam()), "`k` is -1; it must", fixed = TRUE)
  expect_error(findKNN(x, "a", BNPARAM = GknnParam()), "`k` is a; it must", fixed = TRUE)
  expect_error(findKNN(x, 1:2, BNPARAM = GknnParam()),
               "`k` has length 2; it must have one number, or one for each of 5", fixed = TRUE)
  expect_error(findNeighbors(x, 1:2, BNPARAM = GknnParam()), "`threshold` has length 2; it must",
               fixed = TRUE)
  expect_error(findNeighbors(x, -1, BNPARAM = GknnParam()), "`threshold` is -1; it must",
               fixed = TRUE)
  expect_error(queryKNN(x, x[0, 1:3], 1, BNPARAM = GknnParam()),
               "`query` has 3 columns; it must have one for each of the 5 dimensions", fixed = TRUE)
  expect_error(findKNN(x, 1, get.index = "x", BNPARAM = GknnParam()), "`get.index` is x; it must",
               fixed = TRUE)
})

test_that("an index gives the same as the data, also when it was saved", {
  x <- whole_numbers(50)
  query <- whole_numbers(5, seed = 2)
  for (distance in c("Euclidean", "Cosine")) {
    param <- GknnParam(distance)
    index <- unserialize(serialize(buildIndex(x, BNPARAM = param), NULL))
    expect_s4_class(index, "GknnIndex")
    expect_identical(search_index(findKNN, index, k = 3), findKNN(x, 3, BNPARAM = param))
    expect_identical(search_index(queryKNN, index, query = query, k = 3),
                     queryKNN(x, query, 3, BNPARAM = param))
    expect_identical(search_index(findNeighbors, index, threshold = 0.4),
                     findNeighbors(x, 0.4, BNPARAM = param))
    expect_identical(search_index(queryNeighbors, index, query = query, threshold = 0.4),
                     queryNeighbors(x, query, 0.4, BNPARAM = param))
  }
  expect_output(show(index), "observations: 50\ndimensions: 5\ndistance: Cosine")
})

test_that("rows of zeros keep length 0 for Cosine", {
  x <- rbind(c(0, 0), c(1, 0), c(3, 3))
  nn <- findKNN(x, 2, BNPARAM = GknnParam("Cosine"))
  expect_identical(nn$distance[1, ], c(1, 1))
  skip_if(is_version_1, "BiocNeighbors 1 refuses rows of zeros")
  expect_equal(nn$distance, findKNN(x, 2, BNPARAM = KmknnParam(distance = "Cosine"))$distance)
})

test_that("threads change nothing", {
  skip_if_not_installed("BiocParallel")
  x <- some_cells(500)
  one <- findKNN(x, 5, BNPARAM = GknnParam())
  expect_identical(findKNN(x, 5, num.threads = 2, BNPARAM = GknnParam()), one)
  expect_identical(findKNN(x, 5, BPPARAM = BiocParallel::SnowParam(2), BNPARAM = GknnParam()), one)
  expect_identical(findKNN(x, 5, BNPARAM = GknnParam(threads = 2, backend = "cpu")), one)
})

test_that("a column of row numbers gives no message", {
  x <- cbind(id = 1:20 + 0, y = rev(1:20)^2)
  expect_message(gknn(x, 2), "identifier")
  expect_silent(findKNN(x, 2, BNPARAM = GknnParam()))
})

test_that("mutual neighbours are those of BiocNeighbors", {
  x <- whole_numbers(60)
  y <- whole_numbers(50, seed = 2)
  ours <- findMutualNN(x, y, 5, BNPARAM = GknnParam())
  expect_gt(length(ours$first), 10)
  expect_identical(ours, findMutualNN(x, y, 5, BNPARAM = KmknnParam()))
})

test_that("version 2: distances of the kth neighbour, several k, and layouts", {
  skip_if(is_version_1, "not in BiocNeighbors 1")
  x <- whole_numbers(30)
  query <- whole_numbers(4, seed = 2)
  same <- function(search) expect_identical(search(GknnParam()), search(KmknnParam()))
  same(function(param) findDistance(x, 3, BNPARAM = param))
  same(function(param) findDistance(x, 3, subset = 5:2, BNPARAM = param))
  same(function(param) findDistance(x, rep(0:2, 10), BNPARAM = param))
  same(function(param) queryDistance(x, query, 3, BNPARAM = param))
  same(function(param) findKNN(x, rep(c(0, 3, 4), 10), BNPARAM = param))
  same(function(param) findKNN(x, I(3), subset = 4, BNPARAM = param))
  same(function(param) queryKNN(x, query, 1:4, BNPARAM = param))
  same(function(param) findKNN(x, 3, get.index = "transposed", BNPARAM = param))
  same(function(param) queryKNN(x, query, 3, get.index = "transposed", BNPARAM = param))
  expect_error(defineBuilder(GknnParam()), "no builder for C++ code", fixed = TRUE)
})

test_that("version 1: the last neighbours", {
  skip_if_not(is_version_1, "only in BiocNeighbors 1")
  x <- whole_numbers(30)
  expect_identical(findKNN(x, 5, last = 2, BNPARAM = GknnParam()),
                   findKNN(x, 5, last = 2, BNPARAM = KmknnParam()))
  expect_identical(queryKNN(x, x, 5, last = 1, BNPARAM = GknnParam()),
                   queryKNN(x, x, 5, last = 1, BNPARAM = KmknnParam()))
})

test_that("version 1: an index that was built before is searched, not X", {
  skip_if_not(is_version_1, "only in BiocNeighbors 1")
  x <- whole_numbers(30)
  other <- whole_numbers(20, seed = 2)
  search <- function(param) {
    findKNN(other, 3, precomputed = buildIndex(x, BNPARAM = param), BNPARAM = param)
  }
  expect_identical(search(GknnParam()), search(KmknnParam()))
  query <- function(param) {
    queryKNN(other, other, 3, precomputed = buildIndex(x, BNPARAM = param), BNPARAM = param)
  }
  expect_identical(query(GknnParam()), query(KmknnParam()))
  expect_error(
    findKNN(x, 3, precomputed = buildIndex(x, BNPARAM = KmknnParam()), BNPARAM = GknnParam()),
    "`precomputed` is an object of class \"KmknnIndex\"; it must be", fixed = TRUE
  )
})

test_that("wrong settings are named", {
  expect_error(GknnParam("cosine"), "`distance` is cosine; it must be one of \"Euclidean\"",
               fixed = TRUE)
  expect_error(GknnParam(threads = 0), "`threads` is 0; it must", fixed = TRUE)
  expect_error(GknnParam(backend = "gpu"), "`backend` is gpu; it must", fixed = TRUE)
  expect_output(show(GknnParam("Manhattan", threads = 3)), "distance: Manhattan\nthreads: 3\n")
  expect_identical(bndistance(GknnParam("Manhattan")), "Manhattan")
})

test_that("another kind of generics than at installation is an error", {
  expect_silent(check_generics("2.0", "2.0"))
  expect_error(check_generics("2.0", "2.6"), "install gmhclustBioc again", fixed = TRUE)
})
