test_that("the papers and the package are cited", {
  expect_warning(cited <- citation("gmhclust"), NA)
  expect_length(cited, 3L)
  expect_identical(
    unlist(cited$doi), c("10.1002/cyto.a.21148", "10.1007/978-3-030-85665-6_36")
  )
  package <- cited[[3L]]
  expect_identical(package$note, paste("R package version", packageVersion("gmhclust")))
  expect_match(package$title, "^gmhclust: ")
  expect_match(package$year, "^20[0-9]{2}$")
  expect_identical(package$author$given, "The gmhclust developers")
  expect_match(package$url, "^https://")
  expect_warning(toBibtex(cited), NA)
})
