//! The steps of the first use of a device. `examples/time_first_call.rs` times each of them.

use gmhclust_core::error::Result;

use crate::device::Device;
use crate::kernels::Bundle;

/// Decompresses the kernels, as opening a device does. Returns the names of their modules.
///
/// # Errors
/// `Error::Memory` if there is too little memory, `Error::Device` if the kernels cannot be
/// decompressed.
pub fn unpack() -> Result<Vec<&'static str>> {
    let bundle = Bundle::open()?;
    Ok(bundle.modules().map(|(name, _)| name).collect())
}

/// Loads a module on a device, and opens the device if needed.
///
/// # Errors
/// `Error::Device` if the device cannot be opened or the module cannot be loaded.
pub fn load(device: usize, module: &'static str) -> Result<()> {
    let device = Device::shared(device)?;
    let loaded = device.module(module);
    loaded.map_err(|error| device.error(module, &error))?;
    Ok(())
}
