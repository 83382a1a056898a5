//! Observations around the origin.

use crate::error::Result;
use crate::magnitude::check_magnitude;
use crate::matrix::{middle, Matrix};
use crate::memory;

/// The rows of `x` minus the medians of its columns, so that means of rows lose no digits.
///
/// # Errors
/// `Error::Input` where powers of distances overflow; `Error::Memory`.
pub fn centred(x: &Matrix) -> Result<Matrix> {
    check_magnitude(x)?;
    let middle = middle(x.values(), x.columns());
    let mut values = memory::copied(memory::OBSERVATIONS, x.values())?;
    for row in values.chunks_exact_mut(x.columns()) {
        row.iter_mut().zip(&middle).for_each(|(v, m)| *v -= m);
    }
    Matrix::from_row_major(values, x.rows(), x.columns())
}
