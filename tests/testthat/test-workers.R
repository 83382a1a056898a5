name <- function(task) paste("task", task)

test_that("workers cluster apriori clusters, with the same tree", {
  cells <- some_cells(600)
  workers <- snow()
  BiocParallel::bpstart(workers)
  on.exit(BiocParallel::bpstop(workers))
  set.seed(3)
  labels <- sample(c("b", "a", "rest", NA, "0"), 600, replace = TRUE, prob = c(1, 5, 2, 1, 1))
  for (distance in c("full", "centroid")) {
    alone <- gmhclust(cells, 60, labels, distance = distance, scale = TRUE)
    shared <- gmhclust(cells, 60, labels, distance = distance, scale = TRUE, BPPARAM = workers)
    expect_identical(as_computed(shared), as_computed(alone))
  }
  one <- rep(1:0, c(599, 1))
  for (apriori in list(one, NULL, rep(1:300, 2))) {
    expect_same_tree(gmhclust(cells, 60, apriori, BPPARAM = workers),
                     gmhclust(cells, 60, apriori))
  }
  expect_same_tree(gmhclust(cells, 60, labels, apriori_intra = FALSE, BPPARAM = workers),
                   gmhclust(cells, 60, labels, apriori_intra = FALSE))
})

test_that("workers may be forks of a process that has clustered before", {
  cells <- some_cells(600)
  labels <- rep(1:7, length.out = 600)
  alone <- gmhclust(cells, 60, labels)
  expect_same_tree(gmhclust(cells, 60, labels, BPPARAM = forks()), alone)
  # Each fork runs the whole call on its own threads.
  again <- parallel::mclapply(1:2, function(i) gmhclust(cells, 60, labels), mc.cores = 2)
  for (tree in again) expect_same_tree(tree, alone)
  expect_same_tree(mhclust(cells, 60, g = labels, warn = FALSE, BPPARAM = forks()), alone)
  expect_refused(gmhclust(cells, BPPARAM = "2"), "`BPPARAM` is \"2\"; it must be what")
  expect_refused(mhclust(cells, BPPARAM = "2"), "`BPPARAM` is \"2\"", by = "mhclust")
})

test_that("workers may be a cluster of package parallel", {
  cells <- some_cells(600)
  labels <- rep(1:7, length.out = 600)
  workers <- cluster_of(2)
  on.exit(parallel::stopCluster(workers))
  expect_same_tree(gmhclust(cells, 60, labels, BPPARAM = workers), gmhclust(cells, 60, labels))
  expect_identical(gknn(cells, 3, BPPARAM = workers), gknn(cells, 3))
  expect_identical(gknn(cells, 3, BPPARAM = workers[1]), gknn(cells, 3))
  expect_true(are_local(workers))
  expect_identical(count_workers(workers), 2L)
  # An error on a worker has its class, and names the work.
  error <- expect_error(run_tasks(
    list("a", "b"), "stop", " is too bad", workers, name, "Working", quote(f(x)), "; go on"
  ), class = "gmhclust_error")
  expect_identical(conditionMessage(error), "task a: a is too bad; go on")
  # Values of an interrupted call are not taken for those of the next one.
  for (node in workers) parallel:::sendCall(node, function() list(1), list())
  expect_error(gknn(cells, 3, BPPARAM = workers), "values of an interrupted call; stop them",
               class = "gmhclust_error_worker")
})

test_that("a worker of a cluster that is lost is an error that names the work", {
  skip_on_os("windows")
  workers <- cluster_of(2)
  on.exit(try(parallel::stopCluster(workers), silent = TRUE))
  tools::pskill(parallel::clusterCall(workers[2], Sys.getpid)[[1]], tools::SIGKILL)
  error <- expect_error(gknn(blobs(50, 3), 4, BPPARAM = workers), class = "gmhclust_error_worker")
  expect_match(conditionMessage(error), "worker of `BPPARAM` was lost; unfinished work: rows 1 to")
  close(workers[[2]]$con)
  workers <- workers[1]
})

test_that("clusters without workers are refused, and those of other kinds count as far away", {
  expect_refused(gknn(blobs(50, 3), 4, BPPARAM = structure(list(), class = "cluster")),
                 "`BPPARAM` is a cluster without workers; it must be what", by = "gknn")
  far <- structure(list(structure(list(host = "elsewhere"), class = "SOCKnode")), class = "cluster")
  expect_false(are_local(far))
  expect_false(are_local(structure(list(structure(list(), class = "miraiNode")),
                                   class = c("miraiCluster", "cluster"))))
})

test_that("an interrupt while workers work is one", {
  registerS3method("sendData", "interrupted_node", function(node, data) {
    stop(structure(list(message = "", call = NULL), class = c("interrupt", "condition")))
  }, envir = asNamespace("parallel"))
  workers <- structure(list(structure(list(), class = "interrupted_node")), class = "cluster")
  error <- expect_error(gknn(blobs(50, 3), 4, BPPARAM = workers),
                        class = "gmhclust_error_interrupt")
  expect_identical(conditionMessage(error), "Finding neighbours was interrupted")
})

test_that("a cluster of package mirai is taken, and one that lost its workers refused", {
  skip_if_not_installed("mirai")
  skip_if_not(nzchar(system.file("Meta", package = "gmhclust")), "installed gmhclust")
  x <- blobs(200, 3)
  workers <- mirai::make_cluster(2)
  on.exit(try(parallel::stopCluster(workers), silent = TRUE))
  expect_identical(gknn(x, 4, BPPARAM = workers), gknn(x, 4))
  expect_identical(gneighbours(x, 1, BPPARAM = workers), gneighbours(x, 1))
  expect_true(are_local(workers))
  processes <- unlist(parallel::clusterCall(workers, Sys.getpid))
  tools::pskill(processes, tools::SIGKILL)
  for (i in 1:500) if (mirai::status(workers)$connections > 0) Sys.sleep(0.02)
  expect_refused(gknn(x, 4, BPPARAM = workers), "`BPPARAM` is a cluster without connected workers",
                 by = "gknn")
})

test_that("shares are of about equal cost", {
  set.seed(1)
  costs <- rexp(200)^2
  for (count in c(1, 2, 7)) {
    shares <- balance_shares(costs, count)
    expect_length(shares, count)
    expect_identical(sort(unlist(shares)), 1:200)
    expect_false(any(vapply(shares, is.unsorted, NA)))
    sums <- vapply(shares, function(share) sum(costs[share]), 0)
    expect_lt(max(sums), max(costs, sum(costs) / count * 1.1))
  }
  expect_identical(balance_shares(c(1, 9, 1), 5), list(2L, 1L, 3L))
})

test_that("errors on workers keep their class and name the task", {
  for (workers in list(NULL, forks())) {
    error <- expect_error(run_tasks(
      list("a", "b"), "stop", " is too bad", workers, name, "Working", quote(f(x)), "; go on"
    ), class = "gmhclust_error")
    expect_s3_class(error, c("gmhclust_error", "error", "condition"), exact = TRUE)
    expect_identical(conditionMessage(error), "task a: a is too bad; go on")
    expect_identical(conditionCall(error), quote(f(x)))
  }
  for (kind in c("input", "device", "memory", "interrupt")) {
    condition <- gmhclust_error(kind, "too bad")
    failure <- as_failure(condition)
    expect_identical(gmhclust_error(failure$kind, failure$message, NULL), condition)
  }
})

test_that("a lost worker is an error that names the unfinished tasks", {
  for (workers in list(forks(), snow())) {
    done <- c(FALSE, TRUE, FALSE)
    # The workers leave with quit("no", 1).
    error <- expect_error(suppressWarnings(run_tasks(
      list("no", "no", "no"), "quit", 1, workers, name, "Working", quote(f(x)), "; go on",
      is_done = function(task) {
        first <- done[1]
        done <<- done[-1]
        first
      }
    )), class = "gmhclust_error_worker")
    expect_match(conditionMessage(error), "^a worker of `BPPARAM` was lost; unfinished work")
    expect_match(conditionMessage(error), "unfinished work: task no, task no (", fixed = TRUE)
    expect_match(conditionMessage(error), "; go on$")
  }
  many <- lost_worker_error(simpleError("gone"), paste("task", 1:9), "", NULL)
  expect_match(conditionMessage(many), "task 4, task 5, 4 more (gone)", fixed = TRUE)
})

test_that("values of a call that lost a worker do not reach the next calls", {
  workers <- forks()
  once <- tempfile()
  run <- function(...) {
    suppressWarnings(run_tasks(
      list(...), "eval", list(once = once), workers, function(task) "a task", "Working", NULL
    ))
  }
  # One worker is killed; the value of the other one comes late.
  old <- quote({
    if (dir.create(once, showWarnings = FALSE)) tools::pskill(Sys.getpid(), 9)
    Sys.sleep(0.5)
    "old"
  })
  expect_error(run(old, old), class = "gmhclust_error_worker")
  Sys.sleep(0.6)
  # BiocParallel may report the lost worker again.
  found <- lapply(1:4, function(i) {
    tryCatch(run(quote(c("new", 1)), quote(c("new", 2))),
             gmhclust_error_worker = function(e) "lost")
  })
  found <- setdiff(unique(found), "lost")
  skip_if(length(found) == 0, "every later call reports the lost worker")
  expect_identical(found, list(list(c("new", "1"), c("new", "2"))))
})
