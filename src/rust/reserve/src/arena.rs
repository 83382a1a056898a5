//! Static memory for small allocations.

use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ptr::null_mut;

use crate::granules::Granules;
use crate::spin_lock::SpinLock;

/// Number of bytes of the arena. It must hold the small allocations that all threads make until
/// their next check of `memory::shortage`: 8 MiB was more than enough for 64 threads. If too
/// small, a shortage ends the process. Untouched pages take no physical memory.
const ARENA_BYTES: usize = 8 << 20;

/// Unit of allocation in the arena, in bytes: sizes and addresses are multiples of it.
const GRANULE: usize = 64;

const GRANULES: usize = ARENA_BYTES / GRANULE;

/// Static memory, which is part of the library's image and exists without a request to the system.
#[repr(align(64))]
pub struct Arena(UnsafeCell<[u8; ARENA_BYTES]>);

// SAFETY: only the owner of an allocation accesses its bytes.
unsafe impl Sync for Arena {}

pub static ARENA: Arena = Arena(UnsafeCell::new([0; ARENA_BYTES]));

static IN_USE: SpinLock<Granules<{ GRANULES / 64 }>> = SpinLock::new(Granules::new());

impl Arena {
    fn start(&self) -> *mut u8 {
        self.0.get().cast()
    }

    pub fn holds(&self, pointer: *mut u8) -> bool {
        (pointer as usize).wrapping_sub(self.start() as usize) < ARENA_BYTES
    }

    /// Memory of this layout, or a null pointer if the arena has no room for it.
    pub fn take(&self, layout: Layout) -> *mut u8 {
        if layout.align() > GRANULE || layout.size() > ARENA_BYTES {
            return null_mut();
        }
        match IN_USE.lock().take(layout.size().div_ceil(GRANULE)) {
            Some(first) => self.start().wrapping_add(first * GRANULE),
            None => null_mut(),
        }
    }

    /// Takes back memory that [`take`](Self::take) gave for this layout.
    pub fn give_back(&self, pointer: *mut u8, layout: Layout) {
        let first = (pointer as usize - self.start() as usize) / GRANULE;
        let count = layout.size().div_ceil(GRANULE);
        IN_USE.lock().give_back(first, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_the_arena_is_aligned_apart_and_taken_back() {
        let layout = |size, align| Layout::from_size_align(size, align).unwrap();
        let layouts = [
            layout(1, 1),
            layout(65, 64),
            layout(4_000, 8),
            layout(64, 32),
        ];
        let mut taken = Vec::new();
        for (byte, layout) in (1..).zip(layouts) {
            let pointer = ARENA.take(layout);
            assert!(ARENA.holds(pointer));
            assert_eq!(pointer as usize % layout.align(), 0);
            // SAFETY: the memory has this size.
            unsafe { pointer.write_bytes(byte, layout.size()) };
            taken.push((pointer, layout, byte));
        }
        for &(pointer, layout, byte) in &taken {
            // SAFETY: as above; it was written.
            let bytes = unsafe { std::slice::from_raw_parts(pointer, layout.size()) };
            assert!(bytes.iter().all(|&other| other == byte));
        }
        for (pointer, layout, _) in taken {
            ARENA.give_back(pointer, layout);
        }
        assert!(
            ARENA.take(layout(64, 128)).is_null(),
            "no granule is aligned so"
        );
        assert!(ARENA.take(layout(ARENA_BYTES + 1, 1)).is_null());
        // All memory is free again.
        let all = layout(ARENA_BYTES, 1);
        let pointer = ARENA.take(all);
        assert!(!pointer.is_null());
        assert!(ARENA.take(layout(1, 1)).is_null());
        ARENA.give_back(pointer, all);
        let outside = Box::into_raw(Box::new(0u8));
        assert!(!ARENA.holds(outside));
        // SAFETY: it is the pointer of a box.
        drop(unsafe { Box::from_raw(outside) });
    }
}
