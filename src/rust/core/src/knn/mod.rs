//! The exact graph of the k nearest neighbours.

#[cfg(test)]
mod tests;

use rayon::prelude::*;

use crate::backend::neighbours::{Except, Nearest, Neighbours, Request, Space};
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::matrix::column_major_on_threads;
use crate::metric::Points;
use crate::monitor::Monitor;

/// The `k` nearest references of each query, nearest first, ties by index.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    pub k: usize,
    /// Query after query, the references' numbers from 0.
    pub index: Vec<u32>,
    /// Query after query.
    pub distance: Vec<f64>,
}

/// The `k` nearest among the first `references` points: of each of the others, or, where there are
/// no others, of each of the references among the rest of them.
///
/// Takes O(m·n·p) time for m queries and n references in p dimensions, and O((m + n)·p + m·k)
/// memory.
///
/// # Errors
/// `Error::Input` where `k` is 0 or more than a query has neighbours, or where a distance is not a
/// number (see [`Space::check`]); what the backend returns otherwise.
pub fn nearest(
    points: &Points,
    references: usize,
    k: usize,
    backend: &dyn Backend,
    monitor: &Monitor,
) -> Result<Graph> {
    let among_themselves = references == points.rows();
    let most = references - usize::from(among_themselves);
    if k == 0 || k > most {
        return Err(Error::Input(format!(
            "`k` is {k}; it must be at least 1 and at most {most}, the number of neighbours there \
             are"
        )));
    }
    let space = Space::Points { points, references };
    space.check()?;
    let (first, except) = if among_themselves {
        (0, Except::Itself)
    } else {
        (references, Except::Nobody)
    };
    let queries: Vec<u32> = (first as u32..points.rows() as u32).collect();
    monitor.expect(queries.len() as u64);
    let mut graph = Graph {
        k,
        index: vec![0; queries.len() * k],
        distance: vec![0.0; queries.len() * k],
    };
    let mut before = 0;
    backend.search(space, monitor, &mut |neighbours: &mut dyn Neighbours| {
        // Queries that are done stay so where another device takes over.
        let request = Request {
            queries: &queries[before..],
            wanted: k,
            limits: None,
            except,
        };
        neighbours.nearest_in_blocks(&request, &mut |nearest| {
            graph.fill(before, nearest);
            before += nearest.len();
            monitor.advance(nearest.len() as u64);
            Ok(())
        })
    })?;
    Ok(graph)
}

impl Graph {
    /// Puts in what is nearest to some queries, given the number of the first.
    fn fill(&mut self, first: usize, nearest: &Nearest) {
        /// Queries that a thread copies at a time.
        const TOGETHER: usize = 1 << 8;

        let k = self.k;
        let place = first * k..(first + nearest.len()) * k;
        let index = self.index[place.clone()].par_chunks_mut(k);
        let rows = index.zip(self.distance[place].par_chunks_mut(k));
        let rows = rows.enumerate().with_min_len(TOGETHER);
        rows.for_each(|(i, (index, distance))| {
            // Each query has as many neighbours as it may ask for.
            for (at, &found) in nearest.of(i).iter().enumerate() {
                (distance[at], index[at]) = found;
            }
        });
    }

    /// Writes the graph as R has it: column after column, the references' numbers from 1. On the
    /// threads of the pool that it is called from.
    pub fn write_columns(&self, index: &mut [i32], distance: &mut [f64]) {
        column_major_on_threads(&self.index, self.k, index, |index| index as i32 + 1);
        column_major_on_threads(&self.distance, self.k, distance, |distance| distance);
    }
}
