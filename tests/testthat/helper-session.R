# The lines that a new R session prints while it runs this code, which loads the tested gmhclust by
# `library(gmhclust, lib.loc = commandArgs(TRUE))`. `env` are settings, as in system2().
in_new_session <- function(code, env) {
  skip_if_not(nzchar(system.file("Meta", package = "gmhclust")), "installed gmhclust")
  script <- tempfile(fileext = ".R")
  on.exit(unlink(script))
  writeLines(code, script)
  system2(
    file.path(R.home("bin"), "Rscript"),
    shQuote(c("--vanilla", script, dirname(system.file(package = "gmhclust")))),
    stdout = TRUE, stderr = FALSE, env = env
  )
}

# Replaces a function of gmhclust until the test ends.
local_function <- function(name, value, env = parent.frame()) {
  package <- asNamespace("gmhclust")
  put <- function(value) {
    unlockBinding(name, package)
    assign(name, value, package)
    lockBinding(name, package)
  }
  before <- package[[name]]
  put(value)
  withr::defer(put(before), env)
}
