//! Host memory that a device reads and writes while a kernel runs.

use std::sync::Arc;

use cudarc::driver::{sys, CudaContext};

use crate::device::{Device, DriverResult};
use crate::pinned::Pinned;

/// Two words of pinned memory, at the same address on the device. No reference is made to them,
/// since the device may change them at any time.
pub struct MappedWords(Pinned<u32>);

impl MappedWords {
    fn new(context: &Arc<CudaContext>) -> DriverResult<Self> {
        let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP;
        Pinned::with_flags(context, 2, flags).map(Self)
    }
}

/// Two words by which the host watches a kernel, at the same address on the device, initially 0.
/// The device keeps them for the next watch: allocating pinned memory, and freeing it, waits for
/// all kernels on the device.
pub struct Watch {
    device: Arc<Device>,
    /// `None` once `drop` has taken them.
    words: Option<MappedWords>,
}

impl Watch {
    /// The words. When `self` is dropped, no kernel may use them any more.
    ///
    /// # Errors
    /// The driver's, such as too little memory.
    pub fn new(device: &Arc<Device>) -> DriverResult<Self> {
        let mut words = match device.take_words() {
            Some(words) => words,
            None => MappedWords::new(&device.context)?,
        };
        words.0.fill(0);
        Ok(Self {
            device: device.clone(),
            words: Some(words),
        })
    }

    /// The address, valid on the host and on the device.
    pub fn as_ptr(&self) -> *mut u32 {
        let words = self.words.as_ref().expect("only `drop` takes them");
        words.0.address()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(words) = self.words.take() {
            self.device.keep_words(words);
        }
    }
}
