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
#[derive(Debug, Clone, Copy)]
pub struct KnownNeighbours {
    /// The node whose neighbours these are.
    pub node: u32,
    /// Number of neighbours.
    count: u32,
    /// The neighbours, nearest first. Some may have been merged since.
    known: [KnownNeighbour; NEAREST],
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
        Self::with(slot, nearest.iter().map(known), lower_bound)
    }

    /// The known neighbours of a node, nearest first, at most [`NEAREST`], with a lower bound on
    /// the dissimilarities to all others.
    pub fn with(
        node: u32,
        known: impl ExactSizeIterator<Item = KnownNeighbour>,
        lower_bound: Neighbour,
    ) -> Self {
        let nothing = KnownNeighbour {
            dissimilarity: f64::INFINITY,
            node: NONE,
        };
        let mut all = Self {
            node,
            count: known.len() as u32,
            known: [nothing; NEAREST],
            lower_bound,
        };
        let places = &mut all.known[..known.len()];
        places.iter_mut().zip(known).for_each(|(to, one)| *to = one);
        all
    }

    /// The neighbours, nearest first. Some may have been merged since.
    pub fn known(&self) -> &[KnownNeighbour] {
        &self.known[..self.count as usize]
    }

    /// Whether the next pass should find more neighbours.
    pub fn are_few(&self) -> bool {
        self.known().len() < FEWEST && self.lower_bound != UNBOUNDED
    }
}
