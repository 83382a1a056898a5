//! Pairs of observations, in the order in which their distances are stored.

use std::ops::Range;

use crate::error::Result;
use crate::memory;

/// Pairs of points, column by column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pairs {
    rows: usize,
    /// The number of the first column.
    first: usize,
    /// The number after the last column.
    end: usize,
    /// See [`Pairs::is_triangle`].
    triangle: bool,
}

/// A point and the range of points that it is paired with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub point: usize,
    pub rows: Range<usize>,
    /// The position of its first distance.
    pub start: usize,
}

impl Pairs {
    /// Each of `points` points with each later one, in the order of R's `dist`: (1, 0), (2, 0), …,
    /// (2, 1), ….
    pub fn within(points: usize) -> Self {
        Self {
            rows: points,
            first: 0,
            end: points.saturating_sub(1),
            triangle: true,
        }
    }

    /// Each of the first `rows` points with each of the `columns` points after them, in the order
    /// of an R matrix with these numbers of rows and columns.
    pub fn across(rows: usize, columns: usize) -> Self {
        Self {
            rows,
            first: 0,
            end: columns,
            triangle: false,
        }
    }

    /// The pairs of some columns.
    pub fn part(&self, columns: Range<usize>) -> Self {
        Self {
            first: self.first + columns.start,
            end: self.first + columns.end,
            ..*self
        }
    }

    /// Number of pairs.
    pub fn count(&self) -> usize {
        self.before(self.end) - self.before(self.first)
    }

    /// Number of pairs in the columns before this one.
    fn before(&self, column: usize) -> usize {
        if self.triangle {
            // Column j has rows − 1 − j pairs.
            column * (2 * self.rows).saturating_sub(1 + column) / 2
        } else {
            column * self.rows
        }
    }

    /// Number of points in rows: the first points.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether the columns are the points of the rows, each paired with the later points.
    pub fn is_triangle(&self) -> bool {
        self.triangle
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.end - self.first
    }

    /// The number of the first column within all columns.
    pub fn first_column(&self) -> usize {
        self.first
    }

    /// One of the columns.
    pub fn column(&self, j: usize) -> Column {
        let number = self.first + j;
        let (point, rows) = if self.triangle {
            (number, number + 1..self.rows)
        } else {
            (self.rows + number, 0..self.rows)
        };
        Column {
            point,
            rows,
            start: self.before(number) - self.before(self.first),
        }
    }

    /// Checks that there is memory for the distances.
    ///
    /// # Errors
    /// `Error::Memory`, which says how much memory is needed.
    pub fn check_memory(&self) -> Result<()> {
        memory::check(&self.name(), self.count() as f64 * size_of::<f64>() as f64)
    }

    /// The name of the distances in memory errors.
    pub fn name(&self) -> String {
        let of = if self.triangle {
            format!("all pairs of {} observations", self.rows)
        } else {
            format!("{} x {} observations", self.rows, self.columns())
        };
        format!("the distances of {of} need")
    }
}
