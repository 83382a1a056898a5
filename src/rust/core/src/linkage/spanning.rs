//! The minimum spanning tree of points, and single linkage by it, without a matrix of distances.
//!
//! Borůvka's algorithm: in every round each component takes the least edge that leads out of it,
//! and all of these are edges of the tree. Edges are ordered by weight and then by their ends, so
//! that no two are equal and the tree is the only one.
//!
//! Of each point a few nearest points of other components are remembered, with a floor under all
//! others. As components only grow, both stay good: what is left of the list is still the nearest,
//! and a point is searched again only when its list is used up and its floor is below the least
//! edge that its component knows of. The largest component never searches, for the others find the
//! way to it.
//!
//! Equal points are searched as one. Where they are nearer to each other than to all other points,
//! their edges come first in the order, and of these the tree has those from the first of them to
//! each other one. An edge between different points is one between the first of those equal to
//! either: it comes before all others of its weight between the same two points.

use std::cmp::Ordering;

use crate::dendrogram::{Dendrogram, TreeBuilder};
use crate::distinct::Distinct;
use crate::error::Result;
use crate::memory;
use crate::metric::Points;
use crate::monitor::Monitor;
use crate::neighbours::{Except, NeighbourDevice, NeighbourRequest, Neighbours, Space};

/// What needs memory here.
const COMPONENTS: &str = "the components of a spanning tree need";

/// How many points of other components a search looks for.
const WANTED: usize = 8;

/// An edge between two points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Edge {
    pub weight: f64,
    /// The end with the lower index.
    pub lower: u32,
    pub higher: u32,
}

impl Edge {
    fn new(weight: f64, a: u32, b: u32) -> Self {
        Self {
            weight,
            lower: a.min(b),
            higher: a.max(b),
        }
    }

    /// By weight, then by the lower end, then by the higher one. Weights are numbers.
    fn order(&self, other: &Self) -> Ordering {
        let ends = |edge: &Self| (edge.lower, edge.higher);
        let by_weight = self.weight.total_cmp(&other.weight);
        by_weight.then_with(|| ends(self).cmp(&ends(other)))
    }
}

/// The minimum spanning tree of `points`, its n − 1 edges in increasing order; among edges of the
/// same weight that one counts as less that has the lower lower end, and then the lower higher end.
///
/// Takes O(n²p) time for the first search, a few times as much in the worst case, and O(np) memory.
///
/// # Errors
/// `Error::Input` where a distance is not a number (see [`Space::check`]); what the backend
/// returns otherwise.
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
        if let Some(edges) = with_equal(points, &distinct, edges) {
            return Ok(edges);
        }
    }
    drop(distinct);
    tree_of_all(points, device, monitor)
}

/// The tree of `points`, given the edges between distinct ones by their numbers; `None` where equal
/// points are not nearer to each other than to all others.
fn with_equal(points: &Points, distinct: &Distinct, mut edges: Vec<Edge>) -> Option<Vec<Edge>> {
    // By number: the least weight of an edge to another point, all of which are in the tree.
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
        // Not so where the weight is NaN, either.
        if weight.partial_cmp(&nearest) != Some(Ordering::Less) {
            return None;
        }
        edges.extend(others.iter().map(|&other| Edge::new(weight, *first, other)));
    }
    edges.sort_unstable_by(Edge::order);
    Some(edges)
}

/// As [`tree`], of points whose distances are numbers, and searching for each.
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
        // Without a pair there is no frame to search in.
        return Ok(Vec::new());
    }
    space.check()?;
    memory::check_working("the spanning tree", n, 400 + 4 * points.columns())?;
    // The first search, and the edges.
    monitor.expect(2 * n as u64 - 1);
    let mut edges = device.cpu().install(|| {
        let mut neighbours = device.references(space, monitor)?;
        let mut forest = Forest::new(n, &mut *neighbours, monitor)?;
        while forest.edges.len() < n - 1 {
            monitor.check()?;
            let before = forest.edges.len();
            forest.round()?;
            monitor.advance((forest.edges.len() - before) as u64);
        }
        Ok(forest.edges)
    })?;
    edges.sort_unstable_by(Edge::order);
    Ok(edges)
}

/// Single linkage of `points`: the merges are the edges of their minimum spanning tree, in its
/// order, at the edges' weights. These are the heights of R's `hclust(dist(x), "single")`, bit for
/// bit, and where no two are equal so is the tree. Costs and errors as [`tree`].
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
    tree.finish()
}

/// What is known of the nearest points of other components.
#[derive(Debug, Clone)]
struct Known {
    /// Farthest first.
    found: Vec<(f64, u32)>,
    /// All other points of other components come after this one in order of distance and index.
    floor: (f64, u32),
}

/// The components so far.
struct Forest<'a> {
    neighbours: &'a mut dyn Neighbours,
    monitor: &'a Monitor,
    sets: DisjointSets,
    /// By point, the root of its set: its component.
    components: Vec<u32>,
    known: Vec<Known>,
    /// By component, the least edge out of it that is known.
    least: Vec<Option<Edge>>,
    edges: Vec<Edge>,
}

impl<'a> Forest<'a> {
    fn new(n: usize, neighbours: &'a mut dyn Neighbours, monitor: &'a Monitor) -> Result<Self> {
        let nothing = Known {
            found: Vec::new(),
            floor: (0.0, 0),
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

    /// Finds the least edge out of every component but the largest, and unites what they join.
    fn round(&mut self) -> Result<()> {
        let n = self.components.len() as u32;
        self.least = memory::filled(COMPONENTS, n as usize, None)?;
        for point in 0..n {
            self.look_at(point);
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

    /// Drops what a point knows of its own component, and tells the components of the least edge
    /// that it still knows of.
    fn look_at(&mut self, point: u32) {
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

    /// The greatest weight of an edge out of a point's component that can still be the least.
    fn limit(&self, point: u32) -> f64 {
        let least = self.least[self.components[point as usize] as usize];
        least.map_or(f64::INFINITY, |edge| edge.weight)
    }

    /// Whether a point may have an edge out of its component that is less than all known ones, but
    /// that it does not know of.
    fn is_open(&self, point: u32) -> bool {
        let Known { found, floor } = &self.known[point as usize];
        found.is_empty() && *floor < (self.limit(point), u32::MAX)
    }

    /// Searches until no component but `largest` can have a lesser edge than those known.
    fn search(&mut self, largest: u32) -> Result<()> {
        let is_asked =
            |point: &u32| self.components[*point as usize] != largest && self.is_open(*point);
        let mut open: Vec<u32> = (0..self.components.len() as u32).filter(is_asked).collect();
        // What is found for points with low floors may spare others the search.
        open.sort_unstable_by(|&a, &b| {
            let floor = |point: u32| self.known[point as usize].floor.0;
            floor(a).total_cmp(&floor(b))
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
                known.floor = match found.last() {
                    Some(&last) if found.len() == WANTED => last,
                    _ => (limit, u32::MAX),
                };
                self.look_at(point);
            }
            if first {
                self.monitor.advance(queries.len() as u64);
            }
        }
        Ok(())
    }
}

/// Sets of points that can be united.
struct DisjointSets {
    /// By point: another one of the same set, nearer to the root; the root names itself.
    parents: Vec<u32>,
    /// By root.
    sizes: Vec<u32>,
}

impl DisjointSets {
    /// A set for each of `n` points.
    fn new(n: usize) -> Result<Self> {
        Ok(Self {
            parents: memory::collected(COMPONENTS, 0..n as u32)?,
            sizes: memory::filled(COMPONENTS, n, 1)?,
        })
    }

    fn root(&mut self, mut point: u32) -> u32 {
        while self.parents[point as usize] != point {
            let parent = self.parents[point as usize];
            self.parents[point as usize] = self.parents[parent as usize];
            point = parent;
        }
        point
    }

    /// Unites the sets of two different roots; the root of the result.
    fn unite(&mut self, a: u32, b: u32) -> u32 {
        let (small, large) = if self.sizes[a as usize] < self.sizes[b as usize] {
            (a, b)
        } else {
            (b, a)
        };
        self.parents[small as usize] = large;
        self.sizes[large as usize] += self.sizes[small as usize];
        large
    }

    /// The root of the largest set.
    fn largest(&self) -> u32 {
        let roots = (0..self.parents.len() as u32).filter(|&p| self.parents[p as usize] == p);
        roots
            .max_by_key(|&root| self.sizes[root as usize])
            .expect("there are points")
    }
}
