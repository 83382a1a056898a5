//! gpu_devices(): the CUDA devices of this machine.

use extendr_api::prelude::*;
use gmhclust_cuda::{devices, DeviceInfo};

use crate::results::r_integer;

/// The CUDA devices of this machine.
/// @return list of vectors with one element for each device, and `problem`: NULL, or the reason why
///   no device was found.
/// @noRd
#[extendr]
fn cuda_devices() -> Robj {
    let (devices, problem) = match devices() {
        Ok(devices) => (devices, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let strings =
        |of: &dyn Fn(&DeviceInfo) -> String| -> Vec<String> { devices.iter().map(of).collect() };
    let reals = |of: &dyn Fn(&DeviceInfo) -> f64| -> Vec<f64> { devices.iter().map(of).collect() };
    list!(
        device = devices
            .iter()
            .map(|d| r_integer(d.index))
            .collect::<Vec<i32>>(),
        name = strings(&|d| d.name.clone()),
        compute_capability = strings(&|d| format!("{}.{}", d.capability.0, d.capability.1)),
        memory_total = reals(&|d| d.total_memory as f64),
        memory_free = reals(&|d| d.free_memory.map_or(f64::NAN, |free| free as f64)),
        driver = strings(&|d| format!("{}.{}", d.driver / 1000, d.driver % 1000 / 10)),
        unusable = strings(&|d| d.problem.clone().unwrap_or_default()),
        problem = problem
    )
    .into()
}

extendr_module! {
    mod gpu_devices;
    fn cuda_devices;
}
