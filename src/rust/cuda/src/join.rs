//! Threads that may panic.

use std::panic::resume_unwind;
use std::thread::ScopedJoinHandle;

/// What a thread returns; its panic is this thread's.
pub fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}
