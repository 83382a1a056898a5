//! The CPU: all cores, and the widest vectors that the processor has.

mod dissimilarities;
mod distances;
mod nearest;
mod neighbours;
mod screen;
mod share;
pub mod simd;

use rayon::prelude::*;

use super::neighbours::Space;
use super::screen::{Frame, Screen};
use super::{Backend, Merge, Task};
use crate::distances::Pairs;
use crate::error::{Error, Result};
use crate::kmeans::{self, Assigned, Start};
use crate::linkage::lance_williams::Recurrence;
use crate::linkage::matrix::{self, Origin};
use crate::mahalanobis::{agglomerate, Problem};
use crate::matrix::Matrix;
use crate::memory;
use crate::metric::{Metric, Points};
use crate::monitor::Monitor;
pub use dissimilarities::CpuDissimilarities;
pub use neighbours::{Best, CpuNeighbours};
pub use screen::CpuScreen;

/// A pool of threads.
pub struct Cpu {
    pool: rayon::ThreadPool,
}

impl Cpu {
    /// With `threads` threads.
    ///
    /// # Errors
    /// `Error::Input` for 0 threads, `Error::Memory` when the system refuses to start them.
    pub fn new(threads: usize) -> Result<Self> {
        if threads == 0 {
            return Err(Error::Input(
                "`threads` is 0, it needs to be at least 1".into(),
            ));
        }
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("gmhclust-{i}"))
            .build()
            .map_err(|error| Error::Memory(format!("cannot start {threads} threads: {error}")))?;
        Ok(Self { pool })
    }
}

impl Cpu {
    /// Runs `work` where rayon divides it among the threads of the pool.
    pub fn install<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.pool.install(work)
    }

    /// Agglomerates the problems on the pool, each on the screens that `new_screen` makes, given
    /// the problem's number, the problem and how many clusters live.
    pub fn agglomerate_on(
        &self,
        problems: &[&Problem<'_>],
        monitor: &Monitor,
        new_screen: impl Fn(usize, &Problem, usize, Frame) -> Result<Box<dyn Screen>> + Sync,
    ) -> Result<Vec<Vec<Merge>>> {
        for problem in problems {
            monitor.expect(agglomerate::work(problem));
        }
        self.pool.install(|| {
            problems
                .par_iter()
                .enumerate()
                .map(|(which, problem)| {
                    let screen = |live, frame| new_screen(which, problem, live, frame);
                    agglomerate::agglomerate(problem, screen, monitor)
                })
                .collect()
        })
    }
}

impl Cpu {
    /// As [`Backend::link`], with the distances that another backend makes.
    pub fn link_with(
        &self,
        backend: &dyn Backend,
        origin: Origin,
        recurrence: Recurrence,
        sizes: Vec<f64>,
        monitor: &Monitor,
    ) -> Result<Vec<Merge>> {
        let distances = |points: &Points, pairs: &Pairs, out: &mut [f64]| {
            backend.distances(points, pairs, out, monitor)
        };
        self.pool
            .install(|| matrix::merges(origin, recurrence, sizes, distances, monitor))
    }
}

impl Backend for Cpu {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn on_threads(&self, work: &mut (dyn FnMut() + Send)) {
        self.install(work);
    }

    fn agglomerate(&self, problems: &[Problem<'_>], monitor: &Monitor) -> Result<Vec<Vec<Merge>>> {
        let problems: Vec<&Problem> = problems.iter().collect();
        self.agglomerate_on(&problems, monitor, |_, problem, _, frame| {
            Ok(Box::new(CpuScreen::new(problem.clusters(), frame)))
        })
    }

    fn prepare(
        &self,
        metric: Metric,
        values: &[f64],
        rows: usize,
        columns: usize,
        monitor: &Monitor,
    ) -> Result<Points> {
        self.pool
            .install(|| Points::from_row_major(metric, copy(values)?, rows, columns, monitor))
    }

    fn search(&self, space: Space<'_>, monitor: &Monitor, task: &mut Task<'_>) -> Result<()> {
        self.pool
            .install(|| task(&mut CpuNeighbours::new(space, monitor)?))
    }

    fn link(
        &self,
        origin: Origin,
        recurrence: Recurrence,
        sizes: Vec<f64>,
        monitor: &Monitor,
    ) -> Result<Vec<Merge>> {
        self.link_with(self, origin, recurrence, sizes, monitor)
    }

    fn distances(
        &self,
        points: &Points,
        pairs: &Pairs,
        out: &mut [f64],
        monitor: &Monitor,
    ) -> Result<()> {
        self.pool
            .install(|| distances::distances(points, pairs, out, monitor))
    }

    fn kmeans(
        &self,
        x: &Matrix,
        start: Start,
        iterations: usize,
        monitor: &Monitor,
    ) -> Result<Assigned> {
        self.pool
            .install(|| kmeans::iterate(x, start, iterations, self, monitor))
    }
}

/// A copy, made by all threads of the pool that this is called from.
fn copy(values: &[f64]) -> Result<Vec<f64>> {
    /// So many values are worth a thread.
    const AT_A_TIME: usize = 1 << 16;

    let mut copy = memory::zeros(memory::OBSERVATIONS, values.len())?;
    copy.par_chunks_mut(AT_A_TIME)
        .zip(values.par_chunks(AT_A_TIME))
        .for_each(|(to, from)| to.copy_from_slice(from));
    Ok(copy)
}
