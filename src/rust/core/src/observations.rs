//! Observations, checked once.

use std::ops::Deref;

use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::matrix::{self, RowSlices, ROWS_AT_A_TIME};

/// Observations in rows: at least two rows and one column of finite values, in standard layout.
#[derive(Debug, Clone, PartialEq)]
pub struct Observations(Array2<f64>);

impl Observations {
    /// Checks `x`, and copies it only if it is not in standard layout.
    ///
    /// # Errors
    /// `Error::Input` when there are fewer than 2 rows or no columns, or when a value is not finite
    /// (the first one in row order is named, counting from 1); `Error::Memory` if there is not
    /// enough memory.
    pub fn new(x: Array2<f64>) -> Result<Self> {
        if !x.is_standard_layout() {
            return Self::copied(x.view());
        }
        check_size(&x)?;
        match x.values().iter().position(|value| !value.is_finite()) {
            Some(at) => Err(not_finite(&x, at)),
            None => Ok(Self(x)),
        }
    }

    /// A copy of `x`, which may have any layout.
    ///
    /// # Errors
    /// As [`Observations::new`].
    pub fn copied(x: ArrayView2<f64>) -> Result<Self> {
        Self::new(matrix::stacked(&[x], x.ncols())?)
    }

    /// As [`Observations::copied`], on the threads of the calling pool.
    ///
    /// # Errors
    /// As [`Observations::copied`].
    pub fn copied_on_threads(x: ArrayView2<f64>) -> Result<Self> {
        let x = matrix::stacked_on_threads(&[x], x.ncols())?;
        // A finite sum has finite terms.
        let is_finite = |some: &[f64]| some.iter().sum::<f64>().is_finite();
        if x.values().par_chunks(ROWS_AT_A_TIME).all(is_finite) {
            check_size(&x)?;
            return Ok(Self(x));
        }
        Self::new(x)
    }

    /// The observations in `rows`, in this order.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn take_rows(&self, rows: &[u32]) -> Result<Self> {
        Ok(Self(matrix::take_rows(self, rows)?))
    }
}

impl Deref for Observations {
    type Target = Array2<f64>;

    fn deref(&self) -> &Array2<f64> {
        &self.0
    }
}

fn check_size(x: &Array2<f64>) -> Result<()> {
    if x.nrows() < 2 {
        return Err(Error::Input(format!(
            "`x` has {} row(s), clustering needs at least 2",
            x.nrows()
        )));
    }
    if x.ncols() == 0 {
        return Err(Error::Input(
            "`x` has no columns, clustering needs at least 1".into(),
        ));
    }
    Ok(())
}

/// The error for the value at this index, counted row by row.
fn not_finite(x: &Array2<f64>, at: usize) -> Error {
    Error::Input(format!(
        "`x` has {} in row {}, column {}, clustering needs finite values",
        x.values()[at],
        at / x.ncols() + 1,
        at % x.ncols() + 1
    ))
}
