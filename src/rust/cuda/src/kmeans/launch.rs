//! The sizes of the kernels of kmeans.cu, and of their launches.

use cudarc::driver::LaunchConfig;

// As in kmeans_launch.cuh.
pub const DRAW_THREADS: u32 = 1024;
pub const WARP: u32 = 32;
pub const WEIGH_WARPS: u32 = 4;
pub const BINS: usize = 32;
pub const PIECE: usize = 128;
pub const QUAD: usize = 16;
pub const CODED_COLUMNS: usize = 65_535;
pub const THREADS: usize = 256;
pub const TILE: usize = 128;
pub const ROWS: usize = 128;
pub const THRESHOLD_LANES: usize = 8;
pub const DIGIT_BITS: u32 = 8;
pub const DIGITS: usize = 1 << DIGIT_BITS;
pub const SORTED: usize = 4096;
pub const SCAN_THREADS: usize = 1024;
pub const NEAR_THREADS: usize = 128;
pub const NEAR_BINS: usize = 256;
pub const NEAR_COLUMNS: usize = 32;
pub const NONE: u32 = u32::MAX;

pub fn config(blocks: u32, threads: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (blocks, 1, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: 0,
    }
}
