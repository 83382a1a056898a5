//! The kernels of a screen and their launch configurations.

use cudarc::driver::{CudaFunction, DriverError, LaunchConfig};
use gmhclust_core::error::{Error, Result};
use gmhclust_core::mahalanobis::screen::{ClusterFrame, MeanPrecision};

use super::wire::{COORDINATES, SMALL_BATCH_WORDS};
use crate::arguments::arguments;
use crate::device::Device;
use crate::kernels::{self, Kernels};

// As in screen_launch.cuh.
pub const THREADS: u32 = 256;
pub const QUERIES_PER_BLOCK: u32 = 8;
pub const MOST_GROUPS: usize = 64;
pub const TILE: usize = THREADS as usize;
pub const BALL_SCALARS: usize = 2;

/// Largest number of blocks of the kernel `update`, which copies words in a loop. Only the time
/// depends on it.
const MOST_UPDATE_BLOCKS: u32 = 1024;

/// Largest number of columns with which the queries of a block fit into its shared memory, 48 KiB.
const MOST_DIMENSIONS: usize = 1_500;

/// The modules, each with the largest number of dimensions that it takes. All but the last keep the
/// coordinates in registers; the last keeps them in shared memory.
const FAMILIES: [(usize, &Kernels); 5] = [
    (16, &kernels::SCREEN_16),
    (32, &kernels::SCREEN_32),
    (40, &kernels::SCREEN_40),
    (64, &kernels::SCREEN_64),
    (MOST_DIMENSIONS, &kernels::SCREEN_0),
];

arguments! {
    /// As in screen_launch.cuh.
    pub struct Clusters {
        pub rows: u64,
        pub slabs: u64,
        pub capacity: u32,
        pub slab_shapes: u32,
        pub dimensions: u32,
        pub member_distances: u32,
        pub balls: u64,
        pub tiles: u32,
    }
}

/// Whether a device can have a screen in this frame: the kernels store means in single precision.
pub fn fits(frame: &ClusterFrame) -> bool {
    frame.dimensions() <= MOST_DIMENSIONS && frame.precision == MeanPrecision::Single
}

/// The kernels of a screen.
pub struct ScreenKernels {
    pub update: CudaFunction,
    pub enclose: CudaFunction,
    pub compact: CudaFunction,
    pub collect: SweepKernel,
    pub change_and_collect: SweepKernel,
    /// Number of coordinates of a query in shared memory: the dimensions, padded to the number that
    /// the module takes.
    pub padded: usize,
}

impl ScreenKernels {
    /// The kernels for `p` dimensions.
    ///
    /// # Errors
    /// `Error::Device` if the device fails, or if there are no kernels for `p` dimensions.
    pub fn new(device: &Device, p: usize) -> Result<Self> {
        let family = FAMILIES.iter().find(|(most, _)| p <= *most);
        let &(most, module) = family
            .ok_or_else(|| Error::Device(format!("kernels for {p} dimensions are not there")))?;
        let padded = if most < MOST_DIMENSIONS { most } else { p };
        let kernel = |name: &str| device.kernel(module, name);
        let sweep = |name: &str, shared: usize| SweepKernel::new(device, kernel(name)?, shared);
        Ok(Self {
            update: kernel("update")?,
            enclose: kernel("enclose")?,
            compact: kernel("compact")?,
            collect: sweep("collect", query_bytes(padded))?,
            change_and_collect: sweep("change_and_collect", 4 * SMALL_BATCH_WORDS)?,
            padded,
        })
    }
}

/// A kernel that sweeps clusters.
pub struct SweepKernel {
    pub kernel: CudaFunction,
    /// Number of blocks of the kernel that run at a time.
    resident: u32,
    /// Bytes of shared memory of a block.
    shared: usize,
}

impl SweepKernel {
    fn new(device: &Device, kernel: CudaFunction, shared: usize) -> Result<Self> {
        let failed = |error: DriverError| device.error("asking for its size", &error);
        let in_each = kernel.occupancy_max_active_blocks_per_multiprocessor(THREADS, shared, None);
        Ok(Self {
            resident: in_each.map_err(failed)? * device.multiprocessors().map_err(failed)?,
            kernel,
            shared,
        })
    }

    /// The launch configuration for `queries` queries that search clusters at positions below
    /// `end`.
    pub fn config(&self, end: usize, queries: usize) -> LaunchConfig {
        let blocks = (end as u32).div_ceil(THREADS).min(self.resident);
        let rows = (queries as u32).div_ceil(QUERIES_PER_BLOCK);
        config(blocks, rows, self.shared)
    }
}

/// Bytes of shared memory of the queries of a block.
fn query_bytes(padded: usize) -> usize {
    4 * (COORDINATES + padded) * QUERIES_PER_BLOCK as usize
}

/// The launch configuration of the kernel `update` for this number of staged words.
pub fn update_config(words: usize) -> LaunchConfig {
    let blocks = (words as u32).div_ceil(THREADS).min(MOST_UPDATE_BLOCKS);
    config(blocks, 1, 0)
}

pub fn config(blocks: u32, rows: u32, shared: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (blocks.max(1), rows, 1),
        block_dim: (THREADS, 1, 1),
        shared_mem_bytes: shared as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{check, constants};

    #[test]
    fn clusters_are_laid_out_as_the_kernels_read_them() {
        let constants = constants![THREADS, QUERIES_PER_BLOCK, MOST_GROUPS, TILE, BALL_SCALARS];
        check("screen_launch.cuh", &[], &[Clusters::layout()], &constants);
    }
}
