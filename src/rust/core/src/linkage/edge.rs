//! Edges of spanning trees.

use std::cmp::Ordering;

/// An edge between two observations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Edge {
    pub weight: f64,
    /// The end with the lower index.
    pub lower: u32,
    pub higher: u32,
}

impl Edge {
    /// The edge between `a` and `b`, given in either order.
    pub fn new(weight: f64, a: u32, b: u32) -> Self {
        Self {
            weight,
            lower: a.min(b),
            higher: a.max(b),
        }
    }

    /// Orders edges by weight, then by the lower end, then by the higher end. Weights are never
    /// NaN, and −0 equals 0.
    pub fn order(&self, other: &Self) -> Ordering {
        let ends = |edge: &Self| (edge.lower, edge.higher);
        let by_weight = self.weight.partial_cmp(&other.weight);
        by_weight
            .expect("weights are numbers")
            .then_with(|| ends(self).cmp(&ends(other)))
    }
}
