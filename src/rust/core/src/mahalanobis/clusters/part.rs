//! Clusters as operands of a centroid distance or of a union.

use pulp::{Simd, WithSimd};

use super::moments::Moments;
use crate::mahalanobis::distance;
use crate::simd::dispatch;

/// A cluster as an operand.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    pub(super) size: usize,
    pub(super) mean: &'a [f64],
    /// `None` for a single observation, and where moments are not needed.
    pub(super) moments: Option<&'a Moments>,
}

impl Part<'_> {
    /// Number of members.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The packed whitening factor, or an empty slice for the identity.
    fn whitening(&self) -> &[f64] {
        self.moments.map_or(&[], |m| &m.whitening)
    }

    /// The distance from the mean of this cluster to another cluster.
    pub(super) fn distance_to(&self, other: &Part) -> f64 {
        dispatch(ToCluster {
            x: self.mean,
            mean: other.mean,
            whitening: other.whitening(),
        })
    }

    /// The centroid distance to another cluster.
    pub(super) fn centroid_distance(&self, other: &Part) -> f64 {
        let to_other = self.distance_to(other);
        // The Euclidean distance has the same bits in both directions.
        if self.whitening().is_empty() && other.whitening().is_empty() {
            return to_other;
        }
        distance::average(to_other, other.distance_to(self))
    }
}

/// A kernel that computes the distance from a point to a cluster.
struct ToCluster<'a> {
    x: &'a [f64],
    mean: &'a [f64],
    whitening: &'a [f64],
}

impl WithSimd for ToCluster<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        distance::to_cluster(self.x, self.mean, self.whitening)
    }
}
