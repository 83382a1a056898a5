//! The one question that a clustering asks of a device.

use super::problem::Problem;
use crate::cpu::Device;
use crate::error::Result;
use crate::merge::Merge;
use crate::monitor::Monitor;

/// A device that agglomerates. How it divides the problems among its parts, and which of them the
/// CPU beside it solves, is its own business.
pub trait AgglomerationDevice: Device {
    /// The merges that make one cluster of each problem's clusters, in order.
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop, `Error::Memory` where there is not enough,
    /// `Error::Device` where the device fails.
    fn agglomerate(&self, problems: &[Problem<'_>], monitor: &Monitor) -> Result<Vec<Vec<Merge>>>;
}
