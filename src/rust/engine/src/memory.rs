//! Memory that a call is about to take.

use gmhclust_core::memory::{self, account};
use gmhclust_core::Result;

/// Begins a call that is going to take `bytes` bytes, its result and the copies of its data
/// included; `what` names them, as in "the distances need". Where they are not there, has the
/// caller `free` what it does not use any more, and looks again.
///
/// # Errors
/// `Error::Memory` where they are not there even then.
pub fn plan(what: &str, bytes: f64, free: impl FnOnce()) -> Result<()> {
    account::begin();
    ask(what, bytes, free)
}

/// As [`plan`], within a call.
///
/// # Errors
/// As there.
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
