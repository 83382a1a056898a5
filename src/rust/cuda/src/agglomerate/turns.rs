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

#[derive(Clone, Copy, Default)]
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
    /// The errors of `work`; `Error::Memory` only if no other part was in progress.
    pub fn take<R>(&self, work: impl Fn() -> Result<R>) -> Result<R> {
        loop {
            let (turn, before) = Turn::begin(self);
            let result = work();
            let lacks_memory = matches!(result, Err(Error::Memory(_)));
            let after = turn.end(!lacks_memory);
            let was_alone = after.working == 0 && after.ended == before.ended;
            if !lacks_memory || was_alone {
                return result;
            }
            let wait = |state: &mut State| state.working > 0 && state.ended == before.ended;
            let waited = self.changed.wait_while(self.state(), wait);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of the work in progress. Also ends at a panic.
struct Turn<'a>(&'a Turns);

impl<'a> Turn<'a> {
    /// A new part, and the state before it.
    fn begin(turns: &'a Turns) -> (Self, State) {
        let mut state = turns.state();
        let before = *state;
        state.working += 1;
        (Self(turns), before)
    }

    /// Ends the part. `frees_memory` says whether memory is free that was not free before. Returns
    /// the state afterwards.
    fn end(self, frees_memory: bool) -> State {
        let after = self.finish(frees_memory);
        std::mem::forget(self);
        after
    }

    fn finish(&self, frees_memory: bool) -> State {
        let mut state = self.0.state();
        state.working -= 1;
        state.ended += usize::from(frees_memory);
        self.0.changed.notify_all();
        *state
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.finish(true);
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
        let parts = 12;
        let part = |_| {
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
        let refused = on_threads(parts, parts, part).unwrap();
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
    fn a_part_begins_again_if_another_one_has_ended_meanwhile() {
        let turns = Turns::default();
        let calls = AtomicUsize::new(0);
        let work = || match calls.fetch_add(1, Ordering::Relaxed) {
            0 => {
                turns.take(|| Ok(())).unwrap();
                Err(Error::Memory("full".into()))
            }
            _ => Ok(()),
        };
        assert_eq!(turns.take(work), Ok(()));
        assert_eq!(calls.into_inner(), 2);
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
