//! The clusters between two passes over the dissimilarities.

use crate::linkage::lance_williams::MergedPair;

/// A cluster that was merged since the last pass.
#[derive(Debug, Clone, Copy)]
pub struct UnionNode {
    /// The two nodes that were merged.
    pub parts: [u32; 2],
    pub pair: MergedPair,
    /// Number of slots in the cluster.
    slots: u32,
    /// The lowest of these slots.
    pub lowest: u32,
}

/// Clusters as nodes: nodes 0, 1, … are the clusters in the slots after the last pass; unions
/// follow in the order of the merges.
#[derive(Debug, Default)]
pub struct Nodes {
    /// By slot: the size of its first node.
    pub sizes: Vec<f64>,
    /// The unions, in the order of the merges.
    pub unions: Vec<UnionNode>,
}

impl Nodes {
    /// Restarts with clusters of these sizes.
    pub fn restart(&mut self, sizes: Vec<f64>) {
        self.sizes = sizes;
        self.unions.clear();
    }

    /// Merges two nodes to a new node whose lowest slot is `lowest`; returns its number.
    pub fn join(&mut self, parts: [u32; 2], height: f64, lowest: u32) -> u32 {
        let [a, b] = parts;
        self.unions.push(UnionNode {
            parts,
            pair: MergedPair {
                height,
                sizes: [self.size(a), self.size(b)],
            },
            slots: self.slots(a) + self.slots(b),
            lowest,
        });
        (self.sizes.len() + self.unions.len() - 1) as u32
    }

    /// The union of a node; `None` for a first node.
    pub fn union(&self, node: u32) -> Option<&UnionNode> {
        let at = (node as usize).checked_sub(self.sizes.len())?;
        Some(&self.unions[at])
    }

    /// Number of observations.
    pub fn size(&self, node: u32) -> f64 {
        self.union(node)
            .map_or_else(|| self.sizes[node as usize], |union| union.pair.size())
    }

    /// Number of slots.
    pub fn slots(&self, node: u32) -> u32 {
        self.union(node).map_or(1, |union| union.slots)
    }

    /// The lowest slot.
    pub fn lowest(&self, node: u32) -> u32 {
        self.union(node).map_or(node, |union| union.lowest)
    }
}
