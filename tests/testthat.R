library(testthat)
library(gmhclust)

test_check("gmhclust")
