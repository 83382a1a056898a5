//! The CPU's screen, which divides requests among threads.

use rayon::prelude::*;

#[cfg(test)]
use super::counting;
use super::layout::{Layout, GROUP_LANES};
use super::least_bounds::{LeastBounds, SharedLimit};
use super::store::ClusterStore;
use super::sweep::{ClusterSweep, NearGroups};
use crate::active_positions::ActivePositions;
use crate::error::Result;
use crate::mahalanobis::options::Distance;
use crate::mahalanobis::screen::frame::ClusterFrame;
use crate::mahalanobis::screen::request::{ScreenAnswer, ScreenRequest};
use crate::mahalanobis::screen::view::ClusterView;
use crate::next_float::NextFloat;
use crate::simd::dispatch;

/// Smallest number of coordinates (clusters × dimensions) for which searches are divided among
/// threads. One thread compares fewer coordinates faster. Only the time depends on it.
pub const MIN_PARALLEL_COORDINATES: usize = 1 << 14;

/// Smallest number of coordinates of clusters in near groups for each thread of a divided sweep:
/// about 3 µs of work. Only the time depends on it.
const MIN_COORDINATES_OF_PART: usize = 1 << 15;

/// The active clusters of one problem, and lower bounds on their distances. Positions are in order
/// of birth.
pub struct CpuScreen {
    /// Data units per screen unit.
    unit: f64,
    store: ClusterStore,
}

impl CpuScreen {
    /// An empty screen for clusters in slots below `slots`.
    pub fn new(slots: usize, frame: &ClusterFrame) -> Self {
        Self {
            unit: frame.unit(),
            store: ClusterStore::new(slots, Layout::new(frame)),
        }
    }

    /// Adds a cluster as the youngest.
    ///
    /// # Errors
    /// `Error::Memory` if there is not enough memory.
    pub fn push(&mut self, slot: u32, view: &ClusterView) -> Result<()> {
        self.store.push(slot, view)
    }

    /// Removes a cluster.
    pub fn remove(&mut self, slot: u32) {
        self.store.remove(slot);
    }

    /// The position of each slot.
    pub fn active(&self) -> &ActivePositions {
        &self.store.active
    }

    /// Number of candidates that the first search for a cluster with this number of members asks
    /// for. A smaller number means more searches. A larger number means longer searches. Only the
    /// time depends on it.
    pub fn wanted(&self, members: usize) -> usize {
        match self.store.layout.distance {
            // Bounds are looser for means over members.
            Distance::FullMahalanobis if members > 1 => 12,
            _ => 5,
        }
    }

    /// Answers all requests, on the threads of the caller's pool.
    pub fn sweep(&self, requests: &[ScreenRequest<'_>]) -> Vec<ScreenAnswer> {
        let positions: usize = requests.iter().map(|r| r.end).sum();
        if positions * self.store.layout.dimensions < MIN_PARALLEL_COORDINATES {
            return requests.iter().map(|r| self.answer(r, 1)).collect();
        }
        let each = (rayon::current_num_threads() / requests.len()).max(1);
        requests.par_iter().map(|r| self.answer(r, each)).collect()
    }

    /// Answers a request, on at most `threads` threads of the caller's pool.
    pub fn answer(&self, request: &ScreenRequest<'_>, threads: usize) -> ScreenAnswer {
        let answer = if self.store.layout.is_double {
            self.sweep_for::<true>(request, threads)
        } else {
            self.sweep_for::<false>(request, threads)
        };
        #[cfg(test)]
        counting::add(&answer);
        answer
    }

    /// As [`answer`](Self::answer). `DOUBLE` says that coordinates have second parts.
    fn sweep_for<const DOUBLE: bool>(
        &self,
        request: &ScreenRequest<'_>,
        threads: usize,
    ) -> ScreenAnswer {
        let store = &self.store;
        let ceiling = ((request.limit / self.unit) as f32).next_above();
        let blocks = store.blocks_before(request.end);
        let groups = dispatch(NearGroups::<DOUBLE> {
            store,
            query: request.view,
            blocks,
            limit: ceiling,
        });
        let limit = SharedLimit::new(ceiling);
        let part = |part: usize, of: usize| {
            dispatch(ClusterSweep::<DOUBLE> {
                store,
                request,
                groups: &groups,
                part,
                of,
                blocks,
                limit: &limit,
                nearest: LeastBounds::new(request.capacity, ceiling),
            })
        };
        let coordinates = groups.len() * GROUP_LANES * store.layout.dimensions;
        let parts = threads.min(coordinates / MIN_COORDINATES_OF_PART);
        let nearest = if parts < 2 {
            part(0, 1)
        } else {
            let all = (0..parts).into_par_iter().with_max_len(1);
            let nearest = all.map(|nth| part(nth, parts));
            nearest
                .reduce_with(LeastBounds::merge)
                .expect("there is a part")
        };
        nearest.into_answer(self.unit)
    }
}
