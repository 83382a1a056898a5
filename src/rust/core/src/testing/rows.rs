//! Rows of numbers, in groups.

use std::fmt;
use std::ops::Range;

use crate::matrix::RowSlices;
use crate::testing::{array, observations};
use crate::Observations;
use ndarray::Array2;

/// A row of numbers, and its label: an apriori cluster, or the role of the row.
#[derive(Clone, PartialEq)]
pub struct LabelledRow {
    pub label: u32,
    pub values: Vec<f64>,
}

impl fmt::Debug for LabelledRow {
    /// On one line, also in multi-line output.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&format!("{}: {:?}", self.label, self.values))
    }
}

/// Rows of the same length.
#[derive(Clone, PartialEq)]
pub struct Rows {
    pub rows: Vec<LabelledRow>,
    pub columns: usize,
}

impl fmt::Debug for Rows {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows.fmt(to)
    }
}

impl Rows {
    /// `n` rows of row-major `values`, all with the label 0.
    pub fn new(values: &[f64], n: usize) -> Self {
        let columns = values.len() / n.max(1);
        let row = |i: usize| LabelledRow {
            label: 0,
            values: values[i * columns..][..columns].to_vec(),
        };
        Self {
            rows: (0..n).map(row).collect(),
            columns,
        }
    }

    /// The rows of a matrix, all with the label 0.
    pub fn of(x: &Observations) -> Self {
        Self::new(x.values(), x.nrows())
    }

    /// Gives these rows a label.
    pub fn label(mut self, rows: Range<usize>, label: u32) -> Self {
        self.rows[rows].iter_mut().for_each(|row| row.label = label);
        self
    }

    pub fn count(&self) -> usize {
        self.rows.len()
    }

    pub fn labels(&self) -> Vec<u32> {
        self.rows.iter().map(|row| row.label).collect()
    }

    /// The rows with this label.
    pub fn labelled(&self, label: u32) -> Self {
        let mut some = self.clone();
        some.rows.retain(|row| row.label == label);
        some
    }

    /// The rows in the order of their labels.
    pub fn sorted(mut self) -> Self {
        self.rows.sort_by_key(|row| row.label);
        self
    }

    /// The values, row-major.
    pub fn values(&self) -> Vec<f64> {
        let values = self.rows.iter().map(|row| &row.values[..]);
        values.collect::<Vec<_>>().concat()
    }

    pub fn array(&self) -> Array2<f64> {
        array(self.values(), self.count(), self.columns)
    }

    /// The rows as observations; at least two rows.
    pub fn observations(&self) -> Observations {
        observations(self.values(), self.count(), self.columns)
    }
}
