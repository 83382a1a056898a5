//! The connected components of Borůvka's algorithm, and the search for edges between them.

use super::core_distances::Weights;
use super::disjoint_sets::DisjointSets;
use crate::error::Result;
use crate::linkage::edge::Edge;
use crate::memory;
use crate::monitor::Monitor;
use crate::neighbours::{Exclusion, NeighbourLists, NeighbourRequest, Neighbours, MOST_LISTED};

/// The start of memory errors: what needs the memory.
const COMPONENTS: &str = "the components of a spanning tree need";

/// Number of points of other components that a search finds. A larger number makes searches slower
/// and rarer. Only the time depends on it.
const WANTED: usize = 8;

/// The order of the edges at a point: by weight, by distance, and by the other end.
type Key = (f64, f64, u32);

/// The points of other components with the least edges to a point.
#[derive(Debug, Clone)]
struct NearestOutside {
    /// The points found, with their distances; the least edge is the last.
    found: Vec<(f64, u32)>,
    /// A lower bound on the edges to all further points of other components. The search for the
    /// nearest points may find points with greater edges, too.
    lower_bound: Key,
    /// Number of points that the next search finds.
    wanted: u32,
}

/// The components of the forest so far.
pub struct ConnectedComponents<'a> {
    neighbours: &'a mut dyn Neighbours,
    weights: Weights<'a>,
    monitor: &'a Monitor,
    sets: DisjointSets,
    /// By point: the root of its set, which names the component.
    components: Vec<u32>,
    known: Vec<NearestOutside>,
    /// By component: the least known edge out of it.
    least: Vec<Option<Edge>>,
    edges: Vec<Edge>,
    /// Whether searches count as progress: only the first search of each point does, and only if no
    /// lists of neighbours were known before.
    counts: bool,
}

impl<'a> ConnectedComponents<'a> {
    /// One component for each of `n` points.
    pub fn new(
        n: usize,
        neighbours: &'a mut dyn Neighbours,
        weights: Weights<'a>,
        monitor: &'a Monitor,
    ) -> Result<Self> {
        let nothing = NearestOutside {
            found: Vec::new(),
            lower_bound: (0.0, 0.0, 0),
            wanted: WANTED as u32,
        };
        Ok(Self {
            neighbours,
            weights,
            monitor,
            sets: DisjointSets::new(n)?,
            components: memory::collected(COMPONENTS, 0..n as u32)?,
            known: memory::filled(COMPONENTS, n, nothing)?,
            least: Vec::new(),
            edges: memory::room(COMPONENTS, n - 1)?,
            counts: true,
        })
    }

    /// Takes known lists of the nearest other points of each point, before the first round. No list
    /// may be empty.
    pub fn know(&mut self, nearest: &NeighbourLists) {
        for (point, found) in (0..).zip(nearest.iter()) {
            let known = self.nearest_outside(point, found.len(), f64::INFINITY, found);
            self.known[point as usize] = known;
        }
        self.counts = false;
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
        while let Some(&(distance, other)) = found.last() {
            let its = self.components[other as usize];
            if its == own {
                found.pop();
                continue;
            }
            let edge = self.weights.edge(distance, point, other);
            for component in [own, its] {
                let least = &mut self.least[component as usize];
                if least.is_none_or(|least| edge.order(&least).is_lt()) {
                    *least = Some(edge);
                }
            }
            break;
        }
    }

    /// The order of an edge at a point.
    fn key(&self, point: u32, (distance, other): (f64, u32)) -> Key {
        let weight = self.weights.edge(distance, point, other).weight;
        (weight, distance, other)
    }

    /// The greatest key that an edge out of a point's component can have to be its least edge.
    fn limit(&self, point: u32) -> Key {
        let least = self.least[self.components[point as usize] as usize];
        let (weight, distance) = least.map_or((f64::INFINITY, f64::INFINITY), |edge| {
            (edge.weight, edge.distance)
        });
        (weight, distance, u32::MAX)
    }

    /// Whether a point may have an unknown edge out of its component that is less than all known
    /// edges.
    fn is_open(&self, point: u32) -> bool {
        let known = &self.known[point as usize];
        if let Some(&least) = known.found.last() {
            if self.key(point, least) <= known.lower_bound {
                return false;
            }
        }
        known.lower_bound < self.limit(point)
    }

    /// Searches until no component except `largest` can have an unknown edge that is less than its
    /// known edges.
    fn search(&mut self, largest: u32) -> Result<()> {
        loop {
            let needs_search =
                |point: &u32| self.components[*point as usize] != largest && self.is_open(*point);
            let mut open: Vec<u32> = (0..self.components.len() as u32)
                .filter(needs_search)
                .collect();
            if open.is_empty() {
                return Ok(());
            }
            let wanted = |point: u32| self.known[point as usize].wanted;
            // The edges of points with low bounds may make other searches unnecessary.
            open.sort_unstable_by(|&a, &b| {
                let lower_bound = |point: u32| self.known[point as usize].lower_bound.0;
                let by_bound = || lower_bound(a).total_cmp(&lower_bound(b));
                wanted(a).cmp(&wanted(b)).then_with(by_bound)
            });
            let wanted: Vec<u32> = open.iter().map(|&point| wanted(point)).collect();
            let mut rest = &open[..];
            for alike in wanted.chunk_by(|a, b| a == b) {
                let (points, others) = rest.split_at(alike.len());
                rest = others;
                self.search_for(points, alike[0] as usize)?;
            }
            self.counts = false;
        }
    }

    /// Searches for the `wanted` nearest points of other components, for each of `points` that is
    /// still open when its batch begins.
    fn search_for(&mut self, points: &[u32], wanted: usize) -> Result<()> {
        let at_a_time = self
            .neighbours
            .batch()
            .min(points.len().div_ceil(8).max(256));
        let at_a_time = at_a_time.min(MOST_LISTED / wanted).max(1);
        let mut rest = points;
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
            let limits: Vec<f64> = queries.iter().map(|&point| self.limit(point).0).collect();
            let nearest = self.neighbours.nearest(&NeighbourRequest {
                queries: &queries,
                wanted,
                limits: Some(&limits),
                exclusion: Exclusion::Group(&self.components),
            })?;
            for ((&point, limit), found) in queries.iter().zip(limits).zip(nearest.iter()) {
                self.known[point as usize] = self.nearest_outside(point, wanted, limit, found);
                self.update_least(point);
            }
            if self.counts {
                self.monitor.advance(queries.len() as u64);
            }
        }
        Ok(())
    }

    /// The state of a point after a search for the `wanted` nearest points of other components
    /// within `limit`. If `found` has fewer points, it has all points within the limit.
    fn nearest_outside(
        &self,
        point: u32,
        wanted: usize,
        limit: f64,
        found: &[(f64, u32)],
    ) -> NearestOutside {
        let is_complete = found.len() < wanted;
        let (distance, other) = match found.last() {
            Some(&last) if !is_complete => last,
            _ => (limit, u32::MAX),
        };
        let mut lower_bound = (self.weights.least(distance, point), distance, other);
        let mut found = found.to_vec();
        if let Weights::MutualReachability(_) = self.weights {
            found.sort_by(|&a, &b| {
                let [a, b] = [a, b].map(|one| self.key(point, one));
                a.partial_cmp(&b).expect("distances are numbers")
            });
        }
        let is_settled = is_complete || self.key(point, found[0]) <= lower_bound;
        if let Some(&dropped) = found.get(WANTED) {
            let dropped = self.key(point, dropped);
            if dropped < lower_bound {
                lower_bound = dropped;
            }
            found.truncate(WANTED);
            found.shrink_to_fit();
        }
        found.reverse();
        NearestOutside {
            found,
            lower_bound,
            wanted: if is_settled {
                WANTED as u32
            } else {
                2 * wanted as u32
            },
        }
    }
}
