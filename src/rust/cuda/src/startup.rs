//! The steps of the first use of a device. `examples/time_first_call.rs` times each of them.

use gmhclust_core::error::Result;

use crate::device::Device;
use crate::kernels::Bundle;

/// Decompresses the PTX of all modules, as the first use of a module without a fitting binary does.
/// Returns the names of the modules.
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
/// As [`Device::module`].
pub fn load(device: usize, module: &'static str) -> Result<()> {
    Device::shared(device)?.module(module)?;
    Ok(())
}
