//! Threads that may panic.

use std::panic::resume_unwind;
use std::thread::ScopedJoinHandle;

/// Waits for a thread and returns its result; a panic of the thread goes on in this one.
pub fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}
