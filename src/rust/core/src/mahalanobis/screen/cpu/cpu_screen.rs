//! Requests divided among threads.

use std::ops::Range;

use rayon::prelude::*;

use super::layout::{Layout, GROUP};
use super::least_bounds::LeastBounds;
use super::store::ClusterStore;
use super::sweep::ClusterSweep;
use crate::error::Result;
use crate::mahalanobis::screen::frame::ClusterFrame;
use crate::mahalanobis::screen::request::{Screen, ScreenAnswer, ScreenRequest};
use crate::mahalanobis::screen::view::ClusterView;
use crate::next_float::NextFloat;
use crate::roster::Roster;
use crate::simd::dispatch;

/// Fewest coordinates of clusters that a sweep divides among threads. Fewer take less time than to
/// wake a thread.
const MIN_PARALLEL_COORDINATES: usize = 1 << 18;

/// The screen on the CPU.
pub struct CpuScreen {
    /// Data units per screen unit.
    unit: f64,
    store: ClusterStore,
}

impl CpuScreen {
    /// Empty, for clusters in slots below `slots`.
    pub fn new(slots: usize, frame: ClusterFrame) -> Self {
        Self {
            unit: frame.unit(),
            store: ClusterStore::new(slots, Layout::new(&frame)),
        }
    }

    /// The answer to a request, by up to this many threads.
    fn answer(&self, request: &ScreenRequest, threads: usize) -> ScreenAnswer {
        let ceiling = (request.limit / self.unit) as f32;
        let store = &self.store;
        let part = |blocks: Range<usize>| {
            let nearest = LeastBounds::new(request.capacity, ceiling.next_above());
            if store.layout.is_double {
                dispatch(ClusterSweep::<true>::new(store, request, blocks, nearest))
            } else {
                dispatch(ClusterSweep::<false>::new(store, request, blocks, nearest))
            }
        };
        let blocks = store.blocks_before(request.end);
        let coordinates = request.end * store.layout.dimensions;
        let nearest = if threads == 1 || coordinates < MIN_PARALLEL_COORDINATES {
            part(0..blocks)
        } else {
            let share = blocks.div_ceil(threads).next_multiple_of(GROUP);
            // Fewer parts than threads where there are fewer groups.
            (0..blocks.div_ceil(share))
                .into_par_iter()
                .map(|t| part(t * share..((t + 1) * share).min(blocks)))
                .reduce_with(LeastBounds::merge)
                .expect("there is a block")
        };
        nearest.into_answer(self.unit)
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
        let coordinates = positions * this.store.layout.dimensions;
        let threads = rayon::current_num_threads();
        if coordinates < MIN_PARALLEL_COORDINATES {
            return Ok(requests.iter().map(|r| this.answer(r, 1)).collect());
        }
        // A part of a sweep finds its limit by itself, so parts take longer than the whole.
        let each = (threads / requests.len()).max(1);
        Ok(requests.par_iter().map(|r| this.answer(r, each)).collect())
    }

    fn sweeps_on_threads(&self) -> bool {
        rayon::current_num_threads() > 1
    }

    fn batch(&self) -> usize {
        4 * rayon::current_num_threads()
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
