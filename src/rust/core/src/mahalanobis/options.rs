//! The choices of a clustering.

use super::subthreshold::{ShapeRule, Subthreshold};

/// The choices of a clustering.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The Mahalanobis threshold T, in members: a cluster with as many is full-size.
    pub threshold: f64,
    pub subthreshold: Subthreshold,
    /// Distances between means (CMD) instead of means of distances (FMD).
    pub quick: bool,
    /// Normalise the shapes also when all clusters are full-size.
    pub normalize: bool,
    /// Whether apriori clusters are clustered inside, or just joined at height 0.
    pub apriori_intra: bool,
}

impl Options {
    /// The rule for shapes while all current clusters are full-size, or not.
    pub fn shape_rule(&self, all_full_size: bool) -> ShapeRule {
        ShapeRule {
            threshold: self.threshold,
            subthreshold: self.subthreshold,
            normalizing: self.normalize || !all_full_size,
            all_full_size,
        }
    }

    /// Whether any of `n` observations in `p` dimensions can form a cluster with another shape than the
    /// identity: the covariance of p members or fewer is singular.
    pub fn may_have_shapes(&self, n: usize, p: usize) -> bool {
        match self.subthreshold {
            Subthreshold::Mahal | Subthreshold::Mahal0 => n > 2,
            Subthreshold::Euclid | Subthreshold::EuclidMahal => n > p,
        }
    }
}
