# Usage: Rscript tools/quickstart.R PICTURE
#
# Clusters the example cells of gmhclust, prints the clusters and the time, and draws the tree above
# 1,000 small clusters into PICTURE, a PNG file. man/figures/tree.png in README.md is made this way.

library(gmhclust)

picture <- commandArgs(trailingOnly = TRUE)[[1L]]
seconds <- function(expression) system.time(expression)[["elapsed"]]

cells <- lymphocytes()
markers <- as.matrix(cells[setdiff(names(cells), c("ids", "label"))])
cat(sprintf("%d lymphocytes, %d markers\n", nrow(markers), ncol(markers)))

# kmeans() warns if it has not converged, which does not matter for this picture.
set.seed(1)
time_kmeans <- seconds(small <- suppressWarnings(kmeans(markers, 1000)$cluster))
time_tree <- seconds(tree <- gmhclust(markers, threshold = 100, apriori = small))
print(tree)
cat(sprintf("kmeans(), 1,000 clusters:         %6.2f s\n", time_kmeans))
cat(sprintf("gmhclust(), full Mahalanobis:     %6.2f s\n", time_tree))

top <- cutree_apriori(tree)
populations <- gcutree(top, k = 60)
sizes <- tapply(top$members, populations, sum)
large <- names(sort(sizes[sizes >= 100], decreasing = TRUE))
cat(sprintf("\nCut into 60 clusters, %d have at least 100 cells:\n", length(large)))
print(setNames(as.vector(sizes[large]), large))

colours <- hcl.colors(length(large), "Dark 3")[match(populations, large)]
png(picture, width = 1000, height = 480, res = 95, type = "cairo")
par(mar = c(3, 4, 2, 0))
# Inversions make branches of a dendrogram cross.
plot(
  make_monotone(top),
  labels = FALSE, hang = 0.03, sub = "", ylab = "Mahalanobis-average distance", xlab = "",
  main = "20,000 lymphocytes, 14 markers"
)
mtext("1,000 small clusters; colours: the largest of 60 clusters", side = 1, line = 1)
points(seq_along(top$order), rep(0, length(top$order)), pch = 15, col = colours[top$order])
saved <- dev.off()
cat(sprintf("\nPicture of the tree: %s\n", normalizePath(picture)))
