# Usage: Rscript bioc-check.R PACKAGE
#
# Runs BiocCheck on a source package without a network, as for a new package of Bioconductor. Stops
# with an error if BiocCheck has an error or a warning.

# BiocManager asks a server which Bioconductor belongs to this R; this file answers instead. With
# every release of Bioconductor from 3.20 on, the minor versions of its packages grew by 2.
minor <- unlist(packageVersion("BiocGenerics"))[[2]]
release <- 20 + (minor - 52) %/% 2
versions <- sprintf("3.%d", release + 0:1)
config <- tempfile(fileext = ".yaml")
writeLines(c(
  sprintf("release_version: \"%s\"", versions[[1]]),
  sprintf("devel_version: \"%s\"", versions[[2]]),
  "r_ver_for_bioc_ver:",
  sprintf("  \"%s\": \"%s\"", versions, getRversion()[, 1:2])
), config)
options(BIOCONDUCTOR_CONFIG_FILE = config)
Sys.setenv(R_BIOC_VERSION = versions[[1]])

# BiocCheck does not install the package, because it would take the library that this makes for a
# file of the package. Before 1.48 it always does.
found <- BiocCheck::BiocCheck(
  commandArgs(trailingOnly = TRUE),
  install = FALSE, `no-check-file-size` = packageVersion("BiocCheck") < "1.48",
  `new-package` = TRUE, `no-check-bioc-help` = TRUE, `no-check-CRAN` = TRUE,
  `no-check-deprecated` = TRUE
)
quit(status = as.integer(found$getNum("error") + found$getNum("warning") > 0))
