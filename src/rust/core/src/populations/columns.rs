//! Columns of observations, read in place.

use std::cmp::Ordering;

use crate::error::{Error, Result};

/// Columns of a matrix in column-major order, R's layout.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    values: &'a [f64],
    rows: usize,
    used: &'a [usize],
}

impl<'a> Columns<'a> {
    /// The columns `used` of a matrix of `rows` rows.
    ///
    /// # Errors
    /// `Error::Input` if the matrix lacks one of these columns.
    pub fn new(values: &'a [f64], rows: usize, used: &'a [usize]) -> Result<Self> {
        if used
            .iter()
            .any(|&column| (column + 1) * rows > values.len())
        {
            return Err(Error::Input("the matrix has too few columns".into()));
        }
        Ok(Self { values, rows, used })
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn count(&self) -> usize {
        self.used.len()
    }

    /// The `j`th of these columns.
    pub fn column(&self, j: usize) -> &'a [f64] {
        self.part(j, 0, self.rows)
    }

    /// The rows `first` to `first + count` of the `j`th of these columns.
    #[inline(always)]
    pub fn part(&self, j: usize, first: usize, count: usize) -> &'a [f64] {
        &self.values[self.used[j] * self.rows + first..][..count]
    }

    /// Compares two rows by their values, column by column.
    pub fn compare(&self, a: u32, b: u32) -> Ordering {
        let values = |row: u32, j: usize| self.column(j)[row as usize];
        let pairs = (0..self.count()).map(|j| (values(a, j), values(b, j)));
        let differ = pairs.into_iter().find(|(a, b)| a != b);
        differ.map_or(Ordering::Equal, |(a, b)| a.total_cmp(&b))
    }
}
