tree <- hclust(dist(USArrests), "average")
found <- cut_populations(tree, 3, 5)
number <- stats::setNames(as.integer(found), names(found))

test_that("an assignment makes populations a plain vector, without sizes that no longer fit", {
  changed <- found
  changed[1:2] <- 0L
  expect_identical(changed, replace(number, 1:2, 0L))
  changed <- found
  changed["Texas"] <- 2
  expect_identical(changed, replace(number, "Texas", 2))
  changed <- found
  changed[found == 1] <- found[found == 1]
  expect_identical(changed, number)
  changed <- found
  changed[] <- found
  expect_identical(changed, number)
  changed <- found
  changed[["Texas"]] <- 0L
  expect_identical(changed, replace(number, "Texas", 0L))
  changed <- found
  is.na(changed) <- 4
  expect_identical(changed, replace(number, 4, NA))
  expect_s3_class(found, "populations", exact = TRUE)
})
