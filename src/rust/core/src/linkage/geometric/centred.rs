//! Observations around the origin.

use ndarray::{Array1, Array2};

use crate::error::Result;
use crate::magnitude::check_magnitude;
use crate::matrix::{self, middle, RowSlices};
use crate::observations::Observations;

/// The rows of `x` minus the medians of its columns, so that means of rows lose no digits.
///
/// # Errors
/// `Error::Input` if powers of distances overflow; `Error::Memory`.
pub fn centred(x: &Observations) -> Result<Array2<f64>> {
    check_magnitude(x.largest())?;
    let middle = Array1::from(middle(x.values(), x.ncols()));
    let mut centred = matrix::stacked(&[x.view()], x.ncols())?;
    centred -= &middle;
    Ok(centred)
}
