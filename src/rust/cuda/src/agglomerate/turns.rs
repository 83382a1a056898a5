//! Turns of work that needs much memory of a device.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use gmhclust_core::error::{Error, Result};

/// Work that takes memory of the same device, each part on a thread of its own. A part that finds
/// too little memory waits until another one ends, and begins again.
#[derive(Default)]
pub struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Number of parts in progress, without those that wait.
    working: usize,
    /// Number of parts that have ended, so that their memory is free.
    ended: usize,
}

impl Turns {
    /// The result of a part of the work.
    ///
    /// # Errors
    /// The errors of `work`; `Error::Memory` only if no other part is in progress.
    pub fn take<R>(&self, work: impl Fn() -> Result<R>) -> Result<R> {
        loop {
            let mut turn = Turn {
                turns: self,
                frees_memory: true,
            };
            self.state().working += 1;
            let result = work();
            turn.frees_memory = !matches!(result, Err(Error::Memory(_)));
            let is_last = !turn.frees_memory && self.state().working == 1;
            let ended = self.state().ended;
            let lacks_memory = !turn.frees_memory;
            drop(turn);
            if !lacks_memory || is_last {
                return result;
            }
            let wait = |state: &mut State| state.working > 0 && state.ended == ended;
            let waited = self.changed.wait_while(self.state(), wait);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of the work in progress. Also ends at a panic.
struct Turn<'a> {
    turns: &'a Turns,
    /// Whether memory is free that was not free before.
    frees_memory: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.state();
        state.working -= 1;
        state.ended += usize::from(self.frees_memory);
        self.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use gmhclust_core::tasks::on_threads;

    use super::*;

    /// Parts that each need `need` of `all` units of memory, on as many threads. Returns the number
    /// of parts without memory.
    fn refused(need: usize, all: usize) -> usize {
        let (turns, free) = (Turns::default(), AtomicUsize::new(all));
        let parts = [(); 12];
        let part = |_: &()| {
            let work = || {
                let take = |free: usize| free.checked_sub(need);
                let taken = free.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
                taken.map_err(|_| Error::Memory("full".into()))?;
                std::thread::sleep(Duration::from_millis(2));
                free.fetch_add(need, Ordering::SeqCst);
                Ok(())
            };
            Ok(turns.take(work).is_err())
        };
        let refused = on_threads(&parts, parts.len(), part).unwrap();
        refused.into_iter().filter(|&refused| refused).count()
    }

    #[test]
    fn a_part_without_memory_waits_for_others() {
        assert_eq!(refused(1, 12), 0);
        assert_eq!(refused(5, 12), 0);
        assert_eq!(refused(12, 12), 0);
    }

    #[test]
    fn a_part_that_never_has_memory_is_refused() {
        assert_eq!(refused(13, 12), 12);
    }

    #[test]
    fn other_errors_are_returned_at_once() {
        let turns = Turns::default();
        let calls = AtomicUsize::new(0);
        let fail = || -> Result<()> {
            calls.fetch_add(1, Ordering::Relaxed);
            Err(Error::Interrupt)
        };
        assert_eq!(turns.take(fail), Err(Error::Interrupt));
        assert_eq!(calls.into_inner(), 1);
    }
}
