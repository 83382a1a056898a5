//! The known neighbours of a cluster.

use crate::linkage::dissimilarities::{Neighbour, NEAREST};

/// No slot or node.
pub const NONE: u32 = u32::MAX;

/// Smallest number of candidates of a cluster: with fewer, it gets new candidates in the next pass.
/// A third of the candidates of a pass. Only the time depends on it.
const FEWEST: usize = NEAREST / 3;

// `dissimilarity_of` has a bit for each neighbour.
const _: () = assert!(NEAREST <= u32::BITS as usize);

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
    /// The nodes of the neighbours, nearest first, then [`NONE`]. Some may have been merged since.
    nodes: [u32; NEAREST],
    /// The dissimilarities of the neighbours.
    dissimilarities: [f64; NEAREST],
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
        let mut all = Self {
            node,
            count: known.len() as u32,
            nodes: [NONE; NEAREST],
            dissimilarities: [f64::INFINITY; NEAREST],
            lower_bound,
        };
        for (place, known) in known.enumerate() {
            all.nodes[place] = known.node;
            all.dissimilarities[place] = known.dissimilarity;
        }
        all
    }

    /// The neighbours, nearest first. Some may have been merged since.
    pub fn known(&self) -> impl ExactSizeIterator<Item = KnownNeighbour> + '_ {
        let known = self.nodes.iter().zip(&self.dissimilarities);
        let known = known.take(self.count as usize);
        known.map(|(&node, &dissimilarity)| KnownNeighbour {
            dissimilarity,
            node,
        })
    }

    /// The node of the nearest neighbour, if there is one.
    pub fn nearest(&self) -> Option<u32> {
        (self.count > 0).then_some(self.nodes[0])
    }

    /// The dissimilarity of a node other than [`NONE`], if it is among the neighbours.
    pub fn dissimilarity_of(&self, node: u32) -> Option<f64> {
        // All places are compared, without a branch, by a few instructions for several places each.
        let is_there = |(place, &other): (usize, &u32)| u32::from(other == node) << place;
        let places = self.nodes.iter().enumerate().map(is_there);
        let found = places.fold(0, |found, place| found | place);
        (found != 0).then(|| self.dissimilarities[found.trailing_zeros() as usize])
    }

    /// Whether the next pass should find more neighbours.
    pub fn are_few(&self) -> bool {
        (self.count as usize) < FEWEST && self.lower_bound != UNBOUNDED
    }
}
