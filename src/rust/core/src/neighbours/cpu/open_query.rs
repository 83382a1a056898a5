//! The state of a query between sweeps.

use crate::neighbours::request::NeighbourRequest;

/// Candidates that a sweep keeps per query beyond 9/8 of the wanted ones, for references whose
/// bounds are out of order. Too few cost a second sweep, too many cost exact distances; the result
/// does not depend on it.
const SPARE_CANDIDATES: usize = 4;

/// A query that is not settled yet.
#[derive(Debug, Clone, Copy)]
pub struct OpenQuery {
    /// Its position in the request.
    pub at: usize,
    pub index: u32,
    /// No reference farther away is among the wanted.
    pub limit: f64,
    /// Number of candidates that the next sweep keeps.
    pub capacity: usize,
    /// Whether a sweep of the sharpest frame has abandoned it.
    pub abandoned: bool,
}

impl OpenQuery {
    /// The `at`-th query of a request.
    pub fn new(request: &NeighbourRequest, at: usize) -> Self {
        Self {
            at,
            index: request.queries[at],
            limit: request.limits.map_or(f64::INFINITY, |limits| limits[at]),
            capacity: capacity(request),
            abandoned: false,
        }
    }
}

/// Number of candidates that a first sweep keeps of each query.
pub fn capacity(request: &NeighbourRequest) -> usize {
    request.wanted + request.wanted / 8 + SPARE_CANDIDATES
}

/// A query's position in the request, and the distances and indices of its nearest references.
pub type Answer = (usize, Vec<(f64, u32)>);

/// The state of a query after a sweep.
pub enum Outcome {
    Settled(Answer),
    Open(OpenQuery),
}
