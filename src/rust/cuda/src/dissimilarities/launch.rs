//! The kernels of dissimilarities.cu, their arguments and launch configurations.

use cudarc::driver::{CudaFunction, LaunchConfig};
use gmhclust_core::error::Result;

use crate::arguments::arguments;
use crate::device::Device;
use crate::kernels::Kernels;

/// Number of threads of a block of most kernels.
pub const THREADS: u32 = 256;

/// Number of threads of a warp. As in base.cuh.
pub const WARP: u32 = 32;

/// Number of threads of a block that searches for nearest clusters: the largest block.
pub const SEARCH_THREADS: u32 = 1024;

/// Number of a slot that does not exist. As in base.cuh.
pub const NONE: u32 = u32::MAX;

arguments! {
    /// As in dissimilarities/launch.cuh.
    pub struct Search {
        pub values: u64,
        pub wanted: u64,
        pub dissimilarities: u64,
        pub slots: u64,
        pub unusable: u64,
        pub clusters: u32,
        pub count: u32,
        pub each: u32,
        pub squared: u32,
    }
}

arguments! {
    /// As in dissimilarities/launch.cuh.
    pub struct Step {
        pub height: f64,
        pub sizes: [f64; 2],
        pub lower: u32,
        pub higher: u32,
        pub merged: [u32; 2],
    }
}

arguments! {
    /// As in dissimilarities/launch.cuh.
    pub struct Merging {
        pub values: u64,
        pub steps: u64,
        pub sizes: u64,
        pub step_of: u64,
        pub clusters: u32,
        pub linkage: u32,
        pub squared: u32,
        pub first: u32,
        pub last: u32,
    }
}

arguments! {
    /// As in dissimilarities/launch.cuh.
    pub struct Rest {
        pub values: u64,
        pub live: u64,
        pub step_of: u64,
        pub out: u64,
        pub before: u32,
        pub clusters: u32,
        pub squared: u32,
        pub first: u32,
    }
}

/// The kernels for one type of stored dissimilarities.
pub struct DissimilarityKernels {
    pub narrow: CudaFunction,
    pub entries: CudaFunction,
    pub nearest: CudaFunction,
    pub open: CudaFunction,
    pub merge: CudaFunction,
    pub gather: CudaFunction,
}

impl DissimilarityKernels {
    /// The kernels of a module.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn new(device: &Device, kernels: &Kernels) -> Result<Self> {
        let kernel = |name: &str| device.kernel(kernels, name);
        Ok(Self {
            narrow: kernel("narrow")?,
            entries: kernel("entries")?,
            nearest: kernel("nearest")?,
            open: kernel("open")?,
            merge: kernel("merge")?,
            gather: kernel("gather")?,
        })
    }
}

/// The launch configuration with `count` blocks, but at least one, of [`THREADS`] threads.
pub fn blocks(count: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (count.max(1) as u32, 1, 1),
        block_dim: (THREADS, 1, 1),
        shared_mem_bytes: 0,
    }
}

/// The launch configuration of a search for the nearest clusters of `count` clusters, with a warp
/// for each cluster.
pub fn search_config(count: usize) -> LaunchConfig {
    LaunchConfig {
        grid_dim: ((count as u32).div_ceil(SEARCH_THREADS / WARP), 1, 1),
        block_dim: (SEARCH_THREADS, 1, 1),
        shared_mem_bytes: 0,
    }
}
