//! Huge pages for large allocations.
//!
//! With pages of 4 kB, a copy of large observations spends much of its time on page faults, freeing
//! it takes 20 ms for half a gigabyte, and reading it in random order misses the cache of page
//! addresses (TLB). Linux gives pages of 2 MB (transparent huge pages) where it is asked to.

use std::ffi::c_void;

extern "C" {
    /// See src/huge_pages.c.
    fn gmhclust_prefer_huge_pages(memory: *mut c_void, bytes: usize);
}

/// Smallest allocation, in bytes, that asks: 32 MiB. From there on, each of glibc's allocations has
/// a mapping of its own, so that what was asked for ends when the memory is freed.
const LARGE: usize = 32 << 20;

/// Asks for huge pages for a large allocation, unless it was refused.
#[inline]
pub fn prefer(memory: *mut u8, bytes: usize) {
    if bytes >= LARGE && !memory.is_null() {
        // SAFETY: the allocation has this size; its values stay what they are.
        unsafe { gmhclust_prefer_huge_pages(memory.cast(), bytes) }
    }
}
