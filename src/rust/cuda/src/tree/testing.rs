//! A device whose large trees are grown by what is tested, for all else a CPU.

use std::sync::atomic::{AtomicUsize, Ordering};

use gmhclust_core::error::Result;
use gmhclust_core::mahalanobis::{AgglomerationDevice, BoundingBox, Problem};
use gmhclust_core::{Cpu, Device, Merge, Monitor};

type Grow<'a> =
    dyn Fn(&Problem, &BoundingBox, &Monitor) -> Result<Option<Vec<Merge>>> + Send + Sync + 'a;

pub struct Trees<'a> {
    grow: Box<Grow<'a>>,
    pub cpu: Cpu,
    /// Number of problems that `grow` got, and of those whose tree it made.
    asked: AtomicUsize,
    grown: AtomicUsize,
}

impl<'a> Trees<'a> {
    pub fn new<G>(cpu: Cpu, grow: G) -> Self
    where
        G: Fn(&Problem, &BoundingBox, &Monitor) -> Result<Option<Vec<Merge>>> + Send + Sync + 'a,
    {
        Self {
            grow: Box::new(grow),
            cpu,
            asked: AtomicUsize::new(0),
            grown: AtomicUsize::new(0),
        }
    }

    /// Number of problems, and of those whose tree was grown.
    pub fn counts(self) -> (usize, usize) {
        (self.asked.into_inner(), self.grown.into_inner())
    }
}

impl Device for Trees<'_> {
    fn name(&self) -> &'static str {
        "trees"
    }

    fn cpu(&self) -> &Cpu {
        &self.cpu
    }
}

impl AgglomerationDevice for Trees<'_> {
    fn grow(
        &self,
        _: usize,
        problem: &Problem,
        bounding_box: &BoundingBox,
        monitor: &Monitor,
    ) -> Result<Option<Vec<Merge>>> {
        let merges = (self.grow)(problem, bounding_box, monitor)?;
        self.asked.fetch_add(1, Ordering::Relaxed);
        let grown = usize::from(merges.is_some());
        self.grown.fetch_add(grown, Ordering::Relaxed);
        Ok(merges)
    }
}
