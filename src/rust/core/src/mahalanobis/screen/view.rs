//! A cluster in screen units, in single precision.

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
}
