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
    pub least_stretch: f32,
    /// Packed whitening factor W. Empty for the identity, and if W is too large for bounds.
    pub whitening: Vec<f32>,
    /// Relative error of ‖Wδ‖ in single precision: ‖Wδ‖ is off by at most `relative`·‖δ‖ +
    /// `mean_error_factor`·(both errors) + [`LOST_IN_NORM`](crate::single_precision::LOST_IN_NORM).
    pub relative: f32,
    /// Factor of the errors of the means: see `relative`.
    pub mean_error_factor: f32,
    /// A lower bound on the variance of [`Spread`](super::Spread).
    pub variance: f32,
    /// An upper bound on the fourth moment.
    pub fourth: f32,
    /// An upper bound on the largest eigenvalue.
    pub largest_eigenvalue: f32,
    /// An upper bound on the third moment.
    pub third: f32,
}
