//! Host memory for data that grow with the input: a shortage is an error and does not end the
//! process.
//!
//! A request made here may be refused. A refusal of any other one (small vectors, allocations of
//! libraries) ends the process. So an allocator can keep a reserve for these, and reports a
//! [`shortage`] when it starts to use it; then computations stop with an error at the next
//! [`Monitor::check`](crate::Monitor::check), while the reserve lasts.

mod available;
mod bytes;
mod granules;

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use bytemuck::Zeroable;
use rayon::prelude::*;

use crate::error::{Error, Result};
use available::available;
pub use bytes::in_words;
pub use granules::Granules;

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
/// `Error::Memory` where there is.
pub fn check_shortage() -> Result<()> {
    if shortage() {
        let message = "memory ran out on the way: the system gives no more";
        return Err(Error::Memory(message.into()));
    }
    Ok(())
}

/// Whether the current request of this thread may be refused, so that the reserve is not for it.
pub fn is_refusable() -> bool {
    REFUSABLE.get()
}

/// Marks the requests in `ask` as refusable.
fn refusable<T>(ask: impl FnOnce() -> T) -> T {
    REFUSABLE.set(true);
    let answer = ask();
    REFUSABLE.set(false);
    answer
}

/// Names requests for copies of observations in memory errors.
pub const OBSERVATIONS: &str = "a copy of the observations needs";

/// Bytes of a request up to which the limits on memory are not read. A machine or a container that
/// is full gets memory for small work by swapping; without this, all calls would fail there. Too
/// large a value lets requests pass that end the process.
const SMALL: f64 = (64 << 20) as f64;

/// Checks that there is memory for `bytes` bytes, by the limits of the machine, its containers and
/// jobs, and by a request. `what` names it, as in "the tree needs".
///
/// # Errors
/// `Error::Memory` with the size of the request and the memory that is left.
pub fn check(what: &str, bytes: f64) -> Result<()> {
    check_limits(what, bytes)?;
    probe::<u8>(what, bytes as usize)
}

/// Checks that the limits leave `bytes` bytes: the system may grant more, and end the process later.
fn check_limits(what: &str, bytes: f64) -> Result<()> {
    if bytes > SMALL {
        if let Some(available) = available().filter(|available| available.left < bytes) {
            return Err(too_much(what, bytes, &available.to_string()));
        }
    }
    Ok(())
}

/// Checks that there is memory for the working data of a computation, `each` bytes per observation
/// beside the observations themselves; `what` names the computation. `each` is measured. A
/// computation without enough memory fails at once instead of late.
///
/// # Errors
/// As [`check`].
pub fn check_working(what: &str, observations: usize, each: usize) -> Result<()> {
    let what = format!("{what} of {observations} observations needs");
    check(&what, observations as f64 * each as f64)
}

/// An empty vector with room for `len` values; `what` names the request.
///
/// # Errors
/// `Error::Memory` with the size of the request, where the system refuses it or its limits leave
/// less.
pub fn room<T>(what: &str, len: usize) -> Result<Vec<T>> {
    check_shortage()?;
    let mut values = Vec::new();
    refusable(|| values.try_reserve_exact(len)).map_err(|_| refused::<T>(what, len))?;
    check_limits(what, bytes_of::<T>(len))?;
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
    let reserved = refusable(|| values.try_reserve(more));
    reserved.map_err(|_| refused::<T>(what, values.len() + more))?;
    check_limits(what, bytes_of::<T>(more))
}

/// `len` zeros.
///
/// # Errors
/// As [`room`].
pub fn zeros<T: Zeroable>(what: &str, len: usize) -> Result<Vec<T>> {
    check_shortage()?;
    // The system's fresh pages are zero; writing zeros would take long.
    let zeros = refusable(|| bytemuck::allocation::try_zeroed_vec(len));
    let zeros = zeros.map_err(|()| refused::<T>(what, len))?;
    check_limits(what, bytes_of::<T>(len))?;
    Ok(zeros)
}

/// `len` copies of a value.
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
    // Without `black_box` the compiler may remove the request.
    room::<T>(what, len).map(|room| drop(black_box(room)))
}

fn refused<T>(what: &str, len: usize) -> Error {
    too_little(what, bytes_of::<T>(len))
}

fn bytes_of<T>(len: usize) -> f64 {
    len as f64 * size_of::<T>() as f64
}

/// The error that the system refuses `bytes` bytes; `what` names the request.
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
        // More than addresses reach.
        let refused = "all need 1152921504.6 GB, but the system does not give so much";
        let refused = Error::Memory(refused.into());
        assert_eq!(room::<f64>("all need", 1 << 57), Err(refused.clone()));
        assert_eq!(zeros::<f64>("all need", 1 << 57), Err(refused.clone()));
        assert_eq!(zeros::<[f32; 16]>("all need", 1 << 54), Err(refused));
        assert!(filled("all need", 1 << 57, 1.0).is_err());
        // More than a number of bytes can be.
        assert!(zeros::<f64>("all need", usize::MAX).is_err());
        assert!(check("all need", f64::MAX).is_err());
        assert_eq!(check("all need", 1000.0), Ok(()));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn more_than_the_limits_leave_is_refused_with_what_is_left() {
        let left = available().expect("Linux tells the memory of the machine");
        let too_much = Err(Error::Memory(format!("all need 100000.0 GB, but {left}")));
        let digits = |text: String| text.replace(|c: char| c.is_ascii_digit(), "");
        let words = |of: Result<()>| digits(format!("{of:?}"));
        // The numbers change between the calls.
        assert_eq!(words(check("all need", 1e14)), words(too_much));
    }
}
