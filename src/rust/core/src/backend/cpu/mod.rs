//! The CPU: all cores, and the widest vectors that the processor has.

mod dissimilarities;
mod distances;
mod nearest;
mod neighbours;
mod screen;
mod share;
pub mod simd;

use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;

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

/// Bytes of address space that a thread takes: its stack, 2 MiB unless the user's environment says
/// otherwise, and what the system keeps for it.
const THREAD_BYTES: usize = 9 << 18;

/// A pool of threads.
pub struct Cpu {
    /// Dropped first, which tells the threads to end.
    pool: rayon::ThreadPool,
    /// Dropped next, so that the next computation finds their memory free.
    _threads: Threads,
}

/// The threads of a pool; where they are dropped, they have been told to end.
#[derive(Default)]
struct Threads(Vec<JoinHandle<()>>);

impl Drop for Threads {
    fn drop(&mut self) {
        for thread in self.0.drain(..) {
            // The pool hands panics to those who gave the work.
            let _ = thread.join();
        }
    }
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
        let mut started = Threads::default();
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("gmhclust-{i}"))
            .spawn_handler(|thread| start(thread).map(|thread| started.0.push(thread)))
            .build();
        match pool {
            Ok(pool) => Ok(Self {
                pool,
                _threads: started,
            }),
            Err(error) => {
                let advice = "fewer `threads` need less memory";
                let message = format!("cannot start {threads} threads: {error}; {advice}");
                Err(Error::Memory(message))
            }
        }
    }
}

/// Starts a thread of a pool.
fn start(thread: rayon::ThreadBuilder) -> io::Result<JoinHandle<()>> {
    // A thread that has no memory for what the system keeps for it ends the process. So there must
    // be enough before it starts, and nothing else is done until it has.
    memory::room::<u8>("a thread needs", THREAD_BYTES)
        .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let mut builder = std::thread::Builder::new();
    if let Some(name) = thread.name() {
        builder = builder.name(name.into());
    }
    let (up, is_up) = mpsc::channel();
    let started = builder.spawn(move || {
        // Nobody listens where the starter has gone.
        let _ = up.send(());
        thread.run();
    })?;
    // An error would mean that it has ended.
    let _ = is_up.recv();
    Ok(started)
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
        let largest = problems.iter().map(|problem| problem.working_memory());
        memory::check("the clustering needs", largest.fold(0.0, f64::max))?;
        for problem in problems {
            monitor.expect(agglomerate::work(problem));
        }
        self.install(|| {
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
        self.install(|| matrix::merges(origin, recurrence, sizes, distances, monitor))
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
        self.install(|| Points::from_row_major(metric, copy(values)?, rows, columns, monitor))
    }

    fn search(&self, space: Space<'_>, monitor: &Monitor, task: &mut Task<'_>) -> Result<()> {
        self.install(|| task(&mut CpuNeighbours::new(space, monitor)?))
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
        self.install(|| distances::distances(points, pairs, out, monitor))
    }

    fn kmeans(
        &self,
        x: &Matrix,
        start: Start,
        iterations: usize,
        monitor: &Monitor,
    ) -> Result<Assigned> {
        self.install(|| kmeans::iterate(x, start, iterations, self, monitor))
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
