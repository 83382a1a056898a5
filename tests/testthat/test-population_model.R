# Populations of 1 to k of some normal cells, with outliers in none.
cells_in_populations <- function(n, p, k, seed = 1) {
  set.seed(seed)
  population <- sample(0:k, n, replace = TRUE, prob = c(0.1, rep(1, k)))
  centres <- matrix(rnorm((k + 1) * p, sd = 4), k + 1)
  x <- centres[population + 1, , drop = FALSE] + matrix(rnorm(n * p), n)
  x[, 1] <- x[, 1] + x[, p]
  colnames(x) <- paste0("M", seq_len(p))
  list(x = x, population = population)
}

model_of <- function(data, levels = as.character(seq_len(max(data$population))), threads = NULL) {
  used <- gmhclust:::used_columns(data$x)
  gmhclust:::fit_populations(data$x, used, data$population, levels, quote(test()), threads)
}

# Populations of a tree, with their observations. The smallest has fewer members than columns.
some_populations <- function(n = 1000, k = 6, ...) {
  x <- some_cells(n)
  suppressMessages(cut_populations(ghclust(x, "average"), k, 10, x = x, ...))
}

refused <- function(object, message, by = "predict.population_model") {
  expect_refused(object, message, by)
}

# The squared distances, and the logarithms of weights times densities, by plain formulas.
plain_distances <- function(x, data, among = seq_len(max(data$population))) {
  vapply(among, function(i) {
    own <- data$x[data$population == i, , drop = FALSE]
    mahalanobis(x, colMeans(own), cov(own))
  }, numeric(nrow(x)))
}

plain_logs <- function(x, data, among = seq_len(max(data$population))) {
  squared <- plain_distances(x, data, among)
  constants <- vapply(among, function(i) {
    own <- data$x[data$population == i, , drop = FALSE]
    log(nrow(own)) - 0.5 * as.numeric(determinant(cov(own))$modulus)
  }, 0)
  rep(constants, each = nrow(x)) - squared / 2
}

shares <- function(logs) {
  densities <- exp(logs - apply(logs, 1, max))
  densities / rowSums(densities)
}

test_that("a model has the means, covariances and sizes of its populations", {
  for (p in c(1, 2, 5, 17)) {
    data <- cells_in_populations(2000, p, 3)
    model <- model_of(data)
    expect_s3_class(model, "population_model", exact = TRUE)
    for (i in 1:3) {
      own <- data$x[data$population == i, , drop = FALSE]
      expect_equal(model$means[i, ], colMeans(own), tolerance = 1e-13, ignore_attr = TRUE)
      expect_equal(model$covariances[, , i], cov(own), tolerance = 1e-12, ignore_attr = TRUE)
      expect_identical(model$sizes[i], as.double(nrow(own)))
    }
    expect_identical(model$columns, colnames(data$x))
    expect_identical(model$metric, "mahalanobis")
    expect_identical(model$used, seq_len(p))
  }
})

test_that("distances and posteriors are those of the formulas", {
  for (p in c(1, 2, 5, 17)) {
    data <- cells_in_populations(1500, p, 4, seed = p)
    model <- model_of(data)
    y <- cells_in_populations(500, p, 4, seed = 100)$x
    squared <- plain_distances(y, data)
    expect_equal(predict(model, y, "distance")^2, squared, tolerance = 1e-10, ignore_attr = TRUE)
    logs <- plain_logs(y, data)
    posterior <- predict(model, y, "posterior")
    expect_equal(posterior, shares(logs), tolerance = 1e-9, ignore_attr = TRUE)
    expect_equal(rowSums(posterior), rep(1, 500), tolerance = 1e-14, ignore_attr = TRUE)
    expect_identical(as.integer(predict(model, y)), max.col(-squared, "first"))
    expect_identical(as.integer(predict(model, y, by = "posterior")), max.col(logs, "first"))
  }
})

test_that("the classes of loose cells by distance are those of rest = \"nearest\"", {
  core <- some_populations()
  loose <- core == 0
  expect_gt(sum(loose), 0)
  full <- some_populations(rest = "nearest")
  expect_identical(as.integer(predict(core, some_cells(1000)))[loose], unname(full[loose]))
  # The rest changes no mean.
  expect_identical(population_model(full), population_model(core))
})

test_that("a class is an object of class populations", {
  found <- some_populations()
  y <- lymphocytes()[1:3000, 1:14]
  class <- predict(found, y, beyond = 0.9)
  expect_s3_class(class, "populations")
  expect_identical(names(class), rownames(as.matrix(y)))
  expect_identical(attr(class, "sizes"), as.double(tabulate(class, 6)))
  expect_identical(attr(class, "rest"), as.double(sum(class == 0)))
  expect_identical(attr(class, "model"), population_model(found))
  expect_output(print(class), "6 populations:", fixed = TRUE)
  expect_identical(sum(summary(class)$members), 3000)
  # So it maps further cells.
  expect_identical(predict(class, y, "distance"), predict(found, y, "distance"))
})

test_that("a cell beyond the quantile is in no population", {
  data <- cells_in_populations(3000, 3, 3)
  model <- model_of(data)
  squared <- plain_distances(data$x, data)
  for (beyond in c(0.5, 0.99)) {
    for (by in c("distance", "posterior")) {
      whole <- as.integer(predict(model, data$x, by = by))
      own <- squared[cbind(seq_along(whole), whole)]
      expected <- ifelse(own > qchisq(beyond, 3), 0L, whole)
      expect_gt(sum(expected == 0), 0)
      expect_identical(as.integer(predict(model, data$x, by = by, beyond = beyond)), expected)
    }
  }
  members <- data$population > 0
  share <- mean(predict(model, data$x[members, ], beyond = 0.99) == 0)
  expect_lt(abs(share - 0.01), 0.006)
})

test_that("the top are the best populations in their order", {
  data <- cells_in_populations(1000, 4, 5)
  model <- model_of(data)
  y <- data$x[1:200, ]
  for (type in c("distance", "posterior")) {
    all <- predict(model, y, type)
    for (m in c(1, 3, 5)) {
      top <- predict(model, y, type, top = m)
      expect_identical(dim(top$index), c(200L, as.integer(m)))
      order <- t(apply(all, 1, order, decreasing = type == "posterior"))[, seq_len(m), drop = FALSE]
      expect_identical(top$index, order)
      expect_identical(c(top$value), all[cbind(rep(1:200, m), c(order))])
    }
  }
})

test_that("the first of equal populations is chosen", {
  data <- cells_in_populations(400, 3, 2)
  model <- model_of(data)
  model$means <- rbind(model$means, model$means)
  model$covariances <- array(model$covariances, c(3, 3, 4))
  model$sizes <- c(model$sizes, model$sizes)
  model$population <- 1:4
  model$levels <- letters[1:4]
  expect_true(all(predict(model, data$x) %in% 1:2))
  expect_true(all(predict(model, data$x, by = "posterior") %in% 1:2))
  top <- predict(model, data$x, "distance", top = 2)
  expect_identical(top$index[, 2], top$index[, 1] + 2L)
})

test_that("the number of threads changes no bit", {
  data <- cells_in_populations(30000, 7, 3)
  model <- model_of(data, threads = 1)
  expect_identical(model_of(data, threads = 8), model)
  for (type in c("class", "distance", "posterior")) {
    one <- predict(model, data$x, type, threads = 1)
    expect_identical(predict(model, data$x, type, threads = 8), one)
  }
})

test_that("cells are not copied from other rows", {
  data <- cells_in_populations(9000, 3, 3)
  model <- model_of(data)
  all <- predict(model, data$x, "posterior")
  for (rows in list(1L, 9000L, 5:70, c(4097L, 2L, 64L, 65L))) {
    expect_identical(predict(model, data$x[rows, , drop = FALSE], "posterior"),
                     all[rows, , drop = FALSE])
  }
})

test_that("one row and no rows have results of their own size", {
  model <- model_of(cells_in_populations(500, 3, 2))
  none <- matrix(0, 0, 3)
  expect_identical(dim(predict(model, none, "distance")), c(0L, 2L))
  expect_identical(colnames(predict(model, none, "posterior")), c("1", "2"))
  expect_identical(lengths(predict(model, none, "distance", top = 1)), c(index = 0L, value = 0L))
  class <- predict(model, none)
  expect_identical(as.integer(class), integer(0))
  expect_identical(attr(class, "sizes"), c(0, 0))
  expect_length(predict(model, model$means[2, , drop = FALSE]), 1)
  expect_identical(as.integer(predict(model, model$means)), 1:2)
})

test_that("columns are matched by name", {
  data <- cells_in_populations(500, 4, 3)
  model <- model_of(data)
  expected <- predict(model, data$x, "distance")
  y <- cbind(extra = NaN, data$x[, c(3, 1, 4, 2)], text = Inf)
  expect_identical(predict(model, y, "distance"), expected)
  expect_identical(predict(model, as.data.frame(data$x[, 4:1]), "distance"), expected)
  expect_identical(predict(model, unname(data$x), "distance"), expected)
  refused(predict(model, data$x[, -(2:3)]),
          "`newdata` lacks columns \"M2\", \"M3\"; it needs all columns")
  refused(predict(model, unname(data$x[, 1:3])),
          "`newdata` has 3 columns; the populations were found in 4")
  refused(predict(model, cbind(data$x, M2 = 0)), "`newdata` has several columns \"M2\"")
  # Data without names take any names.
  unnamed <- model_of(list(x = unname(data$x), population = data$population))
  expect_identical(predict(unnamed, data$x, "distance"), expected)
  refused(predict(unnamed, cbind(data$x, 1)), "columns cannot be matched by name")
})

test_that("additional columns of a data frame are ignored, also if they are not numeric", {
  data <- cells_in_populations(500, 4, 3)
  model <- model_of(data)
  y <- data.frame(id = "a", data$x[, c(3, 1, 4, 2)], when = as.Date("2020-01-01"))
  rownames(y) <- paste("cell", 1:500)
  found <- predict(model, y)
  expect_identical(unname(as.integer(found)), as.integer(predict(model, data$x)))
  expect_named(found, rownames(y))
  if (requireNamespace("tibble", quietly = TRUE)) {
    expect_identical(predict(model, tibble::as_tibble(y)), predict(model, data$x))
  }
  # A column that is needed must be numeric, and there must be one of its name.
  y$M2 <- "a"
  refused(predict(model, y), "`newdata` has a non-numeric column: \"M2\" (character)")
  y$M2 <- y$id <- 0
  names(y)[1] <- "M3"
  refused(predict(model, y), "`newdata` has several columns \"M3\"")
})

test_that("redundant columns are left out, and new cells need not have them", {
  data <- cells_in_populations(500, 3, 3)
  expected <- predict(model_of(data), data$x, "distance")
  wide <- list(x = cbind(flat = 7, data$x, sum = data$x[, 1] + data$x[, 2]),
               population = data$population)
  model <- model_of(wide)
  expect_identical(model$used, 2:4)
  expect_identical(model$width, 5L)
  expect_identical(predict(model, data$x, "distance"), expected)
  expect_identical(predict(model, unname(wide$x), "distance"), expected)
})

test_that("values that are not finite are an error that names row and column", {
  data <- cells_in_populations(300, 3, 2)
  model <- model_of(data)
  data$x[17, 2] <- NA
  refused(predict(model, data$x), "`newdata` has NA in row 17, column \"M2\"; every value")
  wide <- list(x = cbind(7, unname(cells_in_populations(300, 3, 2)$x)),
               population = data$population)
  y <- wide$x
  y[, 1] <- NA
  y[299, 3] <- -Inf
  refused(predict(model_of(wide), y), "`newdata` has -Inf in row 299, column 3; every value")
})

test_that("a DelayedMatrix is read in blocks, with the bits of the matrix", {
  skip_if_not_installed("DelayedArray")
  data <- cells_in_populations(1000, 4, 3)
  model <- model_of(data)
  before <- DelayedArray::getAutoBlockSize()
  on.exit(suppressMessages(DelayedArray::setAutoBlockSize(before)))
  suppressMessages(DelayedArray::setAutoBlockSize(70 * 4 * 8))
  y <- cbind(data$x[, 4:1], extra = 1)
  rownames(y) <- paste0("cell", 1:1000)
  delayed <- DelayedArray::DelayedArray(y)
  expect_gt(length(DelayedArray::rowAutoGrid(delayed)), 5)
  for (type in c("class", "distance", "posterior")) {
    expect_identical(predict(model, delayed, type), predict(model, y, type))
  }
  expect_identical(predict(model, delayed, "posterior", top = 2),
                   predict(model, y, "posterior", top = 2))
  expect_identical(predict(model, delayed[0, ], "distance"), predict(model, y[0, ], "distance"))
  expect_identical(predict(model, delayed, progress = TRUE), predict(model, y))
  y[901, "M2"] <- NaN
  refused(predict(model, DelayedArray::DelayedArray(y)),
          "`newdata` has NaN in row 901, column \"M2\"")
  # By number, redundant columns included.
  wide <- list(x = cbind(7, unname(data$x)), population = data$population)
  model <- model_of(wide)
  expect_identical(predict(model, DelayedArray::DelayedArray(wide$x), "distance"),
                   predict(model, wide$x, "distance"))
})

test_that("new cells are any object that observations() takes", {
  data <- cells_in_populations(400, 3, 2)
  data$x[] <- round(10 * data$x)
  model <- model_of(data)
  expected <- predict(model, data$x, "distance")
  integers <- data$x
  storage.mode(integers) <- "integer"
  expect_identical(predict(model, integers, "distance"), expected)
  skip_if_not_installed("Matrix")
  expect_identical(predict(model, Matrix::Matrix(data$x, sparse = TRUE), "distance"), expected)
  refused(predict(model, 1:3), "`newdata` is a vector of length 3")
  refused(predict(model, letters), "`newdata` is a character vector")
  refused(predict(model, data$x, nonsense = 1), "unused argument: `nonsense`")
})

test_that("the space of a model does not depend on the number of cells", {
  bytes <- vapply(c(400, 4000), function(n) {
    found <- some_populations(n, 4)
    expect_length(found, n)
    file <- tempfile(fileext = ".rds")
    on.exit(unlink(file))
    saveRDS(population_model(found), file, compress = FALSE)
    expect_identical(predict(readRDS(file), some_cells(300), "posterior"),
                     predict(found, some_cells(300), "posterior"))
    file.size(file)
  }, 0)
  expect_identical(bytes[1], bytes[2])
  expect_lt(bytes[1], 4 * 14 * 14 * 8 + 4000)
})

test_that("names that populations got later are those of the results", {
  found <- some_populations(500, 3)
  expect_identical(levels(found), c("1", "2", "3"))
  levels(found) <- c("CD4 T", "CD8 T", "rest")
  y <- some_cells(50)
  expect_identical(colnames(predict(found, y, "distance")), c("CD4 T", "CD8 T", "rest"))
  expect_identical(levels(predict(found, y)), c("CD4 T", "CD8 T", "rest"))
  expect_output(print(population_model(found)), "CD8 T")
})

test_that("a population of several components is as near as its nearest, as likely as all", {
  data <- cells_in_populations(2000, 3, 5)
  parts <- model_of(data)
  joined <- parts
  joined$population <- c(2L, 1L, 2L, 3L, 1L)
  joined$levels <- c("a", "b", "c")
  of <- list(c(2, 5), c(1, 3), 4)
  distance <- predict(parts, data$x, "distance")
  least <- vapply(of, function(i) apply(distance[, i, drop = FALSE], 1, min), numeric(2000))
  expect_identical(predict(joined, data$x, "distance"), `colnames<-`(least, joined$levels))
  posterior <- predict(parts, data$x, "posterior")
  sums <- vapply(of, function(i) rowSums(posterior[, i, drop = FALSE]), numeric(2000))
  expect_equal(predict(joined, data$x, "posterior"), sums, tolerance = 1e-13, ignore_attr = TRUE)
  expect_identical(as.integer(predict(joined, data$x)), max.col(-least, "first"))
  expect_identical(as.integer(predict(joined, data$x, by = "posterior")),
                   max.col(predict(joined, data$x, "posterior"), "first"))
  far <- apply(least, 1, min)^2 > qchisq(0.5, 3)
  expect_identical(as.integer(predict(joined, data$x, beyond = 0.5)) == 0L, far)
})

test_that("a population with a singular covariance has the pooled one", {
  data <- cells_in_populations(600, 3, 3)
  data$x[data$population == 2, 2] <- 1
  few <- which(data$population == 3)
  data$population[few[-(1:3)]] <- 0L
  expect_message(model <- model_of(data, c("A", "B", "C")), class = "gmhclust_message_singular",
                 "the covariances of populations B, C are singular, so these have the pooled")
  scatters <- lapply(1:3, function(i) {
    own <- data$x[data$population == i, ]
    cov(own) * (nrow(own) - 1)
  })
  pooled <- Reduce(`+`, scatters) / (sum(data$population > 0) - 3)
  expect_equal(model$covariances[, , 2], pooled, tolerance = 1e-12, ignore_attr = TRUE)
  expect_identical(model$covariances[, , 3], model$covariances[, , 2])
  expect_equal(model$covariances[, , 1], cov(data$x[data$population == 1, ]), tolerance = 1e-12,
               ignore_attr = TRUE)
  expect_identical(model$metric, "mahalanobis")
  squared <- mahalanobis(data$x, colMeans(data$x[data$population == 2, ]), pooled)
  expect_equal(predict(model, data$x, "distance")[, "B"]^2, squared, tolerance = 1e-10)
})

test_that("with a singular pooled covariance, distances are Euclidean", {
  data <- cells_in_populations(60, 4, 2)
  data$x <- cbind(data$x, rnorm(60) + data$population)
  data$x[, 5] <- data$population
  expect_message(model <- model_of(data), class = "gmhclust_message_singular",
                 "so is the pooled covariance")
  expect_identical(model$metric, "euclidean")
  expect_null(model$covariances)
  variance <- sum(vapply(1:2, function(i) {
    own <- data$x[data$population == i, ]
    sum((t(own) - colMeans(own))^2)
  }, 0)) / (5 * (sum(data$population > 0) - 2))
  expect_equal(model$variance, variance, tolerance = 1e-12)
  squared <- vapply(1:2, function(i) {
    colSums((t(data$x) - colMeans(data$x[data$population == i, ]))^2) / variance
  }, numeric(60))
  expect_equal(predict(model, data$x, "distance")^2, squared, tolerance = 1e-12,
               ignore_attr = TRUE)
  logs <- rep(log(tabulate(data$population, 2)), each = 60) - squared / 2
  expect_equal(predict(model, data$x, "posterior"), shares(logs), tolerance = 1e-10,
               ignore_attr = TRUE)
  expect_output(print(model), "by 5 columns, Euclidean:", fixed = TRUE)
})

test_that("more columns than cells take no matrix of columns by columns", {
  set.seed(3)
  x <- matrix(rnorm(30 * 5000), 30)
  x[1:15, ] <- x[1:15, ] + 1
  found <- suppressMessages(cut_populations(ghclust(x, "ward.D2"), 2, 5, x = x))
  model <- population_model(found)
  expect_identical(model$metric, "euclidean")
  expect_lt(object.size(model), 4 * object.size(model$means))
  expect_identical(as.integer(predict(model, x)), as.integer(found))
})

test_that("one population, and populations of one cell, have a model", {
  data <- cells_in_populations(200, 3, 1)
  model <- model_of(data)
  expect_identical(unique(as.integer(predict(model, data$x))), 1L)
  expect_identical(unique(c(predict(model, data$x, "posterior"))), 1)
  single <- suppressMessages(cut_populations(ghclust(data$x[1:4, ], "single"), 4, 1,
                                             x = data$x[1:4, ]))
  # 1 cell each: the square root of the variance 1 is the unit.
  expect_equal(unname(predict(single, data$x[1:4, ], "distance")),
               unname(as.matrix(dist(data$x[1:4, ])))[, order(as.integer(single))],
               tolerance = 1e-14)
})

test_that("offsets and scales of columns do not matter", {
  data <- cells_in_populations(800, 3, 3)
  expected <- predict(model_of(data), data$x, "distance")
  data$x <- data$x * rep(c(1e-9, 1, 1e9), each = 800) + rep(c(1e-4, 1e6, 1e12), each = 800)
  expect_silent(model <- model_of(data))
  expect_equal(predict(model, data$x, "distance"), expected, tolerance = 1e-6)
})

test_that("populations without observations have no model", {
  found <- cut_populations(ghclust(some_cells(300), "average"), 3, 10)
  advice <- "was found without observations, so it has no means and covariances; give them to"
  refused(predict(found, some_cells(10)), paste("`object`", advice), "predict.populations")
  refused(population_model(found), paste("`populations`", advice), "population_model")
  refused(population_model(1), "`populations` is 1; it must be", "population_model")
})

test_that("invalid arguments are refused", {
  data <- cells_in_populations(300, 3, 2)
  model <- model_of(data)
  refused(predict(model), "`newdata` is missing")
  refused(predict(model, NULL), "`newdata` is NULL")
  refused(predict(model, data$x, "nearest"), "`type` is \"nearest\"")
  refused(predict(model, data$x, by = 2), "`by` is 2")
  for (beyond in list(0, 1.1, NA, "1", c(0.5, 0.6))) {
    refused(predict(model, data$x, beyond = beyond), "`beyond` is")
  }
  refused(predict(model, data$x, "distance", beyond = 0.9), "only classes depend on it")
  refused(predict(model, data$x, top = 1), "`top` is 1 with type \"class\"")
  refused(predict(model, data$x, "distance", top = 3), "`top` is 3; it must be a whole number")
  refused(predict(model, data$x, threads = 0), "`threads` is 0")
  refused(predict(model, data$x, progress = NA), "`progress` is NA")
})

test_that("unsound models are refused", {
  data <- cells_in_populations(300, 3, 2)
  sound <- model_of(data)
  damaged <- function(...) utils::modifyList(sound, list(...), keep.null = TRUE)
  for (model in list(
    damaged(means = "a"), damaged(means = sound$means[1, ]), damaged(sizes = 1),
    damaged(population = c(1L, 3L)), damaged(population = 1:2 + 0), damaged(levels = NULL),
    damaged(levels = 1:2), damaged(used = c(1L, 2L, 9L)), damaged(used = 1:2),
    damaged(width = "3"), damaged(columns = letters), damaged(covariances = NULL),
    damaged(covariances = sound$covariances[, , 1]), damaged(metric = "euclidean"),
    structure(list(), class = "population_model"), structure(1, class = "population_model")
  )) {
    refused(predict(model, data$x), "`object` has an invalid population model")
    refused(print(model), "`x` has an invalid population model", "print.population_model")
  }
  for (model in list(
    damaged(means = sound$means * NaN), damaged(sizes = c(5, -1)),
    damaged(covariances = sound$covariances * 0)
  )) {
    refused(predict(model, data$x), "the population model is not sound")
  }
})

test_that("columns in another order are refused if their names cannot be matched but show it", {
  x <- structure(blobs(300, 3), dimnames = list(NULL, c("A", "A", "B")))
  population <- cut_populations(gmhclust(x, warn = FALSE), x = x, k = 3)
  expect_length(predict(population, x), 300)
  expect_length(predict(population, unname(x[, 3:1])), 300)
  expect_error(predict(population, x[, 3:1]), "columns of the populations' observations in another",
               class = "gmhclust_error_input")
})
