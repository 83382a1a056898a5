//! The range of values within which powers of distances do not overflow.

use crate::error::{Error, Result};
use crate::matrix::RowSlices;
use crate::observations::Observations;

/// The largest accepted magnitude of a value. Fourth powers of distances between larger values
/// could overflow (1e70⁴ = 1e280, which leaves room for the number of columns).
const LARGEST_VALUE: f64 = 1e70;

/// Checks that fourth powers of distances cannot overflow.
///
/// # Errors
/// `Error::Input` if they can.
pub fn check_magnitude(x: &Observations) -> Result<()> {
    check_largest(largest(x.values()))
}

/// The largest magnitude of a value.
pub fn largest(values: &[f64]) -> f64 {
    // In independent lanes, since each comparison would otherwise wait for the last one.
    let lanes = values.chunks(8).fold([0.0f64; 8], |mut largest, values| {
        for (largest, value) in largest.iter_mut().zip(values) {
            *largest = largest.max(value.abs());
        }
        largest
    });
    lanes.into_iter().fold(0.0, f64::max)
}

/// As [`check_magnitude`], given the largest magnitude of a value.
///
/// # Errors
/// As [`check_magnitude`].
pub fn check_largest(largest: f64) -> Result<()> {
    if largest > LARGEST_VALUE {
        return Err(Error::Input(format!(
            "`x` has values of magnitude {largest:e}, whose fourth powers overflow; \
             rescale it to at most {LARGEST_VALUE:e}"
        )));
    }
    Ok(())
}
