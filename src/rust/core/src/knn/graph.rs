//! The graph: the k nearest neighbours of each query.

use rayon::iter::repeat_n;
use rayon::prelude::*;

use crate::error::Result;
use crate::matrix::column_major_on_threads;
use crate::memory;
use crate::neighbours::NeighbourLists;

/// First words of a memory error, before the number of bytes.
pub(super) const NEIGHBOURS: &str = "the neighbours need";

/// The index of a neighbour that is not known yet; its distance is infinite, and it comes after all
/// other neighbours.
pub const UNKNOWN: u32 = u32::MAX;

/// The `k` nearest references of each query, nearest first, ties by index.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    /// Number of neighbours per query.
    pub k: usize,
    /// The references' numbers from 0, query by query.
    pub index: Vec<u32>,
    /// The distances, query by query.
    pub distance: Vec<f64>,
}

impl Graph {
    /// A graph whose neighbours are all [`UNKNOWN`].
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn unknown(queries: usize, k: usize) -> Result<Self> {
        let mut graph = Self::room(queries, k)?;
        graph.index.resize(queries * k, UNKNOWN);
        graph.distance.resize(queries * k, f64::INFINITY);
        Ok(graph)
    }

    /// As [`Graph::unknown`], on the threads of the calling pool.
    ///
    /// # Errors
    /// As [`Graph::unknown`].
    pub fn unknown_on_threads(queries: usize, k: usize) -> Result<Self> {
        let mut graph = Self::room(queries, k)?;
        graph.index.par_extend(repeat_n(UNKNOWN, queries * k));
        let farthest = repeat_n(f64::INFINITY, queries * k);
        graph.distance.par_extend(farthest);
        Ok(graph)
    }

    /// An empty graph with room for `queries` queries.
    fn room(queries: usize, k: usize) -> Result<Self> {
        Ok(Self {
            k,
            index: memory::room(NEIGHBOURS, queries * k)?,
            distance: memory::room(NEIGHBOURS, queries * k)?,
        })
    }

    /// The search radius of each query: the distance of its k-th neighbour so far. `None` if no
    /// neighbour is known.
    ///
    /// # Errors
    /// `Error::Memory`.
    pub fn limits(&self) -> Result<Option<Vec<f64>>> {
        // Known neighbours of a query come before unknown ones.
        let mut nearest = self.index.iter().step_by(self.k);
        let known = nearest.any(|&number| number != UNKNOWN);
        let farthest = |farthest: &[f64]| farthest[self.k - 1];
        let limits = || memory::collected(NEIGHBOURS, self.distance.chunks(self.k).map(farthest));
        known.then(limits).transpose()
    }

    /// Merges references of a block into the lists of the queries from `query` on. The block starts
    /// with reference number `first`.
    pub fn merge_lists(&mut self, query: usize, first: u32, nearest: &NeighbourLists) {
        /// Number of queries per task: enough work for a thread. Only the time depends on it.
        const QUERIES_PER_TASK: usize = 1 << 8;

        let k = self.k;
        let place = query * k..(query + nearest.len()) * k;
        let index = self.index[place.clone()].par_chunks_mut(k);
        let rows = index.zip(self.distance[place].par_chunks_mut(k));
        let rows = rows.enumerate().with_min_len(QUERIES_PER_TASK);
        rows.for_each(|(i, (index, distance))| {
            merge(index, distance, first, nearest.of(i).iter().copied());
        });
    }

    /// As [`Graph::merge_lists`], for one query.
    pub fn merge_list(
        &mut self,
        query: usize,
        first: u32,
        found: impl Iterator<Item = (f64, u32)>,
    ) {
        let place = query * self.k..(query + 1) * self.k;
        let (index, distance) = (&mut self.index[place.clone()], &mut self.distance[place]);
        merge(index, distance, first, found);
    }

    /// Writes the graph in R's layout: column-major, references numbered from 1. Works on the
    /// threads of the calling pool.
    pub fn write_columns(&self, index: &mut [i32], distance: &mut [f64]) {
        column_major_on_threads(&self.index, self.k, index, |index| index as i32 + 1);
        column_major_on_threads(&self.distance, self.k, distance, |distance| distance);
    }
}

/// Merges references of a block, nearest first, into the list of a query. The block starts with
/// reference number `first`.
fn merge(
    index: &mut [u32],
    distance: &mut [f64],
    first: u32,
    found: impl Iterator<Item = (f64, u32)>,
) {
    let found = found.map(|(distance, at)| (distance, first + at));
    let known = index.partition_point(|&number| number != UNKNOWN);
    let set = |(index, distance): (&mut u32, &mut f64), nearest: (f64, u32)| {
        (*distance, *index) = nearest;
    };
    if known == 0 {
        for (place, nearest) in index.iter_mut().zip(distance).zip(found) {
            set(place, nearest);
        }
        return;
    }
    let before = distance.iter().copied().zip(index.iter().copied());
    let mut all: Vec<(f64, u32)> = before.take(known).chain(found).collect();
    // A stable sort merges two sorted runs in linear time.
    all.sort_by(|a, b| a.partial_cmp(b).expect("distances are numbers"));
    for (place, nearest) in index.iter_mut().zip(distance).zip(all) {
        set(place, nearest);
    }
}
