//! Adds a block of references to a graph.

use super::block::Block;
use super::graph::{Graph, NEIGHBOURS};
use crate::distinct::Distinct;
use crate::error::Result;
use crate::memory;
use crate::monitor::Monitor;
use crate::neighbours::{Exclusion, NeighbourDevice, NeighbourRequest, Space};

/// The progress of the update of a graph with a block.
#[derive(Debug, Clone, Copy, Default)]
pub struct UpdateProgress {
    /// Number of finished searches: queries of the block in order or, if equal points are searched
    /// as one, distinct queries in order.
    searches: usize,
    /// Whether the monitor expects all queries of the block.
    announced: bool,
}

impl UpdateProgress {
    /// Adds all queries of the block to the monitor's expected work, once.
    fn announce(&mut self, queries: usize, monitor: &Monitor) {
        if !self.announced {
            monitor.expect(queries as u64);
            self.announced = true;
        }
    }
}

impl Graph {
    /// Adds the references of a block that are among the nearest so far. Once each reference has
    /// been in a block, the graph has the bits of a single block with all references, since the
    /// distance of a pair depends on the pair only.
    ///
    /// All distances must be numbers, except the distances of references to themselves (see
    /// [`rows_without_distance`](crate::neighbours::rows_without_distance)).
    ///
    /// # Errors
    /// The errors of the device.
    pub fn update(
        &mut self,
        block: &Block<'_>,
        done: &mut UpdateProgress,
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
        let exclusion = match (&numbers, &block.own) {
            (Some(numbers), _) => Exclusion::Group(numbers),
            (None, Some(_)) if block.queries.start < block.references => Exclusion::Itself,
            _ => Exclusion::Nothing,
        };
        let numbers = block.queries.clone().map(|query| query as u32);
        let queries = memory::collected(NEIGHBOURS, numbers)?;
        let space = Space::Points {
            points: block.points,
            references: block.references,
        };
        done.announce(queries.len(), monitor);
        let limits = self.limits()?;
        let finished = &mut done.searches;
        device.cpu().install(|| {
            let mut neighbours = device.references(space, monitor)?;
            let request = NeighbourRequest {
                queries: &queries[*finished..],
                wanted: self.k,
                limits: limits.as_ref().map(|limits| &limits[*finished..]),
                exclusion,
            };
            neighbours.nearest_in_blocks(&request, &mut |nearest| {
                self.merge_lists(*finished, block.first, nearest);
                *finished += nearest.len();
                monitor.advance(nearest.len() as u64);
                Ok(())
            })
        })
    }

    /// As [`Graph::update`], but searches among the distinct points of the block, and once for
    /// equal queries. However many points are equal, no search finds more than `k` + 1 distinct
    /// points.
    fn update_from_distinct(
        &mut self,
        block: &Block<'_>,
        distinct: &Distinct,
        done: &mut UpdateProgress,
        device: &(impl NeighbourDevice + ?Sized),
        monitor: &Monitor,
    ) -> Result<()> {
        let search = DistinctBlock::new(block, distinct);
        let queries = &search.queries;
        let limits = self.limits()?.map(|limits| search.limits(&limits));
        // The k nearest points are equal to at most k distinct points, ordered by distance and by
        // the first point equal to each. One of the distinct points may be the query.
        let wanted = self.k + usize::from(block.own.is_some());
        let points = device
            .cpu()
            .install(|| block.points.select(&distinct.firsts()))?;
        let space = Space::Points {
            points: &points,
            references: search.references,
        };
        done.announce(block.queries.len(), monitor);
        let finished = &mut done.searches;
        device.cpu().install(|| {
            let mut neighbours = device.references(space, monitor)?;
            let request = NeighbourRequest {
                queries: &queries[*finished..],
                wanted: wanted.min(search.references),
                limits: limits.as_ref().map(|limits| &limits[*finished..]),
                exclusion: Exclusion::Nothing,
            };
            neighbours.nearest_in_blocks(&request, &mut |nearest| {
                for found in nearest.iter() {
                    monitor.check()?;
                    let found = first_members(found, distinct, block.references, wanted);
                    let equal = search.rows_of(queries[*finished]);
                    for &query in equal {
                        let found = found.iter().copied();
                        let others = found.filter(|&(_, other)| !search.is_itself(query, other));
                        let place = query as usize - block.queries.start;
                        self.merge_list(place, block.first, others);
                    }
                    *finished += 1;
                    monitor.advance(equal.len() as u64);
                }
                Ok(())
            })
        })
    }
}

/// The distinct points of a block, by their numbers.
struct DistinctBlock<'a> {
    block: &'a Block<'a>,
    distinct: &'a Distinct,
    /// Number of distinct references. Distinct references come before other distinct points, since
    /// references come before other points.
    references: usize,
    /// The distinct points that are equal to a query.
    queries: Vec<u32>,
    /// See [`Block::numbers`].
    numbers: Option<Vec<u32>>,
}

impl<'a> DistinctBlock<'a> {
    fn new(block: &'a Block<'a>, distinct: &'a Distinct) -> Self {
        let is_reference = |&first: &u32| (first as usize) < block.references;
        let mut this = Self {
            block,
            distinct,
            references: distinct.firsts().partition_point(is_reference),
            queries: Vec::new(),
            numbers: block.numbers(),
        };
        this.queries = (0..distinct.count() as u32)
            .filter(|&number| !this.rows_of(number).is_empty())
            .collect();
        this
    }

    /// The queries, as rows of the block, that are equal to a distinct point.
    fn rows_of(&self, number: u32) -> &'a [u32] {
        let rows = self.distinct.rows(number as usize);
        let before = |end: usize| rows.partition_point(|&row| (row as usize) < end);
        &rows[before(self.block.queries.start)..before(self.block.queries.end)]
    }

    /// For each distinct query, the greatest limit of the queries equal to it, given all limits.
    fn limits(&self, limits: &[f64]) -> Vec<f64> {
        let of_query = |&row: &u32| limits[row as usize - self.block.queries.start];
        let of_all = |&number: &u32| self.rows_of(number).iter().map(of_query);
        let greatest = |number| of_all(number).fold(0.0, f64::max);
        self.queries.iter().map(greatest).collect()
    }

    /// Whether a query and a reference, as rows of the block, are the same point.
    fn is_itself(&self, query: u32, reference: u32) -> bool {
        match (&self.numbers, &self.block.own) {
            (Some(numbers), _) => numbers[query as usize] == numbers[reference as usize],
            (None, Some(_)) => query == reference,
            (None, None) => false,
        }
    }
}

/// The first `wanted` references that are equal to the distinct references found, nearest first,
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
