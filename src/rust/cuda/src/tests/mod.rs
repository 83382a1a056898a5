//! Compares GPUs with the CPU, bit for bit, and tests the loss of a device during work.

mod distances;
mod kmeans;
mod knn;
mod linkage;
mod loss;
mod mahalanobis;
mod matrix;

use std::sync::Arc;

use gmhclust_core::error::Result;
use gmhclust_core::Cpu;

use crate::{Cuda, GpuThresholds};

/// Cuda with all usable devices. The devices do all work that they can.
fn cuda(threads: usize) -> Cuda {
    cuda_on(None, threads)
}

/// Cuda with these devices. The devices do all work that they can.
fn cuda_on(devices: Option<&[usize]>, threads: usize) -> Cuda {
    try_cuda_on(devices, threads).unwrap()
}

fn try_cuda_on(devices: Option<&[usize]>, threads: usize) -> Result<Cuda> {
    Cuda::new(
        devices,
        Arc::new(Cpu::new(threads)?),
        GpuThresholds::default(),
    )
}

/// Cuda with all devices, or `None` if there are fewer than two. A test that does not check its
/// claim prints a line that begins with `skipped: `. tools/test-gpu counts these lines.
fn several_gpus() -> Option<Cuda> {
    let cuda = cuda(4);
    if cuda.devices() < 2 {
        eprintln!("skipped: there is one GPU, and this needs two");
        return None;
    }
    Some(cuda)
}
