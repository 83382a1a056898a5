//! A request for the nearest references of many queries.

use std::ops::Range;

/// The references that a query excludes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exclusion<'a> {
    /// No reference.
    Nothing,
    /// The reference with the query's index.
    Itself,
    /// The references of the query's group, given the group of each index.
    Group(&'a [u32]),
}

/// A request for the nearest references of some queries.
#[derive(Debug, Clone, Copy)]
pub struct NeighbourRequest<'a> {
    /// The queries' indices.
    pub queries: &'a [u32],
    /// Number of neighbours per query (k), at least 1.
    pub wanted: usize,
    /// For each query, the search radius: references beyond it are not reported. `None` stands for
    /// no limit.
    pub limits: Option<&'a [f64]>,
    pub exclusion: Exclusion<'a>,
}

impl NeighbourRequest<'_> {
    /// The same request for some of the queries.
    pub fn part(&self, some: Range<usize>) -> NeighbourRequest<'_> {
        NeighbourRequest {
            queries: &self.queries[some.clone()],
            limits: self.limits.map(|limits| &limits[some]),
            ..*self
        }
    }
}
