//! Memory that the system has given to this process, but that the process has not written yet.
//!
//! The system counts a page as used when it is first written. So if the memory of an earlier
//! request is not written yet, the system reports too much available memory: requests have to be
//! summed. An allocator reports its large allocations here, and code that takes other memory holds
//! a [`Held`]. The memory taken since the beginning of a call, minus the growth of the process in
//! that time, is not written yet.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Smallest allocation, in bytes, that an allocator reports. Smaller allocations are written soon,
/// and counting them would cost time.
pub const LARGE: usize = 1 << 15;

/// Bytes by which the account may grow until the limits are checked again; a check takes 50 µs. Up
/// to this much memory may be taken after none is left, so it must be less than the headroom.
const BYTES_BETWEEN_LIMIT_CHECKS: usize = 16 << 20;

/// Bytes of all large allocations.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// `HELD` at the last check of the limits.
static HELD_AT_LIMIT_CHECK: AtomicUsize = AtomicUsize::new(0);

/// `HELD` when the present call began.
static BEGAN_HELD: AtomicUsize = AtomicUsize::new(0);

/// Resident bytes of the process when the present call began; the greatest number before the first
/// call.
static BEGAN_RESIDENT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Reports an allocation of at least [`LARGE`] bytes.
#[inline]
pub fn allocated(bytes: usize) {
    HELD.fetch_add(bytes, Relaxed);
}

/// Reports that an allocation of at least [`LARGE`] bytes was freed.
#[inline]
pub fn freed(bytes: usize) {
    HELD.fetch_sub(bytes, Relaxed);
}

/// Memory of another allocator that counts until this value is dropped.
#[derive(Debug)]
pub struct Held(usize);

impl Held {
    /// Counts this number of bytes.
    pub fn new(bytes: usize) -> Self {
        allocated(bytes);
        Self(bytes)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        freed(self.0);
    }
}

/// Marks the beginning of a call, for [`unwritten`] and `growth`.
pub fn begin() {
    let held = HELD.load(Relaxed);
    BEGAN_HELD.store(held, Relaxed);
    HELD_AT_LIMIT_CHECK.store(held, Relaxed);
    BEGAN_RESIDENT.store(resident().unwrap_or(usize::MAX), Relaxed);
}

/// Whether the limits have to be checked: whether this request, together with the requests since
/// the last check, is large.
pub fn is_due(bytes: f64) -> bool {
    let held = HELD.load(Relaxed);
    let before = HELD_AT_LIMIT_CHECK.fetch_min(held, Relaxed).min(held);
    (held - before) as f64 + bytes > BYTES_BETWEEN_LIMIT_CHECKS as f64
}

/// Records that the limits were checked.
pub fn record_limit_check() {
    HELD_AT_LIMIT_CHECK.store(HELD.load(Relaxed), Relaxed);
}

/// Bytes that were taken since the call began and are not written yet.
pub fn unwritten() -> f64 {
    let taken = HELD.load(Relaxed) as f64 - BEGAN_HELD.load(Relaxed) as f64;
    growth().map_or(0.0, |growth| (taken - growth).max(0.0))
}

/// Whether the process has grown so much since the call began that the call may be the reason for a
/// shortage.
pub fn has_grown() -> bool {
    growth().is_some_and(|growth| growth > BYTES_BETWEEN_LIMIT_CHECKS as f64)
}

/// The growth of the process in bytes since the call began; `None` if the system does not report
/// it, or if no call has begun.
fn growth() -> Option<f64> {
    let began = BEGAN_RESIDENT.load(Relaxed);
    if began == usize::MAX {
        return None;
    }
    Some(resident()? as f64 - began as f64)
}

/// Bytes of this process in physical memory. Linux only.
fn resident() -> Option<usize> {
    let table = fs::read_to_string("/proc/self/status").ok()?;
    let line = table.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kilobytes: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(1024 * kilobytes)
}
