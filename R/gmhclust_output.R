# The merges within apriori clusters as files of a folder, from which an interrupted call of
# gmhclust() goes on, and which several jobs can fill.
#
# A file has the merges of some apriori clusters, and is named by a digest of all that they depend
# on. So a file fits or is not looked at, whatever calls share the folder; there is no manifest and
# no lock. It is a .npy file: in rows the lower and the higher slot and the height of each merge,
# and in the last row a digest of these. It is written under another name first.

# The smallest number of observations whose merges are in a file.
members_of_file <- function() 1e6

# Makes the folder `output`, whose name it checks.
make_tree_folder <- function(output, apriori, call) {
  check_folder(output, "output", call)
  if (is.null(apriori) || is_single_number(apriori)) {
    refuse("output", "is given without labels in `apriori`",
           "it is for the merges within apriori clusters, the same in each call", call)
  }
  dir.create(output, showWarnings = FALSE, recursive = TRUE)
  if (!dir.exists(output)) {
    refuse("output", paste("is", describe(output)), "the folder cannot be created", call)
  }
}

# Groups of consecutive clusters of these sizes, one for each file. They do not depend on the call.
groups_for_files <- function(sizes) {
  unname(split(seq_along(sizes), ceiling(cumsum(as.double(sizes)) / members_of_file())))
}

# Those groups that are of the checked `part`, c(1, 1) for all.
groups_of_part <- function(groups, part) {
  groups[seq_along(groups) %% part[2] == part[1] %% part[2]]
}

# The file for the merges of a task of cluster_share(), in the folder shared$output.
file_of_task <- function(task, shared) {
  options <- shared$options
  settings <- c(
    1, options$threshold, match(options$subthreshold, subthreshold_kinds),
    match(options$distance, distances_of_clusters), options$normalize, options$apriori_intra,
    dim(task$x), match(task$codes, unique(task$codes))
  )
  digest <- suspendInterrupts(digest_values(task$x, digest_values(as.double(settings), "")))
  file.path(shared$output, paste0("merges-", digest, ".npy"))
}

# The merges of a task that an earlier call has written; NULL if there are none, or damaged ones.
read_merges <- function(file, task) {
  count <- length(task$codes) - length(unique(task$codes))
  values <- tryCatch({
    described <- describe_npy(file)
    if (described$rows == count + 1 && described$columns == 3) {
      read_array(described, 1, count + 1)
    }
  }, error = function(condition) NULL)
  if (is.null(values) || !identical(values[count + 1, ], last_row(values[seq_len(count), ]))) {
    return(NULL)
  }
  some <- seq_len(count)
  list(lower = as.integer(values[some, 1]), higher = as.integer(values[some, 2]),
       height = values[some, 3])
}

# A digest of merges as three numbers below 2^32.
last_row <- function(merges) {
  digest <- suspendInterrupts(digest_values(as.double(merges), ""))
  c(strtoi_double(substring(digest, c(1, 9), c(8, 16))), 0)
}

strtoi_double <- function(hex) {
  vapply(hex, function(text) {
    sum(strtoi(substring(text, c(1, 5), c(4, 8)), 16L) * c(65536, 1))
  }, 0, USE.NAMES = FALSE)
}

write_merges <- function(found, file) {
  values <- cbind(as.double(found$lower), as.double(found$higher), found$height)
  values <- rbind(values, last_row(values))
  header <- paste0("{'descr': '<f8', 'fortran_order': True, 'shape': (", nrow(values), ", 3), }")
  # With the ten bytes before it and a line end, the header has a multiple of 64.
  header <- paste0(header, strrep(" ", -(nchar(header) + 11) %% 64), "\n")
  temporary <- tempfile("writing-", dirname(file))
  done <- FALSE
  on.exit(if (!done) unlink(temporary))
  written <- tryCatch({
    connection <- file(temporary, "wb")
    tryCatch({
      writeBin(as.raw(c(0x93, utf8ToInt("NUMPY"), 1, 0)), connection)
      writeBin(nchar(header), connection, 2, endian = "little")
      writeBin(charToRaw(header), connection)
      writeBin(as.vector(values), connection, endian = "little")
    }, finally = close(connection))
    # A full disk may be noticed only here.
    file.size(temporary) == 10 + nchar(header) + 8 * length(values) && file.rename(temporary, file)
  }, error = function(condition) FALSE, warning = function(condition) FALSE)
  if (!written) {
    refuse("output", paste("is", quoted(dirname(file))), "no file can be written there", NULL)
  }
  done <- TRUE
}

# The merges of all groups `shares`: those that are in the folder, and those that run(shares)
# computes. task_of(share) is the task of a group. NULL if `part` leaves groups to other calls.
merges_in_files <- function(shares, task_of, run, shared, options) {
  found <- lapply(shares, function(share) {
    task <- task_of(share)
    read_merges(file_of_task(task, shared), task)
  })
  mine <- groups_of_part(seq_along(shares), options$part)
  missing <- mine[vapply(found[mine], is.null, NA)]
  bar <- if (options$progress) joint_progress(length(mine), "Clustering")
  if (!is.null(bar)) on.exit(bar$close())
  show_done <- function(count) {
    if (is.null(bar)) return(invisible())
    bar$done(count)
    bar$step(0)(c(0, 1))
  }
  show_done(length(mine) - length(missing))
  # Without workers one after the other, so that only one group is in memory.
  at_a_time <- if (is.null(options$workers)) as.list(missing) else list(missing)
  for (groups in at_a_time) {
    found[groups] <- run(shares[groups])
    show_done(length(groups))
  }
  # Other calls may have written theirs meanwhile.
  for (group in which(vapply(found, is.null, NA))) {
    task <- task_of(shares[[group]])
    merges <- read_merges(file_of_task(task, shared), task)
    if (is.null(merges)) return(NULL)
    found[[group]] <- merges
  }
  found
}
