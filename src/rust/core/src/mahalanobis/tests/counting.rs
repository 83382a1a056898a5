//! A CPU whose screens count their sweeps and what they find in them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use crate::cpu::{Cpu, Device};
use crate::error::Result;
use crate::mahalanobis::screen::cpu::CpuScreen;
use crate::mahalanobis::screen::{ClusterFrame, ClusterView, Screen, ScreenAnswer, ScreenRequest};
use crate::mahalanobis::{AgglomerationDevice, Problem};
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

/// A CPU whose screens are all counted together.
pub struct CountingDevice {
    cpu: Cpu,
    /// Requests that a sweep answers at a time; `None`: as many as on the CPU.
    pub batch: Option<usize>,
    /// Whether its screens sweep on threads.
    pub on_threads: bool,
    pub counts: Counts,
}

impl Default for CountingDevice {
    fn default() -> Self {
        Self {
            cpu: Cpu::new(1).unwrap(),
            batch: None,
            on_threads: false,
            counts: Counts::default(),
        }
    }
}

impl Device for CountingDevice {
    fn cpu(&self) -> &Cpu {
        &self.cpu
    }
}

impl AgglomerationDevice for CountingDevice {
    fn screen(
        &self,
        _: usize,
        problem: &Problem,
        _: usize,
        frame: ClusterFrame,
    ) -> Result<Box<dyn Screen>> {
        let screen = CpuScreen::new(problem.clusters(), frame);
        Ok(Box::new(Counting {
            batch: self.batch.unwrap_or(screen.batch()),
            on_threads: self.on_threads,
            counts: self.counts.clone(),
            screen,
        }))
    }
}

/// Counts what its screen does.
struct Counting {
    screen: CpuScreen,
    batch: usize,
    on_threads: bool,
    counts: Counts,
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
