test_that("all worked cases exist", {
  expect_length(fixture_names(), 32)
})

for (name in fixture_names()) {
  test_that(paste(name, "gives the merges and heights of the definition"), {
    case <- read_fixture(name)
    tree <- gmhclust(
      case$x,
      threshold = case$threshold, apriori = case$apriori, subthreshold = case$subthreshold,
      distance = if (case$quick) "centroid" else "full", normalize = case$normalize,
      apriori_intra = is.null(case$apriori_intra) || case$apriori_intra
    )
    expect_tree(tree, case$merge, case$height)
    expect_true(check_hclust(tree))
    expect_identical(tree$n.height.apriori, case$apriori_merges)
    expect_identical(tree$g.labels, case$apriori_labels)
    expect_identical(tree$apriori, case$apriori)
  })
}
