//! Columns of observations, read in place.

use std::cmp::Ordering;

use crate::error::{Error, Result};
use crate::matrix::RowSlices;
use crate::observations::Observations;

/// Columns of a matrix: in column-major order, R's layout, or row-major.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    values: &'a [f64],
    rows: usize,
    used: &'a [usize],
    /// The distance to the next row, in values.
    row_step: usize,
    /// The distance to the next column, in values.
    column_step: usize,
}

impl<'a> Columns<'a> {
    /// The columns `used` of a matrix of `rows` rows in column-major order.
    ///
    /// # Errors
    /// `Error::Input` if the matrix lacks one of these columns.
    pub fn new(values: &'a [f64], rows: usize, used: &'a [usize]) -> Result<Self> {
        // Without rows, any column is there.
        let columns = values.len().checked_div(rows).unwrap_or(usize::MAX);
        Self::with_steps(values, (rows, columns), used, (1, rows))
    }

    /// The columns `used` of observations.
    ///
    /// # Errors
    /// As [`Columns::new`].
    pub fn of(x: &'a Observations, used: &'a [usize]) -> Result<Self> {
        Self::with_steps(x.values(), x.dim(), used, (x.ncols(), 1))
    }

    fn with_steps(
        values: &'a [f64],
        (rows, columns): (usize, usize),
        used: &'a [usize],
        (row_step, column_step): (usize, usize),
    ) -> Result<Self> {
        if used.iter().any(|&column| column >= columns) {
            return Err(Error::Input("the matrix has too few columns".into()));
        }
        Ok(Self {
            values,
            rows,
            used,
            row_step,
            column_step,
        })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn count(&self) -> usize {
        self.used.len()
    }

    /// The value of a row in the `j`th of these columns.
    #[inline(always)]
    pub fn value(&self, row: usize, j: usize) -> f64 {
        self.values[row * self.row_step + self.used[j] * self.column_step]
    }

    /// The rows `first` to `first + count` of the `j`th of these columns.
    #[inline(always)]
    pub fn part(&self, j: usize, first: usize, count: usize) -> impl Iterator<Item = &'a f64> {
        let start = first * self.row_step + self.used[j] * self.column_step;
        self.values[start..]
            .iter()
            .step_by(self.row_step)
            .take(count)
    }

    /// Copies the rows from `first` on of the `j`th of these columns.
    #[inline(always)]
    pub fn copy(&self, j: usize, first: usize, to: &mut [f64]) {
        if self.row_step == 1 {
            let start = first + self.used[j] * self.column_step;
            return to.copy_from_slice(&self.values[start..][..to.len()]);
        }
        let count = to.len();
        to.iter_mut()
            .zip(self.part(j, first, count))
            .for_each(|(to, value)| *to = *value);
    }

    /// Compares two rows by their values, column by column.
    pub fn compare(&self, a: u32, b: u32) -> Ordering {
        let pair = |j: usize| (self.value(a as usize, j), self.value(b as usize, j));
        let pairs = (0..self.count()).map(pair);
        let differ = pairs.into_iter().find(|(a, b)| a != b);
        differ.map_or(Ordering::Equal, |(a, b)| a.total_cmp(&b))
    }
}
