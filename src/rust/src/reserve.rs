//! The allocator of the library: the system's, with a reserve for when the system has no more.
//!
//! What grows with the data asks for memory that may be refused ([`memory`]). Rust ends the process
//! where anything else is refused, and with it R and the user's session. So that is given from a
//! reserve, and [`memory::shortage`] tells computations to stop. There are two parts:
//! * The [`ARENA`], for small allocations, is always there.
//! * A [`Ballast`] that is large enough for vectors with an element for each observation is kept
//!   while a [job](crate::job::Job) runs. The system gets it back in a shortage.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::hint::spin_loop;
use std::ops::{Deref, DerefMut};
use std::ptr::{copy_nonoverlapping, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use gmhclust_core::memory::{self, Granules};
use gmhclust_core::Result as CoreResult;

/// Bytes of the arena. Between two looks at [`memory::shortage`], threads allocate little: 8 MiB
/// was more than enough for 64 of them. Only what is touched takes real memory.
const ARENA_BYTES: usize = 8 << 20;

/// Bytes of the arena are given away in multiples of this, at addresses that are multiples of it.
const GRANULE: usize = 64;

const GRANULES: usize = ARENA_BYTES / GRANULE;

/// Bytes of allocations that the arena is meant for; larger ones first try the ballast.
const SMALL: usize = 1 << 16;

/// Ballast bytes for each observation: several vectors with an element of 8 bytes.
const BALLAST_PER_OBSERVATION: usize = 64;

/// Ballast bytes of every job, for what does not depend on the number of observations.
const BALLAST_AT_LEAST: usize = 1 << 20;

extern "C" {
    /// See ballast.c.
    fn gmhclust_ballast_take(bytes: usize) -> *mut c_void;
    fn gmhclust_ballast_give_back(ballast: *mut c_void, bytes: usize);
}

/// A lock that allocates nothing, for sections of a few instructions.
struct Spin<T> {
    locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `lock` lets one thread at a time look at the value.
unsafe impl<T: Send> Sync for Spin<T> {}

struct Locked<'a, T>(&'a Spin<T>);

impl<T> Spin<T> {
    const fn new(value: T) -> Self {
        Self {
            locked: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    fn lock(&self) -> Locked<'_, T> {
        while self.locked.swap(true, Ordering::Acquire) {
            spin_loop();
        }
        Locked(self)
    }
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has the lock.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Locked<'_, T> {
    fn drop(&mut self) {
        self.0.locked.store(false, Ordering::Release);
    }
}

/// Bytes that are part of the library's image, so that nobody has to be asked for them.
#[repr(align(64))]
struct Arena(UnsafeCell<[u8; ARENA_BYTES]>);

// SAFETY: each byte belongs to the one who was given it; none is read or written here otherwise.
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena(UnsafeCell::new([0; ARENA_BYTES]));

static IN_USE: Spin<Granules<{ GRANULES / 64 }>> = Spin::new(Granules::new());

impl Arena {
    fn start(&self) -> *mut u8 {
        self.0.get().cast()
    }

    fn holds(&self, pointer: *mut u8) -> bool {
        (pointer as usize).wrapping_sub(self.start() as usize) < ARENA_BYTES
    }

    /// Some of its bytes, or a null pointer where it has not as many.
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

/// Address space that is kept for a shortage.
struct Kept {
    first: *mut c_void,
    bytes: usize,
}

// SAFETY: a place in memory, which is no thread's in particular.
unsafe impl Send for Kept {}

/// What all jobs keep together, and how many jobs there are.
struct Keeping {
    kept: Option<Kept>,
    jobs: usize,
}

static KEEPING: Spin<Keeping> = Spin::new(Keeping {
    kept: None,
    jobs: 0,
});

impl Keeping {
    /// Has the computations stop, if there are any.
    fn fall_short(&self) {
        if self.jobs > 0 {
            memory::set_shortage(true);
        }
    }

    /// Gives the system back what is kept.
    fn give_back(&mut self) {
        if let Some(Kept { first, bytes }) = self.kept.take() {
            // SAFETY: it was taken with this size, and is given back once.
            unsafe { gmhclust_ballast_give_back(first, bytes) };
        }
    }
}

/// Keeps address space as long as it lives, or until a shortage.
pub struct Ballast(());

impl Ballast {
    /// For a job on so many observations.
    ///
    /// # Errors
    /// `Error::Memory` where the system does not give it.
    pub fn new(observations: usize) -> CoreResult<Self> {
        let bytes = observations.saturating_mul(BALLAST_PER_OBSERVATION) + BALLAST_AT_LEAST;
        let mut keeping = KEEPING.lock();
        if keeping.kept.as_ref().is_none_or(|kept| kept.bytes < bytes) {
            keeping.give_back();
            // SAFETY: any size may be asked for.
            let first = unsafe { gmhclust_ballast_take(bytes) };
            if first.is_null() {
                drop(keeping);
                return Err(memory::too_little(
                    "the reserve of a computation needs",
                    bytes as f64,
                ));
            }
            keeping.kept = Some(Kept { first, bytes });
        }
        keeping.jobs += 1;
        Ok(Self(()))
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        let mut keeping = KEEPING.lock();
        keeping.jobs -= 1;
        if keeping.jobs == 0 {
            keeping.give_back();
            // What computations had is the system's again.
            memory::set_shortage(false);
        }
    }
}

/// The system's allocator with the reserve behind it.
struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

impl Allocator {
    /// What the system refuses; a null pointer where it may be refused, or the reserve is used up.
    #[cold]
    fn reserved(&self, layout: Layout, again: impl Fn() -> *mut u8) -> *mut u8 {
        if memory::is_refusable() {
            return null_mut();
        }
        KEEPING.lock().fall_short();
        let small = layout.size() <= SMALL;
        let mut given = if small {
            ARENA.take(layout)
        } else {
            null_mut()
        };
        if given.is_null() {
            KEEPING.lock().give_back();
            given = again();
        }
        if given.is_null() && !small {
            given = ARENA.take(layout);
        }
        given
    }
}

// SAFETY: memory is the system's, or granules of the arena that nobody else has until they are given
// back; only the system's is handed to the system. Nothing here panics.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises.
        let given = unsafe { System.alloc(layout) };
        if given.is_null() {
            // SAFETY: the caller's promises.
            return self.reserved(layout, || unsafe { System.alloc(layout) });
        }
        given
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises.
        let mut given = unsafe { System.alloc_zeroed(layout) };
        if given.is_null() {
            // SAFETY: the caller's promises.
            given = self.reserved(layout, || unsafe { System.alloc(layout) });
            if !given.is_null() {
                // SAFETY: it was given with this size.
                unsafe { given.write_bytes(0, layout.size()) };
            }
        }
        given
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if ARENA.holds(pointer) {
            ARENA.give_back(pointer, layout);
        } else {
            // SAFETY: the caller's promises, and it is the system's.
            unsafe { System.dealloc(pointer, layout) };
        }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !ARENA.holds(pointer) {
            // SAFETY: the caller's promises, and it is the system's.
            let moved = unsafe { System.realloc(pointer, layout, size) };
            if !moved.is_null() {
                return moved;
            }
            if memory::is_refusable() {
                return null_mut();
            }
        }
        // SAFETY: the caller promises a size that makes a layout, and that the new place is another.
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
