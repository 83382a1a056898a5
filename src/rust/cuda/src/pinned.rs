//! Pinned memory of the host: devices copy from and to it directly, while the host goes on.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use cudarc::driver::{result, CudaContext};

use crate::device::DriverResult;

/// Pinned memory. Unlike that of [`CudaContext::alloc_pinned`], which is write-combined, it is
/// cached: the host reads it, and writes it in any order, as fast as other memory.
pub struct Pinned<T> {
    context: Arc<CudaContext>,
    first: *mut T,
    len: usize,
}

// SAFETY: the memory belongs to no particular thread.
unsafe impl<T: Send> Send for Pinned<T> {}
// SAFETY: as above; a shared reference only reads.
unsafe impl<T: Sync> Sync for Pinned<T> {}

/// Numbers.
///
/// # Safety
/// All bits must be values of the type.
pub unsafe trait AnyBits {}

// SAFETY: all bits are values.
unsafe impl AnyBits for f32 {}
// SAFETY: as above.
unsafe impl AnyBits for f64 {}
// SAFETY: as above.
unsafe impl AnyBits for u32 {}

impl<T: AnyBits> Pinned<T> {
    /// Memory for this many numbers, with arbitrary values.
    ///
    /// # Errors
    /// The driver's, such as too little memory.
    pub fn new(context: &Arc<CudaContext>, len: usize) -> DriverResult<Self> {
        Self::with_flags(context, len, 0)
    }

    /// As [`Pinned::new`], with flags of the driver's `cuMemHostAlloc`.
    ///
    /// # Errors
    /// As [`Pinned::new`].
    pub fn with_flags(context: &Arc<CudaContext>, len: usize, flags: u32) -> DriverResult<Self> {
        context.bind_to_thread()?;
        // The driver refuses an allocation of 0 bytes.
        let bytes = len.max(1) * size_of::<T>();
        // SAFETY: the driver gives whole pages, which the system has filled; all of their bits are
        // values of `T`.
        let first = unsafe { result::malloc_host(bytes, flags)? }.cast::<T>();
        assert!(!first.is_null() && first.is_aligned(), "pages");
        Ok(Self {
            context: context.clone(),
            first,
            len,
        })
    }

    /// The address of the first number.
    pub fn address(&self) -> *mut T {
        self.first
    }
}

impl<T> Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `with_flags` has room for this many numbers, and `self` owns them.
        unsafe { std::slice::from_raw_parts(self.first, self.len) }
    }
}

impl<T> DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.first, self.len) }
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        // An error may be one of earlier work. If the device was lost, the memory cannot be freed.
        let _ = self.context.bind_to_thread();
        // SAFETY: the memory is that of `with_flags`. Whoever started a copy has waited for it.
        let _ = unsafe { result::free_host(self.first.cast()) };
    }
}
