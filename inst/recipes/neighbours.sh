#!/bin/bash
# Finds the nearest neighbours of the cells of a folder of FCS files, by an array of SLURM jobs that
# fill one folder:
#
#   sbatch neighbours.sh CELLS OUTPUT
#   Rscript -e 'gmhclust::read_gknn("OUTPUT")'
#
# All machines must see both folders. If read_gknn() says that rows are missing, because a job was
# killed, submit the same again, or only some numbers by --array: jobs compute what is missing of
# their parts, and end at once if nothing is.

#SBATCH --job-name=neighbours
#SBATCH --array=1-4
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=1G
#SBATCH --time=1:00:00

# The highest number of the array above, whichever numbers are submitted.
parts=4

exec Rscript --vanilla - "$1" "$2" "$SLURM_ARRAY_TASK_ID" "$parts" <<'CODE'
arguments <- commandArgs(trailingOnly = TRUE)
part <- as.integer(arguments[3:4])

library(gmhclust)
cells <- observations(arguments[1], cofactor = 5)
gknn(cells, k = 15, output = arguments[2], part = part)
CODE
