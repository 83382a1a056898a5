//! The sizes of the kernels of kmeans.cu, and of their launches.

use cudarc::driver::LaunchConfig;

// As in kmeans_launch.cuh.
pub const DRAW_THREADS: u32 = 1024;
pub const WARP: u32 = 32;
pub const WEIGH_WARPS: u32 = 4;
pub const THREADS: u32 = 256;
pub const ROWS: u32 = 128;
pub const SPAN: usize = 2048;
pub const NONE: u32 = u32::MAX;

pub fn config(blocks: u32, threads: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (blocks, 1, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: 0,
    }
}
