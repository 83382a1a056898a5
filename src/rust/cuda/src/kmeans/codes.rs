//! Codes of observations in groups, for draws: see kernels/kmeans/codes.cuh.

use cudarc::driver::CudaSlice;

use super::launch::{CODED_COLUMNS, QUAD};
use super::observations::DeviceObservations;
use super::seeding::Groups;
use crate::device::{unless_short, DriverResult};
use gmhclust_core::error::Result;

/// Bytes of an observation's reach in its code.
const REACH_BYTES: usize = 2;

/// The sizes from which observations in groups have codes.
#[derive(Debug, Clone, Copy)]
pub struct CodePolicy {
    /// Smallest number of observations that have codes.
    pub rows: usize,
    /// Number of centers from which observations with codes are in groups.
    pub centers: usize,
}

impl CodePolicy {
    /// Whether these observations have codes if a device has the memory.
    pub fn suits(self, rows: usize, columns: usize) -> bool {
        rows >= self.rows && columns <= CODED_COLUMNS
    }
}

/// Device memory for the codes of all observations, and for the codes of a center relative to each
/// group.
pub struct Codes {
    quads: usize,
    observations: CudaSlice<u64>,
    centers: CudaSlice<u64>,
}

/// Length of the code of an observation, in quads.
pub fn quads_of(columns: usize) -> usize {
    (columns + REACH_BYTES).div_ceil(QUAD)
}

/// Length of the code of a center relative to a group, in quads.
pub fn quads_of_center(columns: usize) -> usize {
    2 * quads_of(columns) + 1
}

impl Codes {
    /// Memory for observations in at most `most` groups. `None` if the device has too little
    /// memory.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn new(at: &DeviceObservations, most: usize) -> Result<Option<Self>> {
        let (n, p) = (at.rows, at.columns);
        let lengths = (n * quads_of(p), most * quads_of_center(p));
        if !at.device.has_memory(QUAD * (lengths.0 + lengths.1))? {
            return Ok(None);
        }
        let words = QUAD / size_of::<u64>();
        let allocate = || -> DriverResult<_> {
            // SAFETY: the kernels write all of these before they read them.
            let (observations, centers) = unsafe {
                (
                    at.stream.alloc(words * lengths.0)?,
                    at.stream.alloc(words * lengths.1)?,
                )
            };
            Ok(Self {
                quads: quads_of(p),
                observations,
                centers,
            })
        };
        // Others may have taken the memory since `has_memory`.
        unless_short(allocate().map_err(|error| at.error(&error)))
    }

    /// Adds the codes to the arguments of kernels.
    pub fn add_to(&self, at: &DeviceObservations, groups: &mut Groups) {
        groups.codes = at.at(&self.observations);
        groups.center_codes = at.at(&self.centers);
        groups.quads = self.quads as u32;
    }
}
