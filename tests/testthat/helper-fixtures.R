fixture_names <- function() {
  sub("\\.json$", "", list.files(test_path("fixtures", "mhca"), pattern = "\\.json$"))
}

read_fixture <- function(name) {
  jsonlite::fromJSON(test_path("fixtures", "mhca", paste0(name, ".json")))
}

# Merges equal row by row, heights within 1e-9 relative to the height (absolute below 1).
expect_tree <- function(tree, merge, height) {
  expect_identical(tree$merge, unname(merge))
  expect_lt(max(abs(tree$height - height) / pmax(1, abs(height))), 1e-9)
}
