//! The state of a thread in a pass over the matrix.

use super::contraction_plan::ClusterPart;
use super::nearest::{NearestSoFar, RowVisitor, FIRST};

/// Number of rows per task. The first task holds just the rows that should be visited first.
pub const ROWS: usize = FIRST;

/// The state of one thread.
pub struct Worker<'a> {
    pub visitor: RowVisitor<'a>,
    /// Room for dissimilarities by slot.
    pub row: Vec<f64>,
    /// Room for a row that is not stored in double precision.
    pub scratch: Vec<f64>,
    /// Room for the parts of a union.
    pub parts: Vec<ClusterPart>,
}

impl<'a> Worker<'a> {
    /// A worker for each thread of the pool, for rows of `clusters` clusters.
    pub fn one_per_thread(clusters: usize, nearest: &'a NearestSoFar) -> Vec<Self> {
        let worker = |_| Self {
            visitor: nearest.visitor(),
            row: vec![0.0; clusters],
            scratch: vec![0.0; clusters],
            parts: Vec::new(),
        };
        (0..rayon::current_num_threads()).map(worker).collect()
    }
}
