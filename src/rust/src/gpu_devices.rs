//! gpu_devices(): the CUDA devices of this machine.

use extendr_api::prelude::*;
use gmhclust_core::Result as CoreResult;
use gmhclust_engine::{devices, DeviceInfo};

use crate::results::r_integer;
use crate::{rvalue, vector};

/// The CUDA devices of this machine.
/// @return list of vectors with one element for each device, and `problem`: NULL, or the reason why
///   no device was found. NULL if R has no memory for it.
/// @noRd
#[extendr]
fn cuda_devices() -> Robj {
    devices_to_r().unwrap_or_else(|_| rvalue::null())
}

fn devices_to_r() -> CoreResult<Robj> {
    let (devices, problem) = match devices() {
        Ok(devices) => (devices, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let strings = |of: &dyn Fn(&DeviceInfo) -> String| {
        rvalue::strings(&devices.iter().map(of).collect::<Vec<_>>())
    };
    let reals = |of: &dyn Fn(&DeviceInfo) -> f64| vector::doubles(devices.iter().map(of));
    let problem = match problem {
        Some(problem) => rvalue::string(&problem)?,
        None => rvalue::null(),
    };
    let free = |d: &DeviceInfo| d.free_memory.map_or(f64::NAN, |free| free as f64);
    let driver = |d: &DeviceInfo| format!("{}.{}", d.driver / 1000, d.driver % 1000 / 10);
    rvalue::list([
        (
            "device",
            vector::integers(devices.iter().map(|d| r_integer(d.index)))?,
        ),
        ("name", strings(&|d| d.name.clone())?),
        (
            "compute_capability",
            strings(&|d| format!("{}.{}", d.capability.0, d.capability.1))?,
        ),
        ("memory_total", reals(&|d| d.total_memory as f64)?),
        ("memory_free", reals(&free)?),
        ("driver", strings(&driver)?),
        (
            "unusable",
            strings(&|d| d.problem.clone().unwrap_or_default())?,
        ),
        ("problem", problem),
    ])
}

extendr_module! {
    mod gpu_devices;
    fn cuda_devices;
}
