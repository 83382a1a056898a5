//! The magnitudes of values, and the range within which powers of distances do not overflow.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::error::{Error, Result};

/// The largest accepted magnitude of a value. Fourth powers of distances between larger values
/// could overflow (1e70⁴ = 1e280, which leaves room for the number of columns).
const LARGEST_VALUE: f64 = 1e70;

/// Number of values of a task. Only the time depends on it.
const VALUES_AT_A_TIME: usize = 1 << 15;

/// Checks that fourth powers of distances cannot overflow, given the largest magnitude of a value.
///
/// # Errors
/// `Error::Input` if they can.
pub fn check_magnitude(largest: f64) -> Result<()> {
    if largest > LARGEST_VALUE {
        return Err(Error::Input(format!(
            "`x` has values of magnitude {largest:e}, whose fourth powers overflow; \
             rescale it to at most {LARGEST_VALUE:e}"
        )));
    }
    Ok(())
}

/// The largest magnitude of a value; infinite if a value is not finite.
pub fn largest(values: &[f64]) -> f64 {
    // In independent lanes, since each comparison would otherwise wait for the last one. NaN and
    // infinite values times 0 are NaN, and so is every sum with them.
    let (mut lanes, mut zeros) = ([0.0f64; 8], [0.0f64; 8]);
    for values in values.chunks(8) {
        for ((lane, zero), value) in lanes.iter_mut().zip(&mut zeros).zip(values) {
            *lane = lane.max(value.abs());
            *zero += value * 0.0;
        }
    }
    if zeros.iter().any(|zero| zero.is_nan()) {
        return f64::INFINITY;
    }
    lanes.into_iter().fold(0.0, f64::max)
}

/// As [`largest`], on the threads of the calling pool.
pub fn largest_on_threads(values: &[f64]) -> f64 {
    let parts = values.par_chunks(VALUES_AT_A_TIME).map(largest);
    parts.reduce(|| 0.0, f64::max)
}

/// The largest magnitude of values that several threads pass in parts.
#[derive(Debug, Default)]
pub struct RunningMaximum(AtomicU64);

impl RunningMaximum {
    /// Includes more values.
    pub fn update(&self, values: &[f64]) {
        // Numbers from 0 to infinity have the order of their bits.
        self.0
            .fetch_max(largest(values).to_bits(), Ordering::Relaxed);
    }

    /// As [`largest`], of all values passed to [`RunningMaximum::update`].
    pub fn value(self) -> f64 {
        f64::from_bits(self.0.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_magnitude_is_infinite_where_a_value_is_not_finite() {
        for n in [0usize, 1, 7, 8, 9, 100_000] {
            let mut values: Vec<f64> = (0..n).map(|i| (i as f64 * 0.7).sin()).collect();
            let all = |values: &[f64]| {
                let maximum = RunningMaximum::default();
                values.chunks(30).for_each(|some| maximum.update(some));
                let found = [largest(values), largest_on_threads(values), maximum.value()];
                assert!(found.iter().all(|&one| one == found[0]));
                found[0]
            };
            let expected = values.iter().fold(0.0f64, |most, v| most.max(v.abs()));
            assert_eq!(all(&values), expected);
            for at in [0, n / 2, n.saturating_sub(1)] {
                for special in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                    let Some(place) = values.get_mut(at) else {
                        continue;
                    };
                    let before = std::mem::replace(place, special);
                    assert_eq!(all(&values), f64::INFINITY);
                    values[at] = -3.5;
                    assert_eq!(all(&values), 3.5);
                    values[at] = before;
                }
            }
        }
    }
}
