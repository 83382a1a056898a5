# The merges within apriori clusters, divided among workers, or into files of a folder.

# The merges within all apriori clusters, one cluster after the other, computed by workers or kept
# in a folder. NULL if `part` leaves some of them to other calls.
merges_by_tasks <- function(x, options, call) {
  codes <- options$clusters$codes
  members <- split(which(codes > 0), codes[codes > 0])
  sizes <- lengths(members)
  in_files <- !is.null(options$output)
  shares <- if (in_files) {
    groups_for_files(sizes)
  } else {
    balance_shares(sizes^2, count_workers(options$workers))
  }
  device <- if (is.null(options$workers)) options$device else options$worker_device
  shared <- list(options = options[clustering_options], device = device)
  task_of <- function(clusters) {
    rows <- sort(unlist(members[clusters], use.names = FALSE))
    task <- list(x = x[rows, , drop = FALSE], codes = codes[rows], clusters = clusters)
    if (in_files) task$file <- file_of_task(task, shared$options, options$output)
    task
  }
  run <- function(tasks, progress = FALSE) {
    run_tasks(
      tasks, "cluster_share", c(shared, list(progress = progress)), options$workers,
      name = function(task) describe_clusters(options$clusters$labels[task$clusters]),
      what = "Clustering", call = call
    )
  }
  found <- if (in_files) {
    counts <- vapply(shares, function(clusters) sum(as.double(sizes[clusters])), 0)
    merges_in_files(shares, counts, task_of, run, options)
  } else {
    run(lapply(shares, task_of))
  }
  if (is.null(found)) return(NULL)
  # The clusters of each share are in increasing order of their codes.
  cluster <- unlist(lapply(shares, function(clusters) rep(clusters, sizes[clusters] - 1L)))
  place <- order(cluster)
  merges <- function(part) unlist(lapply(found, `[[`, part))[place]
  list(lower = merges("lower"), higher = merges("higher"), height = merges("height"))
}

# The merges within a share of the apriori clusters, which are also written to the file of the task,
# if it has one.
cluster_share <- function(task, shared) {
  found <- run_job(
    job_gmhclust_within(task$x, shared$options, task$codes, with_local_threads(shared$device)),
    shared$progress, "Clustering"
  )
  if (!is.null(task$file)) write_merges(found, task$file)
  found
}

# Divides tasks with these costs into at most `count` shares of about equal cost: the next task in
# order of decreasing cost goes to the share with the lowest cost (longest processing time first).
# In each share the numbers of the tasks increase.
balance_shares <- function(costs, count) {
  sums <- numeric(min(count, length(costs)))
  share <- integer(length(costs))
  for (task in order(costs, decreasing = TRUE)) {
    share[task] <- which.min(sums)
    sums[share[task]] <- sums[share[task]] + costs[task]
  }
  unname(split(seq_along(costs), share))
}

describe_clusters <- function(labels) {
  shown <- label_text(utils::head(labels, 5))
  if (length(labels) > 5) shown <- c(shown, paste(length(labels) - 5, "more"))
  paste0(ngettext(length(labels), "apriori cluster ", "apriori clusters "),
         paste(shown, collapse = ", "))
}
