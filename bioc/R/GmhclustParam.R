#' Mahalanobis-average clustering for clusterRows()
#'
#' Runs [gmhclust::gmhclust()] from `clusterRows()` of package \pkg{bluster}, and so from
#' `clusterCells()` in versions of package \pkg{scran} in which that function is not deprecated.
#' Clusters the rows, and cuts the tree into populations or into a number of clusters.
#'
#' @param threshold,apriori,subthreshold,distance The arguments of [gmhclust::gmhclust()], with its
#'   defaults: `threshold = NULL` is five times the number of columns, and less for small data.
#' @param cut How to cut the tree: `"populations"` by [gmhclust::cut_populations()], which leaves
#'   out outliers; `"tree"` by [gmhclust::gcutree()], where each outlier is a cluster of its own; or
#'   a function that takes the tree and returns a vector with the cluster of each row, 0 or `NA` for
#'   none.
#' @param k The number of populations or clusters. `NULL` finds the populations that density valleys
#'   separate; `cut = "tree"` needs a number.
#' @param min_members,rest The arguments of [gmhclust::cut_populations()]: the minimum number of
#'   members of a population, and whether rows outside all populations are assigned to the nearest
#'   population (`"nearest"`) or to none (`"none"`). `"nearest"` is the default, because other
#'   functions of a pipeline, such as `approxSilhouette()`, stop at rows without a cluster.
#' @param ... Other arguments of [gmhclust::gmhclust()], by name: `normalize`, `scale`,
#'   `apriori_intra`, `redundant`, `warn`, `backend`, `threads`, `devices`, `progress`, `BPPARAM`.
#' @param x For `clusterRows()`, a matrix with an observation in each row, or another object that
#'   [gmhclust::observations()] takes.
#' @param BLUSPARAM A `GmhclustParam` object.
#' @param full Whether to return the tree as well.
#' @param object A `GmhclustParam` object.
#'
#' @details
#' `GmhclustParam` is not one of \pkg{bluster}'s `HierarchicalParam` classes. The
#' `HierarchicalParam` classes cut trees by height or by `cutree()`, but heights of this linkage
#' have inversions, and `cutree()` with a small `k` mostly separates outliers. To use
#' [gmhclust::ghclust()], which has no inversions, with \pkg{bluster}'s own `HclustParam()`, see
#' [gmhclustBioc].
#'
#' Slots are read and set by `[[`, for example `param[["k"]] <- 5`; so `clusterSweep()` works.
#'
#' @return `GmhclustParam()`: an object of this class. `clusterRows()`: a factor with the cluster of
#'   each row, `NA` for rows in no cluster (`rest = "none"`, or a function `cut`). With `full =
#'   TRUE`, a list: `clusters` is this factor, and `objects` is a list whose component `hclust` is
#'   the tree.
#' @seealso [GkmeansParam()]; `clusterRows()` of package \pkg{bluster}.
#'
#' @examples
#' library(bluster)
#' x <- as.matrix(lymphocytes()[seq(1, 20000, by = 20), 1:14])
#' clusters <- clusterRows(x, GmhclustParam(k = 5, min_members = 20))
#' table(clusters)
#' tapply(approxSilhouette(x, clusters)$width, clusters, mean)
#'
#' # All cells, with apriori clusters from k-means, and the tree:
#' set.seed(1)
#' param <- GmhclustParam(apriori = 30, k = 5, min_members = 20, rest = "none")
#' result <- clusterRows(x, param, full = TRUE)
#' table(result$clusters, useNA = "ifany")
#' result$objects$hclust
#' @name GmhclustParam-class
#' @aliases GmhclustParam-class
NULL

#' @rdname GmhclustParam-class
#' @export
#' @importClassesFrom bluster BlusterParam
methods::setClass(
  "GmhclustParam",
  contains = "BlusterParam",
  slots = c(
    threshold = "ANY", apriori = "ANY", subthreshold = "character", distance = "character",
    cut = "ANY", k = "ANY", min_members = "ANY", rest = "character", more = "list"
  )
)

# The arguments of gmhclust() that are slots, or that clusterRows() gives.
gmhclust_slots <- c("x", "threshold", "apriori", "subthreshold", "distance")

S4Vectors::setValidity2("GmhclustParam", function(object) {
  is_tree <- identical(object@cut, "tree")
  all_valid(
    if (!is.null(object@threshold)) check_threshold(object@threshold),
    check_one_of(object@subthreshold, "subthreshold", choices_of("gmhclust", "subthreshold")),
    check_one_of(object@distance, "distance", choices_of("gmhclust", "distance")),
    if (!is.function(object@cut)) check_one_of(object@cut, "cut", c("populations", "tree")),
    if (!is.null(object@k)) check_number(object@k, "k", 1, whole = TRUE),
    if (is_tree && is.null(object@k)) "`k` is NULL; `cut = \"tree\"` needs the number of clusters",
    if (!is.null(object@min_members)) check_threshold(object@min_members, "min_members"),
    check_unused(object),
    check_one_of(object@rest, "rest", c("nearest", "none")),
    check_more(object@more, "gmhclust", gmhclust_slots)
  )
})

choices_of <- function(of, arg) eval(formals(of_gmhclust(of))[[arg]])

check_threshold <- function(value, name = "threshold") {
  if (is.numeric(value) && length(value) == 1 && isTRUE(value > 0)) return(NULL)
  problem(name, value, "it must be one number above 0: a number of members, or a fraction below 1")
}

# Slots that the chosen cut does not read must have their defaults.
check_unused <- function(object) {
  if (identical(object@cut, "populations")) return(NULL)
  given <- c(
    if (is.function(object@cut) && !is.null(object@k)) "k",
    if (!is.null(object@min_members)) "min_members",
    if (identical(object@rest, "none")) "rest"
  )
  if (length(given) == 0) return(NULL)
  paste0("`", given[1], "` is given; only `cut = \"populations\"` ",
         if (given[1] == "k") "or \"tree\" ", "uses it")
}

#' @rdname GmhclustParam-class
#' @export
GmhclustParam <- function(threshold = NULL, # nolint: object_name_linter.
                          k = NULL,
                          min_members = NULL,
                          rest = c("nearest", "none"),
                          cut = "populations",
                          apriori = NULL,
                          subthreshold = c("mahal", "mahal0", "euclid", "euclidMahal"),
                          distance = c("full", "centroid"),
                          ...) {
  methods::new(
    "GmhclustParam",
    threshold = threshold, k = k, min_members = min_members,
    rest = first_choice(rest, missing(rest)), cut = cut, apriori = apriori,
    subthreshold = first_choice(subthreshold, missing(subthreshold)),
    distance = first_choice(distance, missing(distance)), more = list(...)
  )
}

# The default of an argument that lists its choices is the first one.
first_choice <- function(value, is_missing) if (is_missing) value[1] else value

#' @rdname GmhclustParam-class
#' @export
#' @importMethodsFrom methods show
methods::setMethod("show", "GmhclustParam", function(object) {
  methods::callNextMethod()
  show_slots(object, c("threshold", "apriori", "subthreshold", "distance", "cut", "k",
                       "min_members", "rest", "more"))
})

#' @rdname GmhclustParam-class
#' @export
#' @importFrom bluster clusterRows
methods::setMethod("clusterRows", c("ANY", "GmhclustParam"), function(x, BLUSPARAM, # nolint
                                                                      full = FALSE) {
  x <- observations_of(x)
  tree <- run_gmhclust("gmhclust", x, c(
    list(
      threshold = BLUSPARAM@threshold, apriori = BLUSPARAM@apriori,
      subthreshold = BLUSPARAM@subthreshold, distance = BLUSPARAM@distance
    ),
    BLUSPARAM@more
  ))
  clusters <- cut_tree(tree, x, BLUSPARAM)
  if (full) list(clusters = clusters, objects = list(hclust = tree)) else clusters
})

# A factor with the cluster of each row, NA for none.
#' @importFrom gmhclust cut_populations gcutree
cut_tree <- function(tree, x, param) {
  clusters <- if (is.function(param@cut)) {
    param@cut(tree)
  } else if (param@cut == "tree") {
    gcutree(tree, k = param@k)
  } else {
    cut_populations(
      tree, k = param@k, min_members = param@min_members, rest = param@rest,
      x = if (param@rest == "nearest" || is.null(param@k)) x
    )
  }
  check_cut(clusters, nrow(tree$merge) + 1L)
  # Also removes the class and the attributes of populations.
  numbers <- if (is.factor(clusters)) as.character(clusters) else as.vector(clusters)
  numbers[numbers %in% 0] <- NA
  factor(stats::setNames(numbers, names(clusters)))
}

check_cut <- function(clusters, n) {
  if (is.atomic(clusters) && length(clusters) == n) return(invisible())
  got <- if (is.atomic(clusters)) {
    paste("a vector of length", length(clusters))
  } else {
    paste("an object of class", dQuote(class(clusters)[1], FALSE))
  }
  stop("`cut` returned ", got, "; it must return the cluster of each of ", n, " rows",
       call. = FALSE)
}
