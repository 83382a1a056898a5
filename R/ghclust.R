#' Hierarchical clustering by linkage
#'
#' What [stats::hclust()] does, many times faster, on the GPU or on all cores: from
#' dissimilarities, or from data, whose distances then never become an object in R.
#'
#' @param x Dissimilarities of n >= 2 observations as [stats::dist()] or [gdist()] makes them; or
#'   the observations themselves, a numeric, integer or logical matrix or data frame with one in
#'   each row and all values finite.
#' @param method The linkage, which may be abbreviated: `"ward.D"`, `"ward.D2"`, `"single"`,
#'   `"complete"`, `"average"` (UPGMA), `"mcquitty"` (WPGMA), `"median"` (WPGMC) or `"centroid"`
#'   (UPGMC).
#' @param members `NULL`, or a positive number for each observation: how many members it stands
#'   for, as in [stats::hclust()].
#' @param metric,absolute,p,zero_over_zero For data, the distance: `method` and the other
#'   arguments of [gdist()].
#' @param precision `"single"` keeps dissimilarities in 4 bytes instead of 8, rounded to about 7
#'   digits. Only where a matrix is needed, see *Memory*.
#' @inheritParams gmhclust
#'
#' @section What is equal to `hclust()`:
#' From dissimilarities: merges, order and heights (to 1e-12) are those of [stats::hclust()] where
#' no two candidates are equally near. Where some are, it is one of the possible trees, the same
#' one for any number of threads and any backend.
#'
#' From data, the result is that of `ghclust(gdist(x, metric), method)`, but for two linkages:
#' with Euclidean distances, `"centroid"` and `"median"` mean what they mean geometrically,
#' heights being distances between centres. These are the square roots of the heights of
#' `hclust(dist(x)^2, method)`, and what `hclust.vector()` of package \pkg{fastcluster} returns.
#' ([stats::hclust()] on plain distances has no such meaning for them; use `gdist()` first where
#' that is wanted.)
#'
#' @section Memory:
#' From data, without `members`, no matrix is needed for `"single"` with any metric, and for
#' `"ward.D2"`, `"centroid"` and `"median"` with Euclidean distances: memory grows with the size
#' of the data only, and millions of observations are possible. All other calls keep the n (n - 1)
#' / 2 dissimilarities, in 8 bytes each, and about as much again while they work; with `precision
#' = "single"` that second part takes half. 65,536 observations, where [stats::hclust()] ends,
#' take 17 GB each. Where memory is not enough the call stops beforehand, with a condition of
#' class `gmhclust_error_memory` that says what it needs.
#'
#' @section GPU:
#' With data, distances are computed on the GPU, and so are the searches of the linkages that need
#' no matrix; linkage from a matrix is the CPU's work. See [gpu_devices()].
#'
#' @section Algorithms:
#' Complete, average, mcquitty and Ward's linkage merge all pairs of clusters at a time that are
#' each other's nearest, which gives the same tree since these linkages are reducible; single
#' linkage is a minimum spanning tree, from data by Borůvka's algorithm ([gmst()]); centroid and
#' median linkage use Müllner's generic algorithm.
#'
#' @inheritSection gmhclust Errors
#'
#' @return An object of class [`hclust`][stats::hclust] as [stats::hclust()] returns it, and
#'   `backend`, the one that was used.
#'
#' @references
#' Lance GN, Williams WT (1967). A general theory of classificatory sorting strategies: 1.
#' Hierarchical systems. *The Computer Journal* 9(4), 373-380. \doi{10.1093/comjnl/9.4.373}
#'
#' Müllner D (2011). Modern hierarchical, agglomerative clustering algorithms. arXiv:1109.2378.
#'
#' Chang DJ, Desoky AH, Ouyang M, Rouchka EC (2009). Compute pairwise Manhattan distance and
#' Pearson correlation coefficient of data points with GPU. *10th ACIS International Conference on
#' Software Engineering, Artificial Intelligences, Networking and Parallel/Distributed Computing*,
#' 501-506.
#'
#' @seealso [gdist()], [gmst()], [gmhclust()]; [stats::hclust()], [stats::cutree()].
#'
#' @examples
#' h <- ghclust(dist(USArrests), "average")
#' identical(h$merge, hclust(dist(USArrests), "average")$merge)
#' plot(h, hang = -1)
#'
#' # From data, with no matrix in R:
#' cells <- as.matrix(lymphocytes()[1:5000, 1:14])
#' h <- ghclust(cells, "ward.D2")
#' table(cutree(h, k = 6))
#' @export
ghclust <- function(x,
                    method = "complete",
                    members = NULL,
                    metric = "euclidean",
                    absolute = FALSE,
                    p = 2,
                    zero_over_zero = c("omit", "0", "1"),
                    precision = c("double", "single"),
                    backend = c("auto", "cpu", "cuda"),
                    threads = NULL,
                    progress = interactive(),
                    devices = NULL) {
  call <- match.call()
  method <- check_linkage(method, "method", call)
  single <- check_choice(precision, c("double", "single"), "precision", call) == "single"
  backend <- check_choice(backend, backends, "backend", call)
  threads <- check_threads(threads, "threads", call)
  progress <- check_flag(progress, "progress", call)
  devices <- check_devices(devices, "devices", call)
  if (inherits(x, "dist")) {
    n <- check_dist(x, "x", call)
    members <- check_members(members, n, "members", call)
    if (!is.double(x)) storage.mode(x) <- "double"
    job <- quote(
      job_ghclust_dist(x, n, method, members, single, backend, threads, devices)
    )
    labels <- attr(x, "Labels")
    dist_method <- attr(x, "method")
  } else {
    x <- as_observations(x, "x", call)
    members <- check_members(members, nrow(x), "members", call)
    metric <- check_metric_options(metric, p, absolute, zero_over_zero, "metric", call)
    matrix <- needs_matrix(method, members, metric$name)
    job <- quote(
      job_ghclust_points(
        x, method, members, single, metric$name, metric$p, metric$absolute,
        metric$zero_over_zero, matrix, backend, threads, devices
      )
    )
    labels <- rownames(x)
    dist_method <- metric$name
  }
  value <- run_job(eval(job), progress, "Clustering", call)
  tree <- new_hclust(value$merge, value$height, value$order, labels, method, call)
  # As in hclust(), the component is missing where a dist object has no method.
  tree$dist.method <- dist_method
  tree$backend <- value$backend
  tree
}

linkages <- c(
  "ward.D", "single", "complete", "average", "mcquitty", "median", "centroid", "ward.D2"
)

# The full name of a linkage, matched as hclust() does.
check_linkage <- function(method, arg, call) {
  if (identical(method, "ward")) {
    message("The \"ward\" method has been renamed to \"ward.D\"; note new \"ward.D2\"")
    return("ward.D")
  }
  check_choice(method, linkages, arg, call)
}

# The number of observations of a dist object.
check_dist <- function(x, arg, call) {
  n <- attr(x, "Size")
  if (!is_single_number(n) || !is.numeric(x)) {
    refuse(arg, "is no sound dist object", "see dist() and gdist()", call)
  }
  if (n < 2) refuse(arg, paste("is of", n, "observations"), "clustering needs at least 2", call)
  if (length(x) != n * (n - 1) / 2) {
    got <- paste("has", length(x), "dissimilarities")
    refuse(arg, got, paste(n, "observations have", n * (n - 1) / 2), call)
  }
  as.integer(n)
}

check_members <- function(members, n, arg, call) {
  if (is.null(members)) return(NULL)
  fine <- is.numeric(members) && length(members) == n && all(is.finite(members)) &&
    all(members > 0)
  if (!fine) {
    needs <- paste("it must be", n, "positive numbers, one for each observation, or NULL")
    refuse(arg, paste("is", describe(members)), needs, call)
  }
  as.double(members)
}

# Whether linkage goes through a matrix of distances.
needs_matrix <- function(method, members, metric) {
  from_points <- method == "single" ||
    (metric == "euclidean" && method %in% c("ward.D2", "centroid", "median"))
  # Single linkage takes no notice of members.
  !from_points || (!is.null(members) && method != "single")
}
