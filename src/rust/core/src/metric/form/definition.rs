//! The traits of a form, and of code that is generic over forms.

use pulp::Simd;

/// A dissimilarity of pairs of observations, one pair in each lane.
pub trait Form: Copy + Send + Sync {
    /// The accumulators.
    type State<S: Simd>: Copy;

    /// The accumulators before the first coordinate.
    fn start<S: Simd>(self, simd: S) -> Self::State<S>;

    /// Adds one coordinate of each of the two observations.
    fn add<S: Simd>(self, simd: S, state: Self::State<S>, a: S::f64s, b: S::f64s)
        -> Self::State<S>;

    /// The distances, after the last coordinate.
    fn finish<S: Simd>(self, simd: S, state: Self::State<S>) -> S::f64s;
}

/// Work on points that is compiled for each form of distance.
pub trait WithForm {
    type Output;

    /// Runs with the form of the distance between rows.
    fn with_form<F: Form>(self, form: F) -> Self::Output;

    /// Runs if there is no form, because the ranks differ from pair to pair (see
    /// [`Points::pairwise`](crate::metric::Points::pairwise)).
    fn pairwise(self) -> Self::Output;
}
