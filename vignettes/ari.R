# Agreement of two divisions of the same observations: the adjusted Rand index.
ari <- function(a, b) {
  pairs <- function(counts) sum(choose(counts, 2))
  counts <- table(a, b)
  of_a <- pairs(rowSums(counts))
  of_b <- pairs(colSums(counts))
  expected <- of_a * of_b / choose(length(a), 2)
  (pairs(counts) - expected) / ((of_a + of_b) / 2 - expected)
}
