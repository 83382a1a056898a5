//! Single linkage by a minimum spanning tree of points.

use super::boruvka::tree;
use super::disjoint_sets::DisjointSets;
use crate::dendrogram::{Dendrogram, TreeBuilder};
use crate::error::Result;
use crate::metric::Points;
use crate::monitor::Monitor;
use crate::neighbours::NeighbourDevice;

/// Single linkage of `points`: the merges are the edges of their minimum spanning tree, in order,
/// at the edges' weights (Gower and Ross 1969, doi:10.2307/2346439). Heights have the bits of R's
/// `hclust(dist(x), "single")`; if no two heights are equal, the tree is the same, too.
///
/// Takes the time and memory of [`tree`].
///
/// # Errors
/// As [`tree`].
pub fn single(
    points: &Points,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Dendrogram> {
    let edges = tree(points, device, monitor)?;
    let n = points.rows();
    let mut sets = DisjointSets::new(n)?;
    let mut tree = TreeBuilder::new(n)?;
    for edge in edges {
        let [a, b] = [edge.lower, edge.higher].map(|end| sets.root(end));
        let root = sets.unite(a, b);
        tree.join(root, a + b - root, edge.weight);
    }
    tree.finish()?.finite("x")
}
