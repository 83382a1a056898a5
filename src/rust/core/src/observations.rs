//! Observations, checked once.

use std::ops::Deref;

use crate::error::{Error, Result};
use crate::magnitude::{largest, LargestSeen};
use crate::matrix::{self, RowSlices};
use ndarray::{Array2, ArrayView2};

/// Observations in rows: at least two rows and one column of finite values, in standard layout.
#[derive(Debug, Clone, PartialEq)]
pub struct Observations {
    values: Array2<f64>,
    largest: f64,
}

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
        let largest = largest(x.values());
        Self::checked(x, largest)
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
        let seen = LargestSeen::default();
        let x = matrix::stacked_and_seen(&[x], x.ncols(), |some| seen.see(some))?;
        Self::checked(x, seen.value())
    }

    /// Checks `x`, a matrix in standard layout, given the largest magnitude of its values.
    fn checked(x: Array2<f64>, largest: f64) -> Result<Self> {
        check_size(&x)?;
        if largest.is_infinite() {
            return Err(not_finite(&x));
        }
        Ok(Self { values: x, largest })
    }

    /// The largest magnitude of a value, also of those that [`Observations::take_rows`] left out.
    pub fn largest(&self) -> f64 {
        self.largest
    }

    /// The observations in `rows`, in this order.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn take_rows(&self, rows: &[u32]) -> Result<Self> {
        Ok(Self {
            values: matrix::take_rows(self, rows)?,
            largest: self.largest,
        })
    }
}

impl Deref for Observations {
    type Target = Array2<f64>;

    fn deref(&self) -> &Array2<f64> {
        &self.values
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

/// The error for the first value that is not finite.
fn not_finite(x: &Array2<f64>) -> Error {
    let mut values = x.values().iter();
    let at = values.position(|value| !value.is_finite());
    let at = at.expect("a value is not finite");
    Error::Input(format!(
        "`x` has {} in row {}, column {}, clustering needs finite values",
        x.values()[at],
        at / x.ncols() + 1,
        at % x.ncols() + 1
    ))
}
