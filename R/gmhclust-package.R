#' Clustering, distances and nearest neighbours on CPU and GPU
#'
#' Mahalanobis-average hierarchical clustering ([gmhclust()]) of up to millions of observations. The
#' result works with every function for [stats::hclust()] trees. A library written in Rust and CUDA
#' does the work. Its memory is proportional to the data; it needs no matrix of all distances.
#'
#' * [gmhclust()] clusters; [mhclust()] is the same with the arguments of package \pkg{mhca}.
#' * [ghclust()] clusters by the linkages of [stats::hclust()].
#' * [cut_populations()] finds the populations of a minimum size, [plot_populations()] shows them
#'   with the medians of all markers, and `plot()` shows the top of a tree.
#' * [gcutree()] cuts a tree into clusters, [cutree_top()] and [cutree_apriori()] cut off its lower
#'   part, [make_monotone()] removes inversions, [check_hclust()] checks that a tree is valid.
#' * [gdist()] computes distances: those of [stats::dist()], and correlation distances.
#' * [gknn()] finds the nearest neighbours, and [gneighbours()] all neighbours within a radius;
#'   [as_igraph()], [as_uwot()], [as_hits()] and [as_edges()] convert them for other packages;
#'   [gmst()] builds the minimum spanning tree.
#' * [gkmeans()] finds k-means clusters, for example as apriori clusters of [gmhclust()].
#' * [gpu_devices()] lists GPUs, and the reasons why some cannot be used.
#' * [lymphocytes()] reads the example data.
#'
#' @section Options of a session:
#' These set the defaults of arguments in all functions that have them:
#' * `gmhclust.backend`, of `backend`: `"auto"` without it;
#' * `gmhclust.threads`, of `threads`;
#' * `gmhclust.devices`, of `devices`;
#' * `gmhclust.progress`, of `progress`: `interactive()` without it.
#'
#' For example `options(gmhclust.threads = 4, gmhclust.progress = FALSE)`.
#'
#' @section Errors:
#' Every error is a condition of class `gmhclust_error` and of a class of its kind, such as
#' `gmhclust_error_input`. So `tryCatch(gmhclust(x), gmhclust_error_input = function(e) ...)`
#' catches one kind. [gmhclust_conditions] lists all errors, warnings and messages.
#'
#' @aliases NULL gmhclust-package
#' @keywords internal
"_PACKAGE"
