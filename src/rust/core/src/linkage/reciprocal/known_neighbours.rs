//! The known neighbours of a cluster.

use crate::linkage::dissimilarities::{Neighbour, NEAREST};

/// No slot or node.
pub const NONE: u32 = u32::MAX;

/// Smallest number of candidates of a cluster: with fewer, it gets new candidates in the next pass.
/// A third of the candidates of a pass. Only the time depends on it.
const FEWEST: usize = NEAREST / 3;

/// A lower bound that comes after all neighbours: no cluster is outside the candidates.
const UNBOUNDED: Neighbour = Neighbour {
    dissimilarity: f64::INFINITY,
    slot: NONE,
};

/// A node and its dissimilarity.
#[derive(Debug, Clone, Copy)]
pub struct KnownNeighbour {
    pub dissimilarity: f64,
    pub node: u32,
}

/// The known neighbours of a node: the candidates for its nearest neighbour.
#[derive(Debug, Clone)]
pub struct KnownNeighbours {
    /// The node whose neighbours these are.
    pub node: u32,
    /// The neighbours, nearest first. Some may have been merged since.
    pub known: Vec<KnownNeighbour>,
    /// A lower bound on the dissimilarities to all other clusters.
    pub lower_bound: Neighbour,
}

impl KnownNeighbours {
    /// The known neighbours of a slot among `n` clusters, given its nearest neighbours.
    pub fn new(slot: u32, nearest: &[Neighbour], n: usize) -> Self {
        let known = |neighbour: &Neighbour| KnownNeighbour {
            dissimilarity: neighbour.dissimilarity,
            node: neighbour.slot,
        };
        let lower_bound = match nearest.last() {
            Some(last) if nearest.len() + 1 < n => *last,
            _ => UNBOUNDED,
        };
        Self {
            node: slot,
            known: nearest.iter().map(known).collect(),
            lower_bound,
        }
    }

    /// Whether the next pass should find more neighbours.
    pub fn are_few(&self) -> bool {
        self.known.len() < FEWEST && self.lower_bound != UNBOUNDED
    }
}
