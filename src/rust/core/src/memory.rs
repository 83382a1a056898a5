//! Memory of the host for what grows with the data: where there is not enough, that is an error, and
//! not the end of the process.

use std::hint::black_box;

use crate::error::{Error, Result};

/// What needs memory where observations are copied or rearranged.
pub const OBSERVATIONS: &str = "a copy of the observations needs";

/// That there is memory for so many bytes; `what` needs them, in words.
///
/// # Errors
/// `Error::Memory` says how much that is.
pub fn check(what: &str, bytes: f64) -> Result<()> {
    check_total(what, bytes)?;
    probe::<u8>(what, bytes as usize)
}

/// That this machine has so many bytes of memory at all; `what` needs them, in words, but not all at
/// once from the start.
///
/// # Errors
/// As [`check`].
pub fn check_total(what: &str, bytes: f64) -> Result<()> {
    match total() {
        Some(total) if bytes > total => {
            let has = gigabytes(total);
            Err(too_much(what, bytes, &format!("this machine has {has}")))
        }
        _ => Ok(()),
    }
}

/// An empty vector with room for so many values; `what` needs them, in words.
///
/// # Errors
/// `Error::Memory` says how much that is where the system does not give it.
pub fn room<T>(what: &str, len: usize) -> Result<Vec<T>> {
    let mut values = Vec::new();
    match values.try_reserve_exact(len) {
        Ok(()) => Ok(values),
        Err(_) => Err(refused::<T>(what, len)),
    }
}

/// Makes room for so many more values in a vector that grows.
///
/// # Errors
/// As [`room`].
pub fn reserve<T>(values: &mut Vec<T>, what: &str, more: usize) -> Result<()> {
    let reserved = values.try_reserve(more);
    reserved.map_err(|_| refused::<T>(what, values.len() + more))
}

/// So many values that are zero, or what else is the default.
///
/// # Errors
/// As [`room`].
pub fn zeros<T: Clone + Default>(what: &str, len: usize) -> Result<Vec<T>> {
    // A vector that is made of zeros cannot be refused; but the system has zeros at hand, while
    // writing them into `room` would take long.
    probe::<T>(what, len)?;
    Ok(vec![T::default(); len])
}

/// A copy.
///
/// # Errors
/// As [`room`].
pub fn copied<T: Clone>(what: &str, values: &[T]) -> Result<Vec<T>> {
    let mut copy = room(what, values.len())?;
    copy.extend_from_slice(values);
    Ok(copy)
}

/// Asks for room for so many values and gives it back.
fn probe<T>(what: &str, len: usize) -> Result<()> {
    // The compiler may leave out asking for what nobody looks at.
    room::<T>(what, len).map(|room| drop(black_box(room)))
}

fn refused<T>(what: &str, len: usize) -> Error {
    let bytes = len as f64 * size_of::<T>() as f64;
    too_much(what, bytes, "the system does not give so much")
}

fn too_much(what: &str, bytes: f64, but: &str) -> Error {
    Error::Memory(format!("{what} {}, but {but}", gigabytes(bytes)))
}

/// A number of bytes in words.
pub fn gigabytes(bytes: f64) -> String {
    format!("{:.1} GB", bytes / 1e9)
}

/// Bytes of memory and swap of this machine, where the system says so.
fn total() -> Option<f64> {
    let table = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kilobytes = |name: &str| -> Option<f64> {
        let line = table.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some(1024.0 * (kilobytes("MemTotal:")? + kilobytes("SwapTotal:").unwrap_or(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_gives_is_there_and_what_it_does_not_is_refused() {
        assert!(room::<f64>("all need", 1000).unwrap().capacity() >= 1000);
        assert_eq!(zeros("all need", 3), Ok(vec![0.0; 3]));
        assert_eq!(copied("all need", &[1, 2]), Ok(vec![1, 2]));
        // More than addresses reach.
        let refused = "all need 1152921504.6 GB, but the system does not give so much";
        let refused = Error::Memory(refused.into());
        assert_eq!(room::<f64>("all need", 1 << 57), Err(refused.clone()));
        assert_eq!(zeros::<f64>("all need", 1 << 57), Err(refused.clone()));
        assert_eq!(zeros::<[f32; 16]>("all need", 1 << 54), Err(refused));
        // More than a number of bytes can be.
        assert!(zeros::<f64>("all need", usize::MAX).is_err());
        assert!(check("all need", f64::MAX).is_err());
        assert_eq!(check("all need", 1000.0), Ok(()));
    }
}
