#' gmhclust for Bioconductor
#'
#' Lets Bioconductor packages use the clusterings and searches of package \pkg{gmhclust}.
#'
#' * [GmhclustParam()]: Mahalanobis-average hierarchical clustering, for `clusterRows()` of package
#'   \pkg{bluster} and `clusterCells()` of package \pkg{scran}.
#' * [GkmeansParam()]: exact k-means, for the same functions.
#' * [GknnParam()]: exact nearest neighbours, for every argument `BNPARAM`, as in \pkg{scran},
#'   \pkg{scater}, \pkg{bluster} and \pkg{BiocNeighbors} itself.
#'
#' @section Linkages of hclust:
#' [gmhclust::ghclust()] takes the place of [stats::hclust()] in `HclustParam()`, by its arguments
#' `clust.fun` and `dist.fun`, which \pkg{bluster} has since Bioconductor 3.20 at the latest. For
#' Ward's linkage of the rows of `x`:
#' ```
#' param <- HclustParam(
#'   clust.fun = ghclust, dist.fun = identity, method = "ward.D2", cut.params = list(k = 5)
#' )
#' clusterRows(x, param)
#' ```
#' `dist.fun = identity` passes the rows themselves: there is no matrix of all distances, whose
#' memory grows with the square of the number of rows. `dist.fun = gdist` passes distances, for
#' `cut.dynamic = TRUE`. `cut.fun = gcutree` cuts large trees faster.
#'
#' @aliases gmhclustBioc gmhclustBioc-package
#' @keywords internal
"_PACKAGE"
