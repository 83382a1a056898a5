# Work that is spread over processes, on this machine or on others, by package BiocParallel.

# NULL, or an object that says where the workers are.
check_workers <- function(workers, arg, call) {
  if (is.null(workers)) return(NULL)
  if (!inherits(workers, "BiocParallelParam")) {
    needs <- paste("it must be what BiocParallel's SnowParam(), MulticoreParam() or",
                   "BatchtoolsParam() return, or NULL")
    refuse(arg, paste("is", describe(workers)), needs, call)
  }
  need_package("BiocParallel", call)
  workers
}

count_workers <- function(workers) {
  if (is.null(workers)) 1L else max(1L, as.integer(BiocParallel::bpnworkers(workers)))
}

# The number of threads for each worker: what the user said; else, on this machine, its share of
# them, or NULL for what another machine has.
worker_threads <- function(threads, workers, arg, call) {
  if (!is.null(threads) || is.null(workers)) return(check_threads(threads, arg, call))
  if (are_local(workers)) max(1L, default_threads() %/% count_workers(workers))
}

# Whether workers are known to be processes of this machine.
are_local <- function(workers) {
  if (inherits(workers, c("SerialParam", "MulticoreParam"))) return(TRUE)
  if (!inherits(workers, "SnowParam")) return(FALSE)
  # A number, or names of machines.
  where <- BiocParallel::bpworkers(workers)
  is.numeric(where) || all(where %in% c("localhost", Sys.info()[["nodename"]]))
}

# work(task, shared), given the name of a function, for each of `tasks`, here or, in equal shares,
# on workers, to each of which `shared` is sent once. A list of its values. Where a task fails, an
# error of the same class names it, by `name(task)`; with workers, the other shares go on to their
# end. `what` says what is done; `hint` ends the messages of errors, and tasks for which
# `is_done(task)` are not at fault.
run_tasks <- function(tasks, work, shared, workers, name, what, call, hint = "",
                   is_done = function(task) FALSE) {
  if (length(tasks) == 0) return(list())
  if (is.null(workers)) {
    values <- run_share(tasks, work, shared)
  } else {
    shares <- parallel::splitIndices(length(tasks), min(length(tasks), count_workers(workers)))
    values <- tryCatch(
      BiocParallel::bplapply(
        lapply(shares, function(share) tasks[share]), run_share_on_worker, work = work, shared = shared,
        library = dirname(getNamespaceInfo("gmhclust", "path")),
        version = getNamespaceVersion("gmhclust"), BPPARAM = workers
      ),
      interrupt = function(condition) {
        stop(gmhclust_error_interrupt(paste0(what, " was interrupted", hint), call))
      },
      error = function(condition) {
        left <- Filter(Negate(is_done), tasks)
        stop(lost_worker_error(condition, vapply(left, name, ""), hint, call))
      }
    )
    values <- unlist(values, recursive = FALSE)
  }
  failed <- which(vapply(values, inherits, NA, "gmhclust_failure"))
  if (length(failed) > 0) {
    failure <- values[[failed[1]]]
    message <- paste0(name(tasks[[failed[1]]]), ": ", failure$message, hint)
    stop(gmhclust_condition(failure$class, message, call))
  }
  values
}

# What a worker begins with: it may have gmhclust in another library, or not at all. As a function
# of package base it takes no variables along.
run_share_on_worker <- function(tasks, work, shared, library, version) {
  package <- loadNamespace("gmhclust", lib.loc = c(library[dir.exists(library)], .libPaths()))
  if (!identical(getNamespaceVersion(package), version)) {
    stop("it has version ", getNamespaceVersion(package), " of gmhclust and not ", version)
  }
  package$run_share(tasks, work, shared)
}
environment(run_share_on_worker) <- baseenv()

# Values of work(task, shared) up to the first failure, which is one of them, and then NULL.
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

# What another process needs to know of an error: the message, and the class where it is ours.
as_failure <- function(condition) {
  class <- if (inherits(condition, "gmhclust_error")) {
    setdiff(class(condition), "condition")
  } else {
    c("gmhclust_error", "error")
  }
  structure(list(message = conditionMessage(condition), class = class), class = "gmhclust_failure")
}

# The condition for workers that did not answer while these tasks were to be done.
lost_worker_error <- function(condition, names, hint, call) {
  if (length(names) > 5) names <- c(names[1:5], paste(length(names) - 5, "more"))
  message <- paste0(
    "a worker of `BPPARAM` was lost, and these are not done: ", paste(names, collapse = ", "),
    " (", conditionMessage(condition), ")", hint
  )
  gmhclust_condition(c("gmhclust_error_worker", "gmhclust_error", "error"), message, call)
}
