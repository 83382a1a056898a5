//! Sweeps in half precision, on tensor cores. The kernel is in kernels/products.cu.

use std::sync::Arc;

use cudarc::driver::sys::CUfunction_attribute as Attribute;
use cudarc::driver::{CudaFunction, CudaStream, DriverError, LaunchConfig, PushKernelArg};

use super::sweep::Sweep;
use crate::device::{Device, DriverResult};
use crate::kernels::{self, Kernels};
use gmhclust_core::error::Result;
use gmhclust_core::neighbours::single::{RowFrame, RowSum};

// products/launch.cuh defines the same constants; a test compares them.

/// Queries of a tile.
const QUERIES: u32 = 128;
/// References that a block compares at a time.
const ABREAST: u32 = 256;
/// Threads of a block.
const THREADS: u32 = 512;
/// Largest number of coordinates of a row that a stage has in shared memory.
const MOST_DEPTH: u32 = 64;
/// Stages of the pipeline of copies to shared memory.
const STAGES: u32 = 3;

/// Largest number of tiles of references that a block compares one after the other. If it is
/// smaller, a block's first copies take a larger share of the time. If it is larger, blocks that
/// run at the same time do not share copies in the cache.
const MOST_TILES: u32 = 16;

/// Smallest number of blocks per multiprocessor, if there are enough tiles. If it is smaller, some
/// multiprocessors are idle at the end.
const BLOCKS: u32 = 8;

/// The oldest compute capability that the kernel is compiled for.
const OLDEST: (i32, i32) = (8, 0);

/// Upper bound on the bytes of a block's shared memory for everything but coordinates, if a stage
/// has [`MOST_DEPTH`] of them. With fewer, all of the shared memory is less.
const OTHER_SHARED_BYTES: u32 = 19_100;

/// The kernel's modules by the number of coordinates in a stage, for sums of products and for their
/// absolute values. The first one that has room for a row takes the least time.
const MODULES: [(u32, [&Kernels; 2]); 3] = [
    (16, [&kernels::PRODUCTS_16, &kernels::PRODUCTS_ABSOLUTE_16]),
    (32, [&kernels::PRODUCTS_32, &kernels::PRODUCTS_ABSOLUTE_32]),
    (
        MOST_DEPTH,
        [&kernels::PRODUCTS_64, &kernels::PRODUCTS_ABSOLUTE_64],
    ),
];

/// References of a tile, if a stage has `depth` coordinates of a row.
const fn references(depth: u32) -> u32 {
    ABREAST * (MOST_DEPTH / depth)
}

/// Bytes of a block's shared memory for coordinates.
const fn shared_bytes(depth: u32) -> u32 {
    STAGES * (QUERIES + references(depth)) * depth * 2
}

/// The kernel that collects candidates in half precision.
#[derive(Clone)]
pub struct Collect {
    kernel: CudaFunction,
    /// Number of coordinates of a row in a stage.
    depth: u32,
    multiprocessors: u32,
}

impl Collect {
    /// The kernel for a frame in half precision.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn new(device: &Device, frame: &RowFrame) -> Result<Self> {
        let absolute = frame.sums() == RowSum::AbsoluteProducts;
        Self::of_sums(device, absolute, frame.columns())
    }

    /// The kernel for sums of products, or for their absolute values, over this number of columns.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn of_sums(device: &Device, absolute: bool, columns: usize) -> Result<Self> {
        let has_room = |(depth, _): &&(u32, _)| columns <= *depth as usize;
        let last = &MODULES[MODULES.len() - 1];
        let (depth, modules) = MODULES.iter().find(has_room).unwrap_or(last);
        let kernel = device.kernel(modules[usize::from(absolute)], "collect")?;
        let failed = |error: DriverError| device.error("preparing a search", &error);
        let most = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        kernel
            .set_attribute(most, shared_bytes(*depth) as i32)
            .map_err(failed)?;
        Ok(Self {
            kernel,
            depth: *depth,
            multiprocessors: device.multiprocessors().map_err(failed)?,
        })
    }

    /// Sweeps the references of `sweep`.
    ///
    /// # Safety
    /// All arrays must have the sizes given by `sweep`, on the stream's device, until the stream is
    /// synchronized.
    pub unsafe fn launch(&self, stream: &Arc<CudaStream>, sweep: &Sweep) -> DriverResult<()> {
        let down = sweep.query_count.div_ceil(QUERIES);
        let across = (sweep.last - sweep.first).div_ceil(references(self.depth));
        let enough = BLOCKS * self.multiprocessors;
        let tiles = (down * across / enough).clamp(1, MOST_TILES);
        // SAFETY: arguments as declared in products.cu; the caller guarantees the rest.
        unsafe {
            stream
                .launch_builder(&self.kernel)
                .arg(sweep)
                .arg(&tiles)
                .launch(LaunchConfig {
                    grid_dim: (down, across.div_ceil(tiles), 1),
                    block_dim: (THREADS, 1, 1),
                    shared_mem_bytes: shared_bytes(self.depth),
                })?;
        }
        Ok(())
    }
}

/// Whether a device has tensor cores for half precision, and the shared memory that the kernel
/// needs.
///
/// # Errors
/// `Error::Device` when the device fails.
pub fn suits(device: &Device) -> Result<bool> {
    let (capability, shared) = device.abilities()?;
    Ok(capability >= OLDEST && shared >= (shared_bytes(MOST_DEPTH) + OTHER_SHARED_BYTES) as usize)
}

#[cfg(test)]
mod tests {
    use super::super::halves::STEP;
    use super::*;
    use crate::arguments::{check, constants};

    #[test]
    fn constants_are_those_of_the_kernel() {
        let constants = constants![QUERIES, ABREAST, THREADS, MOST_DEPTH, STAGES, STEP];
        for (depth, _) in MODULES {
            let mut constants = constants.to_vec();
            constants.push(("REFERENCES", references(depth).into()));
            constants.push(("STAGES * STAGE_BYTES", shared_bytes(depth).into()));
            let definition = format!("DEPTH={depth}");
            check("products/launch.cuh", &[&definition], &[], &constants);
        }
    }
}
