# Results and labels depend on no option of R, and not on the locale.
x <- some_cells(120)[, 1:4]
groups <- rep(c(0, 100000, 3), 40)
names_of_groups <- rep(c("0", "100000", "3"), 40)

# Results of all functions, as text and as objects.
all_results <- function() {
  set.seed(1)
  h <- gmhclust(x, threshold = 15, apriori = groups)
  populations <- cut_populations(h, 2, min_members = 5, rest = "nearest", x = x)
  clear <- suppressMessages(cut_populations(h, min_members = 5, x = x))
  named <- name_populations(populations, c("CD4 T" = 1))
  nn <- gknn(x, 3, metric = "canberra", zero_over_zero = 0)
  list(
    h, mhclust(x, 15, g = groups, warn = FALSE), cutree_apriori(h), cutree_top(h, 5),
    populations, capture.output(print(populations)), capture.output(print(h$settings)),
    clear, capture.output(print(clear)), predict(populations, x, "posterior"),
    gcutree(h, k = 2:4), make_monotone(h), check_hclust(h), ghclust(x, "average"),
    gmhclust(x, 15, apriori = names_of_groups), gmhclust(x, 15, apriori = factor(names_of_groups)),
    gdist(x), gdist(x, "canberra", zero_over_zero = 1), nn, as_edges(nn), gneighbours(x, 2),
    gmst(x), gkmeans(x, 3, 50), observations(as.data.frame(x)),
    observations(flow_cells(50)$frame, cofactor = 2.5), named,
    name_populations(named, c("CD4 T" = "2")), count_populations(named, names_of_groups, TRUE),
    count_populations(named, groups), nested_cuts(h, 2:3, 5, NULL, NULL),
    cluster_codes(nested_cuts(h, 2:3, 5, data_of_leaves(x, h, "x", NULL), NULL)),
    on_no_screen(plot_populations(h, x, populations, gates = names_of_groups, engine = "base"))
  )
}

expected <- all_results()

test_that("the label 0 means none, under every option", {
  inside <- sum(groups != 0) - 2L
  expect_identical(expected[[1]]$n.height.apriori, inside)
  expect_identical(unique(expected[[3]]$labels)[1:2], c("3", "100000"))
})

test_that("results are the same under every option and locale", {
  under <- list(
    list(scipen = -10), list(scipen = 100), list(OutDec = ","), list(digits = 3), list(digits = 15),
    list(warn = 2), list(width = 40), list(keep.source = TRUE),
    list(warnPartialMatchDollar = TRUE, warnPartialMatchArgs = TRUE, warn = 2)
  )
  for (setting in under) {
    before <- options(setting)
    found <- tryCatch(all_results(), error = identity, finally = options(before))
    expect_identical(found, expected, info = deparse(setting))
  }
  suppressWarnings(before <- options(stringsAsFactors = TRUE))
  found <- all_results()
  suppressWarnings(options(before))
  expect_identical(found, expected)
  collate <- Sys.getlocale("LC_COLLATE")
  on.exit(Sys.setlocale("LC_COLLATE", collate))
  Sys.setlocale("LC_COLLATE", "C")
  expect_identical(all_results(), expected)
})
