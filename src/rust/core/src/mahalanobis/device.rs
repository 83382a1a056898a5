//! The trait of devices that agglomerate.

use super::problem::Problem;
use crate::cpu::Device;
use crate::error::Result;
use crate::merge::Merge;
use crate::monitor::Monitor;

/// A device that agglomerates. The device decides how to divide the problems among its GPUs or
/// threads, and which problems to leave to the CPU.
pub trait AgglomerationDevice: Device {
    /// The merges that make one cluster of each problem's clusters, in order. The caller has told
    /// the monitor to expect their [`work()`](super::agglomerate::work).
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop, `Error::Memory` if there is not enough
    /// memory, `Error::Device` if the device fails.
    fn agglomerate(&self, problems: &[Problem<'_>], monitor: &Monitor) -> Result<Vec<Vec<Merge>>>;
}
