//! The sizes of the kernels of kmeans.cu and of their launches.

use cudarc::driver::LaunchConfig;

// kmeans/launch.cuh defines the same constants; a test compares them.

/// Threads of a block of `draw`.
pub const DRAW_THREADS: u32 = 1024;
/// Threads of a warp.
pub const WARP: u32 = 32;
/// Warps of a block of `weigh`.
pub const WEIGH_WARPS: u32 = 4;
/// Bins of a group of observations.
pub const BINS: usize = 32;
/// Observations that a warp compares at a time in a draw.
pub const PIECE: usize = 128;
/// Bytes in the unit of the length of a code.
pub const QUAD: usize = 16;
/// Largest number of columns of observations with codes.
pub const CODED_COLUMNS: usize = 65_535;
/// Threads of a block of most kernels.
pub const THREADS: usize = 256;
/// Observations, and centers, of a tile of `screen`.
pub const TILE: usize = 128;
/// Observations of a tile of `decide`.
pub const ROWS: usize = 128;
/// Threads of `find_thresholds` for each observation.
pub const THRESHOLD_LANES: usize = 8;
/// Bits of a digit of cluster numbers in a sort.
pub const DIGIT_BITS: u32 = 8;
/// Number of values of a digit.
pub const DIGITS: usize = 1 << DIGIT_BITS;
/// Observations that a block sorts.
pub const SORTED: usize = 4096;
/// Threads of the block of `scan_counts`.
pub const SCAN_THREADS: usize = 1024;
/// Threads of a block of the kernels of kmeans/near.cuh.
pub const NEAR_THREADS: usize = 128;
/// Bins of the centers near a cluster.
pub const NEAR_BINS: usize = 256;
/// Largest number of columns for which observations are compared only with near centers.
pub const NEAR_COLUMNS: usize = 32;
/// Number of a cluster or row that does not exist.
pub const NONE: u32 = u32::MAX;

pub fn config(blocks: u32, threads: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (blocks, 1, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: 0,
    }
}
