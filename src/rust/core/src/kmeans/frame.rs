//! Origin and unit of coordinates in single precision.

use rayon::prelude::*;

use crate::matrix::RowSlices;
use crate::observations::Observations;

/// Number of observations of which medians are computed.
const SAMPLE: usize = 512;

/// A power of two by which the difference of values of at most this magnitude is below 1; 0 if
/// there is none.
pub fn unit_of(largest: f64) -> f64 {
    let below = if largest == 0.0 {
        1.0
    } else {
        // The greatest power of two that is not above it.
        f64::from_bits(largest.to_bits() & !((1 << 52) - 1))
    };
    let unit = 0.125 / below;
    if unit.is_normal() {
        unit
    } else {
        0.0
    }
}

/// The median of each column, of a sample. A few far values do not move it.
pub fn typical(x: &Observations) -> Vec<f64> {
    let step = x.nrows().div_ceil(SAMPLE);
    let median = |k: usize| {
        let column = (0..x.nrows()).step_by(step).map(|i| x.row_slice(i)[k]);
        let mut values: Vec<f64> = column.collect();
        let middle = values.len() / 2;
        *values.select_nth_unstable_by(middle, f64::total_cmp).1
    };
    (0..x.ncols()).into_par_iter().map(median).collect()
}
