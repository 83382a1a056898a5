//! The device that an example is asked to run on.

use std::error::Error;

use gmhclust_core::kmeans::KMeansDevice;
use gmhclust_core::linkage::LinkageDevice;
use gmhclust_core::mahalanobis::AgglomerationDevice;
use gmhclust_core::Cpu;
use gmhclust_cuda::{Cuda, Handover};

/// A device for every algorithm.
pub trait AnyDevice: AgglomerationDevice + KMeansDevice + LinkageDevice {}

impl<D: AgglomerationDevice + KMeansDevice + LinkageDevice> AnyDevice for D {}

/// `"cpu"`, or `"cuda"` with these devices, which then do all that they are able to do.
pub fn open(
    name: &str,
    threads: usize,
    devices: Option<&[usize]>,
) -> Result<Box<dyn AnyDevice>, Box<dyn Error>> {
    Ok(match name {
        "cpu" => Box::new(Cpu::new(threads)?),
        "cuda" => Box::new(Cuda::new(devices, threads, Handover::default())?),
        _ => return Err("DEVICE must be cpu or cuda".into()),
    })
}
