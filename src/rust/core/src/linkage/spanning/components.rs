//! The connected components of Borůvka's algorithm, and the search for edges between them.

use super::disjoint_sets::DisjointSets;
use crate::error::Result;
use crate::linkage::edge::Edge;
use crate::memory;
use crate::monitor::Monitor;
use crate::neighbours::{Except, NeighbourRequest, Neighbours};

/// The start of memory errors: what needs the memory.
const COMPONENTS: &str = "the components of a spanning tree need";

/// Number of points of other components that a search finds. A larger number makes searches slower
/// and rarer. Only the time depends on it.
const WANTED: usize = 8;

/// The nearest points of other components to a point.
#[derive(Debug, Clone)]
struct NearestOutside {
    /// The points found, farthest first.
    found: Vec<(f64, u32)>,
    /// A lower bound on all further points of other components, as a distance and an index.
    lower_bound: (f64, u32),
}

/// The components of the forest so far.
pub struct ConnectedComponents<'a> {
    neighbours: &'a mut dyn Neighbours,
    monitor: &'a Monitor,
    sets: DisjointSets,
    /// By point: the root of its set, which names the component.
    components: Vec<u32>,
    known: Vec<NearestOutside>,
    /// By component: the least known edge out of it.
    least: Vec<Option<Edge>>,
    edges: Vec<Edge>,
}

impl<'a> ConnectedComponents<'a> {
    /// One component for each of `n` points.
    pub fn new(n: usize, neighbours: &'a mut dyn Neighbours, monitor: &'a Monitor) -> Result<Self> {
        let nothing = NearestOutside {
            found: Vec::new(),
            lower_bound: (0.0, 0),
        };
        Ok(Self {
            neighbours,
            monitor,
            sets: DisjointSets::new(n)?,
            components: memory::collected(COMPONENTS, 0..n as u32)?,
            known: memory::filled(COMPONENTS, n, nothing)?,
            least: Vec::new(),
            edges: memory::room(COMPONENTS, n - 1)?,
        })
    }

    /// The edges so far.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The edges, once there is one component.
    pub fn into_edges(self) -> Vec<Edge> {
        self.edges
    }

    /// One round: finds the least edge out of every component but the largest, and unites the
    /// components that they join.
    pub fn join_all(&mut self) -> Result<()> {
        let n = self.components.len() as u32;
        self.least = memory::filled(COMPONENTS, n as usize, None)?;
        for point in 0..n {
            self.update_least(point);
        }
        let largest = self.sets.largest();
        self.search(largest)?;
        let mut settled = std::mem::take(&mut self.least);
        settled[largest as usize] = None;
        for edge in settled.into_iter().flatten() {
            let [a, b] = [edge.lower, edge.higher].map(|end| self.sets.root(end));
            // Two components may have chosen the same edge.
            if a != b {
                self.sets.unite(a, b);
                self.edges.push(edge);
            }
        }
        for point in 0..n {
            self.components[point as usize] = self.sets.root(point);
        }
        Ok(())
    }

    /// Removes points of the point's own component from its list, and updates the least edges of
    /// both components by the first remaining edge.
    fn update_least(&mut self, point: u32) {
        let own = self.components[point as usize];
        let found = &mut self.known[point as usize].found;
        while let Some(&(weight, other)) = found.last() {
            let its = self.components[other as usize];
            if its == own {
                found.pop();
                continue;
            }
            let edge = Edge::new(weight, point, other);
            for component in [own, its] {
                let least = &mut self.least[component as usize];
                if least.is_none_or(|least| edge.order(&least).is_lt()) {
                    *least = Some(edge);
                }
            }
            break;
        }
    }

    /// The greatest weight that an edge out of a point's component can have to be its least edge.
    fn limit(&self, point: u32) -> f64 {
        let least = self.least[self.components[point as usize] as usize];
        least.map_or(f64::INFINITY, |edge| edge.weight)
    }

    /// Whether a point may have an unknown edge out of its component that is less than all known
    /// edges.
    fn is_open(&self, point: u32) -> bool {
        let NearestOutside { found, lower_bound } = &self.known[point as usize];
        found.is_empty() && *lower_bound < (self.limit(point), u32::MAX)
    }

    /// Searches until no component except `largest` can have an unknown edge that is less than its
    /// known ones.
    fn search(&mut self, largest: u32) -> Result<()> {
        let needs_search =
            |point: &u32| self.components[*point as usize] != largest && self.is_open(*point);
        let mut open: Vec<u32> = (0..self.components.len() as u32)
            .filter(needs_search)
            .collect();
        // The edges of points with low bounds may make other searches unnecessary.
        open.sort_unstable_by(|&a, &b| {
            let lower_bound = |point: u32| self.known[point as usize].lower_bound.0;
            lower_bound(a).total_cmp(&lower_bound(b))
        });
        let first = self.edges.is_empty();
        let at_a_time = self.neighbours.batch().min(open.len().div_ceil(8).max(256));
        let mut rest = &open[..];
        while !rest.is_empty() {
            let mut queries = Vec::with_capacity(at_a_time);
            while let (true, Some((&point, others))) =
                (queries.len() < at_a_time, rest.split_first())
            {
                rest = others;
                if self.is_open(point) {
                    queries.push(point);
                }
            }
            let limits: Vec<f64> = queries.iter().map(|&point| self.limit(point)).collect();
            let nearest = self.neighbours.nearest(&NeighbourRequest {
                queries: &queries,
                wanted: WANTED,
                limits: Some(&limits),
                except: Except::Group(&self.components),
            })?;
            for ((&point, limit), found) in queries.iter().zip(limits).zip(nearest.iter()) {
                let known = &mut self.known[point as usize];
                known.found = found.iter().rev().copied().collect();
                known.lower_bound = match found.last() {
                    Some(&last) if found.len() == WANTED => last,
                    _ => (limit, u32::MAX),
                };
                self.update_least(point);
            }
            if first {
                self.monitor.advance(queries.len() as u64);
            }
        }
        Ok(())
    }
}
