//! Launches of the kernel `scatter`. It copies rows that are stored row by row to a buffer that is
//! stored value by value, or row by row.

use std::sync::Arc;

use cudarc::driver::{CudaFunction, CudaStream, LaunchConfig, PushKernelArg};

use super::layout::WARP;
use crate::device::DriverResult;

/// Copies rows of the host to positions of the device buffer at `address`. Consecutive values of a
/// row are `stride` apart there. With stride 1, positions are the indices of the first values of
/// rows.
pub fn scatter(
    stream: &Arc<CudaStream>,
    kernel: &CudaFunction,
    rows: &[f32],
    positions: &[u32],
    address: u64,
    stride: usize,
) -> DriverResult<()> {
    let count = positions.len() as u32;
    if count == 0 {
        return Ok(());
    }
    let row_len = (rows.len() / positions.len()) as u32;
    let rows = stream.clone_htod(rows)?;
    let positions = stream.clone_htod(positions)?;
    // SAFETY: arguments as declared in neighbours.cu; the buffer has these places.
    unsafe {
        stream
            .launch_builder(kernel)
            .arg(&rows)
            .arg(&positions)
            .arg(&count)
            .arg(&row_len)
            .arg(&address)
            .arg(&(stride as u64))
            .launch(by_tiles(count, row_len))?;
    }
    // The copies in host memory must live until they have been transferred.
    stream.synchronize()
}

/// The launch configuration for `count` rows. A block transposes a square of values.
pub fn by_tiles(count: u32, row_len: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (count.div_ceil(WARP), row_len.div_ceil(WARP), 1),
        block_dim: (WARP, 8, 1),
        shared_mem_bytes: 0,
    }
}
