# Work in several processes, on this machine or on others, by packages BiocParallel or parallel.

# The checked argument `BPPARAM`.
check_workers <- function(workers, arg, call) {
  if (is.null(workers)) return(NULL)
  needs <- paste("it must be what BiocParallel's SnowParam(), MulticoreParam() or",
                 "BatchtoolsParam(), or parallel's makeCluster() return, or NULL")
  if (is_cluster(workers)) {
    if (length(workers) == 0) refuse(arg, "is a cluster without workers", needs, call)
    # Its tasks would wait for a worker for ever.
    if (is_of_mirai(workers) && identical(mirai::status(workers)$connections, 0L)) {
      refuse(arg, "is a cluster without connected workers", "see mirai::status()", call)
    }
    return(workers)
  }
  if (!inherits(workers, "BiocParallelParam") || !isS4(workers)) {
    refuse(arg, paste("is", describe(workers)), needs, call)
  }
  need_package("BiocParallel", call)
  workers
}

# Whether workers are a cluster of package parallel, as also package mirai makes them.
is_cluster <- function(workers) inherits(workers, "cluster") && is.list(workers)

is_of_mirai <- function(workers) {
  inherits(workers, "miraiCluster") && requireNamespace("mirai", quietly = TRUE)
}

count_workers <- function(workers) {
  if (is.null(workers)) return(1L)
  if (is_cluster(workers)) return(length(workers))
  max(1L, as.integer(BiocParallel::bpnworkers(workers)))
}

# The number of threads of each worker: the user's argument; by default, an equal share of the
# default for workers on this machine, and NULL, the default of the worker's machine, for workers on
# other machines.
worker_threads <- function(threads, workers, call) {
  if (is.null(workers)) return(check_threads(threads, call))
  if (are_local(workers)) {
    if (!is.null(threads)) return(check_threads(threads, call))
    return(max(1L, default_threads() %/% count_workers(workers)))
  }
  # Another machine may have more cores; with_local_threads() counts them there.
  if (!is.null(threads)) check_thread_count(threads, call)
}

# Whether workers are known to be processes of this machine.
are_local <- function(workers) {
  here <- c("localhost", Sys.info()[["nodename"]])
  if (is_of_mirai(workers)) {
    # Addresses within a machine.
    where <- mirai::status(workers)$daemons
    return(is.character(where) && all(grepl("^(abstract|ipc)://", where)))
  }
  if (is_cluster(workers)) {
    return(all(vapply(workers, function(node) {
      inherits(node, "forknode") || inherits(node, "SOCKnode") && isTRUE(node$host %in% here)
    }, NA)))
  }
  if (inherits(workers, c("SerialParam", "MulticoreParam"))) return(TRUE)
  if (!inherits(workers, "SnowParam")) return(FALSE)
  # The number of workers, or the names of their machines.
  where <- BiocParallel::bpworkers(workers)
  is.numeric(where) || all(where %in% here)
}

# Calls work(task, shared) for each of `tasks`; `work` is the name of the function. The calls are
# made here, or on workers, each of which gets an equal share of the tasks and one copy of `shared`.
# Returns a list of values. If a task fails, the shares of other workers are finished first, then
# the call stops with an error of the same class, which names the task by name(task). In messages,
# `what` names the work and `hint` comes last. If a worker is lost, the error names the tasks for
# which is_done(task) is FALSE.
run_tasks <- function(tasks, work, shared, workers, name, what, call, hint = "",
                   is_done = function(task) FALSE) {
  if (length(tasks) == 0) return(list())
  if (is.null(workers)) {
    values <- run_share(tasks, work, shared)
  } else {
    shares <- parallel::splitIndices(length(tasks), min(length(tasks), count_workers(workers)))
    shares <- lapply(shares, function(share) tasks[share])
    values <- tryCatch(
      run_shares(shares, work, shared, workers),
      # Before `interrupt`: otherwise it would also catch the error that `interrupt` raises.
      error = function(condition) {
        left <- Filter(Negate(is_done), tasks)
        if (!is_cluster(workers) && BiocParallel::bpisup(workers)) {
          hint <- paste0("; if a call was interrupted before, stop the workers by bpstop()", hint)
        } else if (inherits(workers, "MulticoreParam")) {
          hint <- paste0("; if this repeats, restart R, which ends the forks of earlier calls, or ",
                         "use SnowParam()", hint)
        }
        stop(lost_worker_error(condition, vapply(left, name, ""), hint, call))
      },
      interrupt = function(condition) {
        stop(gmhclust_error_interrupt(paste0(what, " was interrupted", hint), call))
      }
    )
    values <- unlist(values, recursive = FALSE)
  }
  failed <- which(vapply(values, inherits, NA, "gmhclust_failure"))
  if (length(failed) > 0) {
    failure <- values[[failed[1]]]
    message <- paste0(name(tasks[[failed[1]]]), ": ", failure$message, hint)
    stop(gmhclust_error(failure$kind, message, call))
  }
  values
}

# The values of each share of tasks, by one worker each; a list of lists. Stops at an error of
# BiocParallel or parallel, or of a worker outside its tasks.
run_shares <- function(shares, work, shared, workers) {
  this_call <- basename(tempfile("call"))
  arguments <- list(
    run_share_on_worker, work = work, shared = shared, of_call = this_call,
    library = dirname(getNamespaceInfo("gmhclust", "path")),
    version = getNamespaceVersion("gmhclust")
  )
  values <- vector("list", length(shares))
  # Workers hand out values in the order in which they are made. After an interrupt, or after a
  # worker was lost, the values of the earlier call come first.
  for (attempt in seq_len(most_attempts)) {
    left <- which(vapply(values, is.null, NA))
    if (length(left) == 0) return(values)
    tasks <- lapply(left, function(number) list(number = number, tasks = shares[[number]]))
    found <- if (is_cluster(workers)) {
      do.call(parallel::clusterApply, c(list(workers, tasks), arguments))
    } else {
      do.call(BiocParallel::bplapply, c(list(tasks), arguments, list(BPPARAM = workers)))
    }
    for (value in found) {
      is_of_call <- is.list(value) && identical(value$of_call, this_call)
      if (is_of_call) values[[value$number]] <- value$values
    }
    # The next call would begin with the values that are left now.
    if (is_cluster(workers)) break
  }
  if (any(vapply(values, is.null, NA))) {
    stop("the workers sent values of an interrupted call; stop them and start new ones")
  }
  values
}

# Number of times that work is given to workers of BiocParallel. Values of a process that it forked
# for an earlier call take the place of one value of this call.
most_attempts <- 5L

# Runs a share of tasks, with its number, on a worker, after loading gmhclust from the worker's
# libraries. Its environment is package base, so no variables are sent to the worker with it.
# `of_call` marks the values.
run_share_on_worker <- function(share, work, shared, of_call, library, version) {
  package <- loadNamespace("gmhclust", lib.loc = c(library[dir.exists(library)], .libPaths()))
  if (!identical(getNamespaceVersion(package), version)) {
    stop("the worker has version ", getNamespaceVersion(package), " of gmhclust, not ", version)
  }
  list(values = package$run_share(share$tasks, work, shared), number = share$number,
       of_call = of_call)
}
environment(run_share_on_worker) <- baseenv()

# A list of the values of work(task, shared). The first failure is the value of its task; later
# tasks are not run and have the value NULL.
run_share <- function(tasks, work, shared) {
  work <- get(work, mode = "function")
  values <- vector("list", length(tasks))
  for (i in seq_along(tasks)) {
    value <- tryCatch(
      work(tasks[[i]], shared),
      interrupt = function(condition) as_failure(gmhclust_error_interrupt("it was interrupted")),
      error = as_failure
    )
    values[i] <- list(value)
    if (inherits(value, "gmhclust_failure")) break
  }
  values
}

# An error as an object to send to another process: its message and, if this package raised it, its
# kind.
as_failure <- function(condition) {
  kind <- if (inherits(condition, "gmhclust_error")) {
    sub("^gmhclust_error_?", "", class(condition)[1])
  }
  if (identical(kind, "")) kind <- NULL
  structure(list(message = conditionMessage(condition), kind = kind), class = "gmhclust_failure")
}

# The error that a worker was lost, with the names of the tasks that are not done.
lost_worker_error <- function(condition, names, hint, call) {
  if (length(names) > 5) names <- c(names[1:5], paste(length(names) - 5, "more"))
  message <- paste0(
    "a worker of `BPPARAM` was lost; unfinished work: ", paste(names, collapse = ", "),
    " (", conditionMessage(condition), ")", hint
  )
  gmhclust_error("worker", message, call)
}
