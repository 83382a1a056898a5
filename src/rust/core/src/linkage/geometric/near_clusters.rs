//! The clusters near a cluster.

use crate::neighbours::MeanLinkage;

/// Number of clusters that a search finds. A larger number makes searches slower and rarer. Apart
/// from ties, the tree does not depend on it.
pub const WANTED: usize = 12;

/// Largest number of near clusters that a cluster keeps. A union chooses them among the near
/// clusters of its parts. Apart from ties, the tree does not depend on it.
const KEPT: usize = 16;

/// The round of the first search, whose distances are the metric's. Rounds of merges count from 1,
/// so these distances are never taken for distances of the linkage.
pub const ROUND_OF_METRIC: u32 = 0;

/// The clusters near a cluster, with a lower bound on the distances of all others.
#[derive(Debug, Clone, Copy)]
pub struct NearClusters {
    /// Slots of the near clusters in round `round`, nearest first; `count` entries are used.
    slots: [u32; KEPT],
    /// Distances of the near clusters in round `round`; `count` entries are used.
    distances: [f64; KEPT],
    /// Number of near clusters.
    count: u32,
    /// The round in which the distances were computed.
    round: u32,
    /// A lower bound on the distance of every cluster that contains none of the clusters found.
    pub lower_bound: f64,
}

impl NearClusters {
    /// The state before any search.
    const UNKNOWN: Self = Self {
        slots: [0; KEPT],
        distances: [0.0; KEPT],
        count: 0,
        round: 0,
        lower_bound: 0.0,
    };

    /// The answer of a search in a round: the nearest clusters, nearest first. If there are fewer
    /// than [`WANTED`], there are no others.
    pub fn nearest(nearest: &[(f64, u32)], round: u32) -> Self {
        let lower_bound = match nearest.last() {
            Some(&(last, _)) if nearest.len() == WANTED => last,
            _ => f64::INFINITY,
        };
        Self::new(nearest, lower_bound, round)
    }

    /// The nearest of these clusters, which are sorted by distance, in a round; `lower_bound` is a
    /// bound on the distances of all others.
    pub fn new(near: &[(f64, u32)], lower_bound: f64, round: u32) -> Self {
        let mut new = Self {
            count: near.len().min(KEPT) as u32,
            round,
            lower_bound: near
                .get(KEPT)
                .map_or(lower_bound, |&(left_out, _)| lower_bound.min(left_out)),
            ..Self::UNKNOWN
        };
        let places = new.distances.iter_mut().zip(&mut new.slots);
        for ((distance, slot), &near) in places.zip(near) {
            (*distance, *slot) = near;
        }
        new
    }

    /// Distances and slots of near clusters, in the round [`NearClusters::round`].
    pub fn found(&self) -> impl Iterator<Item = (f64, u32)> + '_ {
        let slots = self.slots[..self.count as usize].iter().copied();
        self.distances.iter().copied().zip(slots)
    }

    /// The round in which the distances were computed.
    pub fn round(&self) -> u32 {
        self.round
    }
}

/// A lower bound on the distances from the union of two clusters to other clusters. `sizes` are the
/// sizes of its parts x and y, `bounds` are lower bounds f on the distances from x and y to other
/// clusters, and `height` is the distance of x and y, which is above neither bound.
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
