//! Edges of spanning trees.

use std::cmp::Ordering;

/// An edge between two observations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Edge {
    pub weight: f64,
    /// The distance of the two ends: the weight, or less.
    pub distance: f64,
    /// The end with the lower index.
    pub lower: u32,
    /// The end with the higher index.
    pub higher: u32,
}

impl Edge {
    /// The edge between `a` and `b`, given in either order; its weight is their distance.
    pub fn new(distance: f64, a: u32, b: u32) -> Self {
        Self::weighted(distance, distance, a, b)
    }

    /// As [`Edge::new`], with another weight.
    pub fn weighted(weight: f64, distance: f64, a: u32, b: u32) -> Self {
        Self {
            weight,
            distance,
            lower: a.min(b),
            higher: a.max(b),
        }
    }

    /// Orders edges by weight, then by distance, by the lower end, and by the higher end. Weights
    /// and distances are never NaN, and −0 equals 0.
    pub fn order(&self, other: &Self) -> Ordering {
        let key = |edge: &Self| (edge.weight, edge.distance, edge.lower, edge.higher);
        let order = key(self).partial_cmp(&key(other));
        order.expect("weights and distances are numbers")
    }
}
