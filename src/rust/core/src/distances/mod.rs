//! The distances of all pairs of observations, as R's `dist` stores them, or of the pairs across
//! two sets.
//!
//! [`Pairs`] says which pairs and where each distance goes; a [`crate::backend::Backend`] fills in
//! the distances.

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::error::{Error, Result};

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
        check_memory(
            &format!("the distances of {of} need"),
            self.count() as f64 * size_of::<f64>() as f64,
        )
    }
}

/// That there is memory for so many bytes; `what` needs them, in words.
///
/// # Errors
/// `Error::Memory` says how much that is.
pub fn check_memory(what: &str, bytes: f64) -> Result<()> {
    let too_much = |available: String| {
        let needed = gigabytes(bytes);
        Err(Error::Memory(format!("{what} {needed}, but {available}")))
    };
    match total_memory() {
        Some(total) if bytes > total => {
            return too_much(format!("this machine has {}", gigabytes(total)));
        }
        _ => {}
    }
    // Asked for and given back: a vector that is made of zeros asks the system, as this does, but
    // cannot be refused.
    let mut probe = Vec::<u8>::new();
    match probe.try_reserve_exact(bytes as usize) {
        Ok(()) => Ok(()),
        Err(_) => too_much("the system does not give so much".into()),
    }
}

fn gigabytes(bytes: f64) -> String {
    format!("{:.1} GB", bytes / 1e9)
}

/// Bytes of memory and swap of this machine, where the system says so.
fn total_memory() -> Option<f64> {
    let table = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kilobytes = |name: &str| -> Option<f64> {
        let line = table.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some(1024.0 * (kilobytes("MemTotal:")? + kilobytes("SwapTotal:").unwrap_or(0.0)))
}
