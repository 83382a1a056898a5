#' Clustering, distances and nearest neighbours on CPU and GPU
#'
#' Mahalanobis-average hierarchical clustering ([gmhclust()]) of up to millions of observations. The
#' result works with every function for [stats::hclust()] trees. A library in Rust and CUDA does the
#' work. [gmhclust()] needs no matrix of all distances, so its memory is proportional to the data.
#'
#' * [gmhclust()] clusters; [mhclust()] is the same with the arguments of package \pkg{mhca}.
#' * [ghclust()] clusters by the linkages of [stats::hclust()].
#' * [cut_populations()] finds populations of a minimum size, [plot_populations()] draws them with
#'   the medians of all markers, and [plot_tree()] draws the top of a tree. [report()] writes a page
#'   on which a person chooses and names populations. [stability()] shows which populations can be
#'   trusted, and [`predict()`][predict.populations] maps new cells to them.
#' * [gcutree()] cuts a tree into clusters, [cutree_top()] and [cutree_apriori()] cut off its lower
#'   part, [make_monotone()] removes inversions, [check_hclust()] checks that a tree is valid.
#' * [gdist()] computes the distances of [stats::dist()], and correlation distances.
#' * [gknn()] finds the nearest neighbours, and [gneighbours()] all neighbours within a radius;
#'   [as_igraph()], [as_uwot()], [as_hits()] and [as_edges()] convert them for other packages;
#'   [gmst()] builds the minimum spanning tree.
#' * [gkmeans()] finds k-means clusters, for example as apriori clusters of [gmhclust()].
#' * [gpu_devices()] lists GPUs, and the reasons why some cannot be used.
#' * [lymphocytes()] reads the example data.
#'
#' @section Options of a session:
#' These options set the defaults of arguments, in all functions that have the argument:
#' * `gmhclust.backend` for `backend`, initially `"auto"`;
#' * `gmhclust.threads` for `threads`;
#' * `gmhclust.devices` for `devices`;
#' * `gmhclust.memory` for `memory`;
#' * `gmhclust.progress` for `progress`, initially `interactive()`.
#'
#' Option `gmhclust.scratch` is the folder for scratch files, [tempdir()] if it is not set; see
#' [gkmeans()].
#'
#' For example `options(gmhclust.threads = 4, gmhclust.progress = FALSE)`.
#'
#' @section Errors:
#' Every error is a condition of class `gmhclust_error` and of a more specific class, such as
#' `gmhclust_error_input`. So `tryCatch(gmhclust(x), gmhclust_error_input = function(e) ...)`
#' catches one kind. [gmhclust_conditions] lists all errors, warnings and messages.
#'
#' @aliases NULL gmhclust-package
#' @keywords internal
"_PACKAGE"
