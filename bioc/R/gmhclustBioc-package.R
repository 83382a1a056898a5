#' gmhclust for Bioconductor
#'
#' Lets Bioconductor packages use the clusterings and searches of package \pkg{gmhclust}.
#'
#' * [GmhclustParam()]: Mahalanobis-average hierarchical clustering, for `clusterRows()` of package
#'   \pkg{bluster} and `clusterCells()` of package \pkg{scran}.
#' * [GkmeansParam()]: exact k-means, for the same.
#' * [GknnParam()]: exact nearest neighbours, for every argument `BNPARAM`, as in \pkg{scran},
#'   \pkg{scater}, \pkg{bluster} and \pkg{BiocNeighbors} itself.
#'
#' @section Linkages of hclust:
#' [gmhclust::ghclust()] takes the place of [stats::hclust()] in `HclustParam()`, which has an
#' argument `clust.fun` in \pkg{bluster} 1.10 and later. For Ward's linkage of the rows of `x`:
#' ```
#' param <- HclustParam(clust.fun = ghclust, method = "ward.D2", cut.params = list(k = 5))
#' clusterRows(x, param)
#' ```
#' \pkg{bluster} passes a matrix of all distances, whose memory grows with the square of the number
#' of rows. Call `ghclust(x, "ward.D2")` directly where that is too much.
#'
#' @aliases gmhclustBioc gmhclustBioc-package
#' @keywords internal
"_PACKAGE"
