//! GPUs, for the work that the planner leaves to them.

use gmhclust_core::distances::{DistanceDevice, Pairs};
use gmhclust_core::kmeans::{Assigned, KMeansDevice, Start};
use gmhclust_core::linkage::dissimilarities::Dissimilarities;
use gmhclust_core::linkage::{LinkageDevice, Origin, Recurrence};
use gmhclust_core::mahalanobis::screen::{ClusterFrame, Screen};
use gmhclust_core::mahalanobis::{AgglomerationDevice, Problem, WholeProblems};
use gmhclust_core::metric::Points;
use gmhclust_core::neighbours::{NeighbourDevice, Neighbours, Space};
use gmhclust_core::{Cpu, Device, Error, Matrix, Merge, Monitor, Result};
use gmhclust_cuda::Cuda;

use super::planner::Planner;
use super::Engines;

/// CUDA devices, and the CPU for work that is faster there.
pub struct Gpu {
    cuda: Cuda,
    planner: Planner,
}

impl Gpu {
    /// With these devices (all that can be used where `None`) beside `threads` threads.
    ///
    /// # Errors
    /// As [`Cuda::new`].
    pub fn new(devices: Option<&[usize]>, threads: usize) -> Result<Self> {
        let planner = Planner::new(threads);
        let cuda = Cuda::new(devices, threads, planner.handover())?;
        Ok(Self { cuda, planner })
    }
}

impl Engines for Gpu {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn failed(&self, error: Error) -> Error {
        let forgotten: Result<()> = self.cuda.forget_on_failure(Err(error));
        forgotten.expect_err("it was one before")
    }
}

impl Device for Gpu {
    fn cpu(&self) -> &Cpu {
        self.cuda.cpu()
    }
}

impl AgglomerationDevice for Gpu {
    fn screen(
        &self,
        number: usize,
        problem: &Problem,
        live: usize,
        frame: ClusterFrame,
    ) -> Result<Box<dyn Screen>> {
        self.cuda.screen(number, problem, live, frame)
    }

    fn whole_problems(&self) -> Option<&dyn WholeProblems> {
        Some(self)
    }
}

impl WholeProblems for Gpu {
    fn choose(&self, problems: &[Problem<'_>], monitor: &Monitor) -> Result<Vec<usize>> {
        let fit = self.cuda.fit_in_blocks(problems, monitor)?;
        Ok(self.planner.in_blocks(problems, &fit))
    }

    fn merge(&self, problems: &[&Problem<'_>], monitor: &Monitor) -> Result<Vec<Vec<Merge>>> {
        self.cuda.merge(problems, monitor)
    }
}

impl NeighbourDevice for Gpu {
    fn references<'a>(
        &'a self,
        space: Space<'a>,
        monitor: &'a Monitor,
    ) -> Result<Box<dyn Neighbours + 'a>> {
        self.cuda.references(space, monitor)
    }
}

impl DistanceDevice for Gpu {
    fn distances(
        &self,
        points: &Points,
        pairs: &Pairs,
        out: &mut [f64],
        monitor: &Monitor,
    ) -> Result<()> {
        self.cuda.distances(points, pairs, out, monitor)
    }
}

impl LinkageDevice for Gpu {
    fn dissimilarities<'a>(
        &'a self,
        origin: Origin<'a>,
        n: usize,
        recurrence: Recurrence,
        monitor: &Monitor,
    ) -> Result<Box<dyn Dissimilarities + 'a>> {
        if self.planner.links_on_gpu(n) {
            self.cuda.dissimilarities(origin, n, recurrence, monitor)
        } else {
            self.cpu().dissimilarities(origin, n, recurrence, monitor)
        }
    }
}

impl KMeansDevice for Gpu {
    fn iterate(
        &self,
        x: &Matrix,
        start: Start,
        iterations: usize,
        monitor: &Monitor,
    ) -> Result<Assigned> {
        let centers = start.centers(x.columns());
        if self.planner.iterates_on_gpu(x.values().len(), centers) {
            self.cuda.iterate(x, start, iterations, monitor)
        } else {
            self.cpu().iterate(x, start, iterations, monitor)
        }
    }
}
