#' Hierarchical clustering at the speed of compiled threads and GPUs
#'
#' Mahalanobis-average hierarchical clustering ([gmhclust()]) for data sets of up to millions of
#' observations, with results that every function for [stats::hclust()] trees takes. The work is
#' done by a library written in Rust that needs memory proportional to the data only, never a
#' matrix of all distances.
#'
#' * [gmhclust()] clusters; [mhclust()] is the same under the arguments of package \pkg{mhca}.
#' * [gcutree()] cuts a tree into clusters, [cutree_apriori()] cuts off what lies within apriori
#'   clusters, [make_monotone()] removes inversions, [check_hclust()] says what is wrong with a
#'   tree.
#' * [gdist()] computes distances: those of [stats::dist()], and correlation distances.
#' * [gknn()] finds nearest neighbours, [as_edges()] and [as_igraph()] make graphs of them, and
#'   [gmst()] builds the minimum spanning tree.
#' * [gkmeans()] finds k-means clusters, also to start [gmhclust()] with.
#' * [gpu_devices()] lists the GPUs that can help, and why others cannot.
#' * [lymphocytes()] reads the example data.
#'
#' @section Errors:
#' Every error is a condition of class `gmhclust_error` and of one of
#' * `gmhclust_error_input`: an argument is not what it needs to be,
#' * `gmhclust_error_device`: the backend asked for cannot be used,
#' * `gmhclust_error_memory`: the data do not fit,
#' * `gmhclust_error_interrupt`: the user interrupted the work.
#'
#' so that `tryCatch(gmhclust(X), gmhclust_error_input = function(e) ...)` catches one kind.
#'
#' @aliases NULL gmhclust-package
#' @keywords internal
"_PACKAGE"
