#!/bin/bash
# Clusters the cells of a folder of FCS files within apriori clusters, by an array of SLURM jobs
# that fill one folder, and then, by the same script without SLURM, all of them to one tree:
#
#   Rscript -e 'library(gmhclust); k <- gkmeans(observations("CELLS", cofactor = 5), 5000)' \
#           -e 'saveRDS(k$cluster, "labels.rds")'
#   sbatch --wait trees.sh CELLS labels.rds OUTPUT
#   bash trees.sh CELLS labels.rds OUTPUT
#
# The tree is saved as tree.rds in OUTPUT. All machines must see the folders and the labels. A job
# has all cells in memory, or in a scratch file if there is too little (options gmhclust.memory and
# gmhclust.scratch), and clusters about a million at a time. The last command computes what the jobs
# have not, so it takes longer if a job was killed; submit the same again first, or only some
# numbers by --array, to leave that to jobs.

#SBATCH --job-name=trees
#SBATCH --array=1-4
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=4G
#SBATCH --time=1:00:00

# The highest number of the array above, whichever numbers are submitted.
parts=4

exec Rscript --vanilla - "$1" "$2" "$3" "${SLURM_ARRAY_TASK_ID:-}" "$parts" <<'CODE'
arguments <- commandArgs(trailingOnly = TRUE)
part <- if (nzchar(arguments[4])) as.integer(arguments[4:5])

library(gmhclust)
cells <- observations(arguments[1], cofactor = 5)
tree <- gmhclust(cells, apriori = readRDS(arguments[2]), distance = "centroid",
                 output = arguments[3], part = part, progress = TRUE)
if (is.null(part)) saveRDS(tree, file.path(arguments[3], "tree.rds"))
CODE
