//! Access to the rows of a condensed matrix.

use crate::linkage::condensed::{row_start, CondensedMatrix, Stored};

/// The dissimilarities of all clusters, stored as `T` or rounded as if stored as `T`.
pub struct MatrixRows<'a, T> {
    pub source: MatrixSource<'a, T>,
    /// Whether dissimilarities are the squares of the stored values.
    squared: bool,
}

/// The place of the dissimilarities.
pub enum MatrixSource<'a, T> {
    /// The caller's memory. Values are rounded as if stored as `T`.
    Given {
        values: &'a [f64],
        n: usize,
    },
    Own(CondensedMatrix<T>),
}

impl<'a, T: Stored> MatrixRows<'a, T> {
    /// The dissimilarities of `n` clusters in the order of R's `dist`; their squares if `squared`.
    pub fn given(values: &'a [f64], n: usize, squared: bool) -> Self {
        Self {
            source: MatrixSource::Given { values, n },
            squared,
        }
    }

    /// The dissimilarities in `matrix`; their squares if `squared`.
    pub fn own(matrix: CondensedMatrix<T>, squared: bool) -> Self {
        Self {
            source: MatrixSource::Own(matrix),
            squared,
        }
    }

    /// Number of clusters.
    pub fn clusters(&self) -> usize {
        match &self.source {
            MatrixSource::Given { n, .. } => *n,
            MatrixSource::Own(matrix) => matrix.clusters(),
        }
    }

    /// The square of a value if dissimilarities are squared, otherwise the value.
    #[inline(always)]
    fn squared_if_needed(&self, value: f64) -> f64 {
        if self.squared {
            value * value
        } else {
            value
        }
    }

    /// Writes the dissimilarities of a cluster to the clusters in higher slots into `to`.
    pub fn load_row(&self, slot: usize, to: &mut [f64]) {
        match &self.source {
            MatrixSource::Given { values, n } => {
                let row = &values[row_start(*n, slot)..][..n - 1 - slot];
                for (to, &value) in to.iter_mut().zip(row) {
                    *to = T::store(value).load();
                }
            }
            MatrixSource::Own(matrix) => {
                for (to, value) in to.iter_mut().zip(matrix.row(slot)) {
                    *to = value.load();
                }
            }
        }
        if self.squared {
            to.iter_mut().for_each(|value| *value *= *value);
        }
    }

    /// The dissimilarities of a cluster to the clusters in higher slots; computed in `scratch`
    /// unless they are stored as doubles.
    pub fn row<'r>(&'r self, slot: usize, scratch: &'r mut [f64]) -> &'r [f64] {
        if self.squared {
            let row = &mut scratch[..self.clusters() - 1 - slot];
            self.load_row(slot, row);
            return row;
        }
        match &self.source {
            MatrixSource::Given { values, n } => {
                T::rounded(&values[row_start(*n, slot)..][..n - 1 - slot], scratch)
            }
            MatrixSource::Own(matrix) => T::to_doubles(matrix.row(slot), scratch),
        }
    }

    /// The dissimilarity of two clusters.
    pub fn entry(&self, lower: usize, higher: usize) -> f64 {
        let value = match &self.source {
            MatrixSource::Given { values, n } => {
                T::store(values[row_start(*n, lower) + higher - lower - 1]).load()
            }
            MatrixSource::Own(matrix) => matrix.get(lower, higher),
        };
        self.squared_if_needed(value)
    }
}
