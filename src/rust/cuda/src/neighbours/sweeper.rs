//! The trait of a device that sweeps all references for the candidates of queries.

use std::ops::Range;
use std::sync::Arc;

use gmhclust_core::error::Result;
use gmhclust_core::monitor::Monitor;
use gmhclust_core::neighbours::single::RowFrame;
use gmhclust_core::neighbours::NeighbourRequest;

use super::layout::{bound, first_beyond, position};
use super::positions::Positions;
use super::rows::Rows;
use super::work_queue::Worker;

/// A sweeper of all references: a device, or a stand-in for one in tests.
pub trait Sweeper: Worker {
    /// Sweeps all references for a batch of a request's queries and keeps `capacity` candidates of
    /// each. `groups` are those of the references, by position.
    ///
    /// # Errors
    /// As [`gmhclust_core::neighbours::Neighbours::nearest`]; where a device fails, the error names
    /// it and the queries.
    fn sweep(
        &mut self,
        positions: &Positions,
        request: &NeighbourRequest,
        capacity: usize,
        groups: &[u32],
        batch: Range<usize>,
        monitor: &Monitor,
    ) -> Result<Swept>;

    /// A second sweeper of the same references on the same device, if that can share them.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    fn share(&mut self) -> Result<Option<Self>>
    where
        Self: Sized;

    /// Most queries of a batch that the device has memory for when it keeps `capacity` candidates
    /// of each.
    fn most_queries(&self, capacity: usize) -> usize;

    /// Fewest queries of a batch that keep the device busy.
    fn fewest_queries(&self) -> usize;

    /// Overwrites the rows at some positions.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    fn update(&mut self, rows: &[f32], positions: &[u32]) -> Result<()>;

    /// Replaces all rows by these, all of which are references.
    ///
    /// # Errors
    /// As [`Sweeper::share`], and `Error::Memory` when the device has too little.
    fn restart(&mut self, rows: &Arc<Rows>) -> Result<()>;
}

/// The candidates of a batch of queries.
pub struct Swept {
    /// Candidates kept of each query.
    pub capacity: usize,
    /// Candidates that were collected of a query before they were narrowed down.
    pub room: usize,
    /// Candidates found of each query; more than `room` where some were dropped unseen.
    pub counts: Vec<u32>,
    /// A key below none of the references that were not kept, for each query.
    pub floors: Vec<u64>,
    /// `capacity` keys of each query, in increasing order.
    pub keys: Vec<u64>,
}

impl Swept {
    /// Candidates of the `i`-th query of the batch, the `at`-th of the request: lower bounds and
    /// indices, in increasing order, into `found`. Returns a lower bound of all other references
    /// within the limit, if there are any.
    ///
    /// # Errors
    /// The query's limit, where more candidates were found than collected.
    pub fn candidates(
        &self,
        i: usize,
        frame: &RowFrame,
        positions: &Positions,
        request: &NeighbourRequest,
        at: usize,
        found: &mut Vec<(f64, u32)>,
    ) -> std::result::Result<Option<f64>, f64> {
        let count = self.counts[i] as usize;
        let limit = request.limits.map_or(f64::INFINITY, |limits| limits[at]);
        if count > self.room {
            return Err(limit);
        }
        let in_data_units = |key: u64| frame.in_data_units(bound(key));
        let keys = &self.keys[i * self.capacity..][..count.min(self.capacity)];
        let candidate = |&key: &u64| (in_data_units(key), positions.indices[position(key)]);
        found.clear();
        found.extend(keys.iter().map(candidate));
        // Among equal bounds the order was that of positions.
        found.sort_unstable_by_key(|&(bound, index)| (bound.to_bits(), index));
        let beyond = first_beyond(frame.limit(limit));
        Ok((self.floors[i] != beyond).then(|| in_data_units(self.floors[i])))
    }
}
