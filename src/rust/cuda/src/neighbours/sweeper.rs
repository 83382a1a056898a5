//! The trait of a device that sweeps all references for the candidates of queries.

use std::ops::Range;
use std::sync::Arc;

use gmhclust_core::error::Result;
use gmhclust_core::monitor::Monitor;
use gmhclust_core::neighbours::single::RowFrame;
use gmhclust_core::neighbours::{NeighbourLists, NeighbourRequest};

use super::exact_rows::ExactRows;
use super::layout::{bound, first_beyond, position};
use super::positions::Positions;
use super::rows::Rows;
use super::work_queue::Worker;

/// A sweeper of all references: a device, or a test double.
pub trait Sweeper: Worker + Sync {
    /// Sweeps all references for a batch of a request's queries and keeps `capacity` candidates of
    /// each query. Decides about them if the device has the exact rows.
    ///
    /// # Errors
    /// As [`gmhclust_core::neighbours::Neighbours::nearest`]; if a device fails, the error names
    /// the device and the queries.
    fn sweep(
        &mut self,
        positions: &Positions,
        request: &NeighbourRequest,
        capacity: usize,
        groups: &ReferenceGroups,
        batch: Range<usize>,
        monitor: &Monitor,
    ) -> Result<Swept>;

    /// A second sweeper of the same references on the same device. Returns `None` if the references
    /// cannot be shared.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    fn share(&mut self) -> Result<Option<Self>>
    where
        Self: Sized;

    /// Largest number of queries of a batch for which the device has memory if it keeps `capacity`
    /// candidates of each query.
    fn most_queries(&self, capacity: usize) -> usize;

    /// Smallest number of queries of a batch that keeps the device busy.
    fn fewest_queries(&self) -> usize;

    /// Overwrites the rows at some positions.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    fn update(&mut self, rows: &[f32], positions: &[u32]) -> Result<()>;

    /// The rows for exact distances on the device. `None` if the host decides about candidates.
    fn exact_rows(&self) -> Option<Arc<ExactRows>>;

    /// Replaces all rows by `rows`, all of which are references.
    ///
    /// # Errors
    /// As [`Sweeper::share`], and `Error::Memory` if the device has too little memory.
    fn restart(&mut self, rows: &Arc<Rows>) -> Result<()>;
}

/// The groups of the references of a request.
pub struct ReferenceGroups {
    /// By position.
    pub values: Vec<u32>,
    /// The number of the request, which no other request has.
    pub request: usize,
}

/// The result of a sweep for a batch of queries.
pub enum Swept {
    SweptCandidates(SweptCandidates),
    /// The device has decided about the candidates.
    Decided(Decided),
}

/// The decisions about consecutive queries.
#[derive(Default)]
pub struct Decided {
    /// Empty for a query that stays open.
    pub nearest: NeighbourLists,
    /// By query, if it stays open, an upper bound on the distances in the answer.
    pub limits: Vec<Option<f64>>,
}

/// The candidates of a batch of queries.
pub struct SweptCandidates {
    /// Number of candidates kept of each query.
    pub capacity: usize,
    /// Number of candidates of a query for which the sweep had room.
    pub room: usize,
    /// Number of candidates found of each query. If it is larger than `room`, some candidates were
    /// dropped.
    pub counts: Vec<u32>,
    /// For each query, a lower bound on the keys of all references that were not kept.
    pub floors: Vec<u64>,
    /// `capacity` keys of each query, in increasing order.
    pub keys: Vec<u64>,
}

impl SweptCandidates {
    /// Writes the candidates of the `i`-th query of the batch, which is the `at`-th query of the
    /// request, to `found`: lower bounds and indices, in increasing order. Returns a lower bound on
    /// the distances of all other references within the limit, if there are any.
    ///
    /// # Errors
    /// The query's limit, if the sweep dropped candidates.
    pub fn of(
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
        // Before this sort, equal bounds are in the order of positions.
        found.sort_unstable_by_key(|&(bound, index)| (bound.to_bits(), index));
        let beyond = first_beyond(frame.limit(limit));
        Ok((self.floors[i] != beyond).then(|| in_data_units(self.floors[i])))
    }
}
