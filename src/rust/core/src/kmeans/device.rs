//! What k-means asks of a device.

use crate::error::Result;
use crate::matrix::Matrix;
use crate::monitor::Monitor;
use crate::neighbours::NeighbourDevice;

/// A device that iterates Lloyd's algorithm.
pub trait KMeansDevice: NeighbourDevice {
    /// Clusters the rows of `x`, for centers and values that [`super::cluster()`] has checked.
    ///
    /// # Errors
    /// `Error::Input` where `x` has fewer distinct rows than centers to draw; `Error::Interrupt` when
    /// the monitor says stop, `Error::Memory` and `Error::Device` as the device has it.
    fn iterate(
        &self,
        x: &Matrix,
        start: Start,
        iterations: usize,
        monitor: &Monitor,
    ) -> Result<Assigned>;
}

/// Where the first iteration starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Start<'a> {
    /// From these centers, row after row.
    Centers(&'a [f64]),
    /// From centers that these numbers from 0 to 1 draw ([`super::seed::seed`]).
    Draws(&'a [f64]),
}

impl Start<'_> {
    /// How many centers there are.
    pub fn centers(&self, columns: usize) -> usize {
        match self {
            Self::Centers(values) => values.len() / columns,
            Self::Draws(uniforms) => uniforms.len(),
        }
    }
}

/// What iterations come to.
#[derive(Debug)]
pub struct Assigned {
    /// As the fields of [`super::Partition`].
    pub cluster: Vec<u32>,
    pub centers: Vec<f64>,
    pub iterations: usize,
}
