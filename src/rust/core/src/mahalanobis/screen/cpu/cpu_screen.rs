//! The CPU's screen: divides requests among threads.

use rayon::prelude::*;

use super::layout::{Layout, GROUP_LANES};
use super::least_bounds::{LeastBounds, SharedLimit};
use super::store::ClusterStore;
use super::sweep::{ClusterSweep, NearGroups};
use crate::error::Result;
use crate::mahalanobis::options::Distance;
use crate::mahalanobis::screen::frame::ClusterFrame;
use crate::mahalanobis::screen::request::{Screen, ScreenAnswer, ScreenRequest, ThreadedScreen};
use crate::mahalanobis::screen::view::ClusterView;
use crate::next_float::NextFloat;
use crate::roster::Roster;
use crate::simd::dispatch;

/// Smallest number of merges that are prepared together. Fewer merges do not keep all threads
/// equally busy; more merges are often outdated before their turn comes. Only the time depends on
/// it.
const MIN_BATCH: usize = 32;

/// Smallest number of coordinates (clusters × dimensions) for which searches are divided among
/// threads. Fewer coordinates are compared faster by one thread. Only the time depends on it.
pub const MIN_PARALLEL_COORDINATES: usize = 1 << 14;

/// Smallest number of coordinates, of clusters in near groups, for each thread of a divided sweep:
/// about 3 µs of work. Only the time depends on it.
const MIN_COORDINATES_OF_PART: usize = 1 << 15;

/// The screen on the CPU.
pub struct CpuScreen {
    /// Data units per screen unit.
    unit: f64,
    store: ClusterStore,
}

impl CpuScreen {
    /// An empty screen for clusters in slots below `slots`.
    pub fn new(slots: usize, frame: ClusterFrame) -> Self {
        Self {
            unit: frame.unit(),
            store: ClusterStore::new(slots, Layout::new(&frame)),
        }
    }
}

impl CpuScreen {
    /// As [`answer`](ThreadedScreen::answer); `DOUBLE` where coordinates have second parts.
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

impl ThreadedScreen for CpuScreen {
    fn answer(&self, request: &ScreenRequest<'_>, threads: usize) -> ScreenAnswer {
        if self.store.layout.is_double {
            self.sweep_for::<true>(request, threads)
        } else {
            self.sweep_for::<false>(request, threads)
        }
    }
}

impl Screen for CpuScreen {
    fn push(&mut self, slot: u32, view: &ClusterView) -> Result<()> {
        self.store.push(slot, view)
    }

    fn remove(&mut self, slot: u32) -> Result<()> {
        self.store.remove(slot);
        Ok(())
    }

    fn roster(&self) -> &Roster {
        &self.store.roster
    }

    fn sweep(
        &mut self,
        requests: &[ScreenRequest<'_>],
        _: &mut dyn FnMut(),
    ) -> Result<Vec<ScreenAnswer>> {
        let this = &*self;
        let positions: usize = requests.iter().map(|r| r.end).sum();
        if positions * this.store.layout.dimensions < MIN_PARALLEL_COORDINATES {
            return Ok(requests.iter().map(|r| this.answer(r, 1)).collect());
        }
        let each = (rayon::current_num_threads() / requests.len()).max(1);
        Ok(requests.par_iter().map(|r| this.answer(r, each)).collect())
    }

    fn on_threads(&self) -> Option<&dyn ThreadedScreen> {
        Some(self)
    }

    fn wanted(&self, members: usize) -> usize {
        match self.store.layout.distance {
            // Bounds are looser for means over members.
            Distance::FullMahalanobis if members > 1 => 12,
            _ => 5,
        }
    }

    fn batch(&self) -> usize {
        MIN_BATCH.max(4 * rayon::current_num_threads())
    }

    fn is_outgrown(&self, _: usize) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mahalanobis::screen::checks::check_answers;
    use crate::mahalanobis::screen::frame::MeanPrecision;

    #[test]
    fn answers_are_what_they_promise() {
        for precision in [MeanPrecision::Single, MeanPrecision::Double] {
            check_answers(precision, |slots, frame| {
                Box::new(CpuScreen::new(slots, frame))
            });
        }
    }
}
