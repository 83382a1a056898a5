//! Observations around the origin.

use ndarray::Array2;
use rayon::prelude::*;

use crate::error::Result;
use crate::magnitude::check_magnitude;
use crate::matrix::{self, sampled_medians, RowSlices, STANDARD_LAYOUT};
use crate::observations::Observations;

/// Number of values that a thread centres at a time. Only the time depends on it.
const VALUES_PER_TASK: usize = 1 << 14;

/// The rows of `x` minus the medians of its columns, so that means of rows lose no digits. Works on
/// the threads of the calling pool.
///
/// # Errors
/// `Error::Input` if powers of distances overflow; `Error::Memory`.
pub fn centred(x: &Observations) -> Result<Array2<f64>> {
    check_magnitude(x.largest())?;
    let middle = sampled_medians(x.values(), x.ncols());
    let mut centred = matrix::stacked_on_threads(&[x.view()], x.ncols())?;
    let columns = x.ncols().max(1);
    let rows = centred.as_slice_mut().expect(STANDARD_LAYOUT);
    rows.par_chunks_mut(columns)
        .with_min_len((VALUES_PER_TASK / columns).max(1))
        .for_each(|row| {
            let values = row.iter_mut().zip(&middle);
            values.for_each(|(value, middle)| *value -= middle);
        });
    Ok(centred)
}
