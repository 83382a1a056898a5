//! Host memory that a device reads and writes while a kernel runs.

use std::sync::Arc;

use cudarc::driver::{result, sys, CudaContext};

use crate::device::DriverResult;

/// Page-locked words of host memory, at the same address on the device, initially 0.
pub struct MappedWords {
    words: *mut u32,
    context: Arc<CudaContext>,
}

// SAFETY: the memory belongs to no thread, and shared access only reads the address.
unsafe impl Send for MappedWords {}
// SAFETY: as above.
unsafe impl Sync for MappedWords {}

impl MappedWords {
    pub fn new(context: &Arc<CudaContext>, len: usize) -> DriverResult<Self> {
        context.bind_to_thread()?;
        let bytes = len * size_of::<u32>();
        // SAFETY: the memory is free until `drop`, aligned to pages, and filled before it is read.
        let words = unsafe {
            let words = result::malloc_host(bytes, sys::CU_MEMHOSTALLOC_DEVICEMAP)?.cast::<u32>();
            words.write_bytes(0, len);
            words
        };
        Ok(Self {
            words,
            context: context.clone(),
        })
    }

    /// The address, valid on the host and on the device.
    pub fn as_ptr(&self) -> *mut u32 {
        self.words
    }
}

impl Drop for MappedWords {
    fn drop(&mut self) {
        // If the device was lost, the memory cannot be freed.
        let _ = self.context.bind_to_thread();
        // SAFETY: allocated by `malloc_host`; nothing uses it any more.
        let _ = unsafe { result::free_host(self.words.cast()) };
    }
}
