//! A block of references and queries.

use std::ops::Range;

use crate::metric::Points;

/// Some of all references, and queries.
#[derive(Debug, Clone)]
pub struct Block<'a> {
    pub points: &'a Points,
    /// Number of references: the first points.
    pub references: usize,
    /// The number of the first reference among all references; the others follow it.
    pub first: u32,
    /// The points that are queries: some of the references, or points after them.
    pub queries: Range<usize>,
    /// The number of the first query among all references, if queries are references, in this block
    /// or another; the other queries follow it. No query is a neighbour of itself.
    pub own: Option<u32>,
}

impl Block<'_> {
    /// The number of each point among all references, where a query occurs a second time as a
    /// reference of the block; else `None`.
    pub fn numbers(&self) -> Option<Vec<u32>> {
        let own = self.own?;
        let references = self.first..self.first + self.references as u32;
        let queries = own..own + self.queries.len() as u32;
        let apart = queries.end <= references.start || references.end <= queries.start;
        (self.queries.start >= self.references && !apart)
            .then(|| references.chain(queries).collect())
    }
}
