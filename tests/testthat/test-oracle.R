# The package against the slow implementation of the definition in helper-oracle.R.

compare <- function(x, threshold, ...) {
  expected <- oracle_gmhclust(x, threshold, ...)
  tree <- gmhclust(x, threshold, ...)
  expect_tree(tree, expected$merge, expected$height)
  expect_true(check_hclust(tree))
}

test_that("the oracle gives the merges and heights of the worked cases", {
  for (name in c("p2-mahal-fmd", "p2-mahal-cmd-normalize", "p3-euclid-cmd", "p7-mahal0-fmd",
                 "p3-euclidMahal-fmd")) {
    case <- read_fixture(name)
    distance <- if (case$quick) "centroid" else "full"
    tree <- oracle_gmhclust(case$x, case$threshold, NULL, case$subthreshold, distance,
                            case$normalize)
    expect_tree(tree, case$merge, case$height)
  }
})

for (kind in c("mahal", "mahal0", "euclid", "euclidMahal")) {
  test_that(paste(kind, "agrees with the oracle on random clusters of any dimension"), {
    for (p in c(1, 2, 5)) {
      x <- blobs(40, p, seed = p)
      compare(x, 0.2, subthreshold = kind)
      compare(x, 12, subthreshold = kind, distance = "centroid")
      compare(x, 12, subthreshold = kind, normalize = TRUE)
      compare(x, 12, subthreshold = kind, distance = "centroid", normalize = TRUE)
    }
  })

  test_that(paste(kind, "agrees with the oracle within and above apriori clusters"), {
    x <- blobs(60, 3, seed = 7)
    apriori <- rep(c(3L, 1L, 0L, 2L), c(20, 15, 5, 20))
    for (distance in c("full", "centroid")) {
      compare(x, 8, apriori, subthreshold = kind, distance = distance)
      compare(x, 25, apriori, subthreshold = kind, distance = distance, apriori_intra = FALSE)
    }
  })
}

test_that("threshold is a count from 1 on, a fraction of n below", {
  x <- blobs(30, 2)
  expect_same_tree(gmhclust(x, 0.25), gmhclust(x, 7.5))
  compare(x, 0.25)
  compare(x, 1)
  compare(x, 1000)
})
