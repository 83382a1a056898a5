//! Borůvka's algorithm.

use std::cmp::Ordering;

use super::components::ConnectedComponents;
use super::core_distances::{core_distances, Weights};
use crate::distinct::Distinct;
use crate::error::{Error, Result};
use crate::linkage::edge::Edge;
use crate::memory;
use crate::metric::Points;
use crate::monitor::Monitor;
use crate::neighbours::{NeighbourDevice, NeighbourLists, Space};

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
    space_of(points).check()?;
    weighted_tree(points, Weights::Distance, None, device, monitor)
}

/// As [`tree`] or, for `min_points` of 2 or more, as [`reachability_tree`] with the core distances,
/// but with known neighbours: for each point, the list of its nearest other points, which may have
/// been found on other machines. All lists have the same length, at least 1 and at least
/// `min_points` − 1.
///
/// # Errors
/// As [`tree`] and [`reachability_tree`], and `Error::Input` if the lists do not fit.
pub fn tree_from_neighbours(
    points: &Points,
    min_points: usize,
    known: &NeighbourLists,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<(Vec<Edge>, Option<Vec<f64>>)> {
    space_of(points).check()?;
    let n = points.rows();
    let length = known.iter().next().map_or(0, <[_]>::len);
    let fits = |(point, list): (usize, &[(f64, u32)])| {
        let is_other = |&(_, other): &(f64, u32)| (other as usize) < n && other as usize != point;
        list.len() == length && list.iter().all(is_other)
    };
    let is_long_enough = length >= min_points.saturating_sub(1).max(1);
    if known.len() != n || !is_long_enough || !known.iter().enumerate().all(fits) {
        let message = "the neighbours that were found do not fit the observations";
        return Err(Error::Input(message.into()));
    }
    if min_points < 2 {
        let edges = weighted_tree(points, Weights::Distance, Some(known), device, monitor)?;
        return Ok((edges, None));
    }
    let mut cores = memory::room("the core distances need", n)?;
    cores.extend(known.iter().map(|list| list[min_points - 2].0));
    let weights = Weights::MutualReachability(&cores);
    let edges = weighted_tree(points, weights, Some(known), device, monitor)?;
    Ok((edges, Some(cores)))
}

/// As [`tree`], with the mutual reachability distances for `min_points` points, at least 2, as
/// weights. Edges of equal weight are ordered by the distance of their ends, then by their ends.
/// Also returns the core distances of the points.
///
/// # Errors
/// As [`tree`]; also `Error::Input` if there are fewer points.
pub fn reachability_tree(
    points: &Points,
    min_points: usize,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<(Vec<Edge>, Vec<f64>)> {
    let (n, space) = (points.rows(), space_of(points));
    space.check()?;
    // The progress units of the core distances are queries, too.
    monitor.expect(n as u64);
    let cores = device.cpu().install(|| {
        let mut neighbours = device.references(space, monitor)?;
        core_distances(n, min_points, &mut *neighbours, monitor)
    })?;
    let weights = Weights::MutualReachability(&cores);
    let edges = weighted_tree(points, weights, None, device, monitor)?;
    Ok((edges, cores))
}

fn space_of(points: &Points) -> Space<'_> {
    Space::Points {
        points,
        references: points.rows(),
    }
}

/// The tree of points whose distances are numbers. `known` are the lists of nearest points, if they
/// are known; they are not used if equal points are searched as one.
fn weighted_tree(
    points: &Points,
    weights: Weights,
    known: Option<&NeighbourLists>,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Vec<Edge>> {
    let distinct = || Distinct::new(points.values(), points.columns(), monitor);
    let distinct = device.cpu().install(distinct)?;
    if distinct.is_worthwhile() {
        let firsts = distinct.firsts();
        let of_firsts: Vec<f64>;
        let weights_of_firsts = match weights {
            Weights::Distance => weights,
            Weights::MutualReachability(cores) => {
                of_firsts = firsts.iter().map(|&first| cores[first as usize]).collect();
                Weights::MutualReachability(&of_firsts)
            }
        };
        let firsts = device.cpu().install(|| points.select(&firsts))?;
        let edges = tree_of_all(&firsts, weights_of_firsts, None, device, monitor)?;
        if let Some(edges) = with_equal_points(points, weights, &distinct, edges) {
            return Ok(edges);
        }
    }
    drop(distinct);
    tree_of_all(points, weights, known, device, monitor)
}

/// The tree of `points`, given the edges of the tree of the distinct points, by their numbers;
/// `None` if equal points are not nearer to each other than to all other points.
fn with_equal_points(
    points: &Points,
    weights: Weights,
    distinct: &Distinct,
    mut edges: Vec<Edge>,
) -> Option<Vec<Edge>> {
    // By number of a distinct point: weight and distance of the least edge to another one. All of
    // these edges are in the tree.
    let mut nearest = vec![(f64::INFINITY, f64::INFINITY); distinct.count()];
    for edge in &mut edges {
        for end in [&mut edge.lower, &mut edge.higher] {
            let nearest = &mut nearest[*end as usize];
            if (edge.weight, edge.distance) < *nearest {
                *nearest = (edge.weight, edge.distance);
            }
            *end = distinct.first(*end as usize);
        }
    }
    for (number, nearest) in nearest.into_iter().enumerate() {
        let (first, others) = distinct.rows(number).split_first()?;
        if others.is_empty() {
            continue;
        }
        let distance = points.distance(*first as usize, *first as usize);
        let edge = |&other: &u32| weights.edge(distance, *first, other);
        let weight = edge(&others[0]).weight;
        // NaN is not less.
        if (weight, distance).partial_cmp(&nearest) != Some(Ordering::Less) {
            return None;
        }
        edges.extend(others.iter().map(edge));
    }
    edges.sort_unstable_by(Edge::order);
    Some(edges)
}

/// As [`weighted_tree`], but treats equal points like all others.
fn tree_of_all(
    points: &Points,
    weights: Weights,
    known: Option<&NeighbourLists>,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Vec<Edge>> {
    let (n, space) = (points.rows(), space_of(points));
    if n < 2 {
        // One point has no frame.
        return Ok(Vec::new());
    }
    space.check()?;
    memory::check_working("the spanning tree", n, 400 + 4 * points.columns())?;
    // The progress units are the queries of the first search, if there is one, and the edges.
    let queries = if known.is_some() { 0 } else { n as u64 };
    monitor.expect(queries + n as u64 - 1);
    let mut edges = device.cpu().install(|| {
        let mut neighbours = device.references(space, monitor)?;
        let mut components = ConnectedComponents::new(n, &mut *neighbours, weights, monitor)?;
        if let Some(known) = known {
            components.start_from_neighbours(known)?;
        }
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
