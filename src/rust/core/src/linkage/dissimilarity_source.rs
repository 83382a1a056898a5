//! The source of dissimilarities.

use crate::metric::Points;

/// The input of a linkage.
#[derive(Debug, Clone, Copy)]
pub enum DissimilaritySource<'a> {
    /// The dissimilarities of all pairs, in the order of R's `dist`.
    Given(&'a [f64]),
    /// Points, whose distances are the dissimilarities.
    Points(&'a Points),
}
