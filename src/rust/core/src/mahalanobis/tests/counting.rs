//! A screen of the CPU that counts its sweeps and what it finds in them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use crate::error::Result;
use crate::mahalanobis::screen::cpu::CpuScreen;
use crate::mahalanobis::screen::{ClusterFrame, ClusterView, Screen, ScreenAnswer, ScreenRequest};
use crate::roster::Roster;

/// The counts of some screens.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    requests: Arc<AtomicUsize>,
    sweeps: Arc<AtomicUsize>,
    candidates: Arc<AtomicUsize>,
}

impl Counts {
    /// Number of requests.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// Number of sweeps, each for one request or several.
    pub fn sweeps(&self) -> usize {
        self.sweeps.load(Ordering::Relaxed)
    }

    /// Number of candidates in all answers.
    pub fn candidates(&self) -> usize {
        self.candidates.load(Ordering::Relaxed)
    }
}

/// A screen that counts. By default it has the batch of its screen, and does not sweep on threads.
pub struct Counting {
    screen: CpuScreen,
    pub batch: usize,
    pub on_threads: bool,
    counts: Counts,
}

impl Counting {
    /// Empty, for slots below `slots`.
    pub fn new(slots: usize, frame: ClusterFrame, counts: &Counts) -> Self {
        let screen = CpuScreen::new(slots, frame);
        Self {
            batch: screen.batch(),
            on_threads: false,
            counts: counts.clone(),
            screen,
        }
    }
}

impl Screen for Counting {
    fn push(&mut self, slot: u32, view: &ClusterView) -> Result<()> {
        self.screen.push(slot, view)
    }

    fn remove(&mut self, slot: u32) -> Result<()> {
        self.screen.remove(slot)
    }

    fn roster(&self) -> &Roster {
        self.screen.roster()
    }

    fn sweep(
        &mut self,
        requests: &[ScreenRequest<'_>],
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Vec<ScreenAnswer>> {
        let answers = self.screen.sweep(requests, meanwhile)?;
        let candidates = answers.iter().map(|found| found.bounds.len()).sum();
        self.counts.sweeps.fetch_add(1, Ordering::Relaxed);
        self.counts
            .requests
            .fetch_add(answers.len(), Ordering::Relaxed);
        self.counts
            .candidates
            .fetch_add(candidates, Ordering::Relaxed);
        Ok(answers)
    }

    fn sweeps_on_threads(&self) -> bool {
        self.on_threads
    }

    fn batch(&self) -> usize {
        self.batch
    }

    fn is_outgrown(&self, _: usize) -> bool {
        false
    }
}
