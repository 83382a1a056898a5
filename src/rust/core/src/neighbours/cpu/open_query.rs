//! The state of a query between sweeps.

use crate::neighbours::request::NeighbourRequest;

/// Number of candidates that a sweep keeps per query in addition to 9/8 of the wanted number, since
/// the order of bounds differs from the order of distances. If too small, a second sweep is needed;
/// if too large, more exact distances are computed. Only the time depends on it.
const SPARE_CANDIDATES: usize = 4;

/// A query that is not settled yet.
#[derive(Debug, Clone, Copy)]
pub struct OpenQuery {
    /// Its index in the request.
    pub at: usize,
    pub index: u32,
    /// An upper bound on the distances of the wanted references.
    pub limit: f64,
    /// Number of candidates that the next sweep keeps.
    pub capacity: usize,
    /// Whether a sweep with the most precise frame has abandoned the query.
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

/// A query's index in the request, and the distances and indices of its nearest references.
pub type Answer = (usize, Vec<(f64, u32)>);

/// The state of a query after a sweep.
pub enum Outcome {
    Settled(Answer),
    Open(OpenQuery),
}
