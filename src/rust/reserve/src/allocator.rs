//! The allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::{copy_nonoverlapping, null_mut};

use gmhclust_core::memory::{self, account};

use crate::arena::ARENA;
use crate::ballast::{self, stop_computations};
use crate::huge_pages;

/// Largest allocation, in bytes, that takes memory from the arena first, then from the ballast.
const SMALL: usize = 1 << 16;

/// The system's allocator with the reserve behind it, for `#[global_allocator]`.
#[derive(Debug)]
pub struct Allocator;

impl Allocator {
    /// Memory from the reserve, after the system has refused it. `retry` asks the system again.
    /// Returns a null pointer if the caller can handle a refusal, or if the reserve is used up.
    #[cold]
    fn alloc_from_reserve(&self, layout: Layout, retry: impl Fn() -> *mut u8) -> *mut u8 {
        if memory::is_refusable() {
            return null_mut();
        }
        stop_computations();
        let small = layout.size() <= SMALL;
        let mut pointer = if small {
            ARENA.take(layout)
        } else {
            null_mut()
        };
        if pointer.is_null() {
            ballast::release();
            pointer = retry();
        }
        if pointer.is_null() && !small {
            pointer = ARENA.take(layout);
        }
        pointer
    }
}

/// Reports an allocation, and asks for huge pages for it, unless it was refused.
#[inline]
fn count(pointer: *mut u8, bytes: usize) {
    huge_pages::prefer(pointer, bytes);
    if bytes >= account::LARGE && !pointer.is_null() {
        account::allocated(bytes);
    }
}

/// Reports that an allocation was freed.
#[inline]
fn discount(bytes: usize) {
    if bytes >= account::LARGE {
        account::freed(bytes);
    }
}

// SAFETY: memory comes from the system, or from granules of the arena that have no other owner
// until they are freed. Memory is returned to its source. Nothing here panics.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller guarantees.
        let mut pointer = unsafe { System.alloc(layout) };
        if pointer.is_null() {
            // SAFETY: as the caller guarantees.
            pointer = self.alloc_from_reserve(layout, || unsafe { System.alloc(layout) });
        }
        count(pointer, layout.size());
        pointer
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller guarantees.
        let mut pointer = unsafe { System.alloc_zeroed(layout) };
        if pointer.is_null() {
            // SAFETY: as the caller guarantees.
            pointer = self.alloc_from_reserve(layout, || unsafe { System.alloc(layout) });
            if !pointer.is_null() {
                // SAFETY: the memory was allocated with this size.
                unsafe { pointer.write_bytes(0, layout.size()) };
            }
        }
        count(pointer, layout.size());
        pointer
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        discount(layout.size());
        if ARENA.holds(pointer) {
            ARENA.give_back(pointer, layout);
        } else {
            // SAFETY: as the caller guarantees, and the memory is the system's.
            unsafe { System.dealloc(pointer, layout) };
        }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !ARENA.holds(pointer) {
            // SAFETY: as the caller guarantees, and the memory is the system's.
            let moved = unsafe { System.realloc(pointer, layout, size) };
            if !moved.is_null() {
                discount(layout.size());
                count(moved, size);
                return moved;
            }
            if memory::is_refusable() {
                return null_mut();
            }
        }
        // SAFETY: the caller guarantees a valid size for a layout. The new memory does not overlap
        // the old memory, which is not freed yet.
        unsafe {
            let wanted = Layout::from_size_align_unchecked(size, layout.align());
            let moved = self.alloc(wanted);
            if !moved.is_null() {
                copy_nonoverlapping(pointer, moved, size.min(layout.size()));
                self.dealloc(pointer, layout);
            }
            moved
        }
    }
}
