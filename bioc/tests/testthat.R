library(testthat)
library(gmhclustBioc)

test_check("gmhclustBioc")
