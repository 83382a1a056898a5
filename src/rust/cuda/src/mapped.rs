//! Host memory that a device reads and writes while a kernel runs.

use std::sync::Arc;

use cudarc::driver::{sys, CudaContext};

use crate::device::DriverResult;
use crate::pinned::Pinned;

/// Words of pinned memory, at the same address on the device, initially 0. No reference is made to
/// them, since the device may change them at any time.
pub struct MappedWords(Pinned<u32>);

impl MappedWords {
    pub fn new(context: &Arc<CudaContext>, len: usize) -> DriverResult<Self> {
        let mut words = Pinned::with_flags(context, len, sys::CU_MEMHOSTALLOC_DEVICEMAP)?;
        words.fill(0);
        Ok(Self(words))
    }

    /// The address, valid on the host and on the device.
    pub fn as_ptr(&self) -> *mut u32 {
        self.0.address()
    }
}
