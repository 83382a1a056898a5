//! Tasks for threads.

use std::panic::resume_unwind;
use std::sync::Mutex;
use std::thread::ScopedJoinHandle;

use rayon::prelude::*;

use crate::error::Result;

/// Number of items that a thread writes at a time in [`on_slots`]. Only the time depends on it.
const ITEMS_PER_TASK: usize = 64;

/// Number of values that a thread sets at a time in [`fill`]. Only the time depends on it.
const VALUES_PER_TASK: usize = 1 << 16;

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
pub fn of_parts<'v, V: Sync, T: Send>(
    values: &'v [V],
    len: usize,
    work: impl Fn(&'v [V]) -> T + Sync + Send,
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
    slot: impl Fn(&I) -> u32 + Sync,
    write: impl Fn(&I, &mut [V]) + Sync,
) {
    let tasks = items.chunks(ITEMS_PER_TASK);
    // Each task has the values from its first slot up to the first slot of the next task.
    let later = tasks.clone().skip(1);
    let later = later.map(|items| slot(&items[0]) as usize * width);
    let mut starts = vec![0];
    starts.extend(later.chain([values.len()]));
    let lengths = starts.windows(2).map(|ends| ends[1] - ends[0]);
    let tasks: Vec<_> = tasks.zip(&starts).zip(pieces(values, lengths)).collect();
    tasks.into_par_iter().for_each(|((items, start), values)| {
        for item in items {
            let at = slot(item) as usize * width - start;
            write(item, &mut values[at..at + width]);
        }
    });
}

/// Sets each of `values` to the value of `value` at its index. Works on the threads of the calling
/// pool.
pub fn fill<V: Send>(values: &mut [V], value: impl Fn(usize) -> V + Sync) {
    let fill = |(task, values): (usize, &mut [V])| {
        let with_indices = values.iter_mut().zip(task * VALUES_PER_TASK..);
        with_indices.for_each(|(to, index)| *to = value(index));
    };
    values
        .par_chunks_mut(VALUES_PER_TASK)
        .enumerate()
        .for_each(fill);
}

/// Waits for a thread and returns its result; a panic of the thread continues in the calling one.
pub fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_that_of_its_index() {
        for count in [0, 1, VALUES_PER_TASK, VALUES_PER_TASK + 1, 200_000] {
            let mut values = vec![0; count];
            fill(&mut values, |index| 3 * index + 1);
            let expected: Vec<usize> = (0..count).map(|index| 3 * index + 1).collect();
            assert_eq!(values, expected);
        }
    }

    #[test]
    fn each_item_writes_to_its_slot_only() {
        for (count, step) in [(0, 1), (1, 3), (64, 1), (65, 2), (1_000, 3)] {
            let slots: Vec<u32> = (0..count).map(|i| 1 + i * step).collect();
            let mut values = vec![0; 2 * (count * step + 3) as usize];
            let write = |&slot: &u32, to: &mut [u32]| to.fill(slot);
            on_slots(&mut values, 2, &slots, |&slot| slot, write);
            for (slot, pair) in (0..).zip(values.chunks(2)) {
                let expected = if slots.contains(&slot) { slot } else { 0 };
                assert_eq!(
                    pair, [expected; 2],
                    "slot {slot} of {count} in steps of {step}"
                );
            }
        }
    }
}
