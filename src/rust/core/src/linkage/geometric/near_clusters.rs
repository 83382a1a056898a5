//! The clusters near a cluster.

use crate::neighbours::MeanLinkage;

/// Number of clusters that a search finds. A larger number makes searches slower and rarer. Apart
/// from ties, the tree does not depend on it.
pub const WANTED: usize = 12;

/// Number of near clusters that a cluster keeps, of those of its parts. Apart from ties, the tree
/// does not depend on it.
const KEPT: usize = 2 * WANTED;

/// The clusters near a cluster, with a lower bound on the distances of all others.
#[derive(Debug, Clone, Copy)]
pub struct NearClusters {
    /// Slots of near clusters, at the time when they were found: the first `count`.
    found: [u32; KEPT],
    count: u32,
    /// A lower bound on the distance of every cluster that contains none of the clusters found.
    pub lower_bound: f64,
}

impl NearClusters {
    /// The state before any search.
    pub const UNKNOWN: Self = Self {
        found: [0; KEPT],
        count: 0,
        lower_bound: 0.0,
    };

    /// The answer of a search: the nearest clusters, nearest first. If there are fewer than
    /// [`WANTED`], there are no others.
    pub fn nearest(nearest: &[(f64, u32)]) -> Self {
        let lower_bound = match nearest.last() {
            Some(&(last, _)) if nearest.len() == WANTED => last,
            _ => f64::INFINITY,
        };
        Self::UNKNOWN.with(nearest, lower_bound)
    }

    /// The nearest of these clusters, sorted by distance, instead of those found; the bound may
    /// then be less than `lower_bound`.
    pub fn with(mut self, near: &[(f64, u32)], lower_bound: f64) -> Self {
        self.lower_bound = near.get(KEPT).map_or(lower_bound, |&(left_out, _)| {
            lower_bound.min(left_out)
        });
        self.count = near.len().min(KEPT) as u32;
        let places = self.found.iter_mut().zip(near);
        places.for_each(|(place, &(_, slot))| *place = slot);
        self
    }

    /// Slots of near clusters, at the time when they were found.
    pub fn found(&self) -> &[u32] {
        &self.found[..self.count as usize]
    }
}

/// A lower bound on the distances of the union of two clusters of these sizes from other clusters,
/// given bounds f on the distances of its parts x and y, neither of which is below their distance
/// `height`.
///
/// For Ward's linkage, by the Lance–Williams formula,
///
/// d²(xy, z)·(|x|+|y|+|z|) ≥ (|x|+|z|)·f(x)² + (|y|+|z|)·f(y)² − |z|·d²(x, y),
///
/// and the bound on d²(xy, z) is least for |z| = 1. For the other linkages, d(xy, z) is the mean of
/// d(x, z) and d(y, z), with the sizes as weights or with equal weights.
pub fn bound_of_union(linkage: MeanLinkage, bounds: [f64; 2], sizes: [f64; 2], height: f64) -> f64 {
    let ([f, g], [a, b]) = (bounds, sizes);
    match linkage {
        MeanLinkage::Ward => {
            let sum = (a + 1.0) * (f * f) + (b + 1.0) * (g * g) - height * height;
            (sum / (a + b + 1.0)).sqrt()
        }
        MeanLinkage::Average => (a * f + b * g) / (a + b),
        MeanLinkage::Mcquitty => 0.5 * (f + g),
    }
}
