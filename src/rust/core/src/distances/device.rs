//! The trait of devices that compute distances.

use super::pairs::Pairs;
use crate::cpu::Device;
use crate::error::Result;
use crate::metric::Points;
use crate::monitor::Monitor;

/// A device that computes distances.
pub trait DistanceDevice: Device {
    /// Writes the distances of `pairs` of points to `out`, whose length is [`Pairs::count`].
    ///
    /// # Errors
    /// `Error::Interrupt` when the monitor says stop, `Error::Memory` and `Error::Device` from the
    /// device.
    fn distances(
        &self,
        points: &Points,
        pairs: &Pairs,
        out: &mut [f64],
        monitor: &Monitor,
    ) -> Result<()>;
}
