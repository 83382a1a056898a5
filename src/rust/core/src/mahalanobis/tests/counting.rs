//! CPU screens that count the requests they answer and the candidates they find.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use crate::error::Result;
use crate::mahalanobis::screen::cpu::CpuScreen;
use crate::mahalanobis::screen::{
    ClusterFrame, ClusterView, Screen, ScreenAnswer, ScreenRequest, ThreadedScreen,
};
use crate::roster::Roster;

/// The counts of some screens.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    requests: Arc<AtomicUsize>,
    candidates: Arc<AtomicUsize>,
}

impl Counts {
    /// An empty CPU screen, for clusters in slots below `slots`, that adds to these counts.
    pub fn screen(&self, slots: usize, frame: ClusterFrame) -> Box<dyn Screen> {
        Box::new(Counting {
            screen: CpuScreen::new(slots, frame),
            counts: self.clone(),
        })
    }

    fn add(&self, answer: &ScreenAnswer) {
        let candidates = answer.bounds.len();
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.candidates.fetch_add(candidates, Ordering::Relaxed);
    }

    /// Number of requests.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// Number of candidates in all answers.
    pub fn candidates(&self) -> usize {
        self.candidates.load(Ordering::Relaxed)
    }
}

/// A screen that counts its requests and candidates.
struct Counting {
    screen: CpuScreen,
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
        for answer in &answers {
            self.counts.add(answer);
        }
        Ok(answers)
    }

    fn on_threads(&self) -> Option<&dyn ThreadedScreen> {
        Some(self)
    }

    fn wanted(&self, members: usize) -> usize {
        self.screen.wanted(members)
    }

    fn batch(&self) -> usize {
        self.screen.batch()
    }

    fn is_outgrown(&self, _: usize) -> bool {
        false
    }
}

impl ThreadedScreen for Counting {
    fn answer(&self, request: &ScreenRequest<'_>, threads: usize) -> ScreenAnswer {
        let answer = self.screen.answer(request, threads);
        self.counts.add(&answer);
        answer
    }
}
