//! Host memory that a device reads and writes while a kernel runs.

use std::sync::Arc;

use cudarc::driver::{sys, CudaContext};

use crate::device::{Device, DriverResult};
use crate::pinned::Pinned;

/// Number of words between the words of two watches: they are in different cache lines.
const STRIDE: usize = 32;

/// Number of watches whose words are in one page of pinned memory.
const WATCHES_PER_PAGE: usize = 32;

/// Two words of pinned memory, at the same address on the device. No reference is made to them,
/// since the device may change them at any time.
struct MappedWords {
    page: Arc<Pinned<u32>>,
    first: usize,
}

impl MappedWords {
    /// A page of words. Allocating pinned memory, and freeing it, waits for all kernels on the
    /// device.
    fn page(context: &Arc<CudaContext>) -> DriverResult<Vec<Self>> {
        let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP;
        let page = Arc::new(Pinned::with_flags(
            context,
            STRIDE * WATCHES_PER_PAGE,
            flags,
        )?);
        let words = (0..WATCHES_PER_PAGE).map(|number| Self {
            page: page.clone(),
            first: STRIDE * number,
        });
        Ok(words.collect())
    }

    fn as_ptr(&self) -> *mut u32 {
        // SAFETY: the page has STRIDE words from `first` on.
        unsafe { self.page.address().add(self.first) }
    }
}

/// Two words that the host and a kernel share, initially 0: the number of merges done, which the
/// kernel writes, and 1 to stop, which the host writes. They have the same address on both.
/// [`Device`] keeps the words that are given back, for the next watch.
pub struct Watch {
    device: Arc<Device>,
    /// `None` once they were given back.
    words: Option<MappedWords>,
}

impl Watch {
    /// The words. Call [`Watch::give_back`] once no kernel uses them any more; if it is not called,
    /// they are never used again.
    ///
    /// # Errors
    /// The driver's, such as too little memory.
    pub fn new(device: &Arc<Device>) -> DriverResult<Self> {
        let words = device.take_spare(|| MappedWords::page(&device.context))?;
        // SAFETY: the words are in a page that `words` keeps, and no kernel uses them.
        unsafe { words.as_ptr().write_bytes(0, 2) };
        Ok(Self {
            device: device.clone(),
            words: Some(words),
        })
    }

    /// The address, valid on the host and on the device.
    pub fn as_ptr(&self) -> *mut u32 {
        self.words.as_ref().expect("not given back").as_ptr()
    }

    /// Lets another watch use the words. No kernel may use them any more.
    pub fn give_back(&mut self) {
        if let Some(words) = self.words.take() {
            self.device.keep_spare(words);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // A kernel may still write the words, so their page stays allocated.
        std::mem::forget(self.words.take());
    }
}
