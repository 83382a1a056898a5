//! GPUs against the CPU, bit for bit, and what becomes of work whose device is lost.

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

use crate::{Cuda, Handover};

/// All devices that can be used, doing all that they are able to do.
fn cuda(threads: usize) -> Cuda {
    cuda_on(None, threads)
}

/// These devices, doing all that they are able to do.
fn cuda_on(devices: Option<&[usize]>, threads: usize) -> Cuda {
    try_cuda_on(devices, threads).unwrap()
}

fn try_cuda_on(devices: Option<&[usize]>, threads: usize) -> Result<Cuda> {
    Cuda::new(devices, Arc::new(Cpu::new(threads)?), Handover::default())
}

/// Cuda with all devices, or none where there are fewer than two. The line of a test that does not
/// check its claim begins with `skipped: `; tools/test-gpu counts these lines.
fn several_gpus() -> Option<Cuda> {
    let cuda = cuda(4);
    if cuda.devices() < 2 {
        eprintln!("skipped: there is one GPU, and this needs two");
        return None;
    }
    Some(cuda)
}
