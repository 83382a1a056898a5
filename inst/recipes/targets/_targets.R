# The nearest neighbours of all cells in a folder of FCS files, found in parts by several processes.
# Copy this file into a folder with the folder `cells`, and run targets::tar_make() there; after an
# interruption, run it again. If files of the result were lost later, so that read_gknn() says that
# rows are missing: targets::tar_invalidate(done), then tar_make() computes what is missing.
library(targets)

tar_option_set(
  packages = "gmhclust",
  # Two processes on this machine; package crew.cluster has controllers for the jobs of a cluster.
  controller = crew::crew_controller_local(workers = 2)
)

list(
  tar_target(k, 15),

  # Looked at each time, so that new and changed files are noticed.
  tar_target(cells, list.files("cells", "[.]fcs$", full.names = TRUE), format = "file",
             cue = tar_cue("always")),

  # Other cells or another k need another folder for the result, so its name has their checksum.
  tar_target(folder, paste0("neighbours-", rlang::hash(list(tools::md5sum(cells), k)))),

  # Parts 1 to 8: each writes its neighbours into the folder, and its value is only its number. With
  # several parts for each process, all end at about the same time.
  tar_target(part, 1:8),
  tar_target(done, {
    gknn(observations(cells, cofactor = 5), k, output = folder, part = c(part, 8), threads = 1)
    part
  }, pattern = map(part)),

  # After all parts; an error if rows are missing.
  tar_target(neighbours, {
    done
    read_gknn(folder)
  })
)
