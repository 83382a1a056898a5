//! GPUs against the CPU, bit for bit, and what becomes of work whose device is lost.

mod distances;
mod kmeans;
mod knn;
mod linkage;
mod loss;
mod mahalanobis;
mod matrix;

use crate::{Cuda, Handover};

/// All devices that can be used, doing all that they are able to do.
fn cuda(threads: usize) -> Cuda {
    cuda_on(None, threads)
}

/// These devices, doing all that they are able to do.
fn cuda_on(devices: Option<&[usize]>, threads: usize) -> Cuda {
    Cuda::new(devices, threads, Handover::default()).unwrap()
}
