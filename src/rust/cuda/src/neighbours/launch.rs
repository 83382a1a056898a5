//! Launches of the kernels of a search.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg};
use gmhclust_core::error::Result;
use gmhclust_core::neighbours::single::{RowFrame, RowSum, ViewPrecision};

use super::decision::Decision;
use super::layout::{MOST_CANDIDATES, TILE, WARP};
use super::products::Collect;
use super::references::Chunk;
use super::sweep::Sweep;
use crate::device::{Device, DriverResult};
use crate::kernels::{self, Kernels};

/// Number of threads of a block of most kernels. As in neighbours/launch.cuh.
const THREADS: u32 = 256;
/// Number of threads of a block of `narrow`. As in neighbours/launch.cuh.
const NARROW_THREADS: u32 = 128;
/// Number of threads of a block of `decide`. As in neighbours/decision.cuh.
const DECIDE_THREADS: u32 = 128;

/// Largest number of rows of blocks of the kernel `pack`. Each row of blocks processes several
/// queries if there are more. CUDA allows 65,535.
const MOST_PACK_ROWS: u32 = 32_768;

/// The kernels of a search.
#[derive(Clone)]
pub struct SearchKernels {
    pub scatter: CudaFunction,
    gather: CudaFunction,
    collect: CudaFunction,
    /// The kernel that collects in half precision.
    collect_halves: Option<Collect>,
    narrow: CudaFunction,
    pack: CudaFunction,
    decide: CudaFunction,
}

impl SearchKernels {
    /// The kernels for the sums and the precision of a frame.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn new(device: &Device, frame: &RowFrame) -> Result<Self> {
        let module = module(frame.sums());
        let kernel = |name: &str| device.kernel(module, name);
        Ok(Self {
            scatter: kernel("scatter")?,
            gather: kernel("gather")?,
            collect: kernel("collect")?,
            collect_halves: match frame.precision() {
                ViewPrecision::Single => None,
                ViewPrecision::Half => Some(Collect::new(device, frame)?),
            },
            narrow: kernel("narrow")?,
            pack: kernel("pack")?,
            decide: kernel("decide")?,
        })
    }

    /// Collects the candidates among the references of a sweep, and keeps the nearest of them.
    ///
    /// # Safety
    /// All arrays must have the sizes given by `sweep`, on the stream's device, until the stream is
    /// synchronized.
    pub unsafe fn collect(&self, stream: &Arc<CudaStream>, sweep: &Sweep) -> DriverResult<()> {
        // SAFETY: arguments as declared in neighbours.cu; the caller guarantees the rest.
        unsafe {
            if let Some(collect) = &self.collect_halves {
                collect.launch(stream, sweep)?;
            } else {
                stream
                    .launch_builder(&self.collect)
                    .arg(sweep)
                    .launch(config(
                        (sweep.last - sweep.first).div_ceil(TILE as u32),
                        sweep.query_count.div_ceil(TILE as u32),
                        THREADS,
                    ))?;
            }
            stream
                .launch_builder(&self.narrow)
                .arg(sweep)
                .launch(LaunchConfig {
                    shared_mem_bytes: 8 * sweep.room.next_power_of_two(),
                    ..config(sweep.query_count, 1, NARROW_THREADS)
                })?;
        }
        Ok(())
    }

    /// Copies the kept candidates to `packed`, without gaps.
    ///
    /// # Safety
    /// As [`SearchKernels::collect`]; `packed` has room for `sweep.capacity` keys of each query.
    pub unsafe fn pack(
        &self,
        stream: &Arc<CudaStream>,
        sweep: &Sweep,
        packed: &CudaSlice<u64>,
    ) -> DriverResult<()> {
        // SAFETY: arguments as declared in neighbours.cu; the caller guarantees the rest.
        unsafe {
            stream
                .launch_builder(&self.pack)
                .arg(sweep)
                .arg(packed)
                .launch(config(
                    sweep.capacity.div_ceil(WARP),
                    sweep.query_count.min(MOST_PACK_ROWS),
                    WARP,
                ))?;
        }
        Ok(())
    }

    /// Decides about the candidates of each query.
    ///
    /// # Safety
    /// As [`SearchKernels::collect`]; the arrays of `decision` have the sizes that it gives. The
    /// sweep has kept at most [`MOST_CANDIDATES`] candidates of each query.
    pub unsafe fn decide(
        &self,
        stream: &Arc<CudaStream>,
        sweep: &Sweep,
        decision: &Decision,
    ) -> DriverResult<()> {
        debug_assert!(sweep.capacity as usize <= MOST_CANDIDATES);
        // SAFETY: arguments as declared in neighbours.cu; the caller guarantees the rest.
        unsafe {
            stream
                .launch_builder(&self.decide)
                .arg(sweep)
                .arg(decision)
                .launch(config(sweep.query_count, 1, DECIDE_THREADS))?;
        }
        Ok(())
    }

    /// Copies rows of `row_len` values at some positions of a chunk to `coordinates`. Consecutive
    /// values of a row are `stride` apart there, and consecutive rows are `step` apart.
    ///
    /// # Safety
    /// `positions` has positions of the chunk, and `coordinates` has room for the rows.
    pub unsafe fn gather(
        &self,
        stream: &Arc<CudaStream>,
        chunk: &Chunk,
        positions: &CudaSlice<u32>,
        row_len: u32,
        coordinates: &CudaSlice<f32>,
        (stride, step): (u64, u64),
    ) -> DriverResult<()> {
        let count = positions.len() as u32;
        // SAFETY: arguments as declared in neighbours.cu; the caller guarantees the rest.
        unsafe {
            stream
                .launch_builder(&self.gather)
                .arg(&chunk.address)
                .arg(positions)
                .arg(&count)
                .arg(&row_len)
                .arg(&(chunk.stride as u64))
                .arg(&(chunk.step as u64))
                .arg(coordinates)
                .arg(&stride)
                .arg(&step)
                .launch(config(count.div_ceil(THREADS), row_len, THREADS))?;
        }
        Ok(())
    }
}

/// The module with the kernels for these sums.
fn module(sums: RowSum) -> &'static Kernels {
    match sums {
        RowSum::Squares => &kernels::NEIGHBOURS_SQUARES,
        RowSum::Magnitudes => &kernels::NEIGHBOURS_MAGNITUDES,
        RowSum::Greatest => &kernels::NEIGHBOURS_GREATEST,
        RowSum::Quotients => &kernels::NEIGHBOURS_QUOTIENTS,
        RowSum::Products => &kernels::NEIGHBOURS_PRODUCTS,
        RowSum::AbsoluteProducts => &kernels::NEIGHBOURS_ABSOLUTE_PRODUCTS,
    }
}

fn config(blocks: u32, rows: u32, threads: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (blocks.max(1), rows.max(1), 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::MOST_ROOM;
    use super::*;
    use crate::arguments::{check, constants};

    #[test]
    fn constants_are_those_of_the_kernels() {
        let constants = constants![TILE, THREADS, NARROW_THREADS, MOST_ROOM];
        check("neighbours/launch.cuh", &[], &[], &constants);
    }
}
