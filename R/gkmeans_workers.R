# k-means whose comparisons of observations with centers are shared by workers. Centers are drawn,
# and moved to the means of their clusters, in this process, in the order of the rows: so the result
# has the bits of one process, whatever the number of workers.

# As lloyd(), with the workers of options$share, see distribute_rows(); `extended` as in
# job_gkmeans().
lloyd_by_workers <- function(x, centers, uniforms, extended, options, call) {
  data <- job_data(x)
  threads <- with_local_threads(options$device)$threads
  if (is.null(centers)) {
    centers <- run_job(
      job_gkmeans_draw(data, as.double(uniforms), threads), options$progress, "Drawing centers",
      call
    )
  }
  most <- if (nrow(centers) == 1) 1L else options$iterations
  cluster <- NULL
  iterations <- if (nrow(centers) == 1) 1L else most + 1L
  for (i in seq_len(most)) {
    before <- cluster
    cluster <- options$share$assign(centers, call)
    if (identical(cluster, before)) {
      iterations <- i
      break
    }
    centers <- run_job(
      job_gkmeans_move(data, cluster, centers, threads), FALSE, "Clustering", call
    )
  }
  run_job(
    job_gkmeans_result(data, cluster, centers, iterations, extended, threads), FALSE, "Clustering",
    call
  )
}

# Divides the rows of x among workers, which keep their rows from one iteration to the next.
# `source` is the user's data. A matrix is sent to the workers, to each its rows; if data are read
# in blocks, each worker reads its rows itself. Returns a list of two functions: assign(centers,
# call) returns the number of the nearest center of each row, and end() must be called last.
distribute_rows <- function(source, x, workers, device, call) {
  id <- basename(tempfile("rows"))
  started <- start_workers(workers)
  reads <- is_in_blocks(source)
  # When assign_rows() sends the workers their rows. "first": to all workers, since none has them.
  # "lacking": only to workers that answered that they lack them. "always": to all workers, after
  # one lacked them, because workers may be new processes for each call, or exchange their tasks.
  sends <- "first"
  is_working <- FALSE
  task <- function(rows, with_rows) {
    list(id = id, rows = rows,
         x = if (with_rows) if (reads) source else x[seq(rows[1], rows[2]), , drop = FALSE])
  }
  assign_rows <- function(parts, centers, with_rows, call) {
    run_tasks(
      lapply(parts, task, with_rows), "assign_share",
      list(centers = centers, device = device, packages = packages_of_rows(source)), workers,
      name = function(task) describe_rows(task$rows, "x"), what = "Clustering", call = call
    )
  }
  list(
    assign = function(centers, call) {
      is_working <<- TRUE
      # No part has fewer rows than there are centers.
      count <- max(1, min(count_workers(workers), nrow(x) %/% nrow(centers)))
      ends <- round(as.numeric(seq_len(count)) * nrow(x) / count)
      parts <- Map(c, c(1, ends[-count] + 1), ends)
      found <- assign_rows(parts, centers, sends != "lacking", call)
      if (sends == "first") sends <<- "lacking"
      lacking <- which(vapply(found, is.null, NA))
      if (length(lacking) > 0) {
        sends <<- "always"
        found[lacking] <- assign_rows(parts[lacking], centers, TRUE, call)
      }
      is_working <<- FALSE
      unlist(found)
    },
    end = function() {
      # Workers may be this process.
      forget_rows()
      if (started) return(stop_workers(workers))
      # Workers that were interrupted or lost would not answer, or not at once.
      if (is_working) return(invisible())
      # Batch jobs ended with their call.
      if (!is_cluster(workers) && !inherits(workers, lasting_workers)) return(invisible())
      try(silent = TRUE, run_tasks(
        vector("list", count_workers(workers)), "forget_rows", NULL, workers,
        name = function(task) "", what = "Clustering", call = NULL
      ))
    }
  )
}

# The workers of BiocParallel that stay between calls, once they are started.
lasting_workers <- c("SnowParam", "MulticoreParam")

# Starts workers that would otherwise start anew for each call; returns whether it did.
start_workers <- function(workers) {
  if (!inherits(workers, lasting_workers) || BiocParallel::bpisup(workers)) return(FALSE)
  BiocParallel::bpstart(workers)
  TRUE
}

# Stops workers, some of which may be lost: bpstop() then fails.
stop_workers <- function(workers) {
  tryCatch(suppressWarnings(BiocParallel::bpstop(workers)), error = function(e) {
    # Forked processes would remove the temporary folder of this process when they find their
    # connection closed.
    if (inherits(workers, "MulticoreParam")) return()
    for (node in as.list(BiocParallel::bpbackend(workers))) try(close(node$con), silent = TRUE)
  })
  if (BiocParallel::bpisup(workers)) {
    BiocParallel::bpbackend(workers) <- structure(list(), class = c("NULLcluster", "cluster"))
  }
  invisible()
}

# The rows that a worker keeps: their `id`, their numbers `rows`, and `x`, stored rows.
kept_rows <- new.env(parent = emptyenv())

# On a worker: the numbers of the nearest centers of a task's rows; NULL if it lacks them.
assign_share <- function(task, shared) {
  for (package in shared$packages) loadNamespace(package)
  is_kept <- identical(kept_rows$id, task$id) && identical(kept_rows$rows, task$rows)
  if (!is_kept) {
    # Frees the rows of an earlier call before it stores new rows.
    forget_rows()
    if (is.null(task$x)) return(NULL)
    threads <- with_local_threads(shared$device)$threads
    x <- if (is_in_blocks(task$x)) with_threads(threads, read_rows(task$x, task$rows)) else task$x
    kept_rows$x <- store_matrix(x, threads)
    kept_rows$id <- task$id
    kept_rows$rows <- task$rows
  }
  run_job(
    job_gkmeans_assign(job_data(kept_rows$x), shared$centers, with_local_threads(shared$device)),
    FALSE, "Clustering"
  )
}

forget_rows <- function(...) {
  release_rows(kept_rows$x)
  rm(list = names(kept_rows), envir = kept_rows)
}
