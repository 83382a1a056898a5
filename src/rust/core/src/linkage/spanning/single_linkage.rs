//! Single linkage by a minimum spanning tree of points.

use super::boruvka::{reachability_tree, tree, tree_from_neighbours};
use super::disjoint_sets::DisjointSets;
use crate::dendrogram::{Dendrogram, TreeBuilder};
use crate::error::Result;
use crate::linkage::edge::Edge;
use crate::metric::Points;
use crate::monitor::Monitor;
use crate::neighbours::{NeighbourDevice, NeighbourLists};

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
    tree_of(points.rows(), tree(points, device, monitor)?)
}

/// Single linkage by mutual reachability distances for `min_points` points (HDBSCAN*; Campello,
/// Moulavi and Sander 2013, doi:10.1007/978-3-642-37456-2_14), and the core distances of the
/// points.
///
/// # Errors
/// As [`reachability_tree`].
pub fn reachability_single(
    points: &Points,
    min_points: usize,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<(Dendrogram, Vec<f64>)> {
    let (edges, cores) = reachability_tree(points, min_points, device, monitor)?;
    Ok((tree_of(points.rows(), edges)?, cores))
}

/// As [`single`] or [`reachability_single`], given the nearest other points of each point, as for
/// [`tree_from_neighbours`].
///
/// # Errors
/// As [`tree_from_neighbours`].
pub fn single_from_neighbours(
    points: &Points,
    min_points: usize,
    known: &NeighbourLists,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<(Dendrogram, Option<Vec<f64>>)> {
    let (edges, cores) = tree_from_neighbours(points, min_points, known, device, monitor)?;
    Ok((tree_of(points.rows(), edges)?, cores))
}

/// The tree whose merges are these edges, the edges of a spanning tree of n points in order.
fn tree_of(n: usize, edges: Vec<Edge>) -> Result<Dendrogram> {
    let mut sets = DisjointSets::new(n)?;
    let mut tree = TreeBuilder::new(n)?;
    for edge in edges {
        let [a, b] = [edge.lower, edge.higher].map(|end| sets.root(end));
        let root = sets.unite(a, b);
        tree.join(root, a + b - root, edge.weight);
    }
    tree.finish()?.finite("x")
}
