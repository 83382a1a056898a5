//! Checks the memory that a call is about to take.

use gmhclust_core::memory::{self, account};
use gmhclust_core::Result;

/// Begins a call that is going to take `bytes` bytes, including its result and the copies of its
/// data. `what` starts the error message, as in "the distances need". If there is too little
/// memory, calls `free`, in which the caller frees unused memory, and checks again.
///
/// # Errors
/// `Error::Memory` if there is too little memory even after `free`.
pub fn plan(what: &str, bytes: f64, free: impl FnOnce()) -> Result<()> {
    account::begin();
    ask(what, bytes, free)
}

/// As [`plan`], for more memory in the same call.
///
/// # Errors
/// As [`plan`].
pub fn ask(what: &str, bytes: f64, free: impl FnOnce()) -> Result<()> {
    memory::check(what, bytes).or_else(|_| {
        free();
        memory::check(what, bytes)
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use gmhclust_core::Error;

    use super::*;

    #[test]
    fn the_caller_frees_memory_only_where_there_is_too_little() {
        let freed = Cell::new(0);
        let free = || freed.set(freed.get() + 1);
        assert_eq!(plan("a little needs", 1.0, free), Ok(()));
        assert_eq!(freed.get(), 0);
        for asked in [
            plan("too much needs", 1e30, free),
            ask("too much needs", 1e30, free),
        ] {
            let Err(Error::Memory(reason)) = asked else {
                panic!("{asked:?}");
            };
            assert!(reason.contains("too much needs"), "{reason}");
        }
        assert_eq!(freed.get(), 2);
    }
}
