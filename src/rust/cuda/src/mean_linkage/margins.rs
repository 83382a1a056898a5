//! How far the distance of a cluster may be above the least one, so that it matters.

use gmhclust_core::neighbours::MeanLinkage;

/// Two distances are about equal if they differ by this share of the smaller one, or less. If it is
/// too small, rounding could decide which clusters merge, and the CPU could decide otherwise. If it
/// is too large, more merges are made twice.
const TIE_SHARE: f64 = 1e-9;

/// Number of rounds whose rounding errors may add up to the margin for ties. Each is far below
/// [`TIE_SHARE`], unless the values are much larger than their differences.
const ROUNDS_OF_ROUNDING: f64 = 64.0;

/// An upper bound on the distance by which rounding moves two means in a round, in units in the
/// last place of the largest coordinate of all means at the start.
const UNITS_PER_ROUND: f64 = 8.0;

/// The limits above the least distance, as in `Clusters` of mean_linkage/launch.cuh.
#[derive(Debug, Clone, Copy)]
pub struct Margins {
    pub tie_share: f64,
    pub tie_margin: f64,
    pub single_share: f64,
    pub single_margin: f64,
    pub scale: f64,
}

impl Margins {
    /// The limits for clusters with this number of columns. `largest` is the largest coordinate of
    /// their means at the start.
    ///
    /// In single precision, with unit roundoff u, each mean is off by u times its length, which is
    /// at most √p for p coordinates of at most 1, and a sum of p squares by about p times u. Ward's
    /// distance from a cluster of size a is the distance of means times √(2a), at most. The other
    /// linkages add half its square, and the means have a length of at most 1. Both of the
    /// distances that are compared are off.
    pub fn new(columns: usize, largest: f64, linkage: MeanLinkage) -> Self {
        let columns = columns as f64;
        let of_means = UNITS_PER_ROUND * ROUNDS_OF_ROUNDING * f64::EPSILON;
        let unit = f64::from(f32::EPSILON) / 2.0;
        // Two means, and a little more for the rounding of this product.
        let of_single_means = 2.1 * unit * columns.sqrt();
        let (scale, tie_margin, single_margin) = match linkage {
            MeanLinkage::Ward => {
                let scale = 2f64.powi(-(largest.log2().ceil() as i32));
                let diagonal = 2.0 * largest * columns.sqrt();
                // √2 for each of two distances, and a little more.
                (scale, of_means * diagonal, 3.0 * of_single_means)
            }
            // Means are at most 2 apart, so half the square of this distance is off by at most
            // twice the error of the distance, for each of two distances. No distance exceeds 2.
            MeanLinkage::Average | MeanLinkage::Mcquitty => {
                (1.0, 2.0 * of_means, 5.0 * of_single_means)
            }
        };
        Self {
            tie_share: TIE_SHARE,
            tie_margin,
            single_share: (2.5 * columns + 56.0) * unit + TIE_SHARE,
            single_margin: single_margin + tie_margin * scale,
            scale,
        }
    }
}
