//! Clusters below the threshold: which have a shape of their own, and what stands in for their
//! covariance.

/// What stands in for the covariance of a cluster below the threshold; w = members / threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subthreshold {
    /// w·cov + (1−w)·f·I with f = det(cov)^(1/p), and f = 1 where cov is singular.
    Mahal,
    /// The same with f = 1.
    Mahal0,
    /// The identity, and for every cluster until all are full-size.
    Euclid,
    /// The identity.
    EuclidMahal,
}

/// What the shape of a cluster depends on beside the cluster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShapeRule {
    /// The Mahalanobis threshold T, in members.
    pub threshold: f64,
    pub subthreshold: Subthreshold,
    /// Whether distances are taken with the whitening scaled to determinant 1.
    pub normalizing: bool,
    /// Whether all current clusters are full-size (`euclid` has real shapes only then).
    pub all_full_size: bool,
}

impl ShapeRule {
    /// Whether a cluster of `members` counts as full-size.
    #[inline(always)]
    pub fn is_full_size(&self, members: usize) -> bool {
        members as f64 >= self.threshold
    }

    /// The weight w of the covariance in the effective covariance.
    #[inline(always)]
    pub fn weight(&self, members: usize) -> f64 {
        if members <= 2 {
            0.0
        } else if self.is_full_size(members) {
            1.0
        } else {
            members as f64 / self.threshold
        }
    }

    /// Whether a cluster of `members` can have another shape than the identity; saves the work
    /// of asking [`whitening`].
    #[inline(always)]
    pub fn may_have_shape(&self, members: usize) -> bool {
        let weight = self.weight(members);
        match self.subthreshold {
            Subthreshold::Mahal | Subthreshold::Mahal0 => weight > 0.0,
            Subthreshold::EuclidMahal => weight == 1.0,
            Subthreshold::Euclid => weight == 1.0 && self.all_full_size,
        }
    }
}
