# The merges within apriori clusters as files of a folder. An interrupted call of gmhclust()
# continues from these files when it is repeated, and several jobs can fill the folder.
#
# A file has the merges of some apriori clusters. Its name has a digest of everything that these
# merges depend on, so any calls can share a folder, and no manifest and no lock are needed. A file
# is a .npy file: each row has the lower slot, the higher slot and the height of a merge. A slot is
# the number of a cluster within its apriori cluster, from 1; the merged cluster keeps the lower
# slot. The last row has a digest of all merges. The file is written under a temporary name, and
# renamed when it is complete.

# Number of observations whose merges are in one file, except for large apriori clusters and for the
# last observations.
members_of_file <- function() 1e6

# Makes the folder `output`, whose name it checks.
make_tree_folder <- function(output, apriori, call) {
  check_folder(output, "output", call)
  if (is.null(apriori) || is_single_number(apriori)) {
    refuse("output", "is given without labels in `apriori`",
           "it is for the merges within apriori clusters, the same in each call", call)
  }
  create_folder(output, call)
}

# Groups of consecutive clusters, one for each file, so that a file has the merges of about
# members_of_file() observations. The groups depend only on the sizes, so they are the same in all
# calls.
groups_for_files <- function(sizes) {
  unname(split(seq_along(sizes), ceiling(cumsum(as.double(sizes)) / members_of_file())))
}

# The groups of the checked `part`; c(1, 1) means all groups.
groups_of_part <- function(groups, part) {
  groups[seq_along(groups) %% part[2] == part[1] %% part[2]]
}

# The file for the merges of a task of cluster_share() with these options.
file_of_task <- function(task, options, folder) {
  # The first number stands for the format of the files.
  settings <- c(
    1, options$threshold, match(options$subthreshold, subthreshold_kinds),
    match(options$distance, distances_of_clusters), options$normalize, options$apriori_intra,
    dim(task$x), match(task$codes, unique(task$codes))
  )
  digest <- digest_of(task$x, digest_of(as.double(settings)))
  file.path(folder, paste0("merges-", digest, ".npy"))
}

digest_of <- function(values, before = "") suspendInterrupts(digest_values(values, before))

# The merges of a task that an earlier call has written; NULL if there are none, or damaged ones.
read_merges <- function(task) {
  count <- length(task$codes) - length(unique(task$codes))
  values <- tryCatch({
    described <- describe_npy(task$file)
    if (described$rows == count + 1 && described$columns == 3) {
      read_records(described, 1, count + 1, 1:3)
    }
  }, error = function(condition) NULL)
  some <- seq_len(count)
  if (is.null(values) || !identical(values[count + 1, ], last_row(values[some, ]))) return(NULL)
  list(lower = as.integer(values[some, 1]), higher = as.integer(values[some, 2]),
       height = values[some, 3])
}

# The digest of merges as three numbers, of 20, 20 and 24 bits.
last_row <- function(merges) {
  digits <- substring(digest_of(as.double(merges)), c(1, 6, 11), c(5, 10, 16))
  as.double(strtoi(digits, 16L))
}

write_merges <- function(found, file) {
  values <- cbind(as.double(found$lower), as.double(found$higher), found$height)
  values <- rbind(values, last_row(values))
  header <- paste0("{'descr': '<f8', 'fortran_order': True, 'shape': (", nrow(values), ", 3), }")
  # The ten bytes before the header, the header and its line end must have a multiple of 64 bytes.
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
    check_writable_folder(dirname(file))
    stop(gmhclust_error_memory(paste0("writing ", quoted(file), " failed: the disk may be full")))
  }
  done <- TRUE
}

# The merges of all groups `shares`, which have `counts` observations. Reads the merges that are in
# the folder, and computes the others by run(tasks, progress). task_of(share) is the task of a
# group, with a copy of its observations. Returns NULL if `part` leaves groups to other calls.
merges_in_files <- function(shares, counts, task_of, run, options) {
  found <- vector("list", length(shares))
  mine <- groups_of_part(seq_along(shares), options$part)
  total <- sum(counts[mine])
  units <- list(total = total, name = "rows")
  display <- joint_progress(total, "Clustering", options$progress, units)
  on.exit(display$close())
  show_done <- function(groups) display$done(sum(counts[groups]))
  # Without workers, only one group is in memory at a time.
  waiting <- list()
  for (group in mine) {
    task <- task_of(shares[[group]])
    merges <- read_merges(task)
    # A folder with all merges may be one that only can be read.
    if (is.null(merges)) check_writable_folder(dirname(task$file))
    if (is.null(merges) && !is.null(options$workers)) {
      waiting[[as.character(group)]] <- task
      next
    }
    if (is.null(merges)) merges <- run(list(task), display$step(counts[group]))[[1]]
    if (options$part[2] == 1) found[[group]] <- merges
    show_done(group)
  }
  found[as.integer(names(waiting))] <- run(unname(waiting))
  show_done(as.integer(names(waiting)))
  if (options$part[2] > 1) NULL else found
}
