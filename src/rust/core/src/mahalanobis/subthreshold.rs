//! Replacements of the covariance of clusters below the threshold.

use crate::error::{Error, Result};

/// The replacement of the covariance of a cluster below the threshold, with w = members /
/// threshold. The CUDA code knows the kinds by these numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Subthreshold {
    /// w·cov + (1−w)·f·I with f = det(cov)^(1/p), and f = 1 where cov is singular.
    Mahal = 0,
    /// w·cov + (1−w)·I.
    Mahal0 = 1,
    /// The identity, for every cluster until all clusters are full-size.
    Euclid = 2,
    /// The identity.
    EuclidMahal = 3,
}

impl Subthreshold {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Mahal, Self::Mahal0, Self::Euclid, Self::EuclidMahal];

    /// The kind of this name, as in the arguments of `gmhclust()`.
    ///
    /// # Errors
    /// `Error::Input` for other names.
    pub fn new(name: &str) -> Result<Self> {
        match name {
            "mahal" => Ok(Self::Mahal),
            "mahal0" => Ok(Self::Mahal0),
            "euclid" => Ok(Self::Euclid),
            "euclidMahal" => Ok(Self::EuclidMahal),
            other => Err(Error::Input(format!(
                "`subthreshold` is {other:?}; it must be \"mahal\", \"mahal0\", \"euclid\" or \
                 \"euclidMahal\""
            ))),
        }
    }

    /// Whether the identity in the effective covariance is scaled by f = det(cov)^(1/p).
    #[inline(always)]
    pub fn scales_the_identity(self) -> bool {
        self == Self::Mahal
    }

    /// Whether any of `n` observations in `p` dimensions can form a cluster with a shape other than
    /// the identity. The covariance of p members or fewer is singular.
    pub fn may_have_shapes(self, n: usize, p: usize) -> bool {
        match self {
            Self::Mahal | Self::Mahal0 => n > 2,
            Self::Euclid | Self::EuclidMahal => n > p,
        }
    }
}

/// The settings on which the shape of a cluster depends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShapeRule {
    /// The Mahalanobis threshold T, in members.
    pub threshold: f64,
    pub subthreshold: Subthreshold,
    /// Whether the whitening is scaled to determinant 1.
    pub normalizing: bool,
    /// Whether all active clusters are full-size (`euclid` has shapes only then).
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

    /// Whether a cluster of `members` can have a shape other than the identity. If it cannot, the
    /// whitening factor need not be computed.
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
