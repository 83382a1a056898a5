# The loop of tools/fuzz r, see there. Arguments: SECONDS SEED, or --case SEED NUMBER.

here <- dirname(sub("^--file=", "", grep("^--file=", commandArgs(FALSE), value = TRUE)))
for (file in c("values.R", "calls.R", "judge.R", "files.R")) source(file.path(here, file))
suppressMessages(library(gmhclust))
# In this process, so that not every child loads them.
for (package in c("Biobase", "BiocParallel", "ComplexHeatmap", "DelayedArray", "Matrix",
                  "S4Vectors", "SingleCellExperiment", "circlize", "igraph", "tibble")) {
  suppressMessages(requireNamespace(package, quietly = TRUE))
}

# Seconds of a call after which it counts as hanging: of the processor's time, so that it does not
# matter what else runs, and in all. Calls per child process.
patience <- c(processor = 10, all = 200)
calls_per_child <- 60L

# One of the elements of a vector or list.
pick <- function(from) from[[sample.int(length(from), 1)]]

# ---- calls ---------------------------------------------------------------------------------------

# A random hostile expression for the valid expression `base`.
mutated <- function(base, env, depth = 0) {
  value <- tryCatch(eval(base, env), error = function(e) NULL)
  way <- sample.int(6, 1)
  if (way <= 2 || is.null(value)) return(pick(hostile_values))
  if (way == 3) return(do.call(bquote, list(pick(mutations), list(e = base))))
  if (way == 4 && isS4(value) && length(methods::slotNames(value)) > 0) {
    name <- pick(methods::slotNames(value))
    return(call("with_slot", base, name, changed(call("@", base, as.name(name)), env, depth)))
  }
  if (way <= 5 && is.list(value) && length(names(value)) > 0) {
    name <- pick(names(value))
    part <- changed(call("[[", call("unclass", base), name), env, depth)
    return(call("with_part", base, name, part))
  }
  if (way <= 5 && length(value) > 0 && (is.atomic(value) || is.list(value))) {
    return(call("with_element", base, sample.int(length(value), 1), pick(hostile_elements)))
  }
  known <- names(attributes(value))
  name <- if (length(known) > 0 && runif(1) < 0.7) pick(known) else pick(hostile_attributes)
  call("with_attr", base, name, changed(call("attr", base, name), env, depth))
}

# A changed or another expression for a part of a value.
changed <- function(base, env, depth) {
  if (depth > 2) pick(hostile_values) else mutated(base, env, depth + 1)
}

# Call number `case`: a valid call with one or two arguments replaced, sometimes three.
random_call <- function(seed, case, env) {
  set.seed((seed * 1000003 + case) %% 2147483647)
  call <- pick(base_calls)
  name <- as.character(call[[1]])
  method <- if (!name %in% c("print", "as.list")) formals(get(name, envir = globalenv()))
  args <- setdiff(unique(c(names(call)[-1], names(method))), c("...", ""))
  of_data <- c("channels", "use", "of", "assay", "features", "dimred", "altexp")
  if (name == "observations") args <- c(args, of_data)
  if (name %in% c("gdist", "gknn", "gmhclust", "ghclust")) args <- c(args, "features")
  # main, with, row.names and optional are arguments of R's own functions.
  args <- setdiff(args, c("progress", "main", "with", "row.names", "optional",
                          if (runif(1) < 0.9) "BPPARAM"))
  count <- sample.int(3, 1, prob = c(0.65, 0.28, 0.07))
  for (arg in sample(args, min(count, length(args)))) {
    base <- call[[arg]]
    if (is.null(base)) base <- method[[arg]]
    if (identical(base, quote(expr = )) || is.null(base)) base <- quote(x)
    new <- mutated(base, env)
    is_usable <- tryCatch(!is_too_long(arg, eval(new, env)), error = function(e) FALSE)
    if (!is_usable) return(NULL)
    call[arg] <- list(new)
  }
  call
}

# The call with its arguments evaluated, as values of variables. Only the call itself is judged.
evaluated <- function(call, env) {
  here <- new.env(parent = env)
  for (arg in names(call)[-1]) {
    assign(arg, suppressWarnings(eval(call[[arg]], env)), here)
    call[[arg]] <- as.name(arg)
  }
  list(call = call, env = here)
}

# One case of `seed`: a list of the `call` and its outcome, see judge(). NULL if nothing is wrong,
# or if no call could be made.
run_case <- function(seed, case, env) {
  if (case %% 8L == 0L) return(run_damaged_folder(seed, case, env))
  call <- suppressWarnings(random_call(seed, case, env))
  if (is.null(call)) return(NULL)
  writeLines(deparse(call), file.path(env$scratch, "call"))
  ready <- evaluated(call, env)
  wrong <- judge(ready$call, ready$env)
  if (!is.null(wrong)) c(list(call = paste(deparse(call, 500), collapse = " ")), wrong)
}

# ---- child processes -----------------------------------------------------------------------------

# Seconds of processor time of a process; 0 if the system does not tell.
processor_seconds <- function(pid) {
  time <- suppressWarnings(system2("ps", c("-o", "cputimes=", "-p", pid), stdout = TRUE))
  seconds <- suppressWarnings(as.numeric(time))
  if (length(seconds) == 1 && !is.na(seconds)) seconds else 0
}

# Runs cases in a child process. Returns a list of findings, and the next case to run.
run_in_child <- function(seed, first, env) {
  progress <- file.path(env$scratch, "progress")
  results <- file.path(env$scratch, "results")
  unlink(c(progress, results))
  tempdir(check = TRUE)
  child <- parallel::mcparallel({
    # Calls make folders.
    setwd(env$scratch)
    grDevices::pdf(NULL)
    sink(file(nullfile(), "w"))
    found <- list()
    for (case in first + seq_len(calls_per_child) - 1L) {
      cat(case, file = progress)
      wrong <- run_case(seed, case, env)
      if (!is.null(wrong)) {
        found <- c(found, list(c(list(case = case), wrong)))
        saveRDS(found, results)
      }
    }
    "done"
  }, silent = TRUE)
  started <- Sys.time()
  spent_before <- 0
  repeat {
    value <- suppressWarnings(parallel::mccollect(child, wait = FALSE, timeout = 0.5))
    if (!is.null(value)) break
    since <- if (file.exists(progress)) file.mtime(progress) else started
    waited <- as.numeric(difftime(Sys.time(), since, units = "secs"))
    if (waited < 5) spent_before <- processor_seconds(child$pid)
    spent <- if (waited < 5) 0 else processor_seconds(child$pid) - spent_before
    if (spent > patience[["processor"]] || waited > patience[["all"]]) {
      tools::pskill(child$pid, tools::SIGKILL)
      parallel::mccollect(child, wait = TRUE)
      value <- list("hang")
      break
    }
  }
  found <- if (file.exists(results)) readRDS(results) else list()
  if (identical(value[[1]], "done")) {
    return(list(found = found, following = first + calls_per_child))
  }
  case <- if (file.exists(progress)) as.integer(readLines(progress, warn = FALSE)) else first
  is_failed <- inherits(value[[1]], "try-error")
  kind <- if (is_failed) "error of the fuzzer" else if (is.null(value[[1]])) "crash" else "hang"
  text <- if (is_failed) as.character(value[[1]]) else ""
  call <- paste(readLines(file.path(env$scratch, "call")), collapse = " ")
  found <- c(found, list(list(case = case, call = call, kind = kind, text = text)))
  list(found = found, following = case + 1L)
}

# ---- the loop ------------------------------------------------------------------------------------

# Findings with the same signature count as one.
signature_of <- function(finding) {
  text <- gsub("\"[^\"]*\"|'[^']*'|[0-9.e+-]+", "_", finding$text, useBytes = TRUE)
  text <- substr(iconv(text, "", "ASCII", "?"), 1, 120)
  paste(sub("\\(.*", "", finding$call, useBytes = TRUE), finding$kind, text, sep = " | ")
}

show_finding <- function(finding, seed) {
  cat("\n", finding$kind, " (case ", seed, " ", finding$case, ")\n  ", finding$call, "\n  ",
      finding$text, "\n", sep = "")
}

fuzz <- function(seconds, seed, env) {
  end <- Sys.time() + seconds
  case <- 1L
  seen <- list()
  while (Sys.time() < end) {
    result <- run_in_child(seed, case, env)
    case <- result$following
    for (finding in result$found) {
      signature <- signature_of(finding)
      if (is.null(seen[[signature]])) show_finding(finding, seed)
      seen[[signature]] <- c(seen[[signature]], finding$case)
    }
  }
  cat("\n", case - 1, " cases with seed ", seed, "; ", length(seen), " kinds of findings\n",
      sep = "")
  for (signature in names(seen)) cat(sprintf("%6d  %s\n", length(seen[[signature]]), signature))
  length(seen)
}

args <- commandArgs(TRUE)
# Not in R's temporary folder, which a child that crashes removes.
scratch <- Sys.getenv("FUZZ_SCRATCH")
env <- fixtures(scratch)
if (args[1] == "--case") {
  print(run_case(as.integer(args[2]), as.integer(args[3]), env))
} else {
  quit(status = min(1, fuzz(as.numeric(args[1]), as.integer(args[2]), env)))
}
