#' Exact k-means for clusterRows()
#'
#' Runs [gmhclust::gkmeans()], k-means on all cores or a GPU, from `clusterRows()` of package
#' \pkg{bluster}. Use it in place of \pkg{bluster}'s `KmeansParam()`, also as the first step of
#' `TwoStepParam()`.
#'
#' @param centers The number of clusters, or a function that takes the number of rows and returns
#'   the number of clusters.
#' @param iter.max,nstart,init The arguments of [gmhclust::gkmeans()].
#' @param ... Other arguments of [gmhclust::gkmeans()], by name: `backend`, `threads`, `devices`,
#'   `progress`.
#' @param x For `clusterRows()`, a matrix with an observation in each row, or another object that
#'   [gmhclust::observations()] takes.
#' @param BLUSPARAM A `GkmeansParam` object.
#' @param full Whether to return the result of [gmhclust::gkmeans()] as well.
#' @param object A `GkmeansParam` object.
#'
#' @return `GkmeansParam()`: an object of this class. `clusterRows()`: a factor with the cluster of
#'   each row. With `full = TRUE`, a list: `clusters` is this factor, and `objects` is a list whose
#'   component `kmeans` is the result of [gmhclust::gkmeans()].
#' @seealso [GmhclustParam()]; `clusterRows()` of package \pkg{bluster}.
#'
#' @examples
#' library(bluster)
#' set.seed(1)
#' table(clusterRows(as.matrix(iris[1:4]), GkmeansParam(3, nstart = 5)), iris$Species)
#'
#' # 100 k-means clusters, then their centers by linkage:
#' x <- as.matrix(lymphocytes()[1:14])
#' steps <- TwoStepParam(first = GkmeansParam(100), second = HclustParam(cut.params = list(k = 6)))
#' table(clusterRows(x, steps))
#' @name GkmeansParam-class
#' @aliases GkmeansParam-class
NULL

#' @rdname GkmeansParam-class
#' @export
#' @importClassesFrom bluster FixedNumberParam
methods::setClass(
  "GkmeansParam",
  contains = "FixedNumberParam",
  slots = c(iter.max = "numeric", nstart = "numeric", init = "character", more = "list")
)

S4Vectors::setValidity2("GkmeansParam", function(object) {
  all_valid(
    check_number(object@iter.max, "iter.max", 1, whole = TRUE),
    check_number(object@nstart, "nstart", 1, whole = TRUE),
    check_one_of(object@init, "init", choices_of("gkmeans", "init")),
    check_more(object@more, "gkmeans", c("x", "centers", "iter.max", "nstart", "init"))
  )
})

#' @rdname GkmeansParam-class
#' @export
GkmeansParam <- function(centers, # nolint: object_name_linter.
                         iter.max = 300, # nolint: object_name_linter.
                         nstart = 1,
                         init = c("kmeans++", "random"),
                         ...) {
  if (!is.function(centers)) {
    wrong <- check_number(centers, "centers", 1, whole = TRUE)
    if (!is.null(wrong)) stop(wrong, ", or a function of the number of rows")
    centers <- as.integer(centers)
  }
  methods::new(
    "GkmeansParam", centers = centers, iter.max = iter.max, nstart = nstart,
    init = first_choice(init, missing(init)), more = list(...)
  )
}

#' @rdname GkmeansParam-class
#' @export
methods::setMethod("show", "GkmeansParam", function(object) {
  methods::callNextMethod()
  show_slots(object, c("iter.max", "nstart", "init", "more"))
})

#' @rdname GkmeansParam-class
#' @export
#' @importFrom bluster centers
methods::setMethod("clusterRows", c("ANY", "GkmeansParam"), function(x, BLUSPARAM, # nolint
                                                                     full = FALSE) {
  x <- observations_of(x)
  fit <- run_gmhclust("gkmeans", x, c(
    list(
      centers = centers(BLUSPARAM, n = nrow(x)), iter.max = BLUSPARAM@iter.max,
      nstart = BLUSPARAM@nstart, init = BLUSPARAM@init
    ),
    BLUSPARAM@more
  ))
  clusters <- factor(fit$cluster)
  if (full) list(clusters = clusters, objects = list(kmeans = fit)) else clusters
})
