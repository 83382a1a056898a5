//! The trait of devices for linkage with a matrix.

use super::dissimilarities::Dissimilarities;
use super::dissimilarity_source::DissimilaritySource;
use super::lance_williams::Recurrence;
use crate::distances::DistanceDevice;
use crate::error::Result;
use crate::monitor::Monitor;

/// A device that holds the dissimilarities of all observations.
pub trait LinkageDevice: DistanceDevice {
    /// The dissimilarities of `n` observations in the device's memory, for a linkage that [merges
    /// reciprocal pairs](super::lance_williams::Linkage::merges_reciprocal_pairs).
    ///
    /// # Errors
    /// `Error::Input` if a dissimilarity cannot be used; `Error::Interrupt` when the monitor says
    /// stop, `Error::Memory` and `Error::Device` from the device.
    fn dissimilarities<'a>(
        &'a self,
        source: DissimilaritySource<'a>,
        n: usize,
        recurrence: Recurrence,
        monitor: &Monitor,
    ) -> Result<Box<dyn Dissimilarities + 'a>>;
}
