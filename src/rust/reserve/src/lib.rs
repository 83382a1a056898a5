//! The library's memory allocator: the system's allocator, with a reserve for a shortage of memory.
//!
//! If the system refuses memory, Rust ends the process, and with it the user's R session. The core
//! requests all memory that grows with the data in a way that may be refused
//! ([`gmhclust_core::memory`]), and a call plans its memory before it begins. Small allocations
//! remain, in this library and in the libraries that it uses: a queue, a message, the state of a
//! thread. If a small allocation is refused, this allocator serves it from the reserve and reports
//! a [shortage](gmhclust_core::memory::shortage). Every computation checks for a shortage in its
//! loops, and then ends with an error, which frees its memory. The reserve has two parts:
//!
//! * The arena, static memory, serves small allocations. It always exists.
//! * The [`Ballast`] exists while a job runs. It is large enough for several vectors with an
//!   element per observation. In a shortage, its memory returns to the system, which can then serve
//!   the allocation.
//!
//! Without the reserve, R ends in the middle of a call if address space is limited (`ulimit -v`).
//! tests/testthat/test-shortage.R, and tests/shortage.rs of this crate, test this.
//!
//! A library uses the allocator by one line:
//! ```text
//! #[global_allocator]
//! static ALLOCATOR: gmhclust_reserve::Allocator = gmhclust_reserve::Allocator;
//! ```
//! It must be linked with src/ballast.c, which requests the ballast from the system, and with
//! src/huge_pages.c.
//!
//! The allocator also keeps the account of large allocations
//! ([`account`](gmhclust_core::memory::account)), from which the core computes how much memory was
//! taken but not written yet, and asks the system for huge pages for them.
//!
//! Observations for which memory is too small are in a scratch file, [`Scratch`].

mod allocator;
mod arena;
mod ballast;
mod granules;
mod huge_pages;
mod scratch;
mod spin_lock;

pub use allocator::Allocator;
pub use ballast::{stop_computations, Ballast};
pub use scratch::{Scratch, ScratchWriter};

/// Replaces src/ballast.c and src/huge_pages.c, which R compiles.
#[cfg(test)]
mod system {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::ffi::c_void;
    use std::ptr::null_mut;

    /// Size of the largest ballast that is granted, in bytes.
    pub const MOST: usize = 1 << 30;

    #[no_mangle]
    extern "C" fn gmhclust_ballast_take(bytes: usize) -> *mut c_void {
        if bytes > MOST {
            return null_mut();
        }
        // SAFETY: a layout of at least one byte.
        unsafe { System.alloc(layout(bytes)) }.cast()
    }

    #[no_mangle]
    extern "C" fn gmhclust_ballast_give_back(ballast: *mut c_void, bytes: usize) {
        // SAFETY: it was taken with this size.
        unsafe { System.dealloc(ballast.cast(), layout(bytes)) }
    }

    #[no_mangle]
    extern "C" fn gmhclust_prefer_huge_pages(_: *mut c_void, _: usize) {}

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes.max(1), 16).expect("is no more than MOST")
    }
}
