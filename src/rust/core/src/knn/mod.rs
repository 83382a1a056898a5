//! The exact graph of the k nearest neighbours.

#[cfg(test)]
mod tests;

use crate::backend::neighbours::{Except, Neighbours, Request, Space};
use crate::backend::Backend;
use crate::error::{Error, Result};
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
        index: Vec::new(),
        distance: Vec::new(),
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
            let already = before;
            for found in nearest.iter() {
                graph.index.extend(found.iter().map(|&(_, index)| index));
                graph
                    .distance
                    .extend(found.iter().map(|&(distance, _)| distance));
                before += 1;
            }
            monitor.advance((before - already) as u64);
            Ok(())
        })
    })?;
    Ok(graph)
}
