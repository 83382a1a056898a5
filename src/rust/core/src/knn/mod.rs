//! The exact graph of the k nearest neighbours.

#[cfg(any(test, feature = "testing"))]
pub mod checks;
pub mod folder;
#[cfg(test)]
mod tests;

use std::ops::Range;

use rayon::iter::repeat_n;
use rayon::prelude::*;

use crate::cpu::Cpu;
use crate::distinct::Distinct;
use crate::error::{Error, Result};
use crate::matrix::column_major_on_threads;
use crate::memory;
use crate::metric::Points;
use crate::monitor::Monitor;
use crate::neighbours::{Except, Nearest, NeighbourDevice, Request, Space};

/// What needs memory here.
const NEIGHBOURS: &str = "the neighbours need";

/// Stands, at an infinite distance, for a neighbour that has not been seen yet. It comes after all
/// others.
pub const NOBODY: u32 = u32::MAX;

/// The `k` nearest references of each query, nearest first, ties by index.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    pub k: usize,
    /// Query after query, the references' numbers from 0.
    pub index: Vec<u32>,
    /// Query after query.
    pub distance: Vec<f64>,
}

/// Some of all references, and queries to them.
#[derive(Debug, Clone)]
pub struct Block<'a> {
    pub points: &'a Points,
    /// How many of the points, the first ones, are references.
    pub references: usize,
    /// The number of the first one among all references; the others follow it.
    pub first: u32,
    /// Which points are queries: some of the references, or what comes after them.
    pub queries: Range<usize>,
    /// Where queries are among all references, though not necessarily in this block, the number of
    /// the first query; the others follow it, and none is a neighbour of its own.
    pub own: Option<u32>,
}

/// The `k` nearest among the first `references` points: of each of the others, or, where there are
/// no others, of each of the references among the rest of them.
///
/// Takes O(m·n·p) time for m queries and n references in p dimensions, and O((m + n)·p + m·k)
/// memory.
///
/// # Errors
/// `Error::Input` where `k` is 0 or more than a query has neighbours, or where a distance is not a
/// number (see [`Space::check`]); what the device returns otherwise.
pub fn nearest(
    points: &Points,
    references: usize,
    k: usize,
    device: &(impl NeighbourDevice + ?Sized),
    monitor: &Monitor,
) -> Result<Graph> {
    let mut search = Search::new(points, references, k, device.cpu())?;
    search.run(device, monitor)?;
    Ok(search.into_graph())
}

/// A search for nearest neighbours that can be run again after a device failed: queries that are
/// done are not searched again.
#[derive(Debug)]
pub struct Search<'a> {
    block: Block<'a>,
    graph: Graph,
    done: Done,
}

/// How far a graph has been updated with a block.
#[derive(Debug, Clone, Copy, Default)]
pub struct Done {
    /// Number of queries of the block, in the order in which [`Graph::update`] takes them.
    queries: usize,
    /// Whether the monitor expects all of them.
    announced: bool,
}

impl Done {
    /// Has the monitor expect all queries of the block, once.
    fn announce(&mut self, queries: usize, monitor: &Monitor) {
        if !self.announced {
            monitor.expect(queries as u64);
            self.announced = true;
        }
    }
}

impl<'a> Search<'a> {
    /// For the arguments of [`nearest`].
    ///
    /// # Errors
    /// As there.
    pub fn new(points: &'a Points, references: usize, k: usize, cpu: &Cpu) -> Result<Self> {
        let among_themselves = references == points.rows();
        let most = references - usize::from(among_themselves);
        if k == 0 || k > most {
            return Err(Error::Input(format!(
                "`k` is {k}; it must be at least 1 and at most {most}, the number of neighbours \
                 there are"
            )));
        }
        Space::Points { points, references }.check()?;
        let queries = if among_themselves {
            0..references
        } else {
            references..points.rows()
        };
        let graph = cpu.install(|| Graph::unknown_on_threads(queries.len(), k))?;
        let block = Block {
            points,
            references,
            first: 0,
            queries,
            own: among_themselves.then_some(0),
        };
        Ok(Self {
            block,
            graph,
            done: Done::default(),
        })
    }

    /// Searches on a device.
    ///
    /// # Errors
    /// What the device returns.
    pub fn run(
        &mut self,
        device: &(impl NeighbourDevice + ?Sized),
        monitor: &Monitor,
    ) -> Result<()> {
        self.graph
            .update(&self.block, &mut self.done, device, monitor)
    }

    /// What was found.
    pub fn into_graph(self) -> Graph {
        self.graph
    }
}

impl Graph {
    /// Of queries whose neighbours have not been seen yet.
    ///
    /// # Errors
    /// `Error::Memory` where there is not enough.
    pub fn unknown(queries: usize, k: usize) -> Result<Self> {
        let mut graph = Self::room(queries, k)?;
        graph.index.resize(queries * k, NOBODY);
        graph.distance.resize(queries * k, f64::INFINITY);
        Ok(graph)
    }

    /// As [`Graph::unknown`], made by the threads of the pool that it is called from.
    fn unknown_on_threads(queries: usize, k: usize) -> Result<Self> {
        let mut graph = Self::room(queries, k)?;
        graph.index.par_extend(repeat_n(NOBODY, queries * k));
        let farthest = repeat_n(f64::INFINITY, queries * k);
        graph.distance.par_extend(farthest);
        Ok(graph)
    }

    /// Of nothing so far.
    fn room(queries: usize, k: usize) -> Result<Self> {
        Ok(Self {
            k,
            index: memory::room(NEIGHBOURS, queries * k)?,
            distance: memory::room(NEIGHBOURS, queries * k)?,
        })
    }

    /// Takes in those references of a block that are among the nearest of all. Once each reference
    /// has been in a block the graph is what a single block with all of them makes it, bit for bit:
    /// the distance of a pair does not depend on what else there is.
    ///
    /// All distances must be numbers, but for those of references to themselves (see
    /// [`suspects`](crate::neighbours::suspects)).
    ///
    /// # Errors
    /// What the device returns.
    pub fn update(
        &mut self,
        block: &Block<'_>,
        done: &mut Done,
        device: &(impl NeighbourDevice + ?Sized),
        monitor: &Monitor,
    ) -> Result<()> {
        let (values, columns) = (block.points.values(), block.points.columns());
        let cpu = device.cpu();
        let distinct = cpu.install(|| Distinct::new(values, columns, monitor))?;
        if distinct.is_worthwhile() {
            return self.update_from_distinct(block, &distinct, done, device, monitor);
        }
        drop(distinct);
        let numbers = block.numbers();
        let except = match (&numbers, block.own) {
            (Some(numbers), _) => Except::Group(numbers),
            (None, Some(_)) if block.queries.start < block.references => Except::Itself,
            _ => Except::Nobody,
        };
        let numbers = block.queries.clone().map(|query| query as u32);
        let queries = memory::collected(NEIGHBOURS, numbers)?;
        let space = Space::Points {
            points: block.points,
            references: block.references,
        };
        done.announce(queries.len(), monitor);
        let limits = self.limits()?;
        let before = &mut done.queries;
        device.cpu().install(|| {
            let mut neighbours = device.references(space, monitor)?;
            let request = Request {
                queries: &queries[*before..],
                wanted: self.k,
                limits: limits.as_ref().map(|limits| &limits[*before..]),
                except,
            };
            neighbours.nearest_in_blocks(&request, &mut |nearest| {
                self.take_in(*before, block.first, nearest);
                *before += nearest.len();
                monitor.advance(nearest.len() as u64);
                Ok(())
            })
        })
    }

    /// As [`Graph::update`], searching among the distinct points of the block and once for equal
    /// queries. However many points are equal, no search finds more than `k` + 1 of the distinct
    /// ones.
    fn update_from_distinct(
        &mut self,
        block: &Block<'_>,
        distinct: &Distinct,
        done: &mut Done,
        device: &(impl NeighbourDevice + ?Sized),
        monitor: &Monitor,
    ) -> Result<()> {
        let firsts = distinct.firsts();
        // References come first, and so do the distinct points that they are equal to.
        let references = firsts.partition_point(|&first| (first as usize) < block.references);
        let queries_of = |number: u32| {
            let rows = distinct.rows(number as usize);
            let before = |end: usize| rows.partition_point(|&row| (row as usize) < end);
            &rows[before(block.queries.start)..before(block.queries.end)]
        };
        let queries: Vec<u32> = (0..distinct.count() as u32)
            .filter(|&number| !queries_of(number).is_empty())
            .collect();
        let limits: Option<Vec<f64>> = self.limits()?.map(|limits| {
            let of_query = |&row: &u32| limits[row as usize - block.queries.start];
            let of_all = |&number: &u32| queries_of(number).iter().map(of_query);
            queries
                .iter()
                .map(|q| of_all(q).fold(0.0, f64::max))
                .collect()
        });
        // The nearest of all points are among as many distinct ones, by the distance and the first
        // of those equal to each: these come before all others. A query itself may be one of them.
        let wanted = self.k + usize::from(block.own.is_some());
        let points = block.points.select(&firsts)?;
        let space = Space::Points {
            points: &points,
            references,
        };
        done.announce(block.queries.len(), monitor);
        let numbers = block.numbers();
        let is_itself = |query: u32, reference: u32| match (&numbers, block.own) {
            (Some(numbers), _) => numbers[query as usize] == numbers[reference as usize],
            (None, Some(_)) => query == reference,
            (None, None) => false,
        };
        let before = &mut done.queries;
        device.cpu().install(|| {
            let mut neighbours = device.references(space, monitor)?;
            let request = Request {
                queries: &queries[*before..],
                wanted: wanted.min(references),
                limits: limits.as_ref().map(|limits| &limits[*before..]),
                except: Except::Nobody,
            };
            neighbours.nearest_in_blocks(&request, &mut |nearest| {
                for found in nearest.iter() {
                    monitor.check()?;
                    let found = first_members(found, distinct, block.references, wanted);
                    let equal = queries_of(queries[*before]);
                    for &query in equal {
                        let found = found.iter().copied();
                        let others = found.filter(|&(_, other)| !is_itself(query, other));
                        let place = query as usize - block.queries.start;
                        self.take_in_one(place, block.first, others);
                    }
                    *before += 1;
                    monitor.advance(equal.len() as u64);
                }
                Ok(())
            })
        })
    }

    /// Beyond which distance nothing is of interest to each query; `None` where nothing is known
    /// yet.
    fn limits(&self) -> Result<Option<Vec<f64>>> {
        // What is known of a query comes first.
        let mut nearest = self.index.iter().step_by(self.k);
        let known = nearest.any(|&number| number != NOBODY);
        let farthest = |farthest: &[f64]| farthest[self.k - 1];
        let limits = || memory::collected(NEIGHBOURS, self.distance.chunks(self.k).map(farthest));
        known.then(limits).transpose()
    }

    /// Adds references of a block that starts with the `first` one to what is known of some
    /// queries, from this one on.
    fn take_in(&mut self, query: usize, first: u32, nearest: &Nearest) {
        /// Queries that a thread takes at a time.
        const TOGETHER: usize = 1 << 8;

        let k = self.k;
        let place = query * k..(query + nearest.len()) * k;
        let index = self.index[place.clone()].par_chunks_mut(k);
        let rows = index.zip(self.distance[place].par_chunks_mut(k));
        let rows = rows.enumerate().with_min_len(TOGETHER);
        rows.for_each(|(i, (index, distance))| {
            merge(index, distance, first, nearest.of(i).iter().copied());
        });
    }

    /// The same for one query.
    fn take_in_one(&mut self, query: usize, first: u32, found: impl Iterator<Item = (f64, u32)>) {
        let place = query * self.k..(query + 1) * self.k;
        let (index, distance) = (&mut self.index[place.clone()], &mut self.distance[place]);
        merge(index, distance, first, found);
    }

    /// Writes the graph as R has it: column after column, the references' numbers from 1. On the
    /// threads of the pool that it is called from.
    pub fn write_columns(&self, index: &mut [i32], distance: &mut [f64]) {
        column_major_on_threads(&self.index, self.k, index, |index| index as i32 + 1);
        column_major_on_threads(&self.distance, self.k, distance, |distance| distance);
    }
}

/// Merges references of a block that starts with the `first` one, nearest first, into what is known
/// of a query.
fn merge(
    index: &mut [u32],
    distance: &mut [f64],
    first: u32,
    found: impl Iterator<Item = (f64, u32)>,
) {
    let found = found.map(|(distance, at)| (distance, first + at));
    let known = index.partition_point(|&number| number != NOBODY);
    let put = |(index, distance): (&mut u32, &mut f64), nearest: (f64, u32)| {
        (*distance, *index) = nearest;
    };
    if known == 0 {
        for (place, nearest) in index.iter_mut().zip(distance).zip(found) {
            put(place, nearest);
        }
        return;
    }
    let before = distance.iter().copied().zip(index.iter().copied());
    let mut all: Vec<(f64, u32)> = before.take(known).chain(found).collect();
    // Two sorted runs, which a stable sort only merges.
    all.sort_by(|a, b| a.partial_cmp(b).expect("distances are numbers"));
    for (place, nearest) in index.iter_mut().zip(distance).zip(all) {
        put(place, nearest);
    }
}

/// The first so many of the references that are equal to the distinct ones found, nearest first,
/// ties by index.
fn first_members(
    found: &[(f64, u32)],
    distinct: &Distinct,
    references: usize,
    wanted: usize,
) -> Vec<(f64, u32)> {
    let mut members = Vec::with_capacity(wanted);
    for tied in found.chunk_by(|a, b| a.0 == b.0) {
        let before = members.len();
        if before == wanted {
            break;
        }
        for &(distance, number) in tied {
            let rows = distinct.rows(number as usize).iter();
            let rows = rows.take_while(|&&row| (row as usize) < references);
            let some = rows.take(wanted - before);
            members.extend(some.map(|&row| (distance, row)));
        }
        members[before..].sort_unstable_by_key(|&(_, row)| row);
        members.truncate(wanted);
    }
    members
}

impl Block<'_> {
    /// The number of each point among all references, where a query has one and comes a second time
    /// as a reference of the block; else `None`.
    fn numbers(&self) -> Option<Vec<u32>> {
        let own = self.own?;
        let references = self.first..self.first + self.references as u32;
        let queries = own..own + self.queries.len() as u32;
        let apart = queries.end <= references.start || references.end <= queries.start;
        (self.queries.start >= self.references && !apart)
            .then(|| references.chain(queries).collect())
    }
}
