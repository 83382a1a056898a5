//! A block of references and queries.

use std::ops::Range;

use super::graph::UNKNOWN;
use crate::metric::Points;

/// Some of the references, and queries.
#[derive(Debug, Clone)]
pub struct Block<'a> {
    pub points: &'a Points,
    /// Number of references: the first points.
    pub references: usize,
    /// The number of the first reference among all references; the others follow it.
    pub first: u32,
    /// The points that are queries: some of the references, or points after them.
    pub queries: Range<usize>,
    /// The number of each query among all references, if queries are references, in this block or
    /// another one. No query is a neighbour of itself.
    pub own: Option<Vec<u32>>,
}

impl Block<'_> {
    /// The number of each point among all references, if a query occurs a second time as a
    /// reference of the block; otherwise `None`. Points that are neither query nor reference have
    /// the number [`UNKNOWN`].
    pub fn numbers(&self) -> Option<Vec<u32>> {
        let own = self.own.as_ref()?;
        let references = self.first..self.first + self.references as u32;
        let others = self.queries.start.checked_sub(self.references)?;
        let occurs_twice = own.iter().any(|number| references.contains(number));
        let others = std::iter::repeat_n(UNKNOWN, others);
        occurs_twice.then(|| {
            references
                .chain(others)
                .chain(own.iter().copied())
                .collect()
        })
    }
}
