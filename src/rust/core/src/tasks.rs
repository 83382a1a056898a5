//! Tasks for threads.

use std::panic::resume_unwind;
use std::sync::Mutex;
use std::thread::ScopedJoinHandle;

use rayon::prelude::*;

use crate::error::Result;

/// Number of items that a thread writes at a time in [`on_slots`]. Only the time depends on it.
const ITEMS_PER_TASK: usize = 64;

/// Runs tasks on the threads of the calling rayon pool, approximately in order. Each thread takes
/// the next task from the queue when it has finished the last one, and has its own state; `states`
/// should have one state per thread.
///
/// # Errors
/// The first error of a task.
pub fn run_from_queue<T: Send, S: Send>(
    tasks: Vec<T>,
    states: &mut [S],
    work: impl Fn(&mut S, T) -> Result<()> + Sync,
) -> Result<()> {
    let tasks = Mutex::new(tasks.into_iter());
    let next = || {
        tasks
            .lock()
            .expect("no code panics while it holds the lock")
            .next()
    };
    states.par_iter_mut().with_max_len(1).try_for_each(|state| {
        while let Some(task) = next() {
            work(state, task)?;
        }
        Ok(())
    })
}

/// The results of `work` for chunks of `len` values, in order; the last chunk may have fewer
/// values. Works on the threads of the calling pool.
pub fn of_parts<V: Sync, T: Send>(
    values: &[V],
    len: usize,
    work: impl Fn(&[V]) -> T + Sync + Send,
) -> Vec<T> {
    values.par_chunks(len).map(work).collect()
}

/// Divides values into consecutive pieces of these lengths.
///
/// # Panics
/// If there are fewer values.
pub fn pieces<T>(
    mut values: &mut [T],
    lengths: impl Iterator<Item = usize>,
) -> impl Iterator<Item = &mut [T]> {
    lengths.map(move |length| {
        let (piece, others) = std::mem::take(&mut values).split_at_mut(length);
        values = others;
        piece
    })
}

/// Calls `write` with each of `items` and the `width` values of its slot in `values`, on the
/// threads of the calling pool. The items are sorted by slot, and no two have the same.
pub fn on_slots<V: Send, I: Sync>(
    values: &mut [V],
    width: usize,
    items: &[I],
    slot: impl Fn(&I) -> u32 + Copy + Sync,
    write: impl Fn(&I, &mut [V]) + Copy + Sync,
) {
    /// As [`on_slots`], for values from the slot `first` on.
    fn on_slots_from<V: Send, I: Sync>(
        values: &mut [V],
        width: usize,
        first: usize,
        items: &[I],
        slot: impl Fn(&I) -> u32 + Copy + Sync,
        write: impl Fn(&I, &mut [V]) + Copy + Sync,
    ) {
        if items.len() <= ITEMS_PER_TASK {
            for item in items {
                let at = (slot(item) as usize - first) * width;
                write(item, &mut values[at..at + width]);
            }
            return;
        }
        let (some, others) = items.split_at(items.len() / 2);
        let start = slot(&others[0]) as usize;
        let (before, after) = values.split_at_mut((start - first) * width);
        rayon::join(
            || on_slots_from(before, width, first, some, slot, write),
            || on_slots_from(after, width, start, others, slot, write),
        );
    }
    on_slots_from(values, width, 0, items, slot, write);
}

/// Waits for a thread and returns its result; a panic of the thread continues in the calling one.
pub fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}
