//! The library's memory allocator: the system's allocator, and a reserve for a memory shortage.
//!
//! Allocations that grow with the data are fallible (see [`memory`]). If any other allocation
//! fails, Rust ends the process, and with it the R session. This allocator serves these allocations
//! from a reserve, and sets [`memory::shortage`], at which computations stop. The reserve has two
//! parts:
//! * The [`ARENA`] serves small allocations. It always exists.
//! * A [`Ballast`] exists while a [job](crate::job::Job) runs. It is large enough for several
//!   vectors with an element per observation. In a shortage, the system gets its memory back.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::hint::spin_loop;
use std::ops::{Deref, DerefMut};
use std::ptr::{copy_nonoverlapping, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use gmhclust_core::memory::{self, account, Granules};
use gmhclust_core::Result as CoreResult;

/// Bytes of the arena. It must hold the small allocations that all threads make until they next
/// check [`memory::shortage`]: 8 MiB was more than enough for 64 threads. Untouched pages take no
/// physical memory.
const ARENA_BYTES: usize = 8 << 20;

/// Unit of allocation in the arena, in bytes: sizes and addresses are multiples of it.
const GRANULE: usize = 64;

const GRANULES: usize = ARENA_BYTES / GRANULE;

/// Largest allocation, in bytes, for which the arena comes before the ballast.
const SMALL: usize = 1 << 16;

/// Ballast bytes per observation: 8 vectors of 8-byte elements.
const BALLAST_PER_OBSERVATION: usize = 64;

/// Ballast bytes of every job, for allocations that do not grow with the number of observations.
const BALLAST_AT_LEAST: usize = 1 << 20;

extern "C" {
    /// See ballast.c.
    fn gmhclust_ballast_take(bytes: usize) -> *mut c_void;
    fn gmhclust_ballast_give_back(ballast: *mut c_void, bytes: usize);
}

/// A lock that never allocates, for critical sections of a few instructions.
struct SpinLock<T> {
    locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `lock` gives one thread at a time access to the value.
unsafe impl<T: Send> Sync for SpinLock<T> {}

/// Access to the value of a lock, until it is dropped.
struct SpinGuard<'a, T>(&'a SpinLock<T>);

impl<T> SpinLock<T> {
    const fn new(value: T) -> Self {
        Self {
            locked: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    fn lock(&self) -> SpinGuard<'_, T> {
        while self.locked.swap(true, Ordering::Acquire) {
            spin_loop();
        }
        SpinGuard(self)
    }
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has the lock.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    fn drop(&mut self) {
        self.0.locked.store(false, Ordering::Release);
    }
}

/// Static memory, which is part of the library's image and exists without a request to the system.
#[repr(align(64))]
struct Arena(UnsafeCell<[u8; ARENA_BYTES]>);

// SAFETY: only the owner of an allocation accesses its bytes.
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena(UnsafeCell::new([0; ARENA_BYTES]));

static IN_USE: SpinLock<Granules<{ GRANULES / 64 }>> = SpinLock::new(Granules::new());

impl Arena {
    fn start(&self) -> *mut u8 {
        self.0.get().cast()
    }

    fn holds(&self, pointer: *mut u8) -> bool {
        (pointer as usize).wrapping_sub(self.start() as usize) < ARENA_BYTES
    }

    /// Memory of this layout, or a null pointer if the arena has no room for it.
    fn take(&self, layout: Layout) -> *mut u8 {
        if layout.align() > GRANULE || layout.size() > ARENA_BYTES {
            return null_mut();
        }
        match IN_USE.lock().take(layout.size().div_ceil(GRANULE)) {
            Some(first) => self.start().wrapping_add(first * GRANULE),
            None => null_mut(),
        }
    }

    fn give_back(&self, pointer: *mut u8, layout: Layout) {
        let first = (pointer as usize - self.start() as usize) / GRANULE;
        let count = layout.size().div_ceil(GRANULE);
        IN_USE.lock().give_back(first, count);
    }
}

/// Address space that is reserved for a shortage.
struct Reserved {
    first: *mut c_void,
    bytes: usize,
}

// SAFETY: a pointer to memory that belongs to no particular thread.
unsafe impl Send for Reserved {}

/// The reserve that all running jobs share, and the number of these jobs.
struct Reserve {
    reserved: Option<Reserved>,
    jobs: usize,
}

static RESERVE: SpinLock<Reserve> = SpinLock::new(Reserve {
    reserved: None,
    jobs: 0,
});

impl Reserve {
    /// Tells running computations to stop.
    fn signal_shortage(&self) {
        if self.jobs > 0 {
            memory::set_shortage(true);
        }
    }

    /// Returns the reserved address space to the system.
    fn release(&mut self) {
        if let Some(Reserved { first, bytes }) = self.reserved.take() {
            // SAFETY: it was reserved with this size, and is returned once.
            unsafe { gmhclust_ballast_give_back(first, bytes) };
        }
    }
}

/// Tells running computations to stop, because a limit on memory is near.
pub fn stop_computations() {
    RESERVE.lock().signal_shortage();
}

/// Address space that is reserved until this value is dropped, or until a shortage.
pub struct Ballast(());

impl Ballast {
    /// The ballast of a job on this number of observations.
    ///
    /// # Errors
    /// `Error::Memory` if the system refuses the address space.
    pub fn new(observations: usize) -> CoreResult<Self> {
        let bytes = observations.saturating_mul(BALLAST_PER_OBSERVATION) + BALLAST_AT_LEAST;
        let mut reserve = RESERVE.lock();
        if reserve.reserved.as_ref().is_none_or(|it| it.bytes < bytes) {
            reserve.release();
            // SAFETY: the function accepts any size.
            let first = unsafe { gmhclust_ballast_take(bytes) };
            if first.is_null() {
                drop(reserve);
                return Err(memory::too_little(
                    "the reserve of a computation needs",
                    bytes as f64,
                ));
            }
            reserve.reserved = Some(Reserved { first, bytes });
        }
        reserve.jobs += 1;
        Ok(Self(()))
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        let mut reserve = RESERVE.lock();
        reserve.jobs -= 1;
        if reserve.jobs == 0 {
            reserve.release();
            // The computations have ended and freed their memory.
            memory::set_shortage(false);
        }
    }
}

/// The system's allocator with the reserve behind it.
struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

impl Allocator {
    /// Memory from the reserve, after the system refused it. `retry` asks the system again. A null
    /// pointer if the caller can handle a refusal, or the reserve is used up.
    #[cold]
    fn alloc_from_reserve(&self, layout: Layout, retry: impl Fn() -> *mut u8) -> *mut u8 {
        if memory::is_refusable() {
            return null_mut();
        }
        RESERVE.lock().signal_shortage();
        let small = layout.size() <= SMALL;
        let mut pointer = if small {
            ARENA.take(layout)
        } else {
            null_mut()
        };
        if pointer.is_null() {
            RESERVE.lock().release();
            pointer = retry();
        }
        if pointer.is_null() && !small {
            pointer = ARENA.take(layout);
        }
        pointer
    }
}

/// Reports an allocation, unless it was refused.
#[inline]
fn count(pointer: *mut u8, bytes: usize) {
    if bytes >= account::LARGE && !pointer.is_null() {
        account::took(bytes);
    }
}

/// Reports that an allocation was freed.
#[inline]
fn discount(bytes: usize) {
    if bytes >= account::LARGE {
        account::gave_back(bytes);
    }
}

// SAFETY: memory comes from the system, or from granules of the arena that have no other owner
// until they are freed. Memory returns to where it came from. Nothing here panics.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises.
        let mut pointer = unsafe { System.alloc(layout) };
        if pointer.is_null() {
            // SAFETY: the caller's promises.
            pointer = self.alloc_from_reserve(layout, || unsafe { System.alloc(layout) });
        }
        count(pointer, layout.size());
        pointer
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises.
        let mut pointer = unsafe { System.alloc_zeroed(layout) };
        if pointer.is_null() {
            // SAFETY: the caller's promises.
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
            // SAFETY: the caller's promises, and the memory is the system's.
            unsafe { System.dealloc(pointer, layout) };
        }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !ARENA.holds(pointer) {
            // SAFETY: the caller's promises, and the memory is the system's.
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
        // SAFETY: the caller promises a valid size for a layout. The new memory does not overlap
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
