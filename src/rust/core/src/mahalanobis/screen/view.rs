//! A cluster in screen units, in single precision.

use std::sync::OnceLock;

use crate::mahalanobis::packed::packed_len;

/// A cluster in screen units, in single precision.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterView {
    pub mean: Vec<f32>,
    /// The second parts of the coordinates with
    /// [`MeanPrecision::Double`](super::MeanPrecision::Double), empty otherwise.
    pub rest: Vec<f32>,
    /// An upper bound on the distance between the exact mean and `mean`, or `mean` + `rest`.
    pub error: f32,
    /// A lower bound on ‖Wy‖/‖y‖.
    pub low: f32,
    /// Packed whitening factor W; empty for the identity, and where W is too large for bounds.
    pub whitening: Vec<f32>,
    /// In single precision, ‖Wδ‖ is off by at most `relative`·‖δ‖ + `absolute`·(both errors).
    pub relative: f32,
    pub absolute: f32,
    /// The moments of [`Spread`](super::Spread): a lower bound on the variance, upper bounds on the
    /// others.
    pub variance: f32,
    pub fourth: f32,
    pub largest: f32,
    pub third: f32,
    /// See [`ClusterView::columns`].
    pub by_columns: OnceLock<Vec<f32>>,
}

impl ClusterView {
    /// The whitening factor packed column by column, made at the first call.
    pub fn columns(&self) -> &[f32] {
        self.by_columns.get_or_init(|| {
            let mut columns = Vec::with_capacity(self.whitening.len());
            if !self.whitening.is_empty() {
                let p = self.mean.len();
                for j in 0..p {
                    columns.extend((j..p).map(|i| self.whitening[packed_len(i) + j]));
                }
            }
            columns
        })
    }
}
