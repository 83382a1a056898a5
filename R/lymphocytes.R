#' Human lymphocytes measured by flow cytometry
#'
#' Example data: 20,000 cells with 14 markers, 1,000 cells from each of 20 donors in two groups. A
#' semi-synthetic data set from flow cytometry of human blood lymphocytes, made for methods that
#' compare groups.
#'
#' @return A data frame of 20,000 rows and 16 columns:
#' \describe{
#'   \item{columns 1 to 14}{`SYK`, `FcER1g`, `CD16`, `CD57`, `EAT.2`, `CD4`, `TCRgd`, `CD8`, `iCD3`
#'     (intracellular CD3), `NKG2C`, `CD2`, `CD45RO`, `CD3`, `CD56`: doubles, transformed
#'     fluorescence intensities from about -20 to 160.}
#'   \item{`ids`}{integer, the donor: 1 to 10 and 68 to 77.}
#'   \item{`label`}{integer, the donor's group: 0 for donors 1 to 10, 1 for donors 68 to 77. It is
#'     not a cell type: the data have no gates.}
#' }
#' The file itself is `system.file("extdata", "lymphocytes.csv.bz2", package = "gmhclust")`.
#'
#' @source `testData` of the Bioconductor package \pkg{DepecheR} by Jakob Theorell and Axel Theorell
#'   (MIT licence).
#' @references
#' Theorell A, Bryceson YT, Theorell J (2019). Determination of essential phenotypic elements of
#' clusters in high-dimensional entities - DEPECHE. *PLoS ONE* 14(3), e0203247.
#' \doi{10.1371/journal.pone.0203247}
#'
#' @examples
#' cells <- lymphocytes()
#' table(cells$label)
#' plot(cells[seq(1, 20000, by = 10), c("CD4", "CD8")], pch = ".")
#' @export
lymphocytes <- function() {
  file <- system.file("extdata", "lymphocytes.csv.bz2", package = "gmhclust", mustWork = TRUE)
  cells <- utils::read.csv(file)
  of_donor <- c("ids", "label")
  cells[c(setdiff(names(cells), of_donor), of_donor)]
}
