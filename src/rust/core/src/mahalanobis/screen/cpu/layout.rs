//! The rows of a block of clusters.

use crate::mahalanobis::options::Distance;
use crate::mahalanobis::screen::frame::{ClusterFrame, MeanPrecision};

/// Clusters per block: the singles of the widest vector register (AVX-512).
pub const LANES: usize = 16;

/// Blocks per group. Clusters that are pushed one after the other are often near each other, so
/// that a sweep can skip most groups as a whole. Larger: fewer groups are skipped. Smaller: more
/// balls to compare.
pub const GROUP: usize = 16;

/// Clusters per group.
pub const GROUP_LANES: usize = GROUP * LANES;

/// One value for each cluster of a block.
pub type Row = [f32; LANES];

// The rows after those of the coordinates: for all distances,
pub const ERROR: usize = 0;
pub const LOW: usize = 1;
const CENTROID_SCALARS: usize = 2;
// and for full Mahalanobis distances.
pub const VARIANCE: usize = 2;
pub const FOURTH: usize = 3;
pub const LARGEST: usize = 4;
pub const THIRD: usize = 5;
const FULL_MAHALANOBIS_SCALARS: usize = 6;

/// The sizes of the blocks of a screen.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    pub dimensions: usize,
    /// Whether each coordinate is the sum of two singles.
    pub is_double: bool,
    pub distance: Distance,
}

impl Layout {
    /// For the clusters in this frame.
    pub fn new(frame: &ClusterFrame) -> Self {
        Self {
            dimensions: frame.dimensions(),
            is_double: frame.precision == MeanPrecision::Double,
            distance: frame.distance(),
        }
    }

    /// Rows of coordinates: the first parts in all dimensions, then the second parts, if any.
    #[inline(always)]
    pub fn coordinates(&self) -> usize {
        let parts = if self.is_double { 2 } else { 1 };
        parts * self.dimensions
    }

    /// Rows of a block.
    #[inline(always)]
    pub fn height(&self) -> usize {
        let scalars = match self.distance {
            Distance::Centroid => CENTROID_SCALARS,
            Distance::FullMahalanobis => FULL_MAHALANOBIS_SCALARS,
        };
        self.coordinates() + scalars
    }
}
