//! The rows of a block of clusters.

use crate::mahalanobis::options::Distance;
use crate::mahalanobis::screen::frame::{ClusterFrame, MeanPrecision};

/// Number of clusters per block: the number of singles in the widest vector register (AVX-512).
pub const LANES: usize = 16;

/// Number of blocks per group. Clusters that are pushed one after the other are often near each
/// other, so a sweep can skip most groups as a whole. If it is larger, a sweep skips fewer groups.
/// If it is smaller, there are more balls to compare. Only the time depends on it.
pub const GROUP: usize = 16;

/// Number of clusters per group.
pub const GROUP_LANES: usize = GROUP * LANES;

/// One value for each cluster of a block.
pub type Row = [f32; LANES];

// The rows after the rows of the coordinates, for all distances.
pub const ERROR: usize = 0;
pub const STRETCH: usize = 1;
const CENTROID_SCALARS: usize = 2;
// Further rows for full Mahalanobis distances.
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
    /// The layout for the clusters in this frame.
    pub fn new(frame: &ClusterFrame) -> Self {
        Self {
            dimensions: frame.dimensions(),
            is_double: frame.precision == MeanPrecision::Double,
            distance: frame.distance(),
        }
    }

    /// Number of rows of coordinates: the first parts in all dimensions, then the second parts, if
    /// any.
    #[inline(always)]
    pub fn coordinates(&self) -> usize {
        let parts = if self.is_double { 2 } else { 1 };
        parts * self.dimensions
    }

    /// Number of rows of a block.
    #[inline(always)]
    pub fn height(&self) -> usize {
        let scalars = match self.distance {
            Distance::Centroid => CENTROID_SCALARS,
            Distance::FullMahalanobis => FULL_MAHALANOBIS_SCALARS,
        };
        self.coordinates() + scalars
    }
}
