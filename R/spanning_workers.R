# Spanning trees by workers. The workers find the nearest other rows of each row, which is most of
# the work. This process joins the components, and searches again where these rows are not enough.

# Number of nearest other rows that workers find for each row, unless `min_points` needs more.
rows_for_tree <- 8

# The nearest other rows of each row of x, found by workers, as job_gknn() returns them; NULL
# without workers. `source` is the user's data. `device` is the device of the workers; without
# workers it is not evaluated, so its messages come only once.
precomputed_neighbours <- function(source, x, metric, min_points, workers, device, call) {
  if (is.null(workers)) return(NULL)
  k <- as.integer(min(nrow(x) - 1, max(rows_for_tree, min_points - 1)))
  check_memory("the neighbours that workers find need", 40 * k * nrow(x), call)
  search <- list(
    # Files are read by each worker.
    x = if (is_in_blocks(source)) source else x, query = NULL, own = NULL, k = k,
    metric = metric, device = device, get_distance = TRUE, packages = packages_of_rows(source)
  )
  gknn_in_blocks(search, NULL, NULL, c(1L, 1L), workers, FALSE, call)
}
