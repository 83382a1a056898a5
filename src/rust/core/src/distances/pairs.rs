//! Pairs of observations, in the order in which their distances are stored.

use std::ops::Range;

use crate::error::Result;
use crate::memory;

/// Pairs of points, in columns that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pairs {
    rows: usize,
    /// The number of the first column, and the one after the last.
    first: usize,
    end: usize,
    /// See [`Pairs::is_triangle`].
    triangle: bool,
}

/// A point with each of several in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub point: usize,
    pub rows: Range<usize>,
    /// Where the first of its distances goes.
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
    /// of a matrix of R's with so many rows and columns.
    pub fn across(rows: usize, columns: usize) -> Self {
        Self {
            rows,
            first: 0,
            end: columns,
            triangle: false,
        }
    }

    /// Those of some columns.
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

    /// How many pairs there are in the columns before the one with this number.
    fn before(&self, column: usize) -> usize {
        if self.triangle {
            // All of the rows but the first column + 1, on average of the first and the last one.
            column * (2 * self.rows).saturating_sub(1 + column) / 2
        } else {
            column * self.rows
        }
    }

    /// Number of points that are in rows: the first ones.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether the columns are the points of the rows, each paired with the later ones.
    pub fn is_triangle(&self) -> bool {
        self.triangle
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.end - self.first
    }

    /// The number of the first column, where these are a part of more.
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

    /// That there is memory for as many distances.
    ///
    /// # Errors
    /// `Error::Memory` says how much they need.
    pub fn check_memory(&self) -> Result<()> {
        let of = if self.triangle {
            format!("all pairs of {} observations", self.rows)
        } else {
            format!("{} x {} observations", self.rows, self.columns())
        };
        memory::check(
            &format!("the distances of {of} need"),
            self.count() as f64 * size_of::<f64>() as f64,
        )
    }
}
