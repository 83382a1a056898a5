//! The nearest-neighbour chain algorithm ([`gmhclust_core::linkage::chain`]) on a CUDA device. One
//! launch makes many steps, on all multiprocessors. kernels/dissimilarities.cu describes the
//! algorithm.

use std::sync::Arc;

use cudarc::driver::{
    CudaFunction, CudaSlice, CudaStream, DevicePtr, DriverError, LaunchConfig, PushKernelArg,
};

use crate::arguments::arguments;
use crate::device::{Device, DriverResult};
use gmhclust_core::error::Result;
use gmhclust_core::linkage::lance_williams::Recurrence;
use gmhclust_core::monitor::Monitor;
use gmhclust_core::Merge;

/// Number of threads of a block, as in dissimilarities.cu.
const CHAIN_THREADS: u32 = 512;

/// Number of steps of a launch, which takes a fraction of a second. If it is larger, an interrupt
/// is answered late. It is small in tests, so that small data take several launches.
const STEPS: u32 = if cfg!(test) { 50 } else { 1 << 14 };

arguments! {
    /// As in dissimilarities/launch.cuh.
    struct Chaining {
        values: u64,
        sizes: u64,
        gone: u64,
        stack: u64,
        nearest: u64,
        nearest_slots: u64,
        merged: u64,
        heights: u64,
        arrived: u64,
        length: u64,
        done: u64,
        clusters: u32,
        linkage: u32,
        steps: u32,
    }
}

/// Merges all clusters into one, and returns the merges. `values` is the device address of the
/// condensed dissimilarities, and `sizes` has the sizes of the clusters. Overwrites the
/// dissimilarities.
///
/// # Errors
/// `Error::Interrupt` when the monitor says stop; `Error::Device` when the device fails.
///
/// # Safety
/// `kernel` is the kernel of dissimilarities.cu for the stored type of the dissimilarities.
/// `values` is the device address of n(n - 1)/2 of them, for n = `sizes.len()`; only `stream` uses
/// this memory until the function returns.
pub unsafe fn merges(
    device: &Device,
    stream: &Arc<CudaStream>,
    kernel: &CudaFunction,
    values: u64,
    recurrence: Recurrence,
    sizes: &[f64],
    monitor: &Monitor,
) -> Result<Vec<Merge>> {
    let failed = |error: DriverError| device.error("a chain of nearest clusters", &error);
    let mut chain = Chain::new(device, stream, sizes).map_err(failed)?;
    let mut done = 0;
    while done + 1 < sizes.len() {
        monitor.check()?;
        // SAFETY: as the caller says.
        let now = unsafe { chain.advance(stream, kernel, values, recurrence) }.map_err(failed)?;
        // Each merge updates the dissimilarities of all remaining clusters.
        monitor.advance(
            (done..now)
                .map(|merge| (sizes.len() - 1 - merge) as u64)
                .sum(),
        );
        done = now;
    }
    chain.merges(stream).map_err(failed)
}

/// The state of the chain in device memory.
struct Chain {
    blocks: u32,
    clusters: u32,
    sizes: CudaSlice<f64>,
    gone: CudaSlice<u32>,
    stack: CudaSlice<u32>,
    nearest: CudaSlice<f64>,
    nearest_slots: CudaSlice<u32>,
    merged: CudaSlice<u32>,
    heights: CudaSlice<f64>,
    /// Three numbers: the blocks at the barrier, the length of the chain, and the merges done.
    state: CudaSlice<u32>,
}

impl Chain {
    fn new(device: &Device, stream: &Arc<CudaStream>, sizes: &[f64]) -> DriverResult<Self> {
        let n = sizes.len();
        let blocks = (n as u32)
            .div_ceil(CHAIN_THREADS)
            .min(device.multiprocessors()?);
        let chain = Self {
            blocks,
            clusters: n as u32,
            sizes: stream.clone_htod(sizes)?,
            gone: stream.alloc_zeros(n)?,
            stack: stream.alloc_zeros(n)?,
            nearest: stream.alloc_zeros(2 * blocks as usize)?,
            nearest_slots: stream.alloc_zeros(2 * blocks as usize)?,
            merged: stream.alloc_zeros(2 * n)?,
            heights: stream.alloc_zeros(n)?,
            state: stream.alloc_zeros(3)?,
        };
        // The copy in host memory must live until it has been transferred.
        stream.synchronize()?;
        Ok(chain)
    }

    /// Makes the steps of one launch. Returns the number of merges done so far.
    ///
    /// # Safety
    /// As [`merges`].
    unsafe fn advance(
        &mut self,
        stream: &Arc<CudaStream>,
        kernel: &CudaFunction,
        values: u64,
        recurrence: Recurrence,
    ) -> DriverResult<usize> {
        stream.memset_zeros(&mut self.state.slice_mut(..1))?;
        let state = |at: usize| self.state.slice(at..).device_ptr(stream).0;
        let chaining = Chaining {
            values,
            sizes: self.sizes.device_ptr(stream).0,
            gone: self.gone.device_ptr(stream).0,
            stack: self.stack.device_ptr(stream).0,
            nearest: self.nearest.device_ptr(stream).0,
            nearest_slots: self.nearest_slots.device_ptr(stream).0,
            merged: self.merged.device_ptr(stream).0,
            heights: self.heights.device_ptr(stream).0,
            arrived: state(0),
            length: state(1),
            done: state(2),
            clusters: self.clusters,
            linkage: recurrence.linkage as u32,
            steps: STEPS,
        };
        let config = LaunchConfig {
            grid_dim: (self.blocks, 1, 1),
            block_dim: (CHAIN_THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the argument is as declared in dissimilarities.cu; its arrays have the declared
        // sizes and live until the stream is synchronized below.
        unsafe {
            stream
                .launch_builder(kernel)
                .arg(&chaining)
                .launch_cooperative(config)?;
        }
        let done = stream.clone_dtoh(&self.state.slice(2..))?;
        stream.synchronize()?;
        Ok(done[0] as usize)
    }

    fn merges(&self, stream: &Arc<CudaStream>) -> DriverResult<Vec<Merge>> {
        let merged = stream.clone_dtoh(&self.merged)?;
        let heights = stream.clone_dtoh(&self.heights)?;
        stream.synchronize()?;
        let merges = merged.chunks_exact(2).zip(heights);
        let merge = |(slots, height): (&[u32], f64)| Merge {
            lower: slots[0],
            higher: slots[1],
            height,
        };
        let count = self.clusters as usize - 1;
        Ok(merges.take(count).map(merge).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{check, constants};

    #[test]
    fn arguments_are_laid_out_as_the_kernel_reads_them() {
        for stored in ["STORED=double", "STORED=float"] {
            let constants = constants![CHAIN_THREADS];
            check(
                "dissimilarities/launch.cuh",
                &[stored],
                &[Chaining::layout()],
                &constants,
            );
        }
    }
}
