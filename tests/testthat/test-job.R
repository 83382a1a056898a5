test_that("the bar never passes the end and never goes backwards", {
  expect_identical(progress_share(0, 0, furthest = 0), 0)
  expect_identical(progress_share(5, 10, furthest = 0), 0.5)
  expect_identical(progress_share(6, 100, furthest = 0.5), 0.5)
  expect_identical(progress_share(60, 100, furthest = 0.5), 0.6)
  expect_identical(progress_share(110, 100, furthest = 0.6), 1)
})
