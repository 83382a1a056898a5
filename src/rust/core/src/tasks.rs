//! Tasks for threads.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread::{self, ScopedJoinHandle};

use rayon::prelude::*;

use crate::error::Result;
use crate::memory::check_room_for_thread;

/// Number of items that a thread writes at a time in [`on_slots`]. Only the time depends on it.
const ITEMS_PER_TASK: usize = 64;

/// Number of values that a thread sets at a time in [`fill`]. Only the time depends on it.
const VALUES_PER_TASK: usize = 1 << 16;

/// Runs tasks on the threads of the calling rayon pool, approximately in order. Each thread takes
/// the next task from the queue when it has finished the last one, and has its own state; `states`
/// should have one state per thread. After an error, no more tasks are taken.
///
/// # Errors
/// The error of a task. If several fail, any of their errors.
pub fn run_from_queue<T: Send, S: Send>(
    tasks: Vec<T>,
    states: &mut [S],
    work: impl Fn(&mut S, T) -> Result<()> + Sync,
) -> Result<()> {
    let queue = Mutex::new(Some(tasks.into_iter()));
    let queue = || {
        queue
            .lock()
            .expect("no code panics while it holds the lock")
    };
    let next = || queue().as_mut()?.next();
    states.par_iter_mut().with_max_len(1).try_for_each(|state| {
        while let Some(task) = next() {
            work(state, task).inspect_err(|_| *queue() = None)?;
        }
        Ok(())
    })
}

/// The results of `work` for the numbers below `count`, in their order. The calling thread and up
/// to `threads` - 1 other ones, outside of any pool, take the numbers from a queue. After an error
/// or a panic, they take no more.
///
/// # Errors
/// The error of the lowest number among those that were begun.
pub fn on_threads<R: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let (next, has_ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    let take = || {
        let mut done = Vec::new();
        while !has_ended.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                break;
            }
            let end = EndOnPanic(&has_ended);
            let result = work(number);
            drop(end);
            has_ended.fetch_or(result.is_err(), Ordering::Relaxed);
            done.push((number, result));
        }
        done
    };
    let mut done = thread::scope(|scope| {
        // With fewer threads than wanted, the work takes longer.
        let start = |_| {
            check_room_for_thread().ok()?;
            thread::Builder::new().spawn_scoped(scope, take).ok()
        };
        let others = 1..threads.min(count);
        let others: Vec<_> = others.map_while(start).collect();
        let mut done = take();
        done.extend(others.into_iter().flat_map(join));
        done
    });
    done.sort_unstable_by_key(|&(number, _)| number);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Sets a flag if it is dropped by a panic.
struct EndOnPanic<'a>(&'a AtomicBool);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        self.0.fetch_or(thread::panicking(), Ordering::Relaxed);
    }
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
    use std::panic::catch_unwind;

    use super::*;
    use crate::cpu::Cpu;
    use crate::error::Error;

    #[test]
    fn results_of_a_queue_are_in_the_order_of_its_items() {
        let square = |i: usize| Ok(i * i);
        let squares = Vec::from_iter((0..100).map(|i| i * i));
        for threads in [0, 1, 3, 200] {
            assert_eq!(on_threads(100, threads, square), Ok(squares.clone()));
        }
        assert_eq!(on_threads(0, 4, square), Ok(Vec::new()));
    }

    #[test]
    fn after_an_error_or_a_panic_a_queue_goes_no_further() {
        let begun = AtomicUsize::new(0);
        let fail = |i: usize| -> Result<()> {
            begun.fetch_add(1, Ordering::Relaxed);
            match i {
                0..3 => Ok(()),
                _ => Err(Error::Device(i.to_string())),
            }
        };
        assert_eq!(on_threads(100, 1, fail), Err(Error::Device("3".into())));
        assert_eq!(begun.swap(0, Ordering::Relaxed), 4);
        assert_eq!(on_threads(100, 4, fail), Err(Error::Device("3".into())));
        assert!(begun.swap(0, Ordering::Relaxed) < 100);

        let panic = |_: usize| -> Result<()> {
            begun.fetch_add(1, Ordering::Relaxed);
            panic!("of a test");
        };
        let outcome = catch_unwind(|| on_threads(100, 1, panic));
        assert!(outcome.is_err());
        assert_eq!(begun.into_inner(), 1);

        let mut states = [0; 2];
        let fail = |state: &mut usize, task: usize| {
            *state += 1;
            if task == 0 {
                Err(Error::Interrupt)
            } else {
                Ok(())
            }
        };
        let cpu = Cpu::new(1).unwrap();
        let outcome = cpu.install(|| run_from_queue(Vec::from_iter(0..100), &mut states, fail));
        assert_eq!((outcome, states), (Err(Error::Interrupt), [1, 0]));
    }

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
