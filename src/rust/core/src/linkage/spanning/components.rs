//! The connected components of Borůvka's algorithm, and the search for edges between them.

use std::sync::atomic::{AtomicU32, Ordering};

use rayon::prelude::*;

use super::core_distances::{Key, Weights};
use super::labelled_sets::LabelledSets;
use crate::error::Result;
use crate::linkage::edge::Edge;
use crate::memory;
use crate::monitor::Monitor;
use crate::neighbours::{Exclusion, NeighbourLists, NeighbourRequest, Neighbours, MOST_LISTED};
use crate::order_key::order_key;
use crate::tasks::on_slots;

/// First words of a memory error, before the number of bytes.
const COMPONENTS: &str = "the components of a spanning tree need";

/// Number of points of other components that the first search of a point asks for, and the most
/// that a point keeps. A repeated search asks for twice as many as the one before. A larger number
/// makes searches slower and rarer. Only the time depends on it.
const WANTED: usize = 8;

/// Number of points per task of a thread. Only the time depends on it.
const POINTS_PER_TASK: usize = 1 << 10;

/// Number of known lists that are taken together. Only memory depends on it.
const TAKEN_AT_A_TIME: usize = 1 << 16;

/// Number of parts in which the points are searched after the first search. The edges that one part
/// finds make searches of the next parts unnecessary. Only the time depends on it.
const PARTS: usize = 8;

/// No point.
const NONE: u32 = u32::MAX;

/// The points of other components with the least edges to a point.
#[derive(Debug, Clone, Copy)]
struct NearestOutside {
    /// The points found, and their distances; the least edge is the last of `count`.
    points: [u32; WANTED],
    distances: [f64; WANTED],
    count: u32,
    /// Number of points that the next search finds.
    wanted: u32,
    /// A lower bound on the edges to all further points of other components. The search for the
    /// nearest points may find points with greater edges, too.
    lower_bound: Key,
}

impl NearestOutside {
    /// Before any search.
    const UNSEARCHED: Self = Self {
        points: [0; WANTED],
        distances: [0.0; WANTED],
        count: 0,
        wanted: WANTED as u32,
        lower_bound: (0.0, 0.0, 0),
    };

    /// The distance and the point of the least edge.
    fn least(&self) -> Option<(f64, u32)> {
        let last = (self.count as usize).checked_sub(1)?;
        Some((self.distances[last], self.points[last]))
    }

    /// Removes the least edges, as long as they lead to points of the point's own component.
    fn drop_own_component(&mut self, own: u32, components: &[u32]) {
        while let Some((_, other)) = self.least() {
            if components[other as usize] != own {
                break;
            }
            self.count -= 1;
        }
    }
}

/// The components of the forest so far.
pub struct ConnectedComponents<'a> {
    neighbours: &'a mut dyn Neighbours,
    weights: Weights<'a>,
    monitor: &'a Monitor,
    /// The sets of points that are joined. Their roots name the components.
    sets: LabelledSets,
    known: Vec<NearestOutside>,
    /// By component: the least known edge out of it, in this round.
    least: Vec<Option<Edge>>,
    /// By component, while `least` is updated: the point whose edge is the least so far. At other
    /// times NONE.
    best: Vec<AtomicU32>,
    edges: Vec<Edge>,
    /// Whether no point was searched yet. Only the first search of each point counts as progress,
    /// and only if no lists of neighbours were known before.
    is_first: bool,
}

impl<'a> ConnectedComponents<'a> {
    /// One component for each of `n` points.
    pub fn new(
        n: usize,
        neighbours: &'a mut dyn Neighbours,
        weights: Weights<'a>,
        monitor: &'a Monitor,
    ) -> Result<Self> {
        let mut best = memory::room(COMPONENTS, n)?;
        best.resize_with(n, || AtomicU32::new(NONE));
        Ok(Self {
            neighbours,
            weights,
            monitor,
            best,
            sets: LabelledSets::new(n)?,
            known: memory::filled(COMPONENTS, n, NearestOutside::UNSEARCHED)?,
            least: memory::filled(COMPONENTS, n, None)?,
            edges: memory::room(COMPONENTS, n - 1)?,
            is_first: true,
        })
    }

    /// Takes known lists of the nearest other points of each point, before the first round. All
    /// lists have the same length, at least 1.
    pub fn start_from_neighbours(&mut self, nearest: &NeighbourLists) -> Result<()> {
        let points: Vec<u32> = (0..self.known.len() as u32).collect();
        let wanted = nearest.of(0).len();
        for some in points.chunks(TAKEN_AT_A_TIME) {
            let limits = vec![f64::INFINITY; some.len()];
            self.take(some, &limits, wanted, |at| nearest.of(some[at] as usize))?;
        }
        self.is_first = false;
        Ok(())
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
    /// components that they join. Works on the threads of the calling pool.
    pub fn join_all(&mut self) -> Result<()> {
        let components = self.sets.roots();
        let tasks = self.known.par_chunks_mut(POINTS_PER_TASK);
        tasks.enumerate().for_each(|(task, known)| {
            let own = &components[task * POINTS_PER_TASK..];
            let known = known.iter_mut().zip(own);
            known.for_each(|(known, &own)| known.drop_own_component(own, components));
        });
        self.least.par_iter_mut().for_each(|least| *least = None);
        self.update_least((0..self.known.len() as u32).into_par_iter());
        let largest = self.sets.largest();
        self.search(largest)?;
        self.least[largest as usize] = None;
        // Each component but the largest knows the least edge out of it, and edges are in a total
        // order. So components that choose each other in a cycle have chosen one edge: they are
        // two.
        let Self {
            least, sets, edges, ..
        } = self;
        let united = sets.unite_all(|component, roots| {
            let edge = least[component as usize]?;
            let ends = [edge.lower, edge.higher].map(|end| roots[end as usize]);
            Some(if ends[0] == component {
                ends[1]
            } else {
                ends[0]
            })
        });
        edges.extend(
            united
                .iter()
                .filter_map(|&component| least[component as usize]),
        );
        Ok(())
    }

    /// The least known edge of a point to another component, and both components.
    fn least_edge(&self, point: u32) -> Option<(Edge, [u32; 2])> {
        let (distance, other) = self.known[point as usize].least()?;
        let ends = [point, other].map(|end| self.component(end));
        Some((self.weights.edge(distance, point, other), ends))
    }

    fn component(&self, point: u32) -> u32 {
        self.sets.roots()[point as usize]
    }

    /// Updates the least edges of components by the least edges of some points, at both ends. Works
    /// on the threads of the calling pool.
    fn update_least(&mut self, points: impl IndexedParallelIterator<Item = u32> + Clone) {
        let this = &*self;
        let points = points.with_min_len(POINTS_PER_TASK);
        points.clone().for_each(|point| {
            let Some((edge, components)) = this.least_edge(point) else {
                return;
            };
            let is_less = |other: u32| match this.least_edge(other) {
                Some((other, _)) => edge.order(&other).is_lt(),
                None => true,
            };
            for component in components {
                let best = &this.best[component as usize];
                let mut before = best.load(Ordering::Relaxed);
                while before == NONE || is_less(before) {
                    let order = Ordering::Relaxed;
                    match best.compare_exchange_weak(before, point, order, order) {
                        Ok(_) => break,
                        Err(now) => before = now,
                    }
                }
            }
        });
        // Of the points with an edge to a component, one takes the component's best point.
        let least: Vec<(u32, Edge)> = points
            .flat_map_iter(|point| {
                let edge = this.least_edge(point);
                let components = edge.into_iter().flat_map(|(_, components)| components);
                components.filter_map(|component| {
                    let best = this.best[component as usize].swap(NONE, Ordering::Relaxed);
                    let edge = if best == NONE {
                        None
                    } else {
                        this.least_edge(best)
                    };
                    edge.map(|(edge, _)| (component, edge))
                })
            })
            .collect();
        for (component, edge) in least {
            let least = &mut self.least[component as usize];
            if least.is_none_or(|least| edge.order(&least).is_lt()) {
                *least = Some(edge);
            }
        }
    }

    /// The greatest key that an edge out of a point's component can have to be its least edge.
    fn limit(&self, point: u32) -> Key {
        let least = self.least[self.component(point) as usize];
        let (weight, distance) = least.map_or((f64::INFINITY, f64::INFINITY), |edge| {
            (edge.weight, edge.distance)
        });
        (weight, distance, u32::MAX)
    }

    /// Whether a point may have an unknown edge out of its component that is less than all known
    /// edges.
    fn is_open(&self, point: u32) -> bool {
        let known = &self.known[point as usize];
        if let Some(least) = known.least() {
            if self.weights.key(point, least) <= known.lower_bound {
                return false;
            }
        }
        known.lower_bound < self.limit(point)
    }

    /// Searches until no component except `largest` can have an unknown edge that is less than its
    /// known edges.
    fn search(&mut self, largest: u32) -> Result<()> {
        loop {
            // The edges of points with low bounds may make other searches unnecessary.
            let mut open: Vec<(u32, u64, u32)> = (0..self.known.len() as u32)
                .into_par_iter()
                .with_min_len(POINTS_PER_TASK)
                .filter(|&point| self.component(point) != largest && self.is_open(point))
                .map(|point| {
                    let known = &self.known[point as usize];
                    (known.wanted, order_key(known.lower_bound.0 + 0.0), point)
                })
                .collect();
            if open.is_empty() {
                return Ok(());
            }
            open.par_sort_unstable();
            for alike in open.chunk_by(|a, b| a.0 == b.0) {
                let points: Vec<u32> = alike.iter().map(|&(_, _, point)| point).collect();
                self.search_for(&points, alike[0].0 as usize)?;
            }
            self.is_first = false;
        }
    }

    /// Searches for the `wanted` nearest points of other components, for each of `points` that is
    /// still open when its part begins.
    fn search_for(&mut self, points: &[u32], wanted: usize) -> Result<()> {
        // In the first searches, no point has a known edge that could make its search unnecessary.
        let parts = if self.is_first { 1 } else { PARTS };
        let (least, most) = (self.neighbours.least_batch(), self.neighbours.batch());
        let at_a_time = points.len().div_ceil(parts).max(least).min(most);
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
            if queries.is_empty() {
                break;
            }
            let limits: Vec<f64> = queries.iter().map(|&point| self.limit(point).0).collect();
            let request = NeighbourRequest {
                queries: &queries,
                wanted,
                limits: Some(&limits),
                exclusion: Exclusion::Group(self.sets.roots()),
            };
            let (monitor, counts) = (self.monitor, self.is_first);
            let mut nearest = NeighbourLists::default();
            self.neighbours.nearest_in_blocks(&request, &mut |some| {
                nearest.append(some);
                if counts {
                    monitor.advance(some.len() as u64);
                }
                Ok(())
            })?;
            self.take(&queries, &limits, wanted, |at| nearest.of(at))?;
            self.update_least(queries.par_iter().copied());
        }
        Ok(())
    }

    /// Takes what a search for the `wanted` nearest points of other components within `limits` has
    /// found; `found` has the list of a point, given its index among `points`.
    fn take<'n>(
        &mut self,
        points: &[u32],
        limits: &[f64],
        wanted: usize,
        found: impl Fn(usize) -> &'n [(f64, u32)] + Sync,
    ) -> Result<()> {
        let mut order = memory::collected(COMPONENTS, 0..points.len() as u32)?;
        order.par_sort_unstable_by_key(|&at| points[at as usize]);
        let weights = self.weights;
        on_slots(
            &mut self.known,
            1,
            &order,
            |&at| points[at as usize],
            |&at, known| {
                let at = at as usize;
                known[0] = nearest_outside(weights, points[at], wanted, limits[at], found(at));
            },
        );
        Ok(())
    }
}

/// The state of a point after a search for the `wanted` nearest points of other components
/// within `limit`. If `found` has fewer points, it has all points within the limit.
fn nearest_outside(
    weights: Weights,
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
    let mut lower_bound = (weights.least(distance, point), distance, other);
    let sorted: Vec<(f64, u32)>;
    let found = match weights {
        Weights::Distance => found,
        Weights::MutualReachability(_) => {
            sorted = sorted_by_key(weights, point, found);
            &sorted
        }
    };
    let is_settled = is_complete || weights.key(point, found[0]) <= lower_bound;
    if let Some(&dropped) = found.get(WANTED) {
        let dropped = weights.key(point, dropped);
        if dropped < lower_bound {
            lower_bound = dropped;
        }
    }
    let kept = &found[..found.len().min(WANTED)];
    let mut nearest = NearestOutside {
        count: kept.len() as u32,
        wanted: if is_settled {
            WANTED as u32
        } else {
            2 * wanted as u32
        },
        lower_bound,
        ..NearestOutside::UNSEARCHED
    };
    let places = nearest.points.iter_mut().zip(&mut nearest.distances);
    for ((other, distance), &kept) in places.zip(kept.iter().rev()) {
        (*distance, *other) = kept;
    }
    nearest
}

/// Points found near a point, by the order of their edges.
fn sorted_by_key(weights: Weights, point: u32, found: &[(f64, u32)]) -> Vec<(f64, u32)> {
    let mut sorted = found.to_vec();
    sorted.sort_by(|&a, &b| {
        let [a, b] = [a, b].map(|one| weights.key(point, one));
        a.partial_cmp(&b).expect("distances are numbers")
    });
    sorted
}
