//! Host memory for data that grow with the input: a shortage is an error and does not end the
//! process.
//!
//! A request made here may be refused. If any other request is refused (small vectors, allocations
//! of libraries), the process ends. So an allocator can keep a reserve for these other requests,
//! and reports a [`shortage`] when it starts to use the reserve. Then computations stop with an
//! error at the next [`Monitor::check`](crate::Monitor::check), while the reserve lasts.

pub mod account;
mod available;
mod bytes;

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytemuck::Zeroable;
use rayon::prelude::*;

use crate::error::{Error, Result};
use available::{available, Available};
pub use bytes::in_words;

/// Whether an allocator uses its reserve.
static SHORTAGE: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether the current request of this thread may be refused.
    static REFUSABLE: Cell<bool> = const { Cell::new(false) };
}

/// Sets whether an allocator uses its reserve, so that computations have to stop.
pub fn set_shortage(shortage: bool) {
    SHORTAGE.store(shortage, Ordering::Relaxed);
}

/// Whether an allocator uses its reserve.
pub fn shortage() -> bool {
    SHORTAGE.load(Ordering::Relaxed)
}

/// Checks that there is no [`shortage`].
///
/// # Errors
/// `Error::Memory` if there is a shortage.
pub fn check_shortage() -> Result<()> {
    if shortage() {
        let message = "memory ran out on the way: the system gives no more";
        return Err(Error::Memory(message.into()));
    }
    Ok(())
}

/// Whether the current request of this thread may be refused, so that it must not use the reserve.
pub fn is_refusable() -> bool {
    REFUSABLE.get()
}

/// Marks the memory requests of `ask` as refusable.
fn refusable<T>(ask: impl FnOnce() -> T) -> T {
    REFUSABLE.set(true);
    let answer = ask();
    REFUSABLE.set(false);
    answer
}

/// First words of a memory error about a copy of observations.
pub const COPY_OF_OBSERVATIONS: &str = "a copy of the observations needs";

/// Share of a limit that requests leave free, for memory that the process, other allocators and the
/// kernel take without a request here. The number is a convention. If too low, a process near its
/// limit is killed; if too high, requests are refused without need.
const HEADROOM: f64 = 0.03;

/// Smallest headroom, in bytes. It is for R, whose garbage and byte code took up to 20 MB during
/// calls.
const LEAST_HEADROOM: f64 = 32e6;
/// Largest headroom, in bytes. If too high, memory of large machines is not used.
const MOST_HEADROOM: f64 = 1e9;

/// Checks that there is memory for `bytes` bytes in addition to the memory taken before: by the
/// limits of the machine, its containers and jobs, and by a request that is released at once.
/// `what` starts the error, as in "the tree needs".
///
/// # Errors
/// `Error::Memory`, with the size of the request and the memory that is left.
pub fn check(what: &str, bytes: f64) -> Result<()> {
    check_limits(what, bytes)?;
    probe::<u8>(what, bytes as usize)
}

/// Checks that the limits leave `bytes` bytes, since the system may grant more and kill the process
/// later. Small requests pass unchecked until their sum is large.
fn check_limits(what: &str, bytes: f64) -> Result<()> {
    if !account::is_due(bytes) {
        return Ok(());
    }
    let Some(available) = available() else {
        return Ok(());
    };
    account::record_limit_check();
    let headroom = headroom(&available);
    let available = available.less(account::unwritten() + headroom);
    if available.left < bytes {
        let kept = format!("{available}, and {} stay free", in_words(headroom));
        return Err(too_much(what, bytes, &kept));
    }
    Ok(())
}

/// Bytes that requests leave free.
fn headroom(available: &Available) -> f64 {
    (HEADROOM * available.limit).clamp(LEAST_HEADROOM, MOST_HEADROOM)
}

/// Returns whether the present call has to stop because a limit is near, and the time until the
/// next check. Memory may run short without a request here, by allocations of libraries or by other
/// processes.
pub fn watch() -> (bool, Duration) {
    let Some(available) = available() else {
        return (false, SELDOM);
    };
    let is_near = available.left < headroom(&available) / 2.0 && account::has_grown();
    let next = Duration::from_secs_f64((available.left / FASTEST_GROWTH).min(1.0));
    (is_near, next.clamp(OFTEN, SELDOM))
}

/// Largest growth of a process, in bytes per second, for the time until the next check of the
/// limits. One thread wrote 2 to 4 GB of new pages per second. If too low, memory may run out
/// before a check.
const FASTEST_GROWTH: f64 = 1e10;

/// Shortest time between two checks. A check takes 50 µs.
const OFTEN: Duration = Duration::from_millis(5);
/// Longest time between two checks.
const SELDOM: Duration = Duration::from_millis(500);

/// Checks that there is memory for the working data of a computation, so that a computation without
/// enough memory fails at once instead of late. It needs `each` bytes, a measured number, per
/// observation, in addition to the observations. `what` names the computation.
///
/// # Errors
/// As [`check`].
pub fn check_working(what: &str, observations: usize, each: usize) -> Result<()> {
    let what = format!("{what} of {observations} observations needs");
    check(&what, observations as f64 * each as f64)
}

/// Bytes of address space of a thread: its stack, 2 MiB unless the user's environment sets another
/// size, and 256 KiB for the system's own data. If too low, a shortage of memory can end the
/// process.
const THREAD_BYTES: usize = 9 << 18;

/// Checks that there is memory to start a thread. A thread without memory for the system's own data
/// ends the process.
///
/// # Errors
/// `Error::Memory` if there is not enough memory.
pub fn check_room_for_thread() -> Result<()> {
    room::<u8>("a thread needs", THREAD_BYTES).map(drop)
}

/// An empty vector with room for `len` values; `what` starts the error.
///
/// # Errors
/// `Error::Memory`, with the size of the request, if the system refuses it or its limits leave
/// less.
pub fn room<T>(what: &str, len: usize) -> Result<Vec<T>> {
    check_shortage()?;
    check_limits(what, bytes_of::<T>(len))?;
    let mut values = Vec::new();
    refusable(|| values.try_reserve_exact(len)).map_err(|_| refused::<T>(what, len))?;
    Ok(values)
}

/// Makes room for `more` values in a vector that grows.
///
/// # Errors
/// As [`room`].
pub fn reserve<T>(values: &mut Vec<T>, what: &str, more: usize) -> Result<()> {
    if values.capacity() - values.len() >= more {
        return Ok(());
    }
    check_shortage()?;
    let room = grown::<T>(values.capacity()).max(values.len() + more);
    // The system moves large memory without copying it.
    let is_moved = bytes_of::<T>(values.capacity()) >= MOVED_WITHOUT_COPY;
    let new = room - if is_moved { values.capacity() } else { 0 };
    check_limits(what, bytes_of::<T>(new))?;
    let reserved = refusable(|| values.try_reserve_exact(room - values.len()));
    reserved.map_err(|_| refused::<T>(what, room))
}

/// Number of bytes from which on glibc's `realloc` moves pages instead of their contents: 32 MiB,
/// its largest threshold for memory with its own mapping.
const MOVED_WITHOUT_COPY: f64 = (32 << 20) as f64;

/// The new capacity of a vector that grows step by step: twice the present capacity, or an eighth
/// more if it is large, since capacity counts as taken before it is needed.
fn grown<T>(capacity: usize) -> usize {
    if bytes_of::<T>(capacity) < MOVED_WITHOUT_COPY {
        2 * capacity
    } else {
        capacity + capacity / 8
    }
}

/// A vector of `len` zeros.
///
/// # Errors
/// As [`room`].
pub fn zeros<T: Zeroable>(what: &str, len: usize) -> Result<Vec<T>> {
    check_shortage()?;
    check_limits(what, bytes_of::<T>(len))?;
    // The system's fresh pages are zero; writing zeros would take long.
    let zeros = refusable(|| bytemuck::allocation::try_zeroed_vec(len));
    zeros.map_err(|()| refused::<T>(what, len))
}

/// A vector of `len` copies of a value.
///
/// # Errors
/// As [`room`].
pub fn filled<T: Clone>(what: &str, len: usize, value: T) -> Result<Vec<T>> {
    let mut values = room(what, len)?;
    values.resize(len, value);
    Ok(values)
}

/// The values of an iterator of known length.
///
/// # Errors
/// As [`room`].
pub fn collected<T>(what: &str, values: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut all = room(what, values.len())?;
    all.extend(values);
    Ok(all)
}

/// As [`collected`], of a parallel iterator.
///
/// # Errors
/// As [`room`].
pub fn collected_on_threads<T: Send>(
    what: &str,
    values: impl IndexedParallelIterator<Item = T>,
) -> Result<Vec<T>> {
    let mut all = room(what, values.len())?;
    values.collect_into_vec(&mut all);
    Ok(all)
}

/// A copy of `values`.
///
/// # Errors
/// As [`room`].
pub fn copied<T: Clone>(what: &str, values: &[T]) -> Result<Vec<T>> {
    let mut copy = room(what, values.len())?;
    copy.extend_from_slice(values);
    Ok(copy)
}

/// Requests room for `len` values and releases it.
fn probe<T>(what: &str, len: usize) -> Result<()> {
    // Without `black_box`, the compiler may remove the request.
    room::<T>(what, len).map(|room| drop(black_box(room)))
}

fn refused<T>(what: &str, len: usize) -> Error {
    too_little(what, bytes_of::<T>(len))
}

fn bytes_of<T>(len: usize) -> f64 {
    len as f64 * size_of::<T>() as f64
}

/// The error for a request of `bytes` bytes that the system refuses; `what` starts the error.
pub fn too_little(what: &str, bytes: f64) -> Error {
    too_much(what, bytes, "the system does not give so much")
}

fn too_much(what: &str, bytes: f64, but: &str) -> Error {
    Error::Memory(format!("{what} {}, but {but}", in_words(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_gives_is_there_and_what_it_does_not_is_refused() {
        assert!(room::<f64>("all need", 1000).unwrap().capacity() >= 1000);
        assert_eq!(zeros("all need", 3), Ok(vec![0.0; 3]));
        assert_eq!(copied("all need", &[1, 2]), Ok(vec![1, 2]));
        assert_eq!(filled("all need", 2, 7), Ok(vec![7, 7]));
        assert_eq!(collected("all need", 0..3), Ok(vec![0, 1, 2]));
        let squares = (0..999).into_par_iter().map(|i| i * i);
        let expected = squares.clone().collect::<Vec<i32>>();
        assert_eq!(collected_on_threads("all need", squares), Ok(expected));
        // More than the address space.
        fn is_refused<T>(result: Result<T>) -> bool {
            let refused = "all need 1152921504.6 GB, but ";
            matches!(result, Err(Error::Memory(message)) if message.starts_with(refused))
        }
        assert!(is_refused(room::<f64>("all need", 1 << 57)));
        assert!(is_refused(zeros::<f64>("all need", 1 << 57)));
        assert!(is_refused(zeros::<[f32; 16]>("all need", 1 << 54)));
        assert!(filled("all need", 1 << 57, 1.0).is_err());
        // More than the largest number of bytes.
        assert!(zeros::<f64>("all need", usize::MAX).is_err());
        assert!(check("all need", f64::MAX).is_err());
        assert_eq!(check("all need", 1000.0), Ok(()));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn more_than_the_limits_leave_is_refused_with_what_is_left() {
        let available = available().expect("Linux tells the memory of the machine");
        let kept = in_words(headroom(&available));
        let left = available.less(headroom(&available));
        let too_much = format!("all need 100000.0 GB, but {left}, and {kept} stay free");
        let too_much = Err(Error::Memory(too_much));
        let digits = |text: String| text.replace(|c: char| c.is_ascii_digit(), "");
        let words = |of: Result<()>| digits(format!("{of:?}"));
        // The numbers change between the calls.
        assert_eq!(words(check("all need", 1e14)), words(too_much));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn small_requests_are_summed_until_a_limit_check_is_due() {
        // Other tests of this process take memory, too, so a check may come earlier.
        let held: Vec<_> = (0..3).map(|_| account::Held::new(8 << 20)).collect();
        assert!(account::is_due(1.0));
        drop(held);
        let far = account::Held::new(1 << 50);
        let refused = check("all need", 1000.0);
        assert!(
            matches!(refused, Ok(())),
            "no call began, so nothing is unwritten"
        );
        drop(far);
    }

    #[test]
    fn vectors_that_grow_keep_their_values() {
        let mut values: Vec<u32> = Vec::new();
        for i in 0..100_000 {
            reserve(&mut values, "all need", 1).unwrap();
            values.push(i);
        }
        assert!(values.iter().copied().eq(0..100_000));
        assert!(values.capacity() <= 200_000);
        // An eighth more, not twice as much.
        assert_eq!(grown::<f64>(8 << 20), 9 << 20);
        assert_eq!(grown::<f64>(1 << 10), 2 << 10);
    }
}
