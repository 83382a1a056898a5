# The names of the metrics.

dist_metrics <- c("euclidean", "maximum", "manhattan", "canberra", "binary", "minkowski")
correlations <- c("pearson", "spearman", "cosine")

# The full name of a metric from an abbreviation; abbreviations of dist() mean the same here.
check_metric <- function(metric, arg, call) {
  metric <- plain_text(metric)
  if (is.character(metric) && length(metric) == 1) {
    if (!is.na(pmatch(metric, "euclidian"))) return("euclidean")
    known <- dist_metrics[pmatch(metric, dist_metrics)]
    if (!is.na(known)) return(known)
  }
  check_choice(metric, c(dist_metrics, correlations), arg, call)
}

# The checked arguments of a metric: a list of `name`, `p`, `absolute` and `zero_over_zero`. `arg`
# is the name of the user's argument. The library refuses invalid combinations.
check_metric_options <- function(metric, p, absolute, zero_over_zero, arg, call) {
  name <- check_metric(metric, arg, call)
  if (name == "minkowski" && !is_single_number(p)) {
    refuse("p", paste("is", describe(p)), "it must be one positive number", call)
  }
  if (is_single_number(zero_over_zero) && zero_over_zero %in% 0:1) {
    zero_over_zero <- if (zero_over_zero == 0) "0" else "1"
  }
  list(
    name = name,
    p = if (name == "minkowski") as.double(p) else 2,
    absolute = check_flag(absolute, "absolute", call),
    zero_over_zero = check_choice(zero_over_zero, c("omit", "0", "1"), "zero_over_zero", call)
  )
}
