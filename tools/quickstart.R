# Usage: Rscript tools/quickstart.R PICTURE
#
# Runs the example in README.md, which clusters the example cells of gmhclust, and saves its picture
# as PICTURE, a PNG file. man/figures/populations.png is made this way.

picture <- commandArgs(trailingOnly = TRUE)[[1L]]

# The lines of the first block of R code in the file that is to be run.
first_example <- function(file) {
  lines <- readLines(file, encoding = "UTF-8")
  begins <- which(lines == "```r")
  begin <- begins[!startsWith(lines[begins - 1L], "<!-- not run")][1L]
  end <- begin + match("```", lines[-seq_len(begin)])
  lines[(begin + 1L):(end - 1L)]
}

example <- first_example("README.md")
writeLines(c(example, ""))
png(picture, width = 1000, height = 430, res = 110, type = "cairo")
eval(parse(text = example))
saved <- dev.off()
print(tree$settings)
print(cut_populations(tree, x = x))
cat(sprintf("\nPicture of the populations: %s\n", normalizePath(picture)))
