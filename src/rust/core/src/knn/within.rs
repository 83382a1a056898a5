//! All neighbours within a radius.

use std::ops::Range;

use super::graph::NEIGHBOURS;
use crate::error::{Error, Result};
use crate::memory;
use crate::metric::Points;
use crate::monitor::Monitor;
use crate::neighbours::{Exclusion, NeighbourDevice, NeighbourRequest, Neighbours, Space};

/// Number of neighbours that the searches of the first batch ask for, and the smallest number that
/// later batches begin with (see [`usual_wanted`]). A query with more neighbours is searched again.
/// If too small, more searches are needed; if too large, batches are small (see [`MOST_FOUND`]).
/// Only the time depends on it.
const FIRST_WANTED: usize = 64;

/// Each further search asks for this multiple of neighbours. A query with n neighbours takes one
/// search for n < [`FIRST_WANTED`], otherwise at most 2 + ⌊log₈(n / [`FIRST_WANTED`])⌋. Only the
/// time depends on it.
const WANTED_FACTOR: usize = 8;

/// Largest number of neighbours that a request of several queries can find: 67 MB in two lists.
/// If too large, memory may run out.
const MOST_FOUND: usize = 1 << 21;

/// Largest number of repeated requests whose lists are held at a time: 16 bytes for each neighbour,
/// 134 MB. Further queries are searched again later. Only the first batches have further queries,
/// since later batches begin with more neighbours.
const MOST_REPEATED_REQUESTS: usize = 4;

/// The references within a radius of each query, nearest first, ties by index.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RadiusNeighbours {
    /// By query: the end of its neighbours in `index` and `distance`.
    pub ends: Vec<usize>,
    /// The references' numbers from 0, query by query.
    pub index: Vec<u32>,
    /// The distances, query by query.
    pub distance: Vec<f64>,
}

impl RadiusNeighbours {
    /// Appends the neighbours of the next queries. Checks that there is memory for the caller's
    /// copy of all neighbours so far, `copy` bytes each, in addition to these.
    fn extend(&mut self, lists: &[Vec<(f64, u32)>], copy: f64) -> Result<()> {
        let more = lists.iter().map(Vec::len).sum();
        let so_far = self.index.len() + more;
        memory::check("the neighbours so far need", copy * so_far as f64)?;
        memory::reserve(&mut self.index, NEIGHBOURS, more)?;
        memory::reserve(&mut self.distance, NEIGHBOURS, more)?;
        for found in lists {
            self.index.extend(found.iter().map(|&(_, index)| index));
            let distances = found.iter().map(|&(distance, _)| distance);
            self.distance.extend(distances);
            self.ends.push(self.index.len());
        }
        Ok(())
    }
}

/// A search for all references within a radius of each query. It can resume on another device after
/// one failed: finished queries are not searched again.
///
/// For m queries and n references in p dimensions, takes O(m·n·p) time, times the number of
/// searches of each query (see `WANTED_FACTOR`), and O((m + n)·p) memory besides the result.
#[derive(Debug)]
pub struct RangeSearch<'a> {
    points: &'a Points,
    references: usize,
    queries: Vec<u32>,
    radii: Vec<f64>,
    found: RadiusNeighbours,
    /// Bytes per neighbour that the caller's copy will need in addition to [`RadiusNeighbours`].
    copy: f64,
    announced: bool,
}

impl<'a> RangeSearch<'a> {
    /// A search for those of the first `references` points whose distance from a query is at most
    /// the query's radius. `queries` are numbers of points; a query that is a reference is no
    /// neighbour of itself. `radii` has one value for all queries, or one for each.
    ///
    /// # Errors
    /// `Error::Input` if a radius is negative or not a number, if the number of radii is wrong, or
    /// if a distance is not a number (see [`Space::check`]); `Error::Memory`.
    pub fn new(
        points: &'a Points,
        references: usize,
        queries: Vec<u32>,
        radii: &[f64],
    ) -> Result<Self> {
        if let Some(radius) = radii
            .iter()
            .find(|radius| radius.is_nan() || **radius < 0.0)
        {
            return Err(Error::Input(format!(
                "`radius` has {radius}; it must be at least 0"
            )));
        }
        let radii = match radii {
            [radius] => memory::filled(NEIGHBOURS, queries.len(), *radius)?,
            radii if radii.len() == queries.len() => memory::copied(NEIGHBOURS, radii)?,
            radii => {
                return Err(Error::Input(format!(
                    "`radius` has {} values; it must have 1 or {}, one for each query",
                    radii.len(),
                    queries.len()
                )))
            }
        };
        Space::Points { points, references }.check()?;
        let found = RadiusNeighbours {
            ends: memory::room(NEIGHBOURS, queries.len())?,
            ..RadiusNeighbours::default()
        };
        Ok(Self {
            points,
            references,
            queries,
            radii,
            found,
            copy: 0.0,
            announced: false,
        })
    }

    /// This search, for a caller that copies the result: the search continues only while there is
    /// memory for `bytes` bytes per neighbour in addition to its own.
    pub fn to_be_copied(self, bytes: usize) -> Self {
        Self {
            copy: bytes as f64,
            ..self
        }
    }

    /// Searches for the neighbours of all unfinished queries on a device.
    ///
    /// # Errors
    /// The errors of the device; `Error::Memory` if the result does not fit.
    pub fn run(
        &mut self,
        device: &(impl NeighbourDevice + ?Sized),
        monitor: &Monitor,
    ) -> Result<()> {
        if !self.announced {
            monitor.expect(self.queries.len() as u64);
            self.announced = true;
        }
        let space = Space::Points {
            points: self.points,
            references: self.references,
        };
        device.cpu().install(|| {
            let mut neighbours = device.references(space, monitor)?;
            let mut wanted = FIRST_WANTED;
            loop {
                monitor.check()?;
                let done = self.found.ends.len();
                let most = queries_per_request(wanted).min(neighbours.batch());
                let end = self.queries.len().min(done + most);
                if done == end {
                    return Ok(());
                }
                let lists = self.search(done..end, wanted, &mut *neighbours)?;
                self.found.extend(&lists, self.copy)?;
                monitor.advance(lists.len() as u64);
                wanted = usual_wanted(&lists);
            }
        })
    }

    /// The neighbours.
    pub fn into_neighbours(self) -> RadiusNeighbours {
        self.found
    }

    /// The neighbours of some queries; the first search asks for `wanted` neighbours. If many
    /// queries have more, returns the neighbours of the first queries only.
    fn search(
        &self,
        some: Range<usize>,
        mut wanted: usize,
        neighbours: &mut dyn Neighbours,
    ) -> Result<Vec<Vec<(f64, u32)>>> {
        let mut lists = memory::filled(NEIGHBOURS, some.len(), Vec::new())?;
        let mut open: Vec<usize> = some.clone().collect();
        while !open.is_empty() {
            wanted = wanted.min(self.references);
            // The lists of these queries are all held at the same time.
            if let Some(&beyond) = open.get(MOST_REPEATED_REQUESTS * queries_per_request(wanted)) {
                open.retain(|&at| at < beyond);
                lists.truncate(beyond - some.start);
            }
            let mut still_open = Vec::new();
            for part in open.chunks(queries_per_request(wanted)) {
                let queries: Vec<u32> = part.iter().map(|&at| self.queries[at]).collect();
                let limits: Vec<f64> = part.iter().map(|&at| self.radii[at]).collect();
                // The device's lists, and copies.
                let lists_of_request = 2 * size_of::<(f64, u32)>() * part.len() * wanted;
                memory::check(NEIGHBOURS, lists_of_request as f64)?;
                let request = NeighbourRequest {
                    queries: &queries,
                    wanted,
                    limits: Some(&limits),
                    exclusion: Exclusion::Itself,
                };
                let mut part = part.iter();
                neighbours.nearest_in_blocks(&request, &mut |nearest| {
                    for (found, &at) in nearest.iter().zip(&mut part) {
                        // A shorter list holds all references within the radius.
                        if found.len() < wanted || wanted == self.references {
                            lists[at - some.start] = memory::copied(NEIGHBOURS, found)?;
                        } else {
                            still_open.push(at);
                        }
                    }
                    Ok(())
                })?;
            }
            open = still_open;
            wanted *= WANTED_FACTOR;
        }
        Ok(lists)
    }
}

/// Largest number of queries of a request that asks for `wanted` neighbours of each query.
fn queries_per_request(wanted: usize) -> usize {
    (MOST_FOUND / wanted).max(1)
}

/// The number of neighbours to ask for first in the next batch, so that about 7 in 8 queries need a
/// single search if they are like the queries of these lists.
fn usual_wanted(lists: &[Vec<(f64, u32)>]) -> usize {
    let mut lengths: Vec<usize> = lists.iter().map(Vec::len).collect();
    let rank = lengths.len() * 7 / 8;
    let (_, &mut length, _) = lengths.select_nth_unstable(rank);
    let mut wanted = FIRST_WANTED;
    while wanted <= length {
        wanted *= WANTED_FACTOR;
    }
    wanted
}
