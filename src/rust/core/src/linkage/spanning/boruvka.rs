//! Borůvka's algorithm.

use std::cmp::Ordering;

use super::components::ConnectedComponents;
use crate::distinct::Distinct;
use crate::error::Result;
use crate::linkage::edge::Edge;
use crate::memory;
use crate::metric::Points;
use crate::monitor::Monitor;
use crate::neighbours::{NeighbourDevice, Space};

/// The n − 1 edges of the minimum spanning tree of `points`, in increasing order. Edges of equal
/// weight are ordered by their lower end, then by their higher end.
///
/// Takes O(n²p) time for the first search, a few times as much in the worst case, and O(np) memory.
///
/// # Errors
/// `Error::Input` if a distance is not a number (see [`Space::check`]); otherwise the errors of the
/// device.
pub fn tree(
    points: &Points,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Vec<Edge>> {
    let space = Space::Points {
        points,
        references: points.rows(),
    };
    space.check()?;
    let distinct = || Distinct::new(points.values(), points.columns(), monitor);
    let distinct = device.cpu().install(distinct)?;
    if distinct.is_worthwhile() {
        let firsts = points.select(&distinct.firsts())?;
        let edges = tree_of_all(&firsts, device, monitor)?;
        if let Some(edges) = with_equal_points(points, &distinct, edges) {
            return Ok(edges);
        }
    }
    drop(distinct);
    tree_of_all(points, device, monitor)
}

/// The tree of `points`, given the edges of the tree of the distinct points, by their numbers;
/// `None` if equal points are not nearer to each other than to all other points.
fn with_equal_points(
    points: &Points,
    distinct: &Distinct,
    mut edges: Vec<Edge>,
) -> Option<Vec<Edge>> {
    // By number of a distinct point: the least weight of an edge to another one. All of these edges
    // are in the tree.
    let mut nearest = vec![f64::INFINITY; distinct.count()];
    for edge in &mut edges {
        for end in [&mut edge.lower, &mut edge.higher] {
            let nearest = &mut nearest[*end as usize];
            *nearest = nearest.min(edge.weight);
            *end = distinct.first(*end as usize);
        }
    }
    for (number, nearest) in nearest.into_iter().enumerate() {
        let (first, others) = distinct.rows(number).split_first()?;
        if others.is_empty() {
            continue;
        }
        let weight = points.distance(*first as usize, *first as usize);
        // NaN is not less.
        if weight.partial_cmp(&nearest) != Some(Ordering::Less) {
            return None;
        }
        edges.extend(others.iter().map(|&other| Edge::new(weight, *first, other)));
    }
    edges.sort_unstable_by(Edge::order);
    Some(edges)
}

/// As [`tree`], for points whose distances are numbers, with a search for each point.
fn tree_of_all(
    points: &Points,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Vec<Edge>> {
    let n = points.rows();
    let space = Space::Points {
        points,
        references: n,
    };
    if n < 2 {
        // One point has no frame.
        return Ok(Vec::new());
    }
    space.check()?;
    memory::check_working("the spanning tree", n, 400 + 4 * points.columns())?;
    // The progress units are the queries of the first search, and the edges.
    monitor.expect(2 * n as u64 - 1);
    let mut edges = device.cpu().install(|| {
        let mut neighbours = device.references(space, monitor)?;
        let mut components = ConnectedComponents::new(n, &mut *neighbours, monitor)?;
        while components.edges().len() < n - 1 {
            monitor.check()?;
            let before = components.edges().len();
            components.join_all()?;
            monitor.advance((components.edges().len() - before) as u64);
        }
        Ok(components.into_edges())
    })?;
    edges.sort_unstable_by(Edge::order);
    Ok(edges)
}
