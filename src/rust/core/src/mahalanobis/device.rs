//! The trait of devices that agglomerate.

use super::problem::Problem;
use crate::cpu::Device;
use crate::error::Result;
use crate::merge::Merge;
use crate::monitor::Monitor;

/// [`AgglomerationDevice::observations_at_a_time`] of a single device. On an H200, 20,000,000
/// observations in 2,000 apriori clusters by k-means took 17.8 s with half this number, so in two
/// calls, and 16.6 s in one.
pub const OBSERVATIONS_AT_A_TIME: usize = 1 << 25;

/// A device that agglomerates. The device decides how to divide the problems among its GPUs or
/// threads, and which problems to leave to the CPU.
pub trait AgglomerationDevice: Device {
    /// Largest number of observations, approximately, in the apriori clusters of one call of
    /// [`Self::agglomerate`]. If it is larger, their merges take more memory beside the merges of
    /// earlier calls. If it is smaller, the device waits more often for the last cluster.
    fn observations_at_a_time(&self) -> usize {
        OBSERVATIONS_AT_A_TIME
    }

    /// The merges that make one cluster of each problem's clusters, in order. The caller has told
    /// the monitor to expect their [`work()`](super::agglomerate::work).
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop, `Error::Memory` if there is not enough
    /// memory, `Error::Device` if the device fails.
    fn agglomerate(&self, problems: &[Problem<'_>], monitor: &Monitor) -> Result<Vec<Vec<Merge>>>;
}
