//! Core distances, and the mutual reachability distance that they define (Campello, Moulavi and
//! Sander 2013, doi:10.1007/978-3-642-37456-2_14).

use crate::error::{Error, Result};
use crate::linkage::edge::Edge;
use crate::memory;
use crate::monitor::Monitor;
use crate::neighbours::{Exclusion, NeighbourRequest, Neighbours};

/// By point, the distance to its (`min_points` − 1)-th nearest other point: the radius of the least
/// ball about the point that contains `min_points` points.
///
/// # Errors
/// `Error::Input` if there are fewer than `min_points` points; otherwise the errors of the search.
pub fn core_distances(
    n: usize,
    min_points: usize,
    neighbours: &mut dyn Neighbours,
    monitor: &Monitor,
) -> Result<Vec<f64>> {
    const NEEDS: &str = "the core distances need";
    if min_points < 2 || min_points > n {
        return Err(Error::Input(format!(
            "`min_points` is {min_points}; for {n} observations, it must be from 2 to {n}"
        )));
    }
    let queries: Vec<u32> = memory::collected(NEEDS, 0..n as u32)?;
    let mut cores = memory::room(NEEDS, n)?;
    let request = NeighbourRequest {
        queries: &queries,
        wanted: min_points - 1,
        limits: None,
        exclusion: Exclusion::Itself,
    };
    neighbours.nearest_in_blocks(&request, &mut |lists| {
        let farthest = lists.iter().map(|list| list[min_points - 2].0);
        cores.extend(farthest);
        monitor.advance(lists.len() as u64);
        Ok(())
    })?;
    Ok(cores)
}

/// The order of the edges at a point: by weight, by distance, and by the other end.
pub type Key = (f64, f64, u32);

/// The weights of edges.
#[derive(Debug, Clone, Copy)]
pub enum Weights<'a> {
    /// The distance of the ends.
    Distance,
    /// The mutual reachability distance: the largest of the distance and the core distances of both
    /// ends.
    MutualReachability(&'a [f64]),
}

impl Weights<'_> {
    /// The edge between two points of this distance.
    pub fn edge(&self, distance: f64, a: u32, b: u32) -> Edge {
        let weight = self.least(distance, a).max(self.least(distance, b));
        Edge::weighted(weight, distance, a, b)
    }

    /// The order of the edge from a point to another one at this distance.
    pub fn key(&self, point: u32, (distance, other): (f64, u32)) -> Key {
        (self.edge(distance, point, other).weight, distance, other)
    }

    /// The least weight of an edge of this distance at a point.
    pub fn least(&self, distance: f64, point: u32) -> f64 {
        match self {
            Self::Distance => distance,
            Self::MutualReachability(cores) => distance.max(cores[point as usize]),
        }
    }
}
