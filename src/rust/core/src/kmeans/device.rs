//! The trait of devices for k-means.

use ndarray::{Array2, ArrayView2};

use crate::cpu::Device;
use crate::error::Result;
use crate::lazy_rows::LazyRows;
use crate::monitor::Monitor;

/// A device that iterates Lloyd's algorithm.
pub trait KMeansDevice: Device {
    /// Clusters the observations, for centers whose number and columns [`super::cluster()`] has
    /// checked. Reads the values before anything else.
    ///
    /// # Errors
    /// As [`super::frame::Frame::of`]; `Error::Input` if a value is not finite, or if `x` has fewer
    /// distinct rows than centers to draw; `Error::Interrupt` when the monitor says stop,
    /// `Error::Memory` and `Error::Device` from the device.
    fn iterate(
        &self,
        x: &LazyRows,
        start: Start,
        iterations: usize,
        monitor: &Monitor,
    ) -> Result<Assigned>;
}

/// The centers of the first iteration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Start<'a> {
    /// These centers, in rows.
    Centers(ArrayView2<'a, f64>),
    /// Centers drawn by these numbers from 0 to 1 ([`super::seed::seed`]).
    Draws(&'a [f64]),
}

impl Start<'_> {
    /// The largest magnitude of a value of a given center; 0 if centers are drawn.
    pub fn largest(&self) -> f64 {
        match self {
            Self::Centers(centers) => centers.iter().fold(0.0, |most, c| most.max(c.abs())),
            Self::Draws(_) => 0.0,
        }
    }

    /// Number of centers.
    pub fn centers(&self) -> usize {
        match self {
            Self::Centers(centers) => centers.nrows(),
            Self::Draws(uniforms) => uniforms.len(),
        }
    }
}

/// The result of the iterations.
#[derive(Debug)]
pub struct Assigned {
    /// As the fields of [`super::KMeans`].
    pub cluster: Vec<u32>,
    pub centers: Array2<f64>,
    pub iterations: usize,
    /// `None` if the device leaves the sums over the clusters to the CPU.
    pub sums: Option<ClusterSums>,
}

/// Sums over the members of each cluster, as the fields of [`super::KMeans`].
#[derive(Debug, PartialEq)]
pub struct ClusterSums {
    pub sizes: Vec<usize>,
    pub within: Vec<f64>,
}
