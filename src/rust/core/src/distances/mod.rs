//! The distances of all pairs of observations, as R's `dist` stores them, or of the pairs across
//! two sets.
//!
//! [`Pairs`] says which pairs and where each distance goes; a [`Backend`] fills in the distances.

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::metric::Points;
use crate::monitor::Monitor;

/// Pairs of points, in columns that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pairs {
    rows: usize,
    columns: usize,
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
            columns: points.saturating_sub(1),
            triangle: true,
        }
    }

    /// Each of the first `rows` points with each of the `columns` points after them, in the order
    /// of a matrix of R's with so many rows and columns.
    pub fn across(rows: usize, columns: usize) -> Self {
        Self {
            rows,
            columns,
            triangle: false,
        }
    }

    /// Number of pairs.
    pub fn count(&self) -> usize {
        if self.triangle {
            self.rows * self.columns / 2
        } else {
            self.rows * self.columns
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
        self.columns
    }

    /// One of the columns.
    pub fn column(&self, j: usize) -> Column {
        if self.triangle {
            Column {
                point: j,
                rows: j + 1..self.rows,
                start: j * (2 * self.rows - 1 - j) / 2,
            }
        } else {
            Column {
                point: self.rows + j,
                rows: 0..self.rows,
                start: j * self.rows,
            }
        }
    }

    /// That there is memory for as many distances.
    ///
    /// # Errors
    /// `Error::Memory` says how much they need.
    pub fn check_memory(&self) -> Result<()> {
        let bytes = self.count() as f64 * size_of::<f64>() as f64;
        let too_much = |available: String| {
            let of = if self.triangle {
                format!("all pairs of {} observations", self.rows)
            } else {
                format!("{} x {} observations", self.rows, self.columns)
            };
            Err(Error::Memory(format!(
                "the distances of {of} need {}, but {available}",
                gigabytes(bytes)
            )))
        };
        match total_memory() {
            Some(total) if bytes > total => {
                return too_much(format!("this machine has {}", gigabytes(total)));
            }
            _ => {}
        }
        // Asked for and given back: a vector that is made of zeros asks the system, as this does,
        // but cannot be refused.
        let mut probe = Vec::<f64>::new();
        match probe.try_reserve_exact(self.count()) {
            Ok(()) => Ok(()),
            Err(_) => too_much("the system does not give so much".into()),
        }
    }
}

/// The distances of all pairs of points, in the order of R's `dist`.
///
/// # Errors
/// `Error::Memory` where there is no memory for them; what the backend returns otherwise.
pub fn condensed(points: &Points, backend: &dyn Backend, monitor: &Monitor) -> Result<Vec<f64>> {
    let pairs = Pairs::within(points.rows());
    pairs.check_memory()?;
    let mut distances = vec![0.0; pairs.count()];
    backend.distances(points, &pairs, &mut distances, monitor)?;
    Ok(distances)
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
